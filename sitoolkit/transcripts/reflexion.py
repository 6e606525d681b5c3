"""Reflexion logs: in come ReAct trials as text, or solved programming tasks, out goes a session for each trial.

Where defined: noahshinn/reflexion, `hotpotqa_runs/util.py` (`log_react_trial`: trials with Thought, Action, Observation)
and `programming_runs` (lines with prompt, implementations, reflections, `is_solved`). The results of its ALFWorld runs
hold no step and are no transcript.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import text_of
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.react import bracketed
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile

__all__ = ["NAME", "read", "sniff"]

NAME = "reflexion"
_STEP = re.compile(r"^(Thought|Action|Observation) (\d+): ?(.*)$")
_QUESTION = re.compile(r"^Question: (.*)$")
_TRIAL = re.compile(r"^BEGIN TRIAL (\d+)")
_VERDICT = re.compile(r"Answer is (CORRECT|INCORRECT)")
_NOT_FOUND = re.compile(
    r"^Could not find \[|^No more results|^Ill-formatted|^Invalid Action|^The last page Searched was not found"
)


def sniff(head: Head) -> Match | None:
    """Told by numbered steps of thought, action and observation, or by tasks with reflections and `is_solved`."""
    if head.layout == "text":
        kinds = {found.group(1) for line in head.text.split("\n") if (found := _STEP.match(line))}
        if {"Action", "Observation"} <= kinds:
            return Match(0.9, "numbered steps: Thought 1, Action 1, Observation 1")
        return None
    for value in head.dicts[:3]:
        if (
            "is_solved" in value
            and "prompt" in value
            and ("reflections" in value or "implementations" in value)
        ):
            return Match(0.9, "programming tasks with is_solved and reflections")
    return None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """A session for each question of each trial, or for each task."""
    if source.head.layout == "text":
        yield from _trials(source, report)
        return
    for number, (line, record) in enumerate(source.items(report), 1):
        if isinstance(record, Mapping) and "prompt" in record:
            yield _task(source, record, line, number)
        else:
            report.put_aside(source.file, line, "a record without a prompt")


def _task(source: TranscriptFile, record: Mapping[str, Any], line: int, number: int) -> Session:
    """Each implementation is what the agent said; the reflection on it is what it told itself."""
    build = SessionBuilder(
        source.file, source.session_id(record.get("task_id") or number), format=NAME, line=line
    )
    build.turn("user", text_of(record.get("prompt")), line=line)
    drafts = record["implementations"] if isinstance(record.get("implementations"), list) else []
    thoughts = record["reflections"] if isinstance(record.get("reflections"), list) else []
    for index in range(max(len(drafts), len(thoughts))):
        if index < len(drafts):
            build.turn("assistant", text_of(drafts[index]), line=line)
        if index < len(thoughts):
            build.turn("other", text_of(thoughts[index]), line=line, author="reflection")
    if record.get("solution") and (not drafts or drafts[-1] != record["solution"]):
        build.turn("assistant", text_of(record["solution"]), line=line)
    solved = record.get("is_solved")
    told = isinstance(solved, bool)
    return build.build(
        task=str(record.get("task_id") or "") or None, reward=float(solved is True) if told else None,
        outcome=("success" if solved else "failure") if told else "unknown",
    )  # fmt: skip


class _Trial:
    """One question of one trial while its lines are read."""

    def __init__(self, source: TranscriptFile, key: str, question: str, line: int) -> None:
        self.build = SessionBuilder(
            source.file, source.session_id(key), format=NAME, line=line, agent="react"
        )
        self.build.turn("user", question, line=line)
        self.question = question
        self.kind, self.words, self.line = "", [""], line
        self.call: Any = None
        self.thought = ""
        self.verdict: str | None = None

    def step(self, kind: str, words: str, line: int) -> None:
        self.end_step()
        self.kind, self.words, self.line = kind, [words], line

    def end_step(self) -> None:
        text = "\n".join(self.words).strip()
        if self.kind == "Thought":
            self.thought = text
        elif self.kind == "Action":
            turn = self.build.turn("assistant", self.thought, line=self.line)
            self.thought = ""
            pair = bracketed(text) or ("unknown", {"input": text})
            self.call = self.build.call(pair[0], pair[1], line=self.line, turn=turn)
        elif self.kind == "Observation" and self.call is not None:
            verdict = _VERDICT.search(text)
            failed = bool(_NOT_FOUND.match(text))
            self.build.result(
                text, call=self.call, line=self.line, inline=True, is_error=True if failed else None,
                typed_error="NotFound" if text.startswith("Could not find") else None,
            )  # fmt: skip
            self.call = None
            self.verdict = verdict.group(1) if verdict else self.verdict
        self.kind, self.words = "", [""]

    def finish(self) -> Session:
        self.end_step()
        if self.thought:
            self.build.turn("assistant", self.thought, line=self.line)
        outcome = {"CORRECT": "success", "INCORRECT": "failure"}.get(self.verdict or "", "unknown")
        reward = None if self.verdict is None else float(self.verdict == "CORRECT")
        return self.build.build(task=self.question, outcome=outcome, reward=reward)


def _trials(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    trial, number, seen = "1", 0, False
    open_trial: _Trial | None = None
    for line, raw in source.lines(report):
        text = raw.decode("utf-8", "replace").rstrip("\r\n")
        begun, asked, step = _TRIAL.match(text), _QUESTION.match(text), _STEP.match(text)
        ends = (
            begun
            or asked
            or (text.startswith(("#####", "-----")) and open_trial is not None and open_trial.kind)
        )
        if open_trial is not None and ends:
            yield open_trial.finish()
            open_trial = None
        if begun:
            trial, number = begun.group(1), 0
        elif asked:
            number += 1
            seen = True
            open_trial = _Trial(source, f"trial{trial}.{number}", asked.group(1), line)
        elif step and open_trial is not None:
            open_trial.step(step.group(1), step.group(3), line)
        elif open_trial is not None and open_trial.kind:
            open_trial.words.append(text)
    if open_trial is not None:
        yield open_trial.finish()
    if not seen:
        report.put_aside(source.file, None, "steps without a question")
