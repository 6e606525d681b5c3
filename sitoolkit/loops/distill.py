"""L2: captured events come in, one pattern a tool and scope goes out: what its successful calls have in common.

Nothing here is guessed: claims are computed by `sitoolkit.claims` and worded through one seam. A pattern is about distinct argument
sets; five identical calls count as one. Running again leaves an unchanged pattern alone and supersedes a changed one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import Field

from sitoolkit.claims import group_contents
from sitoolkit.learning.patterns import Pattern, distill, pattern_confidence, pattern_text
from sitoolkit.records import (
    Category,
    Claim,
    Memory,
    Origin,
    Outcome,
    Record,
    Scope,
    Source,
    Status,
    ToolInvocation,
    digest,
    iso,
    parse_time,
)
from sitoolkit.writes import is_precedent

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = [
    "DistillReport",
    "Pattern",
    "Window",
    "distill",
    "distill_patterns",
    "pattern_confidence",
    "pattern_text",
]


class Window(Record):
    """Which time of a scope was looked at, and how many events had no time of their own."""

    scope: Scope
    start: str | None
    end: str | None
    events: int
    undated: int = 0  # placed at their import
    outside: int = 0


class DistillReport(Record):
    """What a run of `distill_patterns` saw and wrote."""

    groups_seen: int = 0
    groups_processed: int = 0
    skipped_low_samples: int = 0
    patterns_written: int = 0
    patterns_superseded: int = 0
    patterns_unchanged: int = 0
    patterns_failed: int = 0
    claims_dropped: int = (
        0  # wordings of a model that said more than their claim; its own text stands instead
    )
    dropped: tuple[dict[str, str], ...] = ()  # each of them: tool, claim, text, reason
    worded_by_model: int = 0
    worded_by_template: int = 0
    dry_run: bool = False
    patterns: tuple[Pattern, ...] = ()
    skipped: tuple[dict[str, Any], ...] = ()  # groups below the minimum: tool, scope, sample_count
    windows: tuple[Window, ...] = Field(default=(), description="one a scope")
    notes: tuple[str, ...] = ()


def distill_patterns(
    ws: Workspace,
    scope: str | None = None,
    min_samples: int | None = None,
    window_days: float | None = None,
    as_of: datetime | str | None = None,
    dry_run: bool = False,
) -> DistillReport:
    """Find what captured events have in common, and keep it as `expert_knowledge` memories.

    >>> report = distill_patterns(ws, scope="agent:ops")
    >>> report.patterns[0].claims[0].text
    '`register_service` is always called with the arguments `name`, `kind`, `endpoint` and `token_env`, and no other.'

    Args:
        ws: the workspace; events are read from its telemetry, patterns written to its memory.
        scope: only events of this scope; all scopes otherwise.
        min_samples: distinct argument sets a group needs; `distill.min_samples` otherwise (5, the seed's).
        window_days: how many days the window reaches back; `distill.window_days` otherwise (30, the seed's).
        as_of: end of the window; by default the newest event of each scope, so that old transcripts can be studied and the
            same events give the same patterns on any day.
        dry_run: compute and word, write nothing.

    Raises:
        ScopeError, TimeError: the scope or time is not one.
        StoreLocked: another writer holds the workspace.
    """
    only = Scope(scope) if scope is not None else None
    end = parse_time(as_of)
    config = ws.settings.distill
    minimum = config.min_samples if min_samples is None else max(2, int(min_samples))
    days = config.window_days if window_days is None else float(window_days)
    events, imported, lines = _events(ws, only)
    kept, windows = _in_window(events, imported, days, end)
    groups: dict[tuple[Scope, str], list[ToolInvocation]] = defaultdict(list)
    for call in kept:
        groups[call.scope, call.tool].append(call)
    patterns = distill(
        kept, lines, min_samples=minimum, min_support=config.min_support, max_claims=config.max_claims
    )
    done = {(pattern.scope, pattern.tool) for pattern in patterns}
    skipped = tuple(
        {"tool": tool, "scope": str(at), "sample_count": len(group_contents(calls))}
        for (at, tool), calls in sorted(groups.items())
        if (at, tool) not in done
    )
    base = DistillReport(
        groups_seen=len(groups),
        groups_processed=len(patterns),
        skipped_low_samples=len(skipped),
        skipped=skipped,
        windows=tuple(windows),
        notes=_notes(windows),
        dry_run=dry_run,
    )
    if dry_run:
        return _write(ws, patterns, base, run_id=None)
    with ws.run("distill", scope=scope, min_samples=minimum, window_days=days, as_of=iso(end)) as run:
        return _write(ws, patterns, base, run_id=run.id)


_COLUMNS = (
    "id", "content_hash", "session_id", "seq", "tool", "args", "started_at", "is_write", "agent", "project", "team", "org", "ran",
    "abandoned", "imported_at",
)  # fmt: skip
_NOWHERE = Source(file="")


def _events(
    ws: Workspace, only: Scope | None
) -> tuple[list[ToolInvocation], dict[str, datetime], dict[str, list[tuple[int, str, bool]]]]:
    """Successful write calls, when undated ones were imported, and the sessions around them.

    Results are left in the store: claims are about arguments and order, and results are most of the bytes.
    """
    scopes = None if only is None else [only]
    calls: list[ToolInvocation] = []
    imported: dict[str, datetime] = {}
    rows = ws.telemetry.calls_frame(columns=_COLUMNS, scopes=scopes, outcomes=[Outcome.SUCCESS.value])
    for row in rows.iter_rows():
        fields = dict(zip(_COLUMNS, row, strict=True))
        at = fields.pop("imported_at")
        fields["args"] = orjson.loads(fields["args"]) if fields["args"] else {}
        started = fields["started_at"]
        fields["started_at"] = started.astimezone(UTC) if started else None
        # rows of our own store were validated when they were written
        call = ToolInvocation.model_construct(outcome=Outcome.SUCCESS, source=_NOWHERE, **fields)
        if is_precedent(call, ws.settings):
            calls.append(call)
            if started is None and at is not None:
                imported[call.id] = at.astimezone(UTC)
    lines: dict[str, list[tuple[int, str, bool]]] = {call.session_id: [] for call in calls}
    if calls:
        frame = ws.telemetry.calls_frame(columns=["session_id", "seq", "tool", "outcome"], scopes=scopes)
        for session_id, seq, tool, outcome in frame.iter_rows():
            if session_id in lines:
                lines[session_id].append((seq, tool, outcome == Outcome.SUCCESS.value))
        for line in lines.values():
            line.sort()
    return calls, imported, lines


def _write(
    ws: Workspace, patterns: Sequence[Pattern], base: DistillReport, run_id: str | None
) -> DistillReport:
    """Word the patterns, write those that changed, and say what happened to each."""
    from sitoolkit.models.wording import TEMPLATE, word_claims

    done: list[Pattern] = []
    memories: list[Memory] = []
    dropped: list[dict[str, str]] = []
    by_model = by_template = 0
    held, taken_out = _held(ws)
    for pattern in patterns:
        basis = digest("pattern", pattern.tool, [claim.to_json() for claim in pattern.claims])
        older = held.get((pattern.scope, pattern.tool))
        same = older is not None and older.payload.get("basis") == basis
        # The same facts are worded again only where a model can be asked that has not answered on them yet.
        if older is not None and same and ws.chat.name in (TEMPLATE, older.payload.get("asked")):
            done.append(_as_held(pattern, older))
            continue
        if basis in taken_out:  # nothing new was seen since; a person's word stands
            done.append(_as_held(pattern, taken_out[basis]))
            continue
        wording = word_claims(
            ws.chat,
            pattern.claims,
            f"conventions of the tool {pattern.tool}",
            workspace=ws.path,
            prompt_tokens=ws.settings.models.prompt_tokens,
        )
        if older is not None and same and not wording.answered:
            done.append(_as_held(pattern, older))
            continue
        dropped += [
            {"tool": pattern.tool, "claim": drop.claim_id, "text": drop.text, "reason": drop.reason}
            for drop in wording.dropped
        ]
        by_model += wording.by_model
        by_template += wording.by_template
        claims = tuple(
            c.model_copy(update={"text": t}) for c, t in zip(pattern.claims, wording.texts, strict=True)
        )
        worded = pattern.model_copy(update={"claims": claims, "written_by": wording.written_by})
        memories.append(_memory(worded, wording.texts, basis, ws.chat.name if wording.answered else TEMPLATE))
        done.append(
            worded.model_copy(
                update={
                    "text": memories[-1].text,
                    "result": "superseded" if older else "written",
                    "id": older.id if older else "",
                }
            )
        )
    superseded: tuple[str, ...] = ()
    if run_id is None:
        done = [p.model_copy(update={"result": "preview"}) if p.result in _NEW else p for p in done]
    elif memories:
        report = ws.memory.upsert(memories, run_id=run_id)
        superseded = report.superseded
        items = iter(report.items)
        done = [_with_item(p, next(items)) if p.result in _NEW else p for p in done]
    counts = [p.result for p in done]
    return base.model_copy(
        update={
            "patterns": tuple(done),
            "patterns_written": counts.count("written") + counts.count("superseded"),
            "patterns_superseded": len(superseded),
            "patterns_unchanged": counts.count("unchanged"),
            "patterns_failed": counts.count("blocked") + counts.count("failed"),
            "claims_dropped": len(dropped),
            "dropped": tuple(dropped),
            "worded_by_model": by_model,
            "worded_by_template": by_template,
        }
    )


_NEW = ("written", "superseded")


def _with_item(pattern: Pattern, item: Any) -> Pattern:
    result = pattern.result if item.result in ("written", "superseded", "repeated") else item.result
    note = (
        f"{pattern.note}; {item.reason}" if item.reason and result in ("blocked", "failed") else pattern.note
    )
    return pattern.model_copy(update={"id": item.id, "result": result, "note": note})


def _held(ws: Workspace) -> tuple[dict[tuple[Scope, str], Memory], dict[str, Memory]]:
    """The active pattern of each scope and tool, and the patterns that someone took out, by what they rest on."""
    active: dict[tuple[Scope, str], Memory] = {}
    taken_out: dict[str, Memory] = {}
    for row in ws.memory.rows(category=Category.EXPERT_KNOWLEDGE):
        if not (row.slot or "").startswith("pattern:"):
            continue
        if row.status is Status.ACTIVE:
            active[row.scope, str(row.payload.get("tool"))] = row
        elif row.status in (Status.RETIRED, Status.QUARANTINED):
            taken_out[str(row.payload.get("basis"))] = row
    return active, taken_out


def _as_held(pattern: Pattern, row: Memory) -> Pattern:
    update = {
        "id": row.id,
        "claims": tuple(Claim.model_validate(claim) for claim in row.payload["claims"]),
        "written_by": row.written_by,
        "result": "unchanged" if row.status is Status.ACTIVE else row.status.value,
        "text": row.text,
    }
    return pattern.model_copy(update=update)


def _memory(pattern: Pattern, wordings: Sequence[str], basis: str, asked: str) -> Memory:
    return Memory(
        category=Category.EXPERT_KNOWLEDGE,
        scope=pattern.scope,
        text=pattern_text(pattern, wordings),
        payload={
            "tool": pattern.tool,
            "sample_count": pattern.sample_count,
            "calls": pattern.calls,
            "sessions": pattern.sessions,
            "note": pattern.note,
            "basis": basis,
            "asked": asked,  # the model that was asked for words, whatever came of it
            "claims": [claim.to_json() for claim in pattern.claims],
        },
        tags=("pattern", pattern.tool),
        origin=Origin.DISTILLED,
        confidence=pattern.confidence,
        content_hash=digest(basis, list(wordings)),
        slot=f"pattern:{pattern.tool}",
        first_seen=parse_time(pattern.first_seen),
        last_seen=parse_time(pattern.last_seen),
        evidence=pattern.evidence,
        written_by=pattern.written_by,
    )


def _in_window(
    events: Sequence[ToolInvocation], imported: Mapping[str, datetime], days: float, as_of: datetime | None
) -> tuple[list[ToolInvocation], list[Window]]:
    """The events of each scope that lie in its window."""
    by_scope: dict[Scope, list[ToolInvocation]] = defaultdict(list)
    for call in events:
        by_scope[call.scope].append(call)
    kept: list[ToolInvocation] = []
    windows = []
    for scope, calls in sorted(by_scope.items()):
        dated = [call.started_at for call in calls if call.started_at]
        end = as_of or max(
            dated or [imported[call.id] for call in calls if call.id in imported], default=None
        )
        start = end - timedelta(days=days) if end else None
        inside = []
        for call in calls:
            # an undated event counts at its import, which may lie after the newest dated one; only `as_of` shuts it out
            at = call.started_at or imported.get(call.id)
            last = end if call.started_at else as_of
            if at is None or ((start is None or at >= start) and (last is None or at <= last)):
                inside.append(call)
        kept += inside
        windows.append(
            Window(
                scope=scope,
                start=iso(start),
                end=iso(end),
                events=len(inside),
                undated=sum(call.started_at is None for call in inside),
                outside=len(calls) - len(inside),
            )
        )
    return kept, windows


def _notes(windows: Sequence[Window]) -> tuple[str, ...]:
    return tuple(
        f"{window.scope}: {window.undated} of {window.events} events carry no time and count at their import"
        for window in windows
        if window.undated
    )
