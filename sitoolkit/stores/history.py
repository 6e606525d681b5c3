"""Memories over time, read from the journal: entries come in; states at a time, histories, differences and plans to undo go out.

Pure functions over journal entries; nothing here touches the table. An entry of event `memory` holds `rows` (memories written
whole), `set` (fields that changed, with what they were) and `seen` (occurrences newly counted).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sitoolkit.errors import NotFoundError, StoreError, TimeError
from sitoolkit.records import Memory, Record, Status, UtcTime, parse_time
from sitoolkit.stores.journal import Entry, Journal
from sitoolkit.stores.memory_plan import UNDONE, Change
from sitoolkit.stores.memory_schema import Row, occurrences, pack, unpack

__all__ = [
    "Diff",
    "Event",
    "State",
    "UndoReport",
    "diff",
    "entries",
    "fold",
    "of_memory",
    "plan_undo",
    "replay",
    "rows_at",
    "touched",
]

_EVENT, _ABORTED, _PURGED = "memory", "memory_aborted", "memory_purged"


class Event(Record):
    """One thing that happened to a memory."""

    at: UtcTime
    run_id: str | None
    op: str  # upsert, status, revise, undo, migrate
    kind: str  # written, changed
    changes: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies defaults; field -> [was, is]
    reason: str | None = None
    entry: str = ""  # the journal entry


class Diff(Record):
    """What differs between two states of the memory."""

    a: str
    b: str
    added: tuple[Memory, ...] = ()
    superseded: tuple[Memory, ...] = ()
    retired: tuple[Memory, ...] = ()
    changed: tuple[dict[str, Any], ...] = ()  # {id, changes: {field: [was, is]}}
    texts: tuple[
        dict[str, Any], ...
    ] = ()  # {old, new, slot, diff}: words removed and added where a slot changed hands


class UndoReport(Record):
    """What an undo did."""

    runs: tuple[str, ...] = ()  # undone, newest first
    restored: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()


@dataclass
class State:
    """All memories at some point, as the journal tells them, with the occurrences counted and the entry that touched each last.

    Rows stay JSON until one is asked for: a year of entries is read in the time of its parsing.
    """

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    seen: dict[str, set[bytes]] = field(default_factory=dict)
    revs: dict[str, int] = field(default_factory=dict)
    purged: set[str] = field(default_factory=set)
    counting: bool = True  # whether `seen` is kept

    def apply(self, record: Mapping[str, Any]) -> None:
        """Take in one entry, as JSON."""
        data = record["data"]
        if record["event"] == _PURGED:
            self.purged.update(data.get("ids", ()))
            return
        for row in data.get("rows", ()):
            id = row["id"]
            self.rows[id] = row
            self.revs[id] = record["seq"]
            self.purged.discard(id)
            if self.counting:
                self.seen[id] = occurrences(row.get("evidence", ()))
        for change in data.get("set", ()):
            id = change["id"]
            if id in self.rows:
                self.rows[id] = {**self.rows[id], **change["now"]}
                self.revs[id] = record["seq"]
                self.purged.discard(id)
        if self.counting:
            for id, ids in data.get("seen", {}).items():
                self.seen.setdefault(id, set()).update(occurrences(ids))
            for id, packed in data.get("seen_as", {}).items():
                self.seen[id] = unpack(bytes.fromhex(packed))

    def memory(self, id: str) -> Memory | None:
        """One memory as a record."""
        row = self.rows.get(id)
        return None if row is None else Memory.model_validate(row)


def changed(memory: Memory, fields: Mapping[str, Any]) -> Memory:
    """The memory with some fields replaced by JSON values."""
    return Memory.model_validate({**memory.model_dump(), **fields})


def records(journal: Journal, *, purges: bool = True) -> Iterator[dict[str, Any]]:
    """The entries that changed memories, in order, as JSON; those whose write failed are left out."""
    failed = {entry.data.get("seq") for entry in journal.events(_ABORTED)}
    marks = [b'"event":"memory"', *([b'"event":"memory_purged"'] if purges else [])]
    for line in journal.lines(marks=marks):
        record = line.record
        if record.get("event") in (_EVENT, _PURGED if purges else _EVENT) and record.get("seq") not in failed:
            yield record


def entries(journal: Journal) -> Iterator[Entry]:
    """The entries that changed memories, in order; those whose write failed are left out."""
    return (Entry.model_validate(record) for record in records(journal, purges=False))


def fold(
    journal: Journal, *, until: datetime | None = None, last: int | None = None, counting: bool = True
) -> State:
    """The state after all entries up to a time or a number."""
    state = State(counting=counting)
    for record in records(journal):
        if last is not None and record["seq"] > last:
            break
        if until is not None and (parse_time(record["at"]) or until) > until:
            break
        state.apply(record)
    return state


def rows_at(journal: Journal, moment: datetime) -> Iterable[dict[str, Any]]:
    """All memories as they stood at a time, as JSON; those that were undone later are as they were then."""
    return fold(journal, until=moment, counting=False).rows.values()


def touched(entry: Entry) -> list[str]:
    """Ids that an entry wrote or changed."""
    return _touched(entry.data)


def _touched(data: Mapping[str, Any]) -> list[str]:
    return [row["id"] for row in data.get("rows", ())] + [change["id"] for change in data.get("set", ())]


def replay(entry: Entry, present: Mapping[str, Row]) -> list[Row]:
    """The rows that an entry leaves, given those that stand there."""
    more: dict[str, Any] = entry.data.get("seen", {})
    instead: dict[str, Any] = entry.data.get("seen_as", {})
    rows = []
    for given in entry.data.get("rows", ()):
        memory = Memory.model_validate(given)
        old = present.get(memory.id)
        rows.append(
            Row(
                memory,
                pack(occurrences([*memory.evidence, *more.get(memory.id, ())])),
                old.vector if old and old.memory.text == memory.text else None,
            )
        )
    for change in entry.data.get("set", ()):
        old = present.get(change["id"])
        if old is None:
            continue
        seen = pack(unpack(old.seen) | occurrences(more.get(change["id"], ())))
        if change["id"] in instead:
            seen = bytes.fromhex(instead[change["id"]])
        rows.append(Row(changed(old.memory, change["now"]), seen, old.vector))
    return rows


# ---------------------------------------------------------------- one memory


def of_memory(journal: Journal, id: str) -> list[Event]:
    """Everything that happened to a memory, oldest first.

    Raises:
        NotFoundError: the journal never heard of it.
    """
    found = []
    for entry in entries(journal):
        for row in entry.data.get("rows", ()):
            if row["id"] == id:
                found.append(
                    _event(entry, "written", {name: [None, value] for name, value in row.items()}, row)
                )
        for change in entry.data.get("set", ()):
            if change["id"] == id:
                now, was = change["now"], change.get("was", {})
                found.append(
                    _event(entry, "changed", {name: [was.get(name), now[name]] for name in now}, now)
                )
    if not found:
        raise NotFoundError(f"the journal knows no memory {id!r}; `sitoolkit memory list` shows them")
    return found


def _event(entry: Entry, kind: str, fields: dict[str, Any], now: Mapping[str, Any]) -> Event:
    return Event(
        at=entry.at,
        run_id=entry.run_id,
        op=str(entry.data.get("op", "")),
        kind=kind,
        changes=fields,
        reason=now.get("reason") or entry.data.get("reason"),
        entry=entry.id,
    )


# ---------------------------------------------------------------- two states


def diff(journal: Journal, a: str, b: str) -> Diff:
    """What differs between the memories after run (or time) `a` and after `b`.

    Raises:
        NotFoundError: neither a run of the journal nor a time.
    """
    first, second = _bound(journal, a), _bound(journal, b)
    before, after = fold(journal, **first, counting=False), fold(journal, **second, counting=False)
    added: list[Memory] = []
    superseded: list[Memory] = []
    retired: list[Memory] = []
    changed_rows: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    for id in sorted({*before.rows, *after.rows}):
        if before.rows.get(id) == after.rows.get(id):
            continue
        old, new = before.memory(id), after.memory(id)
        was_active = old is not None and old.status is Status.ACTIVE
        is_active = new is not None and new.status is Status.ACTIVE
        if new is not None and is_active and not was_active:
            added.append(new)
            loser = before.memory(new.supersedes or "")
            if loser is not None:
                texts.append(
                    {"old": loser.id, "new": id, "slot": new.slot, "diff": word_diff(loser.text, new.text)}
                )
        elif was_active and not is_active:
            gone = new if new is not None else old
            assert gone is not None
            (superseded if gone.status is Status.SUPERSEDED else retired).append(gone)
        elif old is not None and new is not None and is_active and old != new:
            fields = {
                name: [getattr(old, name), getattr(new, name)]
                for name in Memory.model_fields
                if getattr(old, name) != getattr(new, name)
            }
            changed_rows.append({"id": id, "changes": fields})
    return Diff(
        a=a,
        b=b,
        added=tuple(added),
        superseded=tuple(superseded),
        retired=tuple(retired),
        changed=tuple(changed_rows),
        texts=tuple(texts),
    )


def word_diff(old: str, new: str) -> list[list[str]]:
    """Runs of words: [" ", same], ["-", removed], ["+", added].

    >>> word_diff("use tabs here", "use spaces here")
    [[' ', 'use'], ['-', 'tabs'], ['+', 'spaces'], [' ', 'here']]
    """
    one, two = old.split(), new.split()
    parts = []
    for tag, i, j, k, m in difflib.SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        if tag == "equal":
            parts.append([" ", " ".join(one[i:j])])
            continue
        if i < j:
            parts.append(["-", " ".join(one[i:j])])
        if k < m:
            parts.append(["+", " ".join(two[k:m])])
    return parts


def _bound(journal: Journal, name: str) -> dict[str, Any]:
    last = 0
    for entry in journal.events(run_id=name):
        last = max(last, entry.seq)
    if last:
        return {"last": last}
    try:
        moment = parse_time(name)
    except TimeError:
        moment = None
    if moment is None:
        raise NotFoundError(
            f"{name!r} is neither a run of the journal nor a time; `sitoolkit runs list` shows runs"
        )
    return {"until": moment}


# ---------------------------------------------------------------- undo


@dataclass
class UndoPlan:
    """Which runs are undone, and what each memory they touched goes back to."""

    runs: list[str]  # newest first
    restore: dict[str, tuple[Memory | None, bytes]]

    def report(self) -> UndoReport:
        """The plan as a report."""
        return UndoReport(
            runs=tuple(self.runs),
            restored=tuple(id for id, (memory, _) in self.restore.items() if memory is not None),
            retired=tuple(id for id, (memory, _) in self.restore.items() if memory is None),
        )


def plan_undo(journal: Journal, run_id: str, *, cascade: bool = False) -> UndoPlan:
    """What undoing a run means.

    Raises:
        NotFoundError: the run changed no memory.
        StoreError: later runs built on it and `cascade` is false.
    """
    steps = [
        (record["seq"], record.get("run_id") or "", _touched(record["data"]))
        for record in records(journal, purges=False)
    ]
    if not any(run == run_id for _, run, _ in steps):
        raise NotFoundError(f"run {run_id!r} changed no memory; `sitoolkit runs list` shows runs")
    runs = {run_id}
    built: dict[str, list[str]] = {}
    while True:
        first: dict[str, int] = {}
        for seq, run, ids in steps:
            if run in runs:
                for id in ids:
                    first.setdefault(id, seq)
        later: dict[str, list[str]] = {}
        for seq, run, ids in steps:
            if run not in runs:
                for id in ids:
                    if id in first and seq > first[id]:
                        later.setdefault(run, []).append(id)
        if not later:
            break
        built |= later
        runs.update(later)
    if built and not cascade:
        raise StoreError(_built_on(run_id, built))
    state = State()
    restore: dict[str, tuple[Memory | None, bytes]] = {}
    order: list[str] = []
    for record in records(journal):
        run = record.get("run_id") or ""
        if record["event"] == _EVENT and run in runs:
            order = [one for one in order if one != run] + [run]
            for id in _touched(record["data"]):
                if id not in restore:
                    restore[id] = (state.memory(id), pack(state.seen.get(id, set())))
        state.apply(record)
    return UndoPlan(list(reversed(order)), restore)


def _built_on(run_id: str, later: Mapping[str, Sequence[str]]) -> str:
    shown = "; ".join(
        f"{run or '(a write without a run)'} on {', '.join(dict.fromkeys(ids[:3]))}"
        + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")
        for run, ids in later.items()
    )
    return (
        f"run {run_id} cannot be undone alone, later runs built on it: {shown}; undo these too with --cascade"
    )


def undo_change(
    plan: UndoPlan, ids: Iterable[str], present: Mapping[str, Row], *, now: datetime, run_id: str
) -> Change:
    """The change that takes these memories back to where the plan says."""
    change = Change("undo", reason=f"undo of {', '.join(plan.runs)}")
    for id in ids:
        memory, seen = plan.restore[id]
        row = present.get(id)
        if memory is not None:
            change.put(row, Row(memory, seen, row.vector if row else None))
            change.seen_as[id] = seen
        elif row is not None:
            gone = row.memory.model_copy(
                update={
                    "status": Status.RETIRED,
                    "ended_at": now,
                    "ended_by": run_id,
                    "reason": f"{UNDONE}{plan.runs[-1]}",
                }
            )
            change.put(row, row._replace(memory=gone))
    return change
