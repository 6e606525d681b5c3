"""Where each error belongs: the signatures of one scan come in, each goes to one lane, or is marked as covered.

Knowledge lane: a contrast explains the failures, so a reflection is written; or a person is asked, by a guide draft. Code
lane: the program is at fault, so a finding with its cause is proposed. Drafts and findings are proposals: versioned, merged
when they come again, never a file, never a command. A day without errors is a valid result.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sitoolkit.error_texts import call_signature
from sitoolkit.grouping import merge_templates
from sitoolkit.learning.lesson_finding import Lesson, find_lessons, lesson_memory, one_line
from sitoolkit.learning.reflections import living_reflections, write_reflections
from sitoolkit.logs.events import read_events
from sitoolkit.logs.scan import SignatureScan, scan_error_signatures
from sitoolkit.naming import safe_name
from sitoolkit.records import Category, ErrorSignature, Memory, Record, Status, ToolInvocation

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["Covered", "Placed", "TriageReport", "triage_signatures"]

HISTORY_DAYS = 30.0  # how far back calls are compared with, as for lessons
# Modes in which the caller asked for the wrong thing: knowledge helps. In the others the callee or the way to it failed.
CALLER = ("ARGS", "NOTFOUND", "SYNTAX", "TOOL_GAP", "CONFLICT", "PERM")
_WORD = re.compile(r"[A-Za-z][A-Za-z_]{3,}")


class Covered(Record):
    """A signature that a living memory already speaks of."""

    signature_id: str
    signature: str
    count: int
    covered_by: str


class Placed(Record):
    """A signature in its lane: the reflection that was written, or the proposal that waits."""

    signature_id: str
    signature: str
    count: int
    severity: str
    title: str
    text: str
    id: str = ""  # of the reflection, or of the proposal
    evidence: tuple[str, ...] = ()
    reason: str = ""  # why this lane


class TriageReport(Record):
    """What became of the shown signatures; the lanes and `covered` add up to `shown`."""

    shown: int = 0
    covered: int = 0
    kb_lane: tuple[Placed, ...] = ()
    guide_drafts: tuple[Placed, ...] = ()
    code_lane: tuple[Placed, ...] = ()
    covered_by: tuple[Covered, ...] = ()
    total_events: int = 0
    truncated: bool = False
    skipped_near_duplicates: int = 0


def triage_signatures(
    ws: Workspace,
    *,
    logs: Iterable[str | Path] = (),
    hours: float | None = None,
    tier: str | None = None,
    now: datetime | str | None = None,
    scan: SignatureScan | None = None,
    dry_run: bool = False,
) -> TriageReport:
    """Send each shown signature to one lane.

    >>> report = triage_signatures(ws, hours=24)
    >>> report.shown == report.covered + len(report.kb_lane) + len(report.guide_drafts) + len(report.code_lane)
    True

    Args:
        ws: the workspace.
        logs: as for `scan_error_signatures`.
        hours: as there.
        tier: as there.
        now: as there.
        scan: a scan that was made already, instead of a new one.
        dry_run: place them, write and propose nothing.
    """
    with ws.run("triage", hours=hours, tier=tier, dry_run=dry_run) as run:
        found = scan or scan_error_signatures(ws, logs=logs, hours=hours, tier=tier, now=now)
        if not found.signatures:
            return TriageReport(total_events=found.total_events)
        calls = _calls_behind(ws, found.signatures)
        lessons = _lessons(ws, found.signatures, calls)
        living = living_reflections(ws)
        guides = ws.memory.rows(category=Category.USAGE_GUIDE, status=Status.ACTIVE)
        covered: list[Covered] = []
        knowledge: list[tuple[ErrorSignature, Lesson]] = []
        drafts: list[Placed] = []
        code: list[Placed] = []
        for signature in found.signatures:
            tools = tuple(found.details.get(signature.id, {}).get("tools", ()))
            holder = _covering(signature, tools, living, guides)
            lesson = lessons.get(signature.id)
            if holder is not None:
                covered.append(
                    Covered(
                        signature_id=signature.id,
                        signature=signature.signature,
                        count=signature.count,
                        covered_by=holder,
                    )
                )
            elif lesson is not None:
                knowledge.append((signature, lesson))
            elif _is_knowledge(signature, calls.get(signature.id, ())):
                drafts.append(_draft(ws, signature, tools, calls.get(signature.id, ()), run.id, dry_run))
            else:
                code.append(_finding(ws, signature, tools, run.id, dry_run))
        kept, skipped = _reflections(ws, knowledge, run.id, dry_run)
        covered += skipped
    return TriageReport(
        shown=found.shown,
        covered=len(covered),
        kb_lane=tuple(kept),
        guide_drafts=tuple(drafts),
        code_lane=tuple(code),
        covered_by=tuple(covered),
        total_events=found.total_events,
        truncated=found.truncated,
        skipped_near_duplicates=len(skipped),
    )


def _calls_behind(ws: Workspace, signatures: Sequence[ErrorSignature]) -> dict[str, list[ToolInvocation]]:
    wanted = {
        one: signature.id
        for signature in signatures
        for one in signature.evidence
        if not one.startswith("log:")
    }
    found: defaultdict[str, list[ToolInvocation]] = defaultdict(list)
    if wanted:
        for call in ws.telemetry.invocations(ids=list(wanted)):
            found[wanted[call.id]].append(call)
    return dict(found)


def _lessons(
    ws: Workspace, signatures: Sequence[ErrorSignature], calls: dict[str, list[ToolInvocation]]
) -> dict[str, Lesson]:
    """The surest lesson about each signature, from the calls of its tools and what came before them."""
    failed = {call.id: identifier for identifier, group in calls.items() for call in group}
    if not failed:
        return {}
    every = [call for group in calls.values() for call in group]
    times = [call.started_at for call in every if call.started_at]
    since = min(times) - timedelta(days=HISTORY_DAYS) if times else None
    tools = {call.tool for call in every}
    sessions = {call.session_id for call in ws.telemetry.invocations(tools=tools, since=since)}
    history = list(ws.telemetry.invocations(session_ids=sorted(sessions)))
    minimum = ws.settings.lessons.min_confidence
    found: dict[str, Lesson] = {}
    for lesson in find_lessons(history, min_confidence=minimum, among=failed.keys()).lessons:
        for one in lesson.evidence:
            identifier = failed.get(one)
            if identifier is not None:
                found.setdefault(identifier, lesson)
                break
        else:
            for call in every:
                if call.tool == lesson.tool and _alike(call_signature(call)[1], lesson.signature):
                    found.setdefault(failed[call.id], lesson)
    return found


def _alike(one: str, other: str) -> bool:
    if one == other:
        return True
    merged = merge_templates({one, other})
    return merged[one] == merged[other]


def _covering(
    signature: ErrorSignature, tools: Sequence[str], living: Sequence[Memory], guides: Sequence[Memory]
) -> str | None:
    """The memory that already speaks of a signature: by the signature it is about, or a guide that names tool and error."""
    for memory in living:
        about = memory.payload.get("signature_id")
        known = str(memory.payload.get("signature") or "")
        same = about == signature.id or (known and _alike(known, signature.signature))
        if same and (not tools or not memory.payload.get("tool") or memory.payload["tool"] in tools):
            return memory.id
    words = {word.lower() for word in _WORD.findall(signature.signature)}
    for memory in guides:
        text = memory.text.lower()
        named = [tool for tool in tools if tool.lower() in text]
        said = {word for word in words if word in text}
        if words and len(said) >= 0.8 * len(words) and (named or not tools):
            return memory.id
    return None


def _is_knowledge(signature: ErrorSignature, calls: Sequence[ToolInvocation]) -> bool:
    """Whether the caller can avoid it: a critical event, a traceback, or a log nobody's call stands behind is code."""
    if signature.severity == "critical" or (" at " in signature.signature and _frame(signature)):
        return False
    modes = [(call.failure_mode or "").partition(".")[0] for call in calls]
    return bool(modes) and sum(mode in CALLER for mode in modes) * 2 > len(modes)


