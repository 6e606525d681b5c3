"""Rows of the memory table: `Memory` records come in, Arrow tables go out, and back; ids, keys and what may not be stored.

Schema 2. Version 1 had no `rev`, `seen`, `slot_key` and `scope_key`; version 0 also wrote rows of zeros where a text had no
vector. `memory_rebuild.migrate` brings both up to date.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sitoolkit.records import Memory, digest, iso

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = [
    "EVIDENCE_KEPT",
    "SCHEMA",
    "Row",
    "arrow_schema",
    "blocked_reason",
    "from_arrow",
    "key_of",
    "memory_id",
    "occurrences",
    "to_arrow",
]

SCHEMA = 2
EVIDENCE_KEPT = 200  # occurrence ids that a row carries; `seen` knows all of them by 8 bytes each
TEXT_CHARS = 100_000  # a longer text is no memory but a document
_FIELDS = frozenset(Memory.model_fields) - {"vector"}
_ID = re.compile(r"mem_[0-9a-f]{24}")

_TEXT = ("id", "category", "scope", "text", "payload", "origin", "status", "content_hash")
_NULLABLE = (
    "slot", "supersedes", "superseded_by", "written_by", "run_id", "ended_by", "reason", "embed_model",
)  # fmt: skip
_TIMES = ("first_seen", "last_seen", "created_at", "ended_at", "expires_at")
# All columns of a snapshot's frame: everything but the vector and the bookkeeping of the store.
PLAIN = (
    *_TEXT, *_NULLABLE, *_TIMES, "tags", "evidence", "confidence", "base_weight", "seen_count", "has_vector", "rev",
)  # fmt: skip


class Row(NamedTuple):
    """A memory as the table holds it."""

    memory: Memory
    seen: bytes  # 8 bytes for each occurrence that was ever counted, sorted
    vector: NDArray[np.float32] | None
    rev: int = 0  # number of the journal entry that wrote it last


def arrow_schema(dim: int, meta: Mapping[str, str] | None = None) -> pa.Schema:
    """The table's columns for vectors of `dim` numbers; `meta` is kept with the table."""
    import pyarrow as pa

    fields = [pa.field(name, pa.string(), nullable=name != "id") for name in (*_TEXT, *_NULLABLE)]
    fields += [pa.field(name, pa.timestamp("us", "UTC")) for name in _TIMES]
    fields += [
        pa.field("tags", pa.list_(pa.string())),
        pa.field("evidence", pa.list_(pa.string())),
        pa.field("confidence", pa.float64()),
        pa.field("base_weight", pa.float64()),
        pa.field("seen_count", pa.int64()),
        pa.field("has_vector", pa.bool_()),
        pa.field("rev", pa.int64()),
        pa.field("seen", pa.binary()),
        pa.field("slot_key", pa.string()),
        pa.field("scope_key", pa.string()),
        pa.field("vector", pa.list_(pa.float32(), dim)),
    ]
    return pa.schema(fields, metadata=dict(meta) if meta else None)


def memory_id(category: str, scope: str, content_hash: str) -> str:
    """The id of a content: the same (scope, category, content hash) is the same memory."""
    return f"mem_{digest(str(category), str(scope), content_hash)[:24]}"


def key_of(*parts: str | None) -> str:
    """Hex that stands for text in a filter, so that no text of others ever becomes part of one."""
    return digest(*parts)[:24]


def slot_key(memory: Memory) -> str | None:
    """The key of the slot that a memory claims; `None` for one without a slot."""
    return key_of("slot", memory.scope, memory.category, memory.slot) if memory.slot else None


@lru_cache(maxsize=10_000)
def scope_key(scope: str) -> str:
    """The key of a scope."""
    return key_of("scope", scope)


def sound_id(text: str) -> bool:
    """Whether a text can be a memory's id at all; what cannot is never put into a filter."""
    return bool(_ID.fullmatch(text))


# ---------------------------------------------------------------- occurrences


def occurrences(ids: Iterable[str]) -> set[bytes]:
    """Eight bytes for each occurrence id."""
    return {hashlib.blake2b(one.encode("utf-8", "surrogatepass"), digest_size=8).digest() for one in ids}


def pack(keys: Iterable[bytes]) -> bytes:
    """The keys in order, as one value."""
    return b"".join(sorted(keys))


