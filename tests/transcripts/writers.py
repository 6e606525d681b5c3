"""A plain story of calls, and its text in each format: comes in `Step`s, goes out what a harness would have written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st


@dataclass
class Call:
    tool: str
    args: dict[str, Any]
    result: str | None  # None: no result was recorded
    id: str = ""


@dataclass
class Step:
    """A user's message, or an assistant's with its calls."""

    role: str
    text: str
    calls: list[Call] = field(default_factory=list)
    order: list[int] | None = None  # in which the results come; None: as called
    dropped: bool = False  # the assistant's message is lost, its results are not

    def answered(self) -> list[Call]:
        order = self.order if self.order is not None else range(len(self.calls))
        return [self.calls[place] for place in order if self.calls[place].result is not None]


_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=30)
_SAFE = st.text("abcdefghij klm-_/.", min_size=1, max_size=20).map(lambda text: "r " + text)
_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False, width=32) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abcde", min_size=1, max_size=3), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
_CALL = st.builds(
    Call,
    tool=st.sampled_from(["push", "get_user", "mcp__srv__run", "Bash"]),
    args=st.dictionaries(st.text("abcdefg", min_size=1, max_size=5), _VALUE, max_size=3),
    result=_SAFE,
)
_USER = st.builds(Step, role=st.just("user"), text=_SAFE)
_ASSISTANT = st.builds(
    Step, role=st.just("assistant"), text=_SAFE | st.just(""), calls=st.lists(_CALL, max_size=3)
)


@st.composite
def stories(draw: st.DrawFn, ids: str = "unique") -> list[Step]:
    """A user's request, then steps; ids are `unique`, `repeated` (numbered anew in each message) or `none`."""
    steps = [draw(_USER), *draw(st.lists(_USER | _ASSISTANT, min_size=1, max_size=6))]
    if not any(step.calls for step in steps):
        steps.append(Step("assistant", "", [draw(_CALL)]))
    number = 0
    for step in steps:
        for place, call in enumerate(step.calls):
            call.id = {"unique": f"call_{number}", "repeated": f"t:{place}", "none": ""}[ids]
            number += 1
    return steps


def expected(steps: list[Step]) -> list[tuple[str, Any, str | None]]:
    """Tool, arguments and result of each call that the transcript still holds."""
    return [(call.tool, call.args, call.result) for step in steps if not step.dropped for call in step.calls]


