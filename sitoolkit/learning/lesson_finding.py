"""Which lessons lie in some calls: failed and good calls come in, conditions in words with their counts go out.

A pure function and its records, a floor below the loops, because lessons and triage both make reflections of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from datetime import datetime
from typing import Any

from sitoolkit.claims.contents import EVIDENCE
from sitoolkit.error_texts import call_signature
from sitoolkit.grouping import merge_templates
from sitoolkit.learning.contrasts import Condition, Rule, find_rule, timeline_of, units_of
from sitoolkit.records import (
    GLOBAL,
    Category,
    Memory,
    Origin,
    Outcome,
    Record,
    Scope,
    ToolInvocation,
    UtcTime,
    digest,
)
from sitoolkit.signatures import signature_id

__all__ = ["Lesson", "Lessons", "NoContrast", "find_lessons", "lesson_memory", "lesson_slot", "one_line"]


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


class Lessons(Record):
    """What the calls alone say, before anything is written."""

    lessons: tuple[Lesson, ...] = ()
    no_contrast: tuple[NoContrast, ...] = ()


def find_lessons(
    calls: Iterable[ToolInvocation], *, min_confidence: float = 0.5, among: Container[str] | None = None
) -> Lessons:
    """The lessons in some calls; a pure function, the same for any order of them.

    >>> find_lessons(calls).lessons[0].text
    'Do not call `scale` with `replicas` above 10: 6 of 6 such calls failed (no room), 0 of 23 others did.'

    Args:
        calls: all calls of the sessions, failed and good.
        min_confidence: least lower Wilson bound of the share of matching calls that failed.
        among: only kinds of failure that one of these calls shows; the others are history.
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
        if among is not None and not any(call.id in among for call in group):
            continue
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
        text=one_line(text),
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


def one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def lesson_slot(lesson: Lesson) -> str:
    return f"lesson:{lesson.tool}:{digest(lesson.condition)[:16]}"


def lesson_memory(lesson: Lesson, now: datetime) -> Memory:
    return Memory(
        category=Category.REFLECTION,
        scope=lesson.scope,
        text=lesson.text,
        slot=lesson_slot(lesson),
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
