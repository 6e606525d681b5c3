"""The whole loop on transcripts with known truth: a workspace comes in, what was learned goes out, step by step.

Each step calls the public verb of the same name, so the demo shows nothing that a user could not type.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from sitoolkit.records import Reader, Record
from sitoolkit.shipped import shipped

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["QUESTION", "DemoStep", "demo_steps", "run_demo"]

QUESTION = "Register a new redis service for the billing team"
_READER = Reader(agent="ops", project="platform")
_SHOWN = 4  # items a step prints of what it learned


class DemoStep(Record):
    """One verb of the loop: what it was called with, what it gave, and how that reads."""

    verb: str
    title: str
    lines: tuple[str, ...] = ()
    result: dict[str, Any] = Field(default_factory=dict)  # the verb's own report
    seconds: float = 0.0


def run_demo(ws: Workspace, data: Path | None = None) -> list[DemoStep]:
    """Run all steps and return them.

    >>> [step.verb for step in run_demo(Workspace("demo-workspace"))][:3]
    ['guides import', 'capture', 'corrections']

    Args:
        ws: where to learn; a new one shows everything as new, a used one as known.
        data: folder with transcripts; those that are shipped by default.
    """
    return list(demo_steps(ws, data))


def demo_steps(ws: Workspace, data: Path | None = None) -> Iterator[DemoStep]:
    """The steps one after another, each as soon as it is done."""
    transcripts = data or shipped("data") / "transcripts"
    for module, step in _STEPS:
        if find_spec(module) is None:
            continue  # a build without this verb
        started = time.monotonic()
        done = step(ws, transcripts)
        yield done.model_copy(update={"seconds": round(time.monotonic() - started, 2)})


def _cut(text: str, width: int = 150) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def _guides(ws: Workspace, transcripts: Path) -> DemoStep:
    from sitoolkit.guides import import_guides

    report = import_guides(ws, shipped("guides"))
    lines = [
        f"{report.imported} directives imported, {report.unchanged} known, {len(report.invalid)} invalid"
    ]
    return DemoStep(
        verb="guides import", title="Directives of people", lines=tuple(lines), result=report.to_json()
    )


def _capture(ws: Workspace, transcripts: Path) -> DemoStep:
    from sitoolkit.loops.capture import capture_sessions
    from sitoolkit.transcripts import ReadReport, read_sessions

    read = ReadReport()
    report = capture_sessions(ws, read_sessions(transcripts, report=read), read)
    outcomes = ", ".join(f"{count} {name}" for name, count in report.outcomes.items() if count)
    formats = ", ".join(f"{count} {name}" for name, count in sorted(read.formats.items()))
    got = report.captured
    lines = [
        f"{report.sessions} sessions in {report.files} files ({formats})",
        f"{report.calls} tool calls: {outcomes}",
        f"{report.writes} changed something and succeeded: {got.written} precedents written, {got.repeated} were known",
        f"{sum(report.redactions.values())} secrets removed: "
        + (", ".join(f"{kind} {count}" for kind, count in report.redactions.items()) or "none"),
    ]
    return DemoStep(verb="capture", title="Transcripts in", lines=tuple(lines), result=report.to_json())


def _corrections(ws: Workspace, transcripts: Path) -> DemoStep:
    from sitoolkit.loops.corrections import learn_facts
    from sitoolkit.transcripts import read_sessions

    report = learn_facts(ws, read_sessions(transcripts))
    facts = ws.memory.rows(category="learned_fact", status="active")
    lines = [f"{len(facts)} facts stand"]
    lines += [f"[{row.scope}] {_cut(row.text)}" for row in facts[:_SHOWN]]
    return DemoStep(
        verb="corrections", title="What users corrected", lines=tuple(lines), result=report.to_json()
    )


def _distill(ws: Workspace, transcripts: Path) -> DemoStep:
    from sitoolkit.loops.distill import distill_patterns

    report = distill_patterns(ws)
    claims = sum(len(pattern.claims) for pattern in report.patterns)
    lines = [f"{len(report.patterns)} patterns with {claims} claims, each with its calls as evidence"]
    best = sorted(report.patterns, key=lambda p: (p.tool != "register_service", -p.confidence, p.tool))
    for pattern in best[:_SHOWN]:
        lines.append("")
        lines.append(
            f"{pattern.tool}  [{pattern.scope}]  confidence {pattern.confidence:.2f}  ({pattern.note})"
        )
        lines += [f"  - {_cut(claim.text)}  {claim.support} of {claim.of}" for claim in pattern.claims]
    lines += [f"note: {note}" for note in report.notes]
    return DemoStep(
        verb="distill", title="Conventions, computed", lines=tuple(lines), result=report.to_json()
    )


def _friction(ws: Workspace, transcripts: Path) -> DemoStep:
    from sitoolkit.loops.friction import detect_friction

    events = list(detect_friction(ws.telemetry.invocations(), threshold=ws.settings.friction.threshold))
    lines = [
        f"{len(events)} times a tool failed {ws.settings.friction.threshold} times the same way in one session"
    ]
    lines += [
        f"{event.tool}: {event.failure_mode} × {event.count} in {event.session_id}"
        for event in events[:_SHOWN]
    ]
    result = {"events": [event.to_json() for event in events]}
    return DemoStep(verb="friction", title="Where the agent struggled", lines=tuple(lines), result=result)


def _lessons(ws: Workspace, transcripts: Path) -> DemoStep:
    from sitoolkit.loops.lessons import learn_from_failures

    report = learn_from_failures(ws)
    lessons = ws.memory.rows(category="reflection", status="active")
    lines = [f"{len(lessons)} lessons from failed calls beside successful ones"]
    lines += [f"- {_cut(row.text, 190)}" for row in lessons]
    return DemoStep(verb="lessons", title="What failures teach", lines=tuple(lines), result=report.to_json())


def _recall(ws: Workspace, transcripts: Path) -> DemoStep:
    from sitoolkit.recall import recall

    found = recall(ws, QUESTION, _READER)
    lines = [f"question: {QUESTION}", "reader: agent ops in project platform", "", *found.text.splitlines()]
    return DemoStep(verb="recall", title="Back into a prompt", lines=tuple(lines), result=found.to_json())


def _decay(ws: Workspace, transcripts: Path) -> DemoStep:
    from sitoolkit.loops.decay import plan_decay

    plan = plan_decay(ws)
    shown = plan.to_json()
    counts = {key: len(value) if isinstance(value, list | tuple) else value for key, value in shown.items()}
    wanted = ("seen", "kept", "demoted", "expired", "retired", "promoted")
    lines = [
        ", ".join(f"{counts[name]} {name}" for name in wanted if name in counts)
        + " (a plan; nothing applied)"
    ]
    return DemoStep(verb="decay", title="What would fade", lines=tuple(lines), result=shown)


def _report(ws: Workspace, transcripts: Path) -> DemoStep:
    from sitoolkit.views.report import write_report

    path = write_report(ws)
    return DemoStep(verb="report", title="The report", lines=(str(path),), result={"path": str(path)})


_STEPS: tuple[tuple[str, Callable[[Workspace, Path], DemoStep]], ...] = (
    ("sitoolkit.guides", _guides),
    ("sitoolkit.loops.capture", _capture),
    ("sitoolkit.loops.corrections", _corrections),
    ("sitoolkit.loops.distill", _distill),
    ("sitoolkit.loops.friction", _friction),
    ("sitoolkit.loops.lessons", _lessons),
    ("sitoolkit.recall", _recall),
    ("sitoolkit.loops.decay", _decay),
    ("sitoolkit.views.report", _report),
)
