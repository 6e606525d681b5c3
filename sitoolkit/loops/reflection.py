"""What one session teaches: its telemetry comes in; what worked, what failed, what could be changed and a digest go out.

The three questions of the session's end are answered by counting: a strategy that was reused is a success, a repeated
failure below the friction threshold a failure, and a proposal cites evidence from the two or is dropped. A model may word
the hypotheses, nothing more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sitoolkit.claims.contents import occurrence
from sitoolkit.error_texts import call_signature
from sitoolkit.errors import NotFoundError
from sitoolkit.learning.contrasts import Rule, find_rule, timeline_of, units_of
from sitoolkit.records import Claim, Outcome, SessionReflection, ToolInvocation, digest, iso

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["newest_sessions", "reflect", "reflect_on_session"]

LEAST_REUSE = 2  # [H] a strategy that was used at least so often is reported as a success
LEAST_FAILURES = 2  # [H] a pair that failed at least so often, and less often than friction fires, is reported as a failure
MOST = 12  # entries of each list
EVIDENCE = 8

_TYPES = {
    "TOOL_GAP": "new-tool", "ARGS": "system-prompt", "SYNTAX": "system-prompt", "NOTFOUND": "system-prompt", "CONFLICT": "system-prompt",
    "PERM": "modify-tool", "TIMEOUT": "modify-tool", "NETWORK": "modify-tool", "RUNTIME": "modify-tool",
}  # fmt: skip


def reflect(
    calls: Iterable[ToolInvocation],
    others: Iterable[ToolInvocation] = (),
    *,
    threshold: int = 3,
    tasks: int = 1,
) -> SessionReflection:
    """Reflect on the calls of one session.

    >>> reflect(session.calls).failures[0]["count"]
    2

    Args:
        calls: all calls of one session.
        others: calls of other sessions, to tell failed calls from good ones where the session alone cannot.
        threshold: failures at which friction fires; what reaches it is marked `friction` and belongs to loop 1.
        tasks: user turns that asked for something, for the digest.

    Raises:
        ValueError: no call, or calls of several sessions.
    """
    own = sorted({occurrence(call): call for call in calls}.values(), key=lambda call: (call.seq, call.id))
    sessions = {call.session_id for call in own}
    if len(sessions) != 1:
        raise ValueError(f"reflection is on one session with calls; these are of {len(sessions)}")
    everything = {occurrence(call): call for call in (*others, *own)}
    successes = _successes(own)
    failures = _failures(own, list(everything.values()), threshold)
    proposals, dropped = _proposals(
        failures, {i for entry in (*successes, *failures) for i in entry["evidence"]}
    )
    return SessionReflection(
        session_id=sessions.pop(),
        successes=tuple(successes[:MOST]),
        failures=tuple(failures[:MOST]),
        proposals=tuple(proposals[:MOST]),
        telemetry_digest=_digest(own, tasks),
        dropped_without_evidence=dropped,
    )


def _successes(own: Sequence[ToolInvocation]) -> list[dict[str, Any]]:
    """Tools that worked at least twice, with the arguments that were the same each time and what they followed."""
    by_tool: defaultdict[str, list[ToolInvocation]] = defaultdict(list)
    failed = Counter(call.tool for call in own if call.failed)
    for call in own:
        if call.outcome is Outcome.SUCCESS:
            by_tool[call.tool].append(call)
    found: list[dict[str, Any]] = []
    for tool, good in by_tool.items():
        if len(good) < LEAST_REUSE:
            continue
        shared = _shared(good)
        strategy = (
            f"`{tool}` with " + ", ".join(f"`{name}` = `{value}`" for name, value in shared)
            if shared
            else f"`{tool}`"
        )
        why = f"{len(good)} of {len(good) + failed[tool]} calls succeeded"
        mended = _mended(tool, own)
        if mended:
            why += f"; {mended}"
        found.append(
            {
                "tool": tool,
                "strategy": strategy,
                "success_count": len(good),
                "why_effective": why,
                "evidence": [occurrence(call) for call in good[:EVIDENCE]],
            }
        )
    found.sort(key=lambda entry: (-entry["success_count"], entry["tool"]))
    return found


def _shared(good: Sequence[ToolInvocation]) -> list[tuple[str, str]]:
    """Arguments that had one short value in all of the calls."""
    if not all(isinstance(call.args, dict) for call in good):
        return []
    first = good[0].args
    return [
        (name, str(value)[:60])
        for name, value in sorted(first.items())
        if isinstance(value, str | int | float | bool)
        and len(str(value)) <= 60
        and all(call.args.get(name) == value for call in good)
    ][:4]


def _mended(tool: str, own: Sequence[ToolInvocation]) -> str:
    """What changed between a failed call of the tool and the success after it."""
    line = [call for call in own if call.tool == tool]
    for before, after in pairwise(line):
        if (
            before.failed
            and after.outcome is Outcome.SUCCESS
            and isinstance(before.args, dict)
            and isinstance(after.args, dict)
        ):
            changed = sorted(
                name
                for name in before.args.keys() | after.args.keys()
                if before.args.get(name) != after.args.get(name)
            )
            if changed:
                return "after a failure it worked with another " + ", ".join(
                    f"`{name}`" for name in changed[:3]
                )
    return ""


def _failures(
    own: Sequence[ToolInvocation], everything: Sequence[ToolInvocation], threshold: int
) -> list[dict[str, Any]]:
    pairs: defaultdict[tuple[str, str], list[ToolInvocation]] = defaultdict(list)
    for call in own:
        if call.failed:
            mode = call.failure_mode or ("TIMEOUT" if call.outcome is Outcome.TIMEOUT else "UNKNOWN")
            pairs[call.tool, mode].append(call)
    timeline = timeline_of(everything)
    found: list[dict[str, Any]] = []
    for (tool, mode), bad in pairs.items():
        if len(bad) < LEAST_FAILURES:
            continue
        same = [
            call for call in everything if call.failed and call.tool == tool and call.failure_mode == mode
        ]
        good = [call for call in everything if call.tool == tool and call.outcome is Outcome.SUCCESS]
        rule = find_rule(units_of(same or bad, timeline), units_of(good, timeline))
        signatures = Counter(call_signature(call) for call in bad)
        (identifier, template), _ = min(signatures.items(), key=lambda item: (-item[1], item[0]))
        found.append(
            {
                "tool": tool,
                "failure_mode": mode,
                "count": len(bad),
                "hypothesis": _hypothesis(tool, rule, template),
                "grounded": rule is not None,
                "friction": len(bad) >= threshold,
                "signature_id": identifier,
                "signature": template[:200],
                "evidence": [occurrence(call) for call in bad[:EVIDENCE]],
            }
        )
    found.sort(key=lambda entry: (-entry["count"], entry["tool"], entry["failure_mode"]))
    return found


def _hypothesis(tool: str, rule: Rule | None, template: str) -> str:
    if rule is None:
        return f"Nothing in the arguments or the calls before tells the failed calls of `{tool}` from good ones ({template[:120]})."
    return (
        f"`{tool}` fails {rule.condition.text}: {rule.failed} of {rule.matching} such calls failed, "
        f"{rule.other_failed} of {rule.others} others did."
    )


def _proposals(failures: Sequence[dict[str, Any]], known: set[str]) -> tuple[list[dict[str, Any]], int]:
    """One proposal a failure whose evidence stands in the lists; what cites nothing is dropped and counted."""
    kept, dropped = [], 0
    for entry in failures:
        evidence = [one for one in entry["evidence"] if one in known]
        kind = _TYPES.get(str(entry["failure_mode"]).partition(".")[0], "modify-tool")
        if not evidence or (kind == "system-prompt" and not entry["grounded"]):
            dropped += 1
            continue
        kept.append(
            {
                "type": kind,
                "tool": entry["tool"],
                "failure_mode": entry["failure_mode"],
                "description": f"{entry['hypothesis']} It failed {entry['count']} times in this session.",
                "evidence": evidence,
            }
        )
    return kept, dropped


def _digest(own: Sequence[ToolInvocation], tasks: int) -> dict[str, Any]:
    calls = Counter(call.tool for call in own)
    bad = Counter(call.tool for call in own if call.failed)
    decided = Counter(call.tool for call in own if call.failed or call.outcome is Outcome.SUCCESS)
    times = sorted(call.started_at for call in own if call.started_at)
    last = max(
        (call for call in own if call.started_at), key=lambda call: call.started_at or times[0], default=None
    )
    tail = (last.duration_ms or 0.0) / 1000 if last else 0.0
    return {
        "calls": len(own),
        "tools": dict(sorted(calls.items())),
        "failure_rate": {
            tool: round(bad[tool] / decided[tool], 4) for tool in sorted(calls) if decided[tool]
        },
        "outcomes": dict(sorted(Counter(str(call.outcome) for call in own).items())),
        "duration_s": round((times[-1] - times[0]).total_seconds() + tail, 3) if times else None,
        "tasks": tasks,
        "started_at": iso(times[0]) if times else None,
        "ended_at": iso(times[-1]) if times else None,
    }


def reflect_on_session(ws: Workspace, session_id: str, *, history_days: float = 30.0) -> SessionReflection:
    """Reflect on one session of the workspace's telemetry.

    >>> reflect_on_session(ws, "ops-002").telemetry_digest["tools"]["register_service"]
    4

    Args:
        ws: the workspace.
        session_id: the session.
        history_days: how far back calls of the same tools are compared with.

    Raises:
        NotFoundError: the telemetry has no call of that session.
    """
    from datetime import timedelta

    own = list(ws.telemetry.invocations(session_ids=[session_id]))
    if not own:
        raise NotFoundError(
            f'no calls of session {session_id!r}; `sitoolkit sql "select id from sessions"` lists the sessions'
        )
    times = [call.started_at for call in own if call.started_at]
    failing = sorted({call.tool for call in own if call.failed})
    others: list[ToolInvocation] = []
    if failing:
        end = max(times) if times else None
        related = ws.telemetry.invocations(
            tools=failing, since=end - timedelta(days=history_days) if end else None, until=end
        )
        sessions = {call.session_id for call in related} - {session_id}
        others = list(ws.telemetry.invocations(session_ids=sorted(sessions))) if sessions else []
    with ws.run("reflect", session_id=session_id) as run:
        reflection = reflect(
            own, others, threshold=ws.settings.friction.threshold, tasks=_tasks(ws, session_id)
        )
        worded = _worded(ws, reflection)
        body = worded.to_json()
        fingerprint = digest(body)
        known = {str(entry.data.get("digest")) for entry in ws.journal.events("session_reflection")}
        if fingerprint not in known:  # running it twice writes nothing new
            ws.journal.append(
                "session_reflection", {"id": session_id, "digest": fingerprint, **body}, run_id=run.id
            )
    return worded


def newest_sessions(ws: Workspace, count: int = 1) -> list[str]:
    """Ids of the newest sessions of the telemetry, oldest of them first."""
    with ws.telemetry.connection(tables=("calls",)) as con:
        rows = con.execute(
            "select session_id from calls group by session_id order by max(happened_at) desc, session_id desc limit ?",
            [count],
        ).fetchall()
    return [str(row[0]) for row in reversed(rows)]


def _tasks(ws: Workspace, session_id: str) -> int:
    with ws.telemetry.connection(tables=("turns",)) as con:
        found = con.execute(
            "select count(*) from turns where session_id = ? and role = 'user'", [session_id]
        ).fetchall()
    return int(found[0][0]) or 1


def _worded(ws: Workspace, reflection: SessionReflection) -> SessionReflection:
    """A model may word the hypotheses that a contrast grounds."""
    from sitoolkit.models.wording import word_claims

    grounded = [entry for entry in reflection.failures if entry["grounded"]]
    claims = [
        Claim(
            id=f"{entry['tool']}:{entry['failure_mode']}",
            kind="contrast",
            text=entry["hypothesis"],
            support=entry["count"],
            of=entry["count"],
            evidence=tuple(entry["evidence"]),
        )
        for entry in grounded
    ]
    if not claims:
        return reflection
    wording = word_claims(
        ws.chat,
        claims,
        "hypotheses about failed calls",
        workspace=ws.path,
        prompt_tokens=ws.settings.models.prompt_tokens,
    )
    said = dict(zip((claim.id for claim in claims), wording.texts, strict=True))
    failures = tuple(
        {**entry, "hypothesis": said.get(f"{entry['tool']}:{entry['failure_mode']}", entry["hypothesis"])}
        for entry in reflection.failures
    )
    return reflection.model_copy(update={"failures": failures, "written_by": wording.written_by})
