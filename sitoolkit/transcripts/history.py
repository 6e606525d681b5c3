"""Requests that restate the whole conversation become one story: in come model calls and tool runs in order of time,
out go steps in which every message, call and result stands once.

Logs of model calls (tracers, proxies, cassettes, completion logs) repeat everything said so far in each request. A
message is new only where a request holds it more often than all that was seen before; a tool run that a tracer
recorded on its own is joined with the call that asked for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sitoolkit.records import canonical_json
from sitoolkit.transcripts.dialects import CallPart, Message, ResultPart, as_json, text_of, usage_of
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.source import ReadReport

__all__ = ["Entry", "History", "is_tool_definition", "tell"]

_Unit = tuple[Any, ...]
_FINGERPRINT_CHARS = 2000  # a text is known again by its first and last 2,000 characters and its length


@dataclass(slots=True)
class Entry:
    """One new message of the story, with what the log says about it."""

    message: Message
    at: Any = None
    line: int | None = None
    model: str | None = None
    usage: Any = None
    author: str | None = None
    started_at: Any = None  # of the tool run, where the log has it
    duration_ms: float | None = None
    guessed: bool = False  # the result was joined with its call by the name of the tool alone
    inline: bool = False  # call and result are one record


def _text_key(text: str) -> tuple[int, str, str]:
    flat = " ".join(text.split())
    return len(flat), flat[:_FINGERPRINT_CHARS], flat[-_FINGERPRINT_CHARS:]


def _args_key(args: Any) -> str:
    value = as_json(args)
    if value is None or (isinstance(value, str) and not value.strip()):
        value = {}
    return canonical_json(value)


def _call_unit(call: CallPart) -> _Unit:
    return ("call", call.call_id, call.tool, _args_key(call.args))


def _result_unit(result: ResultPart) -> _Unit:
    if result.call_id:
        return ("result", result.call_id)
    return ("result", None, result.tool, _text_key(text_of(result.content)))


@dataclass(slots=True)
class _Open:
    call: CallPart
    key: str


@dataclass(slots=True)
class History:
    """Collects requests, answers and tool runs in order of time; `entries` is the story."""

    entries: list[Entry] = field(default_factory=list)
    _seen: Counter[_Unit] = field(default_factory=Counter)
    _open: list[_Open] = field(default_factory=list)  # calls without a result so far
    _spans: Counter[tuple[str, str]] = field(default_factory=Counter)  # runs without an id and without a call

    def request(self, messages: Iterable[Message], **about: Any) -> None:
        """Take in what a request says; only what is new becomes an entry."""
        running: Counter[_Unit] = Counter()
        for message in messages:
            fresh = Message(role=message.role, author=message.author, unknown=message.unknown)
            if message.text and self._is_new(("text", message.role, _text_key(message.text)), running):
                fresh.text = message.text
            for call in message.calls:
                if self._is_new(_call_unit(call), running) and not self._ran_before(call):
                    fresh.calls.append(call)
                    self._open.append(_Open(call, _args_key(call.args)))
            for result in message.results:
                if self._is_new(_result_unit(result), running):
                    fresh.results.append(result)
                    self._close(result.call_id)
            if not fresh.empty:
                self.entries.append(Entry(fresh, **about))

    def answer(self, messages: Iterable[Message], **about: Any) -> None:
        """Take in what the model answered; an answer is always new."""
        for message in messages:
            if message.empty:
                continue
            if message.text:
                self._seen[("text", message.role, _text_key(message.text))] += 1
            for call in message.calls:
                self._seen[_call_unit(call)] += 1
                self._open.append(_Open(call, _args_key(call.args)))
            for result in message.results:
                self._seen[_result_unit(result)] += 1
                self._close(result.call_id)
            self.entries.append(Entry(message, **about))
            about = {key: value for key, value in about.items() if key not in ("usage", "model")}

    def tool_run(self, call: CallPart, result: ResultPart | None, **about: Any) -> None:
        """Take in a tool run that was recorded on its own.

        Joined with the call that asked for it by id, else by equal tool and arguments, else by the tool's name (a
        guess); where nothing asked for it, it is a call of its own.
        """
        key = _args_key(call.args)
        found, guessed = self._asked_for(call, key)
        if found is None:
            if result is not None and result.call_id is None:
                result.call_id = call.call_id
            self._seen[_call_unit(call)] += 1
            if call.call_id is None:
                self._spans[(call.tool, key)] += 1
            message = Message(role="assistant", calls=[call], results=[result] if result is not None else [])
            if result is not None:
                self._seen[_result_unit(result)] += 1
            self.entries.append(Entry(message, inline=True, **about))
            return
        if result is None:
            return
        self._open.remove(found)
        result.call_id = found.call.call_id
        result.tool = found.call.tool
        self._seen[_result_unit(result)] += 1
        self.entries.append(Entry(Message(role="tool", results=[result]), guessed=guessed, **about))

    def knows_result(self, call_id: str | None) -> bool:
        """Whether the result of this call was taken in."""
        return call_id is not None and self._seen[("result", call_id)] > 0

    def _asked_for(self, call: CallPart, key: str) -> tuple[_Open | None, bool]:
        if call.call_id:
            for item in self._open:
                if item.call.call_id == call.call_id:
                    return item, False
        for item in self._open:
            same_id = not call.call_id or not item.call.call_id
            if same_id and _same_tool(item.call.tool, call.tool) and item.key == key:
                return item, False
        if not call.call_id:
            for item in self._open:
                if _same_tool(item.call.tool, call.tool):
                    return item, True
        return None, False

    def _close(self, call_id: str | None) -> None:
        if call_id:
            self._open = [item for item in self._open if item.call.call_id != call_id]

    def _ran_before(self, call: CallPart) -> bool:
        key = (call.tool, _args_key(call.args))
        if self._spans[key] > 0:
            self._spans[key] -= 1
            if call.call_id:
                self._seen[("result", call.call_id)] += 1
            return True
        return False

    def _is_new(self, unit: _Unit, running: Counter[_Unit]) -> bool:
        running[unit] += 1
        if running[unit] <= self._seen[unit]:
            return False
        self._seen[unit] += 1
        return True


def _same_tool(left: str, right: str) -> bool:
    return left == right or left.removeprefix("functions.") == right.removeprefix("functions.")


def is_tool_definition(message: Message) -> bool:
    """Tracers of LangChain log the tools on offer as messages of the role `tool`; they are no results."""
    if message.role != "tool" or message.calls or len(message.results) != 1:
        return False
    content = as_json(message.results[0].content)
    if not isinstance(content, Mapping):
        return False
    function = content.get("function")
    return content.get("type") == "function" and isinstance(function, Mapping) and "name" in function


def tell(build: SessionBuilder, entries: Iterable[Entry], report: ReadReport) -> None:
    """Hand a story, or any messages in plain form, to the builder that pairs and judges."""
    for entry in entries:
        message = entry.message
        for kind in message.unknown:
            report.unknown(f"part:{kind}")
        if entry.model and not build.fields.get("model"):
            build.fields["model"] = entry.model
        amounts = usage_of(entry.usage)
        if amounts:
            build.usage(None, **amounts)
        author = entry.author or message.author
        if message.calls or (message.text and not message.results):
            role: Any = "assistant" if message.calls else message.role
            build.turn(
                role if role in _TURN_ROLES else "other",
                message.text,
                at=entry.at,
                line=entry.line,
                author=author,
            )
        made = [
            build.call(part.tool, part.args, call_id=part.call_id, at=entry.started_at, line=entry.line)
            for part in message.calls
        ]
        for number, part in enumerate(message.results):
            own = made[number] if entry.inline and number < len(made) else None
            if own is None and part.call_id and made:
                own = next((call for call in made if call.id == part.call_id), None)
            build.result(
                part.content, call_id=part.call_id, tool=part.tool, call=own, at=entry.at, line=entry.line,
                is_error=part.is_error, status=part.status, error=part.error, duration_ms=entry.duration_ms,
                guessed=entry.guessed, inline=own is not None,
            )  # fmt: skip
        if message.results and message.text and not message.calls:
            build.turn("user", message.text, at=entry.at, line=entry.line, author=author)


_TURN_ROLES = ("system", "user", "assistant", "tool", "other")
