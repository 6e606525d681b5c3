"""Capture: what becomes of sessions, what is kept once, and what is never kept."""

from __future__ import annotations

import json
import multiprocessing
import random
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sitoolkit.loops.capture import CaptureReport, capture_sessions, event_text, find_events, placed, prepare
from sitoolkit.plugins import SelfImprovementPlugin
from sitoolkit.prompt_block import CLOSE, OPEN
from sitoolkit.records import Outcome, Session, Source, ToolInvocation, parse_time
from sitoolkit.settings import CaptureSettings, Settings
from sitoolkit.testing import FixedClock, HashingEmbedder, Scene, generate_demo
from sitoolkit.transcripts import ReadReport, read_sessions
from sitoolkit.workspace import Workspace

DATA = Path(__file__).parents[1] / "data"
AT = parse_time("2026-05-04T08:00:00Z")


def open_ws(path: Path, **settings: Any) -> Workspace:
    return Workspace(
        path,
        settings=Settings(**settings),
        clock=FixedClock("2026-06-01T08:00:00Z"),
        embedder=HashingEmbedder(),
    )


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return open_ws(tmp_path / "ws")


def scene(name: str = "s1", agent: str = "ops", minutes: int = 0) -> Scene:
    assert AT is not None
    return Scene(name, random.Random(name), AT + timedelta(minutes=minutes), agent=agent)


def registered(name: str = "s1", minutes: int = 0, **volatile: Any) -> Session:
    made = scene(name, minutes=minutes)
    made.user("register redis")
    made.call("register_service", {"name": "redis_a", "kind": "redis"}, {"status": "ok", **volatile})
    return made.session()


def state(ws: Workspace) -> dict[str, Any]:
    """All that the stores say, without when and by which run."""
    rows = [row.to_json() for row in ws.memory.rows()]
    return {
        "memory": sorted(json.dumps(row, sort_keys=True) for row in rows),
        **{
            stream: ws.telemetry.sql(f"select * exclude (imported_at) from {stream}").rows()
            for stream in ("calls", "sessions", "turns")
        },
    }


def event_rows(ws: Workspace) -> list[Any]:
    return ws.memory.rows(category="operational_event")


# ---------------------------------------------------------------- what becomes of calls


def test_a_write_call_becomes_one_precedent_and_every_call_telemetry(ws: Workspace) -> None:
    made = scene()
    made.user("go")
    made.call("list_services", {}, [])
    made.call("register_service", {"name": "redis_a", "kind": "redis"}, {"status": "ok"})
    report = capture_sessions(ws, [made.session()])
    assert (report.sessions, report.calls, report.writes, report.captured.written) == (1, 2, 1, 1)
    [row] = event_rows(ws)
    assert row.scope == "agent:ops" and row.origin == "observed" and row.tags == ("register_service",)
    assert (row.confidence, row.base_weight, row.seen_count) == (0.8, 0.5, 1)
    assert row.payload["args"] == {"name": "redis_a", "kind": "redis"}
    assert ws.telemetry.sql("select count(*) from calls").item() == 2
    assert ws.telemetry.sql("select writes, calls, failures from sessions").row(0) == (1, 2, 0)


def test_evidence_resolves_to_the_call(ws: Workspace) -> None:
    capture_sessions(ws, [registered()])
    [row] = event_rows(ws)
    found = ws.telemetry.resolve(row.evidence)
    assert found["kind"].to_list() == ["call"] and found["tool"].to_list() == ["register_service"]


@pytest.mark.parametrize("outcome", [Outcome.FAILURE, Outcome.TIMEOUT, Outcome.CANCELLED, Outcome.UNKNOWN])
def test_what_did_not_succeed_is_never_a_precedent(ws: Workspace, outcome: Outcome) -> None:
    made = scene()
    made.call(
        "delete_service",
        {"name": "x"},
        outcome=outcome,
        error="boom" if outcome is not Outcome.UNKNOWN else None,
    )
    report = capture_sessions(ws, [made.session()])
    assert report.outcomes[outcome.value] == 1 and report.writes == 0 and report.not_precedent == 1
    assert event_rows(ws) == [] and ws.telemetry.sql("select count(*) from calls").item() == 1


def test_calls_that_never_ran_or_lie_on_a_branch_given_up_are_no_precedent() -> None:
    call = registered().calls[0]
    for update in ({"ran": False}, {"abandoned": True}):
        session = registered()
        turn = session.turns[1].model_copy(update={"calls": (call.model_copy(update=update),)})
        assert find_events([session.model_copy(update={"turns": (session.turns[0], turn)})]) == []


def test_the_workspaces_lists_win(tmp_path: Path) -> None:
    ws = open_ws(
        tmp_path / "ws", capture=CaptureSettings(write_tools=("list_*",), read_tools=("register_service",))
    )
    made = scene()
    made.call("list_services", {}, [1])
    made.call("register_service", {"name": "a"}, "ok")
    assert [row.payload["tool"] for row in (capture_sessions(ws, [made.session()]), event_rows(ws))[1]] == [
        "list_services"
    ]


