"""opencode sessions: in comes what opencode exports, streams or stores, out go sessions.

Where defined: sst/opencode, `packages/opencode/src/session/message-v2.ts`. Shapes seen: a plugin's event log
(`["event", {event: {type: message.part.updated, …}}]`, 1.14), bare server events (`{type, properties}`), the JSON of
`opencode export` (`{info, messages: [{info, parts}]}`), the lines of `opencode run --format json` (`{type: tool_use,
part}`), and a folder of stored messages and parts read file by file. A part that is told again replaces what was told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Outcome, Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import text_of, usage_of
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile

__all__ = ["NAME", "read", "sniff"]

NAME = "opencode"
_QUIET_EVENTS = (
    "session.status", "session.diff", "session.idle", "session.compacted", "server.", "file.", "lsp.", "permission.",
    "todo.", "installation.", "ide.", "message.part.delta", "tui.", "pty.", "vcs.", "project.", "command.", "mcp.",
    "question.", "worktree.", "global.",
)  # fmt: skip
_QUIET_HOOKS = (
    "experimental.chat.system.transform", "tool.definition", "chat.params", "chat.headers", "permission.ask", "config",
    "experimental.chat.messages.transform", "experimental.session.compacting", "command.execute.before", "shell.env",
    "experimental.text.complete", "tool.execute.before", "tool.execute.after",
)  # fmt: skip
_RUN_TYPES = ("tool_use", "step_start", "step_finish", "text", "reasoning", "error", "user")


def sniff(head: Head) -> Match | None:
    """Told by event names, by `info` beside `parts`, or by ids that begin with ses_, msg_, prt_."""
    for value in head.values[:8]:
        if (
            isinstance(value, list)
            and len(value) >= 2
            and value[0] == "event"
            and isinstance(value[1], Mapping)
        ):
            return Match(0.95, 'an opencode plugin\'s log: ["event", {…}]')
        if not isinstance(value, Mapping):
            continue
        if isinstance(value.get("info"), Mapping) and isinstance(value.get("messages"), list):
            return Match(0.95, "an opencode export: info beside messages")
        if (
            str(value.get("type")).startswith(("message.part.", "message.updated", "session."))
            and "properties" in value
        ):
            return Match(0.95, f"opencode server events: type {value['type']!r} with properties")
        if value.get("type") in _RUN_TYPES and "sessionID" in value and "part" in value:
            return Match(0.95, "lines of `opencode run --format json`: sessionID and part")
        if str(value.get("id")).startswith(("msg_", "prt_")) and "sessionID" in value:
            return Match(0.8, "a stored opencode message or part")
    for value in head.dicts[:4]:
        if isinstance(value.get("info"), Mapping) and isinstance(value.get("parts"), list):
            return Match(0.9, "opencode messages: info beside parts")
    return None


class _Talk:
    """One opencode session: messages in order, parts by message, each in its last state."""

    def __init__(self) -> None:
        self.info: dict[str, Any] = {}
        self.messages: dict[str, dict[str, Any]] = {}
        self.parts: dict[str, dict[str, tuple[int, Mapping[str, Any]]]] = {}
        self.lines: dict[str, int] = {}
        self.deltas: dict[str, str] = {}

    def message(self, info: Mapping[str, Any], line: int) -> None:
        key = str(info.get("id"))
        self.messages.setdefault(key, {}).update(
            {name: item for name, item in info.items() if item is not None}
        )
        self.lines.setdefault(key, line)

    def part(self, part: Mapping[str, Any], line: int, message: str | None = None) -> None:
        owner = str(part.get("messageID") or message)
        if owner not in self.messages:
            self.message({"id": owner, "role": "assistant"}, line)
        key = str(part.get("id") or part.get("callID") or len(self.parts.get(owner, {})))
        self.parts.setdefault(owner, {})[key] = (line, part)


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """One session for each session id."""
    talks: dict[str, _Talk] = {}
    for line, record in source.items(report):
        _take(talks, source, report, line, record)
    for key, talk in talks.items():
        if talk.messages:
            yield _session(source, report, key, talk)


def _talk(talks: dict[str, _Talk], key: Any, source: TranscriptFile) -> _Talk:
    if isinstance(key, str) and key:
        return talks.setdefault(key, _Talk())
    return next(iter(talks.values())) if len(talks) == 1 else talks.setdefault(source.stem, _Talk())


def _take(
    talks: dict[str, _Talk], source: TranscriptFile, report: ReadReport, line: int, record: Any
) -> None:
    if isinstance(record, list) and record and isinstance(record[0], str):
        name = record[0]
        body = record[1] if len(record) > 1 and isinstance(record[1], Mapping) else {}
        if name == "event" and isinstance(body.get("event"), Mapping):
            _event(talks, source, report, line, body["event"])
        elif name == "chat.message" and len(record) > 2 and isinstance(record[2], Mapping):
            _pair(
                _talk(talks, body.get("sessionID"), source),
                record[2].get("message"),
                record[2].get("parts"),
                line,
            )
        elif name not in _QUIET_HOOKS:
            report.unknown(name)
    elif not isinstance(record, Mapping):
        report.put_aside(source.file, line, f"a record that is {type(record).__name__}, not an object")
    elif "properties" in record and isinstance(record.get("type"), str):
        _event(talks, source, report, line, record)
    elif isinstance(record.get("messages"), list):
        info = record["info"] if isinstance(record.get("info"), Mapping) else {}
        talk = _talk(talks, info.get("id"), source)
        talk.info.update(info)
        for item in record["messages"]:
            if isinstance(item, Mapping):
                _pair(talk, item.get("info"), item.get("parts"), line)
    elif isinstance(record.get("info"), Mapping):
        _pair(
            _talk(talks, record["info"].get("sessionID"), source), record["info"], record.get("parts"), line
        )
    elif isinstance(record.get("part"), Mapping) and isinstance(record.get("type"), str):
        _talk(talks, record.get("sessionID"), source).part(record["part"], line)
    elif record.get("type") == "error" and "sessionID" in record:
        talk = _talk(talks, record.get("sessionID"), source)
        talk.message({"id": f"error-{line}", "role": "assistant", "error": record.get("error")}, line)
    elif record.get("type") == "user" and "sessionID" in record:
        talk = _talk(talks, record.get("sessionID"), source)
        talk.message({"id": f"user-{line}", "role": "user"}, line)
        talk.part(
            {"type": "text", "text": text_of(record.get("text", record.get("message")))}, line, f"user-{line}"
        )
    elif "messageID" in record and "type" in record:
        _talk(talks, record.get("sessionID"), source).part(record, line)
    elif "role" in record and "sessionID" in record:
        _talk(talks, record.get("sessionID"), source).message(record, line)
    elif "projectID" in record or "directory" in record:
        _talk(talks, record.get("id"), source).info.update(record)
    else:
        report.unknown(record.get("type", "record without type"))


def _pair(talk: _Talk, info: Any, parts: Any, line: int) -> None:
    if isinstance(info, Mapping):
        talk.message(info, line)
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, Mapping):
                talk.part(part, line, str(info.get("id")))


def _event(
    talks: dict[str, _Talk], source: TranscriptFile, report: ReadReport, line: int, event: Any
) -> None:
    kind = event.get("type")
    body = event["properties"] if isinstance(event.get("properties"), Mapping) else {}
    info, part = body.get("info"), body.get("part")
    told = info if isinstance(info, Mapping) else part if isinstance(part, Mapping) else {}
    key = body.get("sessionID") or told.get("sessionID")
    if kind in ("session.created", "session.updated") and isinstance(info, Mapping):
        _talk(talks, info.get("id") or key, source).info.update(info)
    elif kind == "message.updated" and isinstance(info, Mapping):
        _talk(talks, key, source).message(info, line)
    elif kind == "message.part.updated" and isinstance(part, Mapping):
        _talk(talks, key, source).part(part, line)
    elif kind == "message.part.delta":
        talk = _talk(talks, key, source)
        if body.get("field") == "text" and isinstance(body.get("delta"), str):
            name = str(body.get("partID"))
            talk.deltas[name] = talk.deltas.get(name, "") + body["delta"]
    elif kind == "message.removed":
        _talk(talks, key, source).messages.get(str(body.get("messageID")), {})["removed"] = True
    elif kind == "session.error":
        talk = _talk(talks, key, source)
        talk.info["error"] = body.get("error")
    elif not isinstance(kind, str) or not kind.startswith(_QUIET_EVENTS):
        report.unknown(kind)


def _session(source: TranscriptFile, report: ReadReport, key: str, talk: _Talk) -> Session:
    info = talk.info
    build = SessionBuilder(source.file, key, format=NAME, agent="opencode")
    if isinstance(info.get("parentID"), str):
        build.fields["parent_id"] = info["parentID"]
    directory = info.get("directory")
    if isinstance(directory, str) and directory.strip("/\\"):
        build.fields["project"] = directory.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    for name, message in talk.messages.items():
        _message(build, report, talk, name, message)
    if isinstance(info.get("error"), Mapping):
        build.note(f"session error: {text_of(info['error'].get('name'))[:80]}")
        build.fields["outcome"] = "failure"
    return build.build()


def _message(
    build: SessionBuilder, report: ReadReport, talk: _Talk, name: str, message: Mapping[str, Any]
) -> None:
    times = message["time"] if isinstance(message.get("time"), Mapping) else {}
    at, line = times.get("created"), talk.lines.get(name)
    parts = talk.parts.get(name, {})
    role: Any = message.get("role")
    words, tools = [], []
    cost: float = 0
    tokens: list[Any] = []
    for key, (where, part) in parts.items():
        kind = part.get("type")
        if kind == "text":
            if not part.get("synthetic") or role != "user":
                words.append(text_of(part.get("text")) or talk.deltas.get(key, ""))
        elif kind in ("tool", "tool-invocation"):
            tools.append((where, part))
        elif kind == "step-finish":
            tokens.append(part.get("tokens"))
            if isinstance(part.get("cost"), int | float):
                cost += part["cost"]
        elif kind not in (
            "step-start",
            "reasoning",
            "snapshot",
            "patch",
            "file",
            "agent",
            "compaction",
            "subtask",
            "retry",
        ):
            report.unknown(f"part:{kind}")
    if not words and not tools and role == "user" and not parts:
        return
    turn = build.turn(
        role if role in ("user", "assistant", "system") else "other",
        "\n".join(filter(None, words)), at=at, line=line, author=_text(message.get("agent")),
    )  # fmt: skip
    if message.get("removed"):
        build.abandon(turn)
    for where, part in tools:
        _tool(build, part, turn, where)
    if role == "assistant":
        model = message.get("modelID")
        if isinstance(model, str):
            build.fields["model"] = model
        told = message.get("tokens")
        amounts = _tokens(told)
        if not any(amounts.values()):
            amounts = {}
            for item in tokens:
                for field, amount in _tokens(item).items():
                    amounts[field] = amounts.get(field, 0) + amount
        price = message.get("cost")
        amounts["cost_usd"] = price if isinstance(price, int | float) and price else cost
        build.usage(name, **amounts)
        error = message.get("error")
        if isinstance(error, Mapping):
            build.never_ran(turn)
            build.note(f"an assistant message ended in an error: {_text(error.get('name')) or 'error'}")


def _tokens(told: Any) -> dict[str, float]:
    amounts = usage_of(told)
    cache = told.get("cache") if isinstance(told, Mapping) else None
    if isinstance(cache, Mapping) and isinstance(cache.get("read"), int | float):
        amounts["cache_read_tokens"] = cache["read"]
    return amounts


def _tool(build: SessionBuilder, part: Mapping[str, Any], turn: int, line: int) -> None:
    old = part.get("toolInvocation")  # before 0.3
    if isinstance(old, Mapping):
        part = {
            "tool": old.get("toolName"), "callID": old.get("toolCallId"),
            "state": {
                "status": "completed" if old.get("state") == "result" else "running", "input": old.get("args"),
                "output": old.get("result"),
            },
        }  # fmt: skip
    state = part["state"] if isinstance(part.get("state"), Mapping) else {}
    times = state["time"] if isinstance(state.get("time"), Mapping) else {}
    start, end, status = times.get("start"), times.get("end"), state.get("status")
    call = build.call(
        str(part.get("tool") or ""),
        state.get("input"),
        call_id=_text(part.get("callID")),
        at=start,
        line=line,
        turn=turn,
    )
    meta = state["metadata"] if isinstance(state.get("metadata"), Mapping) else {}
    code = meta.get("exit")
    told: dict[str, Any] = {
        "exit_code": code if isinstance(code, int) and not isinstance(code, bool) else None,
        "duration_ms": end - start if isinstance(start, int | float) and isinstance(end, int | float) else None,
        "at": end, "line": line, "call": call, "inline": True,
    }  # fmt: skip
    if status == "completed":
        build.result(state.get("output"), status="completed", **told)
    elif status == "error":
        error = text_of(state.get("error"))
        if error.startswith(
            ("Tool execution aborted", "The user dismissed", "Tool execution was interrupted")
        ):
            told["outcome"] = Outcome.CANCELLED
        build.result(error, is_error=True, error=error, **told)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
