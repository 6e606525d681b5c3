"""`review list|show|approve|reject|defer|escalate|undo`: the gate, for scripts; `maintenance` and the panel use the same functions."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sitoolkit.cli.common import JSON, emit, group, json_option, note, with_workspace

if TYPE_CHECKING:
    from sitoolkit.records import Proposal
    from sitoolkit.review import BulkOutcome, Card, Outcome
    from sitoolkit.workspace import Workspace

__all__ = ["card_text", "review"]

review = group(
    "review",
    help="Decide on proposals: nothing that changes an agent's behaviour for good happens without a named person.",
    examples=(
        "sitoolkit review list\nsitoolkit review show prop_1a2b\nsitoolkit review approve prop_1a2b --by ana\n"
        "sitoolkit review reject prop_1a2b --by ana --reason 'not ours'\nsitoolkit review undo prop_1a2b --by ana"
    ),
)
_BY = click.option("--by", required=True, metavar="NAME", help="Who decides.")


@review.command(
    "list", examples="sitoolkit review list --type usage-guide --json\nsitoolkit review list --all"
)
@with_workspace
@json_option
@click.option("--all", "everything", is_flag=True, help="Decided ones too.")
@click.option("--state", multiple=True, help="Only this state; may be repeated.")
@click.option("--type", "kind", help="Only this type, as usage-guide.")
@click.option("--risk", type=click.Choice(["low", "medium", "high"]), help="Only this risk.")
@click.option("--tool", help="Only what is about this tool.")
@click.option("--run", "run_id", help="Only what this run proposed.")
@click.option("--text", help="Only those in which these words occur.")
@click.option(
    "--min-count", type=int, default=1, show_default=True, help="Only those proposed so many times."
)
def list_(
    ws: Workspace, as_json: bool, everything: bool, state: tuple[str, ...], kind: str | None, risk: str | None, tool: str | None,
    run_id: str | None, text: str | None, min_count: int,
) -> None:  # fmt: skip
    """List proposals with their state and the hash that an approval needs."""
    from sitoolkit.review import OPEN_STATES, list_proposals

    states = None if everything else list(state) or OPEN_STATES
    found = list_proposals(
        ws, states=states, type=kind, risk=risk, tool=tool, run_id=run_id, text=text, min_count=min_count
    )
    emit(
        [_row(proposal) for proposal in found],
        as_json,
        "\n".join(map(_line, found)) or "nothing waits for a decision",
    )


def _row(proposal: Proposal) -> dict[str, Any]:
    return {**proposal.to_json(), "hash": proposal.hash}


def _line(proposal: Proposal) -> str:
    return (
        f"{proposal.id}  {proposal.state:<11} {proposal.type:<14} risk {proposal.risk:<6} ×{proposal.seen_count}  "
        f"{len(proposal.evidence)} evidence  {proposal.title[:90]}"
    )


@review.command("show", examples="sitoolkit review show prop_1a2b --json")
@with_workspace
@json_option
@click.argument("proposal_id")
def show_(ws: Workspace, as_json: bool, proposal_id: str) -> None:
    """Show one proposal: what would change, against what, and the evidence down to file and line."""
    from sitoolkit.review import show

    card = show(ws, proposal_id)
    value = {**card.to_json(), "events": [entry.to_json() for entry in ws.proposals.events(proposal_id)]}
    emit(value, as_json, card_text(card))


def card_text(card: Card) -> str:
    """A card as text for a terminal."""
    proposal = card.proposal
    lines = [
        f"{proposal.title}",
        f"  {proposal.type}, {proposal.state}, risk {proposal.risk}, {proposal.confidence} confidence, proposed {proposal.seen_count} times by {proposal.proposed_by or '?'}",
        f"  hash {card.hash}",
    ]
    if proposal.note:
        lines.append(f"  note: {proposal.note}")
    if card.stale:
        lines.append(f"  STALE: {card.stale}")
    if proposal.expected_impact:
        impact = proposal.expected_impact
        lines.append(
            f"  expected: {impact.get('estimate')} (95 % {impact.get('low')} to {impact.get('high')}); {impact.get('basis', '')}"
        )
    if proposal.description:
        lines += ["", proposal.description]
    if card.hidden:
        lines.append(f"  HIDDEN CHARACTERS: {', '.join(card.hidden)}")
    if card.against:
        lines += ["", f"Change against {card.against_id}:"]
        lines += list(
            difflib.unified_diff(card.against.splitlines(), card.text.splitlines(), lineterm="", n=2)
        )[2:]
    elif card.text.strip() != proposal.description.strip():
        lines += ["", "Proposed:", *(f"  {line}" for line in card.text.splitlines())]
    for conflict in card.conflicts:
        lines.append(f"  conflicts? guide {conflict['intent']} speaks of {', '.join(conflict['names'])}")
    lines += ["", f"Evidence ({len(proposal.evidence)}):"]
    for line in card.evidence:
        where = f"{line.file}:{line.line}" if line.found and line.file else "" if line.found else "NOT FOUND"
        lines.append(
            f"  {line.id[:20]}  {line.tool} {line.outcome} {line.failure_mode or ''}  {where}  {line.text[:100]}"
        )
    if card.evidence_left_out:
        lines.append(f"  … and {card.evidence_left_out} more")
    return "\n".join(lines)


def _outcome(outcome: Outcome, as_json: bool) -> None:
    proposal = outcome.proposal
    value = {**outcome.to_json(), "state": str(proposal.state), "hash": proposal.hash}
    emit(
        value,
        as_json,
        "\n".join([f"{proposal.id} is {proposal.state}", *(f"  {line}" for line in outcome.did)]),
    )


@review.command(
    "approve",
    examples='sitoolkit review approve prop_1a2b --by ana --hash 5f3c…\nsitoolkit review approve prop_1a2b --by ana --edit \'{"body": "…"}\'',
)
@with_workspace
@json_option
@click.argument("proposal_id")
@_BY
@click.option(
    "--hash",
    "seen_hash",
    metavar="HASH",
    help="The hash that `review show` printed; without it, the present one is shown and taken.",
)
@click.option("--edit", type=JSON, metavar="JSON", help="Payload values that you changed.")
@click.option(
    "--edit-file",
    type=click.Path(exists=True, dir_okay=False),
    help="A file with the new text of a guide, prompt or fact.",
)
@click.option("--reason", default="", help="Why.")
def approve_(
    ws: Workspace,
    as_json: bool,
    proposal_id: str,
    by: str,
    seen_hash: str | None,
    edit: Any,
    edit_file: str | None,
    reason: str,
) -> None:
    """Approve a proposal and carry it out, whole or not at all."""
    from sitoolkit.review import approve, show

    card = show(ws, proposal_id)
    if seen_hash is None:
        note(card_text(card))
    edits = dict(edit or {})
    if edit_file:
        key = "body" if card.proposal.type == "usage-guide" else "text"
        edits[key] = Path(edit_file).read_text(encoding="utf-8")
    _outcome(
        approve(ws, proposal_id, by=by, seen_hash=seen_hash or card.hash, edits=edits or None, reason=reason),
        as_json,
    )


@review.command("reject", examples="sitoolkit review reject prop_1a2b --by ana --reason 'not ours'")
@with_workspace
@json_option
@click.argument("proposal_id")
@_BY
@click.option("--reason", required=True, help="Why; shown when it comes back with new evidence.")
def reject_(ws: Workspace, as_json: bool, proposal_id: str, by: str, reason: str) -> None:
    """Reject a proposal; it comes back only with new evidence."""
    from sitoolkit.review import reject

    _outcome(reject(ws, proposal_id, by=by, reason=reason), as_json)


@review.command("defer", examples="sitoolkit review defer prop_1a2b --by ana")
@with_workspace
@json_option
@click.argument("proposal_id")
@_BY
@click.option("--reason", default="", help="Why.")
def defer_(ws: Workspace, as_json: bool, proposal_id: str, by: str, reason: str) -> None:
    """Put a proposal behind the others."""
    from sitoolkit.review import defer

    _outcome(defer(ws, proposal_id, by=by, reason=reason), as_json)


@review.command(
    "escalate", examples="sitoolkit review escalate prop_1a2b --by ana --reason 'needs the network team'"
)
@with_workspace
@json_option
@click.argument("proposal_id")
@_BY
@click.option("--reason", required=True, help="Why, and to whom.")
def escalate_(ws: Workspace, as_json: bool, proposal_id: str, by: str, reason: str) -> None:
    """Leave a proposal to someone else, with high risk."""
    from sitoolkit.review import escalate

    _outcome(escalate(ws, proposal_id, by=by, reason=reason), as_json)


@review.command(
    "undo",
    examples="sitoolkit review undo prop_1a2b --by ana\nsitoolkit review undo --group group_1a2b --by ana",
)
@with_workspace
@json_option
@click.argument("proposal_id", required=False)
@_BY
@click.option("--group", "group_id", help="Take a whole bulk decision back.")
@click.option("--reason", default="", help="Why.")
def undo_(
    ws: Workspace, as_json: bool, proposal_id: str | None, by: str, group_id: str | None, reason: str
) -> None:
    """Take a decision back: what it changed is as it was before."""
    from sitoolkit.review import undo, undo_group

    if group_id:
        _bulk(undo_group(ws, group_id, by=by), as_json)
        return
    if proposal_id is None:
        raise click.UsageError("name a proposal, or --group")
    _outcome(undo(ws, proposal_id, by=by, reason=reason), as_json)


@review.command("reopen", examples="sitoolkit review reopen prop_1a2b --by ana")
@with_workspace
@json_option
@click.argument("proposal_id")
@_BY
def reopen_(ws: Workspace, as_json: bool, proposal_id: str, by: str) -> None:
    """Put an undone or failed proposal back into the queue."""
    from sitoolkit.review import reopen

    proposal = reopen(ws, proposal_id, by=by)
    emit(_row(proposal), as_json, _line(proposal))


def _bulk(outcome: BulkOutcome, as_json: bool) -> None:
    lines = [f"{outcome.group}: {len(outcome.done)} done, {len(outcome.left_out)} left out"]
    lines += [f"  {proposal_id}: {why}" for proposal_id, why in outcome.left_out.items()]
    emit(outcome, as_json, "\n".join(lines))
