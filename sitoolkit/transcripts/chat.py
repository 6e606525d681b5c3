"""One chat message of OpenAI's or Anthropic's shape goes into a `SessionBuilder`; both are met mixed in the wild.

OpenAI: `tool_calls` (function, custom, or flat as tau2 has them), the older `function_call`, results as `tool` or `function`
messages. Anthropic: `tool_use`, `server_tool_use`, `mcp_tool_use` blocks, results as `tool_result` blocks of a user message or
beside the call. Rarer shapes are made plain by `chat_variants`. What is said of how a call ended (is_error, status, exit code, error) is handed on, nothing is judged here.
"""

from __future__ import annotations

from typing import Any, Literal

from sitoolkit.transcripts.base import (
    ReadReport,
    SessionBuilder,
    as_list,
    content_text,
    record_type,
    without_data,
)
from sitoolkit.transcripts.chat_variants import from_bedrock, from_sharegpt, from_tagged_text, has_bedrock

__all__ = ["add_message", "add_messages", "message_roles", "said_of_ending", "usage_of"]

Role = Literal["system", "user", "assistant", "tool", "other"]
_ROLES: dict[str, Role] = {
    "system": "system", "developer": "system", "user": "user", "human": "user", "assistant": "assistant", "ai": "assistant",
    "model": "assistant", "bot": "assistant", "gpt": "assistant", "tool": "tool", "function": "tool", "tool_response": "tool",
    "observation": "tool", "ipython": "tool", "environment": "tool",
}  # fmt: skip
_SAID = frozenset({
    "is_error", "isError", "status", "exit_code", "exitCode", "error", "success", "additional_kwargs", "duration_ms", "artifact",
})  # fmt: skip
_RARE = frozenset(
    {
        "timestamp",
        "created_at",
        "ts",
        "name",
        "function_call",
        "finish_reason",
        "stop_reason",
        "stopReason",
        "executed_tools",
    }
)
_USE = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


def message_roles(values: list[Any]) -> int:
    """How many of the values are messages: objects with a known role and something said or called."""
    return sum(
        isinstance(value, dict)
        and (
            (
                isinstance(value.get("role"), str)
                and value["role"] in _ROLES
                and (
                    "content" in value
                    or "tool_calls" in value
                    or "function_call" in value
                    or "parts" in value
                )
            )
            or ("from" in value and from_sharegpt(value) is not None)
        )
        for value in values
    )


def add_messages(build: SessionBuilder, messages: list[Any], report: ReadReport, line: int | None) -> None:
    """Add all messages of a conversation that stands on one line."""
    for message in messages:
        if type(message) is dict:
            add_message(build, message, report, line)
        else:
            report.unknown(f"message:{record_type(message)}")


