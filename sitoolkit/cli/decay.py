"""`decay`: the plan of what to expire, demote, keep and promote goes out; without `--dry-run` it is applied."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from sitoolkit.cli.common import TIME, emit, json_option, note, verb, with_workspace

if TYPE_CHECKING:
    from sitoolkit.loops.decay import DecayPlan
    from sitoolkit.workspace import Workspace

__all__ = ["decay"]


@verb(
    "decay",
    examples="sitoolkit decay --dry-run\nsitoolkit decay\nsitoolkit decay --dry-run --now 2027-01-01 --json",
)
@with_workspace
@json_option
@click.option("--dry-run", is_flag=True, help="Show the plan with its reasons; change nothing.")
@click.option(
    "--now", type=TIME, metavar="TIME", help="Judge as at this time; a date is its first instant in UTC."
)
def decay(ws: Workspace, as_json: bool, dry_run: bool, now: datetime | None) -> None:
    """Expire, demote, keep, retire and promote memories; every change has its reason and is undone by `memory undo`."""
    from sitoolkit.loops.decay import apply_decay, plan_decay

    plan = plan_decay(ws, now)
    for failure in plan.failed:
        note(f"curator {failure['curator']} skipped: {failure['reason']}")
    value = {**plan.to_json(), "applied": None}
    if not dry_run:
        report = apply_decay(ws, plan)
        value["applied"] = report.to_json()
        for skipped in report.skipped:
            note(f"{skipped['memory_id']} skipped: {skipped['reason']}")
    emit(value, as_json, _text(plan, dry_run))


def _text(plan: DecayPlan, dry_run: bool) -> str:
    lines = []
    for name in ("expired", "retired", "demoted", "kept", "promoted", "proposed"):
        actions = getattr(plan, name)
        lines.append(f"{name} {len(actions)}")
        lines += [
            f"  {action.memory_id or action.data.get('tool', '')}  {action.scope}  {action.reason}"
            + (f"  | {action.text[:60]}" if action.text else "")
            for action in actions
        ]
    what = "planned, nothing changed" if dry_run else "applied"
    lines.append(f"{plan.seen} memories seen, {plan.untouched} untouched; {what}")
    return "\n".join(lines)
