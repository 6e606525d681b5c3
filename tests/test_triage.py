"""Each shown signature goes to exactly one lane, or is covered."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sitoolkit.loops.capture import capture_sessions
from sitoolkit.loops.triage import triage_signatures
from sitoolkit.models.embedders import HashingEmbedder
from sitoolkit.records import Category, Memory, Origin, Outcome, Scope, Session, Source, ToolInvocation, Turn
from sitoolkit.workspace import Workspace

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture
def ws(tmp_path):
    return Workspace(tmp_path / "ws", clock=lambda: NOW, embedder=HashingEmbedder())


def take(ws, calls):
    """Calls as (tool, args, error, mode); no error means success. A session each."""
    sessions = []
    for number, (tool, args, error, mode) in enumerate(calls):
        one = ToolInvocation(
            session_id=f"{tool}-{number}", seq=0, tool=tool, args=args, agent="ops", paired=True, error=error, failure_mode=mode,
            outcome=Outcome.FAILURE if error else Outcome.SUCCESS, result=None if error else "ok",
            started_at=NOW - timedelta(hours=2, seconds=number), source=Source(file="t.jsonl", line=number + 1, format="sitoolkit"),
        )  # fmt: skip
        turns = (Turn(role="assistant", calls=(one,)),)
        sessions.append(Session(id=one.session_id, agent="ops", turns=turns, source=one.source))
    capture_sessions(ws, sessions)


GOOD = [("scale", {"replicas": n % 9 + 1}, None, None) for n in range(20)]
CAUSED = [("scale", {"replicas": 30 + n}, "no room for replicas", "RUNTIME") for n in range(6)]
PUZZLING = [("find", {"key": f"k{n}"}, "record does not exist", "NOTFOUND") for n in range(4)]
BROKEN = [("ping", {"host": f"h{n}"}, "connection reset by peer", "NETWORK") for n in range(4)]


def test_an_empty_day_is_a_valid_result(ws):
    report = triage_signatures(ws)
    assert (report.shown, report.covered, report.kb_lane, report.guide_drafts, report.code_lane) == (
        0,
        0,
        (),
        (),
        (),
    )


def test_each_signature_goes_to_one_lane(ws):
    take(ws, [*GOOD, *CAUSED, *PUZZLING, *BROKEN])
    report = triage_signatures(ws)
    assert report.shown == 3
    assert [one.signature for one in report.kb_lane] == ["no room for replicas"]
    assert [one.signature for one in report.guide_drafts] == ["record does not exist"]
    assert [one.signature for one in report.code_lane] == ["connection reset by peer"]
    (lesson,) = ws.memory.rows(category="reflection")
    assert lesson.payload["source"] == "triage"
    assert "`replicas` above 9" in lesson.text
    assert {proposal.type for proposal in ws.proposals.list()} == {"usage-guide", "code-fix"}
    assert all(proposal.evidence for proposal in ws.proposals.list())


def test_twice_covers_the_lesson_and_merges_the_proposals(ws):
    take(ws, [*GOOD, *CAUSED, *PUZZLING, *BROKEN])
    triage_signatures(ws)
    before = [proposal.id for proposal in ws.proposals.list()]
    again = triage_signatures(ws)
    assert (again.shown, again.covered, len(again.kb_lane)) == (3, 1, 0)
    assert [proposal.id for proposal in ws.proposals.list()] == before
    assert len(ws.memory.rows(category="reflection")) == 1


def test_what_a_guide_says_is_covered(ws):
    take(ws, PUZZLING)
    ws.memory.upsert(
        [
            Memory(
                category=Category.USAGE_GUIDE, scope=Scope("global"), origin=Origin.DIRECTIVE, slot="guide:core:find",
                text="When `find` says that a record does not exist, list the keys first.",
            )
        ]
    )  # fmt: skip
    report = triage_signatures(ws)
    assert (report.shown, report.covered) == (1, 1)


def test_a_lesson_of_another_tool_covers_nothing(ws):
    take(ws, PUZZLING)
    ws.memory.upsert(
        [
            Memory(
                category=Category.REFLECTION, scope=Scope("global"), origin=Origin.REFLECTED, text="x", slot="lesson:y",
                payload={"tool": "other", "signature": "record does not exist"},
            )
        ]
    )  # fmt: skip
    assert triage_signatures(ws).covered == 0


def test_a_traceback_of_a_log_becomes_a_finding_with_its_file_and_no_file_is_touched(ws, tmp_path):
    log = tmp_path / "app.log"
    log.write_text(
        "2026-05-31 23:00:00 ERROR app: job 7 failed\nTraceback (most recent call last):\n"
        "  File \"/srv/app/../../etc/jobs.py\", line 3, in run\n    go()\nKeyError: 'x'\n"
    )
    files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    report = triage_signatures(ws, logs=[log])
    (finding,) = report.code_lane
    proposal = ws.proposals.get(finding.id)
    assert proposal.payload["affected_files"] == ["/srv/app/../../etc/jobs.py"]
    assert "KeyError" in proposal.payload["root_cause"]
    assert proposal.evidence == (f"log:{log}:1",)
    grown = sorted(path for path in tmp_path.rglob("*") if path.is_file() and ws.path not in path.parents)
    assert grown == [path for path in files if ws.path not in path.parents]


def test_names_of_drafts_are_safe_for_file_systems(ws):
    take(
        ws,
        [("../../etc/find", {"key": f"k{n}"}, "../../nul does: not <exist>", "NOTFOUND") for n in range(3)],
    )
    triage_signatures(ws)
    (proposal,) = ws.proposals.list()
    assert proposal.payload["intent"].replace("_", "").isalnum()
    assert proposal.payload["agent"] == "ops"


def test_dry_run_writes_nothing(ws):
    take(ws, [*GOOD, *CAUSED, *PUZZLING])
    report = triage_signatures(ws, dry_run=True)
    assert (len(report.kb_lane), len(report.guide_drafts)) == (1, 1)
    assert not ws.proposals.list()
    assert ws.memory.rows(category="reflection") == []


def test_the_lanes_add_up(ws):
    take(ws, [*GOOD, *CAUSED, *PUZZLING, *BROKEN])
    report = triage_signatures(ws)
    assert report.shown == report.covered + len(report.kb_lane) + len(report.guide_drafts) + len(
        report.code_lane
    )


def test_verbs_of_the_command_line(ws, tmp_path):
    import json

    from click.testing import CliRunner

    from sitoolkit.cli import cli

    take(ws, [*GOOD, *CAUSED, *PUZZLING, *BROKEN])
    for words, key in (
        (["friction"], "events"), (["signatures", "--hours", "24"], "signatures"), (["lessons", "--dry-run"], "lessons"),
        (["reflect", "ping-33"], "telemetry_digest"), (["triage", "--dry-run"], "code_lane"), (["lessons", "--effects"], "effects"),
    ):  # fmt: skip
        result = CliRunner().invoke(cli, [*words, "--workspace", str(ws.path), "--json"])
        assert result.exit_code == 0, result.output
        assert key in json.loads(result.stdout)
        plain = CliRunner().invoke(cli, [*words, "--workspace", str(ws.path)])
        assert plain.exit_code == 0
        assert plain.stdout.strip()