def add_message(
    build: SessionBuilder,
    message: dict[str, Any],
    report: ReadReport,
    line: int | None,
    key: str | None = None,
) -> int | None:
    """Add one message; returns the index of its turn, if it made one. With `key`, blocks of one message are one turn."""
    told = message.get("role")
    role = _ROLES.get(told) if type(told) is str else None
    if role is None:
        variant = from_sharegpt(message)
        if variant is not None:
            return add_message(build, variant, report, line, key)
        report.unknown(f"role:{record_type(message)}")
        role = "other"
    content = message.get("content")
    if type(content) is str and "<tool_" in content and role != "system" and not message.get("tool_calls"):
        tagged = "<tool_call>" if role == "assistant" else "<tool_response>"
        if tagged in content:
            for variant in from_tagged_text(role, content):
                add_message(build, {**message, **variant}, report, line, key)
            return None
    elif type(content) is list and has_bedrock(content):
        content = from_bedrock(content)
        message = {**message, "content": content}
    at = author = None
    plain = _RARE.isdisjoint(message)
    if not plain:
        at = message.get("timestamp") or message.get("created_at") or message.get("ts")
        author = message.get("name")
    if role == "tool":
        _tool_message(build, message, content, at, line)
        return None
    index: int | None = None
    if plain and type(content) is str and role != "assistant" and "tool_calls" not in message:
        return build.turn(role, without_data(content), line=line, key=key)
    blocks = content if type(content) is list else None
    text = without_data(content) if type(content) is str else "" if content is None else content_text(content)
    has_results = False
    if blocks is not None and role == "user":
        for block in blocks:
            if (
                isinstance(block, dict)
                and isinstance(block.get("type"), str)
                and block["type"].endswith("tool_result")
            ):
                has_results = True
                _result_block(build, block, at, line)
    if role != "user" or text or not has_results:
        index = build.turn(role, text, at=at, line=line, author=author, key=key)
    calls = message.get("tool_calls")
    if role != "assistant":
        if calls and role == "user":  # tau2: the simulated user has tools of its own
            if index is None:
                index = build.turn("user", at=at, line=line)
            _openai_calls(build, calls, report, at, line, turn=index, agent="user")
        return index
    if calls:
        _openai_calls(build, calls, report, at, line)
    if plain and blocks is None:
        return index
    for ran in as_list(message.get("executed_tools")):  # Groq runs some tools itself
        if isinstance(ran, dict):
            made = build.call(str(ran.get("name") or ran.get("type") or ""), ran.get("arguments"), line=line)
            build.result(ran.get("output") or "", call=made, line=line, inline=True)
    legacy = message.get("function_call")
    if isinstance(legacy, dict) and not calls:
        build.call(legacy.get("name", ""), legacy.get("arguments"), at=at, line=line)
    if blocks is not None:
        _blocks(build, blocks, at, line, turn=index if key is not None else None)
    if index is not None and (
        message.get("finish_reason") == "error"
        or message.get("stop_reason") == "error"
        or message.get("stopReason") == "error"
    ):
        build.never_ran(index)
    return index


def _openai_calls(
    build: SessionBuilder,
    calls: Any,
    report: ReadReport,
    at: Any,
    line: int | None,
    turn: int | None = None,
    agent: str | None = None,
) -> None:
    for call in calls if isinstance(calls, list) else [calls]:
        if not isinstance(call, dict):
            report.unknown(f"tool_call:{record_type(call)}")
            continue
        function = call.get("function")
        if type(function) is dict:
            build.call(
                function.get("name", ""),
                function.get("arguments", function.get("args")),
                call_id=call.get("id"),
                at=at,
                line=line,
                turn=turn,
                agent=agent,
            )
            continue
        custom = call.get("custom")
        if isinstance(custom, dict):  # free text by design, not JSON
            build.call(
                custom.get("name", ""),
                {"input": custom.get("input", "")},
                call_id=call.get("id"),
                at=at,
                line=line,
                turn=turn,
                agent=agent,
            )
            continue
        name = (
            call.get("name")
            or call.get("tool_name")
            or call.get("tool")
            or (function if isinstance(function, str) else "")
        )
        args = next((call[key] for key in ("arguments", "args", "input", "parameters") if key in call), None)
        build.call(
            name,
            args,
            call_id=call.get("id") or call.get("tool_call_id") or call.get("call_id"),
            at=at,
            line=line,
            turn=turn,
            agent=agent,
        )


def _tool_message(
    build: SessionBuilder, message: dict[str, Any], content: Any, at: Any, line: int | None
) -> None:
    call_id = message.get("tool_call_id") or message.get("tool_use_id") or message.get("call_id")
    if call_id is None and message.get("role") == "tool":
        call_id = message.get("id") if "requestor" in message else None  # tau2 names the call so
    said = said_of_ending(message) if not _SAID.isdisjoint(message) else {}
    if type(content) is str:
        value: Any = without_data(content)
    elif type(content) is list:
        value = content_text(content)
    else:
        value = "" if content is None else content
    build.result(value, call_id=call_id, tool=message.get("name"), at=at, line=line, **said)


