"""Comes in: arguments and results of calls. Goes out: the same without what changes from run to run, cut to a size, and the two ids made from them.

An occurrence id names one call at one place in one session. A content hash names what was called and what came of it:
two runs that differ only in timestamps, UUIDs, request ids, durations or memory addresses are the same content.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from sitoolkit.records import canonical_json, digest
from sitoolkit.secrets.names import words

__all__ = ["bound", "content_hash", "drop_blobs", "occurrence_id", "stable_text"]

# A run of base64 this long is an image or an archive, not something a reader or a model would read.
BLOB_CHARS = 1_024
_DEPTH = 100  # levels of nesting; arguments and results of real tools end long before
_DEEP = "…[nested too deep]…"
_BLOB = re.compile(r"[A-Za-z0-9+/_=-]{1024,}")
_CUT = re.compile(r"…\[\d+ (?:characters|items|keys) cut\]…")

_VOLATILE_KEYS = words(
    "timestamp time_stamp ts created_at updated_at modified_at started_at ended_at finished_at "
    "completed_at created updated createdat updatedat startedat endedat starttime endtime start_time "
    "end_time request_id requestid trace_id traceid span_id spanid correlation_id x_request_id duration "
    "duration_ms duration_s durationms elapsed elapsed_ms elapsed_s elapsed_time took took_ms latency "
    "latency_ms wall_time response_time server_time etag date_header call_id tool_call_id run_id "
    "invocation_id pid system_fingerprint last_modified lastmodified mtime atime ctime uptime nonce"
)
# What must occur in a text before the patterns below it are tried; anchored at signs that a plain search finds fast.
_CLOCK = re.compile(r":(?<=\d\d:)\d\d")
_UUID_PART = re.compile(r"-(?<=[0-9a-fA-F]{8}-)[0-9a-fA-F]{4}-")
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_TIMES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"\b\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?:\s?(?:Z|UTC|GMT)\b|[+-]\d\d:?\d\d)?"
        ),
        "<time>",
    ),
    (
        re.compile(
            rf"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{{0,6}},? )?(?:\d{{1,2}} )?(?:{_MONTHS})[a-z]{{0,6}} (?:\d{{1,2}},? )?(?:\d{{4}} )?"
            r"\d\d:\d\d:\d\d(?: (?:GMT|UTC|[+-]\d{4}))?(?: \d{4})?"
        ),
        "<time>",
    ),
    (re.compile(r"(?m)^(\W{0,3})\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\b"), r"\1<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d[.,]\d{1,9}\b"), "<time>"),
)
_UUID = re.compile(r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,16}\b")
_ID = re.compile(
    r"\b(?:req|request|trace|corr|call|toolu|chatcmpl|msg|resp|run|inv)[_-][A-Za-z0-9_-]{10,64}\b"
)
_NAMED_ID = re.compile(
    r"(?i)((?:request|trace|correlation|span)[-_ ]?id\b[\"']?\s{0,2}[:=]?\s{0,2}[\"']?)[A-Za-z0-9_-]{4,64}"
)
_PROCESS = re.compile(r"(?i)\b((?:pid|process)[ =:]{1,2})\d{1,9}\b")
_DURATION = re.compile(
    r"(?<![\w.])\d{1,9}(?:\.\d{1,9})?\s?(?:ns|us|µs|ms|milliseconds?|msecs?|secs?|seconds?|s)\b(?!\w)"
)
_EPOCH = re.compile(r"1(?<![\d.\w-]1)[5-9]\d{8}(?:\.\d{1,9}|\d{3}|\d{6}|\d{9})?(?![\d.\w-])")
_TEMPORARY = re.compile(r"/tmp/[A-Za-z0-9_.-]*[A-Za-z0-9_]{6,}")
_DIGIT = re.compile(r"\d")


def stable_text(value: Any) -> str:
    """Text of a value without what changes from run to run; equal for results that mean the same.

    >>> stable_text("done in 12ms at 2026-01-02T03:04:05Z")
    'done in <duration> at <time>'

    Args:
        value: text, or a JSON value, whose keys such as `created_at` and `request_id` lose their values too.
    """
    if isinstance(value, str):
        return _stable(value)
    return canonical_json(_without_volatile(value, 0))


def _stable(text: str) -> str:
    if not _DIGIT.search(text):
        return text
    if ":" in text and _CLOCK.search(text):
        for pattern, name in _TIMES:
            text = pattern.sub(name, text)
    if "-" in text and _UUID_PART.search(text):
        text = _UUID.sub("<uuid>", text)
    if "0x" in text:
        text = _ADDRESS.sub("<address>", text)
    if "_" in text or "-" in text:
        text = _ID.sub("<id>", text)
    if "id" in text or "ID" in text or "Id" in text:
        text = _PROCESS.sub(r"\1<id>", _NAMED_ID.sub(r"\1<id>", text))
    text = _EPOCH.sub("<time>", _DURATION.sub("<duration>", text))
    return _TEMPORARY.sub("<tmp>", text) if "/tmp/" in text else text


def _without_volatile(value: Any, depth: int) -> Any:
    if depth > _DEPTH:
        return "<deep>"
    if isinstance(value, str):
        return _stable(value)
    if isinstance(value, Mapping):
        return {
            str(key): "<volatile>"
            if str(key).lower().replace("-", "_") in _VOLATILE_KEYS
            and not isinstance(item, Mapping | list | tuple)
            else _without_volatile(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_volatile(item, depth + 1) for item in value]
    return value


def occurrence_id(session_id: str, seq: int, tool: str, args: Any) -> str:
    """Id of one call at one position of one session; `args` are already redacted."""
    return digest("occurrence", session_id, seq, tool, args)


def content_hash(tool: str, args: Any, result: Any = None) -> str:
    """Id of what was called and what came of it, without the volatile parts of the result.

    >>> content_hash("f", {"a": 1, "b": 2}) == content_hash("f", {"b": 2.0, "a": 1})
    True
    """
    return digest("content", tool, args, stable_text(result))


def drop_blobs(value: Any, depth: int = 0) -> Any:
    """Put a marker where a long base64 run (an image, an archive) stands, and where nesting goes on beyond 100 levels.

    Nothing that a call needs lies so deep; what comes after may then walk the value without running out of stack, and
    `orjson`, which writes 254 levels, can store it.
    """
    if isinstance(value, str):
        return _BLOB.sub(_blob_marker, value) if len(value) >= BLOB_CHARS else value
    if isinstance(value, Mapping):
        return {key: drop_blobs(item, depth + 1) for key, item in value.items()} if depth < _DEPTH else _DEEP
    if isinstance(value, list | tuple):
        return [drop_blobs(item, depth + 1) for item in value] if depth < _DEPTH else _DEEP
    return value


def _blob_marker(match: re.Match[str]) -> str:
    run = match.group()
    if len(set(run[:256])) == 1:  # a ruler such as ====…
        return f"{run[0]}…[{len(run)} times]…"
    return f"<base64 {len(run)} characters {hashlib.sha256(run.encode()).hexdigest()[:12]}>"


def bound(value: Any, chars: int) -> Any:
    """Cut a value so that its JSON text has at most `chars` characters; what fits is returned as it is.

    Beginning and end of a text are kept, since errors stand at the end of logs. Cutting again changes nothing.

    >>> len(bound("x y " * 1000, 200)) <= 200
    True

    Args:
        value: text or a JSON value; its shape is kept where that fits.
        chars: at least 40.
    """
    chars = max(chars, 40)
    if isinstance(value, str):
        return _bound_text(value, chars)
    if value is None or isinstance(value, bool | int | float):
        return value
    text = canonical_json(value)
    if len(text) <= chars:
        return value
    leaf, items = chars // 2, 200
    while leaf >= 60:
        smaller = _shrink(value, leaf, items, 0)
        if len(canonical_json(smaller)) <= chars:
            return smaller
        leaf, items = leaf // 2, max(2, items // 2)
    return _bound_text(text, chars)


def _bound_text(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    keep = chars - 34
    head = keep * 7 // 10
    tail = keep - head
    return (
        f"{text[:head]}…[{len(text) - head - tail} characters cut]…{text[len(text) - tail :] if tail else ''}"
    )


def _shrink(value: Any, leaf: int, items: int, depth: int) -> Any:
    if isinstance(value, str):
        return _bound_text(value, leaf)
    if depth > 20:
        return _bound_text(canonical_json(value), leaf)
    if isinstance(value, Mapping):
        kept = {
            str(key)[:leaf]: _shrink(item, leaf, items, depth + 1)
            for key, item in list(value.items())[:items]
        }
        if len(value) > items:
            kept["…"] = f"…[{len(value) - items} keys cut]…"
        return kept
    if isinstance(value, list | tuple):
        shrunk = [_shrink(item, leaf, items, depth + 1) for item in value[:items]]
        return [*shrunk, f"…[{len(value) - items} items cut]…"] if len(value) > items else shrunk
    return value
