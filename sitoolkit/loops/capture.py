"""L1: sessions come in; telemetry for every call and a precedent for every call that changed something go out.

Each session is sealed first: what is redacted there is hashed, stored and embedded nowhere. A call that failed, was cancelled or
never came back is kept in telemetry and is no precedent. Memories are written in batches, one embedding a distinct content.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import Field

from sitoolkit.learning.precedents import event_memory, event_text, find_events, placed, prepare
from sitoolkit.records import (
    Outcome,
    Record,
    Scope,
    Session,
    ToolInvocation,
    digest,
    iso,
)
from sitoolkit.writes import is_write_call, succeeded

if TYPE_CHECKING:
    from sitoolkit.transcripts import ReadReport
    from sitoolkit.workspace import Workspace

__all__ = [
    "CaptureReport",
    "Captured",
    "capture_sessions",
    "event_memory",
    "event_text",
    "find_events",
    "is_write_call",
    "placed",
    "prepare",
]

BATCH_CALLS = 10_000  # a batch is written when it holds so many calls
BATCH_CHARS = 32_000_000  # or so much text
TURN_CHARS = 4_000  # a user turn in telemetry


class Captured(Record):
    """What became of the write calls that are precedents; the four add up to the report's `writes`."""

    written: int = 0
    repeated: int = 0
    blocked: int = 0
    failed: int = 0


class CaptureReport(Record):
    """What a capture read, and what became of it."""

    files: int = 0
    sessions: int = 0
    calls: int = 0
    outcomes: dict[str, int] = Field(default_factory=dict)
    writes: int = 0  # successful calls that change state
    captured: Captured = Captured()
    set_aside: tuple[dict[str, Any], ...] = ()
    unknown_types: dict[str, int] = Field(default_factory=dict)
    redactions: dict[str, int] = Field(default_factory=dict)
    new_calls: int = 0  # calls that telemetry did not hold
    not_precedent: int = 0  # state-changing calls that failed, were cancelled, or did not come back
    problems: tuple[dict[str, str], ...] = ()  # blocked and failed items, each with its reason
    run_id: str = ""


@dataclass
class _Batch:
    """Sealed records that wait to be written."""

    calls: list[ToolInvocation] = field(default_factory=list)
    writes: list[tuple[bool, bool]] = field(
        default_factory=list
    )  # of each call: changes state, is a precedent
    sessions: list[dict[str, Any]] = field(default_factory=list)
    turns: list[dict[str, Any]] = field(default_factory=list)
    whole: list[Session] = field(default_factory=list)
    chars: int = 0

    @property
    def full(self) -> bool:
        return len(self.calls) >= BATCH_CALLS or self.chars >= BATCH_CHARS


@dataclass
class _Tally:
    """Counts of a capture in the making."""

    files: set[str] = field(default_factory=set)
    sessions: int = 0
    calls: int = 0
    writes: int = 0
    not_precedent: int = 0
    new_calls: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    captured: Counter[str] = field(default_factory=Counter)
    redactions: Counter[str] = field(default_factory=Counter)
    problems: list[dict[str, str]] = field(default_factory=list)


