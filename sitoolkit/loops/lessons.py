"""What to avoid, learned from failures: failed and good calls of a window come in, reflections that expire go out.

A lesson says under which condition a tool fails, and is computed by contrast with the calls that succeeded; where nothing
tells them apart there is no lesson (that a tool is broken is a signature, not a lesson). A call that was cancelled has not
failed. Whether a lesson helped is told by the rate of its signature before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sitoolkit.claims.stats import wilson_lower, wilson_upper
from sitoolkit.error_texts import call_error, call_signature
from sitoolkit.grouping import merge_templates
from sitoolkit.learning.lesson_finding import (
    Lesson,
    Lessons,
    NoContrast,
    find_lessons,
    lesson_memory,
    lesson_slot,
    one_line,
)
from sitoolkit.learning.reflections import Skipped, living_reflections, write_reflections
from sitoolkit.records import (
    GLOBAL,
    Claim,
    Memory,
    Record,
    Scope,
    ToolInvocation,
    digest,
    parse_time,
)
from sitoolkit.stores.newest import newest_calls

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = [
    "Effect",
    "Lesson",
    "LessonReport",
    "Lessons",
    "find_lessons",
    "learn_from_failures",
    "lesson_effects",
]

HISTORY_DAYS = (
    30.0  # how far back calls are compared with; what failed within the window alone makes a lesson
)
EFFECT_DAYS = 30.0  # how far back the rate before a lesson is taken; as long as a lesson lives
LEAST_CALLS = 10  # on each side, below which a rate tells nothing


class LessonReport(Record):
    """What was learned from the failures of a window."""

    runs_seen: int = 0
    runs_failed: int = 0
    calls: int = 0
    failures: int = 0
    lessons: tuple[Lesson, ...] = ()
    skipped_near_duplicates: int = 0
    skipped: tuple[Skipped, ...] = ()
    no_contrast: tuple[NoContrast, ...] = ()
    proposals: tuple[str, ...] = ()
    blocked: int = 0
    claims_dropped: int = 0


# ---------------------------------------------------------------- the workspace


def learn_from_failures(
    ws: Workspace,
    *,
    hours: float | None = None,
    limit: int | None = None,
    scope: str | None = None,
    propose: bool = False,
    dry_run: bool = False,
    now: datetime | str | None = None,
) -> LessonReport:
    """Turn the failures of a window into lessons that expire.

    >>> learn_from_failures(ws, hours=168).lessons[0].text
    'Do not call `scale` with `replicas` above 10: …'

    Args:
        ws: the workspace.
        hours: length of the window; 168 by default.
        limit: most lessons of one run, the surest first; 50 by default.
        scope: `global` (the default) or `origin`, the scope whose agent's failures taught it.
        propose: put them before a person as guide drafts instead of writing them.
        dry_run: compute, write nothing.
        now: end of the window; by default the newest call of each scope, so that old transcripts can be studied.

    Returns:
        Counts, the lessons written (or proposed), and the failures that nothing explains.
    """
    settings = ws.settings.lessons
    written_at = ws.clock()
    window = settings.hours if hours is None else hours
    most = settings.limit if limit is None else limit
    where = scope or settings.scope
    calls, recent = _window(ws, window, parse_time(now) if now is not None else None)
    found = find_lessons(calls, min_confidence=settings.min_confidence, among=recent)
    chosen = found.lessons[: max(0, most)]
    within = [call for call in calls if call.id in recent]
    report = LessonReport(
        runs_seen=len({call.session_id for call in within}),
        runs_failed=len({call.session_id for call in within if call.failed}),
        calls=len(within),
        failures=sum(call.failed for call in within),
        no_contrast=found.no_contrast,
    )
    by_id = {call.id: call for call in calls}
    expires = written_at + timedelta(days=settings.ttl_days)
    with ws.run("lessons", hours=window, limit=most, scope=where, propose=propose, dry_run=dry_run) as run:
        worded, dropped = _worded(ws, chosen)
        placed = [
            lesson.model_copy(update={"scope": _scope_of(lesson, by_id, where), "expires_at": expires})
            for lesson in worded
        ]
        if dry_run:
            return report.model_copy(update={"lessons": tuple(placed), "claims_dropped": dropped})
        if propose:
            known = {(memory.scope, memory.slot): memory.id for memory in living_reflections(ws)}
            fresh = [lesson for lesson in placed if (lesson.scope, lesson_slot(lesson)) not in known]
            ids = tuple(_propose(ws, lesson, run.id) for lesson in fresh)
            told = tuple(
                Skipped(text=lesson.text, duplicate_of=known[lesson.scope, lesson_slot(lesson)])
                for lesson in placed
                if lesson not in fresh
            )
            return report.model_copy(
                update={
                    "lessons": tuple(fresh),
                    "proposals": ids,
                    "claims_dropped": dropped,
                    "skipped": told,
                    "skipped_near_duplicates": len(told),
                }
            )
        memories = [lesson_memory(lesson, written_at) for lesson in placed]
        written = write_reflections(ws, memories, run_id=run.id)
    by_slot = {(memory.scope, memory.slot): memory for memory in written.written}
    kept = [
        lesson.model_copy(update={"id": by_slot[lesson.scope, lesson_slot(lesson)].id})
        for lesson in placed
        if (lesson.scope, lesson_slot(lesson)) in by_slot
    ]
    return report.model_copy(
        update={
            "lessons": tuple(kept),
            "skipped_near_duplicates": len(written.skipped),
            "skipped": written.skipped,
            "blocked": written.report.blocked,
            "claims_dropped": dropped,
        }
    )


def _window(ws: Workspace, hours: float, now: datetime | None) -> tuple[list[ToolInvocation], set[str]]:
    """Calls with the history that a contrast may use, and the ids of those within the window."""
    ends = newest_calls(ws.telemetry)
    calls: list[ToolInvocation] = []
    recent: set[str] = set()
    for scope, newest in ends.items():
        end = now if now is not None else newest
        reach = timedelta(hours=max(hours, HISTORY_DAYS * 24))
        calls += ws.telemetry.invocations(since=end - reach, until=end, scopes=[scope])
        inside = ws.telemetry.calls_frame(
            since=end - timedelta(hours=hours), until=end, scopes=[scope], columns=["id"]
        )
        recent.update(inside["id"].to_list())
    return calls, recent


def _worded(ws: Workspace, lessons: Sequence[Lesson]) -> tuple[list[Lesson], int]:
    """A model may word what was computed; what it adds is dropped."""
    from sitoolkit.models.wording import word_claims

    claims = [
        Claim(
            id=lesson_slot(lesson),
            kind="contrast",
            text=lesson.text,
            support=lesson.counts["failed"],
            of=lesson.counts["matching"],
            evidence=lesson.evidence,
            data={
                "tool": lesson.tool,
                "about": lesson.about,
                "value": lesson.value,
                "signature": lesson.signature,
            },
        )
        for lesson in lessons
    ]
    wording = word_claims(
        ws.chat,
        claims,
        "lessons from failed calls",
        workspace=ws.path,
        prompt_tokens=ws.settings.models.prompt_tokens,
    )
    return [
        lesson.model_copy(
            update={
                "text": one_line(text),
                "written_by": wording.written_by if text != lesson.text else "template",
            }
        )
        for lesson, text in zip(lessons, wording.texts, strict=True)
    ], len(wording.dropped)


def _scope_of(lesson: Lesson, calls: dict[str, ToolInvocation], where: str) -> Scope:
    if where != "origin":
        return GLOBAL
    scopes = {calls[one].scope for one in lesson.evidence if one in calls and calls[one].failed}
    if len(scopes) == 1:
        return next(iter(scopes))
    projects = {calls[one].project for one in lesson.evidence if one in calls and calls[one].failed}
    shared = next(iter(projects)) if len(projects) == 1 else None
    return Scope.of("project", shared) if shared else GLOBAL


def _propose(ws: Workspace, lesson: Lesson, run_id: str) -> str:
    proposal = ws.proposals.propose(
        type="usage-guide",
        title=f"Guide for {lesson.tool}: {lesson.kind.replace('_', ' ')} {lesson.about}".strip(),
        description=lesson.text,
        evidence=lesson.evidence,
        payload={
            "agent": lesson.scope.name if lesson.scope.kind == "agent" else "core",
            "intent": f"avoid-{lesson.tool}-{digest(lesson.condition)[:8]}",
            "keywords": [one for one in (lesson.tool, lesson.about, lesson.failure_mode) if one],
            "body": lesson.text,
            "scope": str(lesson.scope),
            "signature_id": lesson.signature_id,
        },
        confidence="high" if lesson.confidence >= 0.8 else "medium" if lesson.confidence >= 0.6 else "low",
        risk="low",
        proposed_by="lessons",
        run_id=run_id,
        key=lesson_slot(lesson),
    )
    return proposal.id


# ---------------------------------------------------------------- did it help


class Effect(Record):
    """The rate of a lesson's signature before and after it was learned, with the interval of the change."""

    memory_id: str
    tool: str
    signature: str
    before: tuple[int, int]  # failures with the signature, calls of the tool
    after: tuple[int, int]
    change: float | None = None  # of the rate, after minus before; None: too few calls
    low: float | None = None
    high: float | None = None
    verdict: str = "too few calls"  # helped, no change seen, worse, too few calls


