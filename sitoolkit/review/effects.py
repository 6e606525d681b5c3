"""What an approval does: a proposal comes in, the steps that carry it out go out; each can be applied twice and taken back.

Steps are computed before anything changes and written to the proposal log with the decision, so that a stop in the middle
can be finished, and an undo restores exactly what stood before.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sitoolkit.errors import NotFoundError, ParameterError, ProposalError
from sitoolkit.fragments import FOLDER as FRAGMENTS
from sitoolkit.guides import import_guides
from sitoolkit.naming import safe_name
from sitoolkit.recipes import Design
from sitoolkit.records import Category, Memory, Origin, Proposal, Record, Scope, Status, digest
from sitoolkit.stores.tools import ToolManifest

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["EFFECTS", "Step", "apply_steps", "plan_steps", "revert_steps"]

EXPORTS = "exports"
GUIDES = "guides"


class Step(Record):
    """One change: a file, new memories, the status of memories, the guides folder read again, or a tool's status."""

    kind: Literal["file", "memories", "status", "guides", "tool", "new_tool"]
    data: dict[str, Any]


# ---------------------------------------------------------------- planning


def plan_steps(ws: Workspace, proposal: Proposal) -> list[Step]:
    """The steps that would carry a proposal out, with what stands before each.

    Raises:
        ProposalError: the payload does not say what is to be done.
    """
    plan = EFFECTS[proposal.type]
    try:
        return plan(ws, proposal)
    except (KeyError, TypeError, ValueError) as fault:
        what = f"lacks {fault}" if isinstance(fault, KeyError) else str(fault)
        raise ProposalError(
            f"proposal {proposal.id} cannot be carried out: its payload {what}; edit it, or reject it"
        ) from fault


def _file_step(ws: Workspace, relative: str, after: str | None) -> Step:
    path = _inside(ws, relative)
    before = path.read_text(encoding="utf-8") if path.is_file() else None
    return Step(kind="file", data={"path": relative, "before": before, "after": after})


def _inside(ws: Workspace, relative: str) -> Path:
    path = (ws.path / relative).resolve()
    if not path.is_relative_to(ws.path.resolve()):
        raise ParameterError(f"{relative!r} lies outside of the workspace")
    return path


def _usage_guide(ws: Workspace, proposal: Proposal) -> list[Step]:
    import yaml

    payload = proposal.payload
    agent, intent = str(payload.get("agent") or "core"), str(payload["intent"])
    fields: dict[str, Any] = {
        "schema_version": 2,
        "intent": safe_name(intent),
        "agent": agent,
        "keywords": [str(word) for word in payload.get("keywords") or [intent]],
        "body": str(payload["body"]),
        "source_tier": str(payload.get("source_tier") or "user"),
    }
    if payload.get("scope"):
        fields["scope"] = str(Scope(payload["scope"])) if ":" in payload["scope"] else str(payload["scope"])
    text = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)
    relative = f"{GUIDES}/{safe_name(agent)}/{safe_name(intent)}.guide.yaml"
    return [_file_step(ws, relative, text), Step(kind="guides", data={"folder": GUIDES})]


def _fact_update(ws: Workspace, proposal: Proposal) -> list[Step]:
    payload = proposal.payload
    steps: list[Step] = []
    if payload.get("fact"):
        memory = Memory.model_validate(
            {
                "category": Category.LEARNED_FACT,
                "origin": Origin.USER_STATED,
                "confidence": 1.0,
                **payload["fact"],
            }
        )
        evidence = memory.evidence or proposal.evidence
        steps.append(
            _memories_step(
                [
                    memory.model_copy(
                        update={"evidence": evidence, "written_by": memory.written_by or "reviewer"}
                    )
                ]
            )
        )
    retired = [str(item) for item in payload.get("retire") or payload.get("replaces") or []]
    if retired:
        steps.append(
            _status_step(
                ws, retired, Status.SUPERSEDED if payload.get("fact") else Status.RETIRED, proposal.title
            )
        )
    if not steps:
        raise ValueError("names neither a fact nor memories to retire")
    return steps


def _promote_scope(ws: Workspace, proposal: Proposal) -> list[Step]:
    source = _memory(ws, str(proposal.payload["memory_id"]))
    scope = Scope(proposal.payload["to_scope"])
    copy = source.model_copy(
        update={
            "id": "", "scope": scope, "supersedes": None, "superseded_by": None, "ended_at": None, "ended_by": None, "run_id": "",
            "vector": None, "status": Status.ACTIVE, "created_at": None, "seen_count": 1,
            "payload": {**source.payload, "promoted_from": source.id, "promoted_from_scope": str(source.scope)},
        }
    )  # fmt: skip
    return [_memories_step([copy])]


