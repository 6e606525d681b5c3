"""The state of memory comes in, a plan of what to expire, demote, keep and promote goes out; applying it is a second step.

A plan changes nothing. What is applied changes status or confidence, never `base_weight`: the weight that fades with age is
computed at query time. Each applied plan is one run, so that `memory undo RUN_ID` takes it back.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sitoolkit.errors import StaleProposal
from sitoolkit.loops.curators import Action, Curator, Look, load_curators
from sitoolkit.records import Record, Status, UtcTime, digest, parse_time

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["DecayPlan", "DecayReport", "apply_decay", "plan_decay"]

log = logging.getLogger(__name__)

_CHANGES = ("expire", "demote", "retire", "quarantine", "keep")


class DecayPlan(Record):
    """What the curators would do, each with its reason."""

    now: UtcTime
    seen: int
    kept: tuple[Action, ...] = ()  # recently cited
    demoted: tuple[Action, ...] = ()
    expired: tuple[Action, ...] = ()
    retired: tuple[Action, ...] = ()  # dropped after a demotion, or quarantined by the audit
    promoted: tuple[Action, ...] = ()  # distil jobs, and lessons proposed for a wider scope
    proposed: tuple[Action, ...] = ()  # other proposals: merge, retire-memory
    untouched: int = 0  # rows that no curator had anything to say about
    failed: tuple[dict[str, str], ...] = ()  # curators that ended in an error, and were skipped
    memory_version: str = ""
    hash: str = ""

    @property
    def actions(self) -> tuple[Action, ...]:
        """All actions, in the order in which they are applied."""
        return (*self.expired, *self.retired, *self.demoted, *self.kept, *self.promoted, *self.proposed)


class DecayReport(Record):
    """What applying a plan did."""

    run_id: str
    seen: int
    kept: int
    raised: int
    demoted: int
    expired: int
    retired: int
    promoted: int
    proposals: tuple[str, ...] = ()
    distil: tuple[dict[str, Any], ...] = ()  # scope and tool of each job for the distil stage
    skipped: tuple[dict[str, str], ...] = ()  # rows that changed since the plan was made


def plan_decay(
    ws: Workspace, now: datetime | str | None = None, *, curators: Mapping[str, Curator] | None = None
) -> DecayPlan:
    """Ask every curator; change nothing.

    >>> [action.reason for action in plan_decay(ws).expired]  # doctest: +SKIP
    ['expired 2026-01-31T00:00:00Z']

    Args:
        ws: the workspace.
        now: the moment to judge at; the workspace's clock when unset.
        curators: name to curator; those of sitoolkit and of installed plugins when unset.

    Returns:
        the plan. A row gets one change at most: of several curators the first in the order expire, audit, keep, demote.
    """
    moment = parse_time(now) or ws.clock()
    look = _look(ws, moment)
    actions: list[Action] = []
    failed: list[dict[str, str]] = []
    for name, curator in (curators if curators is not None else load_curators()).items():
        try:
            actions += curator(look)
        except Exception as fault:  # noqa: BLE001 - a curator of others must not stop the night; it is named in the plan
            log.warning("curator %s failed and is skipped: %s", name, fault)
            failed.append({"curator": name, "reason": f"{type(fault).__name__}: {fault}"})
    settled = _settle(actions)
    by: dict[str, list[Action]] = defaultdict(list)
    for action in settled:
        by[_list_of(action)].append(action)
    touched = {action.memory_id for action in settled if action.memory_id}
    return DecayPlan(
        now=moment,
        seen=len(look.memories),
        untouched=len(look.memories) - len(touched),
        failed=tuple(failed),
        memory_version=ws.memory.version,
        hash=digest([action.to_json() for action in settled]),
        **{name: tuple(found) for name, found in by.items()},
    )


def _look(ws: Workspace, moment: datetime) -> Look:
    memories = sorted(ws.memory.rows(status=Status.ACTIVE), key=lambda memory: memory.id)
    nearly: dict[str, datetime] = {}
    demoted: dict[str, datetime] = {}
    raised: dict[str, datetime] = {}
    for entry in ws.journal.events(kind=("recall", "decay"), until=moment):
        if entry.event == "recall":
            for passed in entry.data.get("passed_over", ()):
                nearly[passed["memory_id"]] = entry.at
        else:
            # By the moment that the plan judged at: a plan for another day may be applied today.
            judged = parse_time(entry.data["now"]) or entry.at
            demoted.update(dict.fromkeys(entry.data.get("demoted", ()), judged))
            raised.update(dict.fromkeys(entry.data.get("raised", ()), judged))
    return Look(
        ws=ws,
        now=moment,
        memories=memories,
        access=ws.journal.access(),
        nearly=nearly,
        demoted=demoted,
        raised=raised,
        settings=ws.settings.decay,
    )


def _settle(actions: Iterable[Action]) -> list[Action]:
    """One change a row; equal proposals once; nothing proposed about a row that goes anyway."""
    changed: dict[str, Action] = {}
    others: dict[str, Action] = {}
    for action in actions:
        if action.action in _CHANGES:
            changed.setdefault(action.memory_id, action)
        else:
            others.setdefault(digest(action.action, action.memory_id, action.proposal, action.data), action)
    going = {id for id, action in changed.items() if action.action in ("expire", "retire", "quarantine")}
    kept = [action for action in others.values() if action.memory_id not in going]
    return [
        *sorted(changed.values(), key=lambda action: (action.action, action.memory_id)),
        *sorted(kept, key=lambda action: (action.curator, action.scope, action.memory_id, action.reason)),
    ]


def _list_of(action: Action) -> str:
    if action.action == "propose":
        return "promoted" if action.curator == "promote" else "proposed"
    return {
        "expire": "expired",
        "retire": "retired",
        "quarantine": "retired",
        "demote": "demoted",
        "keep": "kept",
        "distil": "promoted",
    }[action.action]


def apply_decay(ws: Workspace, plan: DecayPlan) -> DecayReport:
    """Carry a plan out: statuses and confidences in the memory table, proposals to the queue, distil jobs in the report.

    >>> apply_decay(ws, plan_decay(ws)).expired  # doctest: +SKIP
    1

    A row that another run changed since is skipped and named. Applying the same plan again changes nothing.

    Raises:
        StaleProposal: the plan was edited since it was made.
        StoreLocked: another writer holds the workspace.
    """
    if plan.hash != digest([action.to_json() for action in _settle(plan.actions)]):
        raise StaleProposal("this plan is not what plan_decay made; make a new one")
    with ws.run("decay", now=plan.now.isoformat(), plan=plan.hash) as run:
        return _apply(ws, plan, run.id)


def _apply(ws: Workspace, plan: DecayPlan, run_id: str) -> DecayReport:
    held = {memory.id: memory for memory in ws.memory.rows(status=Status.ACTIVE)}
    skipped: list[dict[str, str]] = []
    gone: dict[tuple[Status, str], list[str]] = defaultdict(list)
    done: dict[str, list[str]] = defaultdict(list)
    for action in plan.actions:
        if action.action not in _CHANGES:
            continue
        memory = held.get(action.memory_id)
        if memory is None:
            skipped.append({"memory_id": action.memory_id, "reason": "not active any more"})
        elif action.confidence_before is not None and memory.confidence != action.confidence_before:
            skipped.append(
                {"memory_id": action.memory_id, "reason": "its confidence was changed since the plan"}
            )
        elif action.action in ("expire", "retire", "quarantine"):
            status = Status.QUARANTINED if action.action == "quarantine" else Status.RETIRED
            gone[status, f"{action.curator}: {action.reason}"].append(memory.id)
            done[action.action].append(memory.id)
        elif action.confidence is not None:
            ws.memory.revise(
                memory.id,
                run_id=run_id,
                reason=f"{action.curator}: {action.reason}",
                confidence=action.confidence,
            )
            done[action.action].append(memory.id)
        else:
            done["kept as it is"].append(memory.id)
    for (status, reason), ids in sorted(gone.items()):
        ws.memory.set_status(ids, status, run_id=run_id, reason=reason)
    proposals = [
        ws.proposals.propose(**action.proposal, proposed_by=f"decay/{action.curator}", run_id=run_id).id
        for action in plan.actions
        if action.action == "propose"
    ]
    jobs = tuple(
        {"scope": action.scope, **action.data} for action in plan.actions if action.action == "distil"
    )
    if any(done[name] for name in ("expire", "retire", "quarantine", "demote", "keep")) or proposals or jobs:
        ws.journal.append(
            "decay",
            {
                "now": plan.to_json()["now"],
                "plan": plan.hash,
                "demoted": done["demote"],
                "raised": done["keep"],
                "expired": done["expire"],
                "retired": [*done["retire"], *done["quarantine"]],
                "proposals": proposals,
                "distil": list(jobs),
            },
            run_id=run_id,
        )
    return DecayReport(
        run_id=run_id,
        seen=plan.seen,
        kept=len(done["keep"]) + len(done["kept as it is"]),
        raised=len(done["keep"]),
        demoted=len(done["demote"]),
        expired=len(done["expire"]),
        retired=len(done["retire"]) + len(done["quarantine"]),
        promoted=len(plan.promoted),
        proposals=tuple(proposals),
        distil=jobs,
        skipped=tuple(skipped),
    )
