"""What to avoid, learned from failures: failed and good calls of a window come in, reflections that expire go out.

A lesson says under which condition a tool fails, and is computed by contrast with the calls that succeeded; where nothing
tells them apart there is no lesson (that a tool is broken is a signature, not a lesson). A call that was cancelled has not
failed. Whether a lesson helped is told by the rate of its signature before and after.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sitoolkit.claims.contents import EVIDENCE
from sitoolkit.claims.stats import wilson_lower, wilson_upper
from sitoolkit.contrasts import Condition, Rule, find_rule, timeline_of, units_of
from sitoolkit.error_texts import call_error, call_signature
from sitoolkit.grouping import merge_templates
from sitoolkit.records import (
    GLOBAL,
    Category,
    Claim,
    Memory,
    Origin,
    Outcome,
    Record,
    Scope,
    ToolInvocation,
    UtcTime,
    digest,
    parse_time,
)
from sitoolkit.reflections import Skipped, living_reflections, write_reflections
from sitoolkit.signatures import signature_id
from sitoolkit.stores.newest import newest_call

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

EFFECT_DAYS = 30.0  # how far back the rate before a lesson is taken; as long as a lesson lives
LEAST_CALLS = 10  # on each side, below which a rate tells nothing


class Lesson(Record):
    """A lesson as it is reported; `id` is empty for one that was proposed or only computed."""

    id: str = ""
    text: str
    scope: Scope = GLOBAL
    expires_at: UtcTime | None = None
    evidence: tuple[str, ...] = ()
    written_by: str = "template"
    tool: str = ""
    condition: str = ""
    kind: str = ""
    about: str = ""
    value: Any = None
    signature_id: str = ""
    signature: str = ""
    failure_mode: str = ""
    confidence: float = 0.0
    counts: dict[str, int] = {}  # noqa: RUF012 - pydantic copies defaults


class NoContrast(Record):
    """Failures that nothing told from the good calls: no lesson, and why."""

    tool: str
    signature_id: str
    signature: str
    failures: int
    good: int
    reason: str


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


class Lessons(Record):
    """What the calls alone say, before anything is written."""

    lessons: tuple[Lesson, ...] = ()
    no_contrast: tuple[NoContrast, ...] = ()


def find_lessons(calls: Iterable[ToolInvocation], *, min_confidence: float = 0.5) -> Lessons:
    """The lessons in some calls; a pure function, the same for any order of them.

    >>> find_lessons(calls).lessons[0].text
    'Do not call `scale` with `replicas` above 10: 6 of 6 such calls failed (no room), 0 of 23 others did.'

    Args:
        calls: all calls of the sessions, failed and good.
        min_confidence: least lower Wilson bound of the share of matching calls that failed.
    """
    everything = {call.id or f"{call.session_id}#{call.seq}": call for call in calls if not call.abandoned}
    timeline = timeline_of(everything.values())
    good: defaultdict[str, list[ToolInvocation]] = defaultdict(list)
    failed: list[tuple[ToolInvocation, str]] = []
    for call in everything.values():
        if call.failed:
            failed.append((call, call_signature(call)[1]))
        elif call.outcome is Outcome.SUCCESS:
            good[call.tool].append(call)
    merged = merge_templates({template for _, template in failed})
    groups: defaultdict[tuple[str, str], list[ToolInvocation]] = defaultdict(list)
    for call, template in failed:
        groups[call.tool, merged[template]].append(call)
    lessons: list[Lesson] = []
    without: list[NoContrast] = []
    for (tool, template), group in sorted(groups.items()):
        bad_units, good_units = units_of(group, timeline), units_of(good[tool], timeline)
        rule = find_rule(bad_units, good_units, min_confidence)
        if rule is not None:
            lessons.append(_lesson(tool, template, group, rule))
            continue
        reason = (
            "no good call to compare with"
            if not good_units
            else "too few failures"
            if len(bad_units) < 2
            else "nothing tells the failed calls from the good ones"
        )
        without.append(
            NoContrast(
                tool=tool,
                signature_id=signature_id(template),
                signature=template,
                failures=len(group),
                good=len(good_units),
                reason=reason,
            )
        )
    lessons.sort(
        key=lambda lesson: (-lesson.confidence, -lesson.counts["failed"], lesson.tool, lesson.condition)
    )
    return Lessons(lessons=tuple(_one_a_condition(lessons)), no_contrast=tuple(without))


def _one_a_condition(lessons: Sequence[Lesson]) -> list[Lesson]:
    """Two wordings of an error under one condition are one lesson."""
    kept: dict[tuple[str, str], Lesson] = {}
    for lesson in lessons:
        kept.setdefault((lesson.tool, lesson.condition), lesson)
    return list(kept.values())


def _lesson(tool: str, template: str, group: Sequence[ToolInvocation], rule: Rule) -> Lesson:
    condition = _bounded(rule.condition)
    said = template if len(template) <= 120 else template[:119] + "…"
    others = f"{rule.other_failed} of {rule.others} others did" if rule.others else "no other call was seen"
    start = f" (failures begin at {rule.fails_from:g})" if rule.fails_from is not None else ""
    text = f"Do not call `{tool}` {condition.text}: {rule.failed} of {rule.matching} such calls failed ({said}), {others}{start}."
    evidence = (*rule.evidence[: EVIDENCE - 4], *rule.against[:4])
    modes = sorted({call.failure_mode for call in group if call.failure_mode})
    return Lesson(
        text=_one_line(text),
        evidence=evidence,
        tool=tool,
        condition=condition.slot,
        kind=condition.kind,
        about=condition.about,
        value=condition.value,
        signature_id=signature_id(template),
        signature=template,
        failure_mode=modes[0] if len(modes) == 1 else "",
        confidence=round(rule.confidence, 4),
        counts={
            "failed": rule.failed,
            "matching": rule.matching,
            "other_failed": rule.other_failed,
            "others": rule.others,
        },
    )


def _bounded(condition: Condition) -> Condition:
    if isinstance(condition.value, str) and len(condition.value) > 80:
        return Condition(condition.kind, condition.about, condition.value[:79] + "…")
    return condition


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


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
        now: end of the window; by default the newest call, so that old transcripts can be studied.

    Returns:
        Counts, the lessons written (or proposed), and the failures that nothing explains.
    """
    settings = ws.settings.lessons
    written_at = ws.clock()
    end = (parse_time(now) if now is not None else None) or newest_call(ws.telemetry) or written_at
    window = settings.hours if hours is None else hours
    most = settings.limit if limit is None else limit
    where = scope or settings.scope
    calls = list(ws.telemetry.invocations(since=end - timedelta(hours=window), until=end))
    found = find_lessons(calls, min_confidence=settings.min_confidence)
    chosen = found.lessons[: max(0, most)]
    sessions = {call.session_id for call in calls}
    report = LessonReport(
        runs_seen=len(sessions),
        runs_failed=len({call.session_id for call in calls if call.failed}),
        calls=len(calls),
        failures=sum(call.failed for call in calls),
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
            ids = tuple(_propose(ws, lesson, run.id) for lesson in placed)
            return report.model_copy(
                update={"lessons": tuple(placed), "proposals": ids, "claims_dropped": dropped}
            )
        memories = [_memory(lesson, written_at) for lesson in placed]
        written = write_reflections(ws, memories, run_id=run.id)
    by_slot = {(memory.scope, memory.slot): memory for memory in written.written}
    kept = [
        lesson.model_copy(update={"id": by_slot[lesson.scope, _slot(lesson)].id})
        for lesson in placed
        if (lesson.scope, _slot(lesson)) in by_slot
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


def _worded(ws: Workspace, lessons: Sequence[Lesson]) -> tuple[list[Lesson], int]:
    """A model may word what was computed; what it adds is dropped."""
    from sitoolkit.models.wording import word_claims

    claims = [
        Claim(
            id=_slot(lesson),
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
                "text": _one_line(text),
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


def _slot(lesson: Lesson) -> str:
    return f"lesson:{lesson.tool}:{digest(lesson.condition)[:16]}"


def _memory(lesson: Lesson, now: datetime) -> Memory:
    return Memory(
        category=Category.REFLECTION,
        scope=lesson.scope,
        text=lesson.text,
        slot=_slot(lesson),
        payload={
            "tool": lesson.tool,
            "condition": lesson.condition,
            "kind": lesson.kind,
            "about": lesson.about,
            "signature_id": lesson.signature_id,
            "signature": lesson.signature,
            "failure_mode": lesson.failure_mode or None,
            "counts": dict(lesson.counts),
            "source": "lessons",
        },
        tags=tuple(one for one in ("lesson", lesson.tool, lesson.failure_mode) if one),
        origin=Origin.REFLECTED,
        confidence=lesson.confidence,
        first_seen=now,
        last_seen=now,
        expires_at=lesson.expires_at,
        evidence=lesson.evidence,
        written_by=lesson.written_by,
    )


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
        key=_slot(lesson),
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
    first = min(memory.created_at for memory in lessons if memory.created_at)
    calls = list(ws.telemetry.invocations(since=first - timedelta(days=EFFECT_DAYS), until=end, tools=tools))
    effects = []
    for memory in lessons:
        learned = memory.created_at
        assert learned is not None
        before, after = [0, 0], [0, 0]
        for call in calls:
            at = call.started_at
            if (
                call.tool != memory.payload["tool"]
                or at is None
                or at < learned - timedelta(days=EFFECT_DAYS)
            ):
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
