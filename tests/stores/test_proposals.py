"""The proposal log: equal proposals merge, rejected ones come back with new evidence alone, decisions hold to what was shown."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from sitoolkit.errors import AlreadyDecided, ApprovalRequired, NotFoundError, StaleProposal
from sitoolkit.records import Proposal
from sitoolkit.stores.proposals import ProposalLog
from sitoolkit.testing import FixedClock


@pytest.fixture
def log(tmp_path: Path, clock: FixedClock) -> ProposalLog:
    return ProposalLog(tmp_path / "proposals", clock=clock, fsync=False)


def propose(log: ProposalLog, *evidence: str, **fields: Any) -> Proposal:
    given = {"type": "retire-tool", "title": "Retire old_search", "payload": {"tool": "old_search"}, **fields}
    return log.propose(**given, evidence=evidence)


def decide(log: ProposalLog, proposal: Proposal, verdict: str, **more: Any) -> Proposal:
    log.record(proposal.id, verdict, by="ada", seen_hash=proposal.hash, **more)
    return log.get(proposal.id)


def test_equal_proposals_merge_and_gather_evidence(log: ProposalLog) -> None:
    first = propose(log, "a")
    again = propose(log, "b", "a")
    assert (again.id, again.evidence, again.seen_count) == (first.id, ("a", "b"), 2)
    assert propose(log, "a") == again
    assert len(log.list()) == 1
    assert [entry.data["what"] for entry in log.events(first.id)] == ["proposed", "merged"]


def test_a_key_makes_proposals_equal_whose_figures_differ(log: ProposalLog) -> None:
    first = propose(log, "a", key="old_search", description="3 failures")
    again = propose(log, "a", key="old_search", description="4 failures")
    assert (again.id, again.description) == (first.id, "4 failures")
    assert again.hash != first.hash
    with pytest.raises(StaleProposal, match="no longer what was shown"):
        log.record(first.id, "approve", by="ada", seen_hash=first.hash)


def test_a_rejected_one_comes_back_with_new_evidence_and_says_so(log: ProposalLog) -> None:
    decide(log, propose(log, "a"), "reject", reason="still used")
    assert propose(log, "a").state == "rejected"
    back = propose(log, "a", "b")
    assert back.state == "pending"
    assert back.note == "rejected before (still used); back with 1 new evidence"


def test_a_decision_needs_a_person_and_what_they_saw(log: ProposalLog) -> None:
    proposal = propose(log, "a")
    for by, seen in ((None, proposal.hash), (" ", proposal.hash), ("ada", None)):
        with pytest.raises(ApprovalRequired):
            log.record(proposal.id, "approve", by=by, seen_hash=seen)
    with pytest.raises(StaleProposal):
        log.record(proposal.id, "approve", by="ada", seen_hash="0" * 64)
    assert log.get(proposal.id).state == "pending"
    assert decide(log, proposal, "approve").state == "approved"
    with pytest.raises(AlreadyDecided, match="approved already"):
        decide(log, log.get(proposal.id), "reject")


def test_events_tell_who_when_before_after_and_why(log: ProposalLog, clock: FixedClock) -> None:
    proposal = propose(log, "a")
    clock.advance(hours=1)
    decide(log, proposal, "reject", reason="no")
    entry = log.events(proposal.id)[-1]
    assert (entry.at, entry.data["by"], entry.data["reason"]) == (clock(), "ada", "no")
    assert (entry.data["before"]["state"], entry.data["after"]["state"]) == ("pending", "rejected")
    assert log.journal.verify().ok


def test_another_process_sees_it_at_once(log: ProposalLog) -> None:
    other = ProposalLog(log.folder)
    proposal = propose(log, "a")
    assert other.get(proposal.id) == proposal
    decide(other, proposal, "defer")
    assert log.get(proposal.id).state == "deferred"
    with pytest.raises(NotFoundError, match="review list"):
        log.get("prop_nope")


def test_five_thousand_proposals_open_fast(log: ProposalLog) -> None:
    for number in range(300):
        propose(log, f"e{number}", payload={"tool": str(number)}, title=f"Retire {number}")
    path = log.folder / log.journal.segments()[0]
    started = time.perf_counter()
    assert len(ProposalLog(log.folder).list(state="pending", type="retire-tool")) == 300
    assert time.perf_counter() - started < 1.0  # 5,000 in some 17 times this
    assert path.stat().st_size < 600_000
