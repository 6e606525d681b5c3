"""The fast way for a plain OpenAI conversation: in come its messages, out comes the session, or `None` where anything is unusual.

Nine in ten conversations hold nothing but text, function calls and their results, each right after its call. They need none of
what `SessionBuilder` does for the others, and cost a third. What both give is the same; a property test compares them.
"""

from __future__ import annotations

from typing import Any

from sitoolkit.failures import judge
from sitoolkit.records import Session, Source, ToolInvocation, Turn
from sitoolkit.transcripts.pairing import make, session_outcome, whole
from sitoolkit.transcripts.source import parse_args

__all__ = ["plain_session"]

_SPOKEN = frozenset({"user", "system", "developer"})
_CALL: dict[str, Any] = {
    name: None if field.is_required() else field.get_default(call_default_factory=True)
    for name, field in ToolInvocation.model_fields.items()
}


def plain_session(
    file: str, session_id: str, format: str, line: int | None, messages: list[Any], fields: dict[str, Any]
) -> Session | None:
    """The session of a conversation that is plain throughout; `None` if one message is not."""
    source = whole(Source, {"file": file, "line": line, "format": format})
    agent = fields.get("agent") or ""
    call_base = {
        **_CALL, "session_id": session_id, "agent": agent, "project": fields.get("project"), "team": fields.get("team"),
        "org": fields.get("org"), "source": source,
    }  # fmt: skip
    turns: list[Turn] = []
    asking: list[tuple[dict[str, Any], list[ToolInvocation]]] = []  # turns with calls, completed at the end
    waiting: dict[str, dict[str, Any]] = {}  # calls of the newest batch without a result
    seq = 0
    for message in messages:
        if type(message) is not dict:
            return None
        role = message.get("role")
        if type(role) is not str:
            return None
        content = message.get("content")
        if role == "tool":
            size = len(message)
            call_id = message.get("tool_call_id")
            values = waiting.pop(call_id, None) if type(call_id) is str else None
            if (
                values is None
                or type(content) is not str
                or not (size == 3 or (size == 4 and "name" in message))
                or "<tool_" in content
                or (len(content) > 200 and ";base64," in content)
            ):
                return None
            values["result"] = content
            values["paired"] = True
            values["paired_by"] = "id"
            values["result_source"] = source
            values["outcome"], values["failure_mode"], values["error"], values["rule"] = judge(
                content, tool=values["tool"], answered=True
            )
            continue
        text = content or ""
        if type(text) is not str or "<tool_" in text or (len(text) > 200 and ";base64," in text):
            return None
        fields_of_turn: dict[str, Any] = {
            "role": role, "text": text, "calls": (), "at": None, "index": len(turns), "author": None, "abandoned": False,
            "source": source,
        }  # fmt: skip
        if role == "assistant":
            waiting.clear()
            if len(message) > 2 or "content" not in message:
                asked = message.get("tool_calls")
                if (
                    len(message) != ("content" in message) + 1 + (asked is not None)
                    or type(asked) is not list
                ):
                    return None
                calls: list[ToolInvocation] = []
                for call in asked:
                    values = _asked(call, waiting, call_base)
                    if values is None:
                        return None
                    values["seq"] = seq
                    values["turn"] = len(turns)
                    seq += 1
                    waiting[values["call_id"]] = values
                    calls.append(whole(ToolInvocation, values))  # its fields are filled when the result comes
                if calls:
                    asking.append((fields_of_turn, calls))
        elif role not in _SPOKEN or content is None or len(message) != 2:
            return None
        elif role == "developer":
            fields_of_turn["role"] = "system"
        turns.append(whole(Turn, fields_of_turn))
    for fields_of_turn, calls in asking:
        fields_of_turn["calls"] = tuple(calls)
    return make(
        Session,
        {
            **fields,
            "id": session_id,
            "format": format,
            "agent": agent,
            "turns": tuple(turns),
            "outcome": fields.get("outcome") or session_outcome(turns),
            "source": source,
        },
    )


def _asked(call: Any, waiting: dict[str, Any], base: dict[str, Any]) -> dict[str, Any] | None:
    """The fields of one function call; `None` if it is not plain, or its id is taken."""
    if type(call) is not dict:
        return None
    call_id, function = call.get("id"), call.get("function")
    if type(call_id) is not str or not call_id or call_id in waiting or type(function) is not dict:
        return None
    tool, arguments = function.get("name"), function.get("arguments")
    if type(tool) is not str or not tool or type(arguments) is not str:
        return None
    values = base.copy()
    values["tool"] = tool
    values["args"], values["args_error"] = parse_args(arguments)
    values["call_id"] = call_id
    return values
