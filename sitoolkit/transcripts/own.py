"""Our own JSONL: a `Session` a line, as `write_sessions` writes it; also what `sitoolkit read` prints.

Defined by `sitoolkit.records.Session`; fields at their defaults are left out. A last line `{"report": …}` is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Head, Match, ReadReport, TranscriptFile, record_type

NAME = "sitoolkit"
ALIASES = ("own",)


def sniff(head: Head) -> Match | None:
    for value in head.dicts[:4]:
        source = value.get("source")
        if (
            isinstance(value.get("id"), str)
            and isinstance(source, dict)
            and "file" in source
            and _is_own(value)
        ):
            return Match(1.0, "a sitoolkit session a line (id, source.file, turns)")
    return None


def _is_own(value: dict[str, Any]) -> bool:
    turns, calls = value.get("turns", []), value.get("calls", [])
    return isinstance(turns, list) and isinstance(calls, list) and "messages" not in value


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    for line, record in source.items(report):
        if not isinstance(record, dict) or "source" not in record:
            if not (isinstance(record, dict) and set(record) == {"report"}):
                report.unknown(record_type(record))
            continue
        try:
            session = Session.model_validate(_with_calls(record))
        except ValidationError as fault:
            first = fault.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            report.put_aside(source.file, line, f"not a session: {where}: {first['msg']}")
            continue
        yield session


def _with_calls(record: dict[str, Any]) -> dict[str, Any]:
    """Calls that stand beside the turns go into the turns that made them."""
    calls = record.get("calls")
    if not calls:
        return record
    turns = [dict(turn) for turn in record.get("turns") or []]
    if not turns:
        turns = [{"role": "assistant", "index": 0}]
    for call in calls:
        place = call.get("turn")
        index = place if isinstance(place, int) and 0 <= place < len(turns) else len(turns) - 1
        call = {"session_id": record.get("id"), **call}
        turns[index] = {**turns[index], "calls": [*turns[index].get("calls", []), call]}
    return {**record, "turns": turns, "calls": None}
