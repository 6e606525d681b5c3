"""One notebook from the lock to its manifest: comes in a checked notebook, goes out what is written down about its run.

Papermill runs in a thread of this process, so that a deadline or a signal can stop the kernel and the manifest still tells the truth.
"""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sitoolkit import errors
from sitoolkit._version import __version__
from sitoolkit.headless import CellFailed, Executed, KernelDied, execute, export_html
from sitoolkit.records import RunManifest, digest, iso
from sitoolkit.runs import list_runs, new_run_folder, process_mark, write_manifest

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = [
    "EXIT_DEADLINE",
    "GOOD",
    "Stopped",
    "artefacts",
    "begin",
    "end",
    "run_lock",
    "run_one",
    "signals",
    "skipped_locked",
]

logger = logging.getLogger(__name__)
GOOD = ("ok", "nothing_to_do", "skipped")
EXIT_LOCKED, EXIT_DEADLINE = 3, 124


class Stopped(BaseException):
    """A signal asks the run to stop; not an `Exception`, so that no handler of a library swallows it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.exit_code = 128 + signum


def run_one(
    ws: Workspace,
    path: Path,
    parameters: dict[str, Any],
    *,
    deadline: float | None,
    force: bool,
    parent: str | None = None,
) -> RunManifest:
    begun, manifest, folder = begin(ws, path.stem, str(path), parameters)
    if parent:
        manifest = manifest.model_copy(update={"notes": (f"part of {parent}",)})
    earlier = None if force else _same_before(ws, manifest)
    if earlier is not None:
        notes = (*manifest.notes, f"same inputs as {earlier.run_id}, which ended well; --force runs it again")
        manifest = manifest.model_copy(
            update={"status": "skipped", "exit_code": 0, "notes": notes, "counts": earlier.counts}
        )
        return end(ws, manifest, begun)
    status, code, error, executed = _attempt(ws, path, folder, parameters, deadline)
    if executed is not None and executed.counts.get("nothing_to_do") is True and status == "ok":
        status = "nothing_to_do"
    partial = folder / "output.partial.ipynb"
    if partial.is_file():
        named = partial.rename(folder / ("output.ipynb" if status in GOOD else "output.failed.ipynb"))
        try:
            export_html(
                named,
                folder / "report.html",
                title=f"{path.stem} {manifest.run_id}",
                beside=path.parent,
                redactor=ws.redactor,
            )
        except Exception as fault:  # noqa: BLE001 - the page is a convenience; the manifest must be written
            manifest = manifest.model_copy(update={"notes": (*manifest.notes, f"no HTML page: {fault}")})
    manifest = manifest.model_copy(
        update={
            "status": status,
            "exit_code": code,
            "error": error,
            "counts": executed.counts if executed else {},
            "artefacts": artefacts(folder),
        }
    )
    if status in GOOD:  # what it left behind is what the next run starts from
        manifest = manifest.model_copy(update={"key": _key(ws, manifest)})
    return end(ws, manifest, begun)


def _attempt(
    ws: Workspace, path: Path, folder: Path, parameters: dict[str, Any], deadline: float | None
) -> tuple[str, int, dict[str, Any] | None, Executed | None]:
    """Execute, a second time only when the kernel died by itself; say how it ended."""
    environ = {"SITOOLKIT_HOME": str(ws.path), "SITOOLKIT_RENDERER": "svg"}
    for last in (False, True):
        try:
            executed = execute(
                path,
                folder / "output.partial.ipynb",
                parameters,
                log_file=folder / "log.txt",
                environ=environ,
                deadline=deadline,
            )
        except TimeoutError:
            return "timeout", EXIT_DEADLINE, {"ename": "TimeoutError", "evalue": "over its deadline"}, None
        except Stopped as stop:
            signame = signal.Signals(stop.exit_code - 128).name
            return "interrupted", stop.exit_code, {"ename": signame, "evalue": "stopped by a signal"}, None
        except CellFailed as failed:
            code = getattr(getattr(errors, failed.ename, None), "exit_code", 1)
            where = {
                "cell_index": failed.cell_index,
                "ename": failed.ename,
                "evalue": ws.redactor.text(failed.evalue)[0],
            }
            return "failed", code, where, None
        except KernelDied as died:
            if last:
                return "failed", 1, {"ename": "DeadKernelError", "evalue": str(died)}, None
            logger.warning("the kernel of %s died; one more try", path.stem)
        else:
            return "ok", 0, None, executed
    raise AssertionError("unreachable")


def begin(
    ws: Workspace, name: str, notebook: str, parameters: dict[str, Any]
) -> tuple[float, RunManifest, Path]:
    started_at = ws.clock()
    run_id, folder = new_run_folder(ws.path, name, started_at)
    path = Path(notebook)
    manifest = RunManifest(
        run_id=run_id,
        notebook=notebook,
        status="running",
        parameters=ws.redactor.value(parameters)[0],
        notebook_sha256=hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        started_at=started_at,
        pid=os.getpid(),
        pid_mark=process_mark(os.getpid()),
        host=socket.gethostname(),
        versions=_versions(),
    )
    manifest = manifest.model_copy(update={"key": _key(ws, manifest)})
    write_manifest(folder, manifest)
    return time.monotonic(), manifest, folder


def end(ws: Workspace, manifest: RunManifest, begun: float) -> RunManifest:
    duration = time.monotonic() - begun
    ended = max(ws.clock(), manifest.started_at)
    manifest = manifest.model_copy(update={"ended_at": ended, "duration_s": round(duration, 3)})
    write_manifest(ws.path / "runs" / f"{manifest.started_at:%Y-%m-%d}" / manifest.run_id, manifest)
    return manifest


def skipped_locked(
    ws: Workspace, name: str, notebook: str, parameters: Mapping[str, Any], holder: str
) -> RunManifest:
    begun, manifest, _ = begin(ws, name, notebook, dict(parameters))
    note = f"another run holds the workspace: {holder}; wait for it, or see `sitoolkit runs list`"
    return end(
        ws,
        manifest.model_copy(update={"status": "skipped_locked", "exit_code": EXIT_LOCKED, "notes": (note,)}),
        begun,
    )


# ---------------------------------------------------------------- same inputs?


def _key(ws: Workspace, manifest: RunManifest) -> str:
    """Digest of the notebook, its parameters, the files they name, the stores as they are now, and the day."""
    files = [
        (str(file), *_mark(file))
        for value in manifest.parameters.values()
        for text in (value if isinstance(value, list | tuple) else [value])
        if isinstance(text, str) and text
        for file in _files(text)
    ]
    # The journal is left out: it records recalls and runs, and each run adds to it.
    stores = [
        (file.relative_to(ws.path).as_posix(), *_mark(file))
        for part in ("telemetry", "memory", "proposals", "tools", "sitoolkit.toml")
        for file in _files(str(ws.path / part))
    ]
    day = f"{ws.clock():%Y-%m-%d}"
    return digest(manifest.notebook_sha256, manifest.parameters, files, stores, day, __version__)


def _mark(file: Path) -> tuple[int, int]:
    with suppress(OSError):
        found = file.stat()
        return found.st_size, found.st_mtime_ns
    return 0, 0


def _files(text: str) -> list[Path]:
    try:
        path = Path(text)
        if path.is_file():
            return [path]
        return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else []
    except OSError:
        return []  # a text that is no path: too long, or with characters that none has


def _same_before(ws: Workspace, manifest: RunManifest) -> RunManifest | None:
    return next(
        (
            run
            for run in list_runs(ws.path)
            if run.key == manifest.key and run.status in ("ok", "nothing_to_do")
        ),
        None,
    )


# ---------------------------------------------------------------- lock, signals, facts about this machine


@contextmanager
def run_lock(ws: Workspace) -> Iterator[str | None]:
    """Hold the workspace's run lock; yields `None` when held, else who holds it. The kernel lets go when a process dies."""
    from filelock import FileLock, Timeout

    folder = ws.path / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock", timeout=0)
    who = folder / ".holder"
    try:
        lock.acquire()
    except Timeout:
        text = ""
        with suppress(OSError):
            text = who.read_text(encoding="utf-8").strip()
        yield text or "a process that has not said its name"
        return
    try:
        who.write_text(
            f"process {os.getpid()} on {socket.gethostname()} since {iso(ws.clock())}\n", encoding="utf-8"
        )
        yield None
    finally:
        who.unlink(missing_ok=True)
        lock.release()


@contextmanager
def signals() -> Iterator[None]:
    """While a run lasts, SIGTERM and SIGINT raise `Stopped` in the main thread; elsewhere they stay as they are."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signum: int, frame: object) -> None:
        raise Stopped(signum)

    before: dict[int, Any] = {}
    for wanted in (signal.SIGTERM, signal.SIGINT):
        before[wanted] = signal.signal(wanted, stop)
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"sitoolkit": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("lancedb", "duckdb", "polars", "altair", "papermill"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def artefacts(folder: Path) -> tuple[dict[str, Any], ...]:
    """The files of a run with their sizes and hashes, the report first."""
    files = sorted(folder.iterdir(), key=lambda file: (file.name != "report.html", file.name))
    return tuple(
        {
            "name": file.name,
            "path": str(file),
            "bytes": file.stat().st_size,
            "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        }
        for file in files
        if file.is_file() and file.name != "manifest.json" and not file.name.startswith(".")
    )
