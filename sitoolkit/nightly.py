"""Runs notebooks headless: comes in a notebook and its parameters, goes out a run folder and a `RunManifest` that tells the truth.

Parameters are checked before the launch. Papermill runs in a thread of this process, so that a deadline or a signal can stop
the kernel and still write down what happened. One run at a time in a workspace: another is recorded as skipped.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sitoolkit import errors
from sitoolkit._version import __version__
from sitoolkit.errors import ParameterError
from sitoolkit.headless import CellFailed, Executed, KernelDied, execute, export_html
from sitoolkit.parameters import check_parameters
from sitoolkit.records import RunManifest, digest, iso
from sitoolkit.runs import list_runs, new_run_folder, process_mark, prune_runs, write_manifest
from sitoolkit.shipped import shipped

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["find_notebook", "run_nightly", "run_notebook"]

logger = logging.getLogger(__name__)
NIGHTLY = "nightly"
_GOOD = ("ok", "nothing_to_do", "skipped")
EXIT_LOCKED, EXIT_DEADLINE = 3, 124


class _Stopped(BaseException):
    """A signal asks the run to stop; not an `Exception`, so that no handler of a library swallows it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.exit_code = 128 + signum


def find_notebook(name: str | os.PathLike[str]) -> Path:
    """A notebook by path, or a shipped one by its name, its number or the word after it.

    >>> find_notebook("distillation").name
    '02_pattern_distillation.ipynb'

    Raises:
        ParameterError: there is no such notebook; names those that are shipped.
    """
    path = Path(name).expanduser()
    if path.suffix == ".ipynb" and path.is_file():
        return path.absolute()
    known = sorted(shipped("notebooks").glob("[0-9]*.ipynb"))
    wanted = path.name.removesuffix(".ipynb").lower()
    hits = [file for file in known if file.stem == wanted] or [
        file
        for file in known
        if wanted and (file.stem.startswith(f"{wanted}_") or wanted in file.stem.split("_", 1)[1])
    ]
    if len(hits) == 1 and path.parent == Path():
        return hits[0]
    raise ParameterError(
        f"no notebook {str(name)!r}; give the path of an .ipynb file or one of {', '.join(file.stem for file in known)}"
    )


def run_notebook(
    ws: Workspace,
    notebook: str | os.PathLike[str],
    parameters: Mapping[str, Any] | None = None,
    *,
    deadline_s: float | None = None,
    force: bool = False,
) -> RunManifest:
    """Run one notebook headless in a folder of its own.

    >>> manifest = run_notebook(ws, "02_pattern_distillation", {"min_samples": 5})
    >>> manifest.status, manifest.exit_code
    ('ok', 0)

    Args:
        ws: the workspace; the notebook opens it by `SITOOLKIT_HOME`.
        notebook: a path, or the name of a shipped notebook.
        parameters: values for its parameters cell; text is read as the type that the cell declares.
        deadline_s: seconds after which the whole run is stopped; exit code 124.
        force: run even when the same notebook ended well on the same inputs and nothing has changed since.

    Returns:
        The manifest; its `exit_code` is what the command line ends with. A failing notebook is a manifest, not an exception.

    Raises:
        ParameterError: no such notebook, an unknown parameter or one of the wrong type; nothing was started.
    """
    path = find_notebook(notebook)
    checked = check_parameters(path, parameters or {})
    with _run_lock(ws) as holder:
        if holder is not None:
            return _skipped_locked(ws, path.stem, str(path), checked, holder)
        with _signals():
            deadline = None if deadline_s is None else time.monotonic() + deadline_s
            return _run_one(ws, path, checked, deadline=deadline, force=force)


def run_nightly(
    ws: Workspace,
    sources: Sequence[str | os.PathLike[str]] = (),
    *,
    notebooks: Sequence[str | os.PathLike[str]] = (),
    parameters: Mapping[str, Any] | None = None,
    deadline_s: float | None = None,
    force: bool = False,
) -> RunManifest:
    """Run the loop's notebooks in order, recall one memory that was just written, and write the report.

    >>> manifest = run_nightly(ws, ["~/transcripts"])
    >>> manifest.artefacts[0]["name"]
    'report.html'

    Args:
        ws: the workspace.
        sources: transcripts to take in; by default those of `[nightly] sources` in `sitoolkit.toml`.
        notebooks: which, in order; by default those of `[nightly] notebooks`.
        parameters: values by name, each given to every notebook that knows it.
        deadline_s: seconds for the whole night; by default `[nightly] deadline_minutes`.
        force: run notebooks even when nothing has changed since they last ended well.

    Returns:
        The night's manifest; those of its notebooks are named in `children`.

    Raises:
        ParameterError: a notebook is not found, or no notebook knows a parameter; nothing was started.
    """
    settings = ws.settings.nightly
    plan = _plan(ws, sources, notebooks, parameters or {})
    limit = settings.deadline_minutes * 60 if deadline_s is None else deadline_s
    everything = {path.stem: given for path, given in plan}
    with _run_lock(ws) as holder:
        if holder is not None:
            return _skipped_locked(ws, NIGHTLY, NIGHTLY, everything, holder)
        with _signals():
            return _run_night(ws, plan, everything, time.monotonic() + limit, limit, force)


