"""What awaits and what was decided: proposals by state, and decisions by reviewer over time; builds of the tool library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sitoolkit.views.charts._base import WIDTH, as_frame, data, finish, labels, nothing_yet, scale
from sitoolkit.views.theme import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION

if TYPE_CHECKING:
    from sitoolkit.views.charts._base import AnyChart

__all__ = ["proposals_funnel", "reviewer_throughput", "tool_backlog"]

_STATES = {
    "pending": SKY, "deferred": GREY, "approved": BLUE, "modified": PURPLE, "implemented": GREEN, "rejected": VERMILION,
    "failed": "#9c2b00", "undone": ORANGE, "stale": "#b9c0c8",
}  # fmt: skip
_VERDICTS = {
    "approve": GREEN,
    "modify": PURPLE,
    "reject": VERMILION,
    "defer": GREY,
    "escalate": ORANGE,
    "undo": SKY,
}


def proposals_funnel(proposals: Any) -> AnyChart:
    """Proposals by type and by how far they came.

    >>> charts.proposals_funnel(ws.proposals.list())

    Args:
        proposals: rows with `type, state`; counted here.
    """
    import altair as alt
    import polars as pl

    frame = as_frame(proposals, {"type": "str", "state": "str"})
    if frame.is_empty():
        return nothing_yet("Proposals", "nothing was proposed yet: sitoolkit maintenance, sitoolkit triage")
    counted = (
        frame.with_columns(pl.col("state").fill_null("pending"), labels("type", 24))
        .group_by("type", "state")
        .len("proposals")
    )
    order = {state: index for index, state in enumerate(_STATES)}
    counted = counted.with_columns(
        pl.col("state").replace_strict(order, default=99, return_dtype=pl.Int64).alias("step")
    ).sort("type", "step")
    pending = int(counted.filter(pl.col("state").is_in(["pending", "deferred"]))["proposals"].sum())
    return finish(
        alt.Chart(data(counted))
        .mark_bar()
        .encode(
            x=alt.X("proposals:Q", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("type:N", title=None, sort="-x"),
            color=alt.Color("state:N", scale=scale(_STATES, counted["state"].unique())),
            order=alt.Order("step:Q"),
            tooltip=["type:N", "state:N", "proposals:Q"],
        ),
        "Proposals",
        f"{pending:,} of {frame.height:,} await a decision",
        f"Proposals by type and state: {pending} of {frame.height} await a decision.",
        width=WIDTH,
        height=alt.Step(22),
    )


def reviewer_throughput(decisions: Any) -> AnyChart:
    """Decisions a day by verdict, a row a reviewer.

    Args:
        decisions: rows with `at, by, verdict`; counted here.
    """
    import altair as alt
    import polars as pl

    frame = as_frame(decisions, {"at": "datetime", "by": "str", "verdict": "str"}).drop_nulls("at")
    if frame.is_empty():
        return nothing_yet("Decisions", "nobody has decided yet: notebook 05, or sitoolkit review list")
    counted = (
        frame.with_columns(labels("by", 24))
        .group_by("by", "verdict", pl.col("at").dt.truncate("1d").alias("day"))
        .len("decisions")
        .with_columns(pl.col("day").dt.strftime("%Y-%m-%d").alias("on"))
        .sort("day", "by", "verdict")
        .tail(2000)
    )
    return finish(
        alt.Chart(data(counted))
        .mark_bar()
        .encode(
            x=alt.X(
                "day:T",
                timeUnit="utcyearmonthdate",
                title=None,
                axis=alt.Axis(format="%d %b", labelAngle=0, tickCount=6),
            ),
            y=alt.Y("decisions:Q", axis=alt.Axis(tickMinStep=1)),
            color=alt.Color("verdict:N", scale=scale(_VERDICTS, counted["verdict"].unique())),
            row=alt.Row("by:N", title=None, header=alt.Header(labelAngle=0, labelAlign="left")),
            tooltip=["by:N", "verdict:N", "on:N", "decisions:Q"],
        ),
        "Decisions",
        f"{frame.height:,} by {frame['by'].n_unique()} reviewers",
        "Decisions a day by reviewer and verdict.",
        width=WIDTH - 120,
        height=90,
    )


def tool_backlog(sessions: Any) -> AnyChart:
    """Failure modes without a tool, and tools built, session by session.

    Args:
        sessions: rows with `session` (number), `backlog`, `builds` (both running totals).
    """
    import altair as alt
    import polars as pl

    frame = (
        as_frame(sessions, {"session": "int", "backlog": "int", "builds": "int"})
        .drop_nulls("session")
        .sort("session")
    )
    if frame.is_empty():
        return nothing_yet("Build it now", "no friction has led to a tool yet")
    if frame.height > 600:
        frame = frame.gather_every(-(-frame.height // 600))
    long = frame.unpivot(index="session", variable_name="what", value_name="count").drop_nulls("count")
    names = {"backlog": "failure modes without a tool", "builds": "tools built"}
    long = long.with_columns(pl.col("what").replace(names))
    return finish(alt.Chart(data(long))
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("session:Q", title="session"),
            y=alt.Y("count:Q", title=None),
            color=alt.Color("what:N", title=None, scale=alt.Scale(domain=list(names.values()), range=[VERMILION, GREEN])),
            tooltip=["session:Q", "what:N", "count:Q"],
        ), "Build it now", "running totals", "Failure modes without a tool and tools built, by session.", width=WIDTH, height=180)  # fmt: skip
