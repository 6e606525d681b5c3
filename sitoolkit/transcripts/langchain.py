"""LangChain messages: `dumpd` constructors (`lc: 1`), `messages_to_dict` ({type, data}), and plain dicts with `type`.

Defined by langchain-core (`load/dump.py`, `messages/base.py`); seen: 0.1 to 1.x and LangGraph state dumps. `status` of a tool message
may hide in `additional_kwargs`; `invalid_tool_calls` are calls whose arguments were no JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import (
    Head,
    Match,
    ReadReport,
    SessionBuilder,
    TranscriptFile,
    as_list,
    content_text,
    record_type,
)
from sitoolkit.transcripts.chat import said_of_ending, usage_of
from sitoolkit.transcripts.openai import fields_of, session_name

__all__ = ["NAME", "add_langchain", "read", "sniff"]

NAME = "langchain"
ALIASES = ("lc", "langgraph")
_KINDS = {
    "human": "human", "humanmessage": "human", "humanmessagechunk": "human", "ai": "ai", "aimessage": "ai", "aimessagechunk": "ai",
    "system": "system", "systemmessage": "system", "systemmessagechunk": "system", "tool": "tool", "toolmessage": "tool",
    "toolmessagechunk": "tool", "function": "tool", "functionmessage": "tool", "chat": "chat", "chatmessage": "chat",
    "chatmessagechunk": "chat", "remove": "remove", "removemessage": "remove", "developer": "system",
}  # fmt: skip


def _plain(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Kind and fields of a message in any of the three forms."""
    if not isinstance(value, dict):
        return None
    if value.get("lc") == 1 and isinstance(value.get("id"), list):
        kind = _KINDS.get(str(value["id"][-1] if value["id"] else "").lower())
        kwargs = value.get("kwargs")
        return (kind, kwargs) if kind and isinstance(kwargs, dict) else None
    kind = _KINDS.get(str(value.get("type")).lower()) if isinstance(value.get("type"), str) else None
    if kind is None:
        return None
    data = value.get("data")
    if isinstance(data, dict) and "content" in data:
        return kind, data
    return (kind, value) if "content" in value and not isinstance(value.get("message"), dict) else None


def _messages(value: Any) -> list[Any] | None:
    if isinstance(value, list):
        inner = value[0] if len(value) == 1 and isinstance(value[0], list) else value
        return inner if any(_plain(item) for item in inner[:16]) else None
    if isinstance(value, dict):
        if value.get("lc") == 1 and isinstance(value.get("kwargs"), dict):
            return _messages(value["kwargs"].get("messages"))
        for key in ("messages", "chat_history", "history"):
            found = value.get(key)
            if isinstance(found, list) and any(_plain(item) for item in found[:16]):
                return found
        for key in ("values", "state", "output", "outputs", "channel_values"):
            if isinstance(value.get(key), dict):
                found = _messages(value[key])
                if found is not None:
                    return found
    return None


def sniff(head: Head) -> Match | None:
    for value in (head.first, *head.dicts[:4]):
        messages = _messages(value)
        if messages:
            first = next(item for item in messages if _plain(item))
            if first.get("lc") == 1:
                return Match(0.95, "LangChain constructors (lc: 1)")
            if isinstance(first.get("data"), dict):
                return Match(0.85, "messages as {type, data}")
            return Match(0.7, f"messages of type {first['type']}")
    plain = [item for item in head.dicts[:16] if _plain(item)]
    if plain and len(plain) >= len(head.dicts[:16]) - 1 and head.layout == "lines":
        return Match(0.7, "a LangChain message on each line")
    return None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    head = source.head
    whole = head.container == "array" and isinstance(head.first, list) and _messages(head.first) is head.first
    build: SessionBuilder | None = None
    seen: set[int] = set()
    for line, value in source.items(report):
        messages = None if whole else _messages(value)
        if messages is not None:
            about = value if isinstance(value, dict) else {}
            one = SessionBuilder(
                source.file,
                session_name(source, about, line, seen),
                format=NAME,
                line=line,
                **fields_of(about),
            )
            for message in messages:
                add_langchain(one, message, report, line)
            yield one.build()
            continue
        if build is None:
            build = SessionBuilder(source.file, source.session_id(), format=NAME, line=line)
        add_langchain(build, value, report, line)
    if build is not None and not build.empty:
        yield build.build()


def add_langchain(
    build: SessionBuilder, value: Any, report: ReadReport, line: int | None, at: Any = None
) -> None:
    """Add one message."""
    found = _plain(value)
    if found is None:
        report.unknown(
            str(value["id"][-1])
            if isinstance(value, dict) and isinstance(value.get("id"), list) and value["id"]
            else record_type(value)
        )
        return
    kind, fields = found
    content = fields.get("content")
    if kind == "remove":
        return
    if kind == "tool":
        result = content if isinstance(content, str | dict) else content_text(content)
        build.result(
            result,
            call_id=fields.get("tool_call_id"),
            tool=fields.get("name"),
            at=at,
            line=line,
            **said_of_ending(fields),
        )
        return
    if kind == "chat":
        kind = {"user": "human", "human": "human", "system": "system"}.get(
            str(fields.get("role")).lower(), "ai"
        )
    if kind in ("human", "system"):
        build.turn(
            "user" if kind == "human" else "system",
            content_text(content),
            at=at,
            line=line,
            author=fields.get("name"),
        )
        return
    build.turn("assistant", content_text(content), at=at, line=line, author=fields.get("name"))
    if isinstance(fields.get("name"), str) and fields["name"] and not build.fields.get("agent"):
        build.fields["agent"] = fields["name"]
    extra = fields.get("additional_kwargs") if isinstance(fields.get("additional_kwargs"), dict) else {}
    calls = [call for call in as_list(fields.get("tool_calls")) if isinstance(call, dict)]
    invalid = [call for call in as_list(fields.get("invalid_tool_calls")) if isinstance(call, dict)]
    for call in calls:
        build.call(call.get("name", ""), call.get("args"), call_id=call.get("id"), at=at, line=line)
    for call in invalid:
        made = build.call(
            call.get("name") or "",
            None,
            call_id=call.get("id"),
            at=at,
            line=line,
            args_error=call.get("error") or "arguments are not JSON",
        )
        made.values["args"] = call.get("args") or ""
    if not calls and not invalid:
        _older(build, extra or {}, content, at, line)
    meta = fields.get("response_metadata") if isinstance(fields.get("response_metadata"), dict) else {}
    build.usage(
        **usage_of(
            fields.get("usage_metadata") or (meta or {}).get("token_usage") or (meta or {}).get("usage")
        )
    )
    model = (meta or {}).get("model_name") or (meta or {}).get("model")
    if isinstance(model, str):
        build.fields["model"] = model


def _older(build: SessionBuilder, extra: dict[str, Any], content: Any, at: Any, line: int | None) -> None:
    """Calls where older versions kept them: `additional_kwargs`, or blocks in the content."""
    for call in as_list(extra.get("tool_calls")):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            build.call(
                function.get("name", ""), function.get("arguments"), call_id=call.get("id"), at=at, line=line
            )
    legacy = extra.get("function_call")
    if isinstance(legacy, dict) and not extra.get("tool_calls"):
        build.call(legacy.get("name", ""), legacy.get("arguments"), at=at, line=line)
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict) and block.get("type") in ("tool_use", "tool_call"):
            build.call(
                block.get("name", ""),
                block.get("input", block.get("args")),
                call_id=block.get("id"),
                at=at,
                line=line,
            )
