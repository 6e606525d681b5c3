"""What recall searches: the table's active rows as one frame and one matrix, read once and then kept up to date by what changed."""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sitoolkit.stores.memory_schema import PLAIN, vectors_of
from sitoolkit.stores.memory_table import MemoryTable

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["MemorySnapshot", "SnapshotCache"]

# Two commits within one tick of the file system's clock leave the same stamp; a stamp this young is not trusted.
_YOUNG_NS = 50_000_000
_CHUNKS = 200  # pieces that a frame may consist of before it is made one


@dataclass(frozen=True)
class MemorySnapshot:
    """Active rows of the memory table, in order of id.

    Attributes:
        frame: all columns but the vector; `payload` is JSON text.
        matrix: float32 (rows, dim), unit rows in the frame's order; zeros where `has_vector` is false.
        version: changes when the content may have changed.
        embedder: name of the embedder that made the vectors.
    """

    frame: pl.DataFrame
    matrix: NDArray[np.float32]
    version: str
    embedder: str = ""
    rev: int = 0

    @cached_property
    def ids(self) -> list[str]:
        """The ids in the frame's order."""
        return self.frame["id"].to_list()

    @cached_property
    def has_vector(self) -> NDArray[np.bool_]:
        """Which rows have a vector."""
        return self.frame["has_vector"].to_numpy()

    def __len__(self) -> int:
        return self.frame.height


class SnapshotCache:
    """Keeps the newest snapshot of a table."""

    def __init__(self, table: MemoryTable) -> None:
        self._table = table
        self._kept: MemorySnapshot | None = None
        self._stamp: tuple[Any, ...] | None = None
        self._version: tuple[str, int] | None = None

    def get(self) -> MemorySnapshot:
        """The present snapshot; free when nothing changed, cheap when little did."""
        if not self._table.exists:
            return _empty()
        stamp = self._table.stamp()
        if self._kept is not None and stamp == self._stamp:
            if time.time_ns() - stamp[1] > _YOUNG_NS:
                return self._kept
            if (self._table.name, self._table.version) == self._version:
                return self._kept
        version = (self._table.name, self._table.version)
        kept = self._kept if self._version is not None and self._version[0] == version[0] else None
        self._kept = self._load(version) if kept is None else self._refresh(kept, version)
        self._stamp, self._version = stamp, version
        return self._kept

    def _load(self, version: tuple[str, int]) -> MemorySnapshot:
        rev = self._table.newest_rev()  # read first: what comes later is read again by the next refresh
        rows = self._table.read("status = 'active'", [*PLAIN, "vector"])
        frame, matrix = _split(rows)
        info = self._table.info
        return _ordered(frame, matrix, version, info.embedder, rev)

    def _refresh(self, kept: MemorySnapshot, version: tuple[str, int]) -> MemorySnapshot:
        import numpy as np
        import polars as pl

        rows = self._table.read(f"rev > {int(kept.rev)}", [*PLAIN, "vector"])
        if rows.num_rows == 0:
            return MemorySnapshot(kept.frame, kept.matrix, _label(version), kept.embedder, kept.rev)
        if rows.num_rows > max(1_000, len(kept) // 20):
            return self._load(version)
        frame, matrix = _split(rows)
        rev = max(kept.rev, int(frame["rev"].max()))  # type: ignore[arg-type]
        order = frame["id"].arg_sort().to_numpy()
        frame, matrix = frame[order], matrix[order]
        # Both are in order of id: what lies between two changed rows is taken over in one piece.
        ids = kept.ids
        frames: list[pl.DataFrame] = []
        parts: list[NDArray[np.float32]] = []
        place = 0
        for number, (id, status) in enumerate(frame.select("id", "status").iter_rows()):
            found = bisect_left(ids, id, place)
            frames.append(kept.frame.slice(place, found - place))
            parts.append(kept.matrix[place:found])
            place = found + 1 if found < len(ids) and ids[found] == id else found
            if status == "active":
                frames.append(frame.slice(number, 1))
                parts.append(matrix[number : number + 1])
        frames.append(kept.frame.slice(place))
        parts.append(kept.matrix[place:])
        joined = pl.concat(frames, rechunk=len(frames) + kept.frame.n_chunks() > _CHUNKS)
        return MemorySnapshot(joined, np.concatenate(parts), _label(version), kept.embedder, rev)


def _split(rows: pa.Table) -> tuple[pl.DataFrame, NDArray[np.float32]]:
    import polars as pl

    matrix, has = vectors_of(rows)
    assert matrix is not None
    frame = pl.from_arrow(rows.select(list(PLAIN)))
    assert isinstance(frame, pl.DataFrame)
    return frame.with_columns(pl.Series("has_vector", has)), matrix


def _ordered(
    frame: pl.DataFrame, matrix: NDArray[np.float32], version: tuple[str, int], embedder: str, rev: int
) -> MemorySnapshot:
    order = frame["id"].arg_sort().to_numpy()
    return MemorySnapshot(frame[order], matrix[order], _label(version), embedder, rev)


def _label(version: tuple[str, int]) -> str:
    return f"{version[0]}@{version[1]}"


def _empty() -> MemorySnapshot:
    import numpy as np

    from sitoolkit.stores.memory_schema import frame_of

    return MemorySnapshot(frame_of([]), np.zeros((0, 0), dtype=np.float32), "none")