# ---------------------------------------------------------------- one night


def _plan(
    ws: Workspace,
    sources: Sequence[str | os.PathLike[str]],
    notebooks: Sequence[str | os.PathLike[str]],
    parameters: Mapping[str, Any],
) -> list[tuple[Path, dict[str, Any]]]:
    """Each notebook with its checked parameters; a name that no notebook knows is refused here, before anything runs."""
    from sitoolkit.parameters import declared_parameters, unknown_parameter

    settings = ws.settings.nightly
    paths = [find_notebook(name) for name in (notebooks or settings.notebooks)]
    declared = {path: declared_parameters(path) for path in paths}
    known = sorted({name for names in declared.values() for name in names})
    for name in parameters:
        if name not in known:
            raise unknown_parameter(name, known, "the night's notebooks")
    taken = [str(Path(source).expanduser().absolute()) for source in (sources or settings.sources)]
    logs = [str(Path(log).expanduser().absolute()) for log in settings.logs]
    plan = []
    for path in paths:
        given = {name: value for name, value in parameters.items() if name in declared[path]}
        for name, value in (("sources", taken), ("logs", logs)):
            if name in declared[path] and name not in given and value:
                given[name] = value
        plan.append((path, check_parameters(path, given)))
    return plan


def _run_night(
    ws: Workspace,
    plan: Sequence[tuple[Path, dict[str, Any]]],
    everything: Mapping[str, Any],
    deadline: float,
    limit: float,
    force: bool,
) -> RunManifest:
    begun, manifest, folder = _begin(ws, NIGHTLY, NIGHTLY, dict(everything))
    children: list[RunManifest] = []
    notes: list[str] = []
    stopped: _Stopped | None = None
    check: dict[str, Any] = {}
    try:
        for path, given in plan:
            child = _run_one(ws, path, given, deadline=deadline, force=force, parent=manifest.run_id)
            children.append(child)
            if child.status == "timeout":
                notes.append(
                    f"the night had {limit:.0f} s and ran over in {path.stem}; later notebooks were not started"
                )
                break
            if child.status == "interrupted":
                raise _Stopped((child.exit_code or 143) - 128)
        if not any(child.status == "timeout" for child in children):
            check = _recall_check(ws, manifest)
            if check.get("recalled") is False:
                notes.append(
                    f"a memory that was just written did not come back: {check['memory_id']} for {check['query']!r}"
                )
    except _Stopped as error:
        stopped = error
    status, code = _verdict(children, stopped, check)
    manifest = manifest.model_copy(
        update={
            "status": status,
            "exit_code": code,
            "children": tuple(child.run_id for child in children),
            "counts": {
                "notebooks": {Path(child.notebook).stem: child.status for child in children},
                **{Path(child.notebook).stem: child.counts for child in children},
                "recall_check": check,
            },
            "error": next((child.error for child in children if child.error), None),
            "notes": tuple(notes),
        }
    )
    manifest = _end(ws, manifest, begun)
    report = _write_report(ws, manifest, children, folder)
    manifest = manifest.model_copy(update={"artefacts": report})
    write_manifest(folder, manifest)
    settings = ws.settings.nightly
    prune_runs(ws.path, ws.clock(), keep_days=settings.keep_days, keep_failed_days=settings.keep_failed_days)
    return manifest


def _verdict(
    children: Sequence[RunManifest], stopped: _Stopped | None, check: Mapping[str, Any]
) -> tuple[str, int]:
    """How the night ended: the worst of its parts decides."""
    if stopped is not None:
        return "interrupted", stopped.exit_code
    if any(child.status == "timeout" for child in children):
        return "timeout", EXIT_DEADLINE
    bad = [child for child in children if child.status not in _GOOD]
    if bad:
        codes = [child.exit_code or 1 for child in bad]
        return "failed", next((code for code in (4, 3) if all(each == code for each in codes)), 1)
    if check.get("recalled") is False:
        return "failed", 1
    return ("nothing_to_do", 0) if all(child.status != "ok" for child in children) else ("ok", 0)


