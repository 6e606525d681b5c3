"""OpenAI Responses: items (messages, function calls, outputs, built-in tools) as a list, a line each, or input and output.

Defined by the Responses API reference; seen: 2025-2026, and the same items from the Agents SDK's `to_input_list()`. Calls of
built-in tools (web search, code interpreter, file search, image generation, MCP) hold their result themselves.
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
    content_text,
    record_type,
)
from sitoolkit.transcripts.chat import add_message, usage_of
from sitoolkit.transcripts.openai import fields_of, session_name

__all__ = ["NAME", "add_item", "add_items", "read", "sniff"]

NAME = "openai-responses"
ALIASES = ("responses",)
_CALLS = frozenset({
    "function_call", "custom_tool_call", "local_shell_call", "shell_call", "computer_call", "apply_patch_call", "mcp_call",
    "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "tool_search_call",
})  # fmt: skip
_OUTPUTS = frozenset({
    "function_call_output", "custom_tool_call_output", "local_shell_call_output", "shell_call_output", "computer_call_output",
    "apply_patch_call_output", "tool_search_output",
})  # fmt: skip
_INLINE = {
    "mcp_call": ("output",), "web_search_call": ("results", "sources"), "file_search_call": ("results",),
    "code_interpreter_call": ("outputs",), "image_generation_call": (),
}  # fmt: skip
_SILENT = frozenset({
    "reasoning", "item_reference", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "compaction", "program",
})  # fmt: skip


def _is_item(value: Any) -> bool:
    return isinstance(value, dict) and (value.get("type") in _CALLS or value.get("type") in _OUTPUTS)


def sniff(head: Head) -> Match | None:
    first = head.first
    items = first if isinstance(first, list) else head.dicts
    found = next((item["type"] for item in items[:64] if _is_item(item)), None)
    if found:
        return Match(0.7, f"items of type {found}")
    for value in head.dicts[:4]:
        for key in ("input", "output", "items"):
            inner = value.get(key)
            if isinstance(inner, list) and any(
                _is_item(item) or (isinstance(item, dict) and item.get("type") == "message")
                for item in inner[:64]
            ):
                return Match(0.7, f"a response whose {key} holds items")
        if value.get("object") == "response" and isinstance(value.get("output"), list):
            return Match(0.8, "an object of kind response")
    return None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    build: SessionBuilder | None = None
    seen: set[int] = set()
    for line, value in source.items(report):
        if isinstance(value, list) or (
            isinstance(value, dict)
            and any(isinstance(value.get(k), list) for k in ("input", "output", "items"))
        ):
            about = value if isinstance(value, dict) else {}
            one = SessionBuilder(
                source.file,
                session_name(source, about, line, seen),
                format=NAME,
                line=line,
                **fields_of(about),
            )
            if isinstance(about.get("instructions"), str):
                one.turn("system", about["instructions"], line=line)
            if isinstance(about.get("input"), str):
                one.turn("user", about["input"], line=line)
            for items in (
                (value,)
                if isinstance(value, list)
                else (about.get("input"), about.get("items"), about.get("output"))
            ):
                if isinstance(items, list):
                    add_items(one, items, report, line)
            one.usage(**usage_of(about.get("usage")))
            yield one.build()
            continue
        if build is None:
            build = SessionBuilder(source.file, source.session_id(), format=NAME, line=line)
        add_items(build, [value], report, line)
    if build is not None and not build.empty:
        yield build.build()


def add_items(build: SessionBuilder, items: list[Any], report: ReadReport, line: int | None) -> None:
    """Add the items of a request's input or a response's output."""
    for item in items:
        if isinstance(item, dict):
            add_item(build, item, report, line)
        else:
            report.unknown(f"item:{record_type(item)}")


def add_item(
    build: SessionBuilder, item: dict[str, Any], report: ReadReport, line: int | None, at: Any = None
) -> None:
    """Add one item."""
    kind = str(item.get("type"))
    at = at or item.get("timestamp") or item.get("created_at")
    if kind in _OUTPUTS:
        _output(build, item, at, line)
    elif kind in _CALLS:
        _call(build, item, kind, at, line)
    elif kind in _SILENT:
        return
    elif "role" in item:
        add_message(build, {**item, "timestamp": at}, report, line)
    else:
        report.unknown(record_type(item))


def _call(build: SessionBuilder, item: dict[str, Any], kind: str, at: Any, line: int | None) -> None:
    args: Any = item.get("arguments")
    tool = item.get("name")
    if kind == "custom_tool_call":
        args = {"input": item.get("input", "")}
    elif kind in ("local_shell_call", "shell_call", "computer_call", "web_search_call"):
        args = item.get("action") or {key: item[key] for key in ("query", "queries") if key in item}
    elif kind == "apply_patch_call":
        args = item.get("operation") or item.get("patch")
    elif kind == "file_search_call":
        args = {"queries": item.get("queries")}
    elif kind == "code_interpreter_call":
        args = {"code": item.get("code")}
    elif kind in ("image_generation_call", "tool_search_call"):
        args = (
            {"prompt": item["revised_prompt"]} if item.get("revised_prompt") else item.get("arguments") or {}
        )
    if not tool:
        tool = kind.removesuffix("_call")
    if build.waits_for(item.get("call_id")):  # ids do not repeat within a response: another one began
        build.turn("assistant", at=at, line=line)
    call = build.call(
        str(tool),
        args,
        call_id=item.get("call_id") or item.get("id"),
        at=at,
        line=line,
        ran=item.get("status") not in ("incomplete", "in_progress") or "output" in item,
    )
    inline = _INLINE.get(kind)
    if inline is None or call.answered:
        return
    value = next((item[key] for key in inline if item.get(key) is not None), None)
    if value is None and item.get("status") not in ("completed", "failed") and not item.get("error"):
        return
    build.result(
        "" if value is None else value,
        call=call,
        line=line,
        inline=True,
        status=item.get("status"),
        error=item.get("error"),
    )


def _output(build: SessionBuilder, item: dict[str, Any], at: Any, line: int | None) -> None:
    output = item.get("output")
    said: dict[str, Any] = {}
    if item.get("status") in ("failed", "error"):
        said["status"] = item["status"]
    if isinstance(output, list):
        codes = [
            part["outcome"].get("exit_code")
            for part in output
            if isinstance(part, dict) and isinstance(part.get("outcome"), dict)
        ]
        if codes and isinstance(codes[-1], int):
            said["exit_code"] = next((code for code in codes if code), 0)
        if any(
            isinstance(part, dict)
            and isinstance(part.get("outcome"), dict)
            and part["outcome"].get("type") == "timeout"
            for part in output
        ):
            said["status"] = "timeout"
        text = content_text([part for part in output if not (isinstance(part, dict) and "stdout" in part)])
        shell = [
            str(part.get("stdout") or "") + str(part.get("stderr") or "")
            for part in output
            if isinstance(part, dict) and "stdout" in part
        ]
        output = "\n".join([*shell, text] if text else shell) if shell or text else output
    elif isinstance(output, dict) and output.get("type") in ("computer_screenshot", "input_image"):
        output = content_text({**output, "type": "image"})
    build.result(
        "" if output is None else output,
        call_id=item.get("call_id") or item.get("id"),
        at=at,
        line=line,
        **said,
    )
