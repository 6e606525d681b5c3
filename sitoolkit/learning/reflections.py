"""How reflections are written, whoever writes them: candidates come in, those that say something new are kept.

One rule decides what is a near-duplicate, for the store, for the batch and for every writer: the same slot, or texts about
the same tool and condition whose cosine is over the threshold of the embedder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from sitoolkit.records import Category, Memory, Record, Scope, Status, WriteReport

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = [
    "Skipped",
    "Written",
    "about_the_same",
    "living_reflections",
    "near_duplicate_cosine",
    "write_reflections",
]

# On the labelled pairs of tests/data/lesson_pairs.jsonl at most 2.5 % of the different pairs lie above: to lose a lesson is worse
# than to keep one twice. The test prints both error rates.
COSINES = {"minilm": 0.62, "wordllama": 0.54, "hashing": 0.31}


class Skipped(Record):
    """A reflection that was not written, and the one that already says it."""

    text: str
    duplicate_of: str
    cosine: float | None = None  # None: the same slot


class Written(Record):
    """What became of the candidates."""

    report: WriteReport = WriteReport()
    written: tuple[Memory, ...] = ()
    skipped: tuple[Skipped, ...] = ()


def near_duplicate_cosine(ws: Workspace) -> float:
    """The cosine from which two reflections say the same: the setting, else as calibrated for the embedder."""
    chosen = ws.settings.lessons.near_duplicate_cosine
    if chosen is not None:
        return chosen
    name = ws.embedder.name
    for family, cosine in COSINES.items():
        if name.startswith(family):
            return cosine
    return float(ws.embedder.near_duplicate_cosine)


def living_reflections(ws: Workspace, now: datetime | None = None) -> list[Memory]:
    """Reflections that recall may serve: active and not expired."""
    moment = now or ws.clock()
    return [
        memory
        for memory in ws.memory.rows(category=Category.REFLECTION, status=Status.ACTIVE)
        if memory.expires_at is None or memory.expires_at > moment
    ]


def about_the_same(one: Memory, other: Memory) -> bool | None:
    """Whether two reflections name the same tool and condition; None where one of them does not say."""
    for name in ("tool", "condition"):
        a, b = one.payload.get(name), other.payload.get(name)
        if a and b and a != b:
            return False
    if one.payload.get("condition") and other.payload.get("condition"):
        return True
    return None


def _sees(holder: Scope, scope: Scope) -> bool:
    """A living reflection makes another needless where it is seen: in the same scope, or everywhere."""
    return holder == scope or holder.kind == "global"


def write_reflections(ws: Workspace, candidates: Iterable[Memory], *, run_id: str = "") -> Written:
    """Write the candidates that no living reflection, and none before them in the batch, already says.

    Args:
        ws: the workspace.
        candidates: reflections with a slot and a payload that names `tool` and `condition` where there are such.
        run_id: the run that writes.
    """
    given = list(candidates)
    if not given:
        return Written()
    held = living_reflections(ws)
    fresh: list[Memory] = []
    skipped: list[Skipped] = []
    rest: list[Memory] = []
    slots: dict[tuple[Scope, str | None], str] = {
        (memory.scope, memory.slot): memory.id for memory in held if memory.slot
    }
    for memory in given:
        holder = next(
            (
                slots[scope, memory.slot]
                for scope in (memory.scope, Scope("global"))
                if (scope, memory.slot) in slots
            ),
            None,
        )
        if memory.slot and holder is not None:
            skipped.append(Skipped(text=memory.text, duplicate_of=holder))
            continue
        if memory.slot:
            slots[memory.scope, memory.slot] = memory.slot
        rest.append(memory)
    compared = [memory for memory in rest if _comparable(memory, held, rest)]
    cosines = _Cosines(ws, [*compared, *held]) if compared else None
    limit = near_duplicate_cosine(ws) if compared else 1.0
    for memory in rest:
        nearest = _nearest(memory, [*held, *fresh], cosines, limit) if cosines is not None else None
        if nearest is None:
            fresh.append(memory)
        else:
            skipped.append(Skipped(text=memory.text, duplicate_of=nearest[0], cosine=nearest[1]))
    if not fresh:
        return Written(skipped=tuple(skipped))
    report = ws.memory.upsert(fresh, run_id=run_id)
    named = [
        memory.model_copy(update={"id": item.id})
        for memory, item in zip(fresh, report.items, strict=True)
        if item.result in ("written", "superseded", "repeated")
    ]
    return Written(report=report, written=tuple(named), skipped=tuple(skipped))


def _comparable(memory: Memory, held: Sequence[Memory], rest: Sequence[Memory]) -> bool:
    return any(about_the_same(memory, other) is None for other in (*held, *rest) if other is not memory)


class _Cosines:
    """Cosines between texts, each embedded once."""

    def __init__(self, ws: Workspace, memories: Sequence[Memory]) -> None:
        texts = list(dict.fromkeys(memory.text for memory in memories))
        self._rows = dict(zip(texts, ws.embedder.embed(texts), strict=True))

    def between(self, one: str, other: str) -> float:
        a, b = self._rows.get(one), self._rows.get(other)
        return float(a @ b) if a is not None and b is not None else 0.0


def _nearest(
    memory: Memory, held: Sequence[Memory], cosines: _Cosines, limit: float
) -> tuple[str, float] | None:
    best: tuple[str, float] | None = None
    for other in held:
        if not _sees(other.scope, memory.scope) or about_the_same(memory, other) is not None:
            continue
        cosine = cosines.between(memory.text, other.text)
        if cosine >= limit and (best is None or cosine > best[1]):
            best = (other.id or other.slot or "", round(cosine, 4))
    return best
