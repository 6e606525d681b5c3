"""`sitoolkit capture PATH…`: transcripts come in, counts of what became of them go out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sitoolkit.cli.common import emit, json_option, note, paths_argument, progress, verb, with_workspace

if TYPE_CHECKING:
    from sitoolkit.loops.capture import CaptureReport
    from sitoolkit.workspace import Workspace


@verb(
    "capture",
    examples="sitoolkit capture ~/transcripts\nsitoolkit capture run.jsonl --format openai --agent ops\nsitoolkit capture runs/ --json",
)
@paths_argument
@with_workspace
@json_option
@click.option("--format", "format_name", metavar="NAME", help="Read as this format; else the content tells.")
@click.option("--agent", metavar="NAME", help="The agent, for transcripts that name none.")
@click.option("--project", metavar="NAME", help="The project, for transcripts that name none.")
@click.option("--team", metavar="NAME", help="The team, for transcripts that name none.")
@click.option("--org", metavar="NAME", help="The organisation, for transcripts that name none.")
def capture(
    paths: tuple[str, ...],
    ws: Workspace,
    as_json: bool,
    format_name: str | None,
    agent: str | None,
    project: str | None,
    team: str | None,
    org: str | None,
) -> None:
    """Take transcripts in: telemetry for every call, and a memory for each call that changed something.

    Secrets are removed before anything is stored. Reading the same transcript again changes nothing.
    """
    from sitoolkit.loops.capture import capture_sessions, placed
    from sitoolkit.transcripts import ReadReport, read_sessions

    read = ReadReport()
    sessions = progress(read_sessions(paths, format=format_name, report=read), "sessions")
    placed_sessions = (
        placed(session, agent=agent, project=project, team=team, org=org) for session in sessions
    )
    report = capture_sessions(ws, placed_sessions, read)
    for item in report.set_aside[: 0 if as_json else 20]:
        where = f"{item['file']}:{item['line']}" if item["line"] else item["file"]
        note(f"set aside {where}: {item['reason']}")
    emit(report, as_json, _told)


def _told(report: CaptureReport) -> str:
    got = report.captured
    outcomes = ", ".join(f"{count} {name}" for name, count in report.outcomes.items() if count)
    lines = [
        f"{report.sessions} sessions of {report.files} files with {report.calls} calls ({outcomes or 'none'})",
        f"{report.writes} changed something and succeeded: {got.written} new precedents, {got.repeated} repeats, "
        f"{got.blocked} blocked, {got.failed} failed",
    ]
    if report.redactions:
        kinds = ", ".join(f"{count} {kind}" for kind, count in report.redactions.items())
        lines.append(f"secrets removed: {kinds}")
    if report.set_aside:
        lines.append(f"{len(report.set_aside)} records set aside")
    if report.unknown_types:
        lines.append(
            "record types not known: "
            + ", ".join(f"{kind} × {n}" for kind, n in report.unknown_types.items())
        )
    if got.written:
        lines.append("next: sitoolkit distill")
    return "\n".join(lines)
