"""Whether lessons help: comes in a workspace, goes out the failure counts of each lesson's tool before and after it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["lesson_effects"]


def lesson_effects(ws: Workspace) -> list[dict[str, Any]]:
    """Calls and failures of the tool that a lesson is about, before and after the lesson was first written.

    >>> charts.lesson_effect(lesson_effects(ws))

    A lesson that superseded another counts from the first of the line: its words changed, not what it is about.

    Returns:
        `lesson, tool, since, failures_before, calls_before, failures_after, calls_after` for each active lesson about a tool.
    """
    import polars as pl

    rows = ws.memory.rows(category="reflection")
    begun = {row.id: row.created_at for row in rows}
    older = {row.id: row.supersedes for row in rows}
    calls = ws.telemetry.calls_frame(
        columns=["tool", "outcome", "happened_at"], outcomes=["success", "failure", "timeout"]
    ).with_columns((pl.col("outcome") != "success").alias("failed"))
    found = []
    for row in rows:
        tool = row.payload.get("tool")
        if row.status != "active" or not tool:
            continue
        first: str = row.id
        while (before := older.get(first)) and before in begun:
            first = before
        since = begun[first]
        if since is None:
            continue
        part = calls.filter(pl.col("tool") == tool)
        after = part.filter(pl.col("happened_at") >= since)
        earlier = part.height - after.height
        failed_after = int(after["failed"].sum())
        found.append(
            {
                "lesson": row.text,
                "tool": tool,
                "since": since,
                "failures_before": int(part["failed"].sum()) - failed_after,
                "calls_before": earlier,
                "failures_after": failed_after,
                "calls_after": after.height,
            }
        )
    return found
