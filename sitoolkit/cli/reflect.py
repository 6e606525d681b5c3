"""`sitoolkit reflect`: sessions of the workspace's telemetry come in; one reflection each goes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sitoolkit.cli.common import emit, emit_lines, json_option, verb, with_workspace

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["reflect"]


@verb("reflect", examples="sitoolkit reflect\nsitoolkit reflect ops-002 --json\nsitoolkit reflect --last 5")
@click.argument("session_ids", nargs=-1, metavar="[SESSION_ID]...")
@with_workspace
@json_option
@click.option(
    "--last",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Without an id: so many of the newest sessions.",
)
@click.option("--lines", is_flag=True, help="Print one JSON object a line.")
def reflect(ws: Workspace, as_json: bool, session_ids: tuple[str, ...], last: int, lines: bool) -> None:
    """Say what worked and failed in sessions, each statement with its evidence.

    With --json one session gives one object, several a list.
    """
    from sitoolkit.loops.reflection import newest_sessions, reflect_on_session

    chosen = session_ids or newest_sessions(ws, last)
    found = [reflect_on_session(ws, one) for one in chosen]
    if lines:
        emit_lines(found)
    else:
        emit(
            found[0] if len(found) == 1 else found,
            as_json,
            "\n\n".join(_text(one) for one in found) or "no sessions yet",
        )


def _text(reflection: Any) -> str:
    digest = reflection.telemetry_digest
    lines = [f"{reflection.session_id}: {digest['calls']} calls, {digest['outcomes']}"]
    lines += [f"  worked  {one['strategy']}: {one['why_effective']}" for one in reflection.successes]
    lines += [
        f"  failed  {one['tool']} {one['failure_mode']} {one['count']} times: {one['hypothesis']}"
        for one in reflection.failures
    ]
    lines += [f"  change  {one['type']}: {one['description']}" for one in reflection.proposals]
    if reflection.dropped_without_evidence:
        lines.append(f"  {reflection.dropped_without_evidence} proposals dropped: no evidence")
    return "\n".join(lines)