def _recall_check(ws: Workspace, manifest: RunManifest) -> dict[str, Any]:
    """Recall one memory that this night wrote through the public path: a loop that only writes would go unnoticed for months."""
    from sitoolkit.recall import recall
    from sitoolkit.records import Reader, Status

    fresh = [
        row
        for row in ws.memory.rows(status=Status.ACTIVE)
        if (row.created_at or manifest.started_at - timedelta(1)) >= manifest.started_at
        and not (row.expires_at and row.expires_at <= ws.clock())
    ]
    if not fresh:
        return {"recalled": None, "why": "nothing was written tonight"}
    # The newest pattern or lesson if there is one: what is learned must come back, not only what was copied.
    order = {
        "expert_knowledge": 0,
        "reflection": 1,
        "learned_fact": 2,
        "usage_guide": 3,
        "operational_event": 4,
    }
    memory = min(fresh, key=lambda row: (order.get(str(row.category), 9), row.id))
    scope = memory.scope
    reader = Reader(**{scope.kind: scope.name}) if scope.kind != "global" else Reader()
    query = " ".join(memory.text.split())[:200]
    found = recall(ws, query, reader, k=10)
    return {
        "recalled": any(item.memory_id == memory.id for item in found.items),
        "memory_id": memory.id,
        "recall_id": found.id,
        "query": query,
        "scope": str(scope),
    }


def _write_report(
    ws: Workspace, manifest: RunManifest, children: Sequence[RunManifest], folder: Path
) -> tuple[dict[str, Any], ...]:
    from sitoolkit.views.report import write_report

    try:
        write_report(ws, manifest, children, folder / "report.html")
    except Exception as error:
        logger.exception("the report could not be written: %s", error)
        (folder / "report-error.txt").write_text(f"{type(error).__name__}: {error}\n", encoding="utf-8")
    return _artefacts(folder)


# ---------------------------------------------------------------- one notebook


def _run_one(
    ws: Workspace,
    path: Path,
    parameters: dict[str, Any],
    *,
    deadline: float | None,
    force: bool,
    parent: str | None = None,
) -> RunManifest:
    begun, manifest, folder = _begin(ws, path.stem, str(path), parameters)
    if parent:
        manifest = manifest.model_copy(update={"notes": (f"part of {parent}",)})
    earlier = None if force else _same_before(ws, manifest)
    if earlier is not None:
        notes = (*manifest.notes, f"same inputs as {earlier.run_id}, which ended well; --force runs it again")
        manifest = manifest.model_copy(
            update={"status": "skipped", "exit_code": 0, "notes": notes, "counts": earlier.counts}
        )
        return _end(ws, manifest, begun)
    status, code, error, executed = _attempt(ws, path, folder, parameters, deadline)
    if executed is not None and executed.counts.get("nothing_to_do") is True and status == "ok":
        status = "nothing_to_do"
    partial = folder / "output.partial.ipynb"
    if partial.is_file():
        named = partial.rename(folder / ("output.ipynb" if status in _GOOD else "output.failed.ipynb"))
        try:
            export_html(
                named, folder / "report.html", title=f"{path.stem} {manifest.run_id}", redactor=ws.redactor
            )
        except Exception as fault:  # noqa: BLE001 - the page is a convenience; the manifest must be written
            manifest = manifest.model_copy(update={"notes": (*manifest.notes, f"no HTML page: {fault}")})
    manifest = manifest.model_copy(
        update={
            "status": status,
            "exit_code": code,
            "error": error,
            "counts": executed.counts if executed else {},
            "artefacts": _artefacts(folder),
        }
    )
    if status in _GOOD:  # what it left behind is what the next run starts from
        manifest = manifest.model_copy(update={"key": _key(ws, manifest)})
    return _end(ws, manifest, begun)


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
        except _Stopped as stop:
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


def _begin(
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


def _end(ws: Workspace, manifest: RunManifest, begun: float) -> RunManifest:
    duration = time.monotonic() - begun
    ended = max(ws.clock(), manifest.started_at)
    manifest = manifest.model_copy(update={"ended_at": ended, "duration_s": round(duration, 3)})
    write_manifest(ws.path / "runs" / f"{manifest.started_at:%Y-%m-%d}" / manifest.run_id, manifest)
    return manifest


def _skipped_locked(
    ws: Workspace, name: str, notebook: str, parameters: Mapping[str, Any], holder: str
) -> RunManifest:
    begun, manifest, _ = _begin(ws, name, notebook, dict(parameters))
    note = f"another run holds the workspace: {holder}; wait for it, or see `sitoolkit runs list`"
    return _end(
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
def _run_lock(ws: Workspace) -> Iterator[str | None]:
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
def _signals() -> Iterator[None]:
    """While a run lasts, SIGTERM and SIGINT raise `_Stopped` in the main thread; elsewhere they stay as they are."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signum: int, frame: object) -> None:
        raise _Stopped(signum)

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


def _artefacts(folder: Path) -> tuple[dict[str, Any], ...]:
    order: Callable[[Path], tuple[bool, str]] = lambda file: (file.name != "report.html", file.name)  # noqa: E731
    return tuple(
        {
            "name": file.name,
            "path": str(file),
            "bytes": file.stat().st_size,
            "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        }
        for file in sorted(folder.iterdir(), key=order)
        if file.is_file() and file.name != "manifest.json" and not file.name.startswith(".")
    )
