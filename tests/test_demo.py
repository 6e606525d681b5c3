"""The demo and the commands of capture and distill, run as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from sitoolkit import demo
from sitoolkit.cli import cli
from sitoolkit.settings import Settings
from sitoolkit.testing import FixedClock, HashingEmbedder
from sitoolkit.workspace import Workspace

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(autouse=True)
def _hashing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SITOOLKIT_MODELS_EMBEDDER", "hashing")
    monkeypatch.setenv("SITOOLKIT_HOME", str(tmp_path / "home"))


def run(*words: str) -> str:
    done = CliRunner().invoke(cli, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_demo_goes_round_the_whole_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the report draws charts for seconds; its own tests look at it
    monkeypatch.setattr(
        demo, "_STEPS", tuple(step for step in demo._STEPS if step[0] != "sitoolkit.views.report")
    )
    ws = Workspace(
        tmp_path / "ws",
        settings=Settings(),
        clock=FixedClock("2026-06-01T08:00:00Z"),
        embedder=HashingEmbedder(),
    )
    steps = {step.verb: step for step in demo.run_demo(ws)}
    assert list(steps) == [
        "guides import",
        "capture",
        "corrections",
        "distill",
        "friction",
        "lessons",
        "recall",
        "decay",
    ]
    truth = json.loads((DATA / "truth.json").read_text(encoding="utf-8"))
    assert len(steps["friction"].result["events"]) == len(truth["friction"])
    shown = "\n".join(line for step in steps.values() for line in step.lines)
    assert "{kind}_{suffix}" in shown and "<recalled-memories" in shown
    assert not [secret["kind"] for secret in truth["secrets"] if secret["value"] in shown]
    kept = b"".join(path.read_bytes() for path in ws.path.rglob("*") if path.is_file())
    assert not [secret["kind"] for secret in truth["secrets"] if secret["value"].encode() in kept]


def test_capture_and_distill_print_the_contracts_json() -> None:
    report = json.loads(run("capture", str(DATA / "transcripts"), "--json"))
    assert (report["files"], report["sessions"]) == (37, 62)
    assert report["captured"]["written"] + report["captured"]["repeated"] == report["writes"]
    distilled = json.loads(run("distill", "--scope", "agent:ops", "--json"))
    assert distilled["patterns_written"] == len(distilled["patterns"]) == 7
    first = distilled["patterns"][0]
    assert {"id", "tool", "scope", "sample_count", "confidence", "written_by", "claims"} <= set(first)
    assert {"text", "kind", "support", "of", "evidence"} <= set(first["claims"][0])
    again = json.loads(run("distill", "--scope", "agent:ops", "--json"))
    assert again["patterns_written"] == 0 and again["patterns_unchanged"] == 7


def test_capture_and_distill_read_well_for_people() -> None:
    told = run("capture", str(DATA / "transcripts" / "ops.jsonl"), "--team", "infra")
    assert (
        "26 sessions of 1 files" in told and "secrets removed" in told and "next: sitoolkit distill" in told
    )
    told = run("distill", "--dry-run")
    assert "register_service  [agent:ops]" in told and "dry run" in told


def test_a_missing_file_is_a_clear_error() -> None:
    done = CliRunner().invoke(cli, ["capture", "no-such-file.jsonl"])
    assert done.exit_code == 1