# ---------------------------------------------------------------- once


def test_importing_again_changes_nothing(ws: Workspace) -> None:
    sessions = list(read_sessions(DATA / "transcripts"))
    first = capture_sessions(ws, sessions)
    before = state(ws)
    again = capture_sessions(ws, sessions)
    assert first.captured.written > 100 and first.captured.failed == first.captured.blocked == 0
    assert (
        again.captured.written == 0
        and again.new_calls == 0
        and again.captured.repeated == again.writes == first.writes
    )
    assert state(ws) == before


def test_the_order_of_sessions_and_batches_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = list(read_sessions(DATA / "transcripts"))
    one, two = open_ws(tmp_path / "one"), open_ws(tmp_path / "two")
    capture_sessions(one, sessions)
    monkeypatch.setattr("sitoolkit.loops.capture.BATCH_CALLS", 37)
    capture_sessions(two, reversed(sessions))

    def rows(ws: Workspace) -> list[Any]:
        keep = {"id", "text", "payload", "seen_count", "first_seen", "last_seen", "evidence", "scope"}
        return sorted(
            (row.model_dump(mode="json", include=keep) for row in event_rows(ws)), key=lambda row: row["id"]
        )

    assert rows(one) == rows(two)


def test_the_same_content_again_is_counted_not_copied(ws: Workspace) -> None:
    capture_sessions(ws, [registered("s1", request_id="req-11112222", took_ms=4)])
    report = capture_sessions(ws, [registered("s2", minutes=60, request_id="req-99990000", took_ms=9)])
    assert (report.captured.written, report.captured.repeated) == (0, 1)
    [row] = event_rows(ws)
    assert row.seen_count == 2 and len(row.evidence) == 2
    assert row.last_seen > row.first_seen


def test_two_identical_calls_in_one_session_are_one_row_seen_twice(ws: Workspace) -> None:
    made = scene()
    for _ in range(2):
        made.call("restart_service", {"name": "redis_a"}, "ok")
    report = capture_sessions(ws, [made.session()])
    assert (report.writes, report.captured.written, report.captured.repeated) == (2, 1, 1)
    assert [row.seen_count for row in event_rows(ws)] == [2]


def test_a_grown_transcript_adds_only_what_is_new(ws: Workspace) -> None:
    made = scene()
    made.user("go")
    made.call("register_service", {"name": "a"}, "ok")
    capture_sessions(ws, [made.session()])
    made.call("register_service", {"name": "b"}, "ok")
    report = capture_sessions(ws, [made.session()])
    assert (report.new_calls, report.captured.written, report.captured.repeated) == (1, 1, 1)
    assert [row.seen_count for row in event_rows(ws)] == [1, 1]
    assert ws.telemetry.sql("select count(*), max(calls) from sessions").row(0) == (1, 2)


def test_a_result_that_comes_with_the_longer_transcript_makes_the_precedent(ws: Workspace) -> None:
    done = registered()
    call = done.calls[0]
    open_call = call.model_copy(update={"outcome": Outcome.UNKNOWN, "result": None, "paired": False})
    cut = done.model_copy(
        update={"turns": (done.turns[0], done.turns[1].model_copy(update={"calls": (open_call,)}))}
    )
    assert capture_sessions(ws, [cut]).writes == 0
    assert capture_sessions(ws, [done]).captured.written == 1
    assert ws.telemetry.sql("select outcome from calls").rows() == [("success",)]


def _import(folder: str, part: int) -> None:
    sessions = list(read_sessions(DATA / "transcripts" / "ops.jsonl"))
    capture_sessions(open_ws(Path(folder)), sessions[part::2] + sessions[:12])


def test_importers_at_the_same_time_lose_and_double_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_import, args=(str(tmp_path / "ws"), part)) for part in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(280)
    assert [worker.exitcode for worker in workers] == [0, 0]
    alone = open_ws(tmp_path / "alone")
    sessions = list(read_sessions(DATA / "transcripts" / "ops.jsonl"))
    capture_sessions(alone, sessions)
    shared = open_ws(tmp_path / "ws")
    assert sorted((r.id, r.seen_count) for r in event_rows(shared)) == sorted(
        (r.id, r.seen_count) for r in event_rows(alone)
    )
    assert (
        shared.telemetry.sql("select count(*) from calls").item()
        == alone.telemetry.sql("select count(*) from calls").item()
    )


