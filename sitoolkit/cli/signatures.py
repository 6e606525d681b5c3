"""`sitoolkit signatures`: the workspace's failed calls and log files come in; ranked error signatures go out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sitoolkit.cli.common import emit, json_option, note, verb, with_workspace

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["signatures"]


@verb(
    "signatures",
    examples="sitoolkit signatures --logs /var/log/app.log\nsitoolkit signatures --hours 168 --tier medium --json",
)
@with_workspace
@json_option
@click.option("--logs", multiple=True, metavar="PATH", help="A log file, folder or glob; may be given again.")
@click.argument("more_logs", nargs=-1, metavar="[LOG]...")
@click.option("--hours", type=click.FloatRange(0, min_open=True), help="Length of the window (24).")
@click.option("--tier", type=click.Choice(["small", "medium", "large"]), help="Show 15, 30 or 60 signatures.")
@click.option("--full", is_flag=True, help="Read whole files instead of what is new in their last 2 MB.")
def signatures(
    ws: Workspace,
    as_json: bool,
    logs: tuple[str, ...],
    more_logs: tuple[str, ...],
    hours: float | None,
    tier: str | None,
    full: bool,
) -> None:
    """Group error messages of telemetry and logs, and count them."""
    from sitoolkit.loops.signatures import scan_error_signatures

    scan = scan_error_signatures(ws, logs=[*logs, *more_logs], hours=hours, tier=tier, full=full)
    for one in scan.set_aside:
        note(f"{one.file}: {one.reason}")
    emit(scan, as_json, _text)


def _text(scan: Any) -> str:
    if not scan.signatures:
        return f"no errors in the last {scan.since_hours:g} hours"
    lines = [
        f"{one.count:>7}  {one.severity:<8}  {'new ' if scan.details[one.id]['novel'] else '    '}{one.id}  {one.signature[:160]}"
        for one in scan.signatures
    ]
    more = f" of {scan.distinct_signatures}" if scan.truncated else ""
    return "\n".join([*lines, f"{scan.total_events} errors, {scan.shown}{more} signatures shown"])
