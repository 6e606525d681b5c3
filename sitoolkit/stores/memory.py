"""The memory store: memories come in and are kept once, superseded instead of overwritten; rows, frames and a snapshot go out.

Each change is journaled first (whole, with the run that made it) and then committed to the LanceDB table in one step. A writer
that died in between is completed by the next one. History, undo and rebuilding read the journal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sitoolkit.errors import EmbedderMismatch, ModelError, NotFoundError, StoreError
from sitoolkit.records import Category, Clock, Item, Memory, Status, WriteReport, parse_time, utc_now
from sitoolkit.settings import Settings
from sitoolkit.stores import history as past
from sitoolkit.stores import memory_rebuild
from sitoolkit.stores.history import Diff, Event, UndoReport
from sitoolkit.stores.journal import Cursor, Entry, Journal
from sitoolkit.stores.lock import writer_lock
from sitoolkit.stores.memory_plan import Change, plan_revision, plan_status, plan_upsert
from sitoolkit.stores.memory_schema import (
    PLAIN,
    Row,
    arrow_schema,
    blocked_reason,
    frame_of,
    frame_of_entries,
    from_arrow,
    memory_id,
    memory_of,
    slot_key,
    sound_id,
    to_arrow,
)
from sitoolkit.stores.memory_table import MemoryTable, ids_filter
from sitoolkit.stores.snapshot import MemorySnapshot, SnapshotCache

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from sitoolkit.models.embedders import Embedder

__all__ = ["EVENT", "MemoryStore"]

EVENT = "memory"  # name of the journal's events that change memories
ABORTED = "memory_aborted"
BATCH = 1_000  # memories in one journal entry and one commit
VERSIONS = 64  # versions on disk before a write compacts; measured: searching slows beyond some 50 fragments
_REVISABLE = ("confidence", "base_weight", "expires_at", "tags", "payload")
T = TypeVar("T")


class MemoryStore:
    """Memories of a workspace.

    >>> report = ws.memory.upsert([memory], run_id="run_1")  # doctest: +SKIP
    >>> report.written, ws.memory.snapshot().frame.height  # doctest: +SKIP
    (1, 1)

    Args:
        folder: where the table lies; made at the first write.
        journal: takes every change before the table does.
        embedder: opens the embedder when it is first needed.
        settings: `store` and `decay` are read.
        clock: the time of writes.
        lock_folder: the folder whose writer lock is held while writing; `folder` by default.
        redact: removes secrets from a JSON value; writers redact before, this is for those who forgot.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        journal: Journal,
        *,
        embedder: Callable[[], Embedder],
        settings: Settings | None = None,
        clock: Clock = utc_now,
        lock_folder: str | os.PathLike[str] | None = None,
        redact: Callable[[Any], Any] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.journal = journal
        self.settings = settings or Settings()
        self.clock = clock
        self.table = MemoryTable(self.folder)
        self._embedder = embedder
        self._lock_folder = Path(lock_folder or folder)
        self._redact = redact
        self._known: _KnownRows | None = None
        self._snapshots = SnapshotCache(self.table)
        self.rev = 0  # number of the newest journal entry that is known to stand in the table
        self.cursor: Cursor | None = None  # how far the journal was read for entries that are not

    # ------------------------------------------------------------ writing

    def upsert(self, memories: Iterable[Memory], *, run_id: str = "") -> WriteReport:
        """Write memories in batches; says what happened to each.

        The same (scope, category, content hash) again is a repeat: it raises `seen_count` by the occurrences in `evidence`
        that were not counted yet, and `last_seen`. Another content in the same (scope, category, slot) supersedes. Text with
        hidden, reordering or control characters is blocked. A text that cannot be embedded now is kept without a vector.

        Args:
            memories: `id` and, where empty, `content_hash` are set here.
            run_id: the run that writes.

        Returns:
            A report whose items stand in the order given.

        Raises:
            StoreError: the disk is full or the folder read-only; nothing of the failing batch was kept.
            StoreLocked: another writer held the workspace too long.
            EmbedderMismatch: the table was made by another embedder.
        """
        items: list[Item | None] = []
        sound: list[tuple[int, Memory]] = []
        for given in memories:
            memory = self._without_secrets(given)
            reason = blocked_reason(memory)
            named = _named(memory) if reason is None else memory
            items.append(None if reason is None else Item(id=named.id, result="blocked", reason=reason))
            if reason is None:
                sound.append((len(items) - 1, named))
        superseded: list[str] = []
        if sound:
            # Few texts are embedded under the lock; for many, others shall not wait.
            vectors = self._vectors_ahead([memory for _, memory in sound]) if len(sound) > 64 else {}
            with self._writing("write memories"):
                for start in range(0, len(sound), BATCH):
                    batch = sound[start : start + BATCH]
                    change = self._upsert_batch([memory for _, memory in batch], run_id, vectors)
                    for (place, _), item in zip(batch, change.items, strict=True):
                        items[place] = item
                    superseded.extend(change.superseded)
        return WriteReport(
            items=tuple(item for item in items if item is not None),
            superseded=tuple(dict.fromkeys(superseded)),
        )

    def _without_secrets(self, memory: Memory) -> Memory:
        if self._redact is None or memory.written_by == "capture":  # made from calls that were sealed
            return memory
        said = {
            "text": memory.text,
            "payload": memory.payload,
            "slot": memory.slot,
            "tags": list(memory.tags),
        }
        clean = self._redact(said)
        return memory if clean == said else memory.model_copy(update={**clean, "tags": tuple(clean["tags"])})

    def _upsert_batch(
        self, memories: Sequence[Memory], run_id: str, vectors: dict[str, NDArray[np.float32]]
    ) -> Change:
        keys = [key for key in (slot_key(memory) for memory in memories) if key]
        present, holders = self._present([memory.id for memory in memories], keys)
        change = plan_upsert(memories, present, holders, now=self.clock(), run_id=run_id)
        self._commit(change, run_id, vectors)
        return change

    def set_status(
        self, ids: Iterable[str], status: Status | str, *, run_id: str = "", reason: str
    ) -> WriteReport:
        """Set the status of memories; one that becomes active supersedes the row that holds its slot.

        Args:
            ids: memories; an unknown one is reported as failed.
            status: the new status.
            run_id: the run that decides.
            reason: why; kept with the row.
        """
        wanted = list(dict.fromkeys(ids))
        target = Status(status)
        reason = self._redact(reason) if self._redact else reason
        items: list[Item] = []
        superseded: list[str] = []
        with self._writing("change the status of memories"):
            for start in range(0, len(wanted), BATCH):
                batch = wanted[start : start + BATCH]
                present, _ = self._present(batch, [])
                keys = [key for row in present.values() if (key := slot_key(row.memory))]
                more, holders = self._present([], keys) if target is Status.ACTIVE else ({}, {})
                change = plan_status(
                    batch,
                    target,
                    {**more, **present},
                    holders,
                    now=self.clock(),
                    run_id=run_id,
                    reason=reason,
                )
                self._commit(change, run_id, {})
                items.extend(change.items)
                superseded.extend(change.superseded)
        return WriteReport(items=tuple(items), superseded=tuple(superseded))

    def revise(self, id: str, *, run_id: str = "", reason: str, **values: Any) -> Memory:
        """Change single fields of a memory that are no part of its content; the journal keeps what they were.

        Args:
            id: the memory.
            run_id: the run that decides.
            reason: why.
            **values: `confidence`, `base_weight`, `expires_at`, `tags`, `payload`.

        Raises:
            NotFoundError: no such memory.
            StoreError: a field that makes the content; write a new memory instead.
        """
        wrong = [name for name in values if name not in _REVISABLE]
        if wrong:
            raise StoreError(
                f"{wrong[0]!r} of a memory is not revised; upsert a new one that supersedes it "
                f"(revisable: {', '.join(_REVISABLE)})"
            )
        if self._redact is not None:
            reason, values = self._redact(reason), {**values, **self._redact(_plain_only(values))}
        with self._writing("revise a memory"):
            present, _ = self._present([id], [])
            if id not in present:
                raise NotFoundError(f"no memory {id!r} in {self.folder}; `sitoolkit memory list` shows them")
            change = plan_revision(present[id], values, reason=reason)
            self._commit(change, run_id, {})
            return change.after[id].memory if change.after else present[id].memory

    # ------------------------------------------------------------ reading

    def get(self, id: str) -> Memory | None:
        """One memory, whatever its status; `None` if there is none."""
        found = self.rows(ids=[id])
        return found[0] if found else None

    def rows(
        self,
        category: Category | str | Iterable[str] | None = None,
        scopes: Iterable[str] | None = None,
        status: Status | str | Iterable[str] | None = None,
        ids: Iterable[str] | None = None,
        as_of: datetime | str | None = None,
        run_id: str | None = None,
    ) -> list[Memory]:
        """Memories in order of id; arguments that are absent do not restrict.

        Args:
            category: one or several.
            scopes: exact scopes.
            status: one or several; all by default.
            ids: exact ids.
            as_of: as they stood at that time, read from the journal.
            run_id: those that this run wrote, or ended.
        """
        frame = self.frame(category, scopes, status, ids, as_of, run_id)
        return [memory_of(entry) for entry in frame.to_dicts()]

    def frame(
        self,
        category: Category | str | Iterable[str] | None = None,
        scopes: Iterable[str] | None = None,
        status: Status | str | Iterable[str] | None = None,
        ids: Iterable[str] | None = None,
        as_of: datetime | str | None = None,
        run_id: str | None = None,
    ) -> pl.DataFrame:
        """As `rows`, as a polars frame; `payload` is JSON text, the vector is left out."""
        import polars as pl

        moment = parse_time(as_of)
        wanted = None if ids is None else [one for one in dict.fromkeys(ids) if sound_id(one)]
        if moment is not None:
            frame = frame_of_entries(list(past.rows_at(self.journal, moment)))
        elif not self.table.exists or wanted == []:
            frame = frame_of([])
        else:
            self.ready()
            read = pl.from_arrow(self.table.read(ids_filter("id", wanted) if wanted else None, list(PLAIN)))
            assert isinstance(read, pl.DataFrame)
            frame = read
        conditions = []
        for column, values in (
            ("category", _texts(category)), ("scope", _texts(scopes)), ("status", _texts(status)), ("id", wanted),
        ):  # fmt: skip
            if values is not None:
                conditions.append(pl.col(column).is_in(values))
        if run_id is not None:
            conditions.append((pl.col("run_id") == run_id) | (pl.col("ended_by") == run_id))
        return (frame.filter(*conditions) if conditions else frame).sort("id")

    def snapshot(self) -> MemorySnapshot:
        """The active rows as frame and matrix for recall, cached; cheap when nothing or little changed."""
        if self.table.exists:
            self.ready()
        return self._snapshots.get()

    def vectors(self, ids: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        """Vectors of memories that have one, whatever their status."""
        wanted = [one for one in dict.fromkeys(ids) if sound_id(one)]
        found: dict[str, NDArray[np.float32]] = {}
        if not self.table.exists:
            return found
        for start in range(0, len(wanted), BATCH):
            rows = self.table.read(
                ids_filter("id", wanted[start : start + BATCH]), [*PLAIN, "seen", "vector"]
            )
            found |= {row.memory.id: row.vector for row in from_arrow(rows) if row.vector is not None}
        return found

    def search_vectors(
        self, vector: NDArray[np.float32], scopes: Iterable[str], k: int
    ) -> list[tuple[str, float]]:
        """The `k` active memories of these scopes nearest to a unit vector: (id, cosine), best first.

        For stores too large for the snapshot's matrix; an index made by `optimize` is used when there is one.
        """
        from sitoolkit.stores.memory_schema import scope_key

        keys = sorted({scope_key(scope) for scope in scopes})
        if not self.table.exists or not keys:
            return []
        self.check_dim(len(vector))
        rows = (
            self.table.open()
            .search(vector, vector_column_name="vector")
            .distance_type("cosine")
            .where(f"status = 'active' and has_vector and {ids_filter('scope_key', keys)}", prefilter=True)
            .select(["id", "_distance"])
            .limit(k)
            .to_arrow()
        )
        return [
            (id, 1.0 - distance)
            for id, distance in zip(rows["id"].to_pylist(), rows["_distance"].to_pylist(), strict=True)
        ]

    @property
    def version(self) -> str:
        """Changes when the content may have changed; `none` before the first write."""
        return f"{self.table.name}@{self.table.version}" if self.table.exists else "none"

    # ------------------------------------------------------------ over time

    def history(self, id: str) -> list[Event]:
        """Everything that happened to a memory, oldest first, from the journal."""
        return past.of_memory(self.journal, id)

    def diff(self, a: str, b: str) -> Diff:
        """What differs between the memories after run (or time) `a` and after `b`."""
        return past.diff(self.journal, a, b)

    def undo(self, run_id: str, cascade: bool = False, *, by_run: str = "") -> UndoReport:
        """Restore what a run superseded, retired or revised, and retire what it wrote.

        Args:
            run_id: the run to undo.
            cascade: also undo the later runs that built on it.
            by_run: the run that undoes; it can be undone itself.

        Raises:
            NotFoundError: no run of that id changed memories.
            StoreError: later runs built on it and `cascade` is false; they are listed.
        """
        with self._writing("undo a run"):
            plan = past.plan_undo(self.journal, run_id, cascade=cascade)
            ids = list(plan.restore)
            for start in range(0, len(ids), BATCH):
                batch = ids[start : start + BATCH]
                present, _ = self._present(batch, [])
                change = past.undo_change(plan, batch, present, now=self.clock(), run_id=by_run)
                self._commit(change, by_run, {})
        return plan.report()

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write all memories as JSON lines, in order of id; gives how many."""
        from sitoolkit.stores.log import encode, explain_disk

        target = Path(path)
        memories = self.rows()
        with explain_disk(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f"{target.name}.partial")
            partial.write_bytes(b"".join(encode(memory.to_json()) + b"\n" for memory in memories))
            partial.replace(target)
        return len(memories)

    # ------------------------------------------------------------ keeping house

    def optimize(self) -> None:
        """After a batch job: merge fragments, remove old versions, drop ended rows past their retention."""
        if not self.table.exists:
            return
        with self._writing("compact the memory table"):
            memory_rebuild.purge(self)
            if self.table.open().count_rows() > max(self.settings.recall.matrix_rows, 1_000):
                self.table.index()
            self.table.compact()

    def reembed(self, embedder: Embedder | None = None) -> memory_rebuild.ReembedReport:
        """Make a new table with the vectors of another embedder, and put it in use; the old one is kept until `drop_old`."""
        return memory_rebuild.reembed(self, embedder or self._embedder())

    def drop_old(self) -> list[str]:
        """Remove the tables that are no longer in use; gives their names."""
        return memory_rebuild.drop_old(self)

    def rebuild(self) -> memory_rebuild.RebuildReport:
        """Make the table again from the journal and put it in use."""
        return memory_rebuild.rebuild(self)

    def check(self) -> list[str]:
        """What is wrong with the store, in words; empty when all is well."""
        return memory_rebuild.check(self)

    # ------------------------------------------------------------ inside

    def _writing(self, doing: str) -> _Writing:
        return _Writing(self, doing)

    def lock(self, doing: str) -> Any:
        """The workspace's writer lock."""
        return writer_lock(self._lock_folder, self.settings.store.lock_timeout_s, doing=doing)

    def ready(self) -> None:
        """Bring an older table up to date before it is used."""
        if self.table.info.schema < memory_rebuild.SCHEMA:
            with self.lock("migrate the memory table"):
                memory_rebuild.migrate(self)

    def embedder_for_table(self) -> Embedder:
        """The embedder, after checking that the table was made by it.

        Raises:
            EmbedderMismatch: it was made by another one; nothing is changed.
        """
        embedder = self._embedder()
        if self.table.exists:
            info = self.table.info
            if (info.embedder, info.dim) != (embedder.name, embedder.dim) or (
                info.get("sha") and info["sha"] != embedder.sha
            ):
                raise EmbedderMismatch(
                    f"the memory table in {self.folder} was made by {info.embedder} ({info.dim} numbers a vector, "
                    f"weights {str(info.get('sha'))[:12]}), the embedder now is {embedder.name} ({embedder.dim}, "
                    f"{embedder.sha[:12]}); set models.embedder back, or run `sitoolkit memory reembed`"
                )
        return embedder

    def check_dim(self, dim: int) -> None:
        """Refuse a query vector of another length than the table's.

        Raises:
            EmbedderMismatch: names both sizes.
        """
        if self.table.exists and self.table.info.dim != dim:
            raise EmbedderMismatch(
                f"the memory table in {self.folder} holds vectors of {self.table.info.dim} numbers "
                f"({self.table.info.embedder}), the query has {dim}; run `sitoolkit memory reembed`"
            )

    def _present(self, ids: Sequence[str], keys: Sequence[str]) -> tuple[dict[str, Row], dict[str, str]]:
        """Rows under these ids, and the active rows that hold these slots, with the map from slot key to holder."""
        rows: dict[str, Row] = {}
        if not self.table.exists:
            return rows, {}
        known = self._known_rows()
        unique_ids = [one for one in dict.fromkeys(ids) if one in known.ids]
        unique_keys = list(dict.fromkeys(keys))
        unique_ids += [known.slots[key] for key in unique_keys if key in known.slots]
        if not unique_ids:
            return rows, {}
        for row in from_arrow(self.table.read(ids_filter("id", dict.fromkeys(unique_ids)))):
            rows[row.memory.id] = row
        wanted = set(unique_keys)
        holders = {
            key: row.memory.id
            for row in rows.values()
            if row.memory.status is Status.ACTIVE and (key := slot_key(row.memory)) in wanted and key
        }
        return rows, holders

    def _known_rows(self) -> _KnownRows:
        """Which ids and slots the table holds; read once, then kept up to date. Under the lock, after `recover`."""
        known = self._known
        if known is None or known.table != self.table.name:
            known, where = _KnownRows(self.table.name), None
        elif known.rev == self.rev:
            return known
        else:  # another process wrote meanwhile
            where = f"rev > {known.rev}"
        rows = self.table.read(where, ["id", "slot_key", "status"])
        for id, key, status in zip(
            *(rows[name].to_pylist() for name in ("id", "slot_key", "status")), strict=True
        ):
            known.note(id, key, status == Status.ACTIVE)
        known.rev, self._known = self.rev, known
        return known

    def _vectors_ahead(self, memories: Sequence[Memory]) -> dict[str, NDArray[np.float32]]:
        """Vectors of the texts that the table does not hold yet, made before the lock is taken."""
        self.embedder_for_table()
        known: set[str] = set()
        if self.table.exists:
            self.ready()
            # A hint: a text too many is embedded for nothing, one too few later, under the lock.
            known = self._known.ids if self._known else set(self.table.read(columns=["id"])["id"].to_pylist())
        return self.embed([memory.text for memory in memories if memory.id not in known])

    def open_embedder(self) -> Embedder:
        """The embedder in use, opened."""
        return self._embedder()

    def reset(self) -> None:
        """Forget what is known of the table: another one was put in use."""
        self.rev, self.cursor, self._known = 0, None, None

    def embed(self, texts: Iterable[str], embedder: Embedder | None = None) -> dict[str, NDArray[np.float32]]:
        """Vectors by text, each text embedded once; those with nothing to embed are left out."""
        wanted = list(dict.fromkeys(texts))
        found: dict[str, NDArray[np.float32]] = {}
        if not wanted:
            return found
        embedder = embedder or self._embedder()
        for start in range(0, len(wanted), 512):
            batch = wanted[start : start + 512]
            try:
                rows = embedder.embed(batch)
            except ModelError:  # a server that is away: the rows are kept without vectors and say so
                return found
            for text, row in zip(batch, rows, strict=True):
                length = float(row @ row)
                if 0.5 < length < 2.0:
                    found[text] = row
        return found

    def _commit(self, change: Change, run_id: str, vectors: dict[str, NDArray[np.float32]]) -> None:
        """Journal a change, then make it; whole or not at all."""
        if not change.after:
            return
        embedder = self.embedder_for_table()
        missing = [
            row.memory.text
            for row in change.after.values()
            if row.vector is None and row.memory.text not in vectors
        ]
        if missing:
            vectors.update(self.embed(missing))
        if not self.table.exists:
            self.table.point_to(self.table.make(embedder=embedder.name, dim=embedder.dim, sha=embedder.sha))
        entry = self.journal.append_entry(EVENT, change.entry(), run_id or None)
        try:
            self._write(list(change.after.values()), entry.seq, vectors)
            known = self._known
            if known is not None and known.table == self.table.name and known.rev == self.rev:
                for row in change.after.values():
                    known.note(row.memory.id, slot_key(row.memory), row.memory.status is Status.ACTIVE)
                known.rev = entry.seq
            self.rev = entry.seq
        except StoreError:
            if self.table.newest_rev() < entry.seq and not self.journal.take_back(entry):
                self.journal.append(ABORTED, {"seq": entry.seq, "reason": "the table could not be written"})
            raise

    def _write(self, rows: Sequence[Row], rev: int, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        info = self.table.info
        ready = [
            row._replace(
                rev=rev, vector=row.vector if row.vector is not None else vectors.get(row.memory.text)
            )
            for row in rows
        ]
        self.table.merge(to_arrow(ready, arrow_schema(info.dim), info.embedder))

    def recover(self) -> int:
        """Complete what a writer journaled and did not commit; gives the number of entries. Under the lock."""
        return memory_rebuild.recover(self)

    def apply(self, entry: Entry) -> None:
        """Make the change of a journal entry again. Under the lock."""
        if not self.table.exists:
            embedder = self._embedder()
            self.table.point_to(self.table.make(embedder=embedder.name, dim=embedder.dim, sha=embedder.sha))
        rows = past.replay(entry, self._present(past.touched(entry), [])[0])
        self._write(rows, entry.seq, self.embed([row.memory.text for row in rows if row.vector is None]))


class _KnownRows:
    """Ids of a table and who holds its slots. An id too many costs one look; one too few would lose a row."""

    def __init__(self, table: str) -> None:
        self.table = table
        self.rev = 0
        self.ids: set[str] = set()
        self.slots: dict[str, str] = {}

    def note(self, id: str, key: str | None, active: bool) -> None:
        self.ids.add(id)
        if key and active:
            self.slots[key] = id
        elif key and self.slots.get(key) == id:
            del self.slots[key]


class _Writing:
    """The lock, with what a dead writer left completed, and compaction when versions pile up."""

    def __init__(self, store: MemoryStore, doing: str) -> None:
        self._store = store
        self._lock = store.lock(doing)

    def __enter__(self) -> None:
        self._lock.__enter__()
        try:
            if self._store.table.exists:
                self._store.ready()
            self._store.recover()
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: Any) -> None:
        try:
            table = self._store.table
            if kind is None and table.exists and table.versions_on_disk() > VERSIONS:
                table.compact()
        finally:
            self._lock.__exit__(kind, fault, trace)


def _named(memory: Memory) -> Memory:
    from sitoolkit.records import digest

    content = memory.content_hash or digest(memory.text)
    return memory.model_copy(
        update={"content_hash": content, "id": memory_id(memory.category, memory.scope, content)}
    )


def _plain_only(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that may hold a secret."""
    return {name: values[name] for name in ("payload",) if name in values}


def _texts(values: str | Iterable[str] | None) -> list[str] | None:
    if values is None:
        return None
    return [str(values)] if isinstance(values, str) else [str(value) for value in values]
