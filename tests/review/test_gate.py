"""The gate: who may decide, on what they saw, what it does, and how it is taken back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sitoolkit import review
from sitoolkit.attended import unattended
from sitoolkit.errors import (
    AlreadyDecided,
    ApprovalRequired,
    NotFoundError,
    ParameterError,
    ProposalError,
    StaleProposal,
)
from sitoolkit.plugins import SelfImprovementPlugin, call_hook
from sitoolkit.recall import inject, recall
from sitoolkit.records import Category, ProposalState, Reader, Status
from tests.review.conftest import guide


def approve(ws, proposal, **more):
    return review.approve(ws, proposal.id, by="ana", seen_hash=review.show(ws, proposal.id).hash, **more)


def active(ws, category):
    return [memory.text for memory in ws.memory.rows(category=category, status=Status.ACTIVE)]


# ---------------------------------------------------------------- ways round the gate


def test_an_approval_needs_a_name_and_the_hash_of_what_was_shown(ws):
    proposal = guide(ws)
    for by in ("", "   ", None):
        with pytest.raises(ApprovalRequired):
            review.approve(ws, proposal.id, by=by, seen_hash=proposal.hash)
    with pytest.raises(ApprovalRequired):
        review.approve(ws, proposal.id, by="ana", seen_hash="")
    assert active(ws, Category.USAGE_GUIDE) == []


def test_a_forged_hash_is_refused(ws):
    proposal = guide(ws)
    with pytest.raises(StaleProposal):
        review.approve(ws, proposal.id, by="ana", seen_hash="0" * 64)


def test_a_proposal_that_changed_refuses_the_old_hash(ws):
    seen = guide(ws).hash
    changed = ws.proposals.propose(
        type="usage-guide", title="Guide backup_first", evidence=("e1", "e2"),
        payload={"intent": "backup_first", "agent": "ops", "keywords": ["backup"], "body": "Take a backup before you change a router."},
    )  # fmt: skip
    assert changed.hash != seen
    with pytest.raises(StaleProposal, match="not what was shown"):
        review.approve(ws, changed.id, by="ana", seen_hash=seen)


def test_a_second_reviewer_finds_it_decided_and_is_told_by_whom(ws):
    proposal = guide(ws)
    approve(ws, proposal)
    with pytest.raises(AlreadyDecided, match="by ana"):
        review.approve(ws, proposal.id, by="ben", seen_hash=proposal.hash)
    with pytest.raises(AlreadyDecided):
        review.reject(ws, proposal.id, by="ben", reason="no")


def test_a_replayed_approval_after_an_undo_is_refused(ws):
    proposal = guide(ws)
    seen = review.show(ws, proposal.id).hash
    review.approve(ws, proposal.id, by="ana", seen_hash=seen)
    review.undo(ws, proposal.id, by="ana")
    with pytest.raises(AlreadyDecided):
        review.approve(ws, proposal.id, by="ana", seen_hash=seen)


def test_a_plugin_that_tries_to_approve_is_refused_and_reported(ws):
    proposal = guide(ws)
    tried = []

    class Eager(SelfImprovementPlugin):
        name = "eager"

        def on_session_end(self, session):
            tried.append(session)
            review.approve(ws, proposal.id, by="ana", seen_hash=proposal.hash)

    ws.plugins = (Eager(),)
    call_hook(ws, "on_session_end", None)
    assert tried == [None]
    assert ws.proposals.get(proposal.id).state is ProposalState.PENDING
    failed = [entry.data["error"] for entry in ws.journal.events("plugin_failed")]
    assert len(failed) == 1 and "cannot decide" in failed[0]


def test_headless_notebooks_and_loops_cannot_decide(ws, monkeypatch):
    proposal = guide(ws)
    with unattended("nightly"), pytest.raises(ApprovalRequired, match="nightly runs without a person"):
        review.approve(ws, proposal.id, by="ana", seen_hash=proposal.hash)
    monkeypatch.setenv("SITOOLKIT_UNATTENDED", "papermill")
    for decide in (
        lambda: review.approve(ws, proposal.id, by="ana", seen_hash=proposal.hash),
        lambda: review.reject(ws, proposal.id, by="ana", reason="x"),
        lambda: review.defer(ws, proposal.id, by="ana"),
        lambda: review.set_risk(ws, proposal.id, "low", by="ana"),
        lambda: review.undo(ws, proposal.id, by="ana"),
    ):
        with pytest.raises(ApprovalRequired):
            decide()


def test_no_loop_imports_the_gate():
    source = Path(review.__file__).parents[1]
    below = [
        *source.glob("loops/*.py"),
        *source.glob("stores/*.py"),
        *source.glob("models/*.py"),
        source / "recall.py",
    ]
    assert len(below) > 10
    assert [
        path.name
        for path in below
        if "sitoolkit.review" in path.read_text() or "import review" in path.read_text()
    ] == []


def test_the_log_itself_refuses_a_decision_without_the_hash(ws):
    proposal = guide(ws)
    with pytest.raises(ApprovalRequired):
        ws.proposals.record(proposal.id, "approve", by="ana")
    with pytest.raises(StaleProposal):
        ws.proposals.record(proposal.id, "approve", by="ana", seen_hash="f" * 64)


# ---------------------------------------------------------------- what an approval does


def test_a_guide_is_written_imported_and_taken_back(ws):
    proposal = guide(ws)
    outcome = approve(ws, proposal)
    file = ws.path / "guides" / "ops" / "backup_first.guide.yaml"
    assert file.is_file()
    assert active(ws, Category.USAGE_GUIDE) == ["Take a backup before you change a router."]
    assert outcome.proposal.state is ProposalState.IMPLEMENTED
    assert outcome.decision.by == "ana"
    undone = review.undo(ws, proposal.id, by="ben", reason="too broad")
    assert not file.exists()
    assert active(ws, Category.USAGE_GUIDE) == []
    assert undone.proposal.state is ProposalState.UNDONE


def test_an_edited_guide_is_a_modified_one_and_both_texts_are_kept(ws):
    proposal = guide(ws)
    outcome = approve(ws, proposal, edits={"body": "Take a backup first."})
    assert outcome.decision.verdict == "modify"
    assert active(ws, Category.USAGE_GUIDE) == ["Take a backup first."]
    events = {entry.data["what"]: entry.data for entry in ws.proposals.events(proposal.id)}
    assert events["modify"]["before"]["payload"]["body"].startswith("Take a backup before")
    assert events["modify"]["after"]["payload"]["body"] == "Take a backup first."
    review.undo(ws, proposal.id, by="ana")
    assert ws.proposals.get(proposal.id).payload["body"].startswith("Take a backup before")


def test_what_decides_the_type_of_a_change_cannot_be_edited(ws):
    with pytest.raises(ParameterError, match="cannot be edited"):
        approve(ws, guide(ws), edits={"sha256": "x"})


def test_a_second_guide_for_the_same_intent_supersedes_and_undo_brings_the_first_back(ws):
    approve(ws, guide(ws))
    second = guide(ws, body="Take two backups.")
    card = review.show(ws, second.id)
    assert card.against == "Take a backup before you change a router."
    assert "".join(part.text for part in card.diff if part.change != "removed") == "Take two backups."
    approve(ws, second)
    assert active(ws, Category.USAGE_GUIDE) == ["Take two backups."]
    review.undo(ws, second.id, by="ana")
    assert active(ws, Category.USAGE_GUIDE) == ["Take a backup before you change a router."]


def test_promoting_a_lesson_copies_it_with_its_origin_and_evidence(ws, lesson):
    proposal = ws.proposals.propose(
        type="promote-scope",
        title="wider",
        payload={"memory_id": lesson, "to_scope": "global"},
        evidence=("e1",),
    )
    approve(ws, proposal)
    rows = {str(m.scope): m for m in ws.memory.rows(category="reflection", status="active")}
    assert set(rows) == {"agent:ops", "global"}
    assert rows["global"].payload["promoted_from"] == lesson
    assert rows["global"].evidence == ("e1",)
    review.undo(ws, proposal.id, by="ana")
    assert {str(m.scope) for m in ws.memory.rows(category="reflection", status="active")} == {"agent:ops"}


def test_retiring_a_memory_and_taking_it_back(ws, lesson):
    proposal = ws.proposals.propose(
        type="retire-memory", title="old", payload={"memory_ids": [lesson], "reason": "unused"}
    )
    approve(ws, proposal)
    assert ws.memory.get(lesson).status is Status.RETIRED
    review.undo(ws, proposal.id, by="ana")
    assert ws.memory.get(lesson).status is Status.ACTIVE


def test_a_fact_replaces_another(ws):
    old = {
        "scope": "project:web",
        "text": "Indentation is spaces.",
        "slot": "fact:code:indentation",
        "category": "learned_fact",
        "origin": "inferred",
    }
    from sitoolkit.records import Memory

    old_id = ws.memory.upsert([Memory(**old)], run_id="run_seed").items[0].id
    fact = {"scope": "project:web", "text": "Indentation is tabs.", "slot": "fact:code:indentation"}
    proposal = ws.proposals.propose(
        type="fact-update", title="tabs", payload={"fact": fact, "replaces": [old_id]}, evidence=("e9",)
    )
    approve(ws, proposal)
    assert active(ws, Category.LEARNED_FACT) == ["Indentation is tabs."]
    review.undo(ws, proposal.id, by="ana")
    assert active(ws, Category.LEARNED_FACT) == ["Indentation is spaces."]


def test_a_code_fix_writes_exports_and_nothing_else(ws):
    payload = {"root_cause": "no limit", "suggested_fix": "add one", "patch": "--- a\n+++ b\n"}
    proposal = ws.proposals.propose(
        type="code-fix", title="../../etc/passwd: fix", payload=payload, evidence=("e1",)
    )
    before = {path for path in ws.path.rglob("*") if path.is_file()}
    approve(ws, proposal)
    written = {path.relative_to(ws.path).as_posix() for path in ws.path.rglob("*") if path.is_file()} - {
        path.relative_to(ws.path).as_posix() for path in before
    }
    outside = {
        name
        for name in written
        if not name.startswith(("exports/", "journal/", "proposals/")) and not name.endswith(".lock")
    }
    assert outside == set()
    assert sorted(Path(name).suffix for name in written if name.startswith("exports/")) == [".md", ".patch"]


def test_a_prompt_fragment_gets_a_version_each_time(ws):
    for number, text in enumerate(("Answer in short.", "Answer in one line."), 1):
        approve(
            ws,
            ws.proposals.propose(
                type="system-prompt", title=f"style {number}", payload={"name": "style", "text": text}
            ),
        )
    folder = ws.path / "prompts" / "fragments" / "style"
    assert [path.name for path in sorted(folder.glob("v*.md"))] == ["v1.md", "v2.md"]
    assert (folder / "v1.md").read_text() == "Answer in short.\n"
    asked = [{"role": "system", "content": "You are ops."}, {"role": "user", "content": "hi"}]
    found = recall(ws, "how to answer", Reader(agent="ops"))
    once = inject(asked, found)
    assert [m["content"] for m in once][:2] == [
        "You are ops.",
        "Instructions that a person approved:\n\nAnswer in one line.",
    ]
    assert inject(once, found) == once
    review.undo(ws, ws.proposals.list()[-1].id, by="ana")
    assert recall(ws, "how to answer", Reader(agent="ops")).fragments == ("Answer in short.",)


def test_what_cannot_be_carried_out_leaves_nothing_and_says_why(ws):
    bad = ws.proposals.propose(type="usage-guide", title="bad", payload={"intent": "x"})
    with pytest.raises(ProposalError, match="lacks 'body'"):
        approve(ws, bad)
    assert ws.proposals.get(bad.id).state is ProposalState.PENDING
    hidden = guide(ws, intent="hidden", body="Take a backup\u202e tsrif.")
    with pytest.raises(ProposalError):
        approve(ws, hidden)
    assert ws.proposals.get(hidden.id).state is ProposalState.FAILED
    assert active(ws, Category.USAGE_GUIDE) == []
    assert not (ws.path / "guides" / "ops" / "hidden.guide.yaml").exists()


def test_a_stale_proposal_says_what_changed_and_opens_again_when_that_is_undone(ws, lesson):
    proposal = ws.proposals.propose(
        type="promote-scope", title="wider", payload={"memory_id": lesson, "to_scope": "global"}
    )
    ws.memory.set_status([lesson], "retired", run_id="run_x", reason="wrong")
    card = review.show(ws, proposal.id)
    assert card.proposal.state is ProposalState.STALE
    assert f"memory {lesson} is retired" in card.stale
    with pytest.raises(StaleProposal):
        review.approve(ws, proposal.id, by="ana", seen_hash=card.hash)
    ws.memory.undo("run_x")
    assert review.show(ws, proposal.id).proposal.state is ProposalState.PENDING


def test_a_rejected_proposal_comes_back_only_with_new_evidence_and_says_so(ws):
    proposal = guide(ws)
    review.reject(ws, proposal.id, by="ana", reason="not ours")
    assert guide(ws).state is ProposalState.REJECTED
    payload = proposal.payload
    back = ws.proposals.propose(
        type="usage-guide", title=proposal.title, payload=payload, evidence=("e1", "e7")
    )
    assert back.state is ProposalState.PENDING
    assert "not ours" in back.note
    with pytest.raises(ParameterError, match="needs a reason"):
        review.reject(ws, back.id, by="ana", reason=" ")


def test_a_rejection_can_be_undone(ws):
    proposal = guide(ws)
    review.reject(ws, proposal.id, by="ana", reason="no")
    assert review.undo(ws, proposal.id, by="ana").proposal.state is ProposalState.PENDING
    with pytest.raises(ProposalError, match="no decision to undo"):
        review.undo(ws, proposal.id, by="ana")


def test_an_undo_is_refused_where_a_file_was_changed_since(ws):
    proposal = guide(ws)
    approve(ws, proposal)
    (ws.path / "guides" / "ops" / "backup_first.guide.yaml").write_text("intent: mine\n")
    with pytest.raises(ProposalError, match="changed since"):
        review.undo(ws, proposal.id, by="ana")


# ---------------------------------------------------------------- groups, lists


def test_groups_leave_high_risk_out_and_are_undone_together(ws):
    low = [guide(ws, intent=f"g{n}") for n in range(3)]
    high = ws.proposals.propose(
        type="system-prompt", title="x", payload={"name": "x", "text": "y"}, risk="high"
    )
    seen = {proposal.id: review.show(ws, proposal.id).hash for proposal in [*low, high]}
    bulk = review.approve_many(ws, seen, by="ana")
    assert set(bulk.done) == {proposal.id for proposal in low}
    assert list(bulk.left_out) == [high.id] and "high risk" in bulk.left_out[high.id]
    undone = review.undo_group(ws, bulk.group, by="ana")
    assert set(undone.done) == set(bulk.done)
    assert active(ws, Category.USAGE_GUIDE) == []
    with pytest.raises(NotFoundError):
        review.undo_group(ws, "group_nothing", by="ana")


def test_the_list_can_be_filtered_and_shows_pending_first(ws):
    one, two = guide(ws, intent="one"), guide(ws, intent="two")
    review.defer(ws, one.id, by="ana")
    assert [p.id for p in review.list_proposals(ws)] == [two.id, one.id]
    assert [p.id for p in review.list_proposals(ws, text="TWO")] == [two.id]
    assert [p.id for p in review.list_proposals(ws, states=["deferred"])] == [one.id]
    assert review.list_proposals(ws, type="code-fix") == []


def test_risk_changes_the_hash_so_that_it_is_seen_first(ws):
    proposal = guide(ws)
    raised = review.set_risk(ws, proposal.id, "high", by="ana")
    assert raised.risk == "high" and raised.hash != proposal.hash
    review.escalate(ws, proposal.id, by="ana", reason="ask the network team")
    assert ws.proposals.get(proposal.id).state is ProposalState.PENDING


def test_hidden_characters_are_shown():
    shown, names = review.reveal_hidden("a\u202eb\u200bc")
    assert shown == "a⟨U+202E⟩b⟨U+200B⟩c"
    assert names == ("U+202E RIGHT-TO-LEFT OVERRIDE", "U+200B ZERO WIDTH SPACE")


# ---------------------------------------------------------------- kill -9

KILLER = """
import os, sys
from pathlib import Path
from sitoolkit import review
from sitoolkit.models.embedders import HashingEmbedder
from sitoolkit.workspace import Workspace
from sitoolkit.review import effects
from sitoolkit.stores import journal, log

