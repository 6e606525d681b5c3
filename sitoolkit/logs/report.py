"""What a scan shows: tallies of templates come in, ranked signatures with redacted examples under one budget go out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sitoolkit.grouping import merge_templates
from sitoolkit.records import ErrorSignature, Record, digest, iso
from sitoolkit.signatures import signature_id
from sitoolkit.stores.scans import KnownSignature, ScanLog, Tally

__all__ = ["SetAside", "SignatureScan", "group_tallies", "report"]

SAME_EVENT_S = 5.0  # an agent's error and the log's line of it lie at most so far apart
SEVERITY_BONUS = {
    "critical": 6.0,
    "error": 0.0,
    "warning": -3.0,
}  # in doublings: a critical weighs as much as 64 errors
NOVELTY_BONUS = 3.0  # and one never seen before as much as 8 of its kind


class SetAside(Record):
    """A log, or part of one, that was not read."""

    file: str
    line: int | None = None
    reason: str


class SignatureScan(Record):
    """What a scan found. `truncated`: more signatures than are shown."""

    since_hours: float
    total_events: int = 0
    distinct_signatures: int = 0
    shown: int = 0
    truncated: bool = False
    signatures: tuple[ErrorSignature, ...] = ()
    details: dict[str, dict[str, Any]] = {}  # noqa: RUF012 - pydantic copies defaults; by id: novel, version, counts, tools
    replaced: dict[str, str] = {}  # noqa: RUF012 - ids of earlier scans -> the id that stands for them now
    files: int = 0
    set_aside: tuple[SetAside, ...] = ()


def group_tallies(tallies: Iterable[Tally]) -> dict[str, list[Tally]]:
    by_template: defaultdict[str, list[Tally]] = defaultdict(list)
    for tally in tallies:
        by_template[tally.template].append(tally)
    merged = merge_templates(name for name, group in by_template.items() if group[0].merges)
    groups: defaultdict[str, list[Tally]] = defaultdict(list)
    for name in sorted(by_template):
        groups[merged.get(name, name)] += by_template[name]
    return dict(groups)


def _counted(group: list[Tally]) -> tuple[int, dict[str, int]]:
    """Events of a group, an event that telemetry and a log both saw counted once; and the counts by source."""
    by_source: defaultdict[str, int] = defaultdict(int)
    for tally in group:
        by_source[tally.source] += tally.count
    called = sorted(when for tally in group if tally.source == "telemetry" for when in tally.times)
    logged = sorted(when for tally in group if tally.source != "telemetry" for when in tally.times)
    both = place = 0
    for when in called:
        while place < len(logged) and logged[place] < when - SAME_EVENT_S:
            place += 1
        if place < len(logged) and logged[place] <= when + SAME_EVENT_S:
            both += 1
            place += 1
    return sum(by_source.values()) - both, dict(sorted(by_source.items()))


def report(
    groups: dict[str, list[Tally]],
    known: dict[str, KnownSignature],
    state: ScanLog | None,
    window: float,
    most: int,
    cut: int,
    total: int,
    now: datetime,
    files: int,
    aside: list[SetAside],
) -> SignatureScan:
    rows = []
    replaced_by: dict[str, str] = {}
    fresh: list[KnownSignature] = []
    for template, group in groups.items():
        identifier = signature_id(template)
        members = frozenset(digest(tally.template)[:16] for tally in group)
        earlier = [one for one in known.values() if one.members & members and one.id != identifier]
        old = known.get(identifier)
        version = old.version if old else 1 + max((one.version for one in earlier), default=0)
        if old is None or not members <= old.members:
            replaces = tuple(sorted(one.id for one in earlier))
            fresh.append(
                KnownSignature(
                    identifier, template, version, members | (old.members if old else frozenset()),
                    tuple(sorted({*replaces, *(old.replaces if old else ())})), old.first_known if old else iso(now) or "",
                )
            )  # fmt: skip
        replaced_by.update({one.id: identifier for one in earlier})
        count, by_source = _counted(group)
        severity = "critical" if any(tally.severity == "critical" for tally in group) else group[0].severity
        novel = old is None and not earlier
        score = (
            math.log2(1 + count)
            + SEVERITY_BONUS.get(severity, 0.0)
            + (NOVELTY_BONUS if novel and known else 0.0)
        )
        rows.append((score, count, identifier, template, severity, novel, version, by_source, group))
    rows.sort(key=lambda row: (-row[0], -row[1], row[3]))
    top = rows[: max(0, most)]
    room = max(0, total - sum(len(row[3]) for row in top))
    share = min(cut, room // len(top)) if top else 0
    signatures, details = [], {}
    for score, count, identifier, template, severity, novel, version, by_source, group in top:
        first = min((tally.first for tally in group if tally.first), default=None)
        last = max((tally.last for tally in group if tally.last), default=None)
        example = min(group, key=lambda tally: (tally.first or now, tally.source, tally.example)).example
        signatures.append(
            ErrorSignature(
                id=identifier,
                signature=template if len(template) <= 500 else template[:499] + "…",
                count=count,
                severity=severity,
                agents=tuple(sorted({agent for tally in group for agent in tally.agents})),
                sources=tuple(by_source),
                first_seen=first,
                last_seen=last,
                example=_cut(example, share),
                evidence=tuple(sorted({one for tally in group for one in tally.evidence}))[:10],
            )
        )
        details[identifier] = {
            "novel": novel,
            "version": version,
            "score": round(score, 3),
            "counts": by_source,
            "tools": sorted({tool for tally in group for tool in tally.tools}),
        }
    if state is not None and fresh:
        state.note(fresh)
    return SignatureScan(
        since_hours=window,
        total_events=sum(row[1] for row in rows),
        distinct_signatures=len(rows),
        shown=len(top),
        truncated=len(rows) > len(top),
        signatures=tuple(signatures),
        details=details,
        replaced=replaced_by,
        files=files,
        set_aside=tuple(aside),
    )


def _cut(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    return text[: max(0, chars - 1)] + "…" if chars > 0 else ""
