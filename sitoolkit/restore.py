"""A memory table that is lost or damaged comes in; the same one, made again from the journal and from telemetry, goes out.

The journal holds every change of every memory. Where it lost some (a damaged file, a restored backup), telemetry still holds
the calls: their precedents are written again, which changes nothing where they are known.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from sitoolkit.stores.memory_rebuild import RebuildReport
from sitoolkit.stores.memory_schema import memory_id

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["RestoreReport", "rebuild_memory"]

_BATCH = 5_000  # calls at a time


class RestoreReport(RebuildReport):
    """What a rebuilding did."""

    from_telemetry: int = 0  # memories that the journal did not know
    run_id: str = ""


def rebuild_memory(ws: Workspace) -> RestoreReport:
    """Make the memory table again; the damaged one is kept beside it until `memory reembed --drop-old`.

    Raises:
        StoreLocked: another writer holds the workspace.
        StoreError: the disk is full; the old table stays in use.
    """
    from sitoolkit.loops.capture import event_memory
    from sitoolkit.stores.history import fold
    from sitoolkit.writes import is_precedent

    with ws.run("rebuild") as run:
        report = ws.memory.rebuild()
        # What the journal knows is as it should be: a run that was undone does not come back this way.
        known = set(fold(ws.journal, counting=False).rows)
        written = 0
        calls = (
            call for call in ws.telemetry.invocations(outcomes=["success"]) if is_precedent(call, ws.settings)
        )
        while batch := list(islice(calls, _BATCH)):
            memories = [event_memory(call, ws.settings, ws.clock()) for call in batch]
            lost = [
                one for one in memories if memory_id(one.category, one.scope, one.content_hash) not in known
            ]
            written += ws.memory.upsert(lost, run_id=run.id).written
        if written:
            ws.memory.optimize()
        return RestoreReport(**report.model_dump(), from_telemetry=written, run_id=run.id)