left = int(sys.argv[3])


def count(event, args):
    # kills this process the n-th time that it is about to write in the workspace
    global left
    if not args or sys.argv[1] not in str(args[0]):
        return
    writes = event in ("os.rename", "os.remove") or (event == "open" and isinstance(args[2], int) and args[2] & 3)
    if writes:
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)


ws = Workspace(sys.argv[1], embedder=HashingEmbedder())
card = review.show(ws, sys.argv[2])
ws.memory.snapshot()
sys.addaudithook(count)
review.approve(ws, sys.argv[2], by="ana", seen_hash=card.hash)
print("done", left)
"""


def test_a_kill_at_any_step_leaves_all_of_an_approval_or_nothing(ws, tmp_path):
    script = tmp_path / "killer.py"
    script.write_text(KILLER)
    finished = False
    seen = set()
    for step in range(60):
        proposal = guide(ws, intent=f"killed_{step}", body=f"Rule number {step} for routers.")
        done = subprocess.run(
            [sys.executable, str(script), str(ws.path), proposal.id, str(step)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        review.recover(ws)
        now = ws.proposals.get(proposal.id)
        file = ws.path / "guides" / "ops" / f"killed_{step}.guide.yaml"
        stands = (file.is_file(), f"Rule number {step} for routers." in active(ws, Category.USAGE_GUIDE))
        seen.add(now.state)
        if now.state is ProposalState.IMPLEMENTED:
            assert stands == (True, True), step
        else:
            assert (now.state, stands) == (ProposalState.PENDING, (False, False)), step
        if done.returncode == 0:
            finished = True
            break
    assert finished, "the last run must come through, or not every step was tried"
    assert seen == {ProposalState.PENDING, ProposalState.IMPLEMENTED}
