"""`sitoolkit friction`: transcripts, or the workspace's telemetry, come in; friction events go out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sitoolkit.cli.common import NAME_VALUE, TIME, emit, json_option, verb, with_workspace

if TYPE_CHECKING:
    from datetime import datetime

    from sitoolkit.workspace import Workspace

__all__ = ["friction"]


@verb(
    "friction",
    examples="sitoolkit friction\nsitoolkit friction runs/*.jsonl --threshold 4\nsitoolkit friction --for push:PERM=2 --json\nsitoolkit friction --build",
)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@with_workspace
@json_option
@click.option(
    "--threshold", type=click.IntRange(1), help="Failures of one tool and mode within a session (3)."
)
@click.option(
    "--for",
    "exceptions",
    multiple=True,
    type=NAME_VALUE,
    help="Another threshold: TOOL=N, TOOL:MODE=N or :MODE=N.",
)
@click.option(
    "--method",
    type=click.Choice(["count", "rate"]),
    default="count",
    help="A fixed count, or a test against the tool's own base rate (PATHs only).",
)
@click.option("--since", type=TIME, help="Only sessions with calls at or after this time (workspace only).")
@click.option(
    "--build",
    is_flag=True,
    help="Build a tool for each event that has none, or say why not (workspace only).",
)
def friction(
    ws: Workspace,
    as_json: bool,
    paths: tuple[str, ...],
    threshold: int | None,
    exceptions: tuple[tuple[str, str], ...],
    method: str,
    since: datetime | None,
    build: bool,
) -> None:
    """Find tools that fail again and again within a session.

    With PATHs the transcripts are read and nothing is kept; without, the workspace's telemetry is scanned, and an event
    that is new is fired once.
    """
    from sitoolkit.loops.friction import FrictionReport, detect_friction, scan_friction

    if build and paths:
        raise click.UsageError(
            "--build reads the workspace's telemetry: capture the transcripts first, then leave PATH out"
        )
    try:
        thresholds = {name: int(value) for name, value in exceptions}
    except ValueError as fault:
        raise click.BadParameter(
            f"the threshold of {exceptions} is not a whole number", param_hint="--for"
        ) from fault
    limit = threshold if threshold is not None else ws.settings.friction.threshold
    if not paths:
        report = scan_friction(
            ws, threshold=limit, thresholds={**ws.settings.friction.thresholds, **thresholds}, since=since
        )
    else:
        from sitoolkit.redaction import seal
        from sitoolkit.transcripts import read_sessions

        sessions = [seal(session, ws.redactor).session for session in read_sessions(list(paths))]
        calls = [call for session in sessions for call in session.calls]
        events = detect_friction(
            calls,
            limit,
            {**ws.settings.friction.thresholds, **thresholds},
            method="rate" if method == "rate" else "count",
        )
        report = FrictionReport(
            events=tuple(events),
            sessions=len(sessions),
            calls=len(calls),
            failures=sum(call.failed for call in calls),
        )
    if not build:
        emit(report, as_json, _text)
        return
    from sitoolkit.loops.toolsmith import build_waiting

    built = build_waiting(ws)
    emit(
        {**report.to_json(), "build": built.to_json()},
        as_json,
        f"{_text(report)}\n{builds_text(built)}",
    )


def _text(report: Any) -> str:
    if not report.events:
        return f"no friction in {report.sessions} sessions ({report.failures} of {report.calls} calls failed)"
    lines = [
        f"{event.tool}  {event.failure_mode}  {event.count} failures in {event.session_id}"
        + (f"  (fired {event.fired_before} times before)" if event.fired_before else "")
        for event in report.events
    ]
    return "\n".join([*lines, f"{len(report.events)} events, {len(report.fired)} of them new"])


def builds_text(report: Any) -> str:
    """What builds led to, a line a build, for the terminal."""
    lines = [
        f"{build.status}  {build.tool} {build.failure_mode}: "
        + (
            f"{build.built} v{build.version} turns {build.turned} recorded failures"
            if build.built
            else str(build.reason)
        )
        + (f"  (proposal {build.proposal_id})" if build.proposal_id else "")
        for build in (*report.recovered, *report.builds)
    ]
    waiting = f", {report.left} wait for the next run" if report.left else ""
    lines.append(
        f"{len(report.builds)} builds; {report.with_tool} have a tool, {report.tried} were tried before{waiting}"
    )
    return "\n".join(lines)