def _openai_messages(steps: list[Step]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for step in steps:
        if not step.dropped:
            message: dict[str, Any] = {"role": step.role, "content": step.text}
            if step.calls:
                message["tool_calls"] = [
                    {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": json.dumps(call.args)}}
                    for call in step.calls
                ]  # fmt: skip
            messages.append(message)
        for call in step.answered():
            messages.append(
                {"role": "tool", "tool_call_id": call.id, "name": call.tool, "content": call.result}
            )
    return messages


def _anthropic_messages(steps: list[Step]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for step in steps:
        if not step.dropped:
            blocks: list[dict[str, Any]] = (
                [{"type": "text", "text": step.text}] if step.text or not step.calls else []
            )
            blocks += [
                {"type": "tool_use", "id": call.id, "name": call.tool, "input": call.args}
                for call in step.calls
            ]
            messages.append({"role": step.role, "content": blocks})
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": call.result}
            for call in step.answered()
        ]
        if results:
            messages.append({"role": "user", "content": results})
    return messages


def _lines(values: list[Any]) -> str:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def openai_list(steps: list[Step]) -> str:
    return json.dumps(_openai_messages(steps), indent=1)


def openai_conversation_a_line(steps: list[Step]) -> str:
    return _lines([{"id": "c1", "messages": _openai_messages(steps)}])


def openai_message_a_line(steps: list[Step]) -> str:
    return _lines(_openai_messages(steps))


def tau_bench(steps: list[Step]) -> str:
    return json.dumps(
        [{"task_id": 1, "reward": 1.0, "trial": 0, "info": {}, "traj": _openai_messages(steps)}]
    )


def anthropic_document(steps: list[Step]) -> str:
    return json.dumps(
        {"model": "m", "max_tokens": 9, "system": "s", "messages": _anthropic_messages(steps)}, indent=1
    )


def anthropic_message_a_line(steps: list[Step]) -> str:
    return _lines(_anthropic_messages(steps))


def claude_code(steps: list[Step]) -> str:
    """A line for each content block, linked by parentUuid."""
    records: list[dict[str, Any]] = []

    def add(kind: str, message: dict[str, Any]) -> None:
        parent = records[-1]["uuid"] if records else None
        records.append(
            {
                "type": kind,
                "uuid": f"u{len(records)}",
                "parentUuid": parent,
                "sessionId": "s",
                "message": message,
            }
        )

    for number, step in enumerate(steps):
        if step.role == "user":
            add("user", {"role": "user", "content": step.text})
            continue
        if not step.dropped:
            for block in _anthropic_messages([step])[0]["content"]:
                add("assistant", {"id": f"m{number}", "role": "assistant", "content": [block]})
        for call in step.answered():
            add(
                "user",
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": call.id, "content": call.result}],
                },
            )
    return _lines(records)


def stream_json(steps: list[Step]) -> str:
    records: list[dict[str, Any]] = [{"type": "system", "subtype": "init", "session_id": "s", "model": "m"}]
    for number, message in enumerate(_anthropic_messages(steps)):
        records.append(
            {"type": message["role"], "session_id": "s", "message": {"id": f"m{number}", **message}}
        )
    return _lines(records)


def _langchain(steps: list[Step], wrap: Callable[[str, dict[str, Any]], dict[str, Any]]) -> str:
    messages = []
    for step in steps:
        if step.role == "user":
            messages.append(wrap("human", {"content": step.text}))
            continue
        if not step.dropped:
            calls = [
                {"name": call.tool, "args": call.args, "id": call.id, "type": "tool_call"}
                for call in step.calls
            ]
            messages.append(wrap("ai", {"content": step.text, "tool_calls": calls, "invalid_tool_calls": []}))
        messages += [
            wrap("tool", {"content": call.result, "tool_call_id": call.id, "name": call.tool})
            for call in step.answered()
        ]
    return json.dumps(messages)


def langchain_plain(steps: list[Step]) -> str:
    return _langchain(steps, lambda kind, data: {"type": kind, **data})


def langchain_dict(steps: list[Step]) -> str:
    return _langchain(steps, lambda kind, data: {"type": kind, "data": data})


def langchain_dump(steps: list[Step]) -> str:
    names = {"human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}
    return _langchain(
        steps,
        lambda kind, data: {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", names[kind]],
            "kwargs": data,
        },
    )


def responses_items(steps: list[Step]) -> str:
    items: list[dict[str, Any]] = []
    for step in steps:
        if not step.dropped:
            if step.text:
                kind = "output_text" if step.role == "assistant" else "input_text"
                items.append(
                    {"type": "message", "role": step.role, "content": [{"type": kind, "text": step.text}]}
                )
            items += [
                {
                    "type": "function_call",
                    "call_id": call.id,
                    "name": call.tool,
                    "arguments": json.dumps(call.args),
                }
                for call in step.calls
            ]
        items += [
            {"type": "function_call_output", "call_id": call.id, "output": call.result}
            for call in step.answered()
        ]
    return _lines(items)


def gemini(steps: list[Step]) -> str:
    contents: list[dict[str, Any]] = []
    for step in steps:
        if not step.dropped:
            parts: list[dict[str, Any]] = [{"text": step.text}] if step.text or not step.calls else []
            parts += [
                {
                    "functionCall": {
                        "name": call.tool,
                        "args": call.args,
                        **({"id": call.id} if call.id else {}),
                    }
                }
                for call in step.calls
            ]
            contents.append({"role": "model" if step.role == "assistant" else "user", "parts": parts})
        answers = [
            {
                "functionResponse": {
                    "name": call.tool,
                    "response": {"result": call.result},
                    **({"id": call.id} if call.id else {}),
                }
            }
            for call in step.answered()
        ]
        if answers:
            contents.append({"role": "user", "parts": answers})
    return json.dumps({"contents": contents})


WRITERS: dict[str, tuple[Callable[[list[Step]], str], str]] = {
    "openai list": (openai_list, "openai-chat"),
    "openai conversation a line": (openai_conversation_a_line, "openai-chat"),
    "openai message a line": (openai_message_a_line, "openai-chat"),
    "tau-bench": (tau_bench, "tau-bench"),
    "anthropic document": (anthropic_document, "anthropic"),
    "anthropic message a line": (anthropic_message_a_line, "anthropic"),
    "claude code": (claude_code, "claude-code"),
    "stream-json": (stream_json, "claude-code-stream-json"),
    "langchain plain": (langchain_plain, "langchain"),
    "langchain dict": (langchain_dict, "langchain"),
    "langchain dump": (langchain_dump, "langchain"),
    "responses": (responses_items, "openai-responses"),
    "gemini": (gemini, "gemini-api"),
}
