"""Values of all kinds as plain JSON values: comes in a record, frame, set or time, goes out what `json` knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any

from sitoolkit.records import iso

__all__ = ["as_plain"]


def as_plain(value: Any) -> Any:
    """Records, frames, sets, tuples and times as values that JSON knows.

    >>> as_plain({"seen": {2, 1}})
    {'seen': [1, 2]}
    """
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "to_dicts"):
        return [as_plain(row) for row in value.to_dicts()]
    if isinstance(value, Mapping):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(as_plain(item) for item in value)
    if isinstance(value, list | tuple | Iterator):
        return [as_plain(item) for item in value]
    if isinstance(value, datetime):
        return iso(value) if value.tzinfo else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None  # JSON has no such number
    return value
