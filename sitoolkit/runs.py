"""The record of notebook runs: a folder a run with its manifest; listed, shown, pruned, and checked for crashes.

Comes in: the workspace folder. Goes out: `RunManifest`s, newest first. A manifest is written first as `running` and replaced
at the end in one step, so that a run that died shows as `running` with a process that is gone.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sitoolkit.errors import NotFoundError
from sitoolkit.records import RunManifest, digest, iso

__all__ = [
    "MANIFEST",
    "check_runs",
    "find_run",
    "is_alive",
    "list_runs",
    "new_run_folder",
    "process_mark",
    "prune_runs",
    "run_folder",
    "write_manifest",
]

MANIFEST = "manifest.json"


def new_run_folder(workspace: Path, name: str, started_at: datetime) -> tuple[str, Path]:
    """Make the folder of a run: `runs/2026-12-01/20261201T020000Z-distill-3f9c2a`; its name is the run's id."""
    day = workspace / "runs" / f"{started_at:%Y-%m-%d}"
    attempt = 0
    while True:
        mark = digest(name, iso(started_at), os.getpid(), attempt)[:6]
        run_id = f"{started_at:%Y%m%dT%H%M%SZ}-{name}-{mark}"
        try:
            (day / run_id).mkdir(parents=True)
        except FileExistsError:
            attempt += 1
            continue
        return run_id, day / run_id


def write_manifest(folder: Path, manifest: RunManifest) -> None:
    """Write or replace a run's manifest in one step: a reader sees the old one or the new one, whole."""
    text = json.dumps(manifest.to_json(), indent=2, ensure_ascii=False) + "\n"
    partial = folder / f".{MANIFEST}.{os.getpid()}"
    with partial.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(folder / MANIFEST)


def _folders(workspace: Path) -> Iterator[Path]:
    for file in (workspace / "runs").glob(f"*/*/{MANIFEST}"):
        yield file.parent


def _read(folder: Path) -> RunManifest | None:
    try:
        return RunManifest.model_validate_json((folder / MANIFEST).read_bytes())
    except (OSError, ValidationError):
        return None  # `check_runs` names it; a list goes on


def list_runs(
    workspace: Path, *, status: str | None = None, notebook: str | None = None
) -> list[RunManifest]:
    """All runs, newest first.

    Args:
        workspace: the workspace folder.
        status: only runs that ended so.
        notebook: only runs of this notebook (its stem) or `nightly`.
    """
    found = [manifest for folder in _folders(workspace) if (manifest := _read(folder)) is not None]
    kept = [
        manifest
        for manifest in found
        if (status is None or manifest.status == status)
        and (notebook is None or Path(manifest.notebook).stem == notebook)
    ]
    return sorted(kept, key=lambda manifest: (manifest.started_at, manifest.run_id), reverse=True)


def run_folder(workspace: Path, run_id: str) -> Path:
    """The folder of a run; the id may be cut as long as it is clear.

    Raises:
        NotFoundError: no run or more than one has an id that begins so.
    """
    hits = (
        sorted(folder for folder in _folders(workspace) if folder.name.startswith(run_id)) if run_id else []
    )
    exact = [folder for folder in hits if folder.name == run_id]
    if len(exact) == 1 or len(hits) == 1:
        return (exact or hits)[0]
    what = f"{len(hits)} runs begin with" if hits else "no run is called"
    raise NotFoundError(f"{what} {run_id!r}; `sitoolkit runs list` shows them")


def find_run(workspace: Path, run_id: str) -> RunManifest:
    """One run's manifest.

    Raises:
        NotFoundError: there is no such run, or its manifest is not readable.
    """
    folder = run_folder(workspace, run_id)
    manifest = _read(folder)
    if manifest is None:
        raise NotFoundError(
            f"{folder / MANIFEST} is not readable; `sitoolkit runs doctor` names what is damaged"
        )
    return manifest


