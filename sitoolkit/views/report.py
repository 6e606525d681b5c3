"""The nightly report: a workspace and a night's manifests in, one self-contained HTML page out.

What needs attention stands first, then what ran, what was learned and what it rests on, what awaits a decision, and what got better or
worse. A part that cannot be drawn says why; the rest of the page stands.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sitoolkit.records import Category, Memory, Proposal, RunManifest, Status, iso
from sitoolkit.views.attention import Finding, attention, changed_tools
from sitoolkit.views.html import escape, html_table, inline, prose
from sitoolkit.views.page import Section, page

if TYPE_CHECKING:
    import polars as pl

    from sitoolkit.workspace import Workspace

__all__ = ["Facts", "gather", "write_report"]

logger = logging.getLogger(__name__)
_SHOWN = 12
_EVIDENCE = 3  # places named per claim; the memory itself carries all
_WORDS = {
    "ok": ("ok", "ended well"),
    "nothing_to_do": ("ok", "nothing to do"),
    "skipped": ("ok", "nothing had changed"),
    "failed": ("bad", "failed"),
    "timeout": ("bad", "over its deadline"),
    "interrupted": ("bad", "interrupted"),
    "skipped_locked": ("warn", "skipped: another run held the workspace"),
    "running": ("warn", "running"),
}


@dataclass
class Facts:
    """What the page is made of, read once."""

    ws: Workspace
    now: datetime
    since: datetime | None
    calls: pl.DataFrame
    memories: list[Memory]
    access: Mapping[str, tuple[int, datetime]]
    proposals: list[Proposal]
    places: dict[str, str] = field(default_factory=dict)
    """Evidence id -> file and line."""

    @property
    def active(self) -> list[Memory]:
        return [row for row in self.memories if row.status == Status.ACTIVE]

    def fresh(self, category: Category) -> list[Memory]:
        """Active memories of a category that this night wrote; all of them in a report without a night."""
        rows = [row for row in self.active if row.category == category]
        if self.since is None:
            return rows
        return [row for row in rows if row.created_at is not None and row.created_at >= self.since]


def gather(ws: Workspace, since: datetime | None = None) -> Facts:
    """Read what the report tells."""
    columns = ["id", "tool", "outcome", "failure_mode", "session_id", "happened_at", "started_at"]
    facts = Facts(
        ws=ws,
        now=ws.clock(),
        since=since,
        calls=ws.telemetry.calls_frame(columns=columns),
        memories=ws.memory.rows(),
        access=dict(ws.journal.access()),
        proposals=list(ws.proposals.list()),
    )
    wanted = [
        occurrence
        for row in facts.active
        if row.category in (Category.EXPERT_KNOWLEDGE, Category.REFLECTION, Category.LEARNED_FACT)
        for occurrence in _rests_on(row)
    ]
    if wanted:
        for found in ws.telemetry.resolve(dict.fromkeys(wanted)).iter_rows(named=True):
            line = f":{found['line']}" if found["line"] else ""
            facts.places[found["id"]] = f"{found['file']}{line}"
    return facts


def _rests_on(row: Memory) -> Iterable[str]:
    for claim in row.payload.get("claims") or ():
        yield from list(claim.get("evidence") or ())[:_EVIDENCE]
    yield from row.evidence[:_EVIDENCE]


def write_report(
    ws: Workspace,
    manifest: RunManifest | None = None,
    children: Sequence[RunManifest] = (),
    path: Path | None = None,
) -> Path:
    """Write the report of a night, or of all that a workspace holds.

    >>> write_report(ws)
    PosixPath('.sitoolkit/report.html')

    Args:
        ws: the workspace.
        manifest: the night; without one the report tells of everything.
        children: the manifests of its notebooks.
        path: where the page goes; `report.html` in the workspace by default.

    Returns:
        The path.
    """
    facts = gather(ws, manifest.started_at if manifest else None)
    findings = _safely(
        lambda: attention(facts, manifest, children),
        [Finding("bad", "the checks themselves failed", "sitoolkit doctor")],
    )
    parts: list[tuple[str, str, str, Callable[[], str]]] = [
        ("attention", "Needs attention", "", lambda: _attention(findings)),
        ("learned", "What was learned", "Patterns are computed from captured calls; each claim says in how many of them it holds.", lambda: _learned(facts)),
        ("decide", "What awaits a decision", "", lambda: _decide(facts, manifest)),
        ("changes", "What got better or worse", "The last seven days of calls against the four weeks before, by tool.", lambda: _changes(facts)),
        ("calls", "Calls", "", lambda: _calls(facts)),
        ("memory", "Memory", "", lambda: _memory(facts)),
    ]  # fmt: skip
    if manifest is not None:
        parts.insert(1, ("ran", "What ran", "", lambda: _ran(manifest, children)))
    sections = [
        Section(id, title, _safely(draw, None) or _failed_part(), lead) for id, title, lead, draw in parts
    ]
    when = manifest.started_at if manifest else facts.now
    title = f"sitoolkit: night of {when:%d %B %Y}" if manifest else "sitoolkit: what was learned"
    badge = _badge(manifest, findings)
    took = f", took {manifest.duration_s:.0f} s" if manifest and manifest.duration_s is not None else ""
    body = page(
        title,
        badge,
        f"{escape(f'{when:%Y-%m-%d %H:%M} UTC{took}')}",
        _tiles(facts),
        sections,
        escape(
            f"{manifest.run_id if manifest else 'no run'} · workspace {ws.path} · sitoolkit "
            + (manifest.versions.get("sitoolkit", "") if manifest else _version())
        ),
    )
    body = ws.redactor.text(body)[0]  # the last gate: a page is what gets passed on
    target = path or ws.path / "report.html"
    target.write_text(body, encoding="utf-8")
    return target


def _version() -> str:
    from sitoolkit._version import __version__

    return __version__


def _safely(draw: Callable[[], Any], otherwise: Any) -> Any:
    try:
        return draw()
    except Exception as error:
        logger.exception("a part of the report could not be drawn: %s", error)
        return otherwise


def _failed_part() -> str:
    return '<p class="quiet">This part could not be drawn; the log of the run says why.</p>'


def _badge(manifest: RunManifest | None, findings: Sequence[Finding]) -> tuple[str, str]:
    if manifest is not None and manifest.status not in ("ok", "nothing_to_do", "skipped", "running"):
        return _WORDS.get(manifest.status, ("warn", manifest.status))
    bad = sum(finding.severity == "bad" for finding in findings)
    if bad:
        return "bad", f"{bad} {'thing needs' if bad == 1 else 'things need'} attention"
    return (
        _WORDS.get(manifest.status, ("ok", manifest.status)) if manifest is not None else ("ok", "ended well")
    )


def _tiles(facts: Facts) -> list[tuple[str, str]]:
    import polars as pl

    calls = facts.calls
    failed = calls.filter(pl.col("outcome").is_in(["failure", "timeout"])).height
    pending = [row for row in facts.proposals if row.state == "pending"]
    tonight = "new tonight" if facts.since else "in memory"
    return [
        (f"{calls['session_id'].n_unique():,}", f"sessions, {calls.height:,} calls"),
        (f"{failed / calls.height:.0%}" if calls.height else "–", "of calls failed or timed out"),
        (f"{len(facts.fresh(Category.EXPERT_KNOWLEDGE)):,}", f"patterns {tonight}"),
        (f"{len(facts.fresh(Category.REFLECTION)):,}", f"lessons {tonight}"),
        (f"{len(facts.fresh(Category.LEARNED_FACT)):,}", f"facts {tonight}"),
        (f"{len(pending):,}", "proposals await a decision"),
    ]


def _attention(findings: Sequence[Finding]) -> str:
    if not findings:
        return '<p><span class="badge ok">all well</span> Every check passed: nothing failed, nothing was lost, what was written is recalled.</p>'
    words = {"bad": "problem", "warn": "look"}
    items = "".join(
        f'<li class="finding {finding.severity}"><strong>{words[finding.severity]}</strong> {inline(finding.text, 400)}'
        + (f" <br><span class='quiet'>try</span> <code>{escape(finding.fix)}</code>" if finding.fix else "")
        + "</li>"
        for finding in findings
    )
    return f'<ul class="findings">{items}</ul>'


def _ran(manifest: RunManifest, children: Sequence[RunManifest]) -> str:
    rows = []
    for child in children:
        kind, word = _WORDS.get(child.status, ("warn", child.status))
        told = ", ".join(
            f"{name.replace('_', ' ')} {_value(value)}" for name, value in list(child.counts.items())[:6]
        )
        error = f"{child.error.get('ename')}: {child.error.get('evalue')}" if child.error else ""
        link = f'<a href="../{escape(child.run_id)}/report.html">{escape(Path(child.notebook).stem)}</a>'
        rows.append(
            f'<tr><td>{link}</td><td><span class="badge {kind}">{escape(word)}</span></td>'
            f'<td class="sit-n">{child.duration_s or 0:.1f} s</td><td>{inline(error or told, 260)}</td></tr>'
        )
    head = "".join(
        f'<th scope="col">{name}</th>' for name in ("notebook", "how it ended", "took", "what came of it")
    )
    notes = "".join(f'<p class="quiet">{inline(note, 300)}</p>' for note in manifest.notes)
    check = manifest.counts.get("recall_check") or {}
    told = {
        True: f"A memory written tonight was recalled through the public path ({check.get('memory_id')}).",
        False: "A memory written tonight did not come back through the public path.",
        None: "Nothing was written tonight, so there was nothing to recall.",
    }[check.get("recalled")]
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div><p>{escape(told)}</p>{notes}'


def _value(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else inline(value, 60)


def _learned(facts: Facts) -> str:
    patterns = sorted(facts.fresh(Category.EXPERT_KNOWLEDGE), key=lambda row: (-row.confidence, row.id))
    lessons = sorted(facts.fresh(Category.REFLECTION), key=lambda row: (-row.confidence, row.id))
    known = sorted(facts.fresh(Category.LEARNED_FACT), key=lambda row: (-row.confidence, row.id))
    if not (patterns or lessons or known):
        return "<p>Nothing new: what was taken in tonight says what memory already held.</p>"
    out = [_pattern_card(facts, row) for row in patterns[:_SHOWN]]
    out += [_rest(len(patterns), "patterns", "expert_knowledge")]
    for title, rows, category in (
        ("Lessons from failures", lessons, "reflection"),
        ("Facts that users stated", known, "learned_fact"),
    ):
        if rows:
            out.append(f"<h3>{title}</h3>")
            out += [_statement(facts, row) for row in rows[:_SHOWN]]
            out.append(_rest(len(rows), title.lower(), category))
    return "".join(out)


def _rest(count: int, what: str, category: str) -> str:
    if count <= _SHOWN:
        return ""
    return f'<p class="quiet">and {count - _SHOWN:,} more {escape(what)}: <code>sitoolkit memory list --category {escape(category)}</code></p>'


def _pattern_card(facts: Facts, row: Memory) -> str:
    claims = row.payload.get("claims") or []
    items = "".join(
        f'<li>{prose(claim.get("text"), 300)} <span class="of">{claim.get("support")} of {claim.get("of")}'
        f"{' · varies' if claim.get('kind') == 'variance' else ''}</span></li>"
        for claim in claims
    )
    about = f"{row.scope} · {row.payload.get('sample_count', '?')} samples · confidence {row.confidence:.2f} · worded by {row.written_by or 'template'}"
    return (
        f'<article class="card"><h3>{inline(row.payload.get("tool") or row.id)}</h3><p class="quiet">{escape(about)}</p>'
        f"<ul>{items}</ul>{_places(facts, _rests_on(row), len(row.evidence))}</article>"
    )


def _statement(facts: Facts, row: Memory) -> str:
    until = f" · until {row.expires_at:%Y-%m-%d}" if row.expires_at else ""
    about = f"{row.scope} · confidence {row.confidence:.2f} · seen {row.seen_count}×{until}"
    return (
        f'<article class="card"><p>{prose(row.text, 600)}</p><p class="quiet">{escape(about)}</p>'
        f"{_places(facts, row.evidence[:_EVIDENCE], len(row.evidence))}</article>"
    )


def _places(facts: Facts, ids: Iterable[str], total: int) -> str:
    places = list(dict.fromkeys(facts.places[each] for each in ids if each in facts.places))[:6]
    if not places:
        return ""
    rows = "".join(f"<li><code>{inline(place, 200)}</code></li>" for place in places)
    return f"<details><summary>What it rests on: {total:,} {'call' if total == 1 else 'calls'}</summary><ul>{rows}</ul></details>"


def _decide(facts: Facts, manifest: RunManifest | None) -> str:
    pending = [row for row in facts.proposals if row.state in ("pending", "deferred")]
    if not pending:
        return "<p>Nothing awaits a decision.</p>"
    order = {"high": 0, "medium": 1, "low": 2}
    pending.sort(key=lambda row: (order.get(row.confidence, 3), row.id))
    rows = [
        {"id": row.id, "type": row.type, "what": row.title, "confidence": row.confidence, "risk": row.risk, "evidence": len(row.evidence), "since": f"{row.created_at:%Y-%m-%d}" if row.created_at else ""}
        for row in pending
    ]  # fmt: skip
    new = [row for row in pending if facts.since and row.created_at and row.created_at >= facts.since]
    since = f' -p since="{iso(facts.since)}"' if new else ""
    how = (
        "<p>Decide in notebook <code>05_proposal_review</code>"
        + (
            f" with the filter <code>since = &quot;{escape(iso(facts.since))}&quot;</code> ({len(new)} new tonight)"
            if since
            else ""
        )
        + f", or in the terminal: <code>sitoolkit review list</code>, <code>sitoolkit review show {escape(pending[0].id)}</code>.</p>"
    )
    return f'<div class="scroll">{html_table(rows, caption=f"{len(pending)} proposals")}</div>{how}'


def _changes(facts: Facts) -> str:
    changes = changed_tools(facts.calls)
    if not changes:
        return "<p>Not enough calls in both spans to compare.</p>"
    sure = [row for row in changes if row["verdict"] != "no clear change"]
    rows = [
        {
            "tool": row["tool"],
            "verdict": row["verdict"],
            "failed before": row["before"],
            "failed now": row["now"],
        }
        for row in [*sure, *[row for row in changes if row not in sure]]
    ]
    lead = (
        f"{len(sure)} of {len(changes)} tools changed beyond chance."
        if sure
        else f"None of {len(changes)} tools changed beyond chance."
    )
    return f'<p>{lead}</p><div class="scroll">{html_table(rows, limit=15)}</div><p class="quiet">A change counts when the 95 % intervals of the two failure rates do not overlap.</p>'


def _calls(facts: Facts) -> str:
    from sitoolkit.views import charts

    if facts.calls.is_empty():
        return "<p>No calls yet: <code>sitoolkit capture PATH</code> takes transcripts in.</p>"
    frame = facts.calls
    import polars as pl

    failures = frame.filter(pl.col("outcome").is_in(["failure", "timeout"]))
    return _figure(charts.activity(frame)) + (
        _figure(charts.friction_heatmap(failures, sessions=10)) if failures.height else ""
    )


def _memory(facts: Facts) -> str:
    from sitoolkit.views import charts

    rows = [
        {
            "category": str(row.category), "status": str(row.status), "created_at": iso(row.created_at), "ended_at": iso(row.ended_at),
            "access_count": facts.access.get(row.id, (0, None))[0],
        }
        for row in facts.memories
    ]  # fmt: skip
    if not rows:
        return "<p>No memories yet.</p>"
    return _figure(charts.memory_growth(rows)) + _figure(charts.never_recalled(rows))


def _figure(chart: Any) -> str:
    from sitoolkit.views.theme import chart_svg

    return f'<div class="chart">{chart_svg(chart, adaptive=True)}</div>'
