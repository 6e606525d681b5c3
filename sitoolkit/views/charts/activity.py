"""What the agents did: calls by tool and outcome over time, and one session as a time line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sitoolkit.views.charts._base import (
    OTHERS,
    WIDTH,
    as_frame,
    data,
    finish,
    labels,
    nothing_yet,
    scale,
    top,
)
from sitoolkit.views.theme import OUTCOMES

if TYPE_CHECKING:
    from sitoolkit.views.charts._base import AnyChart

__all__ = ["activity", "session_timeline"]


def activity(calls: Any, *, tools: int = 12) -> AnyChart:
    """Calls by tool, and by day and outcome; click a tool and the days below follow.

    >>> charts.activity(ws.telemetry.calls_frame())

    Args:
        calls: rows with `tool, outcome, started_at`; counted here, so any number will do.
        tools: how many tools are named; the rest is one row.
    """
    import altair as alt
    import polars as pl

    frame = as_frame(calls, {"tool": "str", "outcome": "str", "started_at": "datetime"})
    if frame.is_empty():
        return nothing_yet("Calls", "take transcripts in: sitoolkit capture PATH")
    counted = frame.group_by("tool", "outcome", pl.col("started_at").dt.date().alias("day")).len("calls")
    counted = counted.with_columns(labels("tool", 32), pl.col("outcome").fill_null("unknown"))
    named = top(counted, "tool", "calls", tools)
    undated = int(counted.filter(pl.col("day").is_null())["calls"].sum())
    step = _step(counted["day"].drop_nulls())
    counted = (
        counted.with_columns(
            pl.when(pl.col("tool").is_in(named)).then("tool").otherwise(pl.lit(OTHERS)).alias("tool"),
            pl.col("day").cast(pl.Datetime("us", "UTC")).dt.truncate(step),
        )
        .group_by("tool", "outcome", "day")
        .agg(pl.col("calls").sum())
        .sort("day", "tool", "outcome", nulls_last=True)
        .with_columns(pl.col("day").dt.strftime("%Y-%m-%d").alias("on"))
    )
    pick = alt.selection_point(name="tool", fields=["tool"], on="click", empty=True)
    colour = alt.Color(
        "outcome:N", scale=scale(OUTCOMES, counted["outcome"]), legend=alt.Legend(title="outcome")
    )
    total, failed = (
        int(counted["calls"].sum()),
        int(counted.filter(pl.col("outcome").is_in(["failure", "timeout"]))["calls"].sum()),
    )
    order = [*named, OTHERS]
    by_tool = (
        alt.Chart()
        .mark_bar()
        .encode(
            x=alt.X("sum(calls):Q", title="calls"),
            y=alt.Y("tool:N", sort=order, title=None),
            color=colour,
            opacity=alt.condition(pick, alt.value(1), alt.value(0.25)),
            tooltip=["tool:N", "outcome:N", alt.Tooltip("sum(calls):Q", title="calls")],
        )
        .properties(width=WIDTH, height=alt.Step(19))
        .add_params(pick)
    )
    by_day = (
        alt.Chart()
        .mark_bar()
        .encode(
            x=alt.X(
                "day:T",
                timeUnit=_UNITS[step],
                title=None,
                axis=alt.Axis(format="%d %b %Y", labelAngle=0, tickCount=6),
            ),
            y=alt.Y("sum(calls):Q", title=f"calls a {_STEPS[step]}"),
            color=colour,
            tooltip=[
                alt.Tooltip("on:N", title=f"{_STEPS[step]} from"),
                "outcome:N",
                alt.Tooltip("sum(calls):Q", title="calls"),
            ],
        )
        .transform_filter(pick)
        .transform_filter("datum.day !== null")
        .properties(width=WIDTH, height=130)
    )
    subtitle = (
        f"{total:,} calls of {frame['tool'].n_unique()} tools, {failed / total:.0%} failed or timed out"
    )
    if undated:
        subtitle += f"; {undated:,} without a time are not on the time axis"
    return finish(
        alt.vconcat(by_tool, by_day, data=data(counted)),
        "Calls by tool and outcome",
        subtitle,
        f"Calls by tool, outcome and time. {subtitle}.",
    )


# Named in UTC, so that the host's zone moves no bar to another day.
_UNITS: dict[str, Any] = {"1d": "utcyearmonthdate", "1w": "utcyearweek", "1mo": "utcyearmonth"}
_STEPS = {"1d": "day", "1w": "week", "1mo": "month"}


def _step(days: Any) -> str:
    """Days up to half a year, weeks up to three, then months: never more than some 200 bars."""
    span = (days.max() - days.min()).days if len(days) else 0
    return "1d" if span <= 183 else "1w" if span <= 1100 else "1mo"


def session_timeline(calls: Any, events: Any = (), *, limit: int = 400) -> AnyChart:
    """One session's calls as bars in order, with corrections and recalls as marks.

    >>> charts.session_timeline(session.calls, corrections)

    Args:
        calls: rows with `seq, tool, outcome, started_at, duration_ms, error`.
        events: rows with `kind` (`correction`, `recall` …), `at` and `text`; drawn where the session has times.
        limit: at most so many calls; of a longer session the last.
    """
    import altair as alt
    import polars as pl

    frame = as_frame(
        calls,
        {
            "seq": "int",
            "tool": "str",
            "outcome": "str",
            "started_at": "datetime",
            "duration_ms": "float",
            "error": "str",
        },
    ).sort("seq", nulls_last=True)
    if frame.is_empty():
        return nothing_yet("Session", "this session made no calls")
    cut = frame.height - limit
    frame = frame.tail(limit).with_columns(
        labels("tool", 32), labels("error", 120), pl.col("outcome").fill_null("unknown")
    )
    timed = frame["started_at"].null_count() == 0
    if timed:
        length = pl.col("duration_ms").fill_null(0).clip(lower_bound=1).cast(pl.Int64)
        frame = frame.with_columns(
            pl.col("started_at").alias("from"),
            (pl.col("started_at") + pl.duration(milliseconds=length)).alias("to"),
        )
        x, x2 = (
            alt.X(
                "from:T", title="time (UTC)", scale=alt.Scale(type="utc"), axis=alt.Axis(format="%H:%M:%S")
            ),
            alt.X2("to:T"),
        )
    else:
        frame = frame.with_columns(pl.col("seq").alias("from"), (pl.col("seq") + 0.9).alias("to"))
        x, x2 = (
            alt.X("from:Q", title="call (no times in this transcript)", axis=alt.Axis(tickMinStep=1)),
            alt.X2("to:Q"),
        )
    bars = (
        alt.Chart(data(frame.drop("started_at")))
        .mark_bar(height=14, minBandSize=3)
        .encode(
            x=x,
            x2=x2,
            y=alt.Y("tool:N", sort=frame["tool"].unique(maintain_order=True).to_list(), title=None),
            color=alt.Color("outcome:N", scale=scale(OUTCOMES, frame["outcome"])),
            tooltip=["seq:Q", "tool:N", "outcome:N", "duration_ms:Q", "error:N"],
        )
    )
    layers: list[Any] = [bars]
    marks = as_frame(events, {"kind": "str", "at": "datetime", "text": "str"}).drop_nulls("at").tail(limit)
    if timed and not marks.is_empty():
        marks = marks.with_columns(labels("kind", 24), labels("text", 160))
        points = alt.Chart(data(marks))
        layers.append(
            points.mark_rule(strokeDash=[3, 3]).encode(x=alt.X("at:T"), tooltip=["kind:N", "text:N"])
        )
        layers.append(
            points.mark_point(size=90).encode(
                x=alt.X("at:T"),
                y=alt.value(-6),
                shape=alt.Shape("kind:N", title="event"),
                tooltip=["kind:N", "text:N"],
            )
        )
    failed = frame.filter(pl.col("outcome").is_in(["failure", "timeout"])).height
    subtitle = f"{frame.height} calls, {failed} failed" + (
        f"; the first {cut:,} are left out" if cut > 0 else ""
    )
    return finish(
        alt.layer(*layers),
        "Session",
        subtitle,
        f"Time line of one session: {subtitle}.",
        width=WIDTH,
        height=alt.Step(22),
    )
