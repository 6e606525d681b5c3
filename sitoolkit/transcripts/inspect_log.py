"""Inspect logs: in comes a log of inspect_ai (`.json` or zipped `.eval`), out goes a session for each sample and epoch.

Where defined: UKGovernmentBEIS/inspect_ai, `src/inspect_ai/log/_log.py` (version 2) and `model/_chat_message.py`. Seen:
logs of 0.3.41 to 0.3.95, with `transcript.events` and with `events`, attachments as `tc://` and `attachment://`. Tool
messages carry typed errors (`error.type`); events carry the time of each call. In an `.eval` file samples are read one
at a time.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import read_message, text_of, usage_of
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile, loads

__all__ = ["NAME", "read", "sniff"]

NAME = "inspect"
ALIASES = ("inspect-ai", "eval")
_GOOD, _BAD = ("C", "CORRECT", "PASS", "TRUE"), ("I", "INCORRECT", "FAIL", "FALSE", "N")


def sniff(head: Head) -> Match | None:
    """Told by `eval` and `samples` with a version, or by the members of an `.eval` archive."""
    if head.data[:4] == b"PK\x03\x04":
        try:
            with zipfile.ZipFile(head.path) as archive:
                names = archive.namelist()
        except (OSError, zipfile.BadZipFile):
            names = []
        if any(name.startswith(("samples/", "_journal/")) for name in names) or "header.json" in names:
            return Match(0.98, "a zipped Inspect log: header.json and samples/")
        return None
    first = head.first
    if isinstance(first, Mapping):
        told = first.get("eval")
        if (
            isinstance(told, Mapping)
            and ("task" in told or "run_id" in told)
            and ("samples" in first or "plan" in first)
        ):
            return Match(0.97, "an Inspect log: eval, plan and samples")
        if {"epoch", "messages", "target"} <= set(first) and "id" in first:
            return Match(0.85, "a sample of an Inspect log")
    return None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """A session for each sample and epoch."""
    if source.head.data[:4] == b"PK\x03\x04":
        yield from _archive(source, report)
        return
    for line, record in source.records(report):
        if not isinstance(record, Mapping):
            report.put_aside(source.file, line, f"a record that is {type(record).__name__}, not a log")
            continue
        if "messages" in record and "epoch" in record:
            yield _sample(source.file, source, report, {}, record, line)
            continue
        _not_finished(source, report, record)
        for sample in _list(record.get("samples")):
            if isinstance(sample, Mapping):
                yield _sample(source.file, source, report, record, sample, line)
            else:
                report.put_aside(source.file, line, "a sample that is no object")


def _not_finished(source: TranscriptFile, report: ReadReport, record: Mapping[str, Any]) -> None:
    if not _list(record.get("samples")):
        report.put_aside(source.file, None, f"a log without samples (status {record.get('status')})")


def _archive(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """Samples of a zipped log, in order of name; one damaged member is set aside."""
    try:
        archive = zipfile.ZipFile(source.path)
    except (OSError, zipfile.BadZipFile) as fault:
        report.put_aside(source.file, None, f"the archive cannot be opened: {fault}")
        return
    with archive:
        header: Mapping[str, Any] = {}
        for name in ("header.json", "_journal/start.json"):
            if name in archive.namelist():
                told = _member(archive, name, source, report)
                if isinstance(told, Mapping):
                    header = told
                    break
        found = False
        for name in sorted(archive.namelist()):
            if name.startswith("samples/") and name.endswith(".json"):
                sample = _member(archive, name, source, report)
                if isinstance(sample, Mapping):
                    found = True
                    yield _sample(f"{source.file}/{name}", source, report, header, sample, 1)
        if not found:
            report.put_aside(source.file, None, "a log without samples")


def _member(archive: zipfile.ZipFile, name: str, source: TranscriptFile, report: ReadReport) -> Any:
    try:
        return loads(archive.read(name))
    except (
        ValueError,
        OSError,
        zipfile.BadZipFile,
        zlib.error,
        RuntimeError,
        NotImplementedError,
        EOFError,
    ) as fault:
        report.put_aside(f"{source.file}/{name}", None, f"cannot be read: {fault}")
        return None


def _sample(
    file: str,
    source: TranscriptFile,
    report: ReadReport,
    log: Mapping[str, Any],
    sample: Mapping[str, Any],
    line: int,
) -> Session:
    about = log["eval"] if isinstance(log.get("eval"), Mapping) else {}
    stats = log["stats"] if isinstance(log.get("stats"), Mapping) else {}
    key = f"{sample.get('id')}_epoch_{sample.get('epoch', 1)}"
    told = sample.get("uuid")
    build = SessionBuilder(
        file, told if isinstance(told, str) and told else source.session_id(key), format=NAME, line=line,
        agent=_agent(about), task=_text(about.get("task")), model=_model(sample, about),
    )  # fmt: skip
    attachments = _attachments(sample)
    times = _tool_events(sample)
    for item in _list(sample.get("messages")):
        if isinstance(item, Mapping):
            _message(build, report, item, attachments, times, line)
        else:
            report.put_aside(file, line, "a message that is no object")
    for usage in (
        (sample.get("model_usage") or {}).values() if isinstance(sample.get("model_usage"), Mapping) else ()
    ):
        amounts = usage_of(usage)
        if isinstance(usage, Mapping) and isinstance(usage.get("input_tokens_cache_read"), int):
            amounts["cache_read_tokens"] = usage["input_tokens_cache_read"]
        build.usage(None, **amounts)
    fields = _verdict(build, sample)
    fields.setdefault(
        "started_at", build.time(sample.get("started_at") or _first_event(sample) or stats.get("started_at"))
    )
    fields.setdefault("ended_at", build.time(sample.get("completed_at") or _last_event(sample)))
    return build.build(**{name: value for name, value in fields.items() if value is not None})


def _agent(about: Mapping[str, Any]) -> str:
    solver = about.get("solver")
    return solver if isinstance(solver, str) else ""


def _model(sample: Mapping[str, Any], about: Mapping[str, Any]) -> str | None:
    return _text(about.get("model")) or _text(_deep(sample, "output", "model"))


def _message(
    build: SessionBuilder, report: ReadReport, item: Mapping[str, Any], attachments: Mapping[str, str],
    times: Mapping[str, Mapping[str, Any]], line: int,
) -> None:  # fmt: skip
    role = item.get("role")
    content = _resolved(item.get("content"), attachments)
    if role == "tool":
        error = item["error"] if isinstance(item.get("error"), Mapping) else {}
        call_id = _text(item.get("tool_call_id"))
        event = times.get(call_id or "", {})
        told: dict[str, Any] = {}
        if error:
            told = {
                "is_error": True,
                "typed_error": _text(error.get("type")),
                "error": text_of(error.get("message")),
            }
        if error and not build.evidence(call_id or ""):
            _restored(build, item, text_of(content), call_id, told, line)
            return
        build.result(
            text_of(content), call_id=call_id, tool=_text(item.get("function")), line=line,
            at=event.get("completed"), duration_ms=_duration(event), **told,
        )  # fmt: skip
        return
    message = read_message({**item, "content": content}, "other")
    for kind in message.unknown:
        report.unknown(f"part:{kind}")
    if role not in ("user", "assistant", "system"):
        report.unknown(f"message/{role}")
    where: Any = role if role in ("user", "assistant", "system") else "other"
    turn = build.turn(where, message.text, line=line)
    for call in _list(item.get("tool_calls")):
        if not isinstance(call, Mapping):
            continue
        function = call.get("function")
        name = function if isinstance(function, str) else _deep(call, "function", "name")
        args = call.get("arguments", _deep(call, "function", "arguments"))
        call_id = _text(call.get("id"))
        build.call(
            name or "", args, call_id=call_id, at=times.get(call_id or "", {}).get("timestamp"), line=line, turn=turn,
            args_error=_text(call.get("parse_error")),
        )  # fmt: skip


def _restored(
    build: SessionBuilder,
    item: Mapping[str, Any],
    text: str,
    call_id: str | None,
    told: Mapping[str, Any],
    line: int,
) -> None:
    """A typed error without its call: the result is an orphan, and the call that it names failed all the same."""
    call = build.call(
        _text(item.get("function")) or "unknown",
        {},
        call_id=call_id,
        line=line,
        args_error="the call is not in the log",
    )
    build.evidence(call, **told)
    build.turn("tool", text, line=line, author=_text(item.get("function")))
    build.orphans += 1
    build.note("calls that the log leaves out were restored from their typed errors")


def _resolved(value: Any, attachments: Mapping[str, str]) -> Any:
    """Content with references to attachments replaced by what they stand for."""
    if isinstance(value, str):
        for prefix in ("attachment://", "tc://"):
            if value.startswith(prefix):
                return attachments.get(value.removeprefix(prefix), value)
        return value
    if isinstance(value, list):
        return [_resolved(item, attachments) for item in value]
    if isinstance(value, Mapping):
        return {
            key: _resolved(item, attachments) if key in ("text", "content") else item
            for key, item in value.items()
        }
    return value


def _attachments(sample: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for held in (sample.get("attachments"), _deep(sample, "transcript", "content")):
        if isinstance(held, Mapping):
            found.update({str(key): value for key, value in held.items() if isinstance(value, str)})
    return found


def _events(sample: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    events = sample.get("events") or _deep(sample, "transcript", "events")
    return [event for event in _list(events) if isinstance(event, Mapping)]


def _tool_events(sample: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for event in _events(sample):
        if event.get("event") == "tool" and isinstance(event.get("id"), str):
            found[event["id"]] = event
    return found


def _duration(event: Mapping[str, Any]) -> float | None:
    seconds = event.get("working_time")
    return (
        round(seconds * 1000, 3)
        if isinstance(seconds, int | float) and not isinstance(seconds, bool)
        else None
    )


def _first_event(sample: Mapping[str, Any]) -> Any:
    return next((event.get("timestamp") for event in _events(sample)), None)


def _last_event(sample: Mapping[str, Any]) -> Any:
    return next((event.get("timestamp") for event in reversed(_events(sample))), None)


def _verdict(build: SessionBuilder, sample: Mapping[str, Any]) -> dict[str, Any]:
    """The sample's score as reward and outcome; where there are several, the first decides and all are noted."""
    fields: dict[str, Any] = {}
    scores = sample["scores"] if isinstance(sample.get("scores"), Mapping) else {}
    if not scores and isinstance(sample.get("score"), Mapping):
        scores = {"score": sample["score"]}
    for name, score in scores.items():
        value = score.get("value") if isinstance(score, Mapping) else score
        build.note(f"score {name}: {json.dumps(value, default=str)[:80]}")
        if "reward" in fields:
            continue
        if isinstance(value, bool):
            fields.update(reward=float(value), outcome="success" if value else "failure")
        elif isinstance(value, int | float):
            fields.update(
                reward=float(value), outcome="success" if value >= 1 else "failure" if value <= 0 else None
            )
        elif isinstance(value, str) and value.upper() in _GOOD:
            fields.update(reward=1.0, outcome="success")
        elif isinstance(value, str) and value.upper() in _BAD:
            fields.update(reward=0.0, outcome="failure")
        elif value == "P":
            fields.update(reward=0.5)
    error = sample.get("error")
    if isinstance(error, Mapping) and error:
        build.note(f"the sample ended in an error: {text_of(error.get('message'))[:200]}")
        fields["outcome"] = "failure"
    limit = sample.get("limit")
    if isinstance(limit, Mapping):
        build.note(f"a limit ended the sample: {limit.get('type')}")
    return fields


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
