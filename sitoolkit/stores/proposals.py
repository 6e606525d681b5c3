"""Proposals as an event log: what is proposed and what happened to it come in; the queue, its projection, goes out.

The log is a hash-chained journal of its own. Equal proposals merge and gather evidence; what was rejected comes back with new
evidence alone, and says so. Decisions are written by the gate (`review`); this log holds them to the hash that was shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sitoolkit.errors import AlreadyDecided, ApprovalRequired, NotFoundError, ProposalError, StaleProposal
from sitoolkit.records import Clock, Proposal, ProposalState, digest, unique, utc_now
from sitoolkit.stores.journal import Cursor, Entry, Journal
from sitoolkit.stores.lock import writer_lock

__all__ = ["DECISIONS", "ProposalLog"]

_EVENT = "proposal"
# What a person decides -> the state it leads to. `implemented`, `failed` and `stale` follow from what was done.
DECISIONS = {
    "approve": ProposalState.APPROVED,
    "modify": ProposalState.MODIFIED,
    "reject": ProposalState.REJECTED,
    "defer": ProposalState.DEFERRED,
    "escalate": ProposalState.PENDING,
    "undo": ProposalState.UNDONE,
}
_OPEN = (ProposalState.PENDING, ProposalState.DEFERRED)
_UNDOABLE = (
    ProposalState.APPROVED, ProposalState.MODIFIED, ProposalState.REJECTED, ProposalState.IMPLEMENTED,
    ProposalState.DEFERRED,
)  # fmt: skip


class ProposalLog:
    """The proposals of a workspace.

    >>> log = ProposalLog(Path("/tmp/example-proposals"))
    >>> log.propose(type="retire-tool", title="Retire old_search", payload={"tool": "old_search"}).state.value
    'pending'

    Args:
        folder: where the log lies; made at the first proposal.
        clock: the time of events.
        fsync: wait for the disk at each event.
        lock_timeout_s: seconds to wait for another writer of proposals.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        clock: Clock = utc_now,
        fsync: bool = True,
        lock_timeout_s: float = 30.0,
    ) -> None:
        self.folder = Path(folder)
        self.clock = clock
        self.journal = Journal(folder, clock=clock, fsync=fsync)
        self._lock_timeout_s = lock_timeout_s
        self._cursor = Cursor(self.journal, _EVENT)
        self._proposals: dict[str, Proposal] = {}

    # ------------------------------------------------------------ in

    def propose(
        self,
        *,
        type: str,
        title: str,
        description: str = "",
        evidence: Iterable[str] = (),
        payload: Mapping[str, Any] | None = None,
        base: Mapping[str, Any] | None = None,
        expected_impact: Mapping[str, Any] | None = None,
        confidence: str = "low",
        risk: str = "low",
        proposed_by: str = "",
        run_id: str = "",
        key: str | None = None,
        note: str | None = None,
    ) -> Proposal:
        """Propose a change; an equal one gathers the evidence instead of standing twice.

        Args:
            type: as `Proposal.type`.
            title: one line.
            description: what and why.
            evidence: ids it rests on.
            payload: what an approval would apply.
            base: ids and hashes of what it changes.
            expected_impact: estimate with its interval and basis.
            confidence: low, medium or high.
            risk: low, medium or high.
            proposed_by: the loop or person.
            run_id: the run.
            key: what makes two proposals equal, where the payload is not it.
            note: a remark.

        Returns:
            The proposal as it stands now: new, with more evidence, reopened, or as it was.
        """
        given = Proposal(
            id=f"prop_{digest(type, key if key is not None else [title, payload or {}])[:20]}",
            type=type,
            title=title,
            description=description,
            evidence=unique(evidence),
            payload=dict(payload or {}),
            base=dict(base or {}),
            expected_impact=dict(expected_impact or {}),
            confidence=confidence,
            risk=risk,
            proposed_by=proposed_by,
            run_id=run_id,
            note=note,
        )
        with self._lock("propose"):
            old = self._project().get(given.id)
            if old is None:
                now = self.clock()
                fresh = given.model_copy(update={"created_at": now, "updated_at": now})
                self._append("proposed", fresh.id, after=fresh.to_json(), run_id=run_id)
            else:
                self._merge(old, given)
            return self._project()[given.id]

    def _merge(self, old: Proposal, given: Proposal) -> None:
        news = [one for one in given.evidence if one not in set(old.evidence)]
        after: dict[str, Any] = {}
        event = "merged"
        if news:
            after |= {"evidence": [*old.evidence, *news], "seen_count": old.seen_count + 1}
        fields = ("title", "description", "payload", "base", "expected_impact", "confidence", "risk")
        said = {name: getattr(given, name) for name in fields if getattr(given, name) != getattr(old, name)}
        if old.state in _OPEN:
            if said:
                after |= said
                event = "updated"
        elif old.state is ProposalState.REJECTED:
            if not news:
                return
            event = "reopened"
            after |= said | {
                "state": "pending",
                "note": f"rejected before ({old.note or 'no reason given'}); back with {len(news)} new evidence",
            }
        elif old.state in (ProposalState.STALE, ProposalState.FAILED, ProposalState.UNDONE):
            if not news and given.base == old.base:
                return
            event = "reopened"
            after |= said | {"state": "pending", "note": f"was {old.state.value}; proposed again"}
        if after:
            self._append(event, old.id, before=old, after=after, run_id=given.run_id)

    def record(
        self,
        id: str,
        event: str,
        *,
        by: str | None = None,
        seen_hash: str | None = None,
        state: ProposalState | str | None = None,
        changes: Mapping[str, Any] | None = None,
        reason: str | None = None,
        data: Mapping[str, Any] | None = None,
        run_id: str | None = None,
    ) -> Proposal:
        """Record what happened to a proposal; the gate alone calls this.

        Args:
            id: the proposal.
            event: a decision (`approve`, `modify`, `reject`, `defer`, `escalate`, `undo`), or what followed
                (`implemented`, `failed`, `stale`, `edited`).
            by: the person; needed for a decision.
            seen_hash: hash of what they saw; needed for a decision.
            state: the state it leads to; by default the decision's or the event's own.
            changes: fields of the proposal that change.
            reason: why.
            data: anything else worth keeping.
            run_id: the run.

        Raises:
            NotFoundError: no such proposal.
            ApprovalRequired: a decision without a person or without the hash of what was shown.
            StaleProposal: the hash is not that of the proposal as it stands.
            AlreadyDecided: it has its decision.
        """
        with self._lock(event):
            old = self._project().get(id)
            if old is None:
                raise NotFoundError(f"no proposal {id!r}; `sitoolkit review list --all` shows them")
            if event in DECISIONS:
                _check_decision(old, event, by, seen_hash)
            after: dict[str, Any] = dict(changes or {})
            target = state or DECISIONS.get(event) or _followed(event)
            if target is not None:
                after["state"] = str(ProposalState(target))
            if reason is not None:
                after["note"] = reason
            self._append(
                event, id, before=old, after=after, by=by, seen_hash=seen_hash, reason=reason, data=data, run_id=run_id
            )  # fmt: skip
            return self._project()[id]

    def _append(
        self,
        event: str,
        id: str,
        *,
        before: Proposal | None = None,
        after: Mapping[str, Any],
        run_id: str | None = None,
        **more: Any,
    ) -> None:
        was = before.to_json() if before is not None else {}
        plain = Proposal.model_validate({**(was or after), **after}).to_json()
        entry = {
            "id": f"{id}",
            "proposal_id": id,
            "what": event,
            "before": {name: was.get(name) for name in after} if was else {},
            "after": {name: plain[name] for name in after},
            **{name: value for name, value in more.items() if value is not None},
        }
        self.journal.append(_EVENT, entry, run_id or None)

    # ------------------------------------------------------------ out

    def get(self, id: str) -> Proposal:
        """One proposal as it stands.

        Raises:
            NotFoundError: no such proposal.
        """
        found = self._project().get(id)
        if found is None:
            raise NotFoundError(f"no proposal {id!r}; `sitoolkit review list --all` shows them")
        return found

    def list(
        self, state: str | Iterable[str] | None = None, type: str | Iterable[str] | None = None
    ) -> tuple[Proposal, ...]:
        """Proposals in the order in which they were first proposed.

        Args:
            state: one or several states; all by default.
            type: one or several types; all by default.
        """
        states = None if state is None else {state} if isinstance(state, str) else {str(one) for one in state}
        types = None if type is None else {type} if isinstance(type, str) else {str(one) for one in type}
        return tuple(
            one
            for one in self._project().values()
            if (states is None or one.state in states) and (types is None or one.type in types)
        )

    def events(self, id: str | None = None) -> tuple[Entry, ...]:
        """Everything that happened to a proposal (or to all), oldest first: who, when, before, after, reason."""
        return tuple(
            entry
            for entry in self.journal.events(_EVENT)
            if id is None or entry.data.get("proposal_id") == id
        )

    def unfinished(self) -> tuple[Proposal, ...]:
        """Proposals that were approved and neither implemented nor failed since: a stop came in between."""
        return self.list(state=(ProposalState.APPROVED, ProposalState.MODIFIED))

    def last_decision(self, id: str) -> Entry | None:
        """The decision that a proposal stands on; `None` where there is none, or it was undone."""
        for entry in reversed(self.events(id)):
            if entry.data["what"] in ("undo", "reopened"):
                return None
            if entry.data["what"] in DECISIONS:
                return entry
        return None

    def lock(self, doing: str) -> Any:
        """The lock of the proposals, as a context manager; it may be taken again inside."""
        return self._lock(doing)

    # ------------------------------------------------------------ inside

    def _lock(self, doing: str) -> Any:
        return writer_lock(self.folder, self._lock_timeout_s, doing=f"{doing} (proposals)")

    def _project(self) -> dict[str, Proposal]:
        fresh = list(self._cursor.read())
        if self._cursor.restarted:
            self._proposals.clear()
        for record in fresh:
            data, at = record.get("data") or {}, record.get("at")
            id = str(data.get("proposal_id"))
            old = self._proposals.get(id)
            fields = {**(old.model_dump() if old else {}), **data.get("after", {}), "updated_at": at}
            self._proposals[id] = Proposal.model_validate(fields)
        return self._proposals


def _followed(event: str) -> ProposalState | None:
    return ProposalState(event) if event in ("implemented", "failed", "stale", "undone") else None


def _check_decision(old: Proposal, event: str, by: str | None, seen_hash: str | None) -> None:
    if not by or not by.strip():
        raise ApprovalRequired(f"{event} needs the name of the person who decides: --by NAME")
    if not seen_hash:
        raise ApprovalRequired(
            f"{event} needs the hash of what was shown; take it from `sitoolkit review show {old.id}`"
        )
    if seen_hash != old.hash:
        raise StaleProposal(
            f"proposal {old.id} is no longer what was shown; look again: `sitoolkit review show {old.id}`"
        )
    if event == "undo":
        if old.state not in _UNDOABLE:
            raise ProposalError(f"proposal {old.id} is {old.state.value}; there is no decision to undo")
    elif old.state not in (*_OPEN, *((ProposalState.STALE,) if event in ("reject", "defer") else ())):
        raise AlreadyDecided(
            f"proposal {old.id} is {old.state.value} already; `sitoolkit review undo {old.id}` takes it back"
        )
