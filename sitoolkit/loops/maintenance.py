"""The maintenance pass: the telemetry of the last sessions comes in, proposals for a person go out.

A (tool, failure mode) that failed often enough in enough sessions becomes a proposal; so does a tool of the library that
fails or is never used, and what curators find worth merging or retiring. Nothing is changed here.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from sitoolkit.impact import expected_impact
from sitoolkit.plugins import call_hook
from sitoolkit.recipes import Design, Refusal, design_tool, gather, try_design
from sitoolkit.records import Category, Proposal, Record, Status
from sitoolkit.sandbox import Limits

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["MaintenanceReport", "Pattern", "propose_maintenance"]

MOST_EVIDENCE = 12
_UNUSED_SESSIONS = 20  # a loaded tool that so many sessions passed by is proposed for retirement


class Pattern(Record):
    """One kind of failure over several sessions."""

    tool: str
    failure_mode: str
    failures: int
    calls: int
    sessions: int
    per_session: float
    confidence: Literal["low", "medium", "high"]
    session_ids: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


class MaintenanceReport(Record):
    """What a pass saw and proposed."""

    sessions: int = 0
    invocations: int = 0
    patterns: tuple[Pattern, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    below_threshold: int = 0


def propose_maintenance(
    ws: Workspace,
    sessions: int | None = None,
    since: datetime | None = None,
    *,
    min_failures: int | None = None,
    min_sessions: int | None = None,
) -> MaintenanceReport:
    """Look over the last sessions and propose what a person should decide.

    >>> propose_maintenance(ws, sessions=20).patterns[0].failures   # doctest: +SKIP
    34

    Args:
        ws: the workspace.
        sessions: how many of the newest sessions; at least 5, by the setting `maintenance.sessions`.
        since: leave older sessions out.
        min_failures: failures of one (tool, mode) that make a pattern; 10 in the paper.
        min_sessions: sessions in which they must have occurred; 3 in the paper.

    Returns:
        The report; its proposals stand in the queue, equal ones merged with those that were there.
    """
    settings = ws.settings.maintenance
    count = max(sessions if sessions is not None else settings.sessions, 5)
    least = min_failures if min_failures is not None else settings.min_failures
    spread = min_sessions if min_sessions is not None else settings.min_sessions
    groups, seen, invocations = _failures(ws, count, since)
    patterns = [_pattern(row) for row in groups if row["failures"] >= least and row["sessions"] >= spread]
    patterns.sort(key=lambda pattern: (-pattern.failures, pattern.tool, pattern.failure_mode))
    with ws.run("maintenance", sessions=count) as run:
        reflections = _reflections(ws)
        proposals = [_propose(ws, pattern, reflections, run.id) for pattern in patterns]
        proposals += _tools(ws, seen, run.id)
        proposals += _by_plugins(ws, run.id)
    return MaintenanceReport(
        sessions=len(seen),
        invocations=invocations,
        patterns=tuple(patterns),
        proposals=tuple(proposals),
        below_threshold=len(groups) - len(patterns),
    )


def _failures(
    ws: Workspace, count: int, since: datetime | None
) -> tuple[list[dict[str, Any]], list[str], int]:
    """Failures of the newest sessions by (tool, mode), with counts and evidence; those sessions; their calls."""
    with ws.telemetry.connection(tables=["calls"]) as con:
        newest = (
            con.sql(
                """select session_id from calls where ran and ($since is null or happened_at >= $since)
            group by session_id order by max(happened_at) desc, session_id limit $count""",
                params={"since": since, "count": count},
            )
            .pl()["session_id"]
            .to_list()
        )
        rows = con.sql(
            """with seen as (select * from calls where session_id in (select unnest($ids::varchar[])) and ran and not abandoned),
            totals as (select tool, count(*) as calls from seen group by tool)
            select tool, coalesce(failure_mode, 'RUNTIME') as failure_mode, count(*) as failures, any_value(calls) as calls,
                   count(distinct session_id) as sessions, list(distinct session_id order by session_id) as session_ids,
                   list(id order by happened_at, session_id, seq)[:$most] as evidence
            from seen join totals using (tool) where outcome in ('failure', 'timeout')
            group by tool, coalesce(failure_mode, 'RUNTIME') order by failures desc, tool, 2""",
            params={"ids": newest, "most": MOST_EVIDENCE},
        ).pl().to_dicts()  # fmt: skip
        total = con.sql(
            "select count(*) as n from calls where session_id in (select unnest($ids::varchar[]))",
            params={"ids": newest},
        ).pl()["n"][0]
    return rows, newest, int(total)


def _pattern(row: dict[str, Any]) -> Pattern:
    impact = expected_impact(row["tool"], row["failures"], row["calls"], row["sessions"])
    width = impact.high - impact.low
    # By the width of the interval: a narrow one is a rate one can rely on, a wide one is a hint.
    confidence: Literal["low", "medium", "high"] = (
        "high" if width < 0.15 else "medium" if width < 0.3 else "low"
    )
    return Pattern(
        tool=row["tool"], failure_mode=row["failure_mode"], failures=row["failures"], calls=row["calls"], sessions=row["sessions"],
        per_session=round(row["failures"] / row["sessions"], 1), confidence=confidence, session_ids=tuple(row["session_ids"]),
        evidence=tuple(row["evidence"]),
    )  # fmt: skip


def _reflections(ws: Workspace) -> dict[str, list[str]]:
    """Living lessons by the tool that they are about."""
    found: dict[str, list[str]] = {}
    for memory in ws.memory.rows(category=Category.REFLECTION, status=Status.ACTIVE):
        found.setdefault(str(memory.payload.get("tool") or ""), []).append(memory.id)
    return found


def _propose(ws: Workspace, pattern: Pattern, reflections: dict[str, list[str]], run_id: str) -> Proposal:
    shown = ", ".join(pattern.session_ids[:6]) + (", …" if len(pattern.session_ids) > 6 else "")
    built = [
        tool
        for tool in ws.tools.list("proposed", "probationary", "stable")
        if tool.wraps == pattern.tool and tool.failure_mode == pattern.failure_mode
    ]
    loaded = next((tool for tool in built if tool.status in ("probationary", "stable")), None)
    proposed = next((tool for tool in built if tool.status == "proposed"), None)
    impact = expected_impact(pattern.tool, pattern.failures, pattern.calls, pattern.sessions)
    text = (
        f"{pattern.failures} failures across {pattern.sessions} sessions (avg {pattern.per_session}/session), "
        f"{pattern.calls} calls in all. Sessions: {shown}."
    )
    if proposed is not None:
        text += f" The tool {proposed.name} was built for it and waits for a decision."
    elif loaded is not None:
        text += f" The tool {loaded.name} was built for it, and the failures go on: is it used?"
    payload: dict[str, Any] = {"tool": pattern.tool, "failure_mode": pattern.failure_mode}
    kind = "code-fix"
    if proposed is not None:
        kind = "new-tool" if proposed.version == 1 else "modify-tool"
        payload |= {
            "tool": proposed.name,
            "version": proposed.version,
            "sha256": proposed.sha256,
            "source": ws.tools.source(proposed.name),
        }
    elif loaded is None:
        design, why = _designed(ws, pattern)
        if design is not None:
            kind = "new-tool"
            text += f" Proposed: {design.name}, which turns the recorded failures. {design.description}"
            payload |= {"tool": design.name, "source": design.source, "design": design.to_json()}
        else:
            payload |= {"root_cause": why, "suggested_fix": ""}
            text += f" No tool settles it: {why}."
    new_tool = kind in ("new-tool", "modify-tool")
    return ws.proposals.propose(
        type=kind,
        title=f"{'New tool' if new_tool else 'Fix'} for '{pattern.tool}:{pattern.failure_mode}'",
        description=text,
        evidence=(*pattern.evidence, *reflections.get(pattern.tool, [])[:5]),
        payload=payload,
        base={"tool": proposed.name, "version": proposed.version} if proposed else {},
        expected_impact=impact.to_json(),
        confidence=pattern.confidence,
        risk="low",
        proposed_by="maintenance",
        run_id=run_id,
        key=f"maintenance:{pattern.tool}:{pattern.failure_mode}:{kind}",
    )


def _designed(ws: Workspace, pattern: Pattern) -> tuple[Design | None, str]:
    """A tool that turns the recorded failures of a pattern, or why there is none."""
    calls = ws.telemetry.invocations(session_ids=pattern.session_ids)
    made = design_tool(gather(calls, pattern.tool, pattern.failure_mode))
    if isinstance(made, Refusal):
        return None, made.reason
    limits = Limits(seconds=ws.settings.tools.seconds, memory_mb=ws.settings.tools.memory_mb)
    fault = try_design(made, limits, ws.settings.tools.allowed_imports).fault
    return (None, fault) if fault else (made, "")


def _tools(ws: Workspace, sessions: list[str], run_id: str) -> list[Proposal]:
    """Tools of the library that fail more than they work, or that nobody used."""
    proposals = []
    for tool in ws.tools.list("probationary", "stable"):
        uses = [use for use in ws.tools.uses(tool.name) if use.version == tool.version]
        bad = sum(use.outcome != "ok" for use in uses)
        if len(uses) >= 4 and bad * 2 > len(uses):
            why = f"{bad} of {len(uses)} uses failed"
        elif (
            not uses
            and len(sessions) >= _UNUSED_SESSIONS
            and _sessions_since(ws, tool.updated_at) >= _UNUSED_SESSIONS
        ):
            why = f"no use in the last {len(sessions)} sessions"
        else:
            continue
        proposals.append(
            ws.proposals.propose(
                type="retire-tool", title=f"Retire {tool.name}", description=f"{why}. {tool.description}", evidence=tool.evidence,
                payload={"tool": tool.name, "version": tool.version}, base={"tool": tool.name, "version": tool.version},
                expected_impact=expected_impact(tool.name, bad, len(uses), len(sessions)).to_json() if uses else {},
                confidence="medium", risk="medium", proposed_by="maintenance", run_id=run_id, key=f"retire:{tool.name}:{tool.version}",
            )
        )  # fmt: skip
    return proposals


def _sessions_since(ws: Workspace, since: datetime) -> int:
    frame = ws.telemetry.calls_frame(since=since, columns=["session_id"])
    return int(frame["session_id"].n_unique())


def _by_plugins(ws: Workspace, run_id: str) -> list[Proposal]:
    proposals = []
    for offered in call_hook(ws, "generate_maintenance_proposals", ws):
        for fields in offered or []:
            if not fields.get("evidence"):
                continue  # evidence or nothing: what rests on nothing is not proposed
            proposals.append(ws.proposals.propose(**{"proposed_by": "plugin", **fields, "run_id": run_id}))
    return proposals
