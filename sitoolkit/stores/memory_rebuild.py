"""Making the memory table anew: from the journal, with another embedder, from an older schema; and keeping it small and sound.

Each of these writes a new table beside the one in use and puts it in use by one rename; a crash leaves the old one in place.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sitoolkit.errors import StoreDamaged, StoreError
from sitoolkit.records import Memory, Record
from sitoolkit.stores import history
from sitoolkit.stores.journal import Cursor, Entry
from sitoolkit.stores.log import encode, explain_disk
from sitoolkit.stores.memory_schema import (
    SCHEMA,
    Row,
    arrow_schema,
    from_arrow,
    occurrences,
    pack,
    to_arrow,
    to_entry,
    vectors_of,
)
from sitoolkit.stores.memory_table import ids_filter

if TYPE_CHECKING:
    from sitoolkit.models.embedders import Embedder
    from sitoolkit.stores.memory import MemoryStore

__all__ = [
    "SCHEMA",
    "RebuildReport",
    "ReembedReport",
    "check",
    "drop_old",
    "migrate",
    "purge",
    "rebuild",
    "recover",
    "reembed",
]

log = logging.getLogger(__name__)

_PLACE = (
    "applied.json"  # where in the journal the table's last commit stands; a hint that spares reading it all
)
_UNDERWAY = "reembed.json"  # a re-embedding that was begun
_BATCH = 512


class ReembedReport(Record):
    """What a re-embedding did."""

    table: str
    rows: int
    embedded: int  # in this call; less than `rows` when an earlier call was resumed
    embedder: str
    kept: str | None = None  # the old table, until `memory reembed --drop-old`


class RebuildReport(Record):
    """What a rebuilding did."""

    table: str
    rows: int
    entries: int
    kept: str | None = None
    lost: tuple[str, ...] = ()  # damaged lines of the journal, whose changes are missing


# ---------------------------------------------------------------- completing a dead writer's work


def recover(store: MemoryStore) -> int:
    """Make the changes that were journaled and not committed; gives their number. Under the writer lock."""
    cursor = _cursor(store)
    start = cursor.place
    fresh = [record for record in cursor.read() if record["seq"] > store.rev]
    done = 0
    if fresh:
        rev = store.table.newest_rev() if store.table.exists else 0
        store.rev = rev  # before anything is applied: what others committed is looked at first
        failed = {entry.data.get("seq") for entry in store.journal.events("memory_aborted")}
        for record in fresh:
            if record["seq"] > rev and record["seq"] not in failed:
                store.apply(Entry.model_validate(record))
                store.rev = record["seq"]
                done += 1
        store.rev = max(rev, fresh[-1]["seq"])
    if done:
        log.info("completed %d changes of memories that a stopped writer had journaled", done)
    if cursor.place["offset"] - start["offset"] > (1 << 20) or cursor.place["segment"] != start["segment"]:
        _note_place(store, cursor.place)
    return done


def _cursor(store: MemoryStore) -> Cursor:
    if store.cursor is None:
        place: dict[str, Any] | None = None
        with suppress(OSError, ValueError):
            found = json.loads((store.folder / _PLACE).read_bytes())
            # The hint is only true of the table and the journal that it was written for.
            if store.table.exists and found.get("table") == store.table.name:
                place = found
        try:
            store.cursor = Cursor(store.journal, "memory", place)
        except (KeyError, TypeError, ValueError):
            store.cursor = Cursor(store.journal, "memory")
    return store.cursor


def _note_place(store: MemoryStore, place: dict[str, Any]) -> None:
    if not store.table.exists:
        return
    path = store.folder / _PLACE
    partial = path.with_suffix(".partial")
    with suppress(OSError):  # a hint: without it the journal is read from its start
        partial.write_bytes(encode({**place, "table": store.table.name}))
        partial.replace(path)


# ---------------------------------------------------------------- a new table


def _fill(store: MemoryStore, table: Any, embedder: Embedder, rows: Iterable[Row]) -> int:
    schema = arrow_schema(embedder.dim)
    batch: list[Row] = []
    count = 0
    for row in rows:
        batch.append(row)
        if len(batch) == _BATCH:
            store.table.merge(to_arrow(batch, schema, embedder.name), table=table)
            count += len(batch)
            batch = []
    if batch:
        store.table.merge(to_arrow(batch, schema, embedder.name), table=table)
        count += len(batch)
    return count


def rebuild(store: MemoryStore) -> RebuildReport:
    """Make the table again from the journal, with the embedder in use; the old one stays until `drop_old`."""
    with store.lock("rebuild the memory table"):
        faults: list[Any] = []
        entries = sum(1 for _ in store.journal.events("memory", faults=faults))
        state = history.fold(store.journal)
        embedder = store.open_embedder()
        old = _name_in_use(store)
        name = store.table.make(embedder=embedder.name, dim=embedder.dim, sha=embedder.sha)
        table = store.table.other(name)
        ids = [id for id in sorted(state.rows) if id not in state.purged]

        def rows() -> Iterable[Row]:
            for start in range(0, len(ids), _BATCH):
                batch = ids[start : start + _BATCH]
                memories = [(id, Memory.model_validate(state.rows[id])) for id in batch]
                vectors = store.embed([memory.text for _, memory in memories])
                for id, memory in memories:
                    seen = pack(state.seen.get(id, set()))
                    yield Row(memory, seen, vectors.get(memory.text), state.revs[id])

        count = _fill(store, table, embedder, rows())
        store.table.point_to(name)
        store.reset()
        lost = tuple(f"{fault.file}:{fault.line}: {fault.reason}" for fault in faults)
        return RebuildReport(table=name, rows=count, entries=entries, kept=old, lost=lost)


def _name_in_use(store: MemoryStore) -> str | None:
    try:
        return store.table.name if store.table.exists else None
    except StoreDamaged:
        return None


def reembed(store: MemoryStore, embedder: Embedder) -> ReembedReport:
    """Make a new table with the vectors of `embedder`. Stopped, it goes on where it was when it is called again."""
    if not store.table.exists:
        raise StoreError("there are no memories to embed yet")
    store.ready()
    name = _underway(store, embedder)
    table = store.table.other(name)
    # Most of the work needs no lock: writers go on with the old table, what they change is copied at the end.
    embedded = _copy(store, table, embedder)
    with store.lock("re-embed memories"):
        embedded += _copy(store, table, embedder)
        old = store.table.name
        store.table.point_to(name)
        (store.folder / _UNDERWAY).unlink(missing_ok=True)
        store.reset()
        store.table.compact()
        rows = store.table.open().count_rows()
    return ReembedReport(table=name, rows=rows, embedded=embedded, embedder=embedder.name, kept=old)


def _underway(store: MemoryStore, embedder: Embedder) -> str:
    path = store.folder / _UNDERWAY
    wanted = {"embedder": embedder.name, "dim": embedder.dim, "sha": embedder.sha}
    with store.lock("begin to re-embed memories"):
        with suppress(OSError, ValueError, KeyError):
            found = json.loads(path.read_bytes())
            if {key: found[key] for key in wanted} == wanted and found["table"] in store.table.tables():
                return str(found["table"])
        name = store.table.make(embedder=embedder.name, dim=embedder.dim, sha=embedder.sha)
        with explain_disk(path):
            path.write_bytes(encode({**wanted, "table": name}))
    return name


def _copy(store: MemoryStore, table: Any, embedder: Embedder) -> int:
    have = store.table.read(columns=["id", "rev"], table=table)
    done = dict(zip(have["id"].to_pylist(), have["rev"].to_pylist(), strict=True))
    source = store.table.read(columns=["id", "rev"])
    left = sorted(
        id
        for id, rev in zip(source["id"].to_pylist(), source["rev"].to_pylist(), strict=True)
        if done.get(id) != rev
    )
    for start in range(0, len(left), _BATCH):
        rows = from_arrow(store.table.read(ids_filter("id", left[start : start + _BATCH])))
        vectors = store.embed([row.memory.text for row in rows], embedder)
        new = [row._replace(vector=vectors.get(row.memory.text)) for row in rows]
        store.table.merge(to_arrow(new, arrow_schema(embedder.dim), embedder.name), table=table)
    return len(left)


def drop_old(store: MemoryStore) -> list[str]:
    """Remove tables that are neither in use nor being filled."""
    with store.lock("remove old memory tables"):
        keep = {store.table.name} if store.table.exists else set()
        with suppress(OSError, ValueError, KeyError):
            keep.add(str(json.loads((store.folder / _UNDERWAY).read_bytes())["table"]))
        old = [name for name in store.table.tables() if name not in keep]
        for name in old:
            store.table.drop(name)
    return old


# ---------------------------------------------------------------- earlier schemas


def migrate(store: MemoryStore) -> None:
    """Bring the table to the present schema. Under the writer lock.

    0 to 1: a row of zeros is no vector. 1 to 2: `rev`, `seen` and the keys are computed, and every row that the journal does
    not know is journaled, so that history and rebuilding see it.
    """
    info = store.table.info
    if info.schema >= SCHEMA:
        return
    log.info("memory table: schema %d to %d", info.schema, SCHEMA)
    old = store.table.read()
    rows = from_arrow(old)
    _, has = vectors_of(old)
    known = history.fold(store.journal).revs
    name = store.table.make(embedder=info.embedder, dim=info.dim, sha=str(info.get("sha") or ""))
    table = store.table.other(name)
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        strangers = [row for row in batch if row.memory.id not in known]
        rev = 0
        if strangers:
            data = {
                "op": "migrate",
                "reason": f"schema {info.schema} to {SCHEMA}",
                "rows": [to_entry(row.memory) for row in strangers],
            }
            rev = store.journal.append_entry("memory", data).seq
        new = []
        for place, row in enumerate(batch, start):
            vector = row.vector if has[place] else None
            if vector is not None and not 0.5 < float(vector @ vector) < 2.0:
                vector = None
            seen = row.seen or pack(occurrences(row.memory.evidence))
            new.append(Row(row.memory, seen, vector, row.rev or known.get(row.memory.id) or rev))
        store.table.merge(to_arrow(new, arrow_schema(info.dim), info.embedder), table=table)
    store.table.point_to(name)
    store.reset()


# ---------------------------------------------------------------- small and sound


def purge(store: MemoryStore) -> int:
    """Remove rows that ended longer ago than `decay.keep_states_days`; the journal still tells of them."""
    limit = store.clock() - timedelta(days=store.settings.decay.keep_states_days)
    where = "status = 'superseded' or status = 'retired'"
    rows = store.table.read(where, ["id", "ended_at"]).to_pylist()
    gone = sorted(row["id"] for row in rows if row["ended_at"] is not None and row["ended_at"] < limit)
    if gone:
        store.journal.append(
            "memory_purged", {"ids": gone, "keep_days": store.settings.decay.keep_states_days}
        )
        store.table.delete(gone)
    return len(gone)


def check(store: MemoryStore) -> list[str]:
    """Compare table and journal; gives what is wrong, each with the command that mends it."""
    found = []
    verdict = store.journal.verify()
    if not verdict.ok:
        found.append(f"the journal is broken at {verdict.broken}: {verdict.reason}; restore it from a backup")
    if not store.table.exists:
        return found
    try:
        table = store.table.read(
            columns=[
                "id",
                "status",
                "seen_count",
                "text",
                *(["vector"] if store.table.info.schema == SCHEMA else []),
            ]
        )
    except StoreError as fault:
        return [*found, str(fault)]
    ids = table["id"].to_pylist()
    mend = "run `sitoolkit memory rebuild`"
    if len(set(ids)) != len(ids):
        found.append(f"{len(ids) - len(set(ids))} memories stand in the table twice; {mend}")
    if store.table.info.schema != SCHEMA:
        return found
    stand = dict(
        zip(
            ids,
            zip(
                table["status"].to_pylist(),
                table["seen_count"].to_pylist(),
                table["text"].to_pylist(),
                strict=True,
            ),
            strict=True,
        )
    )
    if verdict.ok:
        found += _against(stand, history.fold(store.journal, counting=False), mend)
    matrix, has = vectors_of(table)
    if matrix is not None:
        import numpy as np

        lengths = np.einsum("ij,ij->i", matrix, matrix)
        bad = [ids[place] for place in np.flatnonzero(has & (abs(lengths - 1) > 0.1))]
        if bad:
            found.append(
                f"{len(bad)} vectors are not of length 1 ({bad[0]}, …); run `sitoolkit memory reembed`"
            )
    bare = [ids[place] for place in (~has).nonzero()[0] if stand[ids[place]][0] == "active"]
    if bare:
        found.append(
            f"{len(bare)} active memories have no vector and are found by text alone; run `sitoolkit memory reembed`"
        )
    return found


def _against(stand: dict[str, tuple[str, int, str]], state: history.State, mend: str) -> list[str]:
    """What differs between the rows of the table and those that the journal tells of."""
    found = []
    told = {id: row for id, row in state.rows.items() if id not in state.purged}
    missing = [id for id in told if id not in stand]
    if missing:
        found.append(f"{len(missing)} memories of the journal are not in the table ({missing[0]}, …); {mend}")
    strange = [id for id in stand if id not in state.rows]
    if strange:
        found.append(f"{len(strange)} memories of the table are not in the journal ({strange[0]}, …)")
    other = [
        id
        for id, row in told.items()
        if id in stand and stand[id] != (row.get("status", "active"), row.get("seen_count", 1), row["text"])
    ]
    if other:
        found.append(f"{len(other)} memories differ from the journal ({other[0]}, …); {mend}")
    return found
