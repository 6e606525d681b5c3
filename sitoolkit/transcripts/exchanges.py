"""Recorded HTTP exchanges with a model API: request and response bodies, as a JSON array, a line each, or a VCR cassette.

Seen: pydantic-ai's and LangSmith's VCR cassettes (YAML, and as JSON of {request, response}), OpenAI batch output. A request that
restates an earlier one continues its conversation; the last statement counts. Providers are told by the bodies: OpenAI
chat (Groq too), OpenAI Responses, Anthropic, Gemini; streamed bodies are put together. Groq's `tool_use_failed` is a call
that never ran.
"""

from __future__ import annotations

import base64
import binascii
import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sitoolkit.errors import TranscriptError
from sitoolkit.records import Session, canonical_json
from sitoolkit.transcripts import gemini
from sitoolkit.transcripts.base import (
    Head,
    Match,
    ReadReport,
    SessionBuilder,
    TranscriptFile,
    content_text,
    loads,
    record_type,
)
from sitoolkit.transcripts.chat import add_messages, usage_of
from sitoolkit.transcripts.openai_responses import add_items
from sitoolkit.transcripts.restated import starts_with
from sitoolkit.transcripts.streamed import joined_body

NAME = "api-exchanges"
ALIASES = ("provider-api", "vcr", "cassette", "groq", "http")


def sniff(head: Head) -> Match | None:
    for value in head.dicts[:4]:
        if (
            isinstance(value.get("request"), dict)
            and isinstance(value.get("response"), dict)
            and _provider(*_bodies(value))
        ):
            return Match(0.9, f"requests and responses of {_provider(*_bodies(value))}")
        if isinstance(value.get("interactions"), list):
            return Match(0.9, "a cassette with interactions")
        if "custom_id" in value and isinstance(value.get("response"), dict):
            return Match(0.8, "batch output with custom_id and response")
        if value.get("object") == "chat.completion" and isinstance(value.get("choices"), list):
            return Match(0.7, "a chat completion")
    if any(
        isinstance(value.get("request"), dict) and isinstance(value.get("response"), dict)
        for value in head.dicts[:4]
    ):
        return Match(0.3, "requests and responses")
    if head.layout == "text" and head.text.lstrip().startswith("interactions:") and "request:" in head.text:
        return Match(0.9, "a VCR cassette (interactions with request)")
    return None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    chains: list[_Chain] = []
    for line, exchange in _exchanges(source, report):
        if not isinstance(exchange, dict):
            report.unknown(record_type(exchange))
            continue
        request, response = _bodies(exchange)
        provider = _provider(request, response)
        if provider is None:
            report.unknown(f"exchange:{_path(exchange)}")
            continue
        if "api.groq.com" in _uri(exchange):
            provider = "groq"
        messages = _said(provider, request)
        chain = _continues(chains, provider, request, messages) or _handed_over(
            chains, provider, request, messages
        )
        if chain is None:
            chain = _Chain(provider, line)
            chains.append(chain)
        chain.extend(request, messages, response)
    for number, chain in enumerate(chains, 1):
        yield _session(source, report, chain, number if len(chains) > 1 else None)


@dataclass
class _Chain:
    """One conversation: what its newest request says, and its newest response."""

    provider: str
    line: int
    messages: list[Any] = field(default_factory=list)
    request: dict[str, Any] = field(default_factory=dict)
    response: dict[str, Any] = field(default_factory=dict)
    responses: list[dict[str, Any]] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def extend(self, request: dict[str, Any], messages: list[Any], response: dict[str, Any]) -> None:
        held = self.provider == "openai-responses" and bool(self.ids & _links(request))
        if held and not starts_with(
            messages, self.messages
        ):  # the server kept what was said: only the new items come
            self.messages = [*self.messages, *_output(self.response), *messages]
        else:
            self.messages = messages
        self.request, self.response = request, response
        self.responses.append(response)
        for value in (
            response.get("id"),
            (response.get("conversation") or {}).get("id")
            if isinstance(response.get("conversation"), dict)
            else None,
        ):
            if isinstance(value, str):
                self.ids.add(value)