def unpack(packed: bytes | None) -> set[bytes]:
    """The keys of a packed value."""
    packed = packed or b""
    return {packed[place : place + 8] for place in range(0, len(packed), 8)}


# ---------------------------------------------------------------- what may not be stored

# Characters that a reader of the prompt does not see or that reorder what he sees; ZWJ and ZWNJ have honest uses
# (emoji, Persian, Hindi) and are refused only beside ASCII, where they can only hide something.
_HIDDEN = re.compile(
    "(?P<bidi>[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069])"
    "|(?P<control>[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f])"
    "|(?P<hidden>[\u00ad\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\ufff9-\ufffb\uffa0"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]|(?<=[\x20-\x7e])[\u200c\u200d]|[\u200c\u200d](?=[\x20-\x7e]))"
    "|(?P<surrogate>[\ud800-\udfff])"
)
_KINDS = {
    "bidi": "a character that changes the reading direction",
    "control": "a control character",
    "hidden": "an invisible character",
    "surrogate": "half of a surrogate pair",
}


def blocked_reason(memory: Memory) -> str | None:
    """Why a memory may not be stored; `None` if it may.

    >>> blocked_reason(Memory(category="reflection", scope="global", text="use\\u202e it", origin="reflected"))
    'its text holds a character that changes the reading direction (U+202E at 3)'
    """
    if not memory.text.strip():
        return "its text is empty"
    if len(memory.text) > TEXT_CHARS:
        return f"its text has {len(memory.text)} characters; at most {TEXT_CHARS} are kept"
    for what, text in (
        ("text", memory.text),
        ("slot", memory.slot or ""),
        *(("tags", tag) for tag in memory.tags),
    ):
        if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
            continue
        found = _HIDDEN.search(text)
        if found and found.lastgroup:
            where = f"U+{ord(found.group()[0]):04X} at {found.start()}"
            return f"its {what} holds {_KINDS[found.lastgroup]} ({where})"
    if memory.vector is not None and not all(value == value for value in memory.vector):
        return "its vector holds NaN"
    return None


# ---------------------------------------------------------------- to and from Arrow


