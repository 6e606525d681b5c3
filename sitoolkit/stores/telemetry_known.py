"""What a stream of telemetry holds already: records come in; which of them are new, changed or repeated goes out.

Ids and contents are known as 64-bit hashes in memory, kept up to date by reading what other processes appended.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sitoolkit.records import Item, Record, iso
from sitoolkit.stores.log import encode, read_lines
from sitoolkit.stores.telemetry_schema import COLUMNS
from sitoolkit.stores.telemetry_sql import LINE_BYTES, connect, sql_text

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

__all__ = ["Appended", "Known", "New", "Part", "prepare"]

BY_DUCKDB_BYTES = 8 << 20  # a day larger than this is read for its ids by DuckDB, not line by line
_VOLATILE = ("source", "result_source", "imported_at")  # where and when it was read is not what it says


class Appended(Record):
    """What happened to the records of one append."""

    written: int = 0  # new ids
    updated: int = 0  # known ids whose content changed; appended as a new version
    repeated: int = 0  # known, nothing new
    failed: tuple[Item, ...] = ()  # refused, with the reason
    new_ids: tuple[str, ...] = ()  # ids written or updated, in the order given


class Part(NamedTuple):
    name: str  # "2026-05-04.0"
    sealed: bool
    path: Path


class New(NamedTuple):
    id: str
    body: str  # 16 hex digits over the content
    fields: dict[str, Any]
    version: int

    def line(self) -> bytes:
        return encode({"id": self.id, "h": self.body, "v": self.version, **self.fields})


class Known:
    """Which ids and contents a stream holds, as 64-bit hashes; kept up to date by reading what was appended.

    Two of a million ids share a hash with a chance of 3 in 10**8; the cost would be one record told as repeated.
    """

    def __init__(self) -> None:
        self._ids: NDArray[np.uint64] | None = None  # sorted; None: none yet
        self._bodies: NDArray[np.uint64] | None = None
        self._new_ids: set[int] = set()
        self._new_bodies: set[int] = set()
        self._versions: dict[int, int] = {}  # of ids that were changed
        self._read: dict[str, int] = {}  # part -> bytes of its JSONL that were read; -1 for all of it

    def catch_up(self, parts: Sequence[Part]) -> None:
        """Take in what other processes appended."""
        for part in parts:
            done = self._read.get(part.name, 0)
            if done < 0:
                continue
            if part.sealed:
                self._take_many(_sealed_ids(part.path))
                self._read[part.name] = -1
                continue
            size = part.path.stat().st_size
            if size <= done:
                continue
            if done == 0 and size > BY_DUCKDB_BYTES:
                self._take_many(_many_ids(part.path))
                self._read[part.name] = size
                continue
            ids, bodies, versions = [], [], []
            for line in read_lines(part.path, offset=done):
                ids.append(str(line.record.get("id")))
                bodies.append(str(line.record.get("h")))
                versions.append(int(line.record.get("v") or 0))
                done = line.end
            self._read[part.name] = done
            self._take(ids, bodies, versions)

    def _take(self, ids: list[str], bodies: list[str], versions: list[int]) -> None:
        """Take in a few."""
        names, contents = _hashes(ids), _hashes([a + b for a, b in zip(ids, bodies, strict=True)])
        self._new_ids.update(names)
        self._new_bodies.update(contents)
        for name, version in zip(names, versions, strict=True):
            if version:
                self._versions[name] = max(version, self._versions.get(name, 0))
        if len(self._new_ids) > 50_000:
            import numpy as np

            self._ids = _merged(self._ids, np.fromiter(self._new_ids, np.uint64, len(self._new_ids)))
            self._bodies = _merged(
                self._bodies, np.fromiter(self._new_bodies, np.uint64, len(self._new_bodies))
            )
            self._new_ids, self._new_bodies = set(), set()

    def _take_many(self, frame: pl.DataFrame) -> None:
        """Take in a whole day: columns id, h, v."""
        names = frame["id"].hash(seed=_SEED).to_numpy()
        self._ids = _merged(self._ids, names)
        self._bodies = _merged(self._bodies, (frame["id"] + frame["h"]).hash(seed=_SEED).to_numpy())
        for place in frame["v"].gt(0).arg_true().to_list():
            name = int(names[place])
            self._versions[name] = max(int(frame["v"][place]), self._versions.get(name, 0))

    def sort_out(self, records: Sequence[New], stream: str) -> tuple[list[New], Appended]:
        """Which of the records are to be written, and the report."""
        names = _hashes([item.id for item in records])
        contents = _hashes([item.id + item.body for item in records])
        old_ids, old_bodies = _in(names, self._ids), _in(contents, self._bodies)
        fresh: list[New] = []
        here: dict[int, int] = {}  # ids of this batch -> newest version
        bodies_here: set[int] = set()
        written = updated = repeated = 0
        for place, item in enumerate(records):
            name, content = names[place], contents[place]
            if old_bodies[place] or content in self._new_bodies or content in bodies_here:
                repeated += 1
                continue
            known = old_ids[place] or name in self._new_ids or name in here
            if known and stream == "calls" and item.fields.get("outcome") == "unknown":
                # A shorter copy of the transcript, read later, must not hide the result that is already known.
                repeated += 1
                continue
            version = 0
            if known:
                version = max(self._versions.get(name, 0), here.get(name, 0)) + 1
                updated += 1
            else:
                written += 1
            here[name] = version
            bodies_here.add(content)
            fresh.append(item._replace(version=version))
        return fresh, Appended(
            written=written,
            updated=updated,
            repeated=repeated,
            new_ids=tuple(dict.fromkeys(item.id for item in fresh)),
        )

    def add(self, fresh: Sequence[New], parts: Sequence[Part]) -> None:
        """Remember what was just written, under the same lock."""
        for part in parts:
            if not part.sealed and self._read.get(part.name, 0) >= 0:
                self._read[part.name] = part.path.stat().st_size
        self._take(
            [item.id for item in fresh], [item.body for item in fresh], [item.version for item in fresh]
        )


_SEED = 17  # of hashes that are compared within one process alone


def _hashes(texts: list[str]) -> list[int]:
    import polars as pl

    hashed: list[int] = pl.Series(texts, dtype=pl.String).hash(seed=_SEED).to_list()
    return hashed


def _merged(old: NDArray[np.uint64] | None, new: NDArray[np.uint64]) -> NDArray[np.uint64]:
    import numpy as np

    return np.unique(new) if old is None else np.union1d(old, new)


def _in(values: list[int], among: NDArray[np.uint64] | None) -> list[bool]:
    import numpy as np

    if among is None:
        return [False] * len(values)
    wanted = np.array(values, dtype=np.uint64)
    places = np.minimum(np.searchsorted(among, wanted), len(among) - 1)
    found: list[bool] = (among[places] == wanted).tolist()
    return found


def _sealed_ids(path: Path) -> pl.DataFrame:
    import polars as pl

    return pl.read_parquet(path, columns=["id", "h", "v"])


def _many_ids(path: Path) -> pl.DataFrame:
    with connect() as con:
        frame: pl.DataFrame = con.sql(
            f"select id, h, v from read_json({sql_text(path)}, format = 'newline_delimited', ignore_errors = true, "
            f"maximum_object_size = {2 * LINE_BYTES}, columns = {{id: 'VARCHAR', h: 'VARCHAR', v: 'INTEGER'}}) "
            "where id is not null"
        ).pl()
    return frame


# ---------------------------------------------------------------- records


def prepare(
    stream: str, records: Iterable[Mapping[str, Any]], imported_at: str
) -> tuple[list[New], list[Item]]:
    import orjson

    columns = COLUMNS[stream]
    prepared: list[New] = []
    failed: list[Item] = []
    for place, given in enumerate(records):
        name = given.get("id")
        if not isinstance(name, str) or not name:
            failed.append(Item(id=f"#{place}", result="failed", reason="it has no id; seal it first"))
            continue
        fields = {key: value for key, value in given.items() if key in columns and key not in _OWN}
        extra = {key: value for key, value in given.items() if key not in columns}
        if extra:
            fields["extra"] = extra
        said = {key: value for key, value in fields.items() if key not in _VOLATILE}
        try:
            content = orjson.dumps(said, option=orjson.OPT_SORT_KEYS)
        except TypeError:
            fields = _sound(fields)
            said = {key: value for key, value in fields.items() if key not in _VOLATILE}
            content = encode(said)
        if len(content) > LINE_BYTES:
            failed.append(
                Item(id=name, result="failed", reason=f"{len(content)} bytes; at most {LINE_BYTES} are kept")
            )
            continue
        fields["imported_at"] = fields.get("imported_at") or imported_at
        prepared.append(New(name, hashlib.blake2b(content, digest_size=8).hexdigest(), fields, 0))
    return prepared, failed


_OWN = frozenset(("id", "h", "v"))


def _sound(value: Any) -> Any:
    """The value as JSON that every reader takes: lone surrogates become U+FFFD, what JSON lacks becomes text."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, Mapping):
        return {_sound(str(key)): _sound(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_sound(item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, datetime):
        return iso(value)
    return _sound(str(value))
