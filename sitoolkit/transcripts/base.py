"""All that a reader of a format needs: comes in a `TranscriptFile`, go out `Session`s; everything else is done here.

A reader is a module of this package (or of a plugin) with a name and two functions:

    NAME = "acme"

    def sniff(head: Head) -> Match | None:
        first = head.first                                   # head.values, head.dicts, head.text, head.layout
        if isinstance(first, dict) and "acme_run" in first:
            return Match(0.9, "first record has acme_run")
        return None

    def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
        build = SessionBuilder(source.file, source.session_id(), format=NAME)
        for line, record in source.records(report):          # damaged lines are set aside for you
            match record:
                case {"user": str(text)}:
                    build.turn("user", text, line=line)
                case {"do": str(tool), "with": args}:
                    build.call(tool, args, call_id=record.get("id"), at=record.get("at"), line=line)
                case {"did": value}:
                    build.result(value, call_id=record.get("id"), exit_code=record.get("exit"), line=line)
                case _:
                    report.unknown(record_type(record))      # never a crash, never silence
        yield build.build()

That is all: the package's modules are found by themselves, others by the entry point group `sitoolkit.readers` (the
object is the module, or anything with the three names). Optional: `ALIASES` (other names for `--format`), `READERS`
(a module that holds several), and for formats that are folders `sniff_folder(path) -> Match | None` with
`read_folder(path, report)`.

What the parts do:

* `TranscriptFile`: `.records(report)` values with their line (JSON lines, or values one after another), `.items(report)`
  the same with a top-level array opened (streams), `.document()` the whole file, `.text()`, `.lines(report)`, `.head`,
  `.file`, `.stem`, `.session_id(key="")` a stable id where the harness gives none. gz, zst, UTF-16, BOM, NUL: done.
* `SessionBuilder`: `.turn(role, text, at=, line=, author=, key=)`, `.call(tool, args, call_id=, …)` with args as object or
  text, `.result(value, call_id= | call= | by position, is_error=, status=, exit_code=, error=, typed_error=, …)`,
  `.evidence(call_or_id, exit_code=, …)` for what a later record adds, `.abandon(turn)`, `.never_ran(turn)`,
  `.usage(key, …)`, `.note(text)`, `.build(model=, reward=, outcome=, …)`. Pass `restates=True` to `call` where ids are
  unique in the format, so that a call told twice counts once. Give facts to `result`; `failures.judge` decides.
* `Match(score, reason)`: 1.0 unmistakable, 0.8 strong, 0.5 plausible, 0.2 last resort; the highest wins.
* `content_text(content)`: text of a message's content list, with images and files as short marks instead of data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

from sitoolkit.records import Session
from sitoolkit.transcripts.pairing import SessionBuilder, make
from sitoolkit.transcripts.source import Head, ReadReport, SetAside, TranscriptFile, loads, parse_args

__all__ = [
    "Head",
    "Match",
    "ReadReport",
    "Reader",
    "SessionBuilder",
    "SetAside",
    "TranscriptFile",
    "as_list",
    "content_text",
    "loads",
    "make",
    "parse_args",
    "record_type",
    "without_data",
]


class Match(NamedTuple):
    """How sure a reader is that a file is its own, and why."""

    score: float
    reason: str


@runtime_checkable
class Reader(Protocol):
    """What reads one format; a module with these names is one."""

    NAME: str

    def sniff(self, head: Head) -> Match | None:
        """Is this file mine, how sure, and why? Decided by content; the name alone is no reason."""

    def read(self, source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
        """The sessions of the file, one at a time."""


def as_list(value: Any) -> list[Any]:
    """The value if it is a list, else nothing: a field of an odd kind costs that field."""
    return value if isinstance(value, list) else []


def record_type(record: Any) -> str:
    """What to count an unknown record as: its type, or its first keys, or the kind of JSON value it is."""
    if isinstance(record, dict):
        for key in ("type", "kind", "event", "role", "action", "subtype"):
            if isinstance(record.get(key), str):
                return str(record[key])
        return "{" + ",".join(sorted(map(str, record))[:4]) + "}"
    return "null" if record is None else type(record).__name__


_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,([A-Za-z0-9+/=_-]{200,})")
_BINARY_PARTS = frozenset({
    "image", "image_url", "input_image", "document", "file", "input_file", "audio", "input_audio", "video", "media",
    "container_upload", "image_file", "output_image", "inline_data",
})  # fmt: skip


def without_data(text: str) -> str:
    """Text with embedded base64 data replaced by a mark that says its type and size."""
    if len(text) < 200 or ";base64," not in text:
        return text
    return _DATA_URL.sub(lambda m: f"[{m.group(1) or 'data'}, {len(m.group(2)) * 3 // 4} bytes]", text)


def content_text(content: Any, *, thinking: bool = False) -> str:
    """The text of a message's content: text, or a list of parts of any API; images and files become short marks.

    >>> content_text([{"type": "text", "text": "see"}, {"type": "image", "source": {"media_type": "image/png", "data": "AAAA"}}])
    'see\\n[image/png, 3 bytes]'
    """
    if isinstance(content, str):
        return without_data(content)
    if content is None:
        return ""
    if isinstance(content, dict | list):
        return "\n".join(text for text in _texts([content], thinking) if text)
    return str(content)


def _texts(parts: list[Any], thinking: bool) -> Iterator[str]:
    """The texts of parts, and of parts within parts, in order, without a stack that hostile nesting could exhaust."""
    left = [iter(parts)]
    while left:
        for part in left[-1]:
            found = _part_text(part, thinking) if isinstance(part, dict) else part
            if isinstance(found, list):
                left.append(iter(found))
                break
            yield content_text(found, thinking=thinking)
        else:
            left.pop()


def _part_text(part: dict[str, Any], thinking: bool) -> str | list[Any]:
    """The text of one part, or the parts that it holds."""
    kind = part["type"] if isinstance(part.get("type"), str) else None
    text = part.get("text")
    if isinstance(text, dict) and isinstance(text.get("value"), str):  # Assistants API
        return without_data(str(text["value"]))
    if isinstance(text, str):
        return without_data(text)
    if kind in _BINARY_PARTS or "inlineData" in part or "inline_data" in part or "fileData" in part:
        return _mark(part)
    if kind in ("thinking", "reasoning", "redacted_thinking"):
        return str(part.get("thinking") or part.get("reasoning") or "") if thinking else ""
    if kind in ("refusal",) and isinstance(part.get("refusal"), str):
        return str(part["refusal"])
    if kind == "tool_reference":
        return f"[tool {part.get('tool_name')}]"
    if kind in (
        "tool_use",
        "tool_result",
        "server_tool_use",
        "function_call",
        "tool_call",
        "toolCall",
        "mcp_tool_use",
    ):
        return ""
    for key in ("content", "output_text", "value", "output", "data"):
        inner = part.get(key)
        if isinstance(inner, str | list):
            return inner
    return ""


def _mark(part: dict[str, Any]) -> str:
    kind, size, name = str(part.get("type") or "data"), 0, ""
    pile: list[Any] = [part]
    while pile:
        item = pile.pop()
        if isinstance(item, dict):
            kind = str(item.get("media_type") or item.get("mimeType") or item.get("mime_type") or kind)
            name = str(item.get("filename") or item.get("name") or name)
            pile.extend(item.values())
        elif isinstance(item, str):
            found = re.match(r"data:([\w.+-]+/[\w.+-]+)", item[:80])
            kind = found.group(1) if found else kind
            if item.startswith(("http://", "https://", "gs://", "file")):
                name = name or item[:200]
            size = max(size, len(item))
    data = f", {size * 3 // 4} bytes" if size > 300 or not name else ""
    return f"[{kind}{' ' + name if name else ''}{data}]"
