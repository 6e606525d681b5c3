"""Columns of the telemetry streams and the views over them: comes in nothing, goes out names, DuckDB types and SQL."""

from __future__ import annotations

__all__ = ["COLUMNS", "JSON_COLUMNS", "STREAMS", "VIEWS"]

STREAMS = ("calls", "sessions", "signals", "turns")

_SOURCE = "STRUCT(file VARCHAR, line BIGINT, format VARCHAR)"
# `h`: digest of the content; `v`: 0 for the first version of an id; `extra`: fields that have no column.
_OWN = {"id": "VARCHAR", "h": "VARCHAR", "v": "INTEGER"}
_LAST = {"imported_at": "TIMESTAMPTZ", "extra": "JSON"}
_WHO = {"agent": "VARCHAR", "project": "VARCHAR", "team": "VARCHAR", "org": "VARCHAR"}

COLUMNS: dict[str, dict[str, str]] = {
    "calls": {
        **_OWN,
        "content_hash": "VARCHAR",
        "session_id": "VARCHAR",
        "seq": "INTEGER",
        "tool": "VARCHAR",
        "args": "JSON",
        "args_error": "VARCHAR",
        "result": "JSON",
        "outcome": "VARCHAR",
        "failure_mode": "VARCHAR",
        "rule": "VARCHAR",
        "error": "VARCHAR",
        "started_at": "TIMESTAMPTZ",
        "duration_ms": "DOUBLE",
        "is_write": "BOOLEAN",
        **_WHO,
        "call_id": "VARCHAR",
        "paired": "BOOLEAN",
        "paired_by": "VARCHAR",
        "guessed": "BOOLEAN",
        "ran": "BOOLEAN",
        "abandoned": "BOOLEAN",
        "turn": "INTEGER",
        "source": _SOURCE,
        "result_source": _SOURCE,
        **_LAST,
    },
    "sessions": {
        **_OWN,
        "content_hash": "VARCHAR",
        "format": "VARCHAR",
        **_WHO,
        "started_at": "TIMESTAMPTZ",
        "ended_at": "TIMESTAMPTZ",
        "model": "VARCHAR",
        "task": "VARCHAR",
        "outcome": "VARCHAR",
        "reward": "DOUBLE",
        "parent_id": "VARCHAR",
        "usage": "JSON",
        "turns": "INTEGER",
        "calls": "INTEGER",
        "failures": "INTEGER",
        "writes": "INTEGER",
        "orphan_results": "INTEGER",
        "notes": "VARCHAR[]",
        "source": _SOURCE,
        **_LAST,
    },
    "signals": {
        **_OWN,
        "session_id": "VARCHAR",
        "turn": "INTEGER",
        "kind": "VARCHAR",
        "confidence": "DOUBLE",
        "text": "VARCHAR",
        "target": "VARCHAR",
        "evidence": "VARCHAR[]",
        "spans": "JSON",
        "wanted": "VARCHAR",
        "unwanted": "VARCHAR",
        "rule": "VARCHAR",
        **_WHO,
        "at": "TIMESTAMPTZ",
        "source": _SOURCE,
        **_LAST,
    },
    "turns": {
        **_OWN,
        "session_id": "VARCHAR",
        "index": "INTEGER",
        "role": "VARCHAR",
        "author": "VARCHAR",
        "text": "VARCHAR",
        **_WHO,
        "at": "TIMESTAMPTZ",
        "source": _SOURCE,
        **_LAST,
    },
}

JSON_COLUMNS = {
    stream: tuple(name for name, kind in columns.items() if kind == "JSON")
    for stream, columns in COLUMNS.items()
}

_SCOPE = (
    "case when coalesce(agent, '') <> '' then 'agent:' || agent "
    "when coalesce(project, '') <> '' then 'project:' || project else 'global' end"
)
# `at` is a word of DuckDB's grammar; in the views it is `happened_at`.
VIEWS: dict[str, str] = {
    "calls": "{newest} select * exclude (h, v), coalesce(started_at, imported_at) as happened_at, "
    + _SCOPE
    + " as scope, outcome in ('failure', 'timeout') as failed, source.file as source_file, "
    "source.line as source_line, source.format as source_format from newest",
    "sessions": "{newest} select * exclude (h, v), coalesce(started_at, imported_at) as happened_at, "
    + _SCOPE
    + " as scope, source.file as source_file, source.line as source_line from newest",
    "signals": '{newest} select * exclude (h, v) rename ("at" as happened_at), source.file as source_file, source.line as source_line from newest',
    "turns": '{newest} select * exclude (h, v) rename ("at" as happened_at), source.file as source_file, source.line as source_line from newest',
}
