"""Writes sessions as other harnesses record them: comes in `Session` records, goes out the text of a transcript file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from sitoolkit.records import Outcome, Session, ToolInvocation, Turn, digest, iso

__all__ = ["as_anthropic", "as_claude_code", "as_langchain", "as_openai", "as_own", "session_uuid"]


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def _text(result: Any) -> str:
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def as_own(sessions: Iterable[Session]) -> str:
    """Our own JSONL: a session a line."""
    return "".join(_line(session.model_dump(mode="json", exclude_defaults=True)) for session in sessions)


def as_openai(sessions: Iterable[Session]) -> str:
    """OpenAI chat messages, a conversation a line."""
    lines = []
    for session in sessions:
        head = {"id": session.id, "model": session.model, "metadata": {"agent": session.agent}}
        lines.append(_line({**head, "messages": session.to_openai()}))
    return "".join(lines)


def as_anthropic(session: Session) -> str:
    """Anthropic messages as one JSON document."""
    messages: list[dict[str, Any]] = []
    for turn in session.turns:
        messages.append({"role": _role(turn), "content": _blocks(turn)})
        results = [_tool_result(call) for call in turn.calls if call.paired]
        if results:
            messages.append({"role": "user", "content": results})
    return json.dumps({"model": session.model, "messages": messages}, ensure_ascii=False, indent=1) + "\n"


def _role(turn: Turn) -> str:
    return "assistant" if turn.role == "assistant" else "user"


def _blocks(turn: Turn) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text else []
    blocks += [
        {"type": "tool_use", "id": _id(call), "name": call.tool, "input": call.args} for call in turn.calls
    ]
    return blocks


def _id(call: ToolInvocation) -> str:
    return f"toolu_{digest(call.session_id, call.seq)[:20]}"


def _tool_result(call: ToolInvocation) -> dict[str, Any]:
    block: dict[str, Any] = {"tool_use_id": _id(call), "type": "tool_result", "content": _text(call.result)}
    if call.failed:
        block["is_error"] = True
    elif call.outcome is Outcome.CANCELLED:
        block["is_error"] = True
        block["content"] = "The user doesn't want to proceed with this tool use. The tool use was rejected."
    return block


def as_claude_code(session: Session) -> str:
    """Claude Code's session JSONL: a record a line, linked by `parentUuid`; the project is the folder's name."""
    lines: list[str] = []
    parent: str | None = None

    def emit(kind: str, message: dict[str, Any], at: str | None) -> None:
        nonlocal parent
        uuid = _uuid(session.id, len(lines))
        lines.append(
            _line(
                {
                    "parentUuid": parent,
                    "isSidechain": False,
                    "userType": "external",
                    "cwd": f"/srv/{session.project or 'work'}",
                    "sessionId": _uuid(session.id),
                    "version": "2.0.14",
                    "gitBranch": "main",
                    "type": kind,
                    "message": message,
                    "uuid": uuid,
                    "timestamp": at,
                }
            )
        )
        parent = uuid

    for turn in session.turns:
        if turn.role == "user":
            emit("user", {"role": "user", "content": turn.text}, iso(turn.at))
            continue
        message = {
            "id": f"msg_{digest(session.id, turn.index)[:16]}",
            "type": "message",
            "role": "assistant",
            "model": session.model,
            "content": _blocks(turn),
        }
        start = turn.calls[0].started_at if turn.calls else turn.at
        emit("assistant", message, iso(start))
        for call in turn.calls:
            if call.paired and call.started_at:
                ended = call.started_at + timedelta(milliseconds=call.duration_ms or 0)
                emit("user", {"role": "user", "content": [_tool_result(call)]}, iso(ended))
    return "".join(lines)


def session_uuid(*parts: object) -> str:
    """The UUID that a Claude Code file carries for a session of ours."""
    return _uuid(*parts)


def _uuid(*parts: object) -> str:
    text = digest(*parts)
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:32]}"


def as_langchain(session: Session) -> str:
    """LangChain messages as `messages_to_dict` writes them, one JSON list; it records no times."""
    messages: list[dict[str, Any]] = []
    for turn in session.turns:
        if turn.role == "user":
            messages.append({"type": "human", "data": {"content": turn.text, "type": "human"}})
            continue
        data: dict[str, Any] = {"content": turn.text, "type": "ai", "name": session.agent or None}
        data["tool_calls"] = [
            {"name": call.tool, "args": call.args, "id": call.call_id, "type": "tool_call"}
            for call in turn.calls
        ]
        data["invalid_tool_calls"] = []
        messages.append({"type": "ai", "data": data})
        messages.extend(
            {
                "type": "tool",
                "data": {
                    "content": _text(call.result)
                    if call.outcome is not Outcome.CANCELLED
                    else "Cancelled by user",
                    "type": "tool",
                    "name": call.tool,
                    "tool_call_id": call.call_id,
                    "status": "success" if call.outcome is Outcome.SUCCESS else "error",
                },
            }
            for call in turn.calls
            if call.paired
        )
    return json.dumps(messages, ensure_ascii=False, indent=1) + "\n"