def _frame(signature: ErrorSignature) -> str:
    return next((event.frame for event in read_events(signature.example.splitlines()) if event.frame), "")


# ---------------------------------------------------------------- lanes


def _reflections(
    ws: Workspace, chosen: Sequence[tuple[ErrorSignature, Lesson]], run_id: str, dry_run: bool
) -> tuple[list[Placed], list[Covered]]:
    now = ws.clock()
    expires = now + timedelta(days=ws.settings.lessons.ttl_days)
    memories = []
    for signature, lesson in chosen:
        told = lesson.model_copy(
            update={"signature_id": signature.id, "signature": signature.signature, "expires_at": expires}
        )
        memory = lesson_memory(told, now)
        memories.append(memory.model_copy(update={"payload": {**memory.payload, "source": "triage"}}))
    written = None if dry_run or not memories else write_reflections(ws, memories, run_id=run_id)
    by_slot = {memory.slot: memory.id for memory in written.written} if written else {}
    by_text = {one.text: one.duplicate_of for one in written.skipped} if written else {}
    kept, skipped = [], []
    for (signature, lesson), memory in zip(chosen, memories, strict=True):
        if memory.text in by_text and memory.slot not in by_slot:
            skipped.append(
                Covered(
                    signature_id=signature.id, signature=signature.signature, count=signature.count,
                    covered_by=by_text[memory.text],
                )
            )  # fmt: skip
            continue
        kept.append(
            Placed(
                signature_id=signature.id,
                signature=signature.signature,
                count=signature.count,
                severity=signature.severity,
                title=f"Lesson on {lesson.tool}",
                text=lesson.text,
                id=by_slot.get(memory.slot, ""),
                evidence=lesson.evidence,
                reason="the failed calls differ from the good ones in one condition",
            )
        )
    return kept, skipped