def test_what_a_killed_import_left_half_done_the_next_completes(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(type(ws.memory), "upsert", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            capture_sessions(ws, [registered()])
    assert ws.telemetry.sql("select count(*) from calls").item() == 1 and event_rows(ws) == []
    assert capture_sessions(ws, [registered()]).captured.written == 1
    assert [row.seen_count for row in event_rows(ws)] == [1]


# ---------------------------------------------------------------- safe


def test_no_planted_secret_reaches_a_store(ws: Workspace) -> None:
    read = ReadReport()
    report = capture_sessions(ws, read_sessions(DATA / "transcripts", report=read), read)
    assert sum(report.redactions.values()) >= 7
    truth = json.loads((DATA / "truth.json").read_text(encoding="utf-8"))
    kept = b"".join(path.read_bytes() for path in ws.path.rglob("*") if path.is_file())
    assert not [secret["kind"] for secret in truth["secrets"] if secret["value"].encode() in kept]
    assert b"GRAFANA_TOKEN" in kept


def test_recalled_text_is_never_captured(ws: Workspace) -> None:
    block = f"{OPEN}\n<precedent id='mem_1'>old secret habit</precedent>\n{CLOSE}\n"
    made = scene()
    made.user(f"{block}please go on")
    made.call("write_note", {"text": f"before {block}after", "n": 1}, [f"{block}done"])
    capture_sessions(ws, [made.session()])
    [row] = event_rows(ws)
    assert "old secret habit" not in row.to_json().__repr__() and "before" in row.text and "done" in row.text
    assert ws.telemetry.sql("select text from turns").item() == "please go on"
    assert "habit" not in str(ws.telemetry.sql("select args, result from calls").rows())


def test_a_blocked_write_is_not_counted_as_written(ws: Workspace) -> None:
    made = scene()
    made.call("write_note", {"text": "abc\u202edef"}, "ok")
    report = capture_sessions(ws, [made.session()])
    assert report.captured.blocked == 1 and report.captured.written == 0
    assert report.problems and report.problems[0]["reason"]


def test_counts_add_up(ws: Workspace) -> None:
    read = ReadReport()
    report = capture_sessions(ws, read_sessions(DATA / "transcripts", report=read), read)
    got = report.captured
    assert got.written + got.repeated + got.blocked + got.failed == report.writes
    assert sum(report.outcomes.values()) == report.calls == read.calls
    truth = json.loads((DATA / "truth.json").read_text(encoding="utf-8"))
    assert report.outcomes == truth["outcomes"] and report.writes == sum(truth["writes"].values())


def test_the_report_has_the_keys_of_the_contract() -> None:
    wanted = {
        "files",
        "sessions",
        "calls",
        "outcomes",
        "writes",
        "captured",
        "set_aside",
        "unknown_types",
        "redactions",
    }
    shown = CaptureReport().to_json()
    assert wanted <= set(shown) and set(shown["captured"]) == {"written", "repeated", "blocked", "failed"}


# ---------------------------------------------------------------- parts


def test_the_text_has_a_fixed_shape_and_no_volatile_parts() -> None:
    call = ToolInvocation(
        session_id="s", seq=0, tool="push", args={"b": 1, "a": "x" * 900}, result={"ok": True, "request_id": "req-1", "n": [1]}, source=Source(file="f")
    )  # fmt: skip
    lines = event_text(call).splitlines()
    assert (
        lines[0] == "Action: push"
        and lines[1].startswith('Arguments: {"a": "xxx')
        and len(lines[1]) == 11 + 600
    )
    assert lines[2] == 'Result: {"n": [1], "ok": true}'
    assert event_text(call.model_copy(update={"args": {"a": "x" * 900, "b": 1}})) == event_text(call)


def test_placing_fills_in_what_the_transcript_does_not_say() -> None:
    session = registered()
    assert placed(session, agent="other") is session
    moved = placed(session, project="p", team="t")
    assert moved.project == "p" and moved.calls[0].team == "t" and moved.agent == "ops"


def test_preparing_twice_changes_nothing() -> None:
    first, _ = prepare(generate_demo().sessions["ops"][2])
    second, found = prepare(first)
    assert first == second and not found


def test_plugins_hear_of_each_new_call_and_session(ws: Workspace) -> None:
    heard: list[str] = []

    class Listener(SelfImprovementPlugin):
        def on_tool_invocation(self, call: ToolInvocation) -> None:
            heard.append(f"call {call.tool}")

        def on_session_end(self, session: Session) -> None:
            heard.append(f"session {session.id}")

    ws.__dict__["plugins"] = (Listener(),)
    capture_sessions(ws, [registered()])
    capture_sessions(ws, [registered()])
    assert heard == ["call register_service", "session s1", "session s1"]


def test_ten_thousand_calls_stream_through(ws: Workspace) -> None:
    made = scene()
    for number in range(3_000):
        made.call("update_item", {"id": number % 50}, "ok")

    def many() -> Iterable[Session]:
        yield made.session()

    seen: list[tuple[int, int]] = []
    report = capture_sessions(ws, many(), progress=lambda *counts: seen.append(counts))
    assert report.captured.written == 50 and report.captured.repeated == 2_950 and seen[-1] == (1, 3_000)