def _links(request: dict[str, Any]) -> set[str]:
    links = {request.get("previous_response_id"), request.get("conversation")}
    return {link for link in links if isinstance(link, str)}


def _continues(
    chains: list[_Chain], provider: str, request: dict[str, Any], messages: list[Any]
) -> _Chain | None:
    for chain in reversed(chains):
        if chain.provider != provider:
            continue
        if provider == "openai-responses" and chain.ids & _links(request):
            return chain
        if len(messages) > len(chain.messages) and chain.messages and starts_with(messages, chain.messages):
            return chain
    return None


def _handed_over(
    chains: list[_Chain], provider: str, request: dict[str, Any], messages: list[Any]
) -> _Chain | None:
    """A conversation that went on with another provider: its request restates in other words what the first one said."""
    if len(messages) < 3 or all(chain.provider == provider for chain in chains):
        return None
    said = _gist(_Chain(provider, 0, messages, request))
    for chain in reversed(chains):
        if chain.provider != provider:
            before = _gist(chain)
            if len(before) > 1 and said[: len(before)] == before:
                chain.provider = provider
                return chain
    return None


def _gist(chain: _Chain) -> list[tuple[str, str]]:
    """Who said and called what, in words that do not depend on the provider."""
    session = _session(TranscriptFile("gist"), ReadReport(), chain, None)
    found: list[tuple[str, str]] = []
    for turn in session.turns:
        if turn.role in ("user", "assistant") and turn.text.strip():
            found.append((turn.role, turn.text.strip()))
        found += [(call.tool, canonical_json(call.args)) for call in turn.calls]
    return found


def _output(response: dict[str, Any]) -> list[Any]:
    output = response.get("output")
    return output if isinstance(output, list) else []


def _said(provider: str, request: dict[str, Any]) -> list[Any]:
    key = {"openai-responses": "input", "gemini-api": "contents"}.get(provider, "messages")
    said = request.get(key)
    if isinstance(said, str):
        return [{"role": "user", "content": said}]
    return said if isinstance(said, list) else []


def _provider(request: dict[str, Any], response: dict[str, Any]) -> str | None:
    if "contents" in request or "candidates" in response:
        return gemini.NAME
    if (
        "choices" in response
        or isinstance(response.get("message"), dict)
        or ("messages" in request and "error" in response and "max_tokens" not in request)
    ):
        return "openai-chat"
    if isinstance(response.get("content"), list) and response.get("type") == "message":
        return "anthropic"
    if isinstance(response.get("output"), dict) and isinstance(response["output"].get("message"), dict):
        return "bedrock"
    if isinstance(response.get("output"), list) or response.get("object") == "response":
        return "openai-responses"
    if isinstance(request.get("messages"), list):
        return "anthropic" if "max_tokens" in request and "system" in request else "openai-chat"
    return "openai-responses" if isinstance(request.get("input"), list) and "model" in request else None


def _uri(exchange: dict[str, Any]) -> str:
    request = exchange.get("request")
    return str(request.get("uri") or request.get("url") or "") if isinstance(request, dict) else ""


def _path(exchange: dict[str, Any]) -> str:
    return _uri(exchange).split("?")[0].rpartition("/")[2][:40] or "without a conversation"


