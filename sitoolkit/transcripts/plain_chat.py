"""The fast way for a plain OpenAI conversation: in come its messages, out comes the session, or `None` where anything is unusual.

Nine in ten conversations hold nothing but text, function calls and their results, each right after its call. They need none of
what `SessionBuilder` does for the others, and cost a third. What both give is the same; a property test compares them.
"""

from __future__ import annotations

from typing import Any

from sitoolkit.failures import judge
from sitoolkit.records import Outcome, Session, Source, ToolInvocation, Turn
from sitoolkit.transcripts.pairing import make, session_outcome, whole
from sitoolkit.transcripts.source import parse_args

__all__ = ["plain_session"]

_SPOKEN_KEYS = frozenset({"role", "content"})
_ASSISTANT_KEYS = frozenset({"role", "content", "tool_calls"})
_TOOL_KEYS = frozenset({"role", "content", "tool_call_id", "name"})
_CALL_KEYS = frozenset({"id", "type", "function"})
_SPOKEN = {"user": "user", "system": "system", "developer": "system"}
_CALL: dict[str, Any] = {
    name: None if field.is_required() else field.get_default(call_default_factory=True)
    for name, field in ToolInvocation.model_fields.items()
}
_UNKNOWN = Outcome.UNKNOWN


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
    turns: list[dict[str, Any]] = []
    waiting: dict[str, dict[str, Any]] = {}  # calls of the newest batch without a result
    seq = 0
    for message in messages:
        if type(message) is not dict:
            return None
        role = message.get("role")
        content = message.get("content")
        if role == "tool":
            call_id = message.get("tool_call_id")
            if type(content) is not str or type(call_id) is not str or not message.keys() <= _TOOL_KEYS:
                return None
            values = waiting.pop(call_id, None)
            if values is None or "<tool_" in content or (len(content) > 200 and ";base64," in content):
                return None
            values["result"] = content
            values["paired"] = True
            values["paired_by"] = "id"
            values["result_source"] = source
            values["outcome"], values["failure_mode"], values["error"], values["rule"] = judge(
                content, tool=values["tool"], answered=True
            )
            continue
        if content is not None and type(content) is not str:
            return None
        calls: list[dict[str, Any]] | tuple[()] = ()
        if role == "assistant":
            if not message.keys() <= _ASSISTANT_KEYS:
                return None
            waiting.clear()
            asked = message.get("tool_calls")
            if asked:
                if type(asked) is not list:
                    return None
                calls = []
                for call in asked:
                    if type(call) is not dict or not call.keys() <= _CALL_KEYS:
                        return None
                    call_id, function = call.get("id"), call.get("function")
                    if (
                        type(call_id) is not str
                        or not call_id
                        or call_id in waiting
                        or type(function) is not dict
                    ):
                        return None
                    tool, arguments = function.get("name"), function.get("arguments")
                    if type(tool) is not str or not tool or type(arguments) is not str:
                        return None
                    values = call_base.copy()
                    values["seq"] = seq
                    values["tool"] = tool
                    values["args"], values["args_error"] = parse_args(arguments)
                    values["call_id"] = call_id
                    values["turn"] = len(turns)
                    seq += 1
                    waiting[call_id] = values
                    calls.append(values)
            elif asked is not None and asked != []:
                return None
        else:
            if role not in _SPOKEN or content is None or not message.keys() <= _SPOKEN_KEYS:
                return None
            role = _SPOKEN[role]
        text = content or ""
        if "<tool_" in text or (len(text) > 200 and ";base64," in text):
            return None
        turns.append(
            {
                "role": role, "text": text, "calls": calls, "at": None, "index": len(turns), "author": None, "abandoned": False,
                "source": source,
            }
        )  # fmt: skip
    made = []
    for turn in turns:
        calls = turn["calls"]
        if calls:
            turn["calls"] = tuple([whole(ToolInvocation, values) for values in calls])
        made.append(whole(Turn, turn))
    return make(
        Session,
        {
            **fields,
            "id": session_id,
            "format": format,
            "agent": agent,
            "turns": tuple(made),
            "outcome": fields.get("outcome") or session_outcome(made),
            "source": source,
        },
    )
