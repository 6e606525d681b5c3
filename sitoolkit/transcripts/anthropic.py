"""Anthropic messages: a request's body or its `messages`, as a document, a line each, or a message a line.

Defined by the Messages API reference (content blocks `text`, `thinking`, `tool_use`, `tool_result`, server tools and their
`…_tool_result` blocks, MCP blocks); seen: 2023-06-01 with betas up to 2026.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Head, Match, ReadReport, TranscriptFile
from sitoolkit.transcripts.openai import read_conversations

NAME = "anthropic"
ALIASES = ("anthropic-messages", "claude-api")
_BLOCKS = frozenset(
    {
        "tool_use",
        "tool_result",
        "thinking",
        "redacted_thinking",
        "server_tool_use",
        "mcp_tool_use",
        "mcp_tool_result",
    }
)


def sniff(head: Head) -> Match | None:
    first = head.first
    lists: list[Any] = [first] if isinstance(first, list) else []
    lists += [value["messages"] for value in head.dicts[:8] if isinstance(value.get("messages"), list)]
    if head.layout == "lines" and not lists:
        lists = [head.dicts]
    for messages in lists:
        blocks = [
            block.get("type")
            for message in messages[:40]
            if isinstance(message, dict)
            and message.get("role") in ("user", "assistant")
            and isinstance(message.get("content"), list)
            for block in message["content"]
            if isinstance(block, dict)
        ]
        if not _BLOCKS.isdisjoint(blocks):
            return Match(0.7, f"messages with {next(kind for kind in blocks if kind in _BLOCKS)} blocks")
    for value in head.dicts[:4]:
        if (
            isinstance(value.get("messages"), list)
            and isinstance(value.get("system"), str | list)
            and "max_tokens" in value
        ):
            return Match(0.65, "a request with system, max_tokens and messages")
    return None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    yield from read_conversations(source, report, NAME)
