"""Runs notebooks headless: comes in a notebook and its parameters, goes out a run folder and a `RunManifest` that tells the truth.

Parameters are checked before the launch. Papermill runs in a thread of this process, so that a deadline or a signal can stop
the kernel and still write down what happened. One run at a time in a workspace: another is recorded as skipped.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sitoolkit.errors import ParameterError
from sitoolkit.launch import (
    EXIT_DEADLINE,
    GOOD,
    Stopped,
    artefacts,
    begin,
    end,
    run_lock,
    run_one,
    signals,
    skipped_locked,
)
from sitoolkit.parameters import check_parameters, declared_parameters, unknown_parameter
from sitoolkit.records import RunManifest
from sitoolkit.runs import prune_runs, write_manifest
from sitoolkit.shipped import shipped

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["find_notebook", "run_nightly", "run_notebook"]

logger = logging.getLogger(__name__)
NIGHTLY = "nightly"


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
    checked = {**_headless_defaults(path), **check_parameters(path, parameters or {})}
    with run_lock(ws) as holder:
        if holder is not None:
            return skipped_locked(ws, path.stem, str(path), checked, holder)
        with signals():
            deadline = None if deadline_s is None else time.monotonic() + deadline_s
            return run_one(ws, path, checked, deadline=deadline, force=force)


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
    with run_lock(ws) as holder:
        if holder is not None:
            return skipped_locked(ws, NIGHTLY, NIGHTLY, everything, holder)
        with signals():
            return _run_night(ws, plan, everything, time.monotonic() + limit, limit, force)


def _headless_defaults(path: Path) -> dict[str, Any]:
    """No run takes the demo's transcripts into a workspace unless it is told to; a person who opens notebook 01 sees them."""
    return {"demo": False} if "demo" in declared_parameters(path) else {}


# ---------------------------------------------------------------- one night


def _plan(
    ws: Workspace,
    sources: Sequence[str | os.PathLike[str]],
    notebooks: Sequence[str | os.PathLike[str]],
    parameters: Mapping[str, Any],
) -> list[tuple[Path, dict[str, Any]]]:
    """Each notebook with its checked parameters; a name that no notebook knows is refused here, before anything runs."""
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
        for name, value in (("sources", taken), ("logs", logs), ("apply", settings.apply_decay)):
            if name in declared[path] and value:
                given.setdefault(name, value)
        plan.append((path, {**_headless_defaults(path), **check_parameters(path, given)}))
    return plan


def _run_night(
    ws: Workspace,
    plan: Sequence[tuple[Path, dict[str, Any]]],
    everything: Mapping[str, Any],
    deadline: float,
    limit: float,
    force: bool,
) -> RunManifest:
    begun, manifest, folder = begin(ws, NIGHTLY, NIGHTLY, dict(everything))
    children: list[RunManifest] = []
    notes: list[str] = []
    stopped: Stopped | None = None
    check: dict[str, Any] = {}
    try:
        for path, given in plan:
            if "sources" in declared_parameters(path) and not (given.get("sources") or given.get("demo")):
                notes.append(
                    f"{path.stem} was not run: no transcripts were named; give PATHs or set [nightly] sources"
                )
                continue
            child = run_one(ws, path, given, deadline=deadline, force=force, parent=manifest.run_id)
            children.append(child)
            if child.status == "timeout":
                notes.append(
                    f"the night had {limit:.0f} s and ran over in {path.stem}; later notebooks were not started"
                )
                break
            if child.status == "interrupted":
                raise Stopped((child.exit_code or 143) - 128)
        if not any(child.status == "timeout" for child in children):
            check = _recall_check(ws, manifest)
            if check.get("recalled") is False:
                notes.append(
                    f"a memory that was just written did not come back: {check['memory_id']} for {check['query']!r}"
                )
    except Stopped as error:
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
                "runs": {
                    entry.run_id: entry.data.get("verb")
                    for entry in ws.journal.events("run_started", since=manifest.started_at)
                },
            },
            "error": next((child.error for child in children if child.error), None),
            "notes": tuple(notes),
        }
    )
    manifest = end(ws, manifest, begun)
    report = _write_report(ws, manifest, children, folder)
    manifest = manifest.model_copy(update={"artefacts": report})
    write_manifest(folder, manifest)
    settings = ws.settings.nightly
    prune_runs(ws.path, ws.clock(), keep_days=settings.keep_days, keep_failed_days=settings.keep_failed_days)
    return manifest


def _verdict(
    children: Sequence[RunManifest], stopped: Stopped | None, check: Mapping[str, Any]
) -> tuple[str, int]:
    """How the night ended: the worst of its parts decides."""
    if stopped is not None:
        return "interrupted", stopped.exit_code
    if any(child.status == "timeout" for child in children):
        return "timeout", EXIT_DEADLINE
    bad = [child for child in children if child.status not in GOOD]
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
        if row.created_at is not None
        and row.created_at >= manifest.started_at
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
    return artefacts(folder)