def capture_sessions(
    ws: Workspace,
    sessions: Iterable[Session],
    report: ReadReport | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> CaptureReport:
    """Take sessions into a workspace: telemetry for all calls, a precedent for each that changed something and succeeded.

    >>> read = ReadReport()
    >>> capture_sessions(ws, read_sessions("transcripts/", report=read), read).captured.written
    12

    Args:
        ws: the workspace.
        sessions: unsealed or sealed, from any reader; they are taken one at a time.
        report: the reader's report, for files, records set aside and unknown types.
        progress: called after each batch with sessions and calls so far.

    Returns:
        What was read and what became of it. Reading the same again gives `repeated` alone; a transcript that has grown adds
        what is new.

    Raises:
        StoreLocked: another writer held the workspace too long.
        StoreError: the disk is full or read-only; what was acknowledged before is kept.
    """
    tally = _Tally()
    with ws.run("capture") as run:
        batch = _Batch()
        for session in sessions:
            _take(ws, session, batch, tally)
            if batch.full:
                _flush(ws, batch, tally, run.id)
                if progress:
                    progress(tally.sessions, tally.calls)
                batch = _Batch()
        _flush(ws, batch, tally, run.id)
        if progress:
            progress(tally.sessions, tally.calls)
        if tally.captured["written"] or tally.captured["repeated"]:
            ws.memory.optimize()
        return _report(tally, report, run.id)


def _take(ws: Workspace, session: Session, batch: _Batch, tally: _Tally) -> None:
    """Seal one session and put its records into the batch."""
    sealed, redactions = prepare(session, ws.redactor, ws.settings.capture.stored_result_chars)
    tally.redactions.update(redactions)
    tally.sessions += 1
    tally.files.add(sealed.source.file)
    calls = sealed.calls
    tally.calls += len(calls)
    tally.outcomes.update(call.outcome.value for call in calls)
    writes = [is_write_call(call, ws.settings) for call in calls]
    flags = [(w, w and succeeded(call)) for w, call in zip(writes, calls, strict=True)]
    batch.calls += calls
    batch.writes += flags
    batch.sessions.append(_session_row(sealed, calls, sum(precedent for _, precedent in flags)))
    batch.turns += [_turn_row(sealed, turn) for turn in sealed.turns if turn.role == "user" and turn.text]
    batch.chars += sum(len(call.result) if isinstance(call.result, str) else 500 for call in calls)
    if ws.plugins:
        batch.whole.append(sealed)


def _session_row(session: Session, calls: Sequence[ToolInvocation], writes: int) -> dict[str, Any]:
    row = session.model_dump(mode="json", exclude={"turns"})
    row["task"] = (session.task or "")[:TURN_CHARS] or None
    row |= {
        "turns": len(session.turns),
        "calls": len(calls),
        "failures": sum(call.failed for call in calls),
        "writes": writes,
    }
    return row


def _turn_row(session: Session, turn: Any) -> dict[str, Any]:
    return {
        "id": digest("turn", session.id, turn.index, turn.text),
        "session_id": session.id,
        "index": turn.index,
        "role": turn.role,
        "author": turn.author,
        "text": turn.text[:TURN_CHARS],
        "agent": session.agent,
        "project": session.project,
        "team": session.team,
        "org": session.org,
        "at": iso(turn.at),
        "source": turn.source.to_json() if turn.source else session.source.to_json(),
    }


def _flush(ws: Workspace, batch: _Batch, tally: _Tally, run_id: str) -> None:
    """Write a batch: telemetry first, which tells what is new, then the precedents of the new calls."""
    if not batch.sessions:
        return
    appended = ws.telemetry.append("calls", [call.model_dump(mode="json") for call in batch.calls])
    ws.telemetry.append("sessions", batch.sessions)
    ws.telemetry.append("turns", batch.turns)
    tally.new_calls += appended.written
    tally.problems += [{"id": item.id, "reason": item.reason or ""} for item in appended.failed]
    refused = {item.id for item in appended.failed}
    events: list[ToolInvocation] = []
    for call, (writes, precedent) in zip(batch.calls, batch.writes, strict=True):
        if not precedent:
            tally.not_precedent += writes
        elif call.id in refused:
            tally.writes += 1
            tally.captured["failed"] += 1
        else:
            tally.writes += 1
            events.append(call)
    _remember(ws, events, tally, run_id)
    if batch.whole:
        _tell_plugins(ws, batch.whole, set(appended.new_ids))


def _tell_plugins(ws: Workspace, sessions: Iterable[Session], new: set[str]) -> None:
    from sitoolkit.plugins import call_hook

    for session in sessions:
        for call in session.calls:
            if call.id in new:
                call_hook(ws, "on_tool_invocation", call)
        call_hook(ws, "on_session_end", session)


def _remember(ws: Workspace, calls: Iterable[ToolInvocation], tally: _Tally, run_id: str) -> None:
    """Upsert one precedent for each scope and content.

    Calls that telemetry knew go along: the store counts an occurrence once, so what a killed import left half done is completed
    by the next one, and nothing is counted twice.
    """
    groups: dict[tuple[Scope, str], list[ToolInvocation]] = {}
    for call in calls:
        groups.setdefault((call.scope, call.content_hash), []).append(call)
    if not groups:
        return
    now = ws.clock()
    memories = [event_memory(group[0], ws.settings, now, group[1:]) for group in groups.values()]
    written = ws.memory.upsert(memories, run_id=run_id)
    for item, group in zip(written.items, groups.values(), strict=True):
        if item.result in ("blocked", "failed"):
            tally.captured[item.result] += len(group)
            tally.problems.append({"id": group[0].id, "reason": item.reason or item.result})
        elif item.result == "written":
            tally.captured["written"] += 1
            tally.captured["repeated"] += len(group) - 1
        else:
            tally.captured["repeated"] += len(group)


def _report(tally: _Tally, read: ReadReport | None, run_id: str) -> CaptureReport:
    return CaptureReport(
        files=read.files if read is not None else len(tally.files),
        sessions=tally.sessions,
        calls=tally.calls,
        outcomes={outcome.value: tally.outcomes[outcome.value] for outcome in Outcome},
        writes=tally.writes,
        captured=Captured(**tally.captured),
        set_aside=tuple(item._asdict() for item in read.set_aside) if read is not None else (),
        unknown_types=dict(read.unknown_types) if read is not None else {},
        redactions=dict(sorted(tally.redactions.items())),
        new_calls=tally.new_calls,
        not_precedent=tally.not_precedent,
        problems=tuple(tally.problems),
        run_id=run_id,
    )