def _draft(
    ws: Workspace,
    signature: ErrorSignature,
    tools: Sequence[str],
    calls: Sequence[ToolInvocation],
    run_id: str,
    dry_run: bool,
) -> Placed:
    tool = tools[0] if tools else "the tool"
    modes = sorted({call.failure_mode for call in calls if call.failure_mode})
    title = one_line(f"Guide: {signature.signature[:90]} ({', '.join(tools[:3]) or 'no tool'})")
    body = one_line(
        f"Calls of {', '.join(f'`{name}`' for name in tools) or 'a tool'} failed {signature.count} times with: "
        f"{signature.signature[:300]} ({', '.join(modes) or 'no mode'}). Nothing that was recorded tells them from good calls. "
        "To be written by a person: when this happens, and what to do instead."
    )
    agent = signature.agents[0] if len(signature.agents) == 1 else "core"
    placed = Placed(
        signature_id=signature.id,
        signature=signature.signature,
        count=signature.count,
        severity=signature.severity,
        title=title,
        text=body,
        evidence=signature.evidence,
        reason="the caller can avoid it, and no computed contrast says how",
    )
    if dry_run:
        return placed
    proposal = ws.proposals.propose(
        type="usage-guide",
        title=title,
        description=body,
        evidence=signature.evidence,
        payload={
            "agent": safe_name(agent),
            "intent": safe_name(f"{tool} {signature.signature}", most=40) + "_" + signature.id[4:12],
            "keywords": [*tools[:4], *modes],
            "body": body,
            "signature_id": signature.id,
        },
        risk="low",
        proposed_by="triage",
        run_id=run_id,
        key=f"guide:{signature.id}",
    )
    return placed.model_copy(update={"id": proposal.id})


def _finding(
    ws: Workspace, signature: ErrorSignature, tools: Sequence[str], run_id: str, dry_run: bool
) -> Placed:
    frame = _frame(signature)
    where = (
        f" in `{frame}`" if frame else f" in {', '.join(f'`{tool}`' for tool in tools[:3])}" if tools else ""
    )
    cause = one_line(
        f"`{signature.signature[:300]}` was raised{where}: {signature.count} times in {', '.join(signature.sources[:3])}"
        + (f", last at {signature.last_seen:%Y-%m-%d %H:%M} UTC" if signature.last_seen else "")
        + "."
    )
    fix = (
        f"Reproduce it from the example, begin at `{frame}`, and make it fail with a message that says what to change."
        if frame
        else "Reproduce it from the example; if the callee was not reachable or too slow, retry with a limit and say so in the error."
    )
    title = one_line(f"{signature.severity}: {signature.signature[:100]}")
    placed = Placed(
        signature_id=signature.id,
        signature=signature.signature,
        count=signature.count,
        severity=signature.severity,
        title=title,
        text=cause,
        evidence=signature.evidence,
        reason="the program or the way to it failed, whatever the caller asked",
    )
    if dry_run:
        return placed
    payload: dict[str, Any] = {
        "root_cause": cause,
        "suggested_fix": fix,
        "affected_files": _files(signature.example),
        "signature_id": signature.id,
        "example": signature.example[:2_000],
    }
    proposal = ws.proposals.propose(
        type="code-fix",
        title=title,
        description=f"{cause} {fix}",
        evidence=signature.evidence,
        payload=payload,
        risk="high" if signature.severity == "critical" else "medium",
        proposed_by="triage",
        run_id=run_id,
        key=f"code:{signature.id}",
    )
    return placed.model_copy(update={"id": proposal.id})


def _files(example: str) -> list[str]:
    """Files that the frames of a traceback name; text of a log, so nothing is opened."""
    return list(dict.fromkeys(re.findall(r'File "([^"\n]{1,200})", line \d+', example)))[:8]
