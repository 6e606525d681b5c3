"""The gate: a decision of a named person on what they saw comes in; what changed, and how to take it back, goes out.

Nothing else in sitoolkit writes decisions. A decision is bound to the hash of what was shown, is refused in unattended
code, and is written to the proposal log with its steps before the first of them is taken: a stop in between is finished
by `recover`, so that all of an approval stands or nothing of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from sitoolkit.attended import who_runs_unattended
from sitoolkit.errors import (
    AlreadyDecided,
    ApprovalRequired,
    NotFoundError,
    ParameterError,
    ProposalError,
    SitoolkitError,
    StaleProposal,
)
from sitoolkit.records import Decision, Proposal, ProposalState, Record, digest
from sitoolkit.review.card import Card, make_card
from sitoolkit.review.effects import Step, apply_steps, plan_steps, revert_steps

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = [
    "OPEN_STATES",
    "BulkOutcome",
    "Outcome",
    "approve",
    "approve_many",
    "defer",
    "escalate",
    "list_proposals",
    "recover",
    "reject",
    "reject_many",
    "reopen",
    "set_risk",
    "show",
    "undo",
    "undo_group",
]

OPEN_STATES = (ProposalState.PENDING, ProposalState.DEFERRED, ProposalState.STALE)
_DONE = (ProposalState.APPROVED, ProposalState.MODIFIED, ProposalState.IMPLEMENTED)
_EDITABLE = {
    "body",
    "text",
    "keywords",
    "intent",
    "agent",
    "scope",
    "to_scope",
    "fact",
    "name",
    "suggested_fix",
    "root_cause",
    "patch",
    "reason",
}
Risk = Literal["low", "medium", "high"]


class Outcome(Record):
    """What a decision did. `decision_id` is what `undo` takes."""

    proposal: Proposal
    decision: Decision
    decision_id: str
    run_id: str
    did: tuple[str, ...] = ()
    error: str | None = None


class BulkOutcome(Record):
    """What became of each proposal of a group; `group` is what `undo_group` takes."""

    group: str
    done: tuple[str, ...] = ()
    left_out: dict[str, str] = {}  # noqa: RUF012 - pydantic copies defaults


# ---------------------------------------------------------------- looking


def list_proposals(
    ws: Workspace,
    *,
    states: Iterable[str] | None = OPEN_STATES,
    type: str | None = None,
    risk: str | None = None,
    scope: str | None = None,
    tool: str | None = None,
    text: str | None = None,
    min_count: int = 1,
    run_id: str | None = None,
) -> list[Proposal]:
    """Proposals by the filters given, pending ones first, then by age and id.

    Args:
        ws: the workspace.
        states: wanted states; `None`: all.
        type: one of the proposal types.
        risk: `low`, `medium` or `high`.
        scope: what the payload says of scope.
        tool: what the payload says of the tool.
        text: words that must occur in title, description or payload, whatever their case.
        min_count: how often it must have been proposed.
        run_id: proposed by this run.
    """
    recover(ws)
    wanted = None if states is None else {str(state) for state in states}
    needle = text.casefold() if text else ""
    found = [
        proposal
        for proposal in ws.proposals.list()
        if (wanted is None or str(proposal.state) in wanted)
        and (not type or proposal.type == type)
        and (not risk or proposal.risk == risk)
        and (not scope or scope in (proposal.payload.get("scope"), proposal.payload.get("to_scope")))
        and (not tool or proposal.payload.get("tool") == tool)
        and proposal.seen_count >= min_count
        and (not run_id or proposal.run_id == run_id)
        and (
            not needle or needle in f"{proposal.title}\n{proposal.description}\n{proposal.payload}".casefold()
        )
    ]
    order = {
        state: place
        for place, state in enumerate((ProposalState.PENDING, ProposalState.STALE, ProposalState.DEFERRED))
    }
    return sorted(
        found, key=lambda p: (order.get(p.state, 9), p.created_at.timestamp() if p.created_at else 0.0, p.id)
    )


def show(ws: Workspace, proposal_id: str, *, evidence: bool = True) -> Card:
    """The card of one proposal; a proposal whose base has changed becomes stale and the card says how.

    Args:
        ws: the workspace.
        proposal_id: which proposal.
        evidence: look the evidence and the nearest memory up too; without, a card takes milliseconds.

    Raises:
        NotFoundError: there is no such proposal.
    """
    recover(ws)
    proposal = ws.proposals.get(proposal_id)
    changed = _changed_base(ws, proposal) if proposal.state in OPEN_STATES else None
    if changed and proposal.state is not ProposalState.STALE:
        proposal = ws.proposals.record(proposal.id, "stale", by="sitoolkit", reason=changed)
    elif not changed and proposal.state is ProposalState.STALE:
        why = "what it changes is as it was again"
        proposal = ws.proposals.record(proposal.id, "reopened", state="pending", by="sitoolkit", reason=why)
    return make_card(ws, proposal, stale=changed, evidence=evidence)


def _changed_base(ws: Workspace, proposal: Proposal) -> str | None:
    """What has changed below a proposal since it was made; `None` where nothing has."""
    base = proposal.base
    for memory_id, seen in dict(base.get("memories") or {}).items():
        memory = ws.memory.get(str(memory_id))
        now = f"{memory.status}:{memory.content_hash}" if memory else "gone"
        if now != seen:
            return f"memory {memory_id} was {str(seen).partition(':')[0]} and is {now.partition(':')[0]}"
    for path, seen in dict(base.get("files") or {}).items():
        file = ws.path / str(path)
        now = digest(file.read_text(encoding="utf-8")) if file.is_file() else ""
        if now != seen:
            return f"{path} was changed"
    if base.get("tool") and proposal.type in ("new-tool", "modify-tool", "retire-tool"):
        try:
            tool = ws.tools.get(str(base["tool"]))
        except NotFoundError:
            return f"tool {base['tool']} is gone"
        if base.get("version") is not None and tool.version != base["version"]:
            return f"tool {base['tool']} was version {base['version']} and is version {tool.version}"
    ids = [proposal.payload.get(key) for key in ("memory_id", "keep")]
    ids += [
        *(proposal.payload.get("retire") or []),
        *(proposal.payload.get("drop") or []),
        *(proposal.payload.get("memory_ids") or []),
    ]
    since = proposal.created_at
    for memory_id in filter(None, ids):
        memory = ws.memory.get(str(memory_id))
        if memory is None:
            return f"memory {memory_id} is gone"
        if memory.ended_at is not None and since is not None and memory.ended_at > since:
            return f"memory {memory_id} is {memory.status} since {memory.ended_at:%Y-%m-%d %H:%M} UTC"
    return None


# ---------------------------------------------------------------- deciding


def approve(
    ws: Workspace,
    proposal_id: str,
    *,
    by: str,
    seen_hash: str,
    edits: Mapping[str, Any] | None = None,
    reason: str = "",
) -> Outcome:
    """Approve a proposal and carry it out: one step that ends whole or not at all.

    >>> card = show(ws, "prop_1")                                     # doctest: +SKIP
    >>> approve(ws, "prop_1", by="ana", seen_hash=card.hash).did      # doctest: +SKIP

    Args:
        ws: the workspace.
        proposal_id: which proposal.
        by: name of the person who decides.
        seen_hash: the hash of the card that they saw.
        edits: payload values that the reviewer changed; the decision is then `modify`.
        reason: free text.

    Raises:
        ApprovalRequired: no name, no hash, or unattended code.
        StaleProposal: the proposal, or what it changes, is not what was seen.
        AlreadyDecided: it has its decision.
        ProposalError: it could not be carried out; nothing of it stands, and the proposal is `failed`.
    """
    _person(by)
    if not isinstance(seen_hash, str) or not seen_hash:
        raise ApprovalRequired(
            f"an approval needs the hash of what was shown: sitoolkit review show {proposal_id}"
        )
    with ws.proposals.lock("approve"):
        recover(ws)
        proposal = _open(ws, proposal_id, seen_hash)
        changed = _changed_base(ws, proposal)
        if changed:
            if proposal.state is not ProposalState.STALE:
                ws.proposals.record(proposal.id, "stale", by="sitoolkit", reason=changed)
            raise StaleProposal(
                f"proposal {proposal.id}: {changed}; look again: sitoolkit review show {proposal.id}"
            )
        wanted = _edited(proposal, edits)
        steps = plan_steps(ws, wanted)
        decision = _decision(ws, proposal, "modify" if edits else "approve", by, reason)
        with ws.run("review", proposal=proposal.id, by=by) as run:
            decision_id = _decide(
                ws,
                decision,
                {"steps": [step.to_json() for step in steps], "run_id": run.id, "before": proposal.payload},
                changes={"payload": wanted.payload} if edits else None,
            )
            did, error = _carry_out(ws, proposal.id, steps, run.id, by)
    if error:
        raise ProposalError(
            f"proposal {proposal.id} was approved and could not be carried out: {error}; nothing of it stands"
        )
    return Outcome(
        proposal=ws.proposals.get(proposal.id),
        decision=decision,
        decision_id=decision_id,
        run_id=run.id,
        did=tuple(did),
    )


def _carry_out(
    ws: Workspace, proposal_id: str, steps: list[Step], run_id: str, by: str
) -> tuple[list[str], str | None]:
    """Take the steps and write down how that ended; steps that were taken before a failing one are taken back."""
    try:
        did = apply_steps(ws, steps, run_id, by)
    except (SitoolkitError, OSError, ValueError) as fault:
        said = str(fault)
        try:
            revert_steps(ws, steps, run_id, by)
        except (SitoolkitError, OSError, ValueError) as second:
            said = f"{fault}; and taking it back failed: {second}"
        ws.proposals.record(proposal_id, "failed", by="sitoolkit", reason=said[:1000], run_id=run_id)
        return [], said
    ws.proposals.record(proposal_id, "implemented", by="sitoolkit", data={"did": did}, run_id=run_id)
    return did, None


def recover(ws: Workspace) -> list[str]:
    """Finish approvals that a stop cut off after they were decided; gives the ids of the proposals."""
    if not ws.proposals.unfinished():
        return []
    recovered = []
    with ws.proposals.lock("recover"):
        for proposal in ws.proposals.unfinished():
            entry = ws.proposals.last_decision(proposal.id)
            assert entry is not None  # it is what made the proposal unfinished
            plan = entry.data["data"]
            steps = [Step.model_validate(step) for step in plan["steps"]]
            _carry_out(ws, proposal.id, steps, plan["run_id"], str(entry.data.get("by") or ""))
            recovered.append(proposal.id)
    return recovered


def reject(ws: Workspace, proposal_id: str, *, by: str, reason: str, seen_hash: str | None = None) -> Outcome:
    """Reject a proposal; it comes back only with new evidence.

    Raises:
        ApprovalRequired: no name, or unattended code.
        ParameterError: no reason.
        AlreadyDecided: it has its decision.
        StaleProposal: `seen_hash` is given and is not the present one.
    """
    if not reason.strip():
        raise ParameterError("a rejection needs a reason; it is shown when the proposal comes back")
    return _put_by(ws, proposal_id, "reject", by, reason, seen_hash)


def defer(
    ws: Workspace, proposal_id: str, *, by: str, reason: str = "", seen_hash: str | None = None
) -> Outcome:
    """Put a proposal behind the others; it stays open."""
    return _put_by(ws, proposal_id, "defer", by, reason, seen_hash)


def escalate(ws: Workspace, proposal_id: str, *, by: str, reason: str) -> Outcome:
    """Leave a proposal to someone else: it stays open, with high risk and the reason."""
    set_risk(ws, proposal_id, "high", by=by)
    return _put_by(ws, proposal_id, "escalate", by, reason, None)


def _put_by(
    ws: Workspace,
    proposal_id: str,
    verdict: Literal["reject", "defer", "escalate"],
    by: str,
    reason: str,
    seen_hash: str | None,
) -> Outcome:
    _person(by)
    with ws.proposals.lock(verdict):
        recover(ws)
        proposal = _open(ws, proposal_id, seen_hash)
        decision = _decision(ws, proposal, verdict, by, reason)
        decision_id = _decide(ws, decision, {})
    return Outcome(
        proposal=ws.proposals.get(proposal.id), decision=decision, decision_id=decision_id, run_id=""
    )


def set_risk(ws: Workspace, proposal_id: str, risk: Risk, *, by: str) -> Proposal:
    """Change the risk that a rule set; the hash changes with it, so that it is seen before it is decided on."""
    if risk not in ("low", "medium", "high"):
        raise ParameterError(f"risk is low, medium or high, not {risk!r}")
    _person(by)
    with ws.proposals.lock("risk"):
        proposal = _open(ws, proposal_id, None)
        return ws.proposals.record(proposal.id, "risk", by=by, changes={"risk": risk})


def undo(ws: Workspace, proposal_id: str, *, by: str, reason: str = "") -> Outcome:
    """Take the last decision on a proposal back: what it changed is restored.

    After a rejection or a delay the proposal is open again; after an approval it is `undone`.

    Raises:
        ApprovalRequired: no name, or unattended code.
        ProposalError: there is no decision, or later changes have built on it.
    """
    _person(by)
    with ws.proposals.lock("undo"):
        recover(ws)
        proposal = ws.proposals.get(proposal_id)
        entry = ws.proposals.last_decision(proposal.id)
        if entry is None:
            raise ProposalError(f"proposal {proposal.id} has no decision to undo")
        decision = _decision(ws, proposal, "undo", by, reason)
        did: list[str] = []
        plan = entry.data.get("data") or {}
        run_id = str(plan.get("run_id") or "")
        state = ProposalState.PENDING
        if proposal.state is ProposalState.IMPLEMENTED:
            state = ProposalState.UNDONE
            steps = [Step.model_validate(step) for step in plan["steps"]]
            with ws.run("review-undo", proposal=proposal.id, by=by):
                did = revert_steps(ws, steps, run_id, by)
        decision_id = _decide(
            ws,
            decision,
            {"of": entry.id, "did": did},
            state=state,
            changes={"payload": plan["before"]} if "before" in plan else None,
        )
    return Outcome(
        proposal=ws.proposals.get(proposal.id),
        decision=decision,
        decision_id=decision_id,
        run_id=run_id,
        did=tuple(did),
    )


def reopen(ws: Workspace, proposal_id: str, *, by: str) -> Proposal:
    """Put an undone or failed proposal back into the queue, so that it can be decided on again."""
    _person(by)
    with ws.proposals.lock("reopen"):
        proposal = ws.proposals.get(proposal_id)
        if proposal.state not in (ProposalState.UNDONE, ProposalState.FAILED):
            raise ProposalError(
                f"proposal {proposal.id} is {proposal.state}; only undone and failed ones are reopened"
            )
        return ws.proposals.record(
            proposal.id,
            "reopened",
            state=ProposalState.PENDING,
            by=by,
            reason=f"was {proposal.state}; reopened by {by}",
        )


def _decision(ws: Workspace, proposal: Proposal, verdict: Any, by: str, reason: str) -> Decision:
    return Decision(
        proposal_id=proposal.id,
        verdict=verdict,
        by=by,
        seen_hash=proposal.hash,
        reason=reason or None,
        at=ws.clock(),
    )


def _decide(
    ws: Workspace,
    decision: Decision,
    data: Mapping[str, Any],
    *,
    changes: Mapping[str, Any] | None = None,
    state: ProposalState | None = None,
) -> str:
    """Write a decision to the proposal log and to the journal; gives the id of the log's entry."""
    ws.proposals.record(
        decision.proposal_id,
        decision.verdict,
        by=decision.by,
        seen_hash=decision.seen_hash,
        reason=decision.reason or "",
        state=state,
        changes=changes,
        data=data,
        run_id=ws.run_id or None,
    )
    decision_id = ws.proposals.events(decision.proposal_id)[-1].id
    ws.journal.append("decision", {**decision.to_json(), "decision_id": decision_id}, ws.run_id or None)
    return str(decision_id)


