"""Calls grouped by what was asked: invocations come in, one `Content` for each distinct set of arguments goes out.

Five identical calls are one content: a habit repeated is no further evidence for what the arguments may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sitoolkit.records import ToolInvocation, canonical_json

__all__ = ["Content", "evidence_of", "flat", "group_contents", "occurrence"]

_MAX_DEPTH = 2
_EARLY = datetime.min.replace(tzinfo=UTC)
EVIDENCE = 24  # occurrence ids kept with a claim: the first, the last, and evenly between


@dataclass
class Content:
    """One distinct set of arguments and all calls that gave it, in order of time."""

    args: dict[str, Any]
    calls: list[ToolInvocation] = field(default_factory=list)


def occurrence(call: ToolInvocation) -> str:
    """The call's id, or its place in its session where it was not sealed."""
    return call.id or f"{call.session_id}#{call.seq}"


def flat(args: Any) -> dict[str, Any]:
    """Arguments with nested objects spread out as `outer.inner`; text that could not be parsed has none.

    >>> flat({"a": 1, "to": {"host": "x", "port": 2}})
    {'a': 1, 'to.host': 'x', 'to.port': 2}
    """
    out: dict[str, Any] = {}

    def spread(value: Mapping[str, Any], prefix: str, depth: int) -> None:
        for key, item in value.items():
            name = f"{prefix}{key}"
            if isinstance(item, Mapping) and item and depth < _MAX_DEPTH:
                spread(item, f"{name}.", depth + 1)
            else:
                out[name] = item

    if isinstance(args, Mapping):
        spread(args, "", 0)
    return out


def when(call: ToolInvocation) -> tuple[datetime, str, int]:
    """A total order of calls that does not depend on the order of files."""
    return (call.started_at or _EARLY, call.session_id, call.seq)


def group_contents(calls: Iterable[ToolInvocation]) -> list[Content]:
    """Distinct argument sets in order of first occurrence; the same for any order of the calls."""
    groups: dict[str, Content] = {}
    for call in sorted(calls, key=when):
        key = canonical_json(call.args)
        held = groups.get(key)
        if held is None:
            held = groups[key] = Content(flat(call.args))
        held.calls.append(call)
    return list(groups.values())


def evidence_of(contents: Iterable[Content]) -> tuple[str, ...]:
    """Ids of the first call of each content; where there are many, the first, the last, and evenly between."""
    ids = [occurrence(content.calls[0]) for content in contents]
    if len(ids) <= EVIDENCE:
        return tuple(ids)
    step = (len(ids) - 1) / (EVIDENCE - 1)
    return tuple(ids[round(index * step)] for index in range(EVIDENCE))