def _system_prompt(ws: Workspace, proposal: Proposal) -> list[Step]:
    name = safe_name(str(proposal.payload["name"]))
    folder = ws.path / FRAGMENTS / name
    version = 1 + max(
        (int(path.stem[1:]) for path in folder.glob("v*.md") if path.stem[1:].isdigit()), default=0
    )
    head = {"name": name, "version": version, "agent": proposal.payload.get("agent"), "proposal": proposal.id}
    return [
        _file_step(ws, f"{FRAGMENTS}/{name}/v{version}.md", str(proposal.payload["text"]).strip() + "\n"),
        _file_step(ws, f"{FRAGMENTS}/{name}/current.json", json.dumps(head, sort_keys=True) + "\n"),
    ]


def _code_fix(ws: Workspace, proposal: Proposal) -> list[Step]:
    payload = proposal.payload
    stamp = proposal.created_at.strftime("%Y-%m-%d") if proposal.created_at else "undated"
    stem = f"{EXPORTS}/{stamp}-{safe_name(proposal.title)}-{digest(proposal.id)[:8]}"
    parts = [f"# {proposal.title}", "", proposal.description, ""]
    for heading, key in (
        ("Root cause", "root_cause"),
        ("Suggested fix", "suggested_fix"),
        ("Affected files", "affected_files"),
    ):
        value = payload.get(key)
        if value:
            text = "\n".join(f"- {item}" for item in value) if isinstance(value, list) else str(value)
            parts += [f"## {heading}", "", text, ""]
    parts += ["## Evidence", "", *(f"- {item}" for item in proposal.evidence), ""]
    steps = [_file_step(ws, f"{stem}.md", "\n".join(parts))]
    if payload.get("patch"):
        steps.append(_file_step(ws, f"{stem}.patch", str(payload["patch"]).rstrip("\n") + "\n"))
    return steps


def _merge(ws: Workspace, proposal: Proposal) -> list[Step]:
    keep = _memory(ws, str(proposal.payload["keep"]))
    drop = [str(item) for item in proposal.payload["drop"] if str(item) != keep.id]
    return [_status_step(ws, drop, Status.SUPERSEDED, f"merged into {keep.id}")]


def _retire_memory(ws: Workspace, proposal: Proposal) -> list[Step]:
    ids = proposal.payload.get("memory_ids") or [proposal.payload["memory_id"]]
    return [
        _status_step(
            ws,
            [str(item) for item in ids],
            Status.RETIRED,
            str(proposal.payload.get("reason") or proposal.title),
        )
    ]


def _tool(ws: Workspace, proposal: Proposal) -> list[Step]:
    name = str(proposal.payload["tool"])
    if proposal.payload.get("design"):
        design = Design.model_validate(proposal.payload["design"])
        return [
            Step(
                kind="new_tool",
                data={"name": design.name, "design": design.to_json(), "proposal": proposal.id},
            )
        ]
    tool = ws.tools.get(name)
    wanted = proposal.payload.get("sha256")
    if proposal.type != "retire-tool" and wanted and wanted != tool.sha256:
        raise ValueError("names another version of the code than the library holds")
    after = "retired" if proposal.type == "retire-tool" else "probationary"
    return [Step(kind="tool", data={"name": name, "before": tool.to_json(), "after": after})]


def _memory(ws: Workspace, memory_id: str) -> Memory:
    memory = ws.memory.get(memory_id)
    if memory is None:
        raise NotFoundError(f"no memory {memory_id}")
    return memory


def _memories_step(memories: list[Memory]) -> Step:
    return Step(
        kind="memories",
        data={"memories": [memory.model_copy(update={"vector": None}).to_json() for memory in memories]},
    )


def _status_step(ws: Workspace, ids: list[str], status: Status, reason: str) -> Step:
    for memory_id in ids:
        _memory(ws, memory_id)
    return Step(kind="status", data={"ids": ids, "status": str(status), "reason": reason[:300]})


EFFECTS = {
    "usage-guide": _usage_guide,
    "fact-update": _fact_update,
    "promote-scope": _promote_scope,
    "system-prompt": _system_prompt,
    "code-fix": _code_fix,
    "merge": _merge,
    "retire-memory": _retire_memory,
    "new-tool": _tool,
    "modify-tool": _tool,
    "retire-tool": _tool,
}


# ---------------------------------------------------------------- doing and taking back


def apply_steps(ws: Workspace, steps: list[Step], run_id: str, by: str) -> list[str]:
    """Carry steps out in order; those that stand already are left alone. Says what was done, a line a step."""
    return [_APPLY[step.kind](ws, step.data, run_id, by) for step in steps]


def _apply_file(ws: Workspace, data: dict[str, Any], run_id: str, by: str) -> str:
    _write(_inside(ws, data["path"]), data["after"])
    return f"wrote {data['path']}" if data["after"] is not None else f"removed {data['path']}"


