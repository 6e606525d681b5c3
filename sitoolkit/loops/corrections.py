"""Loop 2: sessions come in; the signals of users who corrected the agent and the facts that they stated go out, kept with their evidence.

`detect_corrections` finds the turns, `learn_facts` writes what they state as `learned_fact` memories. Which facts contradict each other
is decided on slots (subject, aspect, value): what a user stated wins over what was inferred, and the newer statement over the older;
the loser stays readable with the time in which it held. Where no slot is found both stay, and a person is asked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import Field

from sitoolkit.errors import NotFoundError, ParameterError
from sitoolkit.loops.correction_signals import detect_corrections, signal_id, turn_id, without_recalled
from sitoolkit.loops.facts import INFERRED, Fact, content_of, fact_of, fact_scope, word_overlap
from sitoolkit.loops.phrases import PhraseTable
from sitoolkit.models.wording import word_claims
from sitoolkit.records import (
    Category,
    Claim,
    CorrectionSignal,
    Item,
    Memory,
    Origin,
    Record,
    Scope,
    Session,
    Status,
    iso,
    parse_time,
)
from sitoolkit.redaction import seal

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["FactsReport", "detect_corrections", "learn_facts", "retract_fact", "signal_id", "turn_id"]

_RESULTS = ("written", "repeated", "superseded", "unchanged", "blocked", "failed")
_SAID_CHARS = 400  # of the user's words in a fact's payload
_ALIKE = (
    0.6  # share of telling words from which two statements without a slot are shown to a person as a pair
)
_SESSIONS = 2  # in how many sessions an override must recur before a fact is inferred from it
_CONFIRMED = 0.5  # how much of the doubt a further occurrence of an inferred fact takes away
_MOST_CONFIDENT = 0.95  # an inferred fact never reaches the 1.0 of a stated one


class FactsReport(Record):
    """What users corrected, and what became of what they stated."""

    sessions: int = 0
    signals: int = 0
    new_signals: int = 0  # that telemetry did not hold
    kinds: dict[str, int] = Field(default_factory=dict)
    facts: dict[str, int] = Field(
        default_factory=dict
    )  # written, repeated, superseded, unchanged, blocked, failed
    without_fact: int = 0  # signals that state nothing which would hold tomorrow
    learned: tuple[dict[str, Any], ...] = ()  # id, text, scope, slot, origin, confidence, result, evidence
    superseded: tuple[str, ...] = ()  # ids of facts that hold no longer
    proposals: tuple[str, ...] = ()  # pairs that a person is asked about
    redactions: dict[str, int] = Field(default_factory=dict)
    problems: tuple[dict[str, str], ...] = ()
    run_id: str = ""


@dataclass
class _Stated:
    """A fact with the signal it comes from, in the order of the users' statements."""

    fact: Fact
    scope: Scope
    evidence: tuple[str, ...]
    at: datetime | None
    said: str
    session_id: str
    turn: int


@dataclass
class _Standing:
    """The facts that hold, as the next statement finds them."""

    rows: dict[str, Memory] = field(default_factory=dict)  # id or content -> memory

    def of(self, scope: Scope) -> list[Memory]:
        return [row for row in self.rows.values() if row.scope == scope]


def learn_facts(
    ws: Workspace, sessions: Iterable[Session], *, phrases: Sequence[PhraseTable] | None = None
) -> FactsReport:
    """Find the corrections in sessions, keep them in telemetry, and write the facts they state.

    >>> learn_facts(ws, read_sessions("transcripts/")).learned[0]["text"]
    'Use tabs, not spaces.'

    Args:
        ws: the workspace.
        sessions: sealed or not; the order does not matter, statements are taken in the order of their times.
        phrases: tables of phrases; those that ship and those of installed packages by default.

    Returns:
        What was found and what became of it; the same sessions again give `repeated` and `unchanged` alone.

    Raises:
        StoreLocked: another writer held the workspace too long.
        StoreError: the disk is full or read-only.
    """
    with ws.run("corrections") as run:
        signals: list[CorrectionSignal] = []
        redactions: Counter[str] = Counter()
        seen = 0
        for session in sessions:
            seen += 1
            sealed = seal(without_recalled(session), ws.redactor)
            redactions.update(sealed.redactions)
            signals += detect_corrections(sealed.session, phrases)
        signals.sort(
            key=lambda one: (
                one.at is None,
                one.at.timestamp() if one.at else 0.0,
                one.session_id,
                one.turn,
                one.kind,
            )
        )
        new = _keep_signals(ws, signals)
        stated = [one for one in map(_stated, signals) if one is not None]
        stated += _inferred(ws, {fact_scope(one) for one in signals if one.kind == "tool_override"})
        return _write(ws, stated, run.id).model_copy(
            update={
                "sessions": seen,
                "signals": len(signals),
                "new_signals": new,
                "kinds": dict(sorted(Counter(one.kind for one in signals).items())),
                "without_fact": sum(_stated(one) is None for one in signals),
                "redactions": dict(redactions),
            }
        )


