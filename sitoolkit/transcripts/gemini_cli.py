"""Gemini CLI chat recordings: in comes a session file of the CLI, out goes one session.

Where defined: google-gemini/gemini-cli, `packages/core/src/services/chatRecordingService.ts`. Seen: one JSON object
(2025-10), the later JSON lines (header, messages, `$set` and `$rewindTo` records), the `logs.json` of prompts, and the
lines of `--output-format stream-json` (init, message, tool_use, tool_result, result). A message told again under its id
replaces what was told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Outcome, Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import text_of, usage_of
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile

__all__ = ["NAME", "read", "sniff"]

NAME = "gemini-cli"
_NOTICES = (
    "info",
    "error",
    "warning",
    "quit",
    "about",
    "help",
    "stats",
    "compression",
    "tool_group",
    "extensions_list",
)
_STREAM = ("init", "message", "tool_use", "tool_result", "result", "error")


def sniff(head: Head) -> Match | None:
    """Told by `sessionId` and `projectHash`, by messages of type gemini, or by the CLI's stream of events."""
    first = head.first
    if isinstance(first, Mapping):
        if "projectHash" in first and "sessionId" in first:
            return Match(0.97, "sessionId and projectHash, as Gemini CLI records them")
        messages = first.get("messages")
        if isinstance(messages, list) and any(
            isinstance(m, Mapping) and m.get("type") == "gemini" for m in messages[:8]
        ):
            return Match(0.93, "messages of type gemini")
    records = head.dicts
    if any(
        r.get("type") == "gemini" and ("toolCalls" in r or "tokens" in r or "content" in r) for r in records
    ):
        return Match(0.93, "records of type gemini")
    if any(r.get("type") == "tool_use" and "tool_id" in r and "parameters" in r for r in records) or (
        records and records[0].get("type") == "init" and "session_id" in records[0] and "model" in records[0]
        and "tools" not in records[0]
    ):  # fmt: skip
        return Match(0.9, "Gemini CLI stream-json: init, message, tool_use with tool_id and parameters")
    if records and all({"sessionId", "messageId", "type", "message"} <= set(r) for r in records[:4]):
        return Match(0.85, "Gemini CLI logs.json: sessionId, messageId and message")
    return None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """One session a file; of `logs.json` one for each session id."""
    records = source.head.dicts
    if any(r.get("type") in _STREAM and ("tool_id" in r or "session_id" in r) for r in records):
        yield from _stream(source, report)
    elif records and {"messageId", "message"} <= set(records[0]):
        yield from _prompts(source, report)
    else:
        yield from _recording(source, report)


