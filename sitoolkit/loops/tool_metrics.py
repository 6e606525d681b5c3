"""How build-it-now does: the journal and the tool library come in, a frame of pairs and one of the backlog go out."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from sitoolkit.stores.tools import STABLE_AFTER_USES, ToolStatus, ToolUse

if TYPE_CHECKING:
    import polars as pl

    from sitoolkit.workspace import Workspace

__all__ = ["tool_backlog", "tool_metrics"]

_Pair = tuple[str, str]
_LOADED: tuple[ToolStatus, ...] = ("probationary", "stable")
_COUNTS = ("loaded", "proposed", "refused", "rolled_back")


def tool_metrics(ws: Workspace) -> pl.DataFrame:
    """One row a pair of tool and failure mode that friction was fired for.

    >>> tool_metrics(ws).select("tool", "failure_mode", "refused", "reason")       # doctest: +SKIP

    Returns:
        `tool, failure_mode, sessions` (in which it fired), `builds, loaded, proposed, refused, rolled_back, reason` (of the
        last build that gave one), `built, status` (the tool and what it is now), `turned` (recorded failures that the tool
        turned in its test), `uses, good_uses, regressions` (uses that failed after the version had earned `stable`),
        `settled` (a probationary or stable tool is there).
    """
    import polars as pl

    sessions: defaultdict[_Pair, set[str]] = defaultdict(set)
    for event in ws.journal.events("bin_event"):
        sessions[_pair(event.data)].add(str(event.data["session_id"]))
    builds: defaultdict[_Pair, list[dict[str, Any]]] = defaultdict(list)
    for entry in ws.journal.events("build_ended"):
        builds[_pair(entry.data)].append(entry.data)
    tools = {tool.name: tool for tool in ws.tools.list()}
    rows = []
    for pair in sorted({*sessions, *builds}):
        ended = builds[pair]
        counts = Counter(build["status"] for build in ended)
        made = [str(build["built"]) for build in ended if build.get("built") in tools]
        # A tool that runs counts before one that waits; of equals, the newest.
        name = max(
            enumerate(made),
            key=lambda item: (tools[item[1]].status in _LOADED, item[0]),
            default=(0, None),
        )[1]
        uses = [use for tool in dict.fromkeys(made) for use in ws.tools.uses(tool)]
        rows.append(
            {
                "tool": pair[0],
                "failure_mode": pair[1],
                "sessions": len(sessions[pair]),
                "builds": len(ended),
                **{status: counts[status] for status in _COUNTS},
                "reason": next(
                    (build["reason"] for build in reversed(ended) if build.get("reason")),
                    None,
                ),
                "built": name,
                "status": tools[name].status if name else None,
                "turned": max(
                    (int(build.get("turned", 0)) for build in ended if build.get("built")), default=0
                ),
                "uses": len(uses),
                "good_uses": sum(use.outcome == "ok" for use in uses),
                "regressions": sum(_regressions(ws.tools.uses(tool)) for tool in dict.fromkeys(made)),
                "settled": name is not None and tools[name].status in _LOADED,
            }
        )
    texts = {"tool", "failure_mode", "reason", "built", "status"}
    names = [
        "tool", "failure_mode", "sessions", "builds", *_COUNTS, "reason", "built", "status", "turned", "uses", "good_uses",
        "regressions", "settled",
    ]  # fmt: skip
    return pl.DataFrame(
        rows,
        schema={
            name: pl.String if name in texts else pl.Boolean if name == "settled" else pl.Int64
            for name in names
        },
    )


def _regressions(uses: list[ToolUse]) -> int:
    """Uses that failed after their version had `STABLE_AFTER_USES` good ones."""
    good: Counter[int] = Counter()
    failed = 0
    for use in uses:
        if use.outcome == "ok":
            good[use.version] += 1
        elif good[use.version] >= STABLE_AFTER_USES:
            failed += 1
    return failed


def tool_backlog(ws: Workspace) -> pl.DataFrame:
    """Pairs that fired and are not settled, and tools that were built, after each session in which friction fired.

    Returns:
        `session` (1, 2, …, in order of the events' time), `session_id`, `backlog`, `builds`, both running totals. A pair
        leaves the backlog at the session whose event built the tool that runs now; a tool that waits for a person or was
        retired settles nothing.
    """
    import polars as pl

    events = [entry.data for entry in ws.journal.events("bin_event")]
    order = sorted(events, key=lambda event: (str(event.get("at") or ""), str(event["session_id"])))
    sessions = list(dict.fromkeys(str(event["session_id"]) for event in order))
    living = {(tool.name, tool.version) for tool in ws.tools.list(*_LOADED)}
    built = [entry.data for entry in ws.journal.events("build_ended") if entry.data.get("built")]
    fired: defaultdict[str, set[_Pair]] = defaultdict(set)
    for event in order:
        fired[str(event["session_id"])].add(_pair(event))
    settled: defaultdict[str, set[_Pair]] = defaultdict(set)
    for build in built:
        if (build["built"], build["version"]) in living:
            settled[str(build["session_id"])].add(_pair(build))
    tools: Counter[str] = Counter(str(build["session_id"]) for build in built)
    seen: set[_Pair] = set()
    done: set[_Pair] = set()
    total = 0
    rows = []
    for number, session in enumerate(sessions, 1):
        seen |= fired[session]
        done |= settled[session]
        total += tools[session]
        rows.append({"session": number, "session_id": session, "backlog": len(seen - done), "builds": total})
    return pl.DataFrame(
        rows,
        schema={"session": pl.Int64, "session_id": pl.String, "backlog": pl.Int64, "builds": pl.Int64},
    )


def _pair(data: dict[str, Any]) -> _Pair:
    return str(data["tool"]), str(data["failure_mode"])
