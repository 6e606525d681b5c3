"""Attributes of an OpenTelemetry span: in comes a span of any exporter, out goes a plain `Span`.

Names are those of the OpenTelemetry GenAI conventions, current (`gen_ai.input.messages`, `gen_ai.provider.name`,
`gen_ai.tool.call.arguments`) and deprecated (`gen_ai.system`, `gen_ai.prompt`, `gen_ai.prompt.0.content`,
`gen_ai.usage.prompt_tokens`, message events), of OpenInference (`llm.input_messages.0.message.role`, flat or nested,
`openinference.span.kind`), of OpenLLMetry (`traceloop.*`), the Vercel AI SDK (`ai.*`), pydantic-ai and MLflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sitoolkit.transcripts.dialects import as_json
from sitoolkit.transcripts.spans import Span

__all__ = ["flat_attributes", "is_genai", "nested", "span_of"]

_KINDS = {
    "LLM": "llm", "CHAT_MODEL": "llm", "GENERATION": "llm", "COMPLETION": "llm", "TOOL": "tool", "AGENT": "agent",
}  # fmt: skip
_OPERATIONS = {
    "chat": "llm", "text_completion": "llm", "generate_content": "llm", "completion": "llm", "execute_tool": "tool",
    "invoke_agent": "agent", "create_agent": "agent", "invoke_workflow": "agent",
}  # fmt: skip
_EVENTS = {
    "gen_ai.system.message": "system", "gen_ai.user.message": "user", "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}  # fmt: skip
_DEPTH = 16
_PAYLOADS = frozenset([
    "input.value", "output.value", "mlflow.spanInputs", "mlflow.spanOutputs", "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result", "gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response", "tool_arguments", "tool_response", "ai.toolCall.args", "ai.toolCall.result", "metadata",
    "traceloop.entity.input", "traceloop.entity.output", "langfuse.observation.input", "langfuse.observation.output",
])  # fmt: skip
_PREFIXES = (
    "gen_ai.", "llm.", "openinference.", "traceloop.", "input.", "output.", "mlflow.", "ai.", "tool.", "pydantic_ai.",
    "langfuse.", "logfire.", "gcp.vertex.agent.",
)  # fmt: skip


# ---------------------------------------------------------------- one flat mapping


def _otlp_value(value: Any, depth: int = 0) -> Any:
    if not isinstance(value, Mapping) or depth > _DEPTH:
        return value
    for key in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
        if key in value:
            return value[key]
    if "intValue" in value:
        number = value["intValue"]
        try:
            return int(number)
        except (TypeError, ValueError):
            return number
    for key in ("arrayValue", "kvlistValue"):
        inner = value.get(key)
        if isinstance(inner, Mapping):
            items = inner.get("values")
            items = items if isinstance(items, list) else []
            if key == "arrayValue":
                return [_otlp_value(item, depth + 1) for item in items]
            return {
                str(item.get("key")): _otlp_value(item.get("value"), depth + 1)
                for item in items
                if isinstance(item, Mapping)
            }
    return value or None


def flat_attributes(raw: Any) -> dict[str, Any]:
    """Attributes under dotted names, whether they came flat, nested or as OTLP's list of keys and values."""
    flat: dict[str, Any] = {}
    if isinstance(raw, list):
        for item in raw:
            if isinstance(item, Mapping) and isinstance(item.get("key"), str):
                flat[item["key"]] = _otlp_value(item.get("value"))
    elif isinstance(raw, Mapping):
        _flatten(raw, "", flat, 0)
    return flat


def _flatten(raw: Mapping[str, Any], prefix: str, flat: dict[str, Any], depth: int) -> None:
    for key, value in raw.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and depth < _DEPTH and value and name not in _PAYLOADS:
            _flatten(value, f"{name}.", flat, depth + 1)
        elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value) and _indexed(name):
            for index, item in enumerate(value):
                if isinstance(item, Mapping) and depth < _DEPTH:
                    _flatten(item, f"{name}.{index}.", flat, depth + 1)
        else:
            flat[name] = value


