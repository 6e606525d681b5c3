"""ATIF trajectories: in comes a trajectory of the Agent Trajectory Interchange Format, out goes one session.

Where defined: laude-institute/harbor, `docs/rfcs/0001-trajectory-format.md` and `harbor/models/trajectories`. Versions
seen: 1.4 and 1.5; 1.6 and later add keys only. Also the training rows that Harbor exports beside it
(`conversations`, `agent`, `episode`, `run_id`), where later episodes restate earlier ones. Some agents put their calls
into the text (`<function=…>` of OpenHands, `{"commands": [{"keystrokes"}]}` of Terminus 2): these are read as calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import text_of, usage_of
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile

__all__ = ["NAME", "read", "sniff"]

NAME = "atif"
_FUNCTION = re.compile(r"<function=([^>\s]+)>\n?(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\s]+)>(.*?)</parameter>", re.DOTALL)
_ROLES = {"user": "user", "agent": "assistant", "system": "system", "assistant": "assistant"}


def sniff(head: Head) -> Match | None:
    """Told by `schema_version: ATIF-…`, or by `steps` with `step_id` and `source`."""
    for value in head.dicts[:4]:
        version = value.get("schema_version")
        if isinstance(version, str) and version.upper().startswith("ATIF"):
            return Match(0.99, f"schema_version {version}")
        steps = value.get("steps")
        if isinstance(steps, list) and any(
            isinstance(s, Mapping) and "step_id" in s and "source" in s for s in steps[:3]
        ):
            return Match(0.9, "steps with step_id and source, as in ATIF")
        if isinstance(value.get("conversations"), list) and "episode" in value:
            return Match(0.9, "Harbor's training rows: conversations of an episode")
    return None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """A session for each trajectory; of training rows one for each run, told by its longest episode."""
    episodes: dict[str, tuple[int, Mapping[str, Any], int]] = {}
    for number, (line, record) in enumerate(source.items(report)):
        if not isinstance(record, Mapping):
            report.put_aside(source.file, line, f"a record that is {type(record).__name__}, not a trajectory")
        elif isinstance(record.get("steps"), list):
            yield _trajectory(source, report, record, line, number)
        elif isinstance(record.get("conversations"), list):
            key = str(record.get("run_id") or record.get("trial_name") or record.get("task"))
            length = len(record["conversations"])
            if key not in episodes or length > episodes[key][0]:
                episodes[key] = (length, record, line)
        else:
            report.put_aside(source.file, line, "a record without steps")
    for key, (_length, record, line) in episodes.items():
        yield _episode(source, report, key, record, line)


def _trajectory(
    source: TranscriptFile, report: ReadReport, record: Mapping[str, Any], line: int, number: int
) -> Session:
    agent = record["agent"] if isinstance(record.get("agent"), Mapping) else {}
    session_id = record.get("session_id")
    known = isinstance(session_id, str) and not re.fullmatch(r"[A-Z_]*", session_id)  # not a placeholder
    build = SessionBuilder(
        source.file, str(session_id) if known else source.session_id(number if number else ""),
        format=NAME, line=line, agent=_text(agent.get("name")) or "",
    )  # fmt: skip
    if isinstance(agent.get("model_name"), str):
        build.fields["model"] = agent["model_name"]
    final = usage_of(record.get("final_metrics"))
    if final:
        build.usage("final", **final)
    for step in record["steps"]:
        if isinstance(step, Mapping):
            _step(build, report, step, line)
            if not final:
                build.usage(None, **usage_of(step.get("metrics")))
        else:
            report.put_aside(source.file, line, "a step that is no object")
    if isinstance(record.get("continued_trajectory_ref"), str):
        build.note(f"continued in {record['continued_trajectory_ref']}")
    return build.build()


def _step(build: SessionBuilder, report: ReadReport, step: Mapping[str, Any], line: int) -> None:
    at, source = step.get("timestamp"), step.get("source")
    text = text_of(step.get("message"))
    role: Any = _ROLES.get(str(source), "other")
    if role == "other":
        report.unknown(f"step/{source}")
    turn = build.turn(role, text, at=at, line=line)
    if role == "assistant" and isinstance(step.get("model_name"), str) and not build.fields.get("model"):
        build.fields["model"] = step["model_name"]
    asked = [call for call in _list(step.get("tool_calls")) if isinstance(call, Mapping)]
    made = [
        build.call(
            _text(call.get("function_name")) or _text(call.get("name")) or "unknown", call.get("arguments"),
            call_id=_text(call.get("tool_call_id")), at=at, line=line, turn=turn,
        )
        for call in asked
    ]  # fmt: skip
    if not made and role == "assistant":
        made = [build.call(tool, args, at=at, line=line, turn=turn) for tool, args in _calls_in(text)]
    observation = step["observation"] if isinstance(step.get("observation"), Mapping) else {}
    results = [result for result in _list(observation.get("results")) if isinstance(result, Mapping)]
    for number, result in enumerate(results):
        _result(build, result, made, number, len(results), at, line)


def _result(
    build: SessionBuilder,
    result: Mapping[str, Any],
    made: list[Any],
    number: int,
    of: int,
    at: Any,
    line: int,
) -> None:
    content = result.get("content")
    for ref in _list(result.get("subagent_trajectory_ref")):
        if isinstance(ref, Mapping):
            build.note(f"sub-agent {_text(ref.get('session_id'))}")
    value = content if isinstance(content, str) else text_of(content) if content is not None else None
    call_id = _text(result.get("source_call_id"))
    if value is None and call_id is None:
        return
    flag = _deep(result, "extra", "is_error")
    told: dict[str, Any] = {"is_error": flag if isinstance(flag, bool) else None}
    if isinstance(value, str) and value.startswith("Previous response had parsing errors:"):
        if not made:  # nothing was run: the harness complains about the message itself
            build.turn("other", value, at=at, line=line, author="harness")
            return
        told = {"is_error": True, "typed_error": "ParseError"}
    if call_id is None and of == 1 and len(made) > 1:
        # one screen for all keystrokes: it shows how the last one ended; of the others nothing is known
        build.result(value, call=made[-1], line=line, guessed=True, **told)
        return
    if call_id is None and number < len(made):
        build.result(
            value, call=made[number], line=line, guessed=of != len(made), inline=of == len(made), **told
        )
        return
    if call_id is None and not made:
        build.turn("other", value or "", at=at, line=line)
        return
    build.result(value, call_id=call_id, line=line, **told)


def _calls_in(text: str) -> list[tuple[str, Any]]:
    """Calls that an agent without function calling wrote into its message."""
    found: list[tuple[str, Any]] = []
    for name, body in _FUNCTION.findall(text):
        found.append((name, {key: value.strip("\n") for key, value in _PARAMETER.findall(body)}))
    if found or '"commands"' not in text:
        return found
    answer = _json_in(text)
    if answer is None or not {"analysis", "plan"} <= set(answer):
        return []  # the harness refuses an answer without these, and runs nothing
    for command in _list(answer.get("commands")):
        if isinstance(command, Mapping) and isinstance(command.get("keystrokes"), str):
            found.append(("bash_command", dict(command)))
    if answer.get("task_complete") is True:
        found.append(("mark_task_complete", {}))
    return found


def _json_in(text: str) -> Mapping[str, Any] | None:
    at = text.find("{")
    if at < 0:
        return None
    try:
        value, _end = json.JSONDecoder(strict=False).raw_decode(text, at)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping) else None


def _episode(
    source: TranscriptFile, report: ReadReport, key: str, record: Mapping[str, Any], line: int
) -> Session:
    build = SessionBuilder(
        source.file, source.session_id(key), format=NAME, line=line, agent=_text(record.get("agent")) or "",
    )  # fmt: skip
    build.note("episodes restate each other: the longest was read")
    waiting: list[Any] = []
    for item in record["conversations"]:
        if not isinstance(item, Mapping):
            report.put_aside(source.file, line, "a message that is no object")
            continue
        text, role = text_of(item.get("content", item.get("value"))), item.get("role", item.get("from"))
        if role in ("assistant", "gpt"):
            turn = build.turn("assistant", text, line=line)
            words = re.sub(r"<think>.*?</think>", "", text, flags=re.DOTALL)
            waiting = [build.call(tool, args, line=line, turn=turn) for tool, args in _calls_in(words)]
        elif role in ("user", "human") and waiting:
            of = {"content": text}
            _result(build, of, waiting, 0, 1, None, line)
            waiting = []
        else:
            build.turn(
                "user" if role in ("user", "human") else "system" if role == "system" else "other",
                text,
                line=line,
            )
    verdict = record.get("result")
    about: dict[str, Any] = {}
    if isinstance(verdict, int | float) and not isinstance(verdict, bool):
        about = {"reward": float(verdict), "outcome": "success" if verdict >= 1 else "failure"}
    return build.build(model=_text(record.get("model")), task=_text(record.get("task")), **about)


def _deep(value: Any, *keys: str) -> Any:
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
