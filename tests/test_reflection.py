"""A session's reflection is counted, cites its evidence, and is the same twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sitoolkit.errors import NotFoundError
from sitoolkit.loops.capture import capture_sessions
from sitoolkit.loops.reflection import newest_sessions, reflect, reflect_on_session
from sitoolkit.models.embedders import HashingEmbedder
from sitoolkit.records import Outcome, Session, Source, ToolInvocation, Turn
from sitoolkit.workspace import Workspace

START = datetime(2026, 5, 1, tzinfo=UTC)


def call(seq, tool="push", ok=True, args=None, mode="PERM", error="denied", session="s1", outcome=None):
    return ToolInvocation(
        id=f"{session}-{seq}", session_id=session, seq=seq, tool=tool, args=args or {"n": seq}, agent="ops", paired=True,
        outcome=outcome or (Outcome.SUCCESS if ok else Outcome.FAILURE), failure_mode=None if ok else mode, error=None if ok else error,
        started_at=START + timedelta(seconds=10 * seq), duration_ms=500, source=Source(file="f.jsonl", line=seq + 1),
    )  # fmt: skip


def test_successes_were_reused_at_least_twice():
    found = reflect([call(0, args={"to": "main"}), call(1, args={"to": "main"}), call(2, tool="once")])
    assert [(entry["tool"], entry["success_count"]) for entry in found.successes] == [("push", 2)]
    assert "`to` = `main`" in found.successes[0]["strategy"]


def test_failures_count_at_least_two_and_friction_is_marked():
    calls = [
        call(0, ok=False),
        call(1, ok=False),
        *[call(n, "pull", ok=False) for n in range(2, 5)],
        call(5, "x", ok=False),
    ]
    found = reflect(calls)
    assert {(entry["tool"], entry["count"], entry["friction"]) for entry in found.failures} == {
        ("pull", 3, True),
        ("push", 2, False),
    }


def test_cancelled_is_not_failed_and_timeouts_are():
    calls = [call(0, outcome=Outcome.CANCELLED), call(1, outcome=Outcome.CANCELLED)]
    assert reflect(calls).failures == ()
    slow = [call(n, outcome=Outcome.TIMEOUT, mode=None, ok=True) for n in range(2)]
    assert reflect(slow).failures[0]["failure_mode"] == "TIMEOUT"


def test_the_digest_spares_replaying_the_log():
    found = reflect([call(0), call(1, ok=False), call(2, "pull")], tasks=3).telemetry_digest
    assert found["tools"] == {"pull": 1, "push": 2}
    assert found["failure_rate"] == {"pull": 0.0, "push": 0.5}
    assert (found["duration_s"], found["tasks"], found["calls"]) == (20.5, 3, 3)


def test_proposals_cite_evidence_of_the_lists_or_are_dropped_and_counted():
    found = reflect(
        [call(0, ok=False), call(1, ok=False), *[call(n, "q", ok=False, mode="ARGS") for n in range(2, 4)]]
    )
    evidence = {one for entry in (*found.successes, *found.failures) for one in entry["evidence"]}
    assert all(set(entry["evidence"]) <= evidence for entry in found.proposals)
    assert [entry["tool"] for entry in found.proposals] == ["push"]
    assert found.dropped_without_evidence == 1  # a change of the prompt that no contrast grounds


def test_a_hypothesis_is_grounded_in_other_sessions():
    others = [call(n, args={"size": n % 9}, session=f"o{n}") for n in range(20)]
    others += [call(n, ok=False, args={"size": 50 + n}, session=f"p{n}") for n in range(5)]
    found = reflect([call(0, ok=False, args={"size": 70}), call(1, ok=False, args={"size": 80})], others)
    assert found.failures[0]["grounded"]
    assert "`size` above 8" in found.failures[0]["hypothesis"]


def test_several_sessions_or_none_are_refused():
    with pytest.raises(ValueError, match="one session"):
        reflect([call(0), call(0, session="s2")])
    with pytest.raises(ValueError, match="one session"):
        reflect([])


def test_on_the_workspace_twice_writes_once(tmp_path):
    ws = Workspace(tmp_path, clock=lambda: START + timedelta(days=1), embedder=HashingEmbedder())
    calls = tuple(call(n, ok=n > 1) for n in range(4))
    turns = (Turn(role="user", text="please push"), Turn(role="assistant", calls=calls, index=1))
    capture_sessions(ws, [Session(id="s1", agent="ops", turns=turns, source=Source(file="f.jsonl"))])
    first = reflect_on_session(ws, "s1")
    assert first == reflect_on_session(ws, "s1")
    assert len(list(ws.journal.events("session_reflection"))) == 1
    assert first.telemetry_digest["tasks"] == 1
    assert ws.telemetry.resolve(first.failures[0]["evidence"]).height == 2
    assert newest_sessions(ws, 3) == ["s1"]
    with pytest.raises(NotFoundError):
        reflect_on_session(ws, "gone")
