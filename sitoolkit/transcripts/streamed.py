"""Streamed answers are put together: in come server-sent events or chunks, out comes the body that was not streamed."""

from __future__ import annotations

from typing import Any

from sitoolkit.transcripts.base import loads

__all__ = ["joined_body"]


def joined_body(stream: str | list[Any]) -> dict[str, Any] | None:
    """The whole response of a stream of OpenAI chat, OpenAI Responses, Anthropic or Gemini; `None` if it is none.

    >>> joined_body('data: {"choices":[{"delta":{"content":"hi"}}]}\\n\\ndata: [DONE]\\n')["choices"][0]["message"]["content"]
    'hi'
    """
    events = stream if isinstance(stream, list) else list(_events(stream))
    events = [event for event in events if isinstance(event, dict)]
    if not events:
        return None
    if any("choices" in event for event in events):
        return _chat(events)
    if any("candidates" in event for event in events):
        return _gemini(events)
    for event in reversed(events):
        if isinstance(event.get("response"), dict) and str(event.get("type", "")).startswith("response."):
            return dict(event["response"])
    if any(event.get("type") == "message_start" for event in events):
        return _anthropic(events)
    return None


def _events(text: str) -> list[Any]:
    found = []
    for line in text.replace("\r\n", "\n").split("\n"):
        if line.startswith("data:") and line[5:].strip() not in ("", "[DONE]"):
            try:
                found.append(loads(line[5:].strip()))
            except ValueError:
                continue  # a chunk that was cut; what it held is lost, the rest stands
    return found


def _chat(events: list[dict[str, Any]]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    text: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    finish = None
    for event in events:
        body.update({key: event[key] for key in ("id", "model", "usage") if event.get(key)})
        for choice in event.get("choices") or []:
            if choice.get("index", 0) != 0:
                continue
            delta = choice.get("delta") or {}
            finish = choice.get("finish_reason") or finish
            if isinstance(delta.get("content"), str):
                text.append(delta["content"])
            for part in delta.get("tool_calls") or []:
                call = calls.setdefault(
                    part.get("index", len(calls)),
                    {"id": "", "type": "function", "function": {"name": "", "arguments": ""}},
                )
                function = part.get("function") or {}
                call["id"] = part.get("id") or call["id"]
                call["function"]["name"] += function.get("name") or ""
                call["function"]["arguments"] += function.get("arguments") or ""
    message: dict[str, Any] = {"role": "assistant", "content": "".join(text)}
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    body["choices"] = [{"index": 0, "finish_reason": finish, "message": message}]
    return body


def _gemini(events: list[dict[str, Any]]) -> dict[str, Any]:
    parts: list[Any] = []
    body: dict[str, Any] = {}
    for event in events:
        body.update(
            {key: event[key] for key in ("usageMetadata", "modelVersion", "responseId") if key in event}
        )
        for candidate in (event.get("candidates") or [])[:1]:
            parts.extend((candidate.get("content") or {}).get("parts") or [])
    body["candidates"] = [{"content": {"role": "model", "parts": parts}}]
    return body


def _anthropic(events: list[dict[str, Any]]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    texts: dict[int, str] = {}
    for event in events:
        kind, index = event.get("type"), event.get("index", 0)
        if kind == "message_start" and isinstance(event.get("message"), dict):
            body.update(event["message"])
        elif kind == "content_block_start":
            blocks[index] = dict(event.get("content_block") or {})
        elif kind == "content_block_delta":
            delta = event.get("delta") or {}
            texts[index] = texts.get(index, "") + str(delta.get("text") or delta.get("partial_json") or "")
        elif kind == "message_delta" and isinstance(event.get("usage"), dict):
            body["usage"] = {**(body.get("usage") or {}), **event["usage"]}
    for index, text in texts.items():
        block = blocks.setdefault(index, {"type": "text"})
        block["text" if block.get("type") == "text" else "input"] = (
            text if block.get("type") == "text" else text or block.get("input")
        )
    return {
        **body,
        "type": "message",
        "role": "assistant",
        "content": [blocks[index] for index in sorted(blocks)],
    }
