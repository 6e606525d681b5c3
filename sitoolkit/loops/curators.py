"""The state of memory comes in, proposed changes go out, each with its reason: one small function a curator.

A curator only looks. What it wants is an `Action`; `decay.plan_decay` gathers the actions of all curators, settles who wins
where several want the same row, and `decay.apply_decay` carries them out. Others are added by the entry point group
`sitoolkit.curators`: a function from a `Look` to actions.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Literal

from sitoolkit.prompt_block import strip_recalled
from sitoolkit.ranking import says_the_same
from sitoolkit.records import Category, Memory, Origin, Outcome, Record, iso

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from sitoolkit.settings import DecaySettings
    from sitoolkit.workspace import Workspace

__all__ = [
    "CURATORS",
    "Action",
    "Curator",
    "Look",
    "audit",
    "demote",
    "expire",
    "harm",
    "keep",
    "load_curators",
    "merge",
    "promote",
]

# What a demotion leaves of the confidence, and how much of what it lacks to 1 a citation gives back.
DEMOTED_SHARE = 0.5
CITED_GAIN = 0.1
CONFIDENCE_CAP = 0.95  # what was observed never counts as certain
_ENOUGH_CALLS = 10  # on each side of a lesson; fewer tell nothing
_MERGE_ROWS = 20_000  # a scope's rows of one category above which merge compares the newest alone


class Action(Record):
    """One change that a curator wants."""

    curator: str
    action: Literal["expire", "demote", "retire", "quarantine", "keep", "distil", "propose"]
    memory_id: str = ""
    category: str = ""
    scope: str = ""
    text: str = ""  # the beginning of the memory's text, for whoever reads the plan
    reason: str
    confidence: float | None = None  # what it becomes
    confidence_before: float | None = None
    proposal: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies defaults; for `propose`: fields of the proposal
    data: dict[str, Any] = {}  # noqa: RUF012 - counts and names behind the reason


@dataclass(frozen=True)
class Look:
    """What a curator sees: the active rows and how they were used, at one moment."""

    ws: Workspace
    now: datetime
    memories: Sequence[Memory]  # active, by id
    access: Mapping[str, tuple[int, datetime]]  # how often recalled, and when last
    nearly: Mapping[str, datetime]  # rows that a recall would have served with more room, and when last
    demoted: Mapping[str, datetime]  # when a row was last demoted
    raised: Mapping[str, datetime]  # when a citation last raised a row's confidence
    settings: DecaySettings = field(repr=False)

    @functools.cached_property
    def vectors(self) -> Mapping[str, NDArray[np.float32]]:
        """Unit vectors of the rows that have one."""
        snapshot = self.ws.memory.snapshot()
        return {
            id: snapshot.matrix[place]
            for place, id in enumerate(snapshot.frame["id"].to_list())
            if snapshot.has_vector[place]
        }

    def last_use(self, memory: Memory) -> datetime:
        """When the row was last recalled, seen again or written."""
        times = [memory.created_at, memory.last_seen]
        if memory.id in self.access:
            times.append(self.access[memory.id][1])
        return max((time for time in times if time is not None and time <= self.now), default=self.now)


Curator = Callable[[Look], Iterable[Action]]


def _about(memory: Memory) -> dict[str, Any]:
    return {
        "memory_id": memory.id,
        "category": str(memory.category),
        "scope": str(memory.scope),
        "text": " ".join(memory.text.split())[:120],
    }


def _base(*memories: Memory) -> dict[str, Any]:
    # As the gate compares it: a row that changed since makes the proposal stale.
    return {"memories": {memory.id: f"{memory.status}:{memory.content_hash}" for memory in memories}}


def _days(span: timedelta) -> int:
    return int(span.total_seconds() // 86_400)


# ---------------------------------------------------------------- the curators that come with sitoolkit


def expire(look: Look) -> Iterator[Action]:
    """Rows past their time to live."""
    for memory in look.memories:
        if memory.expires_at is not None and memory.expires_at <= look.now:
            yield Action(
                curator="expire",
                action="expire",
                reason=f"expired {iso(memory.expires_at)}",
                **_about(memory),
            )


def keep(look: Look) -> Iterator[Action]:
    """Rows that a recall served lately; a citation since the last rise raises their confidence a little, to 0.95 at most."""
    since = look.now - timedelta(days=look.settings.recent_days)
    for memory in look.memories:
        count, last = look.access.get(memory.id, (0, None))
        if last is None or not since <= last <= look.now:
            continue
        raised = look.raised.get(memory.id)
        gained = min(CONFIDENCE_CAP, memory.confidence + (1 - memory.confidence) * CITED_GAIN)
        rises = (
            gained > memory.confidence
            and memory.origin != Origin.DIRECTIVE
            and (raised is None or last > raised)
        )
        yield Action(
            curator="keep",
            action="keep",
            reason=f"recalled {count} times, last {_days(look.now - last)} days ago"
            + (f"; confidence {memory.confidence:.2f} to {gained:.2f}" if rises else ""),
            confidence=round(gained, 4) if rises else None,
            confidence_before=memory.confidence,
            data={"recalls": count, "last": iso(last)},
            **_about(memory),
        )


def demote(look: Look) -> Iterator[Action]:
    """Rows that no recall served, and nothing confirmed, in `unused_days`; half their confidence first, out the next time.

    Left alone: directives and what a user stated, and rows that stood just behind the last place of a recall in that time
    (with a larger k they would have been served).
    """
    unused = timedelta(days=look.settings.unused_days)
    since = look.now - unused
    for memory in look.memories:
        if memory.origin in (Origin.DIRECTIVE, Origin.USER_STATED):
            continue
        last = look.last_use(memory)
        if last > since or look.nearly.get(memory.id, since) > since:
            continue
        never = memory.id not in look.access
        idle = f"{'never recalled' if never else 'not recalled'}, unused for {_days(look.now - last)} days"
        before = look.demoted.get(memory.id)
        if before is None or before < last:
            lowered = round(memory.confidence * DEMOTED_SHARE, 4)
            yield Action(
                curator="demote",
                action="demote",
                reason=f"{idle}; confidence {memory.confidence:.2f} to {lowered:.2f}",
                confidence=lowered,
                confidence_before=memory.confidence,
                data={"last_use": iso(last)},
                **_about(memory),
            )
        elif look.now - before >= unused:
            yield Action(
                curator="demote",
                action="retire",
                reason=f"{idle}; demoted {_days(look.now - before)} days ago and not used since",
                data={"last_use": iso(last), "demoted": iso(before)},
                **_about(memory),
            )


def promote(look: Look) -> Iterator[Action]:
    """Events of one tool past the count that distilling needs become a distil job; a lesson that several agents learned, a proposal."""
    events: dict[tuple[str, str], int] = defaultdict(int)
    patterns: dict[tuple[str, str], int] = {}
    lessons: dict[str, list[Memory]] = defaultdict(list)
    for memory in look.memories:
        tool = str(memory.payload.get("tool") or "")
        if memory.category == Category.OPERATIONAL_EVENT and tool:
            events[str(memory.scope), tool] += memory.seen_count
        elif memory.category == Category.EXPERT_KNOWLEDGE and tool:
            patterns[str(memory.scope), tool] = int(memory.payload.get("sample_count") or 0)
        elif memory.category == Category.REFLECTION and memory.slot and memory.scope.kind == "agent":
            lessons[memory.slot].append(memory)
    for (scope, tool), count in sorted(events.items()):
        known = patterns.get((scope, tool))
        if count >= look.settings.promote_count and (known is None or count >= 2 * known):
            yield Action(
                curator="promote",
                action="distil",
                scope=scope,
                category=str(Category.OPERATIONAL_EVENT),
                reason=f"{count} events of {tool}, "
                + ("no pattern yet" if known is None else f"twice the {known} that its pattern rests on"),
                data={"tool": tool, "events": count},
            )
    for slot, held in sorted(lessons.items()):
        agents = sorted({memory.scope.name for memory in held})
        if len(agents) >= look.settings.promote_agents:
            yield _promote_scope(slot, held, agents)


def _promote_scope(slot: str, held: list[Memory], agents: list[str]) -> Action:
    best = max(held, key=lambda memory: (memory.confidence, memory.id))
    return Action(
        curator="promote",
        action="propose",
        reason=f"{len(agents)} agents learned it: {', '.join(agents[:6])}",
        proposal={
            "type": "promote-scope",
            "title": f"Give every agent the lesson on {best.payload.get('tool') or slot}",
            "description": best.text,
            "evidence": sorted({id for memory in held for id in memory.evidence}),
            "payload": {
                "memory_id": best.id,
                "from_scopes": [str(m.scope) for m in held],
                "to_scope": "global",
            },
            "base": _base(*held),
        },
        data={"agents": agents},
        **_about(best),
    )


def merge(look: Look) -> Iterator[Action]:
    """Rows of one scope and category that say the same in other words: a proposal to keep one of them."""
    threshold = look.ws.settings.recall.near_duplicate_cosine
    threshold = look.ws.embedder.near_duplicate_cosine if threshold is None else threshold
    groups: dict[tuple[str, str, str], list[Memory]] = defaultdict(list)
    for memory in look.memories:
        # Events are kept apart: each is an occurrence, and distilling needs their number.
        if memory.category != Category.OPERATIONAL_EVENT and memory.id in look.vectors:
            kind = (memory.slot or "").partition(":")[0]
            groups[str(memory.scope), str(memory.category), kind].append(memory)
    for key in sorted(groups):
        yield from _merge_group(groups[key][:_MERGE_ROWS], look.vectors, threshold)


def _merge_group(
    group: list[Memory], vectors: Mapping[str, NDArray[np.float32]], threshold: float
) -> Iterator[Action]:
    import numpy as np

    if len(group) < 2:
        return
    matrix = np.stack([vectors[memory.id] for memory in group])
    gone: set[int] = set()
    for start in range(0, len(group), 1_000):
        close = matrix[start : start + 1_000] @ matrix.T
        for row, other in zip(*np.nonzero(close >= threshold), strict=True):
            one, two = start + int(row), int(other)
            if one >= two or one in gone or two in gone:
                continue
            kept, dropped = sorted(
                (group[one], group[two]),
                key=lambda m: (-m.confidence, -m.seen_count, m.first_seen or m.created_at, m.id),
            )
            if not says_the_same(kept.text, dropped.text):
                continue
            gone.add(one if dropped is group[one] else two)
            cosine = round(float(close[row, other]), 3)
            yield Action(
                curator="merge",
                action="propose",
                reason=f"says the same as {kept.id} (cosine {cosine:.2f})",
                proposal={
                    "type": "merge",
                    "title": f"Keep one of two memories that say the same ({kept.category.slot_name})",
                    "description": f"Keep: {kept.text}\nDrop: {dropped.text}",
                    "evidence": sorted({*kept.evidence, *dropped.evidence}),
                    "payload": {"keep": kept.id, "drop": [dropped.id]},
                    "base": _base(kept, dropped),
                },
                data={"with": kept.id, "cosine": cosine},
                **_about(dropped),
            )


def harm(look: Look) -> Iterator[Action]:
    """Lessons since which their tool fails more often than before, beyond chance: a proposal to retire them.

    Beyond chance: the 95 % Wilson intervals of the failure rates before and after do not overlap. At least ten calls on
    each side; fewer tell nothing.
    """
    from sitoolkit.claims.stats import wilson_lower, wilson_upper

    lessons = [
        m
        for m in look.memories
        if m.category == Category.REFLECTION and m.payload.get("tool") and m.created_at
    ]
    if not lessons:
        return
    calls = look.ws.telemetry.calls_frame(
        until=look.now,
        tools=sorted({str(memory.payload["tool"]) for memory in lessons}),
        columns=["tool", "agent", "outcome", "failure_mode", "happened_at"],
    )
    for memory in lessons:
        before, after = _failures_around(memory, calls)
        if min(before[1], after[1]) < _ENOUGH_CALLS or wilson_lower(*after) <= wilson_upper(*before):
            continue
        tool = memory.payload["tool"]
        yield Action(
            curator="harm",
            action="propose",
            reason=f"{tool} failed {before[0]} of {before[1]} calls before the lesson and {after[0]} of {after[1]} since",
            proposal={
                "type": "retire-memory",
                "title": f"Retire a lesson on {tool} that did not help",
                "description": memory.text,
                "evidence": list(memory.evidence),
                "payload": {"memory_id": memory.id, "reason": "its tool fails more often since"},
                "base": _base(memory),
            },
            data={"before": list(before), "after": list(after)},
            **_about(memory),
        )


def _failures_around(memory: Memory, calls: pl.DataFrame) -> tuple[tuple[int, int], tuple[int, int]]:
    """Failures and calls of a lesson's tool before and since the lesson, of its failure mode where it names one."""
    import polars as pl

    mode = memory.payload.get("failure_mode") or memory.payload.get("mode")
    seen = calls.filter(pl.col("tool") == str(memory.payload["tool"]))
    if memory.scope.kind == "agent":
        seen = seen.filter(pl.col("agent") == memory.scope.name)
    failed = pl.col("outcome").is_in([str(Outcome.FAILURE), str(Outcome.TIMEOUT)])
    if mode:
        failed &= pl.col("failure_mode").fill_null("") == str(mode)
    sides = [
        seen.filter(pl.col("happened_at") < memory.created_at),
        seen.filter(pl.col("happened_at") >= memory.created_at),
    ]
    one, two = ((side.select(failed.sum()).item(), side.height) for side in sides)
    return one, two


