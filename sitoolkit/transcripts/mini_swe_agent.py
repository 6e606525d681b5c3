"""mini-swe-agent trajectories: in comes a `.traj.json` file or a console log, out goes one session.

Where defined: SWE-agent/mini-swe-agent, `agents/default.py` (`save`). Versions seen: a bare list of messages (0.x and 1.0
tests), `{info, messages, trajectory_format: mini-swe-agent-1}` and `-1.1` with `extra.actions` and tool calls (2.x), and
what the agent prints to a terminal. A command is a fenced bash block; its observation is the next message, with the
exit code in `<returncode>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Outcome, Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import Message, read_message, text_of, usage_of
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile

__all__ = ["NAME", "read", "sniff"]

NAME = "mini-swe-agent"
_BLOCK = re.compile(r"```(?:mswea_bash_command|bash)[ \t]*\n(.*?)\n?```", re.DOTALL)
_RETURN = re.compile(r"\A\s*<returncode>\s*(-?\d+)\s*</returncode>")
_OUTPUT = re.compile(r"<output>\n?(.*?)\n?</output>\s*\Z", re.DOTALL)
_COMPLETE = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_TIMEOUT = re.compile(r"timed out and has been killed|command .{0,200}? timed out", re.IGNORECASE | re.DOTALL)
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]|[\r\x07]")
_CONSOLE = re.compile(
    r"^(?:mini-swe-agent \(step (\d+), \$([\d.]+)\):|(User|System|Exit):)[ \t]*$", re.MULTILINE
)
_SPINNER = re.compile(r"^(?:[\u2800-\u28ff] Waiting for the LM to respond\.\.\.)+", re.MULTILINE)


def sniff(head: Head) -> Match | None:
    """Told by the format's name, by `info.mini_version`, or by commands in fenced blocks answered with `<returncode>`."""
    first = head.first
    if isinstance(first, Mapping):
        name = first.get("trajectory_format")
        if isinstance(name, str) and name.startswith("mini-swe-agent"):
            return Match(0.98, f"trajectory_format {name}")
        info = first.get("info")
        if isinstance(info, Mapping) and "mini_version" in info and isinstance(first.get("messages"), list):
            return Match(0.95, "info.mini_version beside messages")
        if isinstance(first.get("messages"), list) and _speaks(first["messages"]):
            return Match(0.85, "messages with bash blocks answered by <returncode>")
    if head.container == "array" and _speaks(head.items):
        return Match(0.92, "messages with bash blocks answered by <returncode>")
    if head.layout == "text" and _CONSOLE.search(_ANSI.sub("", head.text)) and "mini-swe-agent" in head.text:
        return Match(0.9, "a console log of mini-swe-agent")
    return None


def _speaks(messages: list[Any]) -> bool:
    texts = [text_of(m.get("content")) for m in messages[:8] if isinstance(m, Mapping)]
    return any("mswea_bash_command" in text for text in texts) or (
        any(_RETURN.match(text) for text in texts) and any(_BLOCK.search(text) for text in texts)
    )


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """One session a file."""
    if source.head.layout == "text":
        yield from _console(source, report)
        return
    for line, record in source.records(report):
        if isinstance(record, list):
            record = {"messages": record}
        if isinstance(record, Mapping) and isinstance(record.get("messages"), list):
            yield _trajectory(source, report, record, line)
        else:
            report.put_aside(source.file, line, "a record without messages")


def _trajectory(source: TranscriptFile, report: ReadReport, record: Mapping[str, Any], line: int) -> Session:
    session_id = record.get("instance_id")
    build = SessionBuilder(
        source.file, session_id if isinstance(session_id, str) and session_id else source.session_id(),
        format=NAME, line=line, agent="mini-swe-agent",
    )  # fmt: skip
    waiting: list[Any] = []
    for item in record["messages"]:
        if not isinstance(item, Mapping):
            report.put_aside(source.file, line, "a message that is no object")
            continue
        _message(build, report, item, waiting, line)
    return _close(build, record.get("info"))


def _close(build: SessionBuilder, told: Any) -> Session:
    info = told if isinstance(told, Mapping) else {}
    stats = info["model_stats"] if isinstance(info.get("model_stats"), Mapping) else {}
    if any(usage_of(stats).values()):
        build.usage("total", **usage_of(stats))
    config = info["config"] if isinstance(info.get("config"), Mapping) else {}
    model = config["model"].get("model_name") if isinstance(config.get("model"), Mapping) else None
    about: dict[str, Any] = {}
    status = info.get("exit_status")
    if isinstance(status, str) and status:
        build.note(f"exit status: {status}")
        about["outcome"] = "unknown" if status.lower() == "submitted" else "failure"
    if isinstance(model, str):
        about["model"] = model
    return build.build(**about)


