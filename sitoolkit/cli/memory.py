"""`memory`: rows, histories, differences and undo of the memory table go out; re-embedding and rebuilding are done here too."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from sitoolkit.cli.common import SCOPE, TIME, emit, group, json_option, note, with_workspace
from sitoolkit.errors import NotFoundError
from sitoolkit.records import Category, Status, iso

if TYPE_CHECKING:
    from sitoolkit.records import Memory
    from sitoolkit.stores.history import Diff, Event, UndoReport
    from sitoolkit.workspace import Workspace

__all__ = ["memory"]

memory = group(
    "memory",
    help="Look at memories, compare runs, undo one, export, re-embed, rebuild.",
    examples="""
    sitoolkit memory list --category expert_knowledge
    sitoolkit memory history mem_0123456789abcdef01234567
    sitoolkit memory diff run_20260501T020000_distill_ab12cd run_20260502T020000_distill_34ef56
    sitoolkit memory undo run_20260502T020000_distill_34ef56
    """,
)


@memory.command(
    "list",
    examples="sitoolkit memory list --scope agent:ops --json\nsitoolkit memory list --as-of 2026-05-01",
)
@with_workspace
@json_option
@click.option(
    "--category",
    type=click.Choice([str(one) for one in Category]),
    multiple=True,
    help="Only these categories.",
)
@click.option("--scope", type=SCOPE, multiple=True, help="Only these scopes.")
@click.option(
    "--status", type=click.Choice([*(str(one) for one in Status), "all"]), multiple=True, default=("active",),
    show_default=True, help="Only these states.",
)  # fmt: skip
@click.option("--run", "run_id", metavar="RUN_ID", help="Only what this run wrote or ended.")
@click.option(
    "--as-of", type=TIME, metavar="TIME", help="As they stood then; a date is its first instant in UTC."
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Rows to show as text."
)
def list_memories(
    ws: Workspace,
    as_json: bool,
    category: tuple[str, ...],
    scope: tuple[str, ...],
    status: tuple[str, ...],
    run_id: str | None,
    as_of: datetime | None,
    limit: int,
) -> None:
    """List memories, newest first."""
    rows = ws.memory.rows(
        category=category or None,
        scopes=scope or None,
        status=None if "all" in status else status,
        run_id=run_id,
        as_of=as_of,
    )
    rows.sort(key=lambda row: (row.last_seen is not None, row.last_seen, row.id), reverse=True)
    emit(
        [_with_access(ws, row) for row in rows] if as_json else rows,
        as_json,
        lambda found: _list_text(found, limit),
    )


@memory.command("show", examples="sitoolkit memory show mem_0123456789abcdef01234567")
@click.argument("memory_id", metavar="ID")
@with_workspace
@json_option
def show(ws: Workspace, memory_id: str, as_json: bool) -> None:
    """Show one memory with the places that its evidence comes from."""
    found = ws.memory.get(memory_id)
    if found is None:
        raise NotFoundError(
            f"no memory {memory_id!r}; `sitoolkit memory list --status all` shows those there are"
        )
    value = _with_access(ws, found)
    value["places"] = ws.telemetry.resolve(found.evidence).to_dicts() if found.evidence else []
    emit(value, as_json, _show_text)


@memory.command("history", examples="sitoolkit memory history mem_0123456789abcdef01234567")
@click.argument("memory_id", metavar="ID")
@with_workspace
@json_option
def history(ws: Workspace, memory_id: str, as_json: bool) -> None:
    """Everything that happened to a memory: when, by which run, what changed and why."""
    emit(ws.memory.history(memory_id), as_json, _history_text)


@memory.command(
    "diff", examples="sitoolkit memory diff RUN_A RUN_B\nsitoolkit memory diff 2026-05-01 2026-05-02"
)
@click.argument("a")
@click.argument("b")
@with_workspace
@json_option
def diff(ws: Workspace, a: str, b: str, as_json: bool) -> None:
    """What differs between the memories after run A and after run B; times work too."""
    emit(ws.memory.diff(_moment(a), _moment(b)), as_json, _diff_text)


@memory.command("undo", examples="sitoolkit memory undo RUN_ID\nsitoolkit memory undo RUN_ID --cascade")
@click.argument("run_id")
@with_workspace
@json_option
@click.option("--cascade", is_flag=True, help="Also undo the later runs that built on it.")
def undo(ws: Workspace, run_id: str, as_json: bool, cascade: bool) -> None:
    """Restore what a run superseded, retired or revised, and retire what it wrote. An undo can be undone."""
    with ws.run("undo", of=run_id, cascade=cascade) as run:
        report = ws.memory.undo(run_id, cascade, by_run=run.id)
    emit({**report.to_json(), "run_id": run.id}, as_json, _undo_text(report, run.id))


@memory.command("retract", examples='sitoolkit memory retract ID --reason "we use spaces now"')
@click.argument("memory_ids", metavar="ID...", nargs=-1, required=True)
@with_workspace
@json_option
@click.option("--reason", required=True, help="Why it no longer holds.")
def retract(ws: Workspace, memory_ids: tuple[str, ...], as_json: bool, reason: str) -> None:
    """Retire memories by hand: recall serves them no more, their history stays."""
    with ws.run("retract") as run:
        report = ws.memory.set_status(memory_ids, Status.RETIRED, run_id=run.id, reason=reason)
    emit(
        {**report.to_json(), "run_id": run.id},
        as_json,
        "\n".join(
            f"{item.id}  {'retired' if item.result == 'written' else item.reason}" for item in report.items
        ),
    )
    if report.failed:
        raise click.exceptions.Exit(1)


@memory.command("export", examples="sitoolkit memory export memories.jsonl")
@click.argument("path", type=click.Path(dir_okay=False))
@with_workspace
@json_option
def export(ws: Workspace, path: str, as_json: bool) -> None:
    """Write all memories, whatever their status, as JSON lines."""
    count = ws.memory.export(path)
    emit({"path": path, "memories": count}, as_json, f"{count} memories written to {path}")


@memory.command(
    "reembed", examples="sitoolkit memory reembed --embedder minilm\nsitoolkit memory reembed --drop-old"
)
@with_workspace
@json_option
@click.option(
    "--embedder", metavar="NAME", help="minilm, wordllama, hashing, ollama, or a plugin's; else as set."
)
@click.option("--drop-old", is_flag=True, help="Remove the tables that earlier re-embeddings left.")
def reembed(ws: Workspace, as_json: bool, embedder: str | None, drop_old: bool) -> None:
    """Make the vectors anew with another embedder, in a new table that takes over when it is whole.

    Stopped, it goes on where it was when it is called again. The old table is kept until --drop-old.
    """
    if drop_old:
        gone = ws.memory.drop_old()
        emit({"dropped": gone}, as_json, f"{len(gone)} old tables removed" if gone else "no old tables here")
        return
    report = ws.reembed(embedder)
    emit(
        report,
        as_json,
        lambda done: f"{done.rows} memories embedded by {done.embedder}, {done.embedded} of them now",
    )


@memory.command("rebuild", examples="sitoolkit memory rebuild")
@with_workspace
@json_option
def rebuild(ws: Workspace, as_json: bool) -> None:
    """Make the table again from the journal, and from telemetry what the journal lacks. The old table is kept."""
    from sitoolkit.restore import rebuild_memory

    report = rebuild_memory(ws)
    for lost in report.lost:
        note(f"lost: {lost}")
    emit(
        report,
        as_json,
        lambda done: (
            f"{done.rows} memories rebuilt from {done.entries} journal entries, {done.from_telemetry} from telemetry"
        ),
    )


# ---------------------------------------------------------------- text


def _moment(text: str) -> str:
    """A date becomes its first instant; runs and times stay."""
    return f"{text}T00:00:00Z" if len(text) == 10 and text[4:5] == text[7:8] == "-" else text


def _with_access(ws: Workspace, row: Memory) -> dict[str, Any]:
    count, last = ws.journal.access().get(row.id, (0, None))
    value = row.to_json()
    value.pop("vector", None)
    return {**value, "access_count": count, "last_access": iso(last)}


def _list_text(rows: list[Memory], limit: int) -> str:
    lines = [
        f"{row.id}  {row.category:<17} {row.scope:<16} {row.status:<10} x{row.seen_count:<4} {_short(row.text, 70)}"
        for row in rows[:limit]
    ]
    if not rows:
        return "no memories; `sitoolkit capture PATH` takes transcripts in"
    if len(rows) > limit:
        lines.append(f"… {len(rows) - limit} more; --limit or --json show them")
    return "\n".join(lines)


def _show_text(value: dict[str, Any]) -> str:
    lines = [value["text"], ""]
    for name in (
        "id", "category", "scope", "status", "reason", "origin", "written_by", "confidence", "base_weight", "slot", "tags",
        "seen_count", "first_seen", "last_seen", "access_count", "last_access", "created_at", "ended_at", "expires_at",
        "supersedes", "superseded_by", "run_id", "ended_by", "embed_model",
    ):  # fmt: skip
        if value.get(name) not in (None, "", [], ()):
            lines.append(f"{name:<14} {value[name]}")
    lines.append(f"{'evidence':<14} {len(value['evidence'])}, of which {len(value['places'])} resolve:")
    lines += [
        f"  {place['file']}:{place['line']}  {place['kind']} {place['tool'] or ''} of {place['session_id']}"
        for place in value["places"][:20]
    ]
    return "\n".join(lines)


def _history_text(events: list[Event]) -> str:
    lines = []
    for event in events:
        lines.append(
            f"{iso(event.at)}  {event.kind} ({event.op})  {event.run_id or '-'}  {event.reason or ''}".rstrip()
        )
        if event.kind == "changed":
            lines += [
                f"    {name}: {_short(was, 60)} -> {_short(now, 60)}"
                for name, (was, now) in event.changes.items()
            ]
    return "\n".join(lines)


def _diff_text(found: Diff) -> str:
    lines = []
    for name in ("added", "superseded", "retired"):
        rows = getattr(found, name)
        lines.append(f"{name} {len(rows)}")
        lines += [f"  {row.id}  {row.category}  {row.scope}  {_short(row.text, 80)}" for row in rows]
    lines.append(f"changed {len(found.changed)}")
    for row in found.changed:
        fields = ", ".join(
            f"{name} {was} -> {now}" for name, (was, now) in row["changes"].items() if name != "evidence"
        )
        lines.append(f"  {row['id']}  {_short(fields, 140)}")
    for text in found.texts:
        words = " ".join(
            f"[-{part}-]" if sign == "-" else f"{{+{part}+}}" if sign == "+" else part
            for sign, part in text["diff"]
        )
        lines.append(f"{text['old']} -> {text['new']}: {words}")
    return "\n".join(lines)


def _undo_text(report: UndoReport, run_id: str) -> str:
    return (
        f"undone: {', '.join(report.runs)}; {len(report.restored)} memories restored, {len(report.retired)} retired\n"
        f"take it back with: sitoolkit memory undo {run_id}"
    )


def _short(value: object, chars: int) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= chars else f"{text[: chars - 1]}…"