def _write(path: Path, text: str | None) -> None:
    """Put a file's whole text in place at once, or take the file away."""
    if text is None:
        path.unlink(missing_ok=True)
        return
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with fresh.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(path)


def _apply_memories(ws: Workspace, data: dict[str, Any], run_id: str, by: str) -> str:
    memories = [Memory.model_validate(entry) for entry in data["memories"]]
    done = {memory.text for memory in ws.memory.rows(run_id=run_id)}
    fresh = [memory for memory in memories if memory.text not in done]
    if fresh:
        report = ws.memory.upsert(fresh, run_id=run_id)
        bad = [item for item in report.items if item.result in ("blocked", "failed")]
        if bad:
            raise ProposalError(f"the memory was {bad[0].result}: {bad[0].reason}")
        return f"wrote {', '.join(item.id for item in report.items)}"
    return "memories stand already"


def _apply_status(ws: Workspace, data: dict[str, Any], run_id: str, by: str) -> str:
    status = Status(data["status"])
    rows = {memory.id: memory for memory in ws.memory.rows(ids=data["ids"])}
    changing = [memory_id for memory_id in data["ids"] if rows[memory_id].status != status]
    if changing:
        ws.memory.set_status(changing, status, run_id=run_id, reason=data["reason"])
    return f"{status}: {', '.join(data['ids'])}"


def _apply_guides(ws: Workspace, data: dict[str, Any], run_id: str, by: str) -> str:
    folder = ws.path / data["folder"]
    folder.mkdir(parents=True, exist_ok=True)
    report = import_guides(ws, folder)
    if report.invalid:
        raise ProposalError(f"the guide is not valid: {report.invalid[0].file}: {report.invalid[0].reason}")
    return f"imported {report.imported} guides"


def _apply_tool(ws: Workspace, data: dict[str, Any], run_id: str, by: str) -> str:
    if ws.tools.get(data["name"]).status != data["after"]:
        ws.tools.set_status(data["name"], data["after"], by=by, reason=f"approved in {run_id}")
    return f"tool {data['name']} is {data['after']}"


def _apply_new_tool(ws: Workspace, data: dict[str, Any], run_id: str, by: str) -> str:
    """Add a designed tool as probationary, unless this run has done so."""
    design = Design.model_validate(data["design"])
    if any(tool.name == data["name"] and tool.run_id == run_id for tool in ws.tools.list()):
        return f"tool {data['name']} stands already"
    now = ws.clock()
    manifest = ToolManifest(
        **design.model_dump(include={"name", "description", "input_schema", "output_schema", "author", "recipe", "parameters", "evidence"}),
        status="probationary", version=0, wraps=design.wraps, failure_mode=design.failure_mode, created_at=now, updated_at=now, run_id=run_id,
    )  # fmt: skip
    added = ws.tools.add(manifest, design.source, design.cases, by=by, reason=f"approved: {data['proposal']}")
    return f"tool {added.name} version {added.version} added to the library as probationary"


_APPLY = {
    "new_tool": _apply_new_tool,
    "file": _apply_file,
    "memories": _apply_memories,
    "status": _apply_status,
    "guides": _apply_guides,
    "tool": _apply_tool,
}


def revert_steps(ws: Workspace, steps: list[Step], run_id: str, by: str) -> list[str]:
    """Take steps back, last first; what other runs wrote since stays as it is.

    Raises:
        StoreError: a later run has built on the memories; the message lists them.
    """
    said: list[str] = []
    if (any(step.kind in ("memories", "status") for step in steps) and ws.memory.rows(run_id=run_id)) or any(
        step.kind == "status" for step in steps
    ):
        ws.memory.undo(run_id)
        said.append("memories are as they were")
    for step in reversed([step for step in steps if step.kind == "file"]):
        path = _inside(ws, step.data["path"])
        now = path.read_text(encoding="utf-8") if path.is_file() else None
        if now not in (step.data["after"], step.data["before"]):
            raise ProposalError(f"{step.data['path']} was changed since; take that change back first")
        _write(path, step.data["before"])
        said.append(f"{step.data['path']} is as it was")
    for step in steps:
        if step.kind == "guides":
            _apply_guides(ws, step.data, run_id, by)
        elif step.kind == "new_tool":
            if any(tool.name == step.data["name"] and tool.run_id == run_id for tool in ws.tools.list()):
                ws.tools.set_status(step.data["name"], "retired", by=by, reason="the approval was undone")
                said.append(f"tool {step.data['name']} is retired")
        elif step.kind == "tool":
            before = step.data["before"]
            ws.tools.set_status(step.data["name"], before["status"], by=by, reason="the approval was undone")
            said.append(f"tool {step.data['name']} is {before['status']} again")
    return said
