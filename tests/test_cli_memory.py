"""`memory`, `sql` and `doctor` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sitoolkit.cli import cli
from sitoolkit.doctor import doctor
from sitoolkit.settings import Settings
from sitoolkit.workspace import Workspace
from tests.stores.making import call, event, fact

HASHING = Settings.model_validate({"models": {"embedder": "hashing"}})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SITOOLKIT_MODELS_EMBEDDER", "hashing")
    ws = Workspace(tmp_path / "ws", settings=HASHING)
    ws.telemetry.append("calls", [call(1)])
    for name, memories in (
        ("one", [fact("tabs"), event(1, evidence=(call(1)["id"],))]),
        ("two", [fact("spaces", "turn-2")]),
    ):
        with ws.run(name) as run:
            ws.memory.upsert(memories, run_id=run.id)
    return ws.path


def run(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, [*words, "--workspace", str(folder)], catch_exceptions=False)


def value(folder: Path, *words: str) -> Any:
    result = run(folder, *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def run_ids(folder: Path) -> list[str]:
    return [
        row["run_id"] for row in value(folder, "sql", "select run_id from runs order by started_at, run_id")
    ]


def test_list_and_show(folder: Path) -> None:
    rows = value(folder, "memory", "list")
    assert {row["text"] for row in rows} == {event(1).text, "the project indents with spaces"}
    assert len(value(folder, "memory", "list", "--status", "all")) == 3
    assert len(value(folder, "memory", "list", "--category", "learned_fact", "--scope", "project:shop")) == 1
    id = next(row["id"] for row in rows if row["category"] == "operational_event")
    shown = value(folder, "memory", "show", id)
    assert [(place["file"], place["line"]) for place in shown["places"]] == [("a.jsonl", 2)]
    assert "a.jsonl:2" in run(folder, "memory", "show", id).output
    assert run(folder, "memory", "show", "mem_nope").exit_code == 1


def test_history_diff_and_undo(folder: Path) -> None:
    one, two = run_ids(folder)
    found = value(folder, "memory", "diff", one, two)
    assert [row["text"] for row in found["added"]] == ["the project indents with spaces"]
    assert "[-tabs-] {+spaces+}" in run(folder, "memory", "diff", one, two).output
    assert len(value(folder, "memory", "history", found["superseded"][0]["id"])) == 2
    refused = run(folder, "memory", "undo", one)
    assert refused.exit_code == 1
    assert two in refused.output
    report = value(folder, "memory", "undo", two)
    assert report["runs"] == [two]
    assert "the project indents with tabs" in run(folder, "memory", "list").output
    assert value(folder, "memory", "undo", report["run_id"])["runs"] == [report["run_id"]]


def test_retract_export_reembed_rebuild(folder: Path, tmp_path: Path) -> None:
    id = value(folder, "memory", "list", "--category", "learned_fact")[0]["id"]
    assert value(folder, "memory", "retract", id, "--reason", "wrong")["items"][0]["result"] == "written"
    assert run(folder, "memory", "retract", "mem_nope", "--reason", "wrong").exit_code == 1
    assert value(folder, "memory", "export", str(tmp_path / "out.jsonl"))["memories"] == 3
    assert value(folder, "memory", "reembed")["rows"] == 3
    assert value(folder, "memory", "reembed", "--drop-old")["dropped"] == ["memories-000001"]
    rebuilt = value(folder, "memory", "rebuild")
    assert (rebuilt["rows"], rebuilt["lost"]) == (3, [])
    assert value(folder, "doctor")["checks"]


def test_sql_as_table_json_and_csv(folder: Path) -> None:
    query = "select category, count(*) as n from memories group by all order by all"
    assert value(folder, "sql", query) == [
        {"category": "learned_fact", "n": 2},
        {"category": "operational_event", "n": 1},
    ]
    assert run(folder, "sql", query).output.splitlines()[0].split() == ["category", "n"]
    assert run(folder, "sql", query, "--csv").output.splitlines()[1] == "learned_fact,2"
    wrong = run(folder, "sql", "select nope from calls")
    assert wrong.exit_code == 2
    assert "Candidate bindings" in wrong.output


def test_doctor_is_content_and_changes_nothing(tmp_path: Path) -> None:
    ws = Workspace(tmp_path / "new", settings=HASHING)
    assert doctor(ws).ok
    assert not ws.path.exists()


def test_doctor_names_what_is_broken_and_the_command(folder: Path) -> None:
    for path in (folder / "memory" / "memories-000001.lance" / "_versions").iterdir():
        path.write_bytes(b"garbage")
    segment = next((folder / "journal").iterdir())
    segment.write_text(segment.read_text().replace("tabs", "TABS"))
    result = run(folder, "doctor", "--json")
    assert result.exit_code == 1
    checks = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
    assert not checks["memory"]["ok"]
    assert not checks["journal"]["ok"]
    assert "broken at jrn_" in checks["journal"]["detail"]
    assert "memory rebuild" in str(checks["memory"]) + str(checks.get("memory.1"))
    assert "FAIL" in run(folder, "doctor").output
