"""The maintenance pass and its review on a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from sitoolkit import review
from sitoolkit.cli import cli
from sitoolkit.loops.maintenance import propose_maintenance
from sitoolkit.models.embedders import HashingEmbedder
from sitoolkit.plugins import SelfImprovementPlugin
from sitoolkit.workspace import Workspace
from tests.test_toolsmith import Recorder, bad, good


@pytest.fixture
def ws(tmp_path):
    """Twelve sessions in which `bash` times out 34 times in all, among 100 good calls."""
    ws = Workspace(tmp_path / "ws", embedder=HashingEmbedder())
    record = Recorder(ws)
    for number in range(12):
        fails = 3 if number < 10 else 2
        record.session(
            f"s{number:02}",
            *[
                bad("bash", {"command": f"make {number} {n}"}, "TIMEOUT", "timed out", 30_000.0)
                for n in range(fails)
            ],
            *[good("bash", {"command": f"ls {number} {n}"}, "ok", 1_000.0) for n in range(8)],
            bad("plan", {"n": number}, "RUNTIME"),
        )
    return ws


def test_a_frequent_failure_becomes_a_proposal_like_the_seed_s(ws):
    report = propose_maintenance(ws, sessions=20)
    assert (report.sessions, report.invocations) == (12, 34 + 96 + 12)
    first = report.patterns[0]
    assert (first.tool, first.failure_mode, first.failures, first.sessions, first.per_session) == (
        "bash",
        "TIMEOUT",
        34,
        12,
        2.8,
    )
    proposal = report.proposals[0]
    assert proposal.type == "new-tool" and proposal.title == "New tool for 'bash:TIMEOUT'"
    assert "34 failures across 12 sessions (avg 2.8/session)" in proposal.description
    assert proposal.payload["tool"] == "bash_in_background"
    assert proposal.expected_impact["estimate"] == round(34 / 130, 4)
    assert proposal.expected_impact["low"] < 34 / 130 < proposal.expected_impact["high"]
    assert proposal.confidence == "high"
    assert set(ws.telemetry.resolve(proposal.evidence)["id"]) == set(proposal.evidence)


def test_a_pass_over_the_same_sessions_proposes_nothing_twice(ws):
    first = propose_maintenance(ws)
    again = propose_maintenance(ws)
    assert [p.id for p in first.proposals] == [p.id for p in again.proposals]
    assert len(ws.proposals.list()) == len(first.proposals)
    assert ws.proposals.list()[0].seen_count == 1


def test_below_the_thresholds_nothing_is_proposed(ws):
    report = propose_maintenance(ws, min_failures=35)
    assert report.patterns == () and report.below_threshold == 2
    assert propose_maintenance(ws, min_failures=1, min_sessions=13).proposals == ()


def test_an_approval_adds_the_tool_and_an_undo_retires_it(ws):
    proposal = propose_maintenance(ws).proposals[0]
    review.approve(ws, proposal.id, by="ana", seen_hash=review.show(ws, proposal.id).hash)
    assert ws.tools.get("bash_in_background").status == "probationary"
    assert ws.tools.get("bash_in_background").wraps == "bash"
    review.undo(ws, proposal.id, by="ana")
    assert ws.tools.get("bash_in_background").status == "retired"


def test_a_plugin_proposes_only_with_evidence(ws):
    class Own(SelfImprovementPlugin):
        name = "own"

        def generate_maintenance_proposals(self, ws):
            return [
                {"type": "code-fix", "title": "with", "evidence": ("e1",)},
                {"type": "code-fix", "title": "without"},
            ]

    ws.plugins = (Own(),)
    titles = [p.title for p in propose_maintenance(ws).proposals]
    assert "with" in titles and "without" not in titles


def test_a_tool_that_mostly_fails_is_proposed_for_retirement(ws):
    proposal = propose_maintenance(ws).proposals[0]
    review.approve(ws, proposal.id, by="ana", seen_hash=review.show(ws, proposal.id).hash)
    for _ in range(4):
        with pytest.raises(Exception, match="ended as"):
            ws.tools.run("bash_in_background", {"arguments": {}})
    retire = [p for p in propose_maintenance(ws).proposals if p.type == "retire-tool"]
    assert len(retire) == 1 and "4 of 4 uses failed" in retire[0].description


# ---------------------------------------------------------------- the command line


def run(ws, *args):
    done = CliRunner().invoke(cli, [*args, "--workspace", str(ws.path)], catch_exceptions=False)
    return done.exit_code, done.stdout


def test_the_verbs_of_the_contract_print_their_keys(ws):
    code, out = run(ws, "maintenance", "--json")
    report = json.loads(out)
    assert code == 0 and {"sessions", "invocations", "patterns", "proposals"} <= set(report)
    code, out = run(ws, "review", "list", "--json")
    listed = json.loads(out)
    assert [p["id"] for p in listed] == [p["id"] for p in report["proposals"]]
    code, out = run(ws, "review", "show", listed[0]["id"], "--json")
    assert json.loads(out)["evidence"][0]["file"].endswith(".jsonl")
    code, out = run(ws, "review", "approve", listed[0]["id"], "--by", "ana", "--hash", "wrong", "--json")
    assert code == 1 and out == ""
    code, out = run(
        ws, "review", "approve", listed[0]["id"], "--by", "ana", "--hash", listed[0]["hash"], "--json"
    )
    assert code == 0 and json.loads(out)["state"] == "implemented"
    code, out = run(ws, "tools", "list", "--json")
    assert [tool["name"] for tool in json.loads(out)] == ["bash_in_background"]
    code, out = run(ws, "review", "undo", listed[0]["id"], "--by", "ana", "--json")
    assert code == 0 and json.loads(out)["state"] == "undone"
    code, _ = run(ws, "review", "approve", listed[0]["id"])
    assert code == 2


def test_a_tool_runs_from_the_command_line_with_a_program_that_makes_its_calls(ws, tmp_path):
    proposal = propose_maintenance(ws).proposals[0]
    review.approve(ws, proposal.id, by="ana", seen_hash=review.show(ws, proposal.id).hash)
    server = tmp_path / "server.py"
    server.write_text("import json, sys\nprint(json.dumps({'ran': json.load(sys.stdin)['args']}))\n")
    code, out = run(
        ws,
        "tools",
        "run",
        "bash_in_background",
        "--args",
        '{"arguments": {"command": "make"}}',
        "--call-with",
        f"{sys.executable} {server}",
        "--json",
    )
    assert code == 0 and json.loads(out) == {"status": "done", "result": {"ran": {"command": "make"}}}


def test_the_terminal_reviews_one_by_one_with_keys(ws):
    """A real terminal: view, approve, undo, approve, quit."""
    parent, child = pty.openpty()
    env = {
        **os.environ,
        "SITOOLKIT_HOME": str(ws.path),
        "TERM": "dumb",
        "SITOOLKIT_MODELS_EMBEDDER": "hashing",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "sitoolkit.cli", "maintenance", "--sessions", "20", "--by", "ana"],
        stdin=child, stdout=child, stderr=child, env=env, start_new_session=True,
    )  # fmt: skip
    os.close(child)
    seen = ""

    def until(words: str) -> None:
        nonlocal seen
        end = time.monotonic() + 60
        start = len(seen)
        while words not in seen[start:]:
            assert time.monotonic() < end, seen
            try:
                seen += os.read(parent, 4096).decode()
            except OSError:  # the other end has gone
                pytest.fail(seen)

    for answer in ("v", "a", "u", "a", "q"):
        until("[Q]uit?")
        os.write(parent, f"{answer}\n".encode())
    until("1 decided")
    os.close(parent)
    assert process.wait(30) == 0
    assert "Analyzing 12 sessions across 142 tool invocations..." in seen
    assert "Evidence (" in seen and "Implementing...done." in seen and "is as it was" in seen
    assert ws.tools.get("bash_in_background").status == "probationary"
