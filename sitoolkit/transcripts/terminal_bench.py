"""terminal-bench results: in comes `results.json` of a run or of one trial, out goes a session for each trial.

Where defined: laude-institute/terminal-bench, `terminal_bench/harness/models.py` (`BenchmarkResults`, `TrialResults`).
A trial holds no calls of the agent, which recorded them elsewhere; it holds the task, the verdict, the tests one by one
and the failure mode of the trial (`agent_timeout`, `test_timeout`, `parse_error` …). The failure mode is told as the
failing of the phase that it names, a call of `run_agent` or `run_tests` by the harness; tests are counted in a note.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import text_of, usage_of
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile

__all__ = ["NAME", "read", "sniff"]

NAME = "terminal-bench"
_NO_FAULT = ("unset", "none", "", "None")


def sniff(head: Head) -> Match | None:
    """Told by trials with `trial_name`, `is_resolved` and `failure_mode`."""
    for value in head.dicts[:3]:
        results = value.get("results")
        if isinstance(results, list) and any(_is_trial(item) for item in results[:3]):
            return Match(0.97, "results of trials with trial_name, is_resolved and failure_mode")
        if _is_trial(value):
            return Match(0.97, "a trial with trial_name, is_resolved and failure_mode")
    return None


def _is_trial(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and "is_resolved" in value
        and ("trial_name" in value or "failure_mode" in value)
    )


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """A session for each trial."""
    for line, record in source.items(report):
        trials = record.get("results") if isinstance(record, Mapping) else None
        for trial in trials if isinstance(trials, list) else [record]:
            if _is_trial(trial):
                yield _trial(source, trial, line)
            else:
                report.put_aside(source.file, line, "a record that is no trial")


def _trial(source: TranscriptFile, trial: Mapping[str, Any], line: int) -> Session:
    name = text_of(trial.get("trial_name"))
    told = trial.get("id")
    build = SessionBuilder(
        source.file, told if isinstance(told, str) and told else source.session_id(name), format=NAME, line=line,
        agent=_agent(name, text_of(trial.get("task_id"))),
    )  # fmt: skip
    if isinstance(trial.get("instruction"), str):
        build.turn("user", trial["instruction"], at=trial.get("agent_started_at"), line=line)
    mode = text_of(trial.get("failure_mode"))
    if mode not in _NO_FAULT:
        build.note(f"failure mode: {mode}")
        _phase(build, trial, mode, line)
    _tests(build, trial)
    build.usage(None, **usage_of(trial))
    for key in ("trial_started_at", "trial_ended_at"):
        build.time(trial.get(key))
    verdict = trial.get("is_resolved")
    outcome = (
        "success"
        if verdict is True
        else "failure"
        if verdict is False or mode not in _NO_FAULT
        else "unknown"
    )
    return build.build(
        task=text_of(trial.get("task_id")) or None, outcome=outcome,
        reward=float(verdict) if isinstance(verdict, bool) else None,
    )  # fmt: skip


def _agent(trial_name: str, task: str) -> str:
    """`TASK.1-of-1.AGENT-RUN`: the last part names the run; a date is no agent."""
    last = trial_name.removeprefix(task).rsplit(".", 1)[-1]
    return "" if not last or last[:2] == "20" or "-of-" in last else last


def _phase(build: SessionBuilder, trial: Mapping[str, Any], mode: str, line: int) -> None:
    phase = "test" if mode.startswith(("test", "parse")) else "agent"
    start, end = trial.get(f"{phase}_started_at"), trial.get(f"{phase}_ended_at")
    tool = "run_tests" if phase == "test" else "run_agent"
    call = build.call(tool, {"task": trial.get("task_id")}, at=start, line=line, agent="harness")
    typed = "Timeout" if mode.endswith("timeout") else "".join(word.title() for word in mode.split("_"))
    build.result(
        mode, call=call, at=end, line=line, inline=True, is_error=True, typed_error=typed, error=mode
    )


def _tests(build: SessionBuilder, trial: Mapping[str, Any]) -> None:
    tests = trial.get("parser_results")
    if not isinstance(tests, Mapping) or not tests:
        return
    passed = [name for name, verdict in tests.items() if text_of(verdict).lower() == "passed"]
    failed = [
        str(name) for name, verdict in tests.items() if text_of(verdict).lower() not in ("passed", "skipped")
    ]
    named = f": {', '.join(failed[:5])[:300]}" if failed else ""
    build.note(f"tests: {len(passed)} passed, {len(failed)} failed{named}")