def _indexed(name: str) -> bool:
    return name.endswith(("_messages", "tool_calls", "contents", "gen_ai.prompt", "gen_ai.completion"))


def nested(flat: Mapping[str, Any], prefix: str) -> list[Any]:
    """The list that names such as `PREFIX.0.message.role` spell out; empty where there is none."""
    root: dict[str, Any] = {}
    for key, value in flat.items():
        if not key.startswith(prefix + "."):
            continue
        steps = key[len(prefix) + 1 :].split(".")
        if not steps[0].isdecimal() or len(steps) > 2 * _DEPTH:
            continue
        at = root
        for step in steps[:-1]:
            inner = at.setdefault(step, {})
            if not isinstance(inner, dict):
                inner = at[step] = {}
            at = inner
        at[steps[-1]] = value
    built = _lists(root)
    return built if isinstance(built, list) else []


def _lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(key.isdecimal() and len(key) < 10 for key in value):
        return [_lists(value[key]) for key in sorted(value, key=int)]
    return {key: _lists(inner) for key, inner in value.items()}


# ---------------------------------------------------------------- one span


def is_genai(flat: Mapping[str, Any]) -> bool:
    """Whether the attributes speak of a model, an agent or a tool at all."""
    return any(key.startswith(_PREFIXES) for key in flat)


def _first(flat: Mapping[str, Any], *names: str) -> Any:
    for name in names:
        if flat.get(name) is not None:
            return flat[name]
    return None


def _word(value: Any) -> str | None:
    value = as_json(value)
    if isinstance(value, str):
        return value.strip('"') or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def span_of(
    flat: Mapping[str, Any],
    *,
    name: str = "",
    events: Iterable[Any] = (),
    declared_kind: Any = None,
) -> Span:
    """What a span's attributes and events say, without ids and times, which each exporter writes in its own way."""
    span = Span(name=name)
    span.kind = _kind(flat, name, declared_kind)
    span.model = _word(_first(flat, "gen_ai.response.model", "gen_ai.request.model", "llm.model_name",
                              "ai.response.model", "ai.model.id", "llm.request.model"))  # fmt: skip
    span.agent = _word(_first(flat, "gen_ai.agent.name", "agent.name", "agent_name"))
    span.conversation = _word(_first(flat, "gen_ai.conversation.id", "session.id", "gcp.vertex.agent.session_id", "langfuse.session.id",
                                     "traceloop.association.properties.session_id", "mlflow.trace.session"))  # fmt: skip
    span.usage = _usage(flat)
    listed = [event for event in events if isinstance(event, Mapping)]
    if span.kind == "tool":
        _tool(span, flat, listed)
    else:
        _messages(span, flat, listed)
    error = _word(_first(flat, "error.message", "exception.message"))
    kind = _word(flat.get("error.type"))
    if kind or error:
        span.failed, span.error = True, ": ".join(filter(None, (kind, error)))
    for event in listed:
        if event.get("name") == "exception":
            about = flat_attributes(event.get("attributes"))
            words = (_word(about.get("exception.type")), _word(about.get("exception.message")))
            span.error = span.error or ": ".join(filter(None, words)) or None
    return span


def _kind(flat: Mapping[str, Any], name: str, declared: Any) -> str:
    word = _word(_first(flat, "openinference.span.kind", "mlflow.spanType", "traceloop.span.kind",
                        "langfuse.observation.type", "langsmith.span.kind", "gen_ai.span.kind")) or declared  # fmt: skip
    if isinstance(word, str) and word.upper() in _KINDS:
        return _KINDS[word.upper()]
    operation = _word(flat.get("gen_ai.operation.name"))
    if operation in _OPERATIONS:
        return _OPERATIONS[operation]
    if "gen_ai.tool.name" in flat or "ai.toolCall.name" in flat or name.startswith("execute_tool "):
        return "tool"
    if name.startswith("running tool") and "tool_arguments" in flat:
        return "tool"
    if any(key.startswith(("llm.input_messages", "gen_ai.prompt", "gen_ai.input.messages", "gen_ai.completion"))
           for key in flat):  # fmt: skip
        return "llm"
    if flat.get("llm.request.type") in ("chat", "completion"):
        return "llm"
    if word is None and ("gen_ai.request.model" in flat or "llm.model_name" in flat):
        return "llm"
    return "agent" if name.startswith("invoke_agent") else "other"


