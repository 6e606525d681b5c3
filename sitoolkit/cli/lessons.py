"""`sitoolkit lessons`: failures of the workspace's telemetry come in; lessons that expire, or proposals, go out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sitoolkit.cli.common import emit, json_option, verb, with_workspace

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["lessons"]


@verb(
    "lessons",
    examples="sitoolkit lessons\nsitoolkit lessons --hours 24 --propose\nsitoolkit lessons --effects --json",
)
@with_workspace
@json_option
@click.option("--hours", type=click.FloatRange(0, min_open=True), help="Length of the window (168).")
@click.option("--limit", type=click.IntRange(1), help="Most lessons of one run, the surest first (50).")
@click.option(
    "--scope",
    type=click.Choice(["global", "origin"]),
    help="Who sees them: everyone, or the agents that failed.",
)
@click.option(
    "--propose", is_flag=True, help="Put them before a person as guide drafts instead of writing them."
)
@click.option("--dry-run", is_flag=True, help="Compute, write nothing.")
@click.option("--effects", is_flag=True, help="Show instead whether the lessons that stand have helped.")
def lessons(
    ws: Workspace,
    as_json: bool,
    hours: float | None,
    limit: int | None,
    scope: str | None,
    propose: bool,
    dry_run: bool,
    effects: bool,
) -> None:
    """Turn failures into lessons that expire.

    A lesson names the condition under which a tool fails, found by contrast with the calls that succeeded.
    """
    from sitoolkit.loops.lessons import learn_from_failures, lesson_effects

    if effects:
        found = lesson_effects(ws)
        emit(
            {"effects": [one.to_json() for one in found]}, as_json, _effects([one.to_json() for one in found])
        )
        return
    report = learn_from_failures(ws, hours=hours, limit=limit, scope=scope, propose=propose, dry_run=dry_run)
    emit(report, as_json, _text)


def _text(report: Any) -> str:
    lines = [one.text for one in report.lessons]
    for one in report.no_contrast:
        lines.append(f"no lesson on {one.tool}, {one.failures} times {one.signature[:80]!r}: {one.reason}")
    verb_used = "proposed" if report.proposals else "lessons"
    return "\n".join(
        [
            *lines,
            f"{report.failures} failures in {report.runs_failed} of {report.runs_seen} sessions: {len(report.lessons)} {verb_used}, "
            f"{report.skipped_near_duplicates} known already",
        ]
    )


def _effects(found: list[dict[str, Any]]) -> str:
    if not found:
        return "no lesson stands"
    return "\n".join(
        f"{one['verdict']:<15} {one['tool']}: {one['before'][0]} of {one['before'][1]} calls before, "
        f"{one['after'][0]} of {one['after'][1]} after"
        + (
            f", change {one['change']:+.0%} [{one['low']:+.0%}, {one['high']:+.0%}]"
            if one["change"] is not None
            else ""
        )
        for one in found
    )
