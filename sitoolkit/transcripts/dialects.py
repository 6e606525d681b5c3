"""One plain form for messages: in comes what a model API, framework or tracer wrote, out go `Message`s with parts.

Tracers (Langfuse, LangSmith, OpenInference, OTel, MLflow) keep the messages of whatever framework made the call, so
their readers meet every dialect: OpenAI chat and Responses, Anthropic blocks, Gemini and semantic-convention parts,
Bedrock, LangChain (`lc: 1`, `type`/`data`, plain), Vercel AI SDK, OpenInference's nested `message.*` keys.
Nothing here pairs calls with results or judges them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "CallPart", "Message", "ResultPart", "as_json", "find_messages", "read_message", "text_of", "unquoted", "usage_of",
]  # fmt: skip

_ROLES = {
    "human": "user", "user": "user", "input": "user", "ai": "assistant", "assistant": "assistant", "model": "assistant",
    "bot": "assistant", "gemini": "assistant", "agent": "assistant", "aimessagechunk": "assistant", "system": "system",
    "developer": "system", "tool": "tool", "function": "tool", "toolresult": "tool", "ipython": "tool",
    "toolmessage": "tool", "functionmessage": "tool", "humanmessage": "user", "aimessage": "assistant",
    "systemmessage": "system", "humanmessagechunk": "user", "toolmessagechunk": "tool", "choice": "assistant",
}  # fmt: skip
_MESSAGE_KEYS = (
    "messages", "contents", "input_messages", "output_messages", "new_messages", "conversation", "history", "chat_history",
)  # fmt: skip
_SERVER_CALLS = ("server_tool_use", "mcp_tool_use", "tool_use", "toolCall", "tool_call", "tool-call")
_DEPTH = 12  # nesting of content lists; more is an attack, not a message


@dataclass(slots=True)
class CallPart:
    """A tool call as the model asked for it; `args` may be an object or unparsed text."""

    tool: str
    args: Any = None
    call_id: str | None = None


@dataclass(slots=True)
class ResultPart:
    """What came back; `is_error` and `status` only where the transcript says so."""

    content: Any = None
    call_id: str | None = None
    tool: str | None = None
    is_error: bool | None = None
    status: str | None = None
    error: str | None = None


@dataclass(slots=True)
class Message:
    """A message in plain form. A part keeps its place only within its own kind."""

    role: str = "other"
    text: str = ""
    calls: list[CallPart] = field(default_factory=list)
    results: list[ResultPart] = field(default_factory=list)
    author: str | None = None
    unknown: list[str] = field(default_factory=list)  # types of parts that were not understood

    @property
    def empty(self) -> bool:
        """True where nothing would be lost by leaving the message out."""
        return not (self.text or self.calls or self.results)


def as_json(value: Any) -> Any:
    """The object or list that a text holds as JSON, else the value itself; numbers and words stay text."""
    if isinstance(value, str):
        text = value.strip()
        if text[:1] in "{[" and text[-1:] in "}]":
            try:
                return json.loads(text)
            except (ValueError, RecursionError):
                return value
    return value


def unquoted(value: Any) -> Any:
    """What a text holds that was written as JSON, once or twice over; quotes round a text are taken off."""
    for _ in range(3):
        if not isinstance(value, str) or value.strip()[:1] not in ('"', "{", "["):
            return value
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def text_of(value: Any, depth: int = 0) -> str:
    """The words in a content value: text blocks joined by newlines, other JSON as JSON, binary data left out."""
    if value is None or depth > _DEPTH:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        kind = value.get("type")
        if kind in ("image", "image_url", "input_image", "audio", "input_audio", "file", "document", "blob"):
            return f"[{kind}]"
        for key in ("text", "content", "output_text", "value"):
            inner = value.get(key)
            if isinstance(inner, str) and (kind is None or kind in _TEXT_TYPES or len(value) <= 3):
                return inner
        if isinstance(value.get("content"), list) and kind not in (None, "object"):
            return text_of(value["content"], depth + 1)
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        if any(_is_block(item) for item in value):
            return "\n".join(filter(None, (text_of(item, depth + 1) for item in value)))
        if all(isinstance(item, str) for item in value):
            return "\n".join(value)
        return json.dumps(value, ensure_ascii=False, default=str)
    return json.dumps(value, ensure_ascii=False, default=str)


_TEXT_TYPES = ("text", "input_text", "output_text", "summary_text", "refusal", "message", "reasoning_text")


def _is_block(item: Any) -> bool:
    return isinstance(item, Mapping) and (
        "type" in item or set(item) <= {"text", "cache_prompt", "json"} or "message_content" in item
    )


def _first(mapping: Mapping[str, Any], *keys: str) -> Any:
    for key in keys:
        if mapping.get(key) is not None:
            return mapping[key]
    return None


def _string(value: Any) -> str | None:
    return (
        str(value) if isinstance(value, str | int) and not isinstance(value, bool) and value != "" else None
    )


# ---------------------------------------------------------------- one message


def read_message(value: Any, default_role: str = "other") -> Message:
    """Read one message of any dialect; never raises, whatever the value is.

    >>> read_message({"role": "model", "parts": [{"functionCall": {"name": "now", "args": {}}}]}).calls[0].tool
    'now'

    Args:
        value: a message object, a bare text, or a list of parts.
        default_role: the role where the message names none.
    """
    message = Message(role=default_role)
    if isinstance(value, str):
        message.text = value
    elif isinstance(value, Mapping):
        _read_mapping(message, value, 0)
    elif isinstance(value, Sequence):
        _read_parts(message, value, 0)
    if message.results and not message.calls:
        message.role = "tool"
    if message.role == "other":
        message.role = (
            "tool"
            if message.results and not message.calls
            else "assistant"
            if message.calls
            else default_role
        )
    return message


def _read_mapping(message: Message, value: Mapping[str, Any], depth: int) -> None:
    if depth > _DEPTH:
        return
    if value.get("lc") == 1 and isinstance(value.get("kwargs"), Mapping):
        names = value.get("id")
        cls = str(names[-1]) if isinstance(names, list) and names else ""
        message.role = _ROLES.get(cls.lower(), message.role)
        _read_mapping(message, value["kwargs"], depth + 1)
        return
    for wrapper in (
        "message",
        "data",
        "generation",
    ):  # OpenInference, messages_to_dict, LangChain generations
        inner = value.get(wrapper)
        if isinstance(inner, Mapping) and not ("role" in value and "content" in value):
            role = value.get("role") or value.get("type")
            if isinstance(role, str):
                message.role = _ROLES.get(role.lower(), message.role)
            _read_mapping(message, inner, depth + 1)
            return
    role = value.get("role")
    kind = value.get("type")
    for word in (role, kind):
        if isinstance(word, str) and word.lower().replace("_", "") in _ROLES:
            message.role = _ROLES[word.lower().replace("_", "")]
            break
    if _read_item(message, value):
        return
    if isinstance(value.get("name"), str) and message.role != "tool":
        message.author = value["name"]
    content = _first(value, "content", "parts", "contents", "blocks", "text")
    if message.role == "tool" and _result_message(message, value, content):
        return
    _read_content(message, content, depth)
    _read_calls(message, value)


def _result_message(message: Message, value: Mapping[str, Any], content: Any) -> bool:
    if isinstance(content, list) and any(_holds_result(part) for part in content):
        return False
    extra = value.get("additional_kwargs")
    status = value.get("status") or (extra.get("status") if isinstance(extra, Mapping) else None)
    details = value.get("details")
    if isinstance(details, Mapping) and isinstance(details.get("status"), str):
        status = status or details["status"]
    flag = _first(value, "is_error", "isError")
    message.results.append(
        ResultPart(
            content=_result_content(content),
            call_id=_string(_first(value, "tool_call_id", "toolCallId", "tool_use_id", "call_id", "id")),
            tool=_string(_first(value, "name", "toolName", "tool_name", "function")),
            is_error=flag if isinstance(flag, bool) else None,
            status=status if isinstance(status, str) else None,
            error=_string(value.get("error")),
        )
    )
    return True


def _holds_result(part: Any) -> bool:
    if not isinstance(part, Mapping):
        return False
    kind = part.get("type")
    return (
        isinstance(kind, str)
        and (kind.endswith("tool_result") or kind in ("tool-result", "tool_call_response"))
    ) or any(key in part for key in ("functionResponse", "function_response", "toolResult"))


def _result_content(content: Any) -> Any:
    if isinstance(content, list) and any(_is_block(item) for item in content):
        return text_of(content)
    if isinstance(content, Mapping) and content.get("type") in ("text", "json", "error-text", "error-json"):
        return content.get("value", content.get("text"))
    return content


def _read_item(message: Message, value: Mapping[str, Any]) -> bool:
    """Items that are a call or a result of their own: Responses API, Vercel lists."""
    kind = value.get("type")
    if kind in ("reasoning", "thinking", "redacted_thinking", "item_reference", "compaction"):
        return True
    if "toolName" in value and "toolCallId" in value and message.role != "tool":
        return _read_part(message, {"type": "tool-call", **value}, 0)
    if not isinstance(kind, str):
        return False
    if kind in ("function_call", "custom_tool_call"):
        call_id = _string(_first(value, "call_id", "id"))
        args = _first(value, "arguments", "input")
        message.calls.append(CallPart(str(value.get("name") or ""), "" if args is None else args, call_id))
    elif kind in ("function_call_output", "custom_tool_call_output", "local_shell_call_output", "mcp_call_output",
                  "computer_call_output", "shell_call_output", "apply_patch_call_output"):  # fmt: skip
        status = value.get("status")
        message.results.append(
            ResultPart(
                _result_content(value.get("output")),
                _string(_first(value, "call_id", "id")),
                status=status
                if isinstance(status, str) and status not in ("completed", "in_progress")
                else None,
            )
        )
        message.role = "tool"
    elif kind in ("local_shell_call", "computer_call", "shell_call", "apply_patch_call"):
        args = _first(value, "action", "actions", "operation")
        message.calls.append(
            CallPart(kind.removesuffix("_call"), args, _string(_first(value, "call_id", "id")))
        )
    elif kind in (
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
    ):
        _read_hosted(message, value, kind)
    else:
        return False
    if message.calls:
        message.role = "assistant"
    return True


def _read_hosted(message: Message, value: Mapping[str, Any], kind: str) -> None:
    """Calls that the provider ran itself: the result stands in the call."""
    call_id = _string(value.get("id"))
    tool = str(value.get("name") or kind.removesuffix("_call"))
    args: Any = _first(value, "arguments", "action", "queries", "code")
    message.calls.append(CallPart(tool, args if args is not None else {}, call_id))
    status = value.get("status")
    output = _first(value, "output", "results", "outputs")
    if status in (None, "completed", "failed", "incomplete") and (
        output is not None or status or value.get("error")
    ):
        message.results.append(
            ResultPart(output, call_id, tool, status=status, error=text_of(value.get("error")) or None)
        )


def _read_content(message: Message, content: Any, depth: int) -> None:
    if isinstance(content, str):
        blocks = as_json(content) if content.startswith(('[{"type":', '[{"text":', '[{"toolUse":')) else None
        if isinstance(blocks, list):  # a tracer wrote the list as text
            _read_parts(message, blocks, depth)
        else:
            message.text = _joined(message.text, content)
    elif isinstance(content, Mapping):
        if not _read_part(message, content, depth):
            message.text = _joined(message.text, text_of(content))
    elif isinstance(content, list):
        _read_parts(message, content, depth)
    elif content is not None:
        message.text = _joined(message.text, str(content))


def _joined(left: str, right: str) -> str:
    return f"{left}\n{right}" if left and right else left or right


def _read_parts(message: Message, parts: Sequence[Any], depth: int) -> None:
    if depth > _DEPTH:
        return
    for part in parts:
        if isinstance(part, str):
            message.text = _joined(message.text, part)
        elif isinstance(part, Mapping):
            inner = part.get("message_content")
            if not _read_part(message, inner if isinstance(inner, Mapping) else part, depth):
                message.unknown.append(str(part.get("type") or "/".join(list(part)[:3])))


def _read_part(message: Message, part: Mapping[str, Any], depth: int) -> bool:
    kind = _first(part, "type", "block_type")
    if part.get("thought") is True or kind in (
        "thinking",
        "reasoning",
        "redacted_thinking",
        "reasoning_content",
    ):
        return True
    if kind in ("function_call", "function_call_output"):
        return _read_item(message, part)
    if kind in _SERVER_CALLS and _first(part, "name", "toolName", "tool_name"):
        args = _first(part, "input", "arguments", "args", "tool_kwargs")
        call_id = _string(_first(part, "id", "toolCallId", "call_id", "tool_call_id"))
        name = str(_first(part, "name", "toolName", "tool_name"))
        message.calls.append(CallPart(name, {} if args is None else args, call_id))
        return True
    if isinstance(kind, str) and (
        kind.endswith("tool_result") or kind in ("tool-result", "tool_call_response")
    ):
        _read_result(message, part, kind)
        return True
    for key in ("functionCall", "function_call", "toolUse"):
        call = part.get(key)
        if isinstance(call, Mapping):
            args = _first(call, "args", "input", "arguments")
            call_id = _string(_first(call, "id", "toolUseId"))
            message.calls.append(CallPart(str(call.get("name") or ""), {} if args is None else args, call_id))
            return True
    for key in ("functionResponse", "function_response", "toolResult"):
        result = part.get(key)
        if isinstance(result, Mapping):
            content = _first(result, "response", "content", "output")
            status = result.get("status")
            message.results.append(
                ResultPart(
                    _result_content(content),
                    _string(_first(result, "id", "toolUseId")),
                    _string(result.get("name")),
                    is_error=True if status == "error" and key == "toolResult" else None,
                )
            )
            return True
    if isinstance(part.get("executableCode"), Mapping):
        message.calls.append(CallPart("code_execution", dict(part["executableCode"]), None))
        return True
    if isinstance(part.get("codeExecutionResult"), Mapping):
        result = part["codeExecutionResult"]
        failed = str(result.get("outcome", "")).upper() not in ("", "OUTCOME_OK")
        message.results.append(
            ResultPart(result.get("output"), None, "code_execution", is_error=failed or None)
        )
        return True
    text = text_of(part) if kind in _TEXT_TYPES or kind is None or "text" in part else None
    if text is not None:
        if kind == "text" and isinstance(part.get("content"), str):
            text = part["content"]
        message.text = _joined(message.text, text)
        return True
    if kind in (
        "image",
        "image_url",
        "input_image",
        "audio",
        "input_audio",
        "file",
        "document",
        "blob",
        "uri",
    ):
        message.text = _joined(message.text, f"[{kind}]")
        return True
    return False


def _read_result(message: Message, part: Mapping[str, Any], kind: str) -> None:
    content = _first(part, "content", "output", "result", "response")
    flag = _first(part, "is_error", "isError")
    if isinstance(content, Mapping):
        inner = str(content.get("type") or "")
        if inner.startswith("error-") or inner.endswith("_error"):
            flag = True
        if inner == "code_execution_result" and content.get("return_code") not in (None, 0):
            flag = True
    message.results.append(
        ResultPart(
            _result_content(content),
            _string(_first(part, "tool_use_id", "toolCallId", "id", "tool_call_id", "call_id")),
            _string(_first(part, "toolName", "name", "tool_name")),
            is_error=flag if isinstance(flag, bool) else None,
        )
    )
    if kind in ("tool_result", "tool-result", "tool_call_response") and not message.calls:
        message.role = "tool"


def _read_calls(message: Message, value: Mapping[str, Any]) -> None:
    seen = {(part.call_id, part.tool) for part in message.calls if part.call_id}
    extra = value.get("additional_kwargs")
    lists = [value.get("tool_calls"), value.get("toolCalls"), value.get("invalid_tool_calls")]
    if not any(isinstance(calls, list) and calls for calls in lists) and isinstance(extra, Mapping):
        lists.append(extra.get("tool_calls"))
        value = {**value, "function_call": _first(value, "function_call") or extra.get("function_call")}
    for calls in lists:
        for call in calls if isinstance(calls, list) else ():
            if not isinstance(call, Mapping):
                continue
            part = _read_call(call)
            if part is not None and (part.call_id, part.tool) not in seen:
                message.calls.append(part)
    legacy = value.get("function_call")
    if isinstance(legacy, Mapping) and legacy.get("name"):
        message.calls.append(CallPart(str(legacy["name"]), legacy.get("arguments"), None))


def _read_call(call: Mapping[str, Any]) -> CallPart | None:
    inner = call.get("tool_call")
    if isinstance(inner, Mapping):
        call = inner
    function = _first(call, "function", "custom")
    body = function if isinstance(function, Mapping) else call
    name = _first(body, "name", "toolName", "tool_name", "function_name")
    if name is None and isinstance(function, str):
        name = function  # Inspect: function is the name, arguments stand beside
    if not isinstance(name, str):
        return None
    args = _first(body, "arguments", "args", "input", "parameters")
    return CallPart(name, args, _string(_first(call, "id", "call_id", "toolCallId", "tool_call_id")))


# ---------------------------------------------------------------- many messages


def find_messages(value: Any, default_role: str = "user", depth: int = 0) -> list[Message]:
    """The messages in a request, response, span input or span output, in order; an empty list where there are none.

    Args:
        value: JSON text, a message, a list of messages, or an object that holds them under a known key.
        default_role: who speaks where only a text is given: `user` for inputs, `assistant` for outputs.
        depth: how deep the search is already.
    """
    value = as_json(value)
    if depth > 6 or value is None:
        return []
    if isinstance(value, str):
        return _from_text(value, default_role)
    if isinstance(value, Mapping):
        return list(_from_mapping(value, default_role, depth))
    if isinstance(value, list):
        if value and all(isinstance(item, list) for item in value):  # LangSmith: a batch of message lists
            return find_messages(value[0], default_role, depth + 1)
        found = [read_message(item, default_role) for item in value if _is_message(item)]
        if found:
            return [message for message in found if not message.empty]
        if value and all(isinstance(item, Mapping) for item in value):
            nested = [message for item in value for message in find_messages(item, default_role, depth + 1)]
            return nested
    return []


_FLAT = re.compile(r"^(system|user|human|assistant|ai|tool): ?", re.MULTILINE | re.IGNORECASE)


def _from_text(text: str, default_role: str) -> list[Message]:
    """A text, or several messages that a tracer joined to `system: … user: …`."""
    if not text.strip():
        return []
    if default_role == "user" and _FLAT.match(text):
        pieces = _FLAT.split(text)[1:]
        if len(pieces) >= 4:
            return [
                Message(role=_ROLES[role.lower()], text=words.strip())
                for role, words in zip(pieces[::2], pieces[1::2], strict=False)
                if words.strip()
            ]
    return [Message(role=default_role, text=text)]


def _is_message(item: Any) -> bool:
    if not isinstance(item, Mapping):
        return False
    if item.get("lc") == 1 or "role" in item or "message.role" in item:
        return not isinstance(item.get("message"), str)
    if isinstance(item.get("message"), Mapping):
        return True
    kind = item.get("type")
    if isinstance(kind, str):
        if (
            kind.lower() in _ROLES
            or kind.endswith(("_call", "_call_output", "_tool_result"))
            or kind == "message"
        ):
            return True
        return kind in (
            "text",
            "tool_use",
            "tool_result",
            "tool-call",
            "tool-result",
            "reasoning",
            "thinking",
        )
    return "toolName" in item and "toolCallId" in item


def _from_mapping(value: Mapping[str, Any], default_role: str, depth: int) -> Iterator[Message]:
    system = _first(value, "system", "instructions", "system_prompt", "systemInstruction", "system_instruction",
                    "gen_ai.system_instructions")  # fmt: skip
    if system is not None and default_role == "user":
        text = text_of(system if not isinstance(system, Mapping) else system.get("parts", system))
        if text:
            yield Message(role="system", text=text)
    for key in ("choices", "candidates", "generations"):
        answers = value.get(key)
        if isinstance(answers, list) and answers:
            first = answers[0]
            if isinstance(first, list):
                first = first[0] if first else None
            yield from find_messages(_answer(first), "assistant", depth + 1)
            return
    for key in _MESSAGE_KEYS:
        inner = as_json(value.get(key))
        if isinstance(inner, list | str) and inner:
            yield from find_messages(inner, default_role, depth + 1)
            return
    if _is_message(value):
        message = read_message(value, default_role)
        if not message.empty:
            yield message
        return
    for key in ("output", "input", "prompt", "question", "query", "text", "content", "answer", "response", "result",
                "message", "parts"):  # fmt: skip
        inner = value.get(key)
        if key == "content" and isinstance(inner, str) and default_role == "user":
            continue  # a message that lost its role is no question
        if key == "parts" and isinstance(inner, list):
            yield read_message(value, default_role)
            return
        if isinstance(inner, list) and key == "content" and any(_is_block(item) for item in inner):
            yield read_message({"role": default_role, **value}, default_role)
            return
        if isinstance(inner, str | list | Mapping) and inner:
            found = find_messages(inner, default_role, depth + 1)
            if found:
                yield from found
                return


def _answer(choice: Any) -> Any:
    if isinstance(choice, Mapping):
        inner = _first(choice, "message", "content", "delta")
        if isinstance(inner, Mapping):
            return {"role": "assistant", **inner} if "lc" not in inner else inner
        text = choice.get("text")
        if inner is None and isinstance(text, str):
            return {"role": "assistant", "content": text}
    return choice


# ---------------------------------------------------------------- usage

_USAGE_NAMES = {
    "input_tokens": (
        "input_tokens", "prompt_tokens", "inputTokens", "promptTokens", "promptTokenCount", "prompt_token_count", "input",
        "prompt", "tokensIn", "tokens_in", "tokens_sent", "total_input_tokens", "total_prompt_tokens",
    ),
    "output_tokens": (
        "output_tokens", "completion_tokens", "outputTokens", "completionTokens", "candidatesTokenCount",
        "candidates_token_count", "output", "completion", "tokensOut", "tokens_out", "tokens_received",
        "total_output_tokens", "total_completion_tokens",
    ),
    "cache_read_tokens": (
        "cache_read_tokens", "cache_read_input_tokens", "cached_input_tokens", "cacheRead", "cacheReads", "cached_tokens",
        "cached", "cachedContentTokenCount", "cached_content_token_count", "input_cache_read", "prompt_details.cache_read",
        "input_token_details.cache_read", "cache_read", "cached_prompt_tokens", "total_cached_tokens",
        "input_tokens_details.cached_tokens", "prompt_tokens_details.cached_tokens", "cache.read", "cachedInputTokens",
    ),
    "cost_usd": ("cost_usd", "total_cost_usd", "cost.total", "totalCost", "total_cost", "instance_cost", "cost"),
}  # fmt: skip


def usage_of(value: Any) -> dict[str, float]:
    """Tokens and cost under the names of `Usage`, from whatever names the transcript uses; absent ones are left out.

    >>> usage_of({"prompt_tokens": 9, "completion_tokens": 2})
    {'input_tokens': 9, 'output_tokens': 2}
    """
    if not isinstance(value, Mapping):
        return {}
    found: dict[str, float] = {}
    for target, names in _USAGE_NAMES.items():
        for name in names:
            amount = value.get(name)
            if amount is None and "." in name:
                outer, _, inner = name.partition(".")
                below = value.get(outer)
                amount = below.get(inner) if isinstance(below, Mapping) else None
            if isinstance(amount, int | float) and not isinstance(amount, bool) and 0 <= amount < 1e15:
                found[target] = amount
                break
    return found