def to_arrow(rows: Sequence[Row], schema: pa.Schema, embedder: str = "") -> pa.Table:
    """Rows as a table of that schema; those with a vector say which embedder made it."""
    import numpy as np
    import pyarrow as pa

    dim = schema.field("vector").type.list_size
    memories = [row.memory for row in rows]
    columns: dict[str, Any] = {}
    for name in ("id", "text", "content_hash", *_NULLABLE):
        columns[name] = [getattr(memory, name) for memory in memories]
    for name in ("category", "origin", "status"):
        columns[name] = [getattr(memory, name).value for memory in memories]
    columns["scope"] = [str(memory.scope) for memory in memories]
    for name in (*_TIMES, "confidence", "base_weight", "seen_count"):
        columns[name] = [getattr(memory, name) for memory in memories]
    columns["payload"] = [json.dumps(memory.payload, ensure_ascii=True, default=str) for memory in memories]
    columns["tags"] = [list(memory.tags) for memory in memories]
    columns["evidence"] = [list(memory.evidence) for memory in memories]
    columns["embed_model"] = [embedder if row.vector is not None else None for row in rows]
    columns["has_vector"] = [row.vector is not None for row in rows]
    columns["rev"] = [row.rev for row in rows]
    columns["seen"] = [row.seen for row in rows]
    columns["slot_key"] = [slot_key(memory) for memory in memories]
    columns["scope_key"] = [scope_key(memory.scope) for memory in memories]
    values = np.zeros((len(rows), dim), dtype=np.float32)
    for place, row in enumerate(rows):
        if row.vector is not None:
            values[place] = row.vector
    absent = pa.array([row.vector is None for row in rows], type=pa.bool_())
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), dim, mask=absent)
    arrays = [
        vectors if field.name == "vector" else pa.array(columns[field.name], type=field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def from_arrow(table: pa.Table) -> list[Row]:
    """The rows of a table, with their vectors when it has the column."""
    matrix, has = vectors_of(table)
    rest = table.drop_columns(["vector"]) if "vector" in table.column_names else table
    return [
        Row(
            memory_of(entry),
            entry.get("seen") or b"",
            matrix[place] if matrix is not None and has[place] else None,
            entry.get("rev") or 0,
        )
        for place, entry in enumerate(rest.to_pylist())
    ]


def memory_of(entry: Mapping[str, Any]) -> Memory:
    """A row of the table (or of a frame) as a record, without its vector."""
    fields = {name: value for name, value in entry.items() if value is not None and name in _FIELDS}
    payload = fields.get("payload")
    if isinstance(payload, str):
        fields["payload"] = json.loads(payload)
    return Memory.model_validate(fields)


def vectors_of(table: pa.Table) -> tuple[NDArray[np.float32] | None, NDArray[np.bool_]]:
    """The vector column as a matrix, zeros where a row has none, and which rows have one."""
    import numpy as np

    count = table.num_rows
    if "vector" not in table.column_names:
        return None, np.zeros(count, dtype=bool)
    column = table["vector"].combine_chunks()
    dim = column.type.list_size
    if column.null_count == 0:
        flat = column.flatten().to_numpy(zero_copy_only=False)
        return flat.reshape(count, dim).astype(np.float32, copy=False), np.ones(count, dtype=bool)
    has = column.is_valid().to_numpy(zero_copy_only=False)
    matrix = np.zeros((count, dim), dtype=np.float32)
    if has.any():
        matrix[has] = column.drop_null().flatten().to_numpy(zero_copy_only=False).reshape(-1, dim)
    return matrix, has


def frame_of(memories: Sequence[Memory]) -> pl.DataFrame:
    """Memories as a frame with the columns of a snapshot."""
    import polars as pl

    rows = [Row(memory, b"", None) for memory in memories]
    frame = pl.from_arrow(to_arrow(rows, arrow_schema(1)).select(list(PLAIN)))
    assert isinstance(frame, pl.DataFrame)
    return frame


def frame_of_entries(entries: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows as the journal holds them (see `to_entry`) as a frame with the columns of a snapshot; nothing is validated."""
    import polars as pl

    time = pl.Datetime("us", "UTC")
    defaults: dict[str, Any] = {"status": "active", "content_hash": "", "written_by": "", "run_id": ""}
    columns: dict[str, pl.Series] = {}
    for name in (*_TEXT, *_NULLABLE):
        if name != "payload":
            default = defaults.get(name)
            columns[name] = pl.Series(name, [entry.get(name, default) for entry in entries], dtype=pl.String)
    payloads = [json.dumps(entry.get("payload", {}), ensure_ascii=True) for entry in entries]
    columns["payload"] = pl.Series("payload", payloads, dtype=pl.String)
    for name in _TIMES:
        texts = [entry.get(name) for entry in entries]
        columns[name] = pl.Series(
            name, [datetime.fromisoformat(text) if text else None for text in texts], dtype=time
        )
    for name in ("tags", "evidence"):
        values = [list(entry.get(name, ())) for entry in entries]
        columns[name] = pl.Series(name, values, dtype=pl.List(pl.String))
    for name, number in (("confidence", 0.5), ("base_weight", 1.0)):
        columns[name] = pl.Series(
            name, [float(entry.get(name, number)) for entry in entries], dtype=pl.Float64
        )
    columns["seen_count"] = pl.Series(
        "seen_count", [entry.get("seen_count", 1) for entry in entries], dtype=pl.Int64
    )
    columns["has_vector"] = pl.Series("has_vector", [False] * len(entries), dtype=pl.Boolean)
    columns["rev"] = pl.Series("rev", [0] * len(entries), dtype=pl.Int64)
    return pl.DataFrame([columns[name] for name in PLAIN])


# ---------------------------------------------------------------- to and from the journal


def to_entry(memory: Memory) -> dict[str, Any]:
    """A memory as the journal holds it: JSON without its vector and without what is at its default."""
    entry = memory.model_dump(mode="json", exclude_defaults=True, exclude={"vector", "embed_model"})
    entry["category"], entry["scope"], entry["origin"] = (
        str(memory.category),
        str(memory.scope),
        str(memory.origin),
    )
    return entry


def changes(before: Memory, after: Memory) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields that differ, as JSON: what they are now, and what they were."""
    now: dict[str, Any] = {}
    was: dict[str, Any] = {}
    for name in Memory.model_fields:
        if name in ("vector", "embed_model", "id"):
            continue
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            now[name], was[name] = _json(new), _json(old)
    return now, was


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, str) else value