def _usage(flat: Mapping[str, Any]) -> dict[str, Any] | None:
    tokens = as_json(flat.get("mlflow.chat.tokenUsage"))
    if isinstance(tokens, Mapping):
        return dict(tokens)
    usage = {
        "input_tokens": _first(flat, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt",
                               "llm.usage.prompt_tokens", "ai.usage.promptTokens", "ai.usage.inputTokens",
                               "mlflow.chat.tokenUsage.input_tokens"),
        "output_tokens": _first(flat, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens",
                                "llm.token_count.completion", "llm.usage.completion_tokens",
                                "ai.usage.completionTokens", "ai.usage.outputTokens",
                                "mlflow.chat.tokenUsage.output_tokens"),
        "cache_read_tokens": _first(flat, "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens",
                                    "gen_ai.usage.details.cache_read_tokens",
                                    "llm.token_count.prompt_details.cache_read"),
        "cost_usd": _first(flat, "gen_ai.usage.cost", "llm.cost.total", "gen_ai.cost.total"),
    }  # fmt: skip
    return usage if any(value is not None for value in usage.values()) else None


def _tool(span: Span, flat: Mapping[str, Any], events: list[Mapping[str, Any]]) -> None:
    span.tool = _word(_first(flat, "gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name",
                             "tool_call.function.name"))  # fmt: skip
    if span.tool is None:
        span.tool = span.name.removeprefix("execute_tool ").removeprefix("running tool: ") or "tool"
    span.call_id = _word(_first(flat, "gen_ai.tool.call.id", "tool.id", "ai.toolCall.id", "tool_call.id"))
    span.inputs = _first(flat, "gen_ai.tool.call.arguments", "gcp.vertex.agent.tool_call_args", "tool_arguments", "input.value", "ai.toolCall.args",
                         "traceloop.entity.input", "mlflow.spanInputs", "tool.parameters", "input",
                         "tool_call.function.arguments", "langfuse.observation.input")  # fmt: skip
    if span.inputs is None:
        span.inputs = _grown(flat, "input")
    span.outputs = _first(flat, "gen_ai.tool.call.result", "gcp.vertex.agent.tool_response", "tool_response", "output.value", "ai.toolCall.result",
                          "traceloop.entity.output", "mlflow.spanOutputs", "output",
                          "langfuse.observation.output")  # fmt: skip
    if span.outputs is None:
        span.outputs = _grown(flat, "output")
    if span.outputs is None:
        for event in events:
            if event.get("name") in ("gen_ai.tool.message", "gen_ai.choice"):
                about = flat_attributes(event.get("attributes"))
                span.outputs = _first(about, "content", "message", "body")


def _grown(flat: Mapping[str, Any], prefix: str) -> Any:
    """An object under `input` or `output` that was taken apart, put together again."""
    inner = {key[len(prefix) + 1 :]: value for key, value in flat.items() if key.startswith(prefix + ".")}
    return inner if inner and "value" not in inner and "mime_type" not in inner else None


