"""`guides import|list|show|remove`: directives of people come in from files; what is in force goes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sitoolkit.cli.common import emit, group, json_option, note, with_workspace

if TYPE_CHECKING:
    from sitoolkit.guides import GuideImport
    from sitoolkit.records import Memory
    from sitoolkit.workspace import Workspace

__all__ = ["guides"]

guides = group(
    "guides",
    help="Directives from *.guide.yaml: what an agent is told before there is anything to learn from.",
    examples="sitoolkit guides import guides\nsitoolkit guides list\nsitoolkit guides show secrets_by_env",
)


@guides.command(
    "import", examples="sitoolkit guides import guides\nsitoolkit guides import /srv/agents/ops --json"
)
@click.argument("dir", type=click.Path(exists=True, file_okay=False))
@with_workspace
@json_option
def import_command(ws: Workspace, dir: str, as_json: bool) -> None:
    """Import all guides below DIR; a file that is none is named and the others go on; one that is gone is retired."""
    from sitoolkit.guides import import_guides

    emit(import_guides(ws, dir), as_json, _import_text)


def _import_text(report: GuideImport) -> str:
    for fault in report.invalid:
        note(f"{fault.file}: {fault.reason}")
    parts = [
        f"{report.imported} imported",
        f"{report.unchanged} unchanged",
        f"{report.superseded} superseded",
    ]
    parts += [f"{report.removed} removed", f"{len(report.invalid)} invalid"]
    parts += [f"{report.suppressed} kept out"] if report.suppressed else []
    return ", ".join(parts)


@guides.command(
    "list", examples="sitoolkit guides list --tier team\nsitoolkit guides list --agent ops --json"
)
@with_workspace
@json_option
@click.option("--agent", metavar="NAME", help="Only guides of this agent.")
@click.option(
    "--tier", type=click.Choice(["vendor", "platform", "team", "user"]), help="Only guides of this tier."
)
def list_command(ws: Workspace, as_json: bool, agent: str | None, tier: str | None) -> None:
    """The guides in force."""
    from sitoolkit.guides import list_guides

    found = list_guides(ws, agent=agent, tier=tier)
    rows = [_row(memory) for memory in found]
    emit(
        rows,
        as_json,
        "\n".join(f"{r['intent']}  {r['agent']}  {r['scope']}  {r['tier']}  {r['text'][:80]}" for r in rows)
        or "no guides; sitoolkit guides import DIR brings some in",
    )


def _row(memory: Memory) -> dict[str, Any]:
    return {
        "intent": memory.payload.get("intent"),
        "agent": memory.payload.get("agent"),
        "scope": str(memory.scope),
        "tier": memory.payload.get("tier"),
        "base_weight": memory.base_weight,
        "keywords": memory.payload.get("keywords"),
        "id": memory.id,
        "file": memory.payload.get("file"),
        "text": memory.text,
    }


@guides.command(
    "show", examples="sitoolkit guides show secrets_by_env\nsitoolkit guides show deploy --agent ops"
)
@click.argument("intent")
@with_workspace
@json_option
@click.option("--agent", metavar="NAME", help="Which agent's, where several have the intent.")
def show_command(ws: Workspace, intent: str, as_json: bool, agent: str | None) -> None:
    """One guide, whole."""
    from sitoolkit.guides import show_guide

    memory = show_guide(ws, intent, agent=agent)
    row = _row(memory)
    head = "\n".join(f"{name:<12}{row[name]}" for name in ("intent", "agent", "scope", "tier", "id", "file"))
    emit(memory.to_json(), as_json, f"{head}\n\n{memory.text}")


@guides.command(
    "remove", examples="sitoolkit guides remove old_rule --reason 'the tool it speaks of is gone'"
)
@click.argument("intent")
@with_workspace
@json_option
@click.option("--reason", required=True, help="Why; kept with the retired guide.")
@click.option("--agent", metavar="NAME", help="Which agent's, where several have the intent.")
@click.option("--by", metavar="NAME", default="", help="Who removes it.  [the user's name]")
def remove_command(
    ws: Workspace, intent: str, as_json: bool, reason: str, agent: str | None, by: str
) -> None:
    """Retire a guide; its file is not imported again until its text changes."""
    from sitoolkit.guides import remove_guide

    memory = remove_guide(ws, intent, reason, agent=agent, by=by)
    emit(memory.to_json(), as_json, f"retired {memory.id}: {reason}")
