"""OpenAI chat messages: a conversation a line, one conversation as a document, a bare message list, or a message a line.

Defined by the Chat Completions API reference (messages, tool_calls, function_call) and its fine-tuning and batch file
formats; seen: 2023 function_call, 2024-2026 tool_calls, custom tools, servers without call ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from sitoolkit.records import Session, digest
from sitoolkit.transcripts.base import (
    Head,
    Match,
    ReadReport,
    SessionBuilder,
    TranscriptFile,
    content_text,
    record_type,
)
from sitoolkit.transcripts.chat import add_message, add_messages, message_roles, usage_of
from sitoolkit.transcripts.plain_chat import plain_session
from sitoolkit.transcripts.restated import goes_on

NAME = "openai-chat"
ALIASES = ("openai", "chat", "openai-messages", "messages")
_ID_KEYS = (
    "session_id",
    "conversation_id",
    "thread_id",
    "trajectory_id",
    "run_id",
    "uuid",
    "custom_id",
    "id",
)
_PLAIN_KEYS = frozenset(
    {
        "id",
        "messages",
        "model",
        "metadata",
        "tools",
        "session_id",
        "task_id",
        "agent",
        "project",
        "reward",
        "parallel_tool_calls",
    }
)
_LIST_KEYS = ("messages", "conversation", "conversations", "trajectory", "history")


def sniff(head: Head) -> Match | None:
    first = head.first
    if isinstance(first, list):
        roles = message_roles(first[:8])
        return Match(0.5, "a list of messages with roles") if roles and roles >= len(first[:8]) - 1 else None
    lists = [messages for value in head.dicts[:8] if (messages := _messages(value)) is not None]
    if lists and any(message_roles(messages[:8]) for messages in lists):
        return Match(0.55, "objects with a list of messages that have roles")
    dicts = head.dicts[:16]
    if dicts and message_roles(dicts) >= max(1, len(dicts) - 1) and head.layout == "lines":
        return Match(0.5, "a message with a role on each line")
    return None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    yield from read_conversations(source, report, NAME)


def read_conversations(source: TranscriptFile, report: ReadReport, name: str) -> Iterator[Session]:
    """Conversations of OpenAI's or Anthropic's shape in any of the layouts."""
    head = source.head
    if head.container == "array" and isinstance(head.first, list) and message_roles(head.first[:8]):
        build = SessionBuilder(source.file, source.session_id(), format=name, line=1)
        for line, message in source.items(report):
            _message_line(build, message, report, line)
        yield build.build()
        return
    if head.layout == "lines" and message_roles(head.dicts[:16]) and _messages(head.dicts[0]) is None:
        yield from _message_a_line(source, report, name)
        return
    seen: set[int] = set()
    place = 0
    held: _Told | None = None  # a log of requests tells a conversation anew on each line: the last one counts
    for line, record in source.items(report):
        place += 1
        messages = record if isinstance(record, list) else _messages(record)
        if messages is None or not (messages == [] or message_roles(messages[:4]) or message_roles(messages)):
            if isinstance(record, dict) and isinstance(record.get("messages"), list):
                report.put_aside(source.file, line, "messages without a role")
            else:
                report.unknown(record_type(record))
            continue
        about = record if isinstance(record, dict) else {}
        if held is not None:
            if goes_on(messages, held.messages) and _same_session(about, held.about):
                held = held._replace(
                    about={**held.about, **about, **held.names}, messages=messages, line=line
                )
                continue
            yield _conversation(source, report, name, held)
        key = line if head.layout == "lines" else place
        names = {field: about[field] for field in _ID_KEYS if field in about}
        held = _Told(session_name(source, about, key, seen), about, names, messages, line)
    if held is not None:
        yield _conversation(source, report, name, held)


class _Told(NamedTuple):
    """A conversation as a line tells it."""

    session_id: str
    about: dict[str, Any]
    names: dict[str, Any]  # the ids that its first statement gave
    messages: list[Any]
    line: int


def _same_session(about: dict[str, Any], earlier: dict[str, Any]) -> bool:
    return all(about[key] == earlier[key] for key in _ID_KEYS[:4] if key in about and key in earlier)


def _conversation(source: TranscriptFile, report: ReadReport, name: str, told: _Told) -> Session:
    fields = fields_of(told.about)
    if told.about.keys() <= _PLAIN_KEYS:
        plain = plain_session(source.file, told.session_id, name, told.line, told.messages, fields)
        if plain is not None:
            return plain
    build = SessionBuilder(source.file, told.session_id, format=name, line=told.line, **fields)
    if told.about.get("system"):
        build.turn("system", content_text(told.about["system"]), line=told.line)
    add_messages(build, [*told.messages, *_answer(told.about, told.messages)], report, told.line)
    usage = told.about.get("usage")
    if usage:
        build.usage(**usage_of(usage))
    return build.build()


def _messages(value: Any) -> list[Any] | None:
    if not isinstance(value, dict):
        return None
    for key in _LIST_KEYS:
        found = value.get(key)
        if isinstance(found, list):
            return found
    body = value.get("body")
    return _messages(body) if isinstance(body, dict) else None


def _answer(about: dict[str, Any], messages: list[Any]) -> list[dict[str, Any]]:
    """The answer that a request log keeps beside the messages it was asked with."""
    for place in (about, about.get("response"), about.get("output")):
        choices = place.get("choices") if isinstance(place, dict) else None
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            answer = choices[0].get("message")
            if isinstance(answer, dict) and (not messages or messages[-1] != answer):
                return [{"role": "assistant", **answer}]
    return []


def _message_line(build: SessionBuilder, message: Any, report: ReadReport, line: int) -> None:
    if isinstance(message, dict) and ("role" in message):
        add_message(build, message, report, line)
    else:
        report.unknown(record_type(message))


def _message_a_line(source: TranscriptFile, report: ReadReport, name: str) -> Iterator[Session]:
    """Messages of one session a line; where they name their session, each has its own."""
    builds: dict[str, SessionBuilder] = {}
    for line, message in source.records(report):
        key = ""
        if isinstance(message, dict):
            key = str(next((message[field] for field in _ID_KEYS[:4] if message.get(field)), ""))
        build = builds.get(key)
        if build is None:
            build = builds[key] = SessionBuilder(
                source.file, key or source.session_id(), format=name, line=line
            )
        _message_line(build, message, report, line)
    for build in builds.values():
        if not build.empty:
            yield build.build()


def session_name(source: TranscriptFile, about: dict[str, Any], key: object, seen: set[int]) -> str:
    """The conversation's own id if it is one, else the file's stem and the place; ids that repeat are told apart."""
    name = None
    for field in _ID_KEYS:
        value = about.get(field)
        if isinstance(value, str) and value:
            name = value
            break
        if isinstance(value, int) and not isinstance(value, bool):
            name = source.session_id(value)
            break
    if name is None:
        name = source.session_id(key)
    mark = hash(name)
    if mark in seen:
        name = f"{name}~{digest(source.stem, key)[:8]}"
        mark = hash(name)
    seen.add(mark)
    return name


def fields_of(about: dict[str, Any]) -> dict[str, Any]:
    """Agent, project, model, task, reward and outcome of a conversation, from where people put them."""
    if len(about) <= 1:
        return {}
    found: dict[str, Any] = {}
    metadata = about.get("metadata")
    for place in (about, metadata) if isinstance(metadata, dict) else (about,):
        for name, keys in _FIELD_KEYS:
            if name not in found:
                for key in keys:
                    value = place.get(key)
                    if isinstance(value, str) and value:
                        found[name] = value
                        break
        reward = place.get("reward", place.get("score"))
        if isinstance(reward, int | float) and not isinstance(reward, bool) and "reward" not in found:
            found["reward"] = float(reward)
    return found


_FIELD_KEYS = (
    ("agent", ("agent", "agent_name", "assistant")),
    ("project", ("project", "project_name")),
    ("team", ("team",)),
    ("org", ("org", "organization")),
    ("model", ("model", "model_name")),
    ("task", ("task", "task_id", "instance_id", "question")),
)
