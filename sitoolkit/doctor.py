"""The workspace's health: a workspace comes in; checks, each with what was found and the command that mends it, go out.

Other parts add checks by naming a function in `CHECKS`: it takes the workspace and gives `Check` records. A check that fails to
run is a failed check, never a crash.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sitoolkit.errors import SitoolkitError
from sitoolkit.records import Check, Record

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["CHECKS", "Check", "DoctorReport", "doctor"]

_ROOM = 200 << 20  # bytes that should be free: a compaction writes the table once more


class DoctorReport(Record):
    """All checks; `ok` when none failed."""

    checks: tuple[Check, ...] = ()

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)


# Where checks are found: "module:function", each taking the workspace. A module that is not installed is passed over.
CHECKS: tuple[str, ...] = (
    "sitoolkit.doctor:check_folder",
    "sitoolkit.doctor:check_telemetry",
    "sitoolkit.doctor:check_journal",
    "sitoolkit.doctor:check_memory",
    "sitoolkit.doctor:check_embedder",
    "sitoolkit.doctor:check_plugins",
    "sitoolkit.models.probe:check_models",
    "sitoolkit.doctor:check_nights",
)


def doctor(ws: Workspace, names: Iterable[str] | None = None) -> DoctorReport:
    """Look at everything; changes nothing.

    >>> doctor(ws).ok  # doctest: +SKIP
    True

    Args:
        ws: the workspace.
        names: only checks whose name begins with one of these.
    """
    wanted = tuple(names) if names is not None else None
    found: list[Check] = []
    for place in CHECKS:
        module, _, function = place.partition(":")
        if find_spec(module) is None:
            continue
        check: Callable[[Workspace], Iterable[Check]] | None = getattr(import_module(module), function, None)
        if check is None:
            continue
        try:
            found.extend(check(ws))
        except Exception as fault:  # noqa: BLE001 - the doctor tells what is broken, whatever it is
            fix = (
                "see the message"
                if isinstance(fault, SitoolkitError)
                else "run again as `sitoolkit --debug doctor`"
            )
            found.append(
                Check(
                    name=function.removeprefix("check_"),
                    ok=False,
                    detail=f"{type(fault).__name__}: {fault}",
                    fix=fix,
                )
            )
    if wanted is not None:
        found = [check for check in found if check.name.startswith(wanted)]
    return DoctorReport(checks=tuple(found))


# ---------------------------------------------------------------- the stores


def check_folder(ws: Workspace) -> Iterable[Check]:
    """The folder can be written and has room."""
    from sitoolkit.stores.lock import lock_holder

    path = ws.path
    if not path.exists():
        yield Check(name="workspace", ok=True, detail=f"{path} is made at the first write")
        return
    if not os.access(path, os.W_OK | os.X_OK):
        yield Check(
            name="workspace",
            ok=False,
            detail=f"{path} cannot be written",
            fix=f"chmod u+wx {path}, or choose another --workspace",
        )
        return
    free = shutil.disk_usage(path).free
    yield Check(
        name="workspace",
        ok=free > _ROOM,
        detail=f"{path}, {free >> 20} MB free",
        fix=None if free > _ROOM else f"free some space: compaction needs room, {_ROOM >> 20} MB at least",
    )
    holder = lock_holder(path)
    if holder is not None and _held_now(ws):
        yield Check(
            name="workspace.lock",
            ok=True,
            detail=f"process {holder.get('pid')} on {holder.get('host')} writes since {holder.get('since')}: {holder.get('doing')}",
        )


def _held_now(ws: Workspace) -> bool:
    from sitoolkit.errors import StoreError
    from sitoolkit.stores.lock import writer_lock

    try:
        with writer_lock(ws.path, 0.0, doing="look whether someone writes"):
            return False
    except StoreError:
        return True


def check_telemetry(ws: Workspace) -> Iterable[Check]:
    """Every line and every sealed day can be read."""
    faults = ws.telemetry.check()
    if faults:
        first = faults[0]
        yield Check(
            name="telemetry",
            ok=all(fault.line for fault in faults),  # a torn line costs itself; an unreadable day is lost
            detail=f"{len(faults)} damaged: {first.file}:{first.line}: {first.reason}",
            fix="import the transcripts again: what is known is not written twice",
        )
        return
    counts = ws.telemetry.sql("select (select count(*) from calls), (select count(*) from sessions)").row(0)
    yield Check(name="telemetry", ok=True, detail=f"{counts[0]} calls, {counts[1]} sessions")


def check_journal(ws: Workspace) -> Iterable[Check]:
    """The chains of the journal and of the proposals hold."""
    for name, journal in (("journal", ws.journal), ("proposals", ws.proposals.journal)):
        verdict = journal.verify()
        torn = f", {len(verdict.torn)} lines of stopped writers left out" if verdict.torn else ""
        yield Check(
            name=name,
            ok=verdict.ok,
            detail=f"{verdict.entries} entries, the chain holds{torn}"
            if verdict.ok
            else f"broken at {verdict.broken}: {verdict.reason}",
            fix=None
            if verdict.ok
            else f"restore {journal.folder} from a backup; what stands before it is sound",
        )


def check_memory(ws: Workspace) -> Iterable[Check]:
    """The memory table opens, fits its embedder and agrees with the journal."""
    problems = ws.memory.check()
    for number, problem in enumerate(problems):
        what, _, fix = problem.rpartition("; ")
        yield Check(
            name="memory" if number == 0 else f"memory.{number}",
            ok=False,
            detail=what or problem,
            fix=fix or None,
        )
    if problems:
        return
    if not ws.memory.table.exists:
        yield Check(name="memory", ok=True, detail="no memories yet")
        return
    frame = ws.memory.frame()
    active = frame.filter(frame["status"] == "active").height
    old = [name for name in ws.memory.table.tables() if name != ws.memory.table.name]
    kept = (
        f"; {len(old)} older tables kept (`sitoolkit memory reembed --drop-old` removes them)" if old else ""
    )
    yield Check(
        name="memory",
        ok=True,
        detail=f"{active} active of {frame.height} memories agree with the journal{kept}",
    )


def check_embedder(ws: Workspace) -> Iterable[Check]:
    """The embedder opens and is the one that the table was made by."""
    if ws.memory.table.exists:
        embedder = ws.memory.embedder_for_table()
    else:  # opened beside the workspace, so that looking records nothing
        from sitoolkit.models.embedders import open_embedder

        embedder = open_embedder(ws.settings.models.embedder, ws.settings)
    rows: Any = embedder.embed(["does it work"])
    yield Check(
        name="embedder",
        ok=rows.shape == (1, embedder.dim),
        detail=f"{embedder.name}, {embedder.dim} numbers a vector",
        fix=None if rows.shape == (1, embedder.dim) else "set models.embedder to another one",
    )


def check_nights(ws: Workspace) -> Iterable[Check]:
    """No run died, and the last night is good."""
    if not (ws.path / "runs").is_dir():
        return
    from sitoolkit.runs import check_runs

    for found in check_runs(ws.path, ws.clock(), max_age_hours=ws.settings.nightly.max_age_hours):
        yield Check(
            name=f"runs.{found['check'].replace(' ', '_')}",
            ok=found["ok"],
            detail=found["detail"],
            fix=found["fix"] or None,
        )


def check_plugins(ws: Workspace) -> Iterable[Check]:
    """The plugins that are installed load."""
    from sitoolkit.plugins import load_plugins

    plugins, faults = load_plugins()
    for fault in faults:
        yield Check(
            name=f"plugin.{fault.plugin}",
            ok=False,
            detail=fault.error,
            fix=f"pip install --upgrade, or remove, {fault.plugin}",
        )
    if not faults:
        names = ", ".join(plugin.name for plugin in plugins)
        yield Check(name="plugins", ok=True, detail=names or "none installed")
