"""Distilling: from captured events to patterns, once, in the right scope, within the window."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sitoolkit.errors import ScopeError, TimeError
from sitoolkit.loops.capture import capture_sessions
from sitoolkit.loops.distill import DistillReport, distill_patterns, pattern_confidence
from sitoolkit.records import Claim, Outcome, Session, parse_time
from sitoolkit.settings import Settings
from sitoolkit.testing import FixedClock, HashingEmbedder, Scene
from sitoolkit.transcripts import read_sessions
from sitoolkit.workspace import Workspace

DATA = Path(__file__).parents[1] / "data"
AT = parse_time("2026-05-04T08:00:00Z")
SEED = [
    ("redis_cache", "redis", "localhost:6379", "REDIS_TOKEN"),
    ("grafana_lab", "grafana", "192.168.100.10:3000", "GRAFANA_TOKEN"),
    ("netbox_main", "netbox", "192.168.100.11:8000", "NETBOX_TOKEN"),
    ("redis_queue", "redis", "localhost:6380", "REDIS_QUEUE_TOKEN"),
    ("gitlab_lab", "gitlab", "192.168.100.12:443", "GITLAB_TOKEN"),
    ("influx_metrics", "influx", "localhost:8086", "INFLUX_TOKEN"),
]


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return Workspace(
        tmp_path / "ws",
        settings=Settings(),
        clock=FixedClock("2026-06-01T08:00:00Z"),
        embedder=HashingEmbedder(),
    )


def registrations(
    rows: Any = SEED, agent: str = "services", days: float = 0, start: int = 0, dated: bool = True
) -> list[Session]:
    assert AT is not None
    sessions = []
    for number, (name, kind, endpoint, token) in enumerate(rows, start):
        scene = Scene(
            f"{agent}-{number}", random.Random(number), AT + timedelta(days=days, hours=number), agent=agent
        )
        scene.user(f"register {name}")
        scene.call(
            "register_service",
            {"name": name, "kind": kind, "endpoint": endpoint, "token_env": token},
            {"status": "ok"},
        )
        session = scene.session()
        if not dated:
            turn = session.turns[1]
            calls = (turn.calls[0].model_copy(update={"started_at": None}),)
            session = session.model_copy(
                update={"turns": (session.turns[0], turn.model_copy(update={"calls": calls}))}
            )
        sessions.append(session)
    return sessions


def patterns(ws: Workspace, **where: Any) -> list[Any]:
    return ws.memory.rows(category="expert_knowledge", **where)


def test_six_events_of_the_seed_become_one_pattern_with_its_conventions(ws: Workspace) -> None:
    capture_sessions(ws, registrations())
    report = distill_patterns(ws)
    assert (report.groups_seen, report.groups_processed, report.patterns_written) == (1, 1, 1)
    [row] = patterns(ws, status="active")
    assert (
        row.slot == "pattern:register_service" and row.scope == "agent:services" and row.origin == "distilled"
    )
    assert row.expires_at is None and row.written_by == "template" and row.payload["sample_count"] == 6
    for said in (
        "`name`, `kind`, `endpoint` and `token_env`",
        "{kind}_{suffix}",
        "environment variable",
        "`localhost`",
        "`192.168.100.x`",
    ):
        assert said in row.text, row.text
    [pattern] = report.patterns
    assert pattern.id == row.id
    ids = {i for claim in pattern.claims for i in claim.evidence} | set(row.evidence)
    assert set(ws.telemetry.resolve(ids)["id"]) == ids


def test_again_leaves_an_unchanged_pattern_untouched(ws: Workspace) -> None:
    capture_sessions(ws, registrations())
    distill_patterns(ws)
    before = [row.to_json() for row in patterns(ws)]
    ws.clock.advance(days=3)  # type: ignore[attr-defined]
    report = distill_patterns(ws)
    assert (report.patterns_written, report.patterns_unchanged, report.patterns_superseded) == (0, 1, 0)
    assert report.patterns[0].result == "unchanged" and report.patterns[0].claims
    assert [row.to_json() for row in patterns(ws)] == before


def test_a_changed_pattern_supersedes_the_old_one_which_stays_readable(ws: Workspace) -> None:
    capture_sessions(ws, registrations())
    distill_patterns(ws)
    capture_sessions(ws, registrations([("minio_lab", "minio", "10.0.0.5:9000", "MINIO_TOKEN")], start=6))
    report = distill_patterns(ws)
    assert (report.patterns_written, report.patterns_superseded) == (1, 1)
    old, new = patterns(ws, status="superseded"), patterns(ws, status="active")
    assert len(old) == len(new) == 1 and new[0].supersedes == old[0].id and old[0].superseded_by == new[0].id
    assert "7 distinct" in new[0].text and "6 distinct" in old[0].text


def test_identical_calls_are_one_sample(ws: Workspace) -> None:
    capture_sessions(ws, registrations([SEED[0]] * 8))
    report = distill_patterns(ws)
    assert (report.groups_seen, report.skipped_low_samples, report.patterns_written) == (1, 1, 0)
    assert report.skipped == ({"tool": "register_service", "scope": "agent:services", "sample_count": 1},)


def test_scopes_do_not_mix(ws: Workspace) -> None:
    capture_sessions(ws, registrations(SEED[:3], agent="a") + registrations(SEED[3:], agent="b"))
    assert distill_patterns(ws).skipped_low_samples == 2
    capture_sessions(ws, registrations(agent="c"))
    assert [p.scope for p in distill_patterns(ws).patterns] == ["agent:c"]
    assert distill_patterns(ws, scope="agent:a").groups_seen == 1
    with pytest.raises(ScopeError):
        distill_patterns(ws, scope="c")


def test_the_window_reaches_back_from_the_newest_event_of_each_scope(ws: Workspace) -> None:
    capture_sessions(ws, registrations(SEED[:5], agent="old", days=-300))  # long before the clock's today
    capture_sessions(
        ws, registrations(SEED, agent="new", days=-40) + registrations(SEED[:2], agent="new", start=10)
    )
    report = distill_patterns(ws)
    assert [p.scope for p in report.patterns] == ["agent:old"]  # of `new`, six of eight events lie outside
    window = next(w for w in report.windows if w.scope == "agent:new")
    assert (window.events, window.outside) == (2, 6)
    earlier = distill_patterns(ws, as_of="2026-04-01T00:00:00Z", dry_run=True)
    assert [p.scope for p in earlier.patterns] == ["agent:new"]
    assert len(distill_patterns(ws, window_days=60, dry_run=True).patterns) == 2
    with pytest.raises(TimeError):
        distill_patterns(ws, as_of="yesterday")


def test_events_without_a_time_count_at_their_import_and_say_so(ws: Workspace) -> None:
    capture_sessions(ws, registrations(dated=False))
    report = distill_patterns(ws)
    assert report.patterns_written == 1
    assert report.notes == ("agent:services: 6 of 6 events carry no time and count at their import",)
    assert report.windows[0].end == "2026-06-01T08:00:00Z"
    assert distill_patterns(ws, as_of="2026-05-31T00:00:00Z").groups_seen == 0


def test_a_pattern_that_a_person_retired_stays_retired_until_something_new_is_seen(ws: Workspace) -> None:
    capture_sessions(ws, registrations())
    [pattern] = distill_patterns(ws).patterns
    ws.memory.set_status([pattern.id], "retired", run_id="by-hand", reason="not ours")
    report = distill_patterns(ws)
    assert report.patterns_written == 0 and report.patterns[0].result == "retired"
    assert patterns(ws, status="active") == []
    capture_sessions(ws, registrations([("minio_lab", "minio", "10.0.0.5:9000", "MINIO_TOKEN")], start=6))
    assert distill_patterns(ws).patterns_written == 1


def test_a_dry_run_writes_nothing(ws: Workspace) -> None:
    capture_sessions(ws, registrations())
    report = distill_patterns(ws, dry_run=True)
    assert report.dry_run and report.patterns[0].result == "preview" and report.patterns_written == 0
    assert patterns(ws) == []


def test_failed_calls_do_not_speak_for_a_convention(ws: Workspace) -> None:
    sessions = registrations()
    bad = registrations([("x", "redis", "nowhere", "nope")], start=20)[0]
    turn = bad.turns[1]
    call = turn.calls[0].model_copy(update={"outcome": Outcome.FAILURE})
    failed = bad.model_copy(update={"turns": (bad.turns[0], turn.model_copy(update={"calls": (call,)}))})
    capture_sessions(ws, [*sessions, failed])
    assert distill_patterns(ws).patterns[0].sample_count == 6


def test_the_order_of_imports_changes_nothing(tmp_path: Path) -> None:
    texts = []
    sessions = list(read_sessions(DATA / "transcripts"))
    for number, order in enumerate((sessions, sessions[::-1])):
        ws = Workspace(
            tmp_path / str(number), settings=Settings(), clock=FixedClock(), embedder=HashingEmbedder()
        )
        capture_sessions(ws, order)
        report = distill_patterns(ws)
        texts.append(json.dumps([p.to_json() for p in report.patterns], sort_keys=True))
    assert texts[0] == texts[1]


def test_all_of_the_demo_resolves_to_files_and_lines(ws: Workspace) -> None:
    capture_sessions(ws, read_sessions(DATA / "transcripts"))
    report = distill_patterns(ws)
    ids = {i for pattern in report.patterns for claim in pattern.claims for i in claim.evidence}
    found = ws.telemetry.resolve(ids)
    assert set(found["id"]) == ids and found["file"].null_count() == 0
    assert len(report.patterns) >= 10 and report.patterns_failed == 0


def claim(support: int, of: int, kind: str = "constant") -> Claim:
    return Claim(id="c", kind=kind, text="", support=support, of=of)


def test_confidence_rises_with_support_and_falls_with_variance_and_single_sessions() -> None:
    five, twenty = pattern_confidence([claim(5, 5)], 5), pattern_confidence([claim(20, 20)], 20)
    assert 0.5 < five < twenty < 0.95
    assert pattern_confidence([claim(20, 20), claim(20, 20, "variance")], 20) < twenty
    assert pattern_confidence([claim(17, 20)], 20) < twenty
    assert pattern_confidence([claim(20, 20)], 1) < twenty
    assert pattern_confidence([], 3) == 0.05


def test_the_report_has_the_keys_of_the_contract() -> None:
    wanted = {
        "groups_seen", "groups_processed", "skipped_low_samples", "patterns_written", "patterns_superseded", "claims_dropped", "patterns",
    }  # fmt: skip
    assert wanted <= set(DistillReport().to_json())
