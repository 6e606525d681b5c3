"""Claude Code's stream-json: what `claude -p --output-format stream-json` prints, a record a line (or one JSON array).

Defined by the Claude Agent SDK's message types; seen: 2025-2026. Messages of a sub-agent carry `parent_tool_use_id` and are
a session of their own; the `result` record holds cost, total usage and how the run ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Head, Match, ReadReport, TranscriptFile
from sitoolkit.transcripts.chat import usage_of
from sitoolkit.transcripts.claude_code import Conversation

NAME = "claude-code-stream-json"
ALIASES = ("claude-stream", "stream-json")
_SILENT = frozenset({
    "rate_limit_event", "stream_event", "control_request", "control_response", "control_cancel_request", "keep_alive",
    "tool_progress", "auth_status", "tool_use_summary", "prompt_suggestion", "api_retry",
})  # fmt: skip


def sniff(head: Head) -> Match | None:
    for value in head.dicts:
        if value.get("type") == "system" and value.get("subtype") == "init" and "session_id" in value:
            return Match(1.0, "a system/init record with session_id")
        if (
            value.get("type") in ("assistant", "user")
            and "session_id" in value
            and isinstance(value.get("message"), dict)
        ):
            return Match(0.9, "messages with session_id")
        if value.get("type") == "result" and "session_id" in value and "num_turns" in value:
            return Match(0.9, "a result record with session_id and num_turns")
    return None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    conversation = Conversation(source, report, NAME)
    for line, record in source.items(report):
        kind = str(record.get("type")) if isinstance(record, dict) else None
        if kind in _SILENT:
            continue
        if kind == "system":
            _system(conversation, line, record)
        elif kind == "result":
            _result(conversation, line, record)
        else:
            conversation.add(line, record)
    yield from conversation.sessions()


def _system(conversation: Conversation, line: int, record: dict[str, Any]) -> None:
    if record.get("subtype") == "init":
        _key, build = conversation._build(record, line)
        if isinstance(record.get("model"), str):
            build.fields.setdefault("model", record["model"])


def _result(conversation: Conversation, line: int, record: dict[str, Any]) -> None:
    key, build = conversation._build({"session_id": record.get("session_id")}, line)
    failed = record.get("is_error") is True or str(record.get("subtype", "success")) != "success"
    ending: dict[str, Any] = {"outcome": "failure" if failed else "success"}
    amounts = usage_of(record.get("usage"))
    if isinstance(record.get("total_cost_usd"), int | float):
        amounts["cost_usd"] = record["total_cost_usd"]
    if amounts:  # the run's own total; the messages' values are what each had seen when it began
        build.replace_usage(**amounts)
    text = record.get("result")
    if failed:
        build.note(
            f"the run ended in {record.get('subtype') or 'an error'}{': ' + text[:200] if isinstance(text, str) else ''}"
        )
    elif build.empty and isinstance(text, str):
        build.turn("assistant", text, line=line)
    conversation.endings[key] = ending
