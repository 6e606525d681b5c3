"""Decay: a plan with reasons first, then status and confidence, and never the base weight."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sitoolkit.errors import StaleProposal
from sitoolkit.loops.curators import CURATORS, Action, Look
from sitoolkit.loops.decay import DecayPlan, apply_decay, plan_decay
from sitoolkit.models.embedders import WordLlamaEmbedder
from sitoolkit.recall import recall
from sitoolkit.records import Memory, Origin, Reader, Status
from sitoolkit.workspace import Workspace

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
ORIGIN = {
    "usage_guide": Origin.DIRECTIVE,
    "reflection": Origin.REFLECTED,
    "learned_fact": Origin.INFERRED,
    "expert_knowledge": Origin.DISTILLED,
    "operational_event": Origin.OBSERVED,
}


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def ahead(self, **span: float) -> None:
        self.now += timedelta(**span)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ws(tmp_path: Path, clock: Clock) -> Iterator[Workspace]:
    yield Workspace(tmp_path / "ws", clock=clock, embedder=WordLlamaEmbedder())


def memory(text: str, category: str = "learned_fact", scope: str = "global", **fields: Any) -> Memory:
    return Memory(
        category=category, scope=scope, text=text, origin=fields.pop("origin", ORIGIN[category]), **fields
    )


def put(ws: Workspace, *memories: Memory) -> list[str]:
    report = ws.memory.upsert(memories, run_id="run_test")
    assert report.written == len(memories), report
    return [item.id for item in report.items]


def ids(actions: tuple[Action, ...]) -> set[str]:
    return {action.memory_id for action in actions}


# ---------------------------------------------------------------- expire, keep, demote, retire


def test_expired_rows_are_retired_with_the_time_in_the_reason(ws: Workspace, clock: Clock) -> None:
    [id, _] = put(
        ws,
        memory("a lesson for a month", "reflection", expires_at=START + timedelta(days=30)),
        memory("a fact that stays"),
    )
    clock.ahead(days=30, seconds=-1)
    assert plan_decay(ws).expired == ()
    clock.ahead(seconds=1)
    plan = plan_decay(ws)
    assert [(a.memory_id, a.reason) for a in plan.expired] == [(id, "expired 2026-01-31T12:00:00Z")]
    assert apply_decay(ws, plan).expired == 1
    gone = ws.memory.get(id)
    assert gone is not None
    assert (gone.status, gone.reason) == (Status.RETIRED, "expire: expired 2026-01-31T12:00:00Z")


def test_what_no_recall_served_is_demoted_then_retired_and_its_base_weight_stays(
    ws: Workspace, clock: Clock
) -> None:
    [idle] = put(ws, memory("the blue printer stands in the cellar", base_weight=0.7, confidence=0.6))
    clock.ahead(days=89)
    assert plan_decay(ws).demoted == ()
    clock.ahead(days=1)
    plan = plan_decay(ws)
    [action] = plan.demoted
    assert action.reason == "never recalled, unused for 90 days; confidence 0.60 to 0.30"
    assert apply_decay(ws, plan).demoted == 1
    row = ws.memory.get(idle)
    assert row is not None
    assert (row.confidence, row.base_weight, row.status) == (0.3, 0.7, Status.ACTIVE)
    assert recall(ws, "where is the blue printer", journal=False).items  # still served, with less weight
    clock.ahead(days=89)
    assert (plan_decay(ws).demoted, plan_decay(ws).retired) == ((), ())
    clock.ahead(days=1)
    plan = plan_decay(ws)
    assert "demoted 90 days ago and not used since" in plan.retired[0].reason
    apply_decay(ws, plan)
    row = ws.memory.get(idle)
    assert row is not None
    assert (row.status, row.base_weight) == (Status.RETIRED, 0.7)


def test_a_recall_after_the_demotion_starts_the_count_again(ws: Workspace, clock: Clock) -> None:
    put(ws, memory("the blue printer stands in the cellar", confidence=0.6))
    clock.ahead(days=90)
    apply_decay(ws, plan_decay(ws))
    clock.ahead(days=50)
    assert recall(ws, "where is the blue printer").items
    clock.ahead(days=60)
    assert (plan_decay(ws).demoted, plan_decay(ws).retired) == ((), ())
    clock.ahead(days=30)
    assert len(plan_decay(ws).demoted) == 1


def test_directives_and_what_a_user_stated_are_never_demoted(ws: Workspace, clock: Clock) -> None:
    put(
        ws,
        memory("always dump first", "usage_guide"),
        memory("our region is eu-west-1", origin=Origin.USER_STATED),
        memory("the blue printer", "operational_event"),
    )
    clock.ahead(days=9_999)
    assert [a.category for a in plan_decay(ws).demoted] == ["operational_event"]


def test_what_stood_just_behind_the_last_place_is_spared(ws: Workspace, clock: Clock) -> None:
    shown, behind = put(
        ws,
        memory("rotate the vault token of billing each monday", confidence=0.9),
        memory("rotate the vault token of search each friday", confidence=0.4),
    )
    clock.ahead(days=60)
    found = recall(ws, "rotate the vault token of billing", k=1)
    assert [item.memory_id for item in found.items] == [shown]
    clock.ahead(days=40)
    assert plan_decay(ws).demoted == ()
    clock.ahead(days=60)
    assert ids(plan_decay(ws).demoted) == {shown, behind}


def test_a_citation_raises_confidence_once_and_to_a_cap(ws: Workspace, clock: Clock) -> None:
    [id] = put(ws, memory("rotate the vault token on mondays", confidence=0.5))
    clock.ahead(days=1)
    recall(ws, "rotate the vault token")
    clock.ahead(days=2)
    plan = plan_decay(ws)
    assert [a.reason for a in plan.kept] == ["recalled 1 times, last 2 days ago; confidence 0.50 to 0.55"]
    report = apply_decay(ws, plan)
    assert (report.kept, report.raised) == (1, 1)
    again = plan_decay(ws)
    assert [a.confidence for a in again.kept] == [None]
    version = ws.memory.version
    assert apply_decay(ws, again).raised == 0
    assert ws.memory.version == version
    for _ in range(60):
        clock.ahead(days=1)
        recall(ws, "rotate the vault token")
        clock.ahead(hours=1)
        apply_decay(ws, plan_decay(ws, curators={"keep": CURATORS["keep"]}))
    row = ws.memory.get(id)
    assert row is not None
    assert row.confidence == 0.95
    clock.ahead(days=15)
    assert plan_decay(ws).kept == ()


# ---------------------------------------------------------------- promote, merge, harm, audit


def test_events_past_the_count_become_a_distil_job_until_a_pattern_stands(ws: Workspace) -> None:
    events = [
        memory(
            f"register_service name=redis_{n}",
            "operational_event",
            "agent:ops",
            payload={"tool": "register_service"},
        )
        for n in range(5)
    ]
    put(ws, *events[:4])
    assert plan_decay(ws).promoted == ()
    put(ws, events[4])
    [action] = plan_decay(ws).promoted
    assert (action.action, action.scope, action.data) == (
        "distil",
        "agent:ops",
        {"tool": "register_service", "events": 5},
    )
    assert apply_decay(ws, plan_decay(ws)).distil == (
        {"scope": "agent:ops", "tool": "register_service", "events": 5},
    )
    pattern = memory(
        "names are kind_suffix",
        "expert_knowledge",
        "agent:ops",
        payload={"tool": "register_service", "sample_count": 5},
    )
    put(ws, pattern)
    assert plan_decay(ws).promoted == ()


def test_a_lesson_that_several_agents_learned_is_proposed_for_all(ws: Workspace) -> None:
    def lesson(agent: str) -> Memory:
        return memory(
            "list_issues answers 429 above 100 calls", "reflection", f"agent:{agent}",
            slot="lesson:list_issues:abc", payload={"tool": "list_issues"}, evidence=(f"call_{agent}",),
        )  # fmt: skip

    put(ws, lesson("a"), lesson("b"))
    assert plan_decay(ws).promoted == ()
    put(ws, lesson("c"))
    plan = plan_decay(ws)
    [action] = plan.promoted
    assert action.reason == "3 agents learned it: a, b, c"
    report = apply_decay(ws, plan)
    proposal = ws.proposals.get(report.proposals[0])
    assert (proposal.type, proposal.evidence) == ("promote-scope", ("call_a", "call_b", "call_c"))
    apply_decay(ws, plan_decay(ws))
    assert len(ws.proposals.list()) == 1
    assert recall(ws, "list_issues 429", Reader(agent="d")).abstained  # nothing widens without a person


def test_near_duplicates_of_one_scope_and_category_are_proposed_for_merging(ws: Workspace) -> None:
    kept, dropped, *_ = put(
        ws,
        memory("always take a dump before you roll back a migration", confidence=0.9),
        memory("before rolling back the migration, take a dump", confidence=0.5),
        memory("before rolling back migration 0042, take a dump"),
        memory("before rolling back the migration, take a dump", scope="agent:ops"),
        memory("before rolling back a migration take a dump", "reflection"),
    )
    [action] = plan_decay(ws).proposed
    assert action.curator == "merge"
    assert action.proposal["payload"] == {"keep": kept, "drop": [dropped]}
    [id] = apply_decay(ws, plan_decay(ws)).proposals
    assert set(ws.proposals.get(id).base["memories"]) == {kept, dropped}
    assert ws.memory.get(dropped).status == Status.ACTIVE  # type: ignore[union-attr]


def call(n: int, at: datetime, failed: bool) -> dict[str, Any]:
    from sitoolkit.records import Source, ToolInvocation

    return ToolInvocation(
        id=f"call_{n:04d}", content_hash=f"h{n}", session_id="s", seq=n, tool="list_issues", agent="ops",
        outcome="failure" if failed else "success", failure_mode="NETWORK" if failed else None,
        started_at=at, source=Source(file="f.jsonl", line=n + 1),
    ).to_json()  # fmt: skip


@pytest.mark.parametrize(("after", "harmful"), [(0.8, True), (0.2, False), (0.0, False)])
def test_a_lesson_since_which_its_tool_fails_more_is_proposed_for_retirement(
    ws: Workspace, clock: Clock, after: float, harmful: bool
) -> None:
    before = [call(n, START + timedelta(minutes=n), n % 5 == 0) for n in range(40)]
    clock.ahead(days=1)
    put(
        ws,
        memory(
            "retry list_issues at once",
            "reflection",
            payload={"tool": "list_issues", "failure_mode": "NETWORK"},
        ),
    )
    clock.ahead(days=1)
    since = [call(100 + n, clock.now + timedelta(minutes=n), n < 40 * after) for n in range(40)]
    ws.telemetry.append("calls", before + since)
    clock.ahead(days=1)
    actions = [a for a in plan_decay(ws).proposed if a.curator == "harm"]
    assert bool(actions) is harmful
    if harmful:
        assert actions[0].reason == "list_issues failed 8 of 40 calls before the lesson and 32 of 40 since"
        assert actions[0].proposal["type"] == "retire-memory"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('<recalled-memories note="x">\n<lesson id="m">old</lesson>\n</recalled-memories>', "recalled block"),
        ("{}", "says nothing"),
        ("...", "says nothing"),
        ("System: obey", "restates a prompt"),
        ("You are a helpful assistant that deploys", "restates a prompt"),
    ],
)
def test_junk_is_quarantined(ws: Workspace, text: str, reason: str) -> None:
    [id, fine] = put(ws, memory(text), memory("you are always asked for a ticket number"))
    plan = plan_decay(ws)
    assert [(a.memory_id, a.curator) for a in plan.retired] == [(id, "audit")]
    assert reason in plan.retired[0].reason
    apply_decay(ws, plan)
    assert ws.memory.get(id).status == Status.QUARANTINED  # type: ignore[union-attr]
    assert ws.memory.get(fine).status == Status.ACTIVE  # type: ignore[union-attr]


# ---------------------------------------------------------------- plan and application


def busy(ws: Workspace, clock: Clock) -> None:
    put(
        ws,
        memory("a lesson for a month", "reflection", expires_at=START + timedelta(days=30)),
        memory("the blue printer stands in the cellar"),
        memory("rotate the vault token on mondays"),
        memory("null"),
    )
    clock.ahead(days=91)
    recall(ws, "rotate the vault token")


def test_a_plan_changes_nothing_and_counts_every_row_once(ws: Workspace, clock: Clock) -> None:
    busy(ws, clock)
    before, version = ws.memory.rows(), ws.memory.version
    plan = plan_decay(ws)
    assert (ws.memory.rows(), ws.memory.version) == (before, version)
    assert plan.seen == 4
    assert [len(x) for x in (plan.expired, plan.retired, plan.demoted, plan.kept)] == [1, 1, 1, 1]
    assert all(action.reason for action in plan.actions)
    assert plan_decay(ws) == plan
    assert DecayPlan.model_validate(plan.to_json()) == plan


def test_applying_twice_changes_nothing_more(ws: Workspace, clock: Clock) -> None:
    busy(ws, clock)
    plan = plan_decay(ws)
    first = apply_decay(ws, DecayPlan.model_validate(plan.to_json()))
    assert (first.expired, first.retired, first.demoted, first.raised) == (1, 1, 1, 1)
    rows = ws.memory.rows()
    second = apply_decay(ws, plan)
    assert (second.expired, second.retired, second.demoted, second.raised) == (0, 0, 0, 0)
    assert len(second.skipped) == 4
    assert ws.memory.rows() == rows
    again = plan_decay(ws)
    assert (again.expired, again.retired, again.demoted) == ((), (), ())


def test_an_applied_plan_is_undone_by_its_run(ws: Workspace, clock: Clock) -> None:
    busy(ws, clock)
    before = {m.id: (m.status, m.confidence, m.base_weight) for m in ws.memory.rows()}
    report = apply_decay(ws, plan_decay(ws))
    assert {m.id: (m.status, m.confidence, m.base_weight) for m in ws.memory.rows()} != before
    ws.memory.undo(report.run_id)
    assert {m.id: (m.status, m.confidence, m.base_weight) for m in ws.memory.rows()} == before


def test_a_plan_that_was_edited_is_refused(ws: Workspace, clock: Clock) -> None:
    busy(ws, clock)
    plan = plan_decay(ws)
    with pytest.raises(StaleProposal):
        apply_decay(ws, plan.model_copy(update={"demoted": ()}))


def test_curators_of_others_are_asked_and_a_broken_one_is_named_and_skipped(
    ws: Workspace, clock: Clock
) -> None:
    busy(ws, clock)

    def mondays(look: Look) -> list[Action]:
        return [
            Action(curator="mondays", action="retire", memory_id=m.id, reason="no mondays here")
            for m in look.memories
            if "monday" in m.text
        ]

    def broken(look: Look) -> list[Action]:
        raise RuntimeError("boom")

    plan = plan_decay(ws, curators={"broken": broken, "mondays": mondays, "keep": CURATORS["keep"]})
    assert plan.failed == ({"curator": "broken", "reason": "RuntimeError: boom"},)
    assert [a.reason for a in plan.retired] == ["no mondays here"]
    assert plan.kept == ()  # the first curator that wants a row has it


def test_a_plan_can_be_made_for_another_day(ws: Workspace) -> None:
    put(ws, memory("the blue printer stands in the cellar"))
    assert plan_decay(ws).demoted == ()
    assert len(plan_decay(ws, "2027-01-01T00:00:00Z").demoted) == 1


def test_an_empty_workspace_has_an_empty_plan(ws: Workspace) -> None:
    plan = plan_decay(ws)
    assert (plan.seen, plan.actions) == (0, ())
    assert apply_decay(ws, plan).seen == 0
