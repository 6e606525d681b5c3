"""A folder of `*.guide.yaml` comes in, directives in memory go out; what was a file once and is none any more is retired.

A guide is the only memory that a person writes. The folder that a guide came from owns it: an import of another folder never
retires it, and neither does an import touch guides that an approved draft made.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sitoolkit.errors import NotFoundError, ParameterError
from sitoolkit.guide_files import TIERS, Guide, GuideFileError, find_guide_files, read_guide
from sitoolkit.records import Category, Memory, Origin, Record, Scope, Status

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = [
    "TIERS",
    "Guide",
    "GuideImport",
    "GuideItem",
    "import_guides",
    "list_guides",
    "remove_guide",
    "show_guide",
]

_TOMBSTONE = (
    ".removed"  # beside `x.guide.yaml`, a file `x.guide.yaml.removed` keeps intent x from being imported
)


class InvalidGuide(Record):
    """A file that is no guide, and why."""

    file: str
    reason: str


class GuideItem(Record):
    """What happened to one guide."""

    intent: str
    agent: str
    scope: Scope
    result: str  # imported, unchanged, superseded, removed, suppressed
    memory_id: str = ""
    file: str = ""
    reason: str | None = None


class GuideImport(Record):
    """What an import did; `superseded` counts those of the imported that replaced an older text."""

    imported: int = 0
    unchanged: int = 0
    superseded: int = 0
    removed: int = 0
    suppressed: int = (
        0  # removed by a person before, or by a tombstone; not imported again while the text is the same
    )
    invalid: tuple[InvalidGuide, ...] = ()
    redactions: dict[str, int] = {}  # noqa: RUF012 - pydantic copies defaults
    guides: tuple[GuideItem, ...] = ()
    run_id: str = ""


def import_guides(ws: Workspace, dir: str | os.PathLike[str]) -> GuideImport:
    """Import all guides below a folder: new ones, changed ones (the old text is superseded), and retire those whose file is gone.

    >>> import_guides(ws, "guides").imported  # doctest: +SKIP
    5

    Args:
        ws: the workspace.
        dir: a folder; `*.guide.yaml` at any depth.

    Returns:
        counts, and each file that is no guide with its reason; the others go on.

    Raises:
        ParameterError: the folder does not exist.
    """
    folder = Path(dir)
    if not folder.is_dir():
        raise ParameterError(f"no folder {folder}; guides are read from a folder with *{'.guide.yaml'} files")
    root = str(folder.resolve())
    guides, invalid, redactions = _read(ws, folder)
    with ws.run("guides", dir=root) as run:
        return _import(ws, run.id, root, guides, invalid, redactions)


def _read(
    ws: Workspace, folder: Path
) -> tuple[dict[tuple[str, Scope], Guide], list[InvalidGuide], dict[str, int]]:
    guides: dict[tuple[str, Scope], Guide] = {}
    invalid: list[InvalidGuide] = []
    redactions: dict[str, int] = {}
    for path in find_guide_files(folder):
        name = path.relative_to(folder).as_posix()
        if path.with_name(path.name + _TOMBSTONE).exists():
            continue
        try:
            guide = read_guide(path, name)
        except GuideFileError as fault:
            invalid.append(InvalidGuide(file=name, reason=str(fault)))
            continue
        body, found = ws.redactor.text(guide.body)
        for kind, count in found.items():
            redactions[kind] = redactions.get(kind, 0) + count
        guide = guide.model_copy(update={"body": body})
        twin = guides.get((guide.slot, guide.scope))
        if twin is not None:
            invalid.append(
                InvalidGuide(
                    file=name,
                    reason=f"intent {guide.intent!r} of agent {guide.agent!r} stands in {twin.file} too",
                )
            )
            continue
        guides[guide.slot, guide.scope] = guide
    return guides, invalid, redactions


def _import(
    ws: Workspace,
    run_id: str,
    root: str,
    guides: Mapping[tuple[str, Scope], Guide],
    invalid: list[InvalidGuide],
    redactions: dict[str, int],
) -> GuideImport:
    active = {
        (m.slot, m.scope): m for m in ws.memory.rows(category=Category.USAGE_GUIDE, status=Status.ACTIVE)
    }
    owners, taken_out = _history(ws)
    items: list[GuideItem] = []
    new: list[Guide] = []
    for key, guide in guides.items():
        held = active.get(key)
        if held is not None and held.content_hash == guide.content_hash:
            items.append(_item(guide, "unchanged", held.id))
        elif taken_out.get((guide.slot, str(guide.scope))) == guide.content_hash:
            items.append(
                _item(guide, "suppressed", reason="removed by a person; change the file to bring it back")
            )
        else:
            new.append(guide)
    report = ws.memory.upsert([_memory(guide, root) for guide in new], run_id=run_id)
    superseded = 0
    for guide, item in zip(new, report.items, strict=True):
        if item.result in ("blocked", "failed"):
            invalid.append(InvalidGuide(file=guide.file, reason=item.reason or item.result))
            continue
        replaced = (guide.slot, guide.scope) in active
        superseded += replaced
        items.append(_item(guide, "superseded" if replaced else "imported", item.id))

    broken = {fault.file for fault in invalid}
    gone = [
        memory
        for (slot, scope), memory in active.items()
        if (slot, scope) not in guides
        and owners.get((slot or "", str(scope))) == root
        and memory.payload.get("file")
        not in broken  # a file with a slip in it is not a file that was removed
    ]
    moved = {guide.slot: guide.scope for guide in guides.values()}
    reasons = {
        memory.id: f"its file says scope {moved[memory.slot or '']} now"
        if memory.slot in moved
        else "its guide file is gone"
        for memory in gone
    }
    for reason in sorted(set(reasons.values())):
        ids = [id for id, why in reasons.items() if why == reason]
        ws.memory.set_status(ids, Status.RETIRED, run_id=run_id, reason=reason)
    items += [
        GuideItem(
            intent=str(memory.payload.get("intent", "")),
            agent=str(memory.payload.get("agent", "")),
            scope=memory.scope,
            result="removed",
            memory_id=memory.id,
            file=str(memory.payload.get("file", "")),
            reason=reasons[memory.id],
        )
        for memory in gone
    ]
    owned = sorted(
        [item.scope, f"guide:{item.agent}:{item.intent}"] for item in items if item.result in _OWNED
    )
    if new or gone or any(owners.get((slot, str(scope))) != root for scope, slot in owned):
        ws.journal.append("guides", {"root": root, "owned": owned}, run_id=run_id)
    counts = {
        result: sum(item.result == result for item in items)
        for result in ("unchanged", "removed", "suppressed")
    }
    return GuideImport(
        imported=sum(item.result in ("imported", "superseded") for item in items),
        superseded=superseded,
        invalid=tuple(sorted(invalid, key=lambda fault: fault.file)),
        redactions=redactions,
        guides=tuple(sorted(items, key=lambda item: (item.intent, item.agent, item.scope))),
        run_id=run_id,
        **counts,
    )


_OWNED = ("imported", "superseded", "unchanged")


def _history(ws: Workspace) -> tuple[dict[tuple[str, str], str], dict[tuple[str, str], str]]:
    """From the journal: which folder a guide came from last, and which texts a person took out."""
    owners: dict[tuple[str, str], str] = {}
    taken_out: dict[tuple[str, str], str] = {}
    for entry in ws.journal.events(kind=("guides", "guide_removed")):
        if entry.event == "guides":
            for scope, slot in entry.data["owned"]:
                owners[slot, scope] = entry.data["root"]
        else:
            taken_out[entry.data["slot"], entry.data["scope"]] = entry.data["content_hash"]
    return owners, taken_out


def _item(guide: Guide, result: str, memory_id: str = "", reason: str | None = None) -> GuideItem:
    return GuideItem(
        intent=guide.intent,
        agent=guide.agent,
        scope=guide.scope,
        result=result,
        memory_id=memory_id,
        file=guide.file,
        reason=reason,
    )


def _memory(guide: Guide, root: str) -> Memory:
    return Memory(
        category=Category.USAGE_GUIDE,
        scope=guide.scope,
        text=guide.body,
        payload={
            "intent": guide.intent,
            "agent": guide.agent,
            "tier": guide.tier,
            "priority": guide.priority,
            "keywords": list(guide.keywords),
            "related": [dict(item) for item in guide.related],
            "file": guide.file,
        },
        tags=tuple(dict.fromkeys([guide.intent, guide.agent, *guide.keywords])),
        origin=Origin.DIRECTIVE,
        confidence=1.0,
        base_weight=guide.base_weight,
        content_hash=guide.content_hash,
        slot=guide.slot,
        written_by="guide file",
    )


# ---------------------------------------------------------------- looking and removing


def list_guides(ws: Workspace, *, agent: str | None = None, tier: str | None = None) -> list[Memory]:
    """The active guides, by intent; of one agent or tier if wanted."""
    found = ws.memory.rows(category=Category.USAGE_GUIDE, status=Status.ACTIVE)
    return sorted(
        (
            memory
            for memory in found
            if (agent is None or memory.payload.get("agent") == agent)
            and (tier is None or memory.payload.get("tier") == tier)
        ),
        key=lambda memory: (
            str(memory.payload.get("intent")),
            str(memory.payload.get("agent")),
            memory.scope,
        ),
    )


def show_guide(ws: Workspace, intent: str, *, agent: str | None = None) -> Memory:
    """One active guide.

    Raises:
        NotFoundError: no active guide has this intent.
        ParameterError: guides of several agents have it and `agent` does not say which.
    """
    found = [memory for memory in list_guides(ws, agent=agent) if memory.payload.get("intent") == intent]
    if not found:
        raise NotFoundError(f"no active guide {intent!r}; sitoolkit guides list shows them")
    if len(found) > 1:
        who = ", ".join(sorted(f"{m.payload.get('agent')} ({m.scope})" for m in found))
        raise ParameterError(f"several guides have the intent {intent!r}: {who}; add --agent")
    return found[0]


def remove_guide(
    ws: Workspace, intent: str, reason: str, *, agent: str | None = None, by: str = ""
) -> Memory:
    """Retire a guide by hand; its file may stay, and is not imported again until its text changes.

    >>> remove_guide(ws, "old_rule", "the tool it speaks of is gone").status  # doctest: +SKIP
    'retired'

    Raises:
        ParameterError: no reason is given.
        NotFoundError: no active guide has this intent.
    """
    if not reason.strip():
        raise ParameterError("a reason is needed to remove a guide: it is what the next reader finds")
    held = show_guide(ws, intent, agent=agent)
    with ws.run("guides remove", intent=intent) as run:
        ws.journal.append("guide_removed", _removal(held, reason, by), run_id=run.id)
        ws.memory.set_status([held.id], Status.RETIRED, run_id=run.id, reason=reason)
    return ws.memory.get(held.id) or held


def _removal(held: Memory, reason: str, by: str) -> dict[str, Any]:
    return {
        "memory_id": held.id,
        "slot": held.slot,
        "scope": str(held.scope),
        "content_hash": held.content_hash,
        "reason": reason,
        "by": by or os.environ.get("USER", ""),
    }
