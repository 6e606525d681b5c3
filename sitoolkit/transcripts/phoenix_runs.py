"""Phoenix's agent-trajectory examples: in comes a results file of runs with turns and calls, out goes a session for each run.

Where defined: Arize-ai/phoenix, `examples/agent-trajectory-evals`. A run holds the turns, and beside them the calls that
were made, in order but without their place among the turns and without results: outcomes are unknown. Rows of
`evals/mcp/results` count calls and hold none; they are no transcript.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import text_of
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile

__all__ = ["NAME", "read", "sniff"]

NAME = "phoenix-runs"


def sniff(head: Head) -> Match | None:
    """Told by runs with `turns` beside `tool_calls_made`."""
    for value in head.dicts[:3]:
        if any(_is_run(run) for run in _runs(value)[:3]):
            return Match(0.93, "runs with turns and tool_calls_made")
    return None


def _runs(value: Any) -> list[Any]:
    if isinstance(value, Mapping) and isinstance(value.get("results"), list):
        return list(value["results"])
    return [value]


def _is_run(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("turns"), list) and "tool_calls_made" in value


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """A session for each run."""
    for line, record in source.items(report):
        for number, run in enumerate(_runs(record)):
            if _is_run(run):
                yield _run(source, report, record, run, line, number)
            else:
                report.put_aside(source.file, line, "a run without turns")


def _run(
    source: TranscriptFile, report: ReadReport, record: Any, run: Mapping[str, Any], line: int, number: int
) -> Session:
    told = record.get("implementation") if isinstance(record, Mapping) else None
    build = SessionBuilder(
        source.file, source.session_id(run.get("task_id") or number), format=NAME, line=line,
        agent=told if isinstance(told, str) else "",
    )  # fmt: skip
    for turn in run["turns"]:
        if isinstance(turn, Mapping):
            role: Any = turn.get("role")
            build.turn(
                role if role in ("user", "assistant", "system") else "other",
                text_of(turn.get("content")),
                line=line,
            )
    calls = run["tool_calls_made"] if isinstance(run.get("tool_calls_made"), list) else []
    made = [call for call in calls if isinstance(call, Mapping) and "name" in call]
    if made:
        build.note("calls stand after all turns: the file does not say between which they were made")
        turn_index = build.turn("assistant", "", line=line)
        for call in made:
            build.call(
                str(call["name"]),
                call.get("arguments"),
                call_id=call.get("call_id"),
                line=line,
                turn=turn_index,
            )
    status = run.get("status")
    if status not in ("ok", None):
        build.note(f"status: {text_of(status)[:80]}")
    if run.get("terminated_by"):
        build.note(f"ended by {text_of(run.get('terminated_by'))[:80]}")
    return build.build(
        task=str(run.get("task_id") or "") or None, outcome="failure" if status == "error" else "unknown"
    )