def _bodies(exchange: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    request, response = exchange.get("request"), exchange.get("response")
    if request is None and response is None:
        return {}, exchange
    if (
        isinstance(request, dict)
        and "body" not in request
        and "parsed_body" not in request
        and ("messages" in request or "contents" in request)
    ):
        return request, response if isinstance(response, dict) else {}
    return _body(request), _body(response)


def _body(side: Any) -> dict[str, Any]:
    """The JSON body of a request or a response, whatever a recorder made of it."""
    if not isinstance(side, dict):
        return {}
    body = side.get("parsed_body", side.get("body", side.get("content")))
    if body is None and ("choices" in side or "output" in side or "candidates" in side):
        return side
    if isinstance(body, dict) and set(body) & {"string", "base64_string"} and len(body) <= 2:
        body = body.get("string", body.get("base64_string"))
    if isinstance(body, bytes):
        body = _unzip(body).decode("utf-8", "replace")
    if isinstance(body, str):
        text = body
        try:
            body = loads(text)
        except ValueError:
            body = joined_body(text)
            if body is None and text and text[:4].isascii():
                try:
                    body = loads(_unzip(base64.b64decode(text, validate=True)))
                except (ValueError, binascii.Error):
                    body = None
    if isinstance(body, list) and body and isinstance(body[0], dict):  # Gemini streams an array of responses
        body = joined_body(body)
    return body if isinstance(body, dict) else {}


def _unzip(data: bytes) -> bytes:
    if data[:2] == b"\x1f\x8b":
        try:
            return gzip.decompress(data)
        except (OSError, EOFError):
            return data
    return data


def _exchanges(source: TranscriptFile, report: ReadReport) -> Iterator[tuple[int, Any]]:
    if source.head.layout == "text":
        import yaml

        try:
            cassette = yaml.load(source.text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except yaml.YAMLError as fault:
            raise TranscriptError(f"{source.file}: not YAML: {str(fault)[:200]}", file=source.file) from fault
        for exchange in (cassette or {}).get("interactions") or []:
            yield 1, exchange
        return
    for line, value in source.items(report):
        inner = value.get("interactions") if isinstance(value, dict) else None
        if isinstance(inner, list):
            for exchange in inner:
                yield line, exchange
        else:
            yield line, value


def _session(source: TranscriptFile, report: ReadReport, chain: _Chain, number: int | None) -> Session:
    request, response = chain.request, chain.response
    model = response.get("model") or response.get("modelVersion") or request.get("model")
    build = SessionBuilder(
        source.file,
        source.session_id("" if number is None else number),
        format=chain.provider,
        line=chain.line,
        model=model if isinstance(model, str) else None,
    )
    line = chain.line
    if chain.provider == gemini.NAME:
        gemini.add_system(build, request, line)
        for content in chain.messages:
            gemini.add_content(build, content, report, line)
        gemini.add_response(build, response, report, line)
    elif chain.provider == "openai-responses":
        if isinstance(request.get("instructions"), str):
            build.turn("system", request["instructions"], line=line)
        add_items(build, [*chain.messages, *_output(response)], report, line)
    else:
        if request.get("system"):
            build.turn("system", content_text(request["system"]), line=line)
        add_messages(build, [*chain.messages, *_answer(response)], report, line)
    for told in chain.responses:
        build.usage(**usage_of(told.get("usage") or told.get("usageMetadata")))
    _refused(build, response, line)
    return build.build()


def _answer(response: dict[str, Any]) -> list[Any]:
    choices = response.get("choices")
    if (
        isinstance(choices, list)
        and choices
        and isinstance(choices[0], dict)
        and isinstance(choices[0].get("message"), dict)
    ):
        return [{"role": "assistant", **choices[0]["message"]}]
    inner = response.get("output")
    for message in (response.get("message"), inner.get("message") if isinstance(inner, dict) else None):
        if isinstance(message, dict) and ("content" in message or "tool_calls" in message):
            return [{"role": "assistant", **message}]  # Cohere, Ollama; Bedrock
    if isinstance(response.get("content"), list):
        return [{"role": response.get("role", "assistant"), "content": response["content"]}]
    return []


def _refused(build: SessionBuilder, response: dict[str, Any], line: int) -> None:
    """A response that is an error: noted, and what the model had tried to call is a call that never ran."""
    error = response.get("error")
    if not isinstance(error, dict):
        return
    build.note(f"the last request failed: {str(error.get('message') or error.get('code'))[:200]}")
    failed = error.get("failed_generation")
    if not isinstance(failed, str):
        return
    build.turn("assistant", "", line=line)
    try:
        tried = loads(failed)
    except ValueError:
        tried = {"name": "unknown", "arguments": failed}
    if isinstance(tried, dict) and tried.get("name"):
        call = build.call(str(tried["name"]), tried.get("arguments"), line=line, ran=False)
        build.evidence(call, error=error.get("message"))