_EMPTY = re.compile(
    r"^(?:none|null|nil|n/?a|ok|done|success|true|false|\{\}|\[\]|\"\"|''|-+|\.+|…)?$", re.IGNORECASE
)
_PROMPT = re.compile(
    r"^(?:system|user|assistant|human)\s*:|^you are (?:a|an|the) |^<\|im_start\||^\[INST\]|^### ?instruction",
    re.IGNORECASE,
)


def audit(look: Look) -> Iterator[Action]:
    """Rows that are no knowledge: recalled text taken in again, a prompt restated, an empty result."""
    for memory in look.memories:
        if memory.origin == Origin.DIRECTIVE:
            continue
        text = memory.text.strip()
        reason = None
        if strip_recalled(text) != text:
            reason = "holds a recalled block: what was recalled is not learned again"
        elif _EMPTY.match(text) or not any(character.isalnum() for character in text):
            reason = "says nothing"
        elif memory.category != Category.OPERATIONAL_EVENT and _PROMPT.match(text):
            reason = "restates a prompt"
        if reason:
            yield Action(curator="audit", action="quarantine", reason=reason, **_about(memory))


# In the order of precedence: the first that wants to change a row's status or confidence has it.
CURATORS: dict[str, Curator] = {
    "expire": expire,
    "audit": audit,
    "keep": keep,
    "demote": demote,
    "promote": promote,
    "merge": merge,
    "harm": harm,
}


def load_curators() -> dict[str, Curator]:
    """The curators that come with sitoolkit, and those of the entry point group `sitoolkit.curators`, behind them."""
    found = dict(CURATORS)
    for point in sorted(entry_points(group="sitoolkit.curators"), key=lambda point: point.name):
        if point.name not in found:
            found[point.name] = point.load()
    return found