# ---------------------------------------------------------------- groups


def approve_many(ws: Workspace, seen: Mapping[str, str], *, by: str, reason: str = "") -> BulkOutcome:
    """Approve several proposals that were seen together; those of high risk are left out, each with why.

    Args:
        ws: the workspace.
        seen: proposal id to the hash that was shown.
        by: who decides.
        reason: written to each decision.
    """
    _person(by)
    group = _group(ws, by, seen)
    done, left_out = [], {}
    for proposal_id, seen_hash in seen.items():
        try:
            if ws.proposals.get(proposal_id).risk == "high":
                raise ApprovalRequired("high risk is never approved in bulk; open it")
            approve(ws, proposal_id, by=by, seen_hash=seen_hash, reason=_grouped(group, reason))
            done.append(proposal_id)
        except SitoolkitError as fault:
            left_out[proposal_id] = str(fault)
    return BulkOutcome(group=group, done=tuple(done), left_out=left_out)


def reject_many(ws: Workspace, ids: Sequence[str], *, by: str, reason: str) -> BulkOutcome:
    """Reject several proposals for one reason."""
    _person(by)
    group = _group(ws, by, ids)
    done, left_out = [], {}
    for proposal_id in ids:
        try:
            reject(ws, proposal_id, by=by, reason=_grouped(group, reason))
            done.append(proposal_id)
        except SitoolkitError as fault:
            left_out[proposal_id] = str(fault)
    return BulkOutcome(group=group, done=tuple(done), left_out=left_out)


