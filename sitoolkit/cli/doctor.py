"""`doctor`: checks of the workspace, its stores and models go out, each with what mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sitoolkit.cli.common import emit, json_option, verb, with_workspace

if TYPE_CHECKING:
    from sitoolkit.doctor import DoctorReport
    from sitoolkit.workspace import Workspace

__all__ = ["doctor"]


@verb("doctor", examples="sitoolkit doctor\nsitoolkit doctor --only memory --json")
@with_workspace
@json_option
@click.option(
    "--only", multiple=True, metavar="NAME", help="Only checks whose name begins so; may be repeated."
)
def doctor(ws: Workspace, as_json: bool, only: tuple[str, ...]) -> None:
    """Check the workspace, its stores and its models; changes nothing. Ends with 1 when a check fails."""
    from sitoolkit.doctor import doctor as look

    report = look(ws, only or None)
    emit(report, as_json, _text)
    if not report.ok:
        raise click.exceptions.Exit(1)


def _text(report: DoctorReport) -> str:
    lines = []
    for check in report.checks:
        lines.append(f"{'ok  ' if check.ok else 'FAIL'}  {check.name:<16} {check.detail}")
        if check.fix and not check.ok:
            lines.append(f"{'':6}{'':<16}   -> {check.fix}")
    return "\n".join(lines)
