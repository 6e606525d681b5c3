"""The LanceDB table behind the memory store: filters made of ids and hex come in, Arrow tables go out; one merge is one commit.

A pointer file names the table in use, so that a new one (re-embedded, migrated, rebuilt) takes over in one atomic rename.
Readers hold no lock: a reader whose files were compacted away looks again at the newest version.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sitoolkit.errors import MigrationNeeded, StoreDamaged, StoreError
from sitoolkit.records import iso, utc_now
from sitoolkit.stores.log import decode, encode, explain_disk
from sitoolkit.stores.memory_schema import SCHEMA, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MemoryTable", "TableInfo"]

POINTER = "current.json"
_META = "sitoolkit"
_TRIES = 8  # readings of a table that is compacted meanwhile
_FAULTS = (
    RuntimeError,
    OSError,
    ValueError,
)  # what lancedb raises for files that are gone, full disks, bad data


class TableInfo(dict[str, Any]):
    """What stands on the table: `schema`, `embedder`, `dim`, `sha`, `created_at`."""

    @property
    def embedder(self) -> str:
        return str(self.get("embedder", ""))

    @property
    def dim(self) -> int:
        return int(self.get("dim", 0))

    @property
    def schema(self) -> int:
        return int(self.get("schema", 0))


class MemoryTable:
    """The table that `current.json` points to, opened when first used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._name: str | None = None
        self._pointer_stamp: tuple[int, int] | None = None
        self._table: Any = None
        self._info = TableInfo()
        self._db: Any = None

    # ------------------------------------------------------------ which table

    @property
    def exists(self) -> bool:
        """Whether a table was ever made here."""
        return (self.folder / POINTER).exists()

    @property
    def name(self) -> str:
        """Name of the table in use.

        Raises:
            StoreDamaged: the pointer file cannot be read.
        """
        path = self.folder / POINTER
        try:
            stat = path.stat()
            stamp = (stat.st_mtime_ns, stat.st_ino)
            if stamp != self._pointer_stamp or self._name is None:
                name = decode(path.read_bytes())["table"]
                if name != self._name:
                    self._name, self._table = str(name), None
                self._pointer_stamp = stamp
        except FileNotFoundError:
            raise StoreError(f"no memory table in {self.folder} yet") from None
        except (ValueError, KeyError, TypeError) as fault:
            raise StoreDamaged(f"{path} is not readable: {fault}; run `sitoolkit memory rebuild`") from fault
        assert self._name is not None
        return self._name

    def stamp(self) -> tuple[Any, ...]:
        """Changes whenever the table does; costs two `stat` calls and opens nothing."""
        name = self.name
        stat = (self.folder / f"{name}.lance" / "_versions").stat()
        return (name, stat.st_mtime_ns)

    def open(self) -> Any:
        """The lancedb table.

        Raises:
            StoreDamaged: it does not open.
            MigrationNeeded: it was made by a newer version of sitoolkit.
        """
        name = self.name
        if self._table is None:
            try:
                self._table = self._connection().open_table(name)
                self._info = _info(self._table.schema)
            except _FAULTS as fault:
                raise StoreDamaged(
                    f"the memory table {self.folder / name}.lance does not open: {_short(fault)}; "
                    "run `sitoolkit memory rebuild` to make it again from telemetry and journal"
                ) from fault
            if self._info.schema > SCHEMA:
                found, self._table = self._info.schema, None
                raise MigrationNeeded(
                    f"the memory table in {self.folder} has schema {found}, this sitoolkit knows up to {SCHEMA}; "
                    "upgrade sitoolkit, nothing was changed"
                )
        return self._table

    @property
    def info(self) -> TableInfo:
        """What stands on the table in use."""
        self.open()
        return self._info

    @property
    def version(self) -> int:
        """The table's version; grows with every commit."""
        return int(self.open().version)

    def _connection(self) -> Any:
        if self._db is None:
            import lancedb

            self._db = lancedb.connect(str(self.folder), read_consistency_interval=timedelta(0))
        return self._db

    # ------------------------------------------------------------ making

    def make(self, *, embedder: str, dim: int, sha: str) -> str:
        """Make a new, empty table beside the one in use; gives its name. `point_to` puts it in use."""
        meta = {"schema": SCHEMA, "embedder": embedder, "dim": dim, "sha": sha, "created_at": iso(utc_now())}
        with explain_disk(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            numbers = [int(name[9:15]) for name in self.tables()]
            name = f"memories-{max(numbers, default=0) + 1:06d}"
        schema = arrow_schema(dim, {_META: json.dumps(meta)})
        with lance_faults(self.folder):
            table = self._connection().create_table(name, schema=schema)
            # Without it two processes that merge the same new key leave two rows.
            table.set_unenforced_primary_key("id")
        return name

    def point_to(self, name: str) -> None:
        """Put a table in use, atomically."""
        path = self.folder / POINTER
        partial = path.with_suffix(f".{os.getpid()}.partial")
        with explain_disk(path):
            with partial.open("wb") as file:
                file.write(encode({"table": name}))
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        self._pointer_stamp = None

    def tables(self) -> list[str]:
        """Names of all tables that lie here, oldest first."""
        try:
            names = sorted(os.listdir(self.folder))  # noqa: PTH208 - names are all that is needed
        except FileNotFoundError:
            return []
        return [name[:-6] for name in names if name.startswith("memories-") and name.endswith(".lance")]

    def other(self, name: str) -> Any:
        """Another table of this folder, by name."""
        with lance_faults(self.folder):
            return self._connection().open_table(name)

    def drop(self, name: str) -> None:
        """Remove a table that is not in use."""
        if self.exists and name == self.name:
            raise StoreError(f"{name} is the table in use")
        with lance_faults(self.folder):
            self._connection().drop_table(name)

    # ------------------------------------------------------------ reading

    def read(
        self, where: str | None = None, columns: list[str] | None = None, *, table: Any = None
    ) -> pa.Table:
        """Rows as Arrow, in no order.

        Args:
            where: a filter made of ids, hex keys and numbers only.
            columns: all when absent.
            table: another table than the one in use.
        """
        for attempt in range(_TRIES):
            try:
                query = (self.open() if table is None else table).search()
                if where:
                    query = query.where(where)
                if columns:
                    query = query.select(columns)
                return query.limit(None).to_arrow()
            except _FAULTS as fault:
                if attempt == _TRIES - 1:
                    raise StoreDamaged(
                        f"the memory table in {self.folder} cannot be read: {_short(fault)}; "
                        "run `sitoolkit doctor`, then `sitoolkit memory rebuild`"
                    ) from fault
                # Its files were compacted away under this reader, or the table was replaced.
                time.sleep(0.01 * attempt)
                if table is None:
                    self._pointer_stamp = self._table = None
        raise AssertionError("unreachable")

    def newest_rev(self) -> int:
        """Number of the newest journal entry that the table holds; 0 for an empty table."""
        import pyarrow.compute as pc

        revs = self.read(columns=["rev"])
        return int(pc.max(revs["rev"]).as_py() or 0)

    # ------------------------------------------------------------ writing, under the writer lock

    def merge(self, rows: pa.Table, *, table: Any = None) -> None:
        """Insert or replace rows by id, in one commit."""
        with lance_faults(self.folder):
            (
                (self.open() if table is None else table)
                .merge_insert("id")
                .when_matched_update_all()
                .when_not_matched_insert_all()
                .execute(rows, on_bad_vectors="null")
            )

    def delete(self, ids: Iterable[str]) -> None:
        """Remove rows."""
        wanted = list(ids)
        for start in range(0, len(wanted), 1000):
            with lance_faults(self.folder):
                self.open().delete(ids_filter("id", wanted[start : start + 1000]))

    def versions_on_disk(self) -> int:
        """How many versions lie on disk."""
        return sum(1 for _ in (self.folder / f"{self.name}.lance" / "_versions").iterdir())

    def compact(self) -> None:
        """Merge fragments and remove old versions; what a killed writer left goes too."""
        with lance_faults(self.folder):
            # Old versions serve nobody: the journal tells the past, and a reader whose files go looks again.
            self.open().optimize(cleanup_older_than=timedelta(milliseconds=1), delete_unverified=True)

    def index(self) -> None:
        """Give a large table an index over its vectors; IVF_FLAT keeps the vectors whole, so next to nothing is lost."""
        from lancedb.index import IvfFlat

        with lance_faults(self.folder):
            table = self.open()
            if not any("vector" in found.columns for found in table.list_indices()):
                table.create_index("vector", config=IvfFlat(distance_type="cosine"))


def ids_filter(column: str, values: Iterable[str]) -> str:
    """`column in (…)` over ids and hex keys.

    Raises:
        ValueError: a value is neither, so it may not become part of a filter.
    """
    wanted = list(values)
    for value in wanted:
        if not value.replace("_", "").isalnum() or not value.isascii():
            raise ValueError(f"not an id or key: {value[:40]!r}")
    return f"{column} in ({', '.join(repr(value) for value in wanted)})"


class lance_faults:  # noqa: N801 - reads as a word in `with lance_faults(folder):`
    """Turn what lancedb raises while writing into a `StoreError` that says what to do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: object) -> None:
        if not isinstance(fault, _FAULTS) or isinstance(fault, StoreError):
            return
        with explain_disk(self.folder):
            raise fault if isinstance(fault, OSError) else OSError(_short(fault)) from fault


def _info(schema: pa.Schema) -> TableInfo:
    info = TableInfo()
    with suppress(ValueError, TypeError):
        info.update(json.loads((schema.metadata or {}).get(_META.encode(), b"{}")))
    if not info.dim and "vector" in schema.names:
        info["dim"] = schema.field("vector").type.list_size
    return info


def _short(fault: BaseException) -> str:
    text = " ".join(str(fault).split())
    return text if len(text) <= 300 else f"{text[:300]}…"