def _recording(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    header: dict[str, Any] = {}
    messages: dict[str, tuple[int, dict[str, Any]]] = {}
    rewound: list[tuple[int, dict[str, Any]]] = []
    for line, record in source.items(report):
        if not isinstance(record, Mapping):
            report.put_aside(source.file, line, f"a record that is {type(record).__name__}, not an object")
        elif "$set" in record and isinstance(record["$set"], Mapping):
            held = record["$set"].get("messages")
            header.update({key: value for key, value in record["$set"].items() if key != "messages"})
            for item in held if isinstance(held, list) else ():
                _keep(messages, item, line, source, report)
        elif "$rewindTo" in record:
            keys = list(messages)
            target = record["$rewindTo"]
            at = keys.index(target) if target in keys else 0
            rewound.extend(messages.pop(key) for key in keys[at:])
        elif "messages" in record or "projectHash" in record:
            header.update({key: value for key, value in record.items() if key != "messages"})
            for item in record["messages"] if isinstance(record.get("messages"), list) else ():
                _keep(messages, item, line, source, report)
        elif "type" in record:
            _keep(messages, record, line, source, report)
        else:
            report.unknown("record without type")
    if not header and not messages:
        return
    told = header.get("sessionId")
    build = SessionBuilder(
        source.file,
        told if isinstance(told, str) and told else source.session_id(),
        format=NAME,
        agent="gemini-cli",
    )
    build.line = 1
    if isinstance(header.get("projectHash"), str):
        build.fields["project"] = header["projectHash"][:64] or None
    build.time(header.get("startTime"))
    build.time(header.get("lastUpdated"))
    for line, message in [*messages.values()]:
        _message(build, report, message, line)
    for line, message in rewound:
        before = build.turns_seen
        _message(build, report, message, line)
        for index in range(before, build.turns_seen):
            build.abandon(index)
    yield build.build()


def _keep(
    messages: dict[str, tuple[int, dict[str, Any]]],
    item: Any,
    line: int,
    source: TranscriptFile,
    report: ReadReport,
) -> None:
    if not isinstance(item, Mapping):
        report.put_aside(source.file, line, "a message that is no object")
        return
    key = str(item.get("id") or f"line {line}.{len(messages)}")
    known = messages.get(key)
    messages[key] = (known[0] if known else line, {**(known[1] if known else {}), **item})


def _message(build: SessionBuilder, report: ReadReport, message: Mapping[str, Any], line: int) -> None:
    kind, at = message.get("type"), message.get("timestamp")
    text = text_of(message.get("content"))
    if kind == "user":
        if not text and isinstance(message.get("content"), list):
            return  # results that the CLI sent back stand in toolCalls
        build.turn("user", text, at=at, line=line)
    elif kind in ("gemini", "model", "assistant"):
        turn = build.turn("assistant", text, at=at, line=line)
        if isinstance(message.get("model"), str):
            build.fields["model"] = message["model"]
        build.usage(None, **usage_of(message.get("tokens")))
        for call in message["toolCalls"] if isinstance(message.get("toolCalls"), list) else ():
            if isinstance(call, Mapping):
                _call(build, call, turn, line)
    elif kind in _NOTICES:
        build.turn("other", text, at=at, line=line)
        if kind == "error":
            build.note(f"error: {text[:200]}")
    else:
        report.unknown(f"message/{kind}")


def _call(build: SessionBuilder, call: Mapping[str, Any], turn: int, line: int) -> None:
    status, at = call.get("status"), call.get("timestamp")
    made = build.call(
        str(call.get("name") or ""), call.get("args"), call_id=call.get("id"), at=None, line=line, turn=turn
    )
    build.time(at)  # when the call was recorded, which is no duration
    told: dict[str, Any] = {"call": made, "line": line, "inline": True}
    value = _response(call.get("result"))
    if value is None and call.get("resultDisplay") is not None:
        value = call["resultDisplay"]
    if status in ("cancelled", "canceled"):
        build.result(value, outcome=Outcome.CANCELLED, **told)
    elif status == "error":
        error = value.get("error") if isinstance(value, Mapping) else value
        build.result(value, is_error=True, error=text_of(error) or None, **told)
    elif status == "success":
        inner = value["output"] if isinstance(value, Mapping) and set(value) == {"output"} else value
        build.result(inner, status="success", **told)
    elif value is not None:
        build.result(value, **told)


def _response(result: Any) -> Any:
    """The `response` of a functionResponse part, alone or in a list."""
    if isinstance(result, list):
        found = [_response(item) for item in result]
        found = [item for item in found if item is not None]
        return found[0] if len(found) == 1 else found or None
    if isinstance(result, Mapping):
        part = result.get("functionResponse", result.get("function_response"))
        if isinstance(part, Mapping):
            return part.get("response")
        if isinstance(result.get("text"), str):
            return result["text"]
    return result


def _stream(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    build = SessionBuilder(source.file, source.session_id(), format=NAME, agent="gemini-cli")
    open_turn: int | None = None  # pieces of one answer follow each other
    for line, record in source.records(report):
        if not isinstance(record, Mapping):
            report.put_aside(source.file, line, f"a record that is {type(record).__name__}, not an object")
            continue
        kind, at = record.get("type"), record.get("timestamp")
        if kind == "init":
            if isinstance(record.get("session_id"), str):
                build.session_id = record["session_id"]
            if isinstance(record.get("model"), str):
                build.fields["model"] = record["model"]
            build.time(at)
        elif kind == "message":
            text = text_of(record.get("content"))
            if record.get("role") == "user":
                build.turn("user", text, at=at, line=line)
                open_turn = None
            elif record.get("delta") and open_turn is not None:
                build.extend(open_turn, text)
            else:
                open_turn = build.turn("assistant", text, at=at, line=line)
        elif kind == "tool_use":
            open_turn = None
            build.call(
                str(record.get("tool_name") or ""),
                record.get("parameters"),
                call_id=record.get("tool_id"),
                at=at,
                line=line,
            )
        elif kind == "tool_result":
            status = record.get("status")
            error = record.get("error")
            build.result(
                record.get("output", error), call_id=record.get("tool_id"), at=at, line=line,
                status=status if isinstance(status, str) else None, error=text_of(error) if error else None,
            )  # fmt: skip
        elif kind == "result":
            build.usage(None, **usage_of(record.get("stats")))
            build.fields["outcome"] = "failure" if record.get("status") == "error" else None
        elif kind == "error":
            build.note(f"error: {text_of(record.get('message'))[:200]}")
        else:
            report.unknown(kind or "record without type")
    if not build.empty:
        yield build.build()


def _prompts(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """`logs.json` holds what the user typed, and nothing else."""
    builds: dict[str, SessionBuilder] = {}
    for line, record in source.items(report):
        if not isinstance(record, Mapping):
            report.put_aside(source.file, line, f"a record that is {type(record).__name__}, not an object")
            continue
        key = str(record.get("sessionId") or source.session_id())
        build = builds.setdefault(key, SessionBuilder(source.file, key, format=NAME, agent="gemini-cli"))
        role: Any = "user" if record.get("type") == "user" else "other"
        build.turn(role, text_of(record.get("message")), at=record.get("timestamp"), line=line)
    for build in builds.values():
        build.note("a log of prompts: it holds no answers and no calls")
        yield build.build()