def _message(
    build: SessionBuilder, report: ReadReport, item: Mapping[str, Any], waiting: list[Any], line: int
) -> None:
    extra = item["extra"] if isinstance(item.get("extra"), Mapping) else {}
    at = extra.get("timestamp", item.get("timestamp"))
    if item.get("object") == "response" and isinstance(
        item.get("output"), list
    ):  # the Responses API's own objects
        message = Message(role="assistant")
        for part in item["output"]:
            inner = read_message(part, "assistant")
            message.text = "\n".join(filter(None, (message.text, inner.text)))
            message.calls.extend(inner.calls)
    else:
        message = read_message(item, "other")
    text = message.text
    if message.role == "assistant":
        del waiting[:]
        build.turn("assistant", text, at=at, line=line)
        response = extra.get("response")
        if isinstance(response, Mapping):
            build.usage(str(response.get("id") or build.turns_seen), **usage_of(response.get("usage")))
        for part in message.calls:
            waiting.append(build.call(part.tool, part.args, call_id=part.call_id, at=at, line=line))
        if not message.calls:
            waiting.extend(_commands(build, extra, text, at, line))
    elif message.results:
        for result in message.results:
            _observation(build, text_of(result.content), extra, None, result.call_id, at, line)
        del waiting[:]
    elif message.role == "user" and waiting:
        _observation(build, text, extra, waiting.pop(0), None, at, line)
    elif item.get("role") == "exit":
        if waiting:
            _observation(build, text, extra, waiting.pop(0), None, at, line)
        else:
            build.turn("other", text, at=at, line=line)
    elif message.role in ("user", "system"):
        build.turn("user" if message.role == "user" else "system", text, at=at, line=line)
    else:
        report.unknown(f"message/{item.get('role')}")


def _commands(build: SessionBuilder, extra: Mapping[str, Any], text: str, at: Any, line: int) -> list[Any]:
    actions = (
        [a for a in extra["actions"] if isinstance(a, Mapping)]
        if isinstance(extra.get("actions"), list)
        else []
    )
    if actions:
        return [
            build.call(
                "bash",
                {"command": a.get("command", a.get("action"))},
                call_id=a.get("tool_call_id"),
                at=at,
                line=line,
            )
            for a in actions
        ]
    blocks = _BLOCK.findall(text)
    if len(blocks) == 1:
        return [build.call("bash", {"command": blocks[0]}, at=at, line=line)]
    return []  # none or several: the harness refuses the message, nothing is run


def _observation(
    build: SessionBuilder,
    text: str,
    extra: Mapping[str, Any],
    call: Any,
    call_id: str | None,
    at: Any,
    line: int,
) -> None:
    told: dict[str, Any] = {}
    code = extra.get("returncode")
    found = _RETURN.match(text)
    if isinstance(code, int) and not isinstance(code, bool):
        told["exit_code"] = code
    elif found:
        told["exit_code"] = int(found.group(1))
    if isinstance(extra.get("exception_info"), str) and extra["exception_info"]:
        told["error"] = extra["exception_info"]
    output = _OUTPUT.search(text) if found else None
    if _TIMEOUT.search(text[:400]) and not found:
        told["outcome"] = Outcome.TIMEOUT
        told["typed_error"] = "TimeoutExpired"
    build.result(output.group(1) if output else text, call=call, call_id=call_id, at=at, line=line, **told)


def _console(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """What the agent printed: headings name the speaker; width and colour of the terminal are lost."""
    text = _SPINNER.sub("", _ANSI.sub("", source.text()))
    marks = list(_CONSOLE.finditer(text))
    if not marks:
        report.put_aside(source.file, None, "a console log without a message")
        return
    build = SessionBuilder(source.file, source.session_id(), format=NAME, agent="mini-swe-agent")
    build.note("read from a console log: lines are wrapped as the terminal wrapped them")
    waiting: list[Any] = []
    cost = 0.0
    line, counted = 1, 0
    for mark, after in zip(marks, [*marks[1:], None], strict=True):
        line += text.count("\n", counted, mark.start())
        counted = mark.start()
        words = text[mark.end() : after.start() if after else len(text)]
        words = re.split(r"\n\u2500{20,}", words)[0].strip("\n")
        words = "\n".join(
            row
            for row in words.split("\n")
            if "Waiting for the LM to respond..." not in row or "THOUGHT" in row
        )
        words = re.sub(r"(?:[\u2800-\u28ff] Waiting for the LM to respond\.\.\.)+", "", words).strip()
        role = (
            "assistant"
            if mark.group(1)
            else {"User": "user", "System": "system", "Exit": "exit"}[mark.group(3)]
        )
        if mark.group(2):
            cost = max(cost, float(mark.group(2)))
        if after is None:
            words = words.partition("Saved trajectory to")[0].strip()
        _message(build, report, {"role": role, "content": words}, waiting, line)
    build.usage("total", cost_usd=cost)
    yield build.build()
