"""Build it now: a friction event comes in, a tool that turns the recorded failures goes out, or a reason why not.

The stages are checkpoint, design, build, lint, type-check, test, gate, load, resume. Each is written to the journal; a
stage that fails leaves the library as it was, and so does a stop: `recover_builds` finishes or takes back what a killed
build left behind. By default a person approves a tool before agents see it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from sitoolkit.errors import ModelError, NotFoundError
from sitoolkit.models.prompts import load_prompt
from sitoolkit.naming import safe_name
from sitoolkit.plugins import call_hook
from sitoolkit.recipes import (
    OUTPUT_SCHEMA,
    Design,
    Evidence,
    Trial,
    design_tool,
    gather,
    try_design,
)
from sitoolkit.recipes.cases import failure_case, success_cases
from sitoolkit.recipes.checks import lint, type_check
from sitoolkit.recipes.design import input_schema
from sitoolkit.records import BINEvent, Record, ToolInvocation, digest
from sitoolkit.sandbox import Limits, check_source
from sitoolkit.stores.tools import ToolManifest

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["BuildRecord", "BuildsReport", "Stage", "build_tool", "build_waiting", "recover_builds"]

MOST_SESSIONS = 200  # evidence is gathered from so many of the newest sessions that used the tool
_MODEL_SCHEMA = {
    "type": "object",
    "required": ["verb", "description", "source"],
    "properties": {
        "verb": {"type": "string", "minLength": 2, "maxLength": 40},
        "description": {"type": "string", "minLength": 10, "maxLength": 200},
        "source": {"type": "string", "minLength": 20, "maxLength": 6_000},
    },
}


class Stage(Record):
    """One stage of a build: what it did, and how long it took in seconds."""

    name: Literal["checkpoint", "design", "build", "lint", "type-check", "test", "gate", "load", "resume"]
    passed: bool
    detail: str = ""
    seconds: float = 0.0


class BuildRecord(Record):
    """What became of one friction event."""

    id: str
    tool: str
    failure_mode: str
    session_id: str
    status: Literal["loaded", "proposed", "refused", "rolled_back"]
    stages: tuple[Stage, ...] = ()
    built: str | None = None  # name of the tool in the library
    version: int | None = None
    proposal_id: str | None = None
    reason: str | None = None
    turned: int = 0  # recorded failures that the tool turns
    unchanged: int = 0  # recorded successes that it leaves as they were
    author: str | None = None
    confinement: dict[str, str] = Field(default_factory=dict)


class BuildsReport(Record):
    """What became of the friction that was fired and had no tool yet."""

    builds: tuple[BuildRecord, ...] = ()
    recovered: tuple[BuildRecord, ...] = ()  # builds that an earlier stop had cut off
    with_tool: int = 0  # pairs of tool and mode that have a tool, or one that awaits a person
    tried: int = 0  # pairs whose newest event was tried before
    left: int = 0  # pairs that wait for the next run


class _Stop(Exception):
    """A stage said no."""

    def __init__(self, reason: str, status: Literal["refused", "rolled_back"] = "rolled_back") -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


class _Build:
    """The stages of one build, timed and written down as they end."""

    def __init__(self, ws: Workspace, build_id: str, run_id: str) -> None:
        self.ws, self.id, self.run_id = ws, build_id, run_id
        self.stages: list[Stage] = []

    def stage(self, name: Any, work: Callable[[], tuple[Any, str]]) -> Any:
        begun = time.monotonic()
        try:
            value, detail = work()
        except _Stop as stop:
            self._note(
                Stage(name=name, passed=False, detail=stop.reason, seconds=round(time.monotonic() - begun, 4))
            )
            raise
        self._note(Stage(name=name, passed=True, detail=detail, seconds=round(time.monotonic() - begun, 4)))
        return value

    def _note(self, stage: Stage) -> None:
        self.stages.append(stage)
        self.ws.journal.append("build_stage", {"build_id": self.id, **stage.to_json()}, run_id=self.run_id)


def build_tool(ws: Workspace, event: BINEvent) -> BuildRecord:
    """Build a tool for a friction event.

    >>> build_tool(ws, event).status       # doctest: +SKIP
    'proposed'

    Returns:
        `proposed`: the tool is in the library and waits for a person. `loaded`: it is probationary, by the setting
        `tools.auto_probation`. `refused`: no wrapper settles this; the event became a proposal. `rolled_back`: a stage
        failed, and the library stands as before.
    """
    recover_builds(ws)
    evidence = gather(_calls(ws, event.tool), event.tool, event.failure_mode)
    known = digest(
        [failure.call.id for failure in evidence.failures], [call.id for call in evidence.successes]
    )
    build_id = (
        "build_"
        + hashlib.sha256(
            f"{event.tool}\0{event.failure_mode}\0{event.session_id}\0{known}".encode()
        ).hexdigest()[:20]
    )
    done = _ended(ws).get(build_id)
    if done is not None:
        return done
    with ws.run("build", tool=event.tool, failure_mode=event.failure_mode) as run:
        record = _run_stages(_Build(ws, build_id, run.id), event, evidence)
        ws.journal.append("build_ended", record.to_json(), run_id=run.id)
    return record


def build_waiting(ws: Workspace, *, most: int = 20) -> BuildsReport:
    """Build for the friction that was fired and has no tool: one build a pair of tool and mode, for its newest event.

    >>> [build.status for build in build_waiting(ws).builds]       # doctest: +SKIP
    ['proposed', 'refused']

    Events are read from the journal, where `scan_friction` fires them. A pair that was refused is tried again when it
    strikes in another session.

    Args:
        ws: the workspace.
        most: builds of one run; the others wait for the next.
    """
    recovered = recover_builds(ws)
    newest: dict[tuple[str, str], BINEvent] = {}
    for entry in ws.journal.events("bin_event"):
        data = {key: value for key, value in entry.data.items() if key in BINEvent.model_fields}
        event = BINEvent.model_validate(data)
        newest[event.tool, event.failure_mode] = event
    have = {(tool.wraps, tool.failure_mode) for tool in ws.tools.list("proposed", "probationary", "stable")}
    tried = {(done.tool, done.failure_mode, done.session_id) for done in _ended(ws).values()}
    open_pairs = [event for pair, event in sorted(newest.items()) if pair not in have]
    fresh = [event for event in open_pairs if (event.tool, event.failure_mode, event.session_id) not in tried]
    if not fresh:
        return BuildsReport(
            recovered=tuple(recovered), with_tool=len(newest) - len(open_pairs), tried=len(open_pairs)
        )
    with ws.run("build_waiting", most=most):
        builds = tuple(build_tool(ws, event) for event in fresh[:most])
    return BuildsReport(
        builds=builds,
        recovered=tuple(recovered),
        with_tool=len(newest) - len(open_pairs),
        tried=len(open_pairs) - len(fresh),
        left=len(fresh[most:]),
    )


def _run_stages(build: _Build, event: BINEvent, evidence: Evidence) -> BuildRecord:
    ws = build.ws
    trial = Trial()

    def ended(status: Any, **more: Any) -> BuildRecord:
        confined = next((verdict.run.confinement for verdict in trial.verdicts if verdict.run), {})
        return BuildRecord(
            id=build.id, tool=event.tool, failure_mode=event.failure_mode, session_id=event.session_id, status=status,
            stages=tuple(build.stages), turned=trial.turned, unchanged=trial.unchanged, confinement=confined, **more,
        )  # fmt: skip

    try:
        build.stage("checkpoint", lambda: _checkpoint(build, event))
        design: Design = build.stage("design", lambda: _design(ws, event, evidence))
        build.stage("build", lambda: _build(ws, design))
        build.stage("lint", lambda: _check(lint, design))
        build.stage("type-check", lambda: _check(type_check, design))
        trial = build.stage("test", lambda: _test(ws, design))
        status = build.stage("gate", lambda: _gate(ws, design))
        manifest: ToolManifest = build.stage("load", lambda: _load(build, event, design, status))
        proposal = None if status == "probationary" else _propose_tool(ws, manifest, design, event, build)
        build.stage(
            "resume", lambda: (None, "the library was read again" if ws.tools.get(manifest.name) else "")
        )
    except _Stop as stop:
        proposal_id = _propose_event(ws, event, stop.reason, build) if stop.status == "refused" else None
        return ended(stop.status, reason=stop.reason, proposal_id=proposal_id)
    return ended(
        "proposed" if proposal else "loaded",
        built=manifest.name,
        version=manifest.version,
        proposal_id=proposal,
        author=design.author,
    )


# ---------------------------------------------------------------- stages


def _calls(ws: Workspace, tool: str) -> Iterator[ToolInvocation]:
    """All calls of the newest sessions that used the tool."""
    used = ws.telemetry.calls_frame(tools=[tool], columns=["session_id", "happened_at", "seq"])
    newest = used["session_id"].reverse().unique(maintain_order=True).head(MOST_SESSIONS).to_list()
    return ws.telemetry.invocations(session_ids=newest)


def _checkpoint(build: _Build, event: BINEvent) -> tuple[None, str]:
    state = {
        "build_id": build.id,
        "event": event.to_json(),
        "library": [f"{tool.name}@{tool.version}" for tool in build.ws.tools.list()],
    }
    build.ws.journal.append("build_started", state, run_id=build.run_id)
    return None, f"{len(state['library'])} tools in the library"


def _design(ws: Workspace, event: BINEvent, evidence: Evidence) -> tuple[Design, str]:
    made = design_tool(evidence)
    if isinstance(made, Design):
        return made, f"{made.author}, {len(made.cases)} cases"
    if ws.chat.name == "template" or not evidence.failures:
        raise _Stop(made.reason, "refused")
    try:
        design = _design_by_model(ws, evidence)
    except ModelError as fault:
        raise _Stop(f"{made.reason}; the model gave no design: {fault}", "refused") from fault
    return design, f"{design.author}, {len(design.cases)} cases"


def _design_by_model(ws: Workspace, evidence: Evidence) -> Design:
    shown = [
        {
            "arguments": failure.call.args,
            "error": failure.call.error,
            "worked_later_with": failure.recovery.args if failure.recovery else None,
        }
        for failure in evidence.failures[:3]  # the paper: up to three evidence records
    ]
    shown += [{"arguments": call.args, "result": call.result} for call in evidence.successes[:3]]
    prompt = load_prompt("design_tool", ws.path).fill(
        tool=evidence.tool,
        mode=evidence.failure_mode,
        evidence=json.dumps(shown, ensure_ascii=False)[:6_000],
        library=ws.tools.prompt_manifest() or "(none)",
    )
    answer = ws.chat.complete(prompt, _MODEL_SCHEMA)
    cases = [failure_case(number, failure) for number, failure in enumerate(evidence.failures[:5], 1)]
    return Design(
        name=safe_name(f"{evidence.tool} {answer['verb']}"),
        description=answer["description"],
        input_schema=input_schema(),
        output_schema=dict(OUTPUT_SCHEMA),
        source=answer["source"],
        author=f"model:{ws.chat.name}",
        cases=(*cases, *success_cases(evidence, {})),
        evidence=tuple(failure.call.id for failure in evidence.failures[:5]),
    )


def _build(ws: Workspace, design: Design) -> tuple[None, str]:
    faults = check_source(design.source, ws.settings.tools.allowed_imports)
    if faults:
        raise _Stop("the code may not be built: " + "; ".join(faults[:5]))
    return None, f"{len(design.source.splitlines())} lines"


def _check(checker: Callable[[str], Any], design: Design) -> tuple[None, str]:
    check = checker(design.source)
    if check.passed or (not check.installed and design.recipe is not None):
        return None, check.detail or "clean"
    raise _Stop(f"{check.name}: {check.detail}")


def _test(ws: Workspace, design: Design) -> tuple[Trial, str]:
    limits = Limits(seconds=ws.settings.tools.seconds, memory_mb=ws.settings.tools.memory_mb)
    trial = try_design(design, limits, ws.settings.tools.allowed_imports)
    if trial.fault:
        raise _Stop(trial.fault)
    return trial, f"{trial.turned} failures turned, {trial.unchanged} successes unchanged"


def _gate(ws: Workspace, design: Design) -> tuple[str, str]:
    setting = ws.settings.tools
    if setting.auto_probation and (design.recipe is not None or not setting.auto_probation_recipes_only):
        return "probationary", "tools.auto_probation is set"
    return "proposed", "a person decides"


def _load(build: _Build, event: BINEvent, design: Design, status: Any) -> tuple[ToolManifest, str]:
    ws = build.ws
    now = ws.clock()
    manifest = ToolManifest(
        name=design.name, description=design.description, input_schema=design.input_schema, output_schema=design.output_schema,
        status=status, version=0, author=design.author, wraps=event.tool, failure_mode=event.failure_mode, recipe=design.recipe,
        parameters=design.parameters, allowed_imports=ws.settings.tools.allowed_imports, evidence=design.evidence,
        created_at=now, updated_at=now, run_id=build.id,
    )  # fmt: skip
    try:
        before = ws.tools.get(design.name)
    except NotFoundError:
        before = None
    if before is not None and before.status in ("probationary", "stable") and status == "proposed":
        manifest = manifest.model_copy(
            update={"name": safe_name(f"{design.name[:40]} v{before.version + 1}")}
        )
    added = ws.tools.add(
        manifest,
        design.source,
        design.cases,
        by="sitoolkit",
        reason=f"friction: {event.tool} {event.failure_mode}",
    )
    call_hook(ws, "on_tool_library_update", added)
    return added, f"{added.name} version {added.version} as {added.status}"


def _propose_tool(
    ws: Workspace, manifest: ToolManifest, design: Design, event: BINEvent, build: _Build
) -> str:
    proposal = ws.proposals.propose(
        type="new-tool" if manifest.version == 1 else "modify-tool",
        title=f"{manifest.name}: a wrapper for {event.tool}, which failed {event.count} times with {event.failure_mode}",
        description=design.description,
        evidence=design.evidence,
        payload={
            "tool": manifest.name,
            "version": manifest.version,
            "sha256": manifest.sha256,
            "source": design.source,
        },
        base={"tool": manifest.name, "version": manifest.version},
        risk="low" if design.recipe else "high",
        proposed_by="toolsmith",
        run_id=build.run_id,
    )
    return str(proposal.id)


def _propose_event(ws: Workspace, event: BINEvent, reason: str, build: _Build) -> str:
    proposal = ws.proposals.propose(
        type="code-fix",
        title=f"{event.tool} keeps failing with {event.failure_mode}",
        description=f"{event.count} failures in session {event.session_id}. No tool was built: {reason}.",
        evidence=event.evidence,
        payload={
            "tool": event.tool,
            "failure_mode": event.failure_mode,
            "root_cause": reason,
            "suggested_fix": "",
        },
        base={},
        risk="low",
        proposed_by="toolsmith",
        run_id=build.run_id,
    )
    return str(proposal.id)


# ---------------------------------------------------------------- after a stop


def _ended(ws: Workspace) -> dict[str, BuildRecord]:
    return {
        entry.data["id"]: BuildRecord.model_validate(entry.data) for entry in ws.journal.events("build_ended")
    }


def recover_builds(ws: Workspace) -> list[BuildRecord]:
    """Bring builds that a stop cut off to an end: taken back where no tool was added, finished where one was.

    Returns:
        The records that were written for them; empty when nothing was left over.
    """
    ended = _ended(ws)
    recovered = []
    for entry in ws.journal.events("build_started"):
        data = entry.data
        if data["build_id"] in ended:
            continue
        event = BINEvent.model_validate(data["event"])
        tool = next((tool for tool in ws.tools.list() if tool.run_id == data["build_id"]), None)
        base = {
            "id": data["build_id"],
            "tool": event.tool,
            "failure_mode": event.failure_mode,
            "session_id": event.session_id,
        }
        if tool is None:
            record = BuildRecord(**base, status="rolled_back", reason="stopped before the tool was added")
        else:
            proposal = None
            if tool.status == "proposed":
                design = Design(
                    name=tool.name, description=tool.description, input_schema=tool.input_schema, source=ws.tools.source(tool.name),
                    author=tool.author, recipe=tool.recipe, evidence=tool.evidence,
                )  # fmt: skip
                proposal = _propose_tool(
                    ws, tool, design, event, _Build(ws, data["build_id"], entry.run_id or "")
                )
            record = BuildRecord(
                **base, status="proposed" if proposal else "loaded", built=tool.name, version=tool.version, proposal_id=proposal,
                author=tool.author, reason="finished after a stop",
            )  # fmt: skip
        ws.journal.append("build_ended", record.to_json(), run_id=entry.run_id)
        ended[record.id] = record
        recovered.append(record)
    return recovered
