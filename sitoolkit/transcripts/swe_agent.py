"""SWE-agent trajectories: in comes a `.traj` file or a log of model calls, out goes one session.

Where defined: SWE-agent/SWE-agent, `docs/usage/trajectories.md`. Generations seen: 0.x (`history` of texts with `action`,
observations as user messages, `state` as JSON text), 1.0 (function calls in `history`, `tool_call_ids` on results,
`replay_config`), demonstrations of `history` alone, and the request/response log `llm_interactions_*.jsonl` of 1.1.
Steps that stand in `trajectory` beyond the history (a final submit) are added; demonstrations put in front
(`is_demo`) are no part of the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import find_messages, text_of, usage_of
from sitoolkit.transcripts.history import History, tell
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile

__all__ = ["NAME", "read", "sniff"]

NAME = "swe-agent"
_SUBMITTED = ("submitted", "submit")


def sniff(head: Head) -> Match | None:
    """Told by `trajectory` steps of action and observation, by SWE-agent's history entries, or by its call log."""
    first = head.first
    if isinstance(first, Mapping):
        steps, history = first.get("trajectory"), first.get("history")
        if _are(steps, "action", "observation"):
            return Match(0.96, "trajectory steps with action and observation")
        if isinstance(steps, list) and not steps and "info" in first and isinstance(history, list):
            return Match(0.9, "an empty SWE-agent trajectory with its history")
        if _are(history, "role", "agent") or _are(history, "role", "message_type"):
            return Match(0.93, "history entries with agent and message_type")
    records = head.dicts
    if any(r.get("type") == "response" and isinstance(r.get("outputs"), list) for r in records) or any(
        r.get("type") == "request" and isinstance(r.get("messages"), list) and "timestamp" in r
        for r in records
    ):
        return Match(0.93, "a log of model requests with messages and responses with outputs")
    return None


def _are(value: Any, *keys: str) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and any(isinstance(item, Mapping) and all(key in item for key in keys) for item in value[:3])
    )


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """One session a file; a log of model calls holds one for each conversation that begins anew."""
    if any(isinstance(r, Mapping) and r.get("type") in ("request", "response") for r in source.head.dicts):
        yield from _log(source, report)
        return
    for line, record in source.records(report):
        if isinstance(record, Mapping):
            yield _trajectory(source, report, record, line)
        else:
            report.put_aside(source.file, line, f"a record that is {type(record).__name__}, not a trajectory")


# ---------------------------------------------------------------- .traj


def _trajectory(source: TranscriptFile, report: ReadReport, record: Mapping[str, Any], line: int) -> Session:
    build = SessionBuilder(source.file, source.session_id(), format=NAME, line=line, agent="swe-agent")
    steps = [step for step in _list(record.get("trajectory")) if isinstance(step, Mapping)]
    entries = [entry for entry in _list(record.get("history")) if isinstance(entry, Mapping)]
    texts = _list(record.get("history"))
    if len(entries) < len(texts):
        report.put_aside(
            source.file, line, f"{len(texts) - len(entries)} history entries that are no objects"
        )
    made = _history(build, report, entries, steps, line)
    _rest(build, steps, made, line)
    info = record["info"] if isinstance(record.get("info"), Mapping) else {}
    stats = info["model_stats"] if isinstance(info.get("model_stats"), Mapping) else {}
    if any(usage_of(stats).values()):
        build.usage(None, **usage_of(stats))
    status = info.get("exit_status")
    about: dict[str, Any] = {}
    if isinstance(status, str) and status:
        build.note(f"exit status: {status}")
        about["outcome"] = "unknown" if status.startswith(_SUBMITTED) else "failure"
    config = record.get("replay_config")
    model = _deep(config, "agent", "model", "name") or _deep(info, "model")
    if isinstance(model, str) and model not in ("replay", "human", "instant_empty_submit"):
        about["model"] = model
    task = next(
        (text_of(e.get("content")) for e in entries if e.get("role") == "user" and not e.get("is_demo")), None
    )
    return build.build(task=task, **about)


def _history(
    build: SessionBuilder,
    report: ReadReport,
    entries: list[Mapping[str, Any]],
    steps: list[Mapping[str, Any]],
    line: int,
) -> int:
    """Hand over the history; returns how many steps of the trajectory it tells."""
    waiting: Any = None  # the call of a text-only action, answered by the next observation
    told = 0
    last: Any = None  # the newest call with its step
    for entry in entries:
        if entry.get("is_demo"):
            build.note("demonstrations in front of the run were left out")
            continue
        role, kind = entry.get("role"), entry.get("message_type")
        text = text_of(entry.get("content"))
        calls = [call for call in _list(entry.get("tool_calls")) if isinstance(call, Mapping)]
        if role == "assistant":
            build.turn("assistant", text, line=line)
            waiting = None
            action = entry.get("action")
            made = None
            for call in calls:
                function = call["function"] if isinstance(call.get("function"), Mapping) else call
                made = build.call(
                    str(function.get("name") or ""),
                    function.get("arguments"),
                    call_id=call.get("id"),
                    line=line,
                )
            if not calls and isinstance(action, str) and action.strip():
                made = waiting = _action(build, action, line)
            if made is not None:
                if told < len(steps):
                    build.evidence(made, duration_ms=_milliseconds(steps[told]))
                    last = (made, steps[told])
                told += 1
        elif role == "tool" or (kind == "observation" and entry.get("tool_call_ids")):
            ids = [i for i in _list(entry.get("tool_call_ids")) if isinstance(i, str)]
            alone: Any = entry.get("tool_call_id")
            for call_id in ids or [alone]:
                build.result(_bare(text), call_id=call_id, line=line)
        elif role == "user" and waiting is not None:
            build.result(_bare(text), call=waiting, line=line)
            waiting = None
        elif role in ("user", "system"):
            build.turn(role, text, line=line)
        else:
            report.unknown(f"history/{role}")
    if last is not None and not last[0].answered and isinstance(last[1].get("observation"), str):
        build.result(last[1]["observation"], call=last[0], line=line)  # the history ends with the action
    return told