def _keep_signals(ws: Workspace, signals: Sequence[CorrectionSignal]) -> int:
    """Append signals to telemetry and tell the plugins of those that are new; gives how many those are."""
    from sitoolkit.plugins import call_hook

    by_id = {signal_id(one): one for one in signals}
    appended = ws.telemetry.append("signals", [{"id": id, **one.to_json()} for id, one in by_id.items()])
    for id in appended.new_ids:
        call_hook(ws, "on_correction_signal", by_id[id])
    return appended.written


def _stated(signal: CorrectionSignal) -> _Stated | None:
    fact = fact_of(signal)
    if fact is None:
        return None
    return _Stated(
        fact, fact_scope(signal), (signal_id(signal),), signal.at, signal.text[:_SAID_CHARS], signal.session_id, signal.turn
    )  # fmt: skip


def _inferred(ws: Workspace, scopes: set[Scope]) -> list[_Stated]:
    """Facts from overrides that recur: the same argument put right in two sessions or more."""
    if not scopes:
        return []
    rows = ws.sql(
        "select target, wanted, project, agent, session_id, id, turn, happened_at from signals where kind = 'tool_override' "
        "and wanted is not null order by happened_at nulls last, session_id, turn"
    ).to_dicts()
    groups: dict[tuple[Scope, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        name = (
            ("project", row["project"])
            if row["project"]
            else ("agent", row["agent"])
            if row["agent"]
            else None
        )
        if name and Scope.of(*name) in scopes and "=" in row["wanted"]:
            groups.setdefault((Scope.of(*name), row["target"], row["wanted"]), []).append(row)
    found = []
    for (scope, tool, wanted), members in sorted(groups.items()):
        if len({row["session_id"] for row in members}) < _SESSIONS:
            continue
        argument, _, value = wanted.partition("=")
        last = members[-1]
        fact = Fact(
            f"Call {tool} with {argument} = {value}.",
            tool,
            argument,
            value,
            origin=Origin.INFERRED,
            confidence=INFERRED,
        )
        found.append(
            _Stated(fact, scope, tuple(row["id"] for row in members), parse_time(last["happened_at"]), "", last["session_id"], last["turn"])
        )  # fmt: skip
    return found


# ---------------------------------------------------------------- agreement and contradiction


def _write(ws: Workspace, stated: Sequence[_Stated], run_id: str) -> FactsReport:
    rows = ws.memory.rows(category=Category.LEARNED_FACT, status=Status.ACTIVE) if stated else []
    standing = _Standing({row.id: row for row in rows})
    memories = [_place(one, standing) for one in stated]
    worded = _worded(ws, memories, {row.content_hash for row in rows})
    report = ws.memory.upsert(worded, run_id=run_id)
    _confirm(ws, worded, report.items, rows, run_id)
    results: Counter[str] = Counter(item.result for item in report.items)
    results["superseded"] += len(report.superseded)
    learned = tuple(_told(memory, item) for memory, item in zip(worded, report.items, strict=True))
    return FactsReport(
        facts={name: results[name] for name in _RESULTS},
        learned=learned,
        superseded=report.superseded,
        proposals=_ask(ws, worded, report.items, run_id),
        problems=tuple(
            {"id": item.id, "reason": item.reason or ""}
            for item in report.items
            if item.result in ("blocked", "failed")
        ),
        run_id=run_id,
    )


def _place(one: _Stated, standing: _Standing) -> Memory:
    """The memory of a statement, in the slot where it belongs; superseded from the start where a better one stands."""
    fact = _in_known_slot(one.fact, standing.of(one.scope))
    holder = _holder(fact, standing.of(one.scope))
    if holder is not None and _elsewhere(fact, holder):
        fact = replace(fact, subject=f"{fact.subject} ({fact.where})")
        holder = _holder(fact, standing.of(one.scope))
    memory = _memory(fact, one)
    if holder is not None and not _same_value(fact, holder):
        reason = _loses(fact, one, holder)
        if reason:
            return memory.model_copy(update={"status": Status.SUPERSEDED, "reason": reason})
        del standing.rows[_key(holder)]
    standing.rows[_key(memory)] = memory
    return memory


def _key(memory: Memory) -> str:
    return memory.id or f"{memory.scope} {memory.content_hash}"


def _in_known_slot(fact: Fact, facts: Sequence[Memory]) -> Fact:
    """Give a choice between two unknown values the slot of the fact whose value it replaces or repeats."""
    if not fact.slotted or fact.aspect != "choice" or fact.unwanted is None:
        return fact
    for word in (fact.unwanted, fact.value):
        for row in facts:
            payload = row.payload
            if row.slot and str(payload.get("value", "")).casefold() == word.casefold():
                return replace(fact, subject=str(payload["subject"]), aspect=str(payload["aspect"]))
    return fact


def _holder(fact: Fact, facts: Sequence[Memory]) -> Memory | None:
    return next((row for row in facts if fact.slot and row.slot == fact.slot), None)


def _same_value(fact: Fact, row: Memory) -> bool:
    return str(row.payload.get("value", "")).casefold() == fact.value.casefold()


def _elsewhere(fact: Fact, row: Memory) -> bool:
    """Whether two different values hold at two different places that the users named."""
    where = row.payload.get("where")
    return bool(
        fact.where and where and fact.where.casefold() != str(where).casefold() and not _same_value(fact, row)
    )


def _loses(fact: Fact, one: _Stated, holder: Memory) -> str | None:
    """Why a statement does not replace the fact that holds its slot; `None` where it does."""
    held_inferred = holder.origin is Origin.INFERRED
    if fact.origin is Origin.INFERRED and not held_inferred:
        return f"a user stated otherwise: {holder.text}"
    if held_inferred and fact.origin is not Origin.INFERRED:
        return None
    held_at = parse_time(holder.payload.get("stated_at"))
    if one.at is not None and held_at is not None and one.at < held_at:
        return f"older than what holds: {holder.text}"
    return None


def _memory(fact: Fact, one: _Stated) -> Memory:
    payload = {
        "subject": fact.subject, "aspect": fact.aspect, "value": fact.value, "unwanted": fact.unwanted, "where": fact.where,
        "said": one.said, "session_id": one.session_id, "turn": one.turn, "stated_at": iso(one.at),
    }  # fmt: skip
    return Memory(
        category=Category.LEARNED_FACT,
        scope=one.scope,
        text=fact.text,
        payload={key: value for key, value in payload.items() if value is not None},
        tags=(fact.subject,) if fact.slotted else (),
        origin=fact.origin,
        confidence=fact.confidence,
        content_hash=content_of(fact),
        slot=fact.slot,
        first_seen=one.at,
        last_seen=one.at,
        evidence=one.evidence,
        written_by="template",
    )


def _worded(ws: Workspace, memories: Sequence[Memory], known: set[str]) -> list[Memory]:
    """Let the model word facts that are new, held to what the user said; without one they keep their texts."""
    fresh = {memory.content_hash: memory for memory in memories if memory.content_hash not in known}
    if not fresh:
        return list(memories)
    claims = [
        Claim(
            id=content,
            kind="fact",
            text=memory.text,
            support=1,
            of=1,
            evidence=memory.evidence,
            data=memory.payload,
        )
        for content, memory in fresh.items()
    ]
    wording = word_claims(
        ws.chat,
        claims,
        "what users corrected",
        workspace=ws.path,
        prompt_tokens=ws.settings.models.prompt_tokens,
    )
    texts = {
        content: text
        for content, text in zip(fresh, wording.texts, strict=True)
        if text != fresh[content].text and _says_the_same(text, fresh[content])
    }
    return [
        memory.model_copy(update={"text": texts[memory.content_hash], "written_by": wording.written_by})
        if memory.content_hash in texts
        else memory
        for memory in memories
    ]


def _says_the_same(text: str, memory: Memory) -> bool:
    """Whether a model's wording denies what the user denied and nothing else: X and Y must not change places."""
    unwanted = memory.payload.get("unwanted")
    if unwanted is None:
        return True
    denied = [
        re.search(
            rf"\b(?:not|never|no|avoid|without|instead of|rather than|nicht|kein\w*|statt)\b[^.;]{{0,40}}?{re.escape(str(word))}",
            text,
            re.IGNORECASE,
        )
        for word in (memory.payload["value"], unwanted)
    ]
    return denied[1] is not None and (denied[0] is None or denied[0].start() > denied[1].start())


def _confirm(
    ws: Workspace, memories: Sequence[Memory], items: Sequence[Item], before: Sequence[Memory], run_id: str
) -> None:
    """An inferred fact that was seen again is believed a little more."""
    old = {row.id: row for row in before}
    for memory, item in zip(memories, items, strict=True):
        row = old.get(item.id)
        if memory.origin is not Origin.INFERRED or row is None or set(memory.evidence) <= set(row.evidence):
            continue
        raised = min(_MOST_CONFIDENT, row.confidence + (1 - row.confidence) * _CONFIRMED)
        if raised > row.confidence:
            ws.memory.revise(item.id, run_id=run_id, reason="seen again", confidence=round(raised, 4))


def _told(memory: Memory, item: Item) -> dict[str, Any]:
    return {
        "id": item.id, "text": memory.text, "scope": str(memory.scope), "slot": memory.slot, "origin": str(memory.origin),
        "confidence": memory.confidence, "result": item.result if memory.status is Status.ACTIVE else str(memory.status),
        "reason": item.reason if memory.status is Status.ACTIVE else memory.reason, "evidence": list(memory.evidence),
    }  # fmt: skip


def _ask(ws: Workspace, memories: Sequence[Memory], items: Sequence[Item], run_id: str) -> tuple[str, ...]:
    """Propose to a person the pairs of which no slot says whether they contradict each other."""
    new = [
        (item.id, memory)
        for memory, item in zip(memories, items, strict=True)
        if memory.slot is None and item.result == "written"
    ]
    if not new:
        return ()
    rows = ws.memory.rows(category=Category.LEARNED_FACT, status=Status.ACTIVE)
    asked: list[str] = []
    for id, memory in new:
        for row in rows:
            if row.id == id or row.scope != memory.scope or word_overlap(row.text, memory.text) < _ALIKE:
                continue
            older, newer = sorted(
                (row, ws.memory.get(id) or memory), key=lambda one: (iso(one.last_seen) or "", one.id)
            )
            proposal = ws.proposals.propose(
                type="fact-update",
                title=f"Two facts of {memory.scope} may contradict each other",
                description=f"Older: {older.text}\nNewer: {newer.text}\nApproving retires the older one; rejecting keeps both.",
                evidence=(*older.evidence, *newer.evidence),
                payload={"retire": [older.id], "keep": [newer.id]},
                base={older.id: older.content_hash, newer.id: newer.content_hash},
                proposed_by="corrections",
                run_id=run_id,
                key=" ".join(sorted((older.id, newer.id))),
            )
            asked.append(proposal.id)
    return tuple(dict.fromkeys(asked))


# ---------------------------------------------------------------- a person takes a fact back


def retract_fact(ws: Workspace, id: str, *, by: str, reason: str) -> Item:
    """Take a learned fact back: it stays readable and is recalled no more, until new evidence states it again.

    Args:
        ws: the workspace.
        id: the memory.
        by: the person who decides.
        reason: why; kept with the row and in the journal.

    Raises:
        NotFoundError: no such memory.
        ParameterError: the memory is no learned fact, or no name or reason is given.
    """
    if not by.strip() or not reason.strip():
        raise ParameterError("retract: say who decides and why (by, reason)")
    memory = ws.memory.get(id)
    if memory is None:
        raise NotFoundError(
            f"no memory {id!r}; `sitoolkit memory list --category learned_fact` shows the facts"
        )
    if memory.category is not Category.LEARNED_FACT:
        raise ParameterError(
            f"{id} is a {memory.category}, not a learned_fact; propose its retirement for review instead"
        )
    said, _ = ws.redactor.text(f"retracted by {by.strip()}: {reason.strip()}")
    with ws.run("retract", memory=id, by=by) as run:
        return ws.memory.set_status([id], Status.RETIRED, run_id=run.id, reason=said).items[0]
