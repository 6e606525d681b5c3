"""Chat messages of rarer shapes become OpenAI's: ShareGPT's from/value, calls written as text (Hermes, Qwen), Bedrock's blocks.

Comes in one message; goes out the same message with `role`, `content` and `tool_calls`, or results as `tool` messages.
"""

from __future__ import annotations

import re
from typing import Any

from sitoolkit.transcripts.base import loads

__all__ = ["from_bedrock", "from_sharegpt", "from_tagged_text", "has_bedrock"]

_FROM = {
    "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "bot": "assistant", "chatgpt": "assistant",
    "system": "system", "tool": "tool", "observation": "tool", "function_response": "tool", "function-response": "tool",
    "function_call": "call", "function-call": "call", "tool_call": "call",
}  # fmt: skip
_CALL = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.S)
_RESPONSE = re.compile(r"<tool_response>\s*(.*?)\s*(?:</tool_response>|\Z)", re.S)


def from_sharegpt(message: dict[str, Any]) -> dict[str, Any] | None:
    """A message of ShareGPT's shape (`from`, `value`); `None` if it is none."""
    role = _FROM.get(str(message.get("from")).lower())
    if role is None or "value" not in message:
        return None
    value = message["value"]
    if role != "call":
        return {"role": role, "content": value}
    try:
        told = loads(value) if isinstance(value, str) else value
    except ValueError:
        told = {"name": "unknown", "arguments": value}
    calls = told if isinstance(told, list) else [told]
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [_flat(call) for call in calls if isinstance(call, dict)],
    }


def _flat(call: dict[str, Any]) -> dict[str, Any]:
    args = call.get("arguments", call.get("parameters", call.get("args")))
    return {"name": call.get("name") or "unknown", "arguments": args, "id": call.get("id")}


def from_tagged_text(role: str, text: str) -> list[dict[str, Any]]:
    """Messages of a text with `<tool_call>` or `<tool_response>` tags: the text without them, and calls or results."""
    if role == "assistant":
        calls = []
        for found in _CALL.finditer(text):
            try:
                told = loads(found.group(1))
            except ValueError:
                told = {"name": "unknown", "arguments": found.group(1)}
            calls += [
                _flat(call) for call in (told if isinstance(told, list) else [told]) if isinstance(call, dict)
            ]
        return [{"role": "assistant", "content": _CALL.sub("", text).strip(), "tool_calls": calls}]
    results = [{"role": "tool", "content": _content(found.group(1))} for found in _RESPONSE.finditer(text)]
    rest = _RESPONSE.sub("", text).strip()
    return [*results, *([{"role": role, "content": rest}] if rest and role != "tool" else [])]


def _content(text: str) -> str:
    """Hermes wraps a result as {"name", "content"}; the content is the result."""
    try:
        told = loads(text)
    except ValueError:
        return text
    if (
        isinstance(told, dict)
        and set(told) <= {"name", "content", "tool_call_id"}
        and isinstance(told.get("content"), str)
    ):
        return str(told["content"])
    return text


def has_bedrock(blocks: list[Any]) -> bool:
    """Do the blocks hold Bedrock's `toolUse` or `toolResult`?"""
    return any(isinstance(block, dict) and ("toolUse" in block or "toolResult" in block) for block in blocks)


def from_bedrock(blocks: list[Any]) -> list[Any]:
    """Bedrock Converse's content blocks as Anthropic's."""
    made: list[Any] = []
    for block in blocks:
        use = block.get("toolUse") if isinstance(block, dict) else None
        result = block.get("toolResult") if isinstance(block, dict) else None
        if isinstance(use, dict):
            made.append(
                {
                    "type": "tool_use",
                    "id": use.get("toolUseId"),
                    "name": use.get("name"),
                    "input": use.get("input"),
                }
            )
        elif isinstance(result, dict):
            parts = [
                {"type": "text", "text": part["text"]} if isinstance(part, dict) and "text" in part else {"type": "json", "value": str(part.get("json"))} if isinstance(part, dict) and "json" in part else part
                for part in result.get("content") or []
            ]  # fmt: skip
            only = result.get("content") or []
            content: Any = (
                only[0]["json"]
                if len(only) == 1 and isinstance(only[0], dict) and isinstance(only[0].get("json"), dict)
                else parts
            )
            failed = {"is_error": True} if result.get("status") == "error" else {}
            made.append(
                {"type": "tool_result", "tool_use_id": result.get("toolUseId"), "content": content, **failed}
            )
        else:
            made.append(block)
    return made