def said_of_ending(message: dict[str, Any]) -> dict[str, Any]:
    """What a message says of how its call ended, as keyword arguments of `SessionBuilder.result`."""
    said: dict[str, Any] = {}
    for key in ("is_error", "isError"):
        if isinstance(message.get(key), bool):
            said["is_error"] = message[key]
    error = message.get("error")
    if isinstance(error, bool):
        said["is_error"] = error
    elif error:
        said["error"] = error
    if isinstance(message.get("success"), bool) and "is_error" not in said:
        said["is_error"] = not message["success"]
    extra = message.get("additional_kwargs")
    status = message.get("status") or (extra.get("status") if isinstance(extra, dict) else None)
    if isinstance(status, str):
        said["status"] = status
    for key in ("exit_code", "exitCode"):
        if isinstance(message.get(key), int) and not isinstance(message[key], bool):
            said["exit_code"] = message[key]
    artifact = message.get("artifact")
    if isinstance(artifact, dict) and isinstance(artifact.get("exit_code"), int):
        said.setdefault("exit_code", artifact["exit_code"])
    if isinstance(message.get("duration_ms"), int | float):
        said["duration_ms"] = message["duration_ms"]
    return said


def _blocks(build: SessionBuilder, blocks: list[Any], at: Any, line: int | None, *, turn: int | None) -> None:
    """Tool blocks of an assistant message: calls, and results of tools that the server ran.

    With `turn`, the message comes in parts, and a call of that turn may be told again.
    """
    for block in blocks:
        kind = str(block.get("type")) if isinstance(block, dict) else None
        if kind in _USE:
            build.call(
                block.get("name", ""),
                block.get("input"),
                call_id=block.get("id"),
                at=at,
                line=line,
                turn=turn,
                restates=turn is not None,
            )
        elif isinstance(kind, str) and kind.endswith("tool_result"):
            _result_block(build, block, at, line)
        elif kind in ("tool_call", "tool-call", "toolCall"):
            args = next((block[key] for key in ("arguments", "args", "input") if key in block), None)
            name = block.get("name") or block.get("toolName") or ""
            build.call(
                name,
                args,
                call_id=block.get("id") or block.get("toolCallId"),
                at=at,
                line=line,
                turn=turn,
                restates=turn is not None,
            )


def _result_block(build: SessionBuilder, block: dict[str, Any], at: Any, line: int | None) -> None:
    content = block.get("content")
    said: dict[str, Any] = {}
    if isinstance(block.get("is_error"), bool):
        said["is_error"] = block["is_error"]
    value: Any = "" if content is None else content_text(content)
    if isinstance(content, dict):
        value = content
        if isinstance(content.get("return_code"), int):
            said["exit_code"] = content["return_code"]
        if isinstance(content.get("error_code"), str):
            said["typed_error"] = content["error_code"]
    elif isinstance(content, list) and content and not value:
        value = content
    build.result(
        value,
        call_id=block.get("tool_use_id") or block.get("tool_call_id"),
        at=at,
        line=line,
        inline=False,
        **said,
    )


_USAGE = (
    ("input_tokens", ("input_tokens", "prompt_tokens", "promptTokenCount", "input", "inputTokens")),
    (
        "output_tokens",
        ("output_tokens", "completion_tokens", "candidatesTokenCount", "output", "outputTokens"),
    ),
    (
        "cache_read_tokens",
        ("cache_read_input_tokens", "cached_tokens", "cachedContentTokenCount", "cache_read", "cacheRead"),
    ),
    ("cost_usd", ("cost_usd", "total_cost_usd", "cost")),
)


def usage_of(usage: Any) -> dict[str, float]:
    """Tokens and cost under one name each, as keyword arguments of `SessionBuilder.usage`."""
    if not isinstance(usage, dict):
        return {}
    found: dict[str, float] = {}
    for name, keys in _USAGE:
        for key in keys:
            value = usage.get(key)
            if isinstance(value, int | float) and not isinstance(value, bool):
                found[name] = value
                break
    for key in ("prompt_tokens_details", "input_tokens_details", "input_token_details"):
        details = usage.get(key)
        if isinstance(details, dict) and "cache_read_tokens" not in found:
            cached = details.get("cached_tokens", details.get("cache_read"))
            if isinstance(cached, int):
                found["cache_read_tokens"] = cached
    return found
