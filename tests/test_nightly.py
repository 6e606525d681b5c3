"""The runner tells the truth: parameters, status, exit codes, locks, deadlines, signals, crashes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sitoolkit.errors import NotFoundError, ParameterError
from sitoolkit.launch import run_lock
from sitoolkit.nightly import find_notebook, run_nightly, run_notebook
from sitoolkit.parameters import check_parameters, declared_parameters
from sitoolkit.records import Memory, RunManifest
from sitoolkit.runs import check_runs, find_run, list_runs, prune_runs, run_folder, write_manifest
from sitoolkit.workspace import Workspace

FIXTURES = Path(__file__).parent / "notebooks" / "fixtures"
COUNTS = FIXTURES / "counts.ipynb"


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "ws")


def manifest_file(ws: Workspace, run_id: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((run_folder(ws.path, run_id) / "manifest.json").read_text())
    return value


# ---------------------------------------------------------------- parameters


def test_text_becomes_the_type_that_the_cell_declares() -> None:
    given = {"count": "7", "ratio": "1", "names": "a, b", "flag": "yes", "text": "7"}
    assert check_parameters(COUNTS, given) == {
        "count": 7,
        "ratio": 1.0,
        "names": ["a", "b"],
        "flag": True,
        "text": "7",
    }
    assert check_parameters(COUNTS, {"names": '["x,y", "z"]'}) == {"names": ["x,y", "z"]}


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ParameterError, match="did you mean 'count'"):
        check_parameters(COUNTS, {"coutn": 1})


@pytest.mark.parametrize(
    "name,value",
    [
        ("count", "abc"),
        ("count", 1.5),
        ("count", True),
        ("ratio", "x"),
        ("flag", "maybe"),
        ("flag", 1),
        ("names", 3),
        ("text", 5),
        ("names", [1]),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_before_anything_starts(
    ws: Workspace, name: str, value: Any
) -> None:
    with pytest.raises(ParameterError, match=name):
        run_notebook(ws, COUNTS, {name: value})
    assert list_runs(ws.path) == []


def test_what_is_not_a_notebook_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.ipynb"
    broken.write_text("not json")
    for name in (broken, tmp_path / "absent.ipynb", "no_such_name", ""):
        with pytest.raises(ParameterError):
            check_parameters(find_notebook(name), {})


def test_shipped_notebooks_are_found_by_name_number_and_word() -> None:
    for name in ("02_pattern_distillation", "02", "distillation", "02_pattern_distillation.ipynb"):
        assert find_notebook(name).stem == "02_pattern_distillation"


def test_a_notebook_without_a_parameters_cell_takes_none() -> None:
    assert declared_parameters(FIXTURES / "no_parameters.ipynb") == {}
    with pytest.raises(ParameterError, match="has none"):
        check_parameters(FIXTURES / "no_parameters.ipynb", {"x": 1})


# ---------------------------------------------------------------- one notebook


@pytest.mark.notebook
def test_a_run_has_its_folder_manifest_page_and_log(ws: Workspace) -> None:
    run = run_notebook(ws, COUNTS, {"count": "4", "names": ["a"]})
    assert (run.status, run.exit_code) == ("ok", 0)
    assert run.counts == {"count": 4, "ratio": 0.5, "names": ["a"], "flag": False, "text": ""}
    folder = run_folder(ws.path, run.run_id)
    assert {file.name for file in folder.iterdir()} == {
        "manifest.json",
        "output.ipynb",
        "report.html",
        "log.txt",
    }
    assert RunManifest.model_validate(manifest_file(ws, run.run_id)) == run
    assert "count is 4" in (folder / "log.txt").read_text()
    page = (folder / "report.html").read_text()
    assert "http://" not in page and "https://" not in page and "<script" not in page
    assert next(artefact["name"] for artefact in run.artefacts) == "report.html"
    assert run.notebook_sha256 and run.key and run.versions["sitoolkit"]

    again = run_notebook(ws, COUNTS, {"count": 4, "names": ["a"]})
    assert (again.status, again.exit_code, again.counts) == ("skipped", 0, run.counts)
    assert run.run_id in again.notes[0]
    assert run_notebook(ws, COUNTS, {"count": 4, "names": ["a"]}, force=True).status == "ok"
    assert run_notebook(ws, FIXTURES / "nothing_to_do.ipynb").status == "nothing_to_do"


@pytest.mark.notebook
def test_a_failing_cell_is_named_and_its_secrets_are_not(ws: Workspace) -> None:
    run = run_notebook(ws, FIXTURES / "raises.ipynb")
    assert (run.status, run.exit_code) == ("failed", 1)
    assert (
        run.error is not None and run.error["ename"] == "ValueError" and "on purpose" in run.error["evalue"]
    )
    everything = "".join(
        file.read_text()
        for file in run_folder(ws.path, run.run_id).iterdir()
        if file.suffix in (".json", ".html")
    )
    assert "A" * 36 not in everything
    assert not (run_folder(ws.path, run.run_id) / "output.ipynb").exists()
    assert run_notebook(ws, FIXTURES / "raises.ipynb", {"kind": "ModelUnavailable"}).exit_code == 4


@pytest.mark.notebook
def test_a_run_over_its_deadline_ends_with_124(ws: Workspace, tmp_path: Path) -> None:
    begun = time.monotonic()
    run = run_notebook(ws, FIXTURES / "sleeps.ipynb", {"mark": str(tmp_path / "mark")}, deadline_s=4)
    assert (run.status, run.exit_code) == ("timeout", 124)
    assert time.monotonic() - begun < 40
    assert (run_folder(ws.path, run.run_id) / "output.failed.ipynb").exists()


@pytest.mark.notebook
def test_a_kernel_that_dies_is_tried_once_more_and_then_reported(ws: Workspace) -> None:
    run = run_notebook(ws, FIXTURES / "dies.ipynb")
    assert (run.status, run.exit_code) == ("failed", 1)
    assert run.error is not None and run.error["ename"] == "DeadKernelError"


def test_a_second_run_is_skipped_and_says_who_holds_the_workspace(ws: Workspace) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time\nfrom sitoolkit.workspace import Workspace\nfrom sitoolkit.launch import run_lock\n"
            "with run_lock(Workspace(sys.argv[1])) as other:\n    print('held', flush=True)\n    time.sleep(60)",
            str(ws.path),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        run = run_notebook(ws, COUNTS)
        assert (run.status, run.exit_code) == ("skipped_locked", 3)
        assert f"process {holder.pid}" in run.notes[0]
        assert manifest_file(ws, run.run_id)["status"] == "skipped_locked"
    finally:
        holder.kill()
        holder.communicate()
    with run_lock(ws) as other:  # the kernel let go of the dead process's lock
        assert other is None


RUN_SLEEPER = (
    "import sys\nfrom sitoolkit.workspace import Workspace\nfrom sitoolkit.nightly import run_notebook\n"
    "run = run_notebook(Workspace(sys.argv[1]), sys.argv[2], {'mark': sys.argv[3]})\nsys.exit(run.exit_code)"
)


def start_sleeper(ws: Workspace, mark: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", RUN_SLEEPER, str(ws.path), str(FIXTURES / "sleeps.ipynb"), str(mark)]
    )
    for _ in range(600):
        if mark.exists():
            return process
        time.sleep(0.1)
    process.kill()
    raise AssertionError("the notebook did not begin")


@pytest.mark.notebook
@pytest.mark.parametrize("signum,code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_run_and_the_manifest_says_so(
    ws: Workspace, tmp_path: Path, signum: int, code: int
) -> None:
    process = start_sleeper(ws, tmp_path / "mark")
    process.send_signal(signum)
    assert process.wait(40) == code
    (run,) = list_runs(ws.path)
    assert (run.status, run.exit_code) == ("interrupted", code)


@pytest.mark.notebook
def test_a_killed_run_is_named_by_the_doctor_and_the_next_one_works(ws: Workspace, tmp_path: Path) -> None:
    process = start_sleeper(ws, tmp_path / "mark")
    process.kill()
    process.wait()
    (run,) = list_runs(ws.path)
    assert run.status == "running" and run.pid == process.pid
    findings = check_runs(ws.path, datetime.now(UTC))
    crashed = [finding for finding in findings if finding["check"] == "crashed"]
    assert [finding["run_id"] for finding in crashed] == [run.run_id] and not crashed[0]["ok"]
    assert run_notebook(ws, FIXTURES / "nothing_to_do.ipynb").exit_code == 0


# ---------------------------------------------------------------- a night

NIGHT = [FIXTURES / "counts.ipynb", FIXTURES / "nothing_to_do.ipynb"]


@pytest.mark.notebook
def test_a_night_runs_its_notebooks_in_order_and_a_second_one_changes_nothing(ws: Workspace) -> None:
    night = run_nightly(ws, notebooks=NIGHT, parameters={"count": "9"})
    assert (night.status, night.exit_code) == ("ok", 0)
    assert night.counts["notebooks"] == {"counts": "ok", "nothing_to_do": "nothing_to_do"}
    assert night.counts["counts"]["count"] == 9
    assert len(night.children) == 2
    report = Path(night.artefacts[0]["path"])
    assert report.name == "report.html" and report.stat().st_size < 1_000_000
    second = run_nightly(ws, notebooks=NIGHT, parameters={"count": "9"})
    assert (second.status, second.exit_code) == ("nothing_to_do", 0)
    assert set(second.counts["notebooks"].values()) == {"skipped"}
    assert all(finding["ok"] for finding in check_runs(ws.path, datetime.now(UTC)))
    with pytest.raises(ParameterError, match="did you mean 'count'"):
        run_nightly(ws, notebooks=NIGHT, parameters={"cuont": 1})


@pytest.mark.notebook
def test_a_failing_notebook_does_not_stop_the_night_but_fails_it(ws: Workspace) -> None:
    night = run_nightly(ws, notebooks=[FIXTURES / "raises.ipynb", FIXTURES / "nothing_to_do.ipynb"])
    assert (night.status, night.exit_code) == ("failed", 1)
    assert night.counts["notebooks"] == {"raises": "failed", "nothing_to_do": "nothing_to_do"}
    assert "ValueError" in Path(night.artefacts[0]["path"]).read_text()


def test_a_memory_that_does_not_come_back_fails_the_night(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sitoolkit import nightly
    from sitoolkit.records import Recall

    started = ws.clock()
    manifest = RunManifest(run_id="r", notebook="nightly", status="running", started_at=started)
    assert nightly._recall_check(ws, manifest)["recalled"] is None
    text = "The gateway of the lab listens on port 8443."
    ws.memory.upsert(
        [Memory(category="learned_fact", scope="project:lab", text=text, origin="user-stated")], run_id="r"
    )
    check = nightly._recall_check(ws, manifest)
    assert check["recalled"] is True and check["scope"] == "project:lab"

    def forgets(*args: Any, **kwargs: Any) -> Recall:
        return Recall(id="x", reader=args[2], query=args[1], at=started)

    monkeypatch.setattr(sys.modules["sitoolkit.recall"], "recall", forgets)
    check = nightly._recall_check(ws, manifest)
    assert check["recalled"] is False
    assert nightly._verdict([], None, check) == ("failed", 1)


# ---------------------------------------------------------------- records of runs


def manifest(started: datetime, name: str = "nightly", **values: Any) -> RunManifest:
    run_id = f"{started:%Y%m%dT%H%M%SZ}-{name}-{values.pop('mark', 'aaaaaa')}"
    given = {"status": "ok", "exit_code": 0, "ended_at": started, **values}
    return RunManifest(run_id=run_id, notebook=name, started_at=started, **given)


def keep(workspace: Path, run: RunManifest) -> RunManifest:
    folder = workspace / "runs" / f"{run.started_at:%Y-%m-%d}" / run.run_id
    folder.mkdir(parents=True)
    write_manifest(folder, run)
    return run


def test_pruning_keeps_failed_runs_longer_and_the_last_good_night_always(tmp_path: Path) -> None:
    now = datetime(2026, 12, 1, tzinfo=UTC)
    old_good = keep(tmp_path, manifest(now - timedelta(days=200)))
    last_good = keep(tmp_path, manifest(now - timedelta(days=100)))
    failed = keep(tmp_path, manifest(now - timedelta(days=60), status="failed"))
    old_failed = keep(tmp_path, manifest(now - timedelta(days=120), status="failed"))
    fresh = keep(tmp_path, manifest(now - timedelta(days=1), name="counts"))
    planned = prune_runs(tmp_path, now, dry_run=True)
    assert {row["run_id"] for row in planned} == {old_good.run_id, old_failed.run_id}
    assert len(list_runs(tmp_path)) == 5
    prune_runs(tmp_path, now)
    assert {run.run_id for run in list_runs(tmp_path)} == {last_good.run_id, failed.run_id, fresh.run_id}


def test_the_doctor_misses_a_night_that_is_too_old(tmp_path: Path) -> None:
    now = datetime(2026, 12, 3, tzinfo=UTC)
    keep(tmp_path, manifest(now - timedelta(hours=40)))
    assert [finding["check"] for finding in check_runs(tmp_path, now) if not finding["ok"]] == ["age"]
    assert all(finding["ok"] for finding in check_runs(tmp_path, now, max_age_hours=48))
    keep(tmp_path, manifest(now - timedelta(hours=1), status="failed"))
    assert [
        finding["check"] for finding in check_runs(tmp_path, now, max_age_hours=48) if not finding["ok"]
    ] == ["last night"]


def test_a_number_that_another_process_got_is_not_taken_for_the_run(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    keep(tmp_path, manifest(now, status="running", ended_at=None, pid=os.getpid(), pid_mark="1"))
    assert "crashed" in {finding["check"] for finding in check_runs(tmp_path, now)}


def test_a_run_is_found_by_a_clear_beginning_of_its_id(tmp_path: Path) -> None:
    now = datetime(2026, 12, 1, tzinfo=UTC)
    one = keep(tmp_path, manifest(now))
    keep(tmp_path, manifest(now, mark="bbbbbb"))
    assert find_run(tmp_path, one.run_id) == one
    for unclear in (one.run_id[:10], "", "zzz"):
        with pytest.raises(NotFoundError):
            find_run(tmp_path, unclear)


def test_a_night_without_transcripts_leaves_capture_out_and_says_so(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: object, **kwargs: object) -> None:
        raise AssertionError("a notebook was started")

    monkeypatch.setattr("sitoolkit.nightly.run_one", never)
    night = run_nightly(ws, notebooks=["01_capture_replay"])
    assert (night.status, night.exit_code) == ("nothing_to_do", 0)
    assert night.notes == (
        "01_capture_replay was not run: no transcripts were named; give PATHs or set [nightly] sources",
    )
