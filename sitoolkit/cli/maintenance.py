"""`maintenance`: looks over the last sessions and proposes; on a terminal it reviews the proposals one by one."""

from __future__ import annotations

import getpass
import sys
from datetime import datetime
from typing import TYPE_CHECKING

import click

from sitoolkit.cli.common import TIME, emit, json_option, note, verb, with_workspace
from sitoolkit.errors import SitoolkitError

if TYPE_CHECKING:
    from sitoolkit.loops.maintenance import MaintenanceReport
    from sitoolkit.records import Proposal
    from sitoolkit.workspace import Workspace

__all__ = ["maintenance"]

_KEYS = "[A]pprove  [R]eject  [S]kip  [V]iew evidence  [E]dit  [U]ndo  [Q]uit"


@verb(
    "maintenance",
    examples="sitoolkit maintenance --sessions 20 --since 2026-01-01\nsitoolkit maintenance --json",
)
@with_workspace
@json_option
@click.option(
    "--sessions",
    type=click.IntRange(5),
    default=None,
    metavar="N",
    help="How many of the newest sessions; at least 5.",
)
@click.option(
    "--since",
    type=TIME,
    default=None,
    metavar="DATE",
    help="Leave older sessions out; a date is its first instant in UTC.",
)
@click.option("--by", metavar="NAME", help="Who decides; else the name of the account.")
def maintenance(
    ws: Workspace, as_json: bool, sessions: int | None, since: datetime | None, by: str | None
) -> None:
    """Propose what the last sessions call for, and review it here when this is a terminal."""
    from sitoolkit.loops.maintenance import propose_maintenance
    from sitoolkit.review import list_proposals

    report = propose_maintenance(ws, sessions, since)
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        emit(report, as_json, _summary(report))
        return
    click.echo(f"Analyzing {report.sessions} sessions across {report.invocations} tool invocations...\n")
    review_one_by_one(ws, list_proposals(ws), by or getpass.getuser())


def _summary(report: MaintenanceReport) -> str:
    lines = [
        f"{report.sessions} sessions, {report.invocations} tool invocations, {len(report.patterns)} patterns"
    ]
    lines += [f"  {p.id}  {p.confidence} confidence  {p.title}: {p.description}" for p in report.proposals]
    return "\n".join([*lines, "decide with: sitoolkit review list"] if report.proposals else lines)


def review_one_by_one(ws: Workspace, proposals: list[Proposal], by: str) -> None:
    """Show proposals in turn and take a key for each; every decision is saved at once."""
    from sitoolkit import review
    from sitoolkit.cli.review import card_text

    decided: list[str] = []
    place = 0
    while place < len(proposals):
        card = review.show(ws, proposals[place].id)
        proposal = card.proposal
        click.echo(
            f"Proposal {place + 1} of {len(proposals)} ({proposal.confidence.upper()} CONFIDENCE): {proposal.title}"
        )
        click.echo(f"  - {proposal.description or card.text[:200]}")
        key = click.prompt(f"  {_KEYS}?", default="s", show_default=False).strip().lower()[:1]
        try:
            if key == "v":
                click.echo(card_text(card))
                continue
            if key == "a":
                outcome = review.approve(ws, proposal.id, by=by, seen_hash=card.hash)
                click.echo("\nImplementing...done. " + "; ".join(outcome.did) + "\n")
                decided.append(proposal.id)
            elif key == "r":
                review.reject(ws, proposal.id, by=by, reason=click.prompt("  Reason"))
                decided.append(proposal.id)
            elif key == "e":
                edited = click.edit(card.text)
                if edited is None:
                    continue
                name = "body" if proposal.type == "usage-guide" else "text"
                outcome = review.approve(
                    ws, proposal.id, by=by, seen_hash=card.hash, edits={name: edited.strip()}
                )
                click.echo("\nImplementing your text...done. " + "; ".join(outcome.did) + "\n")
                decided.append(proposal.id)
            elif key == "u":
                if decided:
                    if review.undo(ws, decided[-1], by=by).proposal.state != "pending":
                        review.reopen(ws, decided[-1], by=by)
                    click.echo(f"  {decided.pop()} is as it was")
                    place = max(0, place - 1)
                else:
                    click.echo("  nothing to undo yet")
                continue
            elif key == "q":
                break
            elif key != "s":
                click.echo(f"  {key!r} is none of the keys")
                continue
        except SitoolkitError as fault:
            note(f"  {fault}")
            continue
        place += 1
    click.echo(f"{len(decided)} decided, {len(proposals) - len(decided)} left")