_STATE = re.compile(r"\n?\(Open file: [^\n]*\)\r?\n\(Current directory: [^\n]*\)\r?\n?(?:bash-\$|\$)?\s*\Z")


def _bare(text: str) -> str:
    """An observation without the frame that the harness's template puts round it."""
    return _STATE.sub("", text.removeprefix("OBSERVATION:\n"))


def _milliseconds(step: Mapping[str, Any]) -> float | None:
    seconds = step.get("execution_time")
    return (
        round(seconds * 1000, 3)
        if isinstance(seconds, int | float) and not isinstance(seconds, bool)
        else None
    )


def _action(build: SessionBuilder, action: str, line: int) -> Any:
    """A command of SWE-agent's own language: its first word names the tool, the whole stays its argument."""
    words = action.strip()
    name = words.split(None, 1)[0] if words else ""
    tool = name if name in _COMMANDS else "bash"
    return build.call(tool, {"command": words}, line=line)


_COMMANDS = frozenset([
    "open", "goto", "scroll_up", "scroll_down", "create", "edit", "insert", "search_dir", "search_file", "find_file", "submit",
    "append", "exit_cost", "exit_context", "exit_format", "exit_forfeit", "skip", "str_replace_editor", "debug_start",
    "debug_stop", "debug_exec_command", "connect_start", "connect_sendline", "connect_exec_command", "decompile", "disassemble",
])  # fmt: skip


def _rest(build: SessionBuilder, steps: list[Mapping[str, Any]], told: int, line: int) -> None:
    """Steps that the history does not tell: all of them where it is absent, the last one after a submit."""
    for step in steps[told:]:
        words = text_of(step.get("response") or step.get("thought"))
        action, observation = step.get("action"), step.get("observation")
        has_action = isinstance(action, str) and bool(action.strip())
        if not has_action and not words:
            continue
        build.turn("assistant", words, line=line)
        if has_action:
            call = _action(build, str(action), line)
            if observation is not None:
                build.result(
                    text_of(observation), call=call, line=line, inline=True, duration_ms=_milliseconds(step)
                )


# ---------------------------------------------------------------- the log of model calls


def _log(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    history = History()
    model: str | None = None
    number = 0
    spent = False  # the conversation has an answer, so that a request without one begins another
    for line, record in source.records(report):
        if not isinstance(record, Mapping):
            report.put_aside(
                source.file, line, f"a record that is {type(record).__name__}, not a request or response"
            )
            continue
        at = record.get("timestamp")
        model = record["model"] if isinstance(record.get("model"), str) else model
        if record.get("type") == "request":
            asked = find_messages(record.get("messages"), "user")
            if spent and not any(message.role == "assistant" for message in asked):
                yield _finish(source, report, history, number, model)
                history, number, spent = History(), number + 1, False
            for message in asked:
                for part in message.results:
                    part.content = _bare(part.content) if isinstance(part.content, str) else part.content
            history.request(asked, at=at, line=line)
        elif record.get("type") == "response":
            spent = True
            for output in _list(record.get("outputs")):
                if not isinstance(output, Mapping):
                    continue
                answer = {
                    "role": "assistant",
                    "content": output.get("message"),
                    "tool_calls": output.get("tool_calls"),
                }
                history.answer(
                    find_messages([answer], "assistant"), at=at, line=line, model=model,
                    usage={k: record.get(k) for k in ("input_tokens", "output_tokens", "cost")} if output else None,
                )  # fmt: skip
        else:
            report.unknown(record.get("type") or "record without type")
    if history.entries:
        yield _finish(source, report, history, number, model)


def _finish(
    source: TranscriptFile, report: ReadReport, history: History, number: int, model: str | None
) -> Session:
    build = SessionBuilder(
        source.file, source.session_id(number if number else ""), format=NAME, agent="swe-agent", line=1
    )
    usages = [entry.usage for entry in history.entries if entry.usage]
    for entry in history.entries:
        if isinstance(entry.usage, Mapping):  # the log's cost is a running total
            entry.usage = {key: value for key, value in entry.usage.items() if key != "cost"}
    tell(build, history.entries, report)
    costs = [u["cost"] for u in usages if isinstance(u, Mapping) and isinstance(u.get("cost"), int | float)]
    if costs:
        build.usage(None, cost_usd=max(costs))
    return build.build(model=model)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _deep(value: Any, *keys: str) -> Any:
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value
