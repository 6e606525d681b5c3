"""What a write does to the memory table, computed before anything is written: memories and present rows in, a change out.

Pure functions. A change holds the rows as they will stand; the store journals it, then commits it in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sitoolkit.records import Category, Item, Memory, Origin, Status
from sitoolkit.stores.memory_schema import (
    EVIDENCE_KEPT,
    Row,
    changes,
    occurrences,
    pack,
    slot_key,
    to_entry,
    unpack,
)

__all__ = ["UNDONE", "Change", "plan_status", "plan_upsert"]

UNDONE = "undone with run "  # reason of a row whose writing run was undone; writing it again starts afresh
# Categories in which the same evidence again is no news: importing a transcript twice revives nothing.
_NEEDS_NEWS = (Category.OPERATIONAL_EVENT, Category.LEARNED_FACT)


@dataclass
class Change:
    """Rows before and after one write, in the order in which they were first touched."""

    op: str
    before: dict[str, Row | None] = field(default_factory=dict)
    after: dict[str, Row] = field(default_factory=dict)
    seen: dict[str, list[str]] = field(default_factory=dict)  # occurrence ids that were newly counted
    seen_as: dict[str, bytes] = field(
        default_factory=dict
    )  # what counts as seen from now on, for undone rows
    items: list[Item] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    reason: str | None = None

    def put(self, before: Row | None, after: Row) -> None:
        """Note one row; the earliest `before` of a row stays."""
        self.before.setdefault(after.memory.id, before)
        self.after[after.memory.id] = after

    def entry(self) -> dict[str, Any]:
        """The change as the journal holds it; enough to do it again, to undo it and to tell what it did."""
        rows, sets = [], []
        for id, after in self.after.items():
            before = self.before[id]
            if before is None or _starts_afresh(before.memory, after.memory):
                rows.append(to_entry(after.memory))
            else:
                now, was = changes(before.memory, after.memory)
                if now:
                    sets.append({"id": id, "now": now, "was": was})
        data: dict[str, Any] = {"op": self.op}
        if self.reason:
            data["reason"] = self.reason
        if rows:
            data["rows"] = rows
        if sets:
            data["set"] = sets
        # A new row's own evidence says what was counted, unless there is more than a row carries.
        kept = {row["id"]: set(row.get("evidence", ())) for row in rows}
        seen = {id: ids for id, ids in self.seen.items() if not set(ids) <= kept.get(id, set())}
        if seen:
            data["seen"] = seen
        if self.seen_as:
            data["seen_as"] = {id: packed.hex() for id, packed in self.seen_as.items()}
        return data


def _starts_afresh(before: Memory, after: Memory) -> bool:
    return (before.reason or "").startswith(UNDONE) and after.status != before.status


def plan_upsert(
    memories: Sequence[Memory],
    present: Mapping[str, Row],
    holders: Mapping[str, str],
    *,
    now: datetime,
    run_id: str,
) -> Change:
    """What writing `memories` does.

    Args:
        memories: with ids, not blocked.
        present: rows that stand in the table under these ids, and those that hold their slots.
        holders: slot key -> id of the active row that holds it.
        now: time of the write.
        run_id: the run that writes.
    """
    change = Change("upsert")
    rows: dict[str, Row] = dict(present)
    slots = dict(holders)
    for memory in memories:
        old = rows.get(memory.id)
        new: Row | None
        if old is None or (old.memory.reason or "").startswith(UNDONE):
            new = _first(memory, now, run_id)
            if old is not None and old.memory.text == memory.text:
                new = new._replace(vector=old.vector)
            result, reason = "written", None
            change.seen[memory.id] = list(memory.evidence)
        else:
            new, news, result, reason = _again(old, memory, now, run_id)
            if news:
                change.seen.setdefault(memory.id, []).extend(news)
        change.items.append(Item(id=memory.id, result=result, reason=reason))
        if new is None:
            continue
        key = slot_key(new.memory)
        holder = slots.get(key) if key else None
        if key and new.memory.status is Status.ACTIVE:
            if holder and holder != new.memory.id and result == "written":
                loser = rows[holder]
                change.put(loser, _end(loser, Status.SUPERSEDED, now, run_id, by=new.memory.id))
                rows[holder] = change.after[holder]
                change.superseded.append(holder)
                new = new._replace(memory=new.memory.model_copy(update={"supersedes": holder}))
            slots[key] = new.memory.id
        change.put(old, new)
        rows[memory.id] = new
    return change


def _by_occurrence(memory: Memory) -> bool:
    """Whether a memory is seen as often as its evidence has ids; of other kinds, each telling counts once."""
    return memory.category is Category.OPERATIONAL_EVENT


def _first(memory: Memory, now: datetime, run_id: str) -> Row:
    keys = occurrences(memory.evidence)
    evidence = memory.evidence
    if _by_occurrence(memory) or len(evidence) > EVIDENCE_KEPT:  # in one order, whichever was imported first
        evidence = tuple(sorted(set(evidence))[:EVIDENCE_KEPT])
    row = memory.model_copy(
        update={
            "evidence": evidence,
            "seen_count": max(memory.seen_count, len(keys) if _by_occurrence(memory) else 1),
            "first_seen": memory.first_seen or memory.last_seen or now,
            "last_seen": memory.last_seen or memory.first_seen or now,
            "created_at": now,
            "ended_at": None,
            "run_id": run_id,
            "supersedes": None,
            "superseded_by": None,
            "vector": None,
        }
    )
    return Row(row, pack(keys), None)


def _again(
    old: Row, memory: Memory, now: datetime, run_id: str
) -> tuple[Row | None, list[str], str, str | None]:
    """A known content once more: the row as it will stand (`None`: as it is), new occurrences, result, reason."""
    row = old.memory
    known = unpack(old.seen)
    news = [one for one in dict.fromkeys(memory.evidence) if next(iter(occurrences([one]))) not in known]
    if row.status is Status.QUARANTINED:
        return None, [], "blocked", f"quarantined: {row.reason or 'no reason given'}"
    update: dict[str, Any] = {}
    gained = 0
    if news:
        gained = len(news) if _by_occurrence(memory) else memory.seen_count
    elif not memory.evidence and memory.origin is not Origin.DIRECTIVE and row.status is not Status.RETIRED:
        gained = memory.seen_count
    if gained:
        first, last = (
            memory.first_seen or memory.last_seen or now,
            memory.last_seen or memory.first_seen or now,
        )
        update["seen_count"] = row.seen_count + gained
        update["first_seen"] = min(row.first_seen or first, first)
        update["last_seen"] = max(row.last_seen or last, last)
    if news:
        update["evidence"] = tuple(sorted({*row.evidence, *news})[:EVIDENCE_KEPT])
    result, reason = "repeated", None if gained else "nothing new"
    if row.status in (Status.SUPERSEDED, Status.RETIRED):
        if memory.category in _NEEDS_NEWS and memory.evidence and not news:
            return None, [], "unchanged", f"{row.status.value} since {row.ended_at}; no new evidence"
        update |= {
            "status": memory.status,
            "ended_at": None,
            "ended_by": None,
            "superseded_by": None,
            "reason": f"active again; was {row.status.value}",
            "run_id": run_id,
            "created_at": now,
            "confidence": memory.confidence,
            "expires_at": memory.expires_at,
            "payload": memory.payload,
        }
        result, reason = "written", f"active again; was {row.status.value}"
    elif row.status is Status.ACTIVE and memory.status is Status.ACTIVE:
        if memory.expires_at and row.expires_at and memory.expires_at > row.expires_at and (news or gained):
            update["expires_at"] = memory.expires_at  # what is seen again lives on
        if memory.expires_at and row.expires_at and row.expires_at <= now < memory.expires_at:
            update["expires_at"] = memory.expires_at
    if not update:
        return None, [], result, reason
    new = old._replace(memory=row.model_copy(update=update), seen=pack(known | occurrences(news)))
    return new, news, result, reason


def _end(
    row: Row, status: Status, now: datetime, run_id: str, *, by: str | None = None, reason: str | None = None
) -> Row:
    return row._replace(
        memory=row.memory.model_copy(
            update={
                "status": status,
                "ended_at": now,
                "ended_by": run_id,
                "superseded_by": by,
                "reason": reason or (f"superseded by {by}" if by else None),
            }
        )
    )


def plan_status(
    ids: Sequence[str],
    status: Status,
    present: Mapping[str, Row],
    holders: Mapping[str, str],
    *,
    now: datetime,
    run_id: str,
    reason: str,
) -> Change:
    """What setting a status does; making a row active supersedes the row that holds its slot."""
    change = Change("status", reason=reason)
    rows = dict(present)
    slots = dict(holders)
    for id in ids:
        row = rows.get(id)
        if row is None:
            change.items.append(Item(id=id, result="failed", reason="no such memory"))
            continue
        if row.memory.status is status:
            change.items.append(Item(id=id, result="unchanged", reason=f"already {status.value}"))
            continue
        if status is Status.ACTIVE:
            key = slot_key(row.memory)
            holder = slots.get(key) if key else None
            update: dict[str, Any] = {
                "status": status,
                "ended_at": None,
                "ended_by": None,
                "superseded_by": None,
                "reason": reason,
            }
            if key and holder and holder != id:
                loser = rows[holder]
                change.put(loser, _end(loser, Status.SUPERSEDED, now, run_id, by=id))
                rows[holder] = change.after[holder]
                change.superseded.append(holder)
                update["supersedes"] = holder
            if key:
                slots[key] = id
            new = row._replace(memory=row.memory.model_copy(update=update))
        elif status is Status.CANDIDATE:
            update = {"status": status, "ended_at": None, "ended_by": None, "reason": reason}
            new = row._replace(memory=row.memory.model_copy(update=update))
        else:
            new = _end(row, status, now, run_id, reason=reason)
        change.put(row, new)
        rows[id] = new
        change.items.append(Item(id=id, result="written", reason=reason))
    return change


def plan_revision(
    row: Row, values: Mapping[str, Any], *, reason: str, allowed: Callable[[str], bool] | None = None
) -> Change:
    """What changing single fields of one row does."""
    change = Change("revise", reason=reason)
    memory = Memory.model_validate({**row.memory.model_dump(), **values, "reason": reason})
    changed = any(getattr(memory, name) != getattr(row.memory, name) for name in values)
    if not changed:
        change.items.append(Item(id=memory.id, result="unchanged", reason="it says so already"))
        return change
    change.put(row, row._replace(memory=memory))
    change.items.append(Item(id=memory.id, result="written", reason=reason))
    return change
