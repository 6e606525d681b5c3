"""Requests that restate what was said before: in come two lists of messages, out comes whether one goes on where the other ended.

A log of requests tells a conversation anew with each; only the last statement counts.
"""

from __future__ import annotations

from typing import Any

__all__ = ["goes_on", "starts_with"]


def goes_on(messages: list[Any], earlier: list[Any]) -> bool:
    """Do the messages say all of the earlier ones and more? Cheap where they do not."""
    length = len(earlier)
    if not 1 < length < len(messages):
        return False
    if messages[length - 1] != earlier[-1] and _bare(messages[length - 1]) != _bare(earlier[-1]):
        return False
    return starts_with(messages, earlier)


def starts_with(messages: list[Any], earlier: list[Any]) -> bool:
    """Do the messages begin with the earlier ones, apart from what clients move about (cache marks, thinking)?"""
    begin = messages[: len(earlier)]
    return len(begin) == len(earlier) and (
        begin == earlier or [_bare(m) for m in begin] == [_bare(m) for m in earlier]
    )


_MOVED = frozenset(
    {
        "cache_control",
        "cachePoint",
        "reasoning",
        "reasoning_content",
        "thought_signature",
        "thoughtSignature",
        "annotations",
        "refusal",
    }
)


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _bare(item) for key, item in value.items() if key not in _MOVED and item is not None}
        content = kept.get("content")
        if isinstance(content, list):
            content = [
                part
                for part in content
                if not (isinstance(part, dict) and part.get("type") in ("thinking", "redacted_thinking"))
            ]
            texts = [
                part["text"]
                for part in content
                if isinstance(part, dict) and set(part) == {"type", "text"} and isinstance(part["text"], str)
            ]
            kept["content"] = "\n".join(texts) if len(texts) == len(content) else content
        return kept
    return [_bare(item) for item in value] if isinstance(value, list) else value