def undo_group(ws: Workspace, group: str, *, by: str) -> BulkOutcome:
    """Take a whole group of decisions back, last first."""
    marked = {
        str(entry.data["proposal_id"]): None
        for entry in ws.proposals.events()
        if entry.data["what"] in ("approve", "reject")
        and str(entry.data.get("reason") or "").startswith(f"[{group}]")
    }
    if not marked:
        raise NotFoundError(f"no decisions of a group {group!r}")
    members = list(marked)
    done, left_out = [], {}
    for proposal_id in reversed(members):
        try:
            undo(ws, proposal_id, by=by, reason=f"group {group}")
            done.append(proposal_id)
        except SitoolkitError as fault:
            left_out[proposal_id] = str(fault)
    return BulkOutcome(group=group, done=tuple(done), left_out=left_out)


def _group(ws: Workspace, by: str, ids: Iterable[str]) -> str:
    return "group_" + digest(by, sorted(ids), ws.clock().isoformat(), time.monotonic_ns())[:12]


def _grouped(group: str, reason: str) -> str:
    return f"[{group}] {reason}".strip()


# ---------------------------------------------------------------- checks


def _person(by: str) -> None:
    who = who_runs_unattended()
    if who:
        raise ApprovalRequired(
            f"{who} runs without a person and cannot decide; leave a proposal, and decide in the review panel"
        )
    if not isinstance(by, str) or not by.strip() or len(by) > 200:
        raise ApprovalRequired("a decision needs the name of the person who takes it (by=, or --by NAME)")


def _open(ws: Workspace, proposal_id: str, seen_hash: str | None) -> Proposal:
    proposal = ws.proposals.get(proposal_id)
    if proposal.state not in OPEN_STATES:
        entry = ws.proposals.last_decision(proposal.id)
        who = f" by {entry.data.get('by')} at {entry.at:%Y-%m-%d %H:%M} UTC" if entry else ""
        raise AlreadyDecided(
            f"proposal {proposal.id} is {proposal.state}{who}; take that back first: sitoolkit review undo {proposal.id}"
        )
    if seen_hash is not None and seen_hash != proposal.hash:
        raise StaleProposal(
            f"proposal {proposal.id} is not what was shown; look again: sitoolkit review show {proposal.id}"
        )
    return proposal


def _edited(proposal: Proposal, edits: Mapping[str, Any] | None) -> Proposal:
    if not edits:
        return proposal
    unknown = sorted(set(edits) - _EDITABLE)
    if unknown:
        raise ParameterError(
            f"{unknown[0]!r} cannot be edited here; editable: {', '.join(sorted(_EDITABLE))}"
        )
    return proposal.model_copy(update={"payload": {**proposal.payload, **edits}})
