"""What counts as friction, and that it fires once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sitoolkit.learning.rates import log_tail, rate_test
from sitoolkit.loops.friction import detect_friction, event_key, find_friction, threshold_for
from sitoolkit.records import Outcome, Source, ToolInvocation
from sitoolkit.testing.simulator import score_events, simulate_friction

START = datetime(2026, 1, 1, tzinfo=UTC)


def call(
    seq, session="s1", tool="push", outcome=Outcome.FAILURE, mode="PERM", error="denied", at=None, args=None
):
    return ToolInvocation(
        id=f"{session}-{seq}", session_id=session, seq=seq, tool=tool, args=args or {"n": seq}, outcome=outcome,
        failure_mode=mode, error=error, started_at=at or START + timedelta(minutes=seq), source=Source(file="f", line=seq + 1),
    )  # fmt: skip


def test_three_failures_of_one_pair_in_one_session_fire_once():
    events = detect_friction([call(0), call(1), call(2), call(3)])
    assert [(e.tool, e.failure_mode, e.session_id, e.count) for e in events] == [("push", "PERM", "s1", 4)]
    assert detect_friction([call(0), call(1)]) == []


def test_counters_reset_per_session():
    assert detect_friction([call(0), call(1), call(0, "s2"), call(1, "s2")]) == []


def test_different_modes_are_different_pairs():
    assert detect_friction([call(0), call(1, mode="ARGS"), call(2, mode="NETWORK")]) == []


def test_timeouts_count_and_cancelled_and_unknown_do_not():
    slow = [call(i, outcome=Outcome.TIMEOUT, mode=None) for i in range(3)]
    assert detect_friction(slow)[0].failure_mode == "TIMEOUT"
    for outcome in (Outcome.CANCELLED, Outcome.UNKNOWN, Outcome.SUCCESS):
        assert detect_friction([call(i, outcome=outcome) for i in range(5)]) == []


def test_a_call_read_twice_counts_once():
    assert detect_friction([call(0), call(1), call(0), call(1)]) == []


def test_evidence_is_the_first_the_last_and_the_most_different():
    calls = [call(i, error="denied for main") for i in range(40)]
    calls[17] = call(17, error="a hook declined it, see policy 9")
    event = detect_friction(calls)[0]
    assert event.evidence == ("s1-0", "s1-17", "s1-39")


def test_fires_again_in_a_new_session_and_says_how_often_before():
    calls = [
        call(i, s, at=START + timedelta(days=d, minutes=i))
        for d, s in enumerate(("b", "a", "c"))
        for i in range(3)
    ]
    events = detect_friction(reversed(calls))
    assert [(e.session_id, e.fired_before) for e in events] == [("b", 0), ("a", 1), ("c", 2)]


def test_order_of_calls_changes_nothing():
    made = simulate_friction(3, sessions=20)
    calls = list(made.calls())
    assert detect_friction(calls) == detect_friction(sorted(calls, key=lambda c: c.id))


@pytest.mark.parametrize(
    ("thresholds", "expected"), [({"push:PERM": 5}, 5), ({"push": 4}, 4), ({":PERM": 2}, 2), ({"pull": 9}, 3)]
)
def test_thresholds_by_tool_and_mode(thresholds, expected):
    assert threshold_for("push", "PERM", 3, thresholds) == expected
    assert bool(detect_friction([call(i) for i in range(expected)], thresholds=thresholds))
    assert not detect_friction([call(i) for i in range(expected - 1)], thresholds=thresholds)


def test_one_firing_has_one_key():
    assert event_key("s", "t", "M") == event_key("s", "t", "M") != event_key("s", "t", "N")


def test_sql_finds_what_the_stream_finds():
    import duckdb
    import polars as pl

    made = simulate_friction(5, sessions=60)
    calls = list(made.calls())
    frame = pl.DataFrame(
        [{**c.to_json(), "args": "{}", "started_at": c.started_at} for c in calls], infer_schema_length=None
    )
    with duckdb.connect() as con:
        con.register("frame", frame)
        con.execute("create table calls as select * from frame")
        con.execute("create view seen as select * from calls")
        tabled, viewed = find_friction(con), find_friction(con, table="seen")
    assert tabled == viewed
    streamed = {(e.session_id, e.tool, e.failure_mode): (e.count, e.at) for e in detect_friction(calls)}
    assert {row[:3]: (row[3], row[6]) for row in tabled} == streamed
    assert all(row[4][0] != row[4][-1] for row in tabled)


def test_log_tail_is_the_binomial_tail():
    assert log_tail(0, 5, 0.3) == pytest.approx(0.0, abs=1e-9)
    assert log_tail(5, 5, 0.5) == pytest.approx(5 * -0.693147, rel=1e-4)


def test_the_rate_test_wins_over_the_fixed_count_on_held_seeds_at_no_more_builds():
    builds = [0.0, 0.0]
    for seed in (301, 302, 303):
        made = simulate_friction(seed)
        counted = score_events({key for key, n in made.failures.items() if n >= 3}, made)
        rated = score_events(rate_test(made.sessions, made.failures, made.uses), made)
        assert rated.f1 > counted.f1
        assert rated.recall > counted.recall
        assert rated.precision > counted.precision
        builds = [builds[0] + counted.builds_per_session, builds[1] + rated.builds_per_session]
    assert builds[1] <= builds[0] * 1.05


def test_method_rate_reads_calls():
    made = simulate_friction(8, sessions=40)
    events = detect_friction(made.calls(), method="rate")
    assert {(e.session_id, e.tool, e.failure_mode) for e in events} == rate_test(
        made.sessions, made.failures, made.uses
    )


# ------------------------------------------------------------ the workspace


def captured(tmp_path, calls):
    from sitoolkit.loops.capture import capture_sessions
    from sitoolkit.models.embedders import HashingEmbedder
    from sitoolkit.records import Session, Turn
    from sitoolkit.workspace import Workspace

    ws = Workspace(tmp_path / "ws", clock=lambda: START + timedelta(days=9), embedder=HashingEmbedder())
    sessions = {}
    for one in calls:
        sessions.setdefault(one.session_id, []).append(one)
    capture_sessions(
        ws,
        [
            Session(
                id=name,
                agent="ops",
                turns=(Turn(role="assistant", calls=tuple(group)),),
                source=Source(file="f"),
            )
            for name, group in sessions.items()
        ],
    )
    return ws


def test_a_scan_fires_each_event_once_and_goes_on_after_a_stop(tmp_path):
    from sitoolkit.loops.friction import scan_friction

    ws = captured(tmp_path, [call(i) for i in range(3)])
    fired = []
    ws.__dict__["plugins"] = (_Listener(fired),)
    first = scan_friction(ws)
    assert (len(first.events), len(first.fired), len(fired)) == (1, 1, 1)
    assert scan_friction(ws).fired == ()
    more = captured(tmp_path, [call(i, "s2", at=START + timedelta(days=2, minutes=i)) for i in range(3)])
    again = scan_friction(more)
    assert [(e.session_id, e.fired_before) for e in again.events] == [("s1", 0), ("s2", 1)]
    assert [e.session_id for e in again.fired] == ["s2"]
    assert scan_friction(more, since=START + timedelta(days=1)).events[0].fired_before == 1


def test_a_firing_that_was_not_kept_is_fired_by_the_next_scan(tmp_path, monkeypatch):
    from sitoolkit.loops.friction import scan_friction
    from sitoolkit.stores.journal import Journal

    ws = captured(tmp_path, [call(i, s) for s in ("s1", "s2") for i in range(3)])
    kept = Journal.append
    count = []

    def stop_at_second(self, event, data=None, run_id=None):
        if event == "bin_event":
            count.append(1)
            if len(count) == 2:
                raise KeyboardInterrupt
        return kept(self, event, data, run_id)

    monkeypatch.setattr(Journal, "append", stop_at_second)
    with pytest.raises(KeyboardInterrupt):
        scan_friction(ws)
    monkeypatch.setattr(Journal, "append", kept)
    assert len(scan_friction(ws).fired) == 1
    assert scan_friction(ws).fired == ()


def test_tau_bench_fires_where_the_file_shows_three(traces):
    from collections import Counter

    from sitoolkit.transcripts import read_sessions

    calls = [one for session in read_sessions(traces / "tau-bench") for one in session.calls]
    counts = Counter((c.session_id, c.tool, c.failure_mode) for c in calls if c.failed)
    expected = {key: n for key, n in counts.items() if n >= 3}
    events = detect_friction(calls)
    assert {(e.session_id, e.tool, e.failure_mode): e.count for e in events} == expected
    print(expected)


class _Listener:
    name = "listener"

    def __init__(self, seen):
        self.seen = seen

    def on_bin_trigger(self, event):
        self.seen.append(event)