def _messages(span: Span, flat: Mapping[str, Any], events: list[Mapping[str, Any]]) -> None:
    span.inputs = (
        _first(flat, "gen_ai.input.messages", "gen_ai.input_messages", "pydantic_ai.all_messages", "mlflow.chat.messages",
               "ai.prompt.messages")
        or nested(flat, "llm.input_messages")
        or nested(flat, "gen_ai.prompt")
        or nested(flat, "gen_ai.input.messages")
        or _from_events(events, answers=False)
        or _logfire(flat, answers=False)
        or _first(flat, "gcp.vertex.agent.llm_request", "gen_ai.prompt", "input.value", "input", "ai.prompt", "traceloop.entity.input",
                  "mlflow.spanInputs", "langfuse.observation.input", "all_messages_events")
        or _grown(flat, "input")
    )  # fmt: skip
    span.outputs = (
        _first(flat, "gen_ai.output.messages", "gen_ai.output_messages")
        or nested(flat, "llm.output_messages")
        or nested(flat, "gen_ai.completion")
        or nested(flat, "gen_ai.output.messages")
        or _from_events(events, answers=True)
        or _logfire(flat, answers=True)
        or _vercel(flat)
        or _first(flat, "gcp.vertex.agent.llm_response", "gen_ai.completion", "output.value", "output", "traceloop.entity.output", "mlflow.spanOutputs",
                  "langfuse.observation.output", "final_result")
        or _grown(flat, "output")
    )  # fmt: skip
    system = _first(flat, "gen_ai.system_instructions", "gen_ai.system.instructions")
    if system is not None and isinstance(as_json(span.inputs), list):
        span.inputs = [{"role": "system", "parts": as_json(system)}, *as_json(span.inputs)]


def _from_events(events: list[Mapping[str, Any]], *, answers: bool) -> list[Any]:
    found: list[Any] = []
    for event in events:
        name = str(event.get("name"))
        about = flat_attributes(event.get("attributes"))
        if name == "gen_ai.content.prompt" and not answers:
            found.append({"role": "user", "content": about.get("gen_ai.prompt")})
        elif name == "gen_ai.content.completion" and answers:
            found.append({"role": "assistant", "content": about.get("gen_ai.completion")})
        elif name == "gen_ai.client.inference.operation.details":
            messages = as_json(about.get("gen_ai.output.messages" if answers else "gen_ai.input.messages"))
            found.extend(messages if isinstance(messages, list) else [])
        elif name in _EVENTS and not answers:
            found.append(_event_message(event, _EVENTS[name]))
        elif name == "gen_ai.choice" and answers:
            body = _event_message(event, "assistant")
            inner = as_json(body.get("message"))
            if isinstance(inner, list):
                body = {"role": "assistant", "content": inner}
            found.append({"role": "assistant", **inner} if isinstance(inner, Mapping) else body)
    return found


def _event_message(event: Mapping[str, Any], role: str) -> dict[str, Any]:
    body = as_json(event.get("body"))
    about = dict(body) if isinstance(body, Mapping) else {}
    raw = event.get("attributes")
    about.update(raw if isinstance(raw, Mapping) else flat_attributes(raw))
    calls = as_json(about.get("tool_calls"))
    message = {"role": role, **about}
    if isinstance(calls, list):
        message["tool_calls"] = calls
    if role == "tool" and "id" in about:
        message["tool_call_id"] = about["id"]
    return message


def _logfire(flat: Mapping[str, Any], *, answers: bool) -> list[Any]:
    """pydantic-ai and Logfire keep message events as one JSON list in the attribute `events`."""
    events = as_json(flat.get("events"))
    if not isinstance(events, list):
        return []
    found: list[Any] = []
    for event in events:
        if not isinstance(event, Mapping):
            continue
        name = event.get("event.name")
        if name == "gen_ai.choice":
            inner = as_json(event.get("message"))
            if answers:
                found.append({"role": "assistant", **inner} if isinstance(inner, Mapping) else dict(event))
        elif not answers and isinstance(name, str) and name in _EVENTS:
            found.append({"role": _EVENTS[name], "tool_call_id": event.get("id"), **event})
    return found


def _vercel(flat: Mapping[str, Any]) -> list[Any]:
    calls = as_json(flat.get("ai.response.toolCalls"))
    text = flat.get("ai.response.text")
    found: list[Any] = []
    if isinstance(text, str) and text:
        found.append({"role": "assistant", "content": text})
    if isinstance(calls, list):
        found.extend(call for call in calls if isinstance(call, Mapping))
    return found