def lesson_effects(ws: Workspace, *, now: datetime | str | None = None) -> list[Effect]:
    """For each living lesson: did its signature become rarer?

    The interval is Newcombe's (1998, method 10) from two Wilson intervals at 95 %.

    Args:
        ws: the workspace.
        now: end of the time after; the workspace's clock by default.
    """
    end = (parse_time(now) if now is not None else None) or ws.clock()
    lessons = [
        memory
        for memory in living_reflections(ws, end)
        if memory.payload.get("tool") and memory.payload.get("signature") and memory.created_at
    ]
    if not lessons:
        return []
    tools = {str(memory.payload["tool"]) for memory in lessons}
    calls = [call for call in ws.telemetry.invocations(until=end, tools=tools) if call.started_at is not None]
    times = {call.id: call.started_at for call in calls}
    effects = []
    for memory in lessons:
        learned = memory.created_at
        assert learned is not None
        # What the lesson rests on may be older than the day it was learned: the time before ends there.
        seen = max((when for one in memory.evidence if (when := times.get(one)) is not None), default=learned)
        begin = min(seen, learned) - timedelta(days=EFFECT_DAYS)
        before, after = [0, 0], [0, 0]
        for call in calls:
            at = call.started_at
            if call.tool != memory.payload["tool"] or at is None or at < begin:
                continue
            if memory.scope.kind == "agent" and call.agent != memory.scope.name:
                continue
            side = before if at < learned else after
            side[1] += 1
            side[0] += call.failed and _has_signature(call, memory)
        effects.append(_effect(memory, (before[0], before[1]), (after[0], after[1])))
    return effects


def _has_signature(call: ToolInvocation, memory: Memory) -> bool:
    if not call_error(call):
        return False
    template = call_signature(call)[1]
    wanted = str(memory.payload["signature"])
    return (
        template == wanted
        or merge_templates({template, wanted})[template] == merge_templates({wanted})[wanted]
    )


def _effect(memory: Memory, before: tuple[int, int], after: tuple[int, int]) -> Effect:
    effect = Effect(
        memory_id=memory.id,
        tool=str(memory.payload["tool"]),
        signature=str(memory.payload["signature"]),
        before=before,
        after=after,
    )
    if min(before[1], after[1]) < LEAST_CALLS:
        return effect
    p, q = before[0] / before[1], after[0] / after[1]
    low = q - p - ((q - wilson_lower(*after)) ** 2 + (wilson_upper(*before) - p) ** 2) ** 0.5
    high = q - p + ((wilson_upper(*after) - q) ** 2 + (p - wilson_lower(*before)) ** 2) ** 0.5
    verdict = "helped" if high < 0 else "worse" if low > 0 else "no change seen"
    return effect.model_copy(
        update={"change": round(q - p, 4), "low": round(low, 4), "high": round(high, 4), "verdict": verdict}
    )
