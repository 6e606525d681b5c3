"""The workspace: nothing is opened before it is used, runs are named, queries can touch no file, plugins stop nothing."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import sitoolkit.plugins
from sitoolkit.errors import ConfigError, ParameterError
from sitoolkit.plugins import SelfImprovementPlugin, call_hook, load_plugins
from sitoolkit.settings import Settings
from sitoolkit.testing import FixedClock, HashingEmbedder
from sitoolkit.workspace import Workspace
from tests.stores.making import call, event, fact


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "ws", clock=FixedClock("2026-05-04T08:00:00Z"), embedder=HashingEmbedder(16))


def test_opening_a_workspace_writes_nothing(ws: Workspace) -> None:
    assert ws.memory.rows() == []
    assert ws.proposals.list() == ()
    assert list(ws.telemetry.invocations()) == []
    assert not ws.path.exists()


def test_importing_is_cheap_and_opening_loads_nothing_heavy() -> None:
    code = (
        "import sys, sitoolkit; from sitoolkit import Workspace; Workspace('/nowhere/x');"
        "heavy = {'lancedb', 'duckdb', 'polars', 'pyarrow', 'numpy', 'altair', 'onnxruntime', 'ollama'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_file_is_no_workspace(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="is a file; a workspace is a folder"):
        Workspace(tmp_path / "file")


def test_the_clock_is_fixed_by_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITOOLKIT_NOW", "2026-01-02T03:04:05Z")
    assert Workspace(tmp_path).clock().isoformat() == "2026-01-02T03:04:05+00:00"


# ---------------------------------------------------------------- runs


def test_a_run_names_what_it_wrote_and_how_it_ended(ws: Workspace) -> None:
    with ws.run("distill", scope="agent:ops", token="ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8") as run:
        assert ws.run_id == run.id
        ws.memory.upsert([event(1)], run_id=run.id)
    assert ws.run_id == ""
    started, written, ended = ws.journal.events(run_id=run.id)
    assert (started.event, written.event, ended.data["status"]) == ("run_started", "memory", "ok")
    assert started.data["parameters"]["scope"] == "agent:ops"
    assert "a1B2c3D4" not in str(started.data)


def test_a_run_inside_a_run_joins_it(ws: Workspace, tmp_path: Path) -> None:
    other = Workspace(tmp_path / "other")
    with ws.run("nightly") as outer, ws.run("capture") as inner, other.run("capture") as elsewhere:
        assert inner is outer
        assert elsewhere is not outer
    assert [entry.event for entry in ws.journal.events()] == ["run_started", "run_ended"]


def test_a_run_that_fails_says_why_without_secrets(ws: Workspace) -> None:
    with pytest.raises(ValueError), ws.run("capture"):
        raise ValueError("no login with password=hunter2hunter2")
    ended = next(ws.journal.events("run_ended"))
    assert ended.data["status"] == "failed"
    assert "hunter2" not in ended.data["error"]
    with pytest.raises(KeyboardInterrupt), ws.run("capture"):
        raise KeyboardInterrupt
    assert list(ws.journal.events("run_ended"))[1].data["status"] == "interrupted"


# ---------------------------------------------------------------- embedder


def test_the_embedder_that_auto_took_is_recorded_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sitoolkit.models.embedders.best_embedder", lambda settings=None: HashingEmbedder(384)
    )
    assert Workspace(tmp_path).embedder.name == "hashing"
    assert Workspace(tmp_path).facts()["embedder"] == "hashing"
    monkeypatch.setattr(
        "sitoolkit.models.embedders.best_embedder", lambda settings=None: pytest.fail("asked again")
    )
    assert Workspace(tmp_path).embedder.name == "hashing"


def test_settings_win_over_what_was_recorded(tmp_path: Path) -> None:
    Workspace(tmp_path).record_fact("embedder", "wordllama")
    config = Settings.model_validate({"models": {"embedder": "hashing"}})
    assert Workspace(tmp_path, settings=config).embedder.name == "hashing"
    with pytest.raises(ConfigError, match="'hashing' and would refuse vectors of 'wordllama'"):
        Workspace(tmp_path, settings=config).reembed("wordllama")


# ---------------------------------------------------------------- sql


@pytest.fixture
def filled(ws: Workspace) -> Workspace:
    ws.telemetry.append("calls", [call(number) for number in range(30)])
    with ws.run("capture") as run:
        ws.memory.upsert([event(1), fact("tabs")], run_id=run.id)
    seen = ws.memory.rows()[0].id
    ws.journal.append(
        "recall",
        {
            "id": "rec_1",
            "reader": {"agent": "ops"},
            "query": "q",
            "items": [{"memory_id": seen, "slot": "fact"}],
        },
    )
    proposal = ws.proposals.propose(
        type="retire-tool", title="Retire x", payload={"tool": "x"}, evidence=["a"]
    )
    ws.proposals.record(proposal.id, "approve", by="ada", seen_hash=proposal.hash, reason="unused")
    return ws


def test_every_table_can_be_queried(filled: Workspace) -> None:
    assert filled.sql("select count(*) from calls").item() == 30
    assert filled.sql("select access_count from memories order by access_count").rows() == [(0,), (1,)]
    assert filled.sql("select id, agent, items, slots from recalls").rows() == [("rec_1", "ops", 1, ["fact"])]
    assert filled.sql("select verdict, decided_by, reason from decisions").rows() == [
        ("approve", "ada", "unused")
    ]
    assert filled.sql("select verb, status from runs").rows() == [("capture", "ok")]
    assert filled.sql("select title, state from proposals").rows() == [("Retire x", "approved")]
    assert filled.sql("with c as (select tool from calls) select count(distinct tool) from c").item() == 7
    assert (
        filled.sql(
            "select r.id, m.text from recalls r, unnest(r.memory_ids) as u(memory_id) join memories m on m.id = u.memory_id"
        ).height
        == 1
    )
    assert filled.sql("select count(*) from sessions").item() == 0


@pytest.mark.parametrize(
    "query",
    [
        "copy calls to '{folder}/out.csv'",
        "copy (select 1) to '{folder}/out.parquet' (format parquet)",
        "select * from read_csv('/etc/passwd')",
        "select * from read_text('{folder}/secret.txt')",
        "select * from '{folder}/secret.csv'",
        "from read_json('{folder}/secret.json')",
        "select * from glob('/*')",
        "attach '{folder}/out.db'",
        "export database '{folder}/out'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "pragma database_list",
        "drop table calls",
        "insert into calls select * from calls",
        "delete from memories",
        "select 1; copy calls to '{folder}/out.csv'",
        "create table t as select 1",
        "select * from ws",
        "select * from query('copy calls to ''{folder}/out.csv''')",
        "",
        "select",
        "selec 1",
        "select nope from calls",
    ],
)  # fmt: skip
def test_a_hostile_or_wrong_query_is_a_clear_error_and_touches_nothing(
    filled: Workspace, tmp_path: Path, query: str
) -> None:
    for name in ("secret.txt", "secret.csv", "secret.json"):
        (tmp_path / name).write_text('{"a": 1}\n')
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(ParameterError) as refused:
        filled.sql(query.format(folder=tmp_path))
    assert len(str(refused.value)) < 2_000
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert filled.sql("select count(*) from calls").item() == 30


def test_a_query_without_end_is_stopped(filled: Workspace) -> None:
    from sitoolkit.stores.sql import run_sql

    with pytest.raises(ParameterError, match=r"longer than 0.3 s"):
        run_sql(filled, "select count(*) from range(1000000) a, range(1000000) b, range(1000) c", seconds=0.3)


# ---------------------------------------------------------------- plugins


class Counts(SelfImprovementPlugin):
    calls: list[Any] = []  # noqa: RUF012 - the test looks at it

    def on_bin_trigger(self, event: Any) -> None:
        self.calls.append(event)


class Fails(SelfImprovementPlugin):
    def on_bin_trigger(self, event: Any) -> None:
        raise RuntimeError("with password=hunter2hunter2")


def points(*names: str) -> tuple[EntryPoint, ...]:
    return tuple(
        EntryPoint(name=name, value=f"{__name__}:{name}", group=sitoolkit.plugins.GROUP) for name in names
    )


def test_plugins_load_in_order_of_name_and_those_that_do_not_are_reported() -> None:
    plugins, faults = load_plugins(points("Fails", "Counts", "Nope", "points"))
    assert [plugin.name for plugin in plugins] == ["Counts", "Fails"]
    assert [(fault.plugin, fault.hook) for fault in faults] == [("Nope", None), ("points", None)]


def test_a_failing_hook_is_reported_once_and_stops_nothing(
    ws: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    ws.__dict__["plugins"] = tuple(load_plugins(points("Fails", "Counts"))[0])
    Counts.calls.clear()
    for number in range(3):
        call_hook(ws, "on_bin_trigger", number)
        call_hook(ws, "on_session_end", None)
    assert Counts.calls == [0, 1, 2]
    reported = list(ws.journal.events("plugin_failed"))
    assert [(entry.data["plugin"], entry.data["hook"]) for entry in reported] == [("Fails", "on_bin_trigger")]
    assert "hunter2" not in str(reported[0].data)
    assert "plugin Fails is skipped" in caplog.text


def test_an_unknown_hook_is_an_error(ws: Workspace) -> None:
    with pytest.raises(ValueError, match="no hook is called 'on_nothing'"):
        call_hook(ws, "on_nothing")