def process_mark(pid: int) -> str:
    """When a process began, in the kernel's words: tells it from a later one that got the same number; empty where unknown."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


def is_alive(manifest: RunManifest) -> bool:
    """Whether the process that wrote a `running` manifest still runs; one of another machine is taken to."""
    if manifest.host and manifest.host != socket.gethostname():
        return True
    if manifest.pid is None:
        return False
    try:
        os.kill(manifest.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it runs, as someone else
    now = process_mark(manifest.pid)
    return not (now and manifest.pid_mark and now != manifest.pid_mark)


def check_runs(workspace: Path, now: datetime, *, max_age_hours: float = 36.0) -> list[dict[str, Any]]:
    """What is wrong with the runs: crashed ones, unreadable manifests, a failed last night, no good night for too long.

    Args:
        workspace: the workspace folder.
        now: the present.
        max_age_hours: how old the last good nightly run may be; 36 h leaves a daily run half a day of delay.

    Returns:
        `check, ok, run_id, detail, fix` for each finding; all `ok` when there is nothing to do.
    """
    findings: list[dict[str, Any]] = []

    def say(check: str, ok: bool, detail: str, fix: str = "", run_id: str = "") -> None:
        findings.append({"check": check, "ok": ok, "run_id": run_id, "detail": detail, "fix": fix})

    unreadable = [folder for folder in _folders(workspace) if _read(folder) is None]
    for folder in unreadable:
        say(
            "manifest",
            False,
            f"{folder / MANIFEST} is not readable",
            f"look at it, then remove {folder}",
            folder.name,
        )
    runs = list_runs(workspace)
    for run in runs:
        if run.status == "running" and not is_alive(run):
            say(
                "crashed",
                False,
                f"{run.run_id} says running, but process {run.pid} is gone: killed, or the machine stopped",
                "run it again: what was acknowledged is kept, and nothing is taken twice",
                run.run_id,
            )
    nights = [run for run in runs if run.notebook == "nightly"]
    ended = [run for run in nights if run.status not in ("running", "skipped_locked")]
    good = [run for run in ended if run.status in ("ok", "nothing_to_do", "skipped")]
    if ended and ended[0] not in good:
        say(
            "last night",
            False,
            f"{ended[0].run_id} ended as {ended[0].status}",
            f"sitoolkit runs show {ended[0].run_id}",
            ended[0].run_id,
        )
    if not good:
        say(
            "age",
            not nights,
            "no nightly run has ended well" if nights else "no nightly run yet",
            "sitoolkit nightly",
        )
    else:
        hours = (now - (good[0].ended_at or good[0].started_at)).total_seconds() / 3600
        fresh = hours <= max_age_hours
        say(
            "age",
            fresh,
            f"the last good nightly run ended {hours:.1f} h ago",
            "" if fresh else "is the timer running? `sitoolkit schedule print` shows how",
            good[0].run_id,
        )
    if all(finding["ok"] for finding in findings):
        say("runs", True, f"{len(runs)} runs, none crashed")
    return findings


def prune_runs(
    workspace: Path,
    now: datetime,
    *,
    keep_days: float = 30.0,
    keep_failed_days: float = 90.0,
    dry_run: bool = False,
) -> list[dict[str, Any]]:
    """Remove the folders of old runs; failed ones are kept longer, running ones and the last good night always.

    Returns:
        `run_id, status, ended_at, bytes, removed` for each run past its time.
    """
    runs = list_runs(workspace)
    last_good = next((run.run_id for run in runs if run.notebook == "nightly" and run.status == "ok"), None)
    keep = {last_good, *next((run.children for run in runs if run.run_id == last_good), ())}
    gone = []
    for run in runs:
        fine = run.status in ("ok", "nothing_to_do", "skipped", "skipped_locked")
        age = now - (run.ended_at or run.started_at)
        if run.run_id in keep or age <= timedelta(days=keep_days if fine else keep_failed_days):
            continue
        if run.status == "running" and is_alive(run):
            continue
        folder = run_folder(workspace, run.run_id)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        if not dry_run:
            shutil.rmtree(folder)
            with suppress(OSError):
                folder.parent.rmdir()  # the day, when this was its last run
        gone.append(
            {
                "run_id": run.run_id,
                "status": run.status,
                "ended_at": iso(run.ended_at),
                "bytes": size,
                "removed": not dry_run,
            }
        )
    return gone
