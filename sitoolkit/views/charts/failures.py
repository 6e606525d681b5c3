"""What goes wrong: friction by tool and mode, error signatures by count, and whether a lesson helped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sitoolkit.plain import as_plain
from sitoolkit.views.charts._base import WIDTH, as_frame, data, finish, labels, nothing_yet, scale, top
from sitoolkit.views.theme import BLUE, GREY, ORANGE, VERMILION

if TYPE_CHECKING:
    from sitoolkit.views.charts._base import AnyChart

__all__ = ["friction_heatmap", "lesson_effect", "signature_pareto", "wilson"]

_MINUTE = "%Y-%m-%d %H:%M UTC"
_SEVERITIES = {"critical": "#9c2b00", "error": VERMILION, "warning": ORANGE, "info": GREY}


def friction_heatmap(failures: Any, *, tools: int = 20, sessions: int = 30) -> AnyChart:
    """How often each tool failed in each way; click a field and the sessions below follow.

    >>> charts.friction_heatmap(ws.sql("select tool, failure_mode, session_id, 1 as count from calls where outcome = 'failure'"))

    Args:
        failures: rows with `tool, failure_mode, session_id, count` (a row without a count counts as one): failed calls or BIN events.
        tools: how many tools are shown, those with most failures.
        sessions: how many sessions are shown below.
    """
    import altair as alt
    import polars as pl

    frame = as_frame(failures, {"tool": "str", "failure_mode": "str", "session_id": "str", "count": "int"})
    if frame.is_empty():
        return nothing_yet("Friction", "no failures in what was captured")
    frame = (
        frame.with_columns(pl.col("count").fill_null(1))
        .group_by("tool", "failure_mode", "session_id")
        .agg(pl.col("count").sum())
        .with_columns(labels("tool", 32), labels("failure_mode", 24), labels("session_id", 28))
    )
    named = top(frame, "tool", "count", tools)
    frame = frame.filter(pl.col("tool").is_in(named))
    cells = (
        frame.group_by("tool", "failure_mode")
        .agg(pl.col("count").sum(), pl.col("session_id").n_unique().alias("sessions"))
        .sort("tool", "failure_mode")
    )
    shown = top(frame, "session_id", "count", sessions)
    below = frame.filter(pl.col("session_id").is_in(shown)).sort("session_id", "tool", "failure_mode")
    pick = alt.selection_point(name="cell", fields=["tool", "failure_mode"], on="click", empty=True)
    most = int(cells["count"].max() or 1)  # type: ignore[arg-type]
    base = alt.Chart(data(cells)).encode(
        x=alt.X("failure_mode:N", title=None, axis=alt.Axis(labelAngle=0, orient="top")),
        y=alt.Y("tool:N", sort=named, title=None),
    )
    heat = base.mark_rect(cornerRadius=3).encode(
        color=alt.Color("count:Q", title="failures", scale=alt.Scale(domain=[0, most])),
        opacity=alt.condition(pick, alt.value(1), alt.value(0.3)),
        tooltip=["tool:N", "failure_mode:N", "count:Q", "sessions:Q"],
    )
    numbers = base.mark_text().encode(
        text="count:Q",
        color=alt.condition(alt.datum.count > most * 0.7, alt.value("white"), alt.value("#1f2733")),
    )
    upper = alt.layer(heat.add_params(pick), numbers).properties(width=WIDTH, height=alt.Step(26))
    lower = (
        alt.Chart(data(below))
        .mark_bar()
        .encode(
            x=alt.X("sum(count):Q", title="failures", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("session_id:N", sort="-x", title="session"),
            color=alt.value(VERMILION),
            tooltip=["session_id:N", alt.Tooltip("sum(count):Q", title="failures")],
        )
        .transform_filter(pick)
        .properties(width=WIDTH, height=alt.Step(15))
    )
    subtitle = f"{int(frame['count'].sum()):,} failures in {frame['session_id'].n_unique():,} sessions; click a field"
    return finish(
        alt.vconcat(upper, lower),
        "Friction: tool × failure mode",
        subtitle,
        f"Failures by tool and mode. {subtitle}.",
    )


def signature_pareto(signatures: Any, *, limit: int = 20) -> AnyChart:
    """Error signatures by count with the share they sum up to, and when each was first and last seen.

    >>> charts.signature_pareto(report.signatures)

    Args:
        signatures: rows with `signature, count, severity, first_seen, last_seen`.
        limit: how many are shown.
    """
    import altair as alt
    import polars as pl

    frame = as_frame(
        signatures,
        {
            "signature": "str",
            "count": "int",
            "severity": "str",
            "first_seen": "datetime",
            "last_seen": "datetime",
        },
    )
    if frame.is_empty():
        return nothing_yet("Error signatures", "no errors in telemetry or logs within the window")
    total = int(frame["count"].sum())
    frame = (
        frame.sort(["count", "signature"], descending=[True, False])
        .with_columns((pl.col("count").cum_sum() / max(total, 1)).alias("share"))
        .head(limit)
        .with_columns(
            labels("signature", 64),
            pl.col("severity").fill_null("error").str.to_lowercase(),
            pl.col("first_seen").dt.strftime(_MINUTE).alias("first"),
            pl.col("last_seen").dt.strftime(_MINUTE).alias("last"),
        )
    )
    order = frame["signature"].to_list()
    y = alt.Y("signature:N", sort=order, title=None, axis=alt.Axis(labelLimit=380))
    bars = (
        alt.Chart()
        .mark_bar()
        .encode(
            y=y,
            x=alt.X("count:Q", title="events"),
            color=alt.Color("severity:N", scale=scale(_SEVERITIES, frame["severity"])),
            tooltip=[
                "signature:N",
                "count:Q",
                alt.Tooltip("share:Q", format=".0%", title="sums up to"),
                "severity:N",
            ],
        )
        .properties(width=300, height=alt.Step(20))
    )
    shares = bars.mark_text(align="left", dx=4).encode(
        x="count:Q", text=alt.Text("share:Q", format=".0%"), color=alt.value(GREY)
    )
    layers = alt.layer(bars, shares).properties(width=300, height=alt.Step(20))
    seen = (
        alt.Chart()
        .mark_bar(height=6)
        .encode(
            y=alt.Y("signature:N", sort=order, title=None, axis=None),
            x=alt.X(
                "first_seen:T",
                scale=alt.Scale(type="utc"),
                title="first to last seen (UTC)",
                axis=alt.Axis(tickCount=4, labelAngle=0, format="%d %b %H:%M"),
            ),
            x2="last_seen:T",
            color=alt.Color("severity:N", scale=scale(_SEVERITIES, frame["severity"]), legend=None),
            tooltip=["signature:N", "first:N", "last:N"],
        )
        .transform_filter("datum.first_seen !== null")
        .properties(width=220, height=alt.Step(20))
    )
    points = seen.mark_point(size=40).encode(x2=alt.X2())
    subtitle = f"{total:,} events; the percentages are running sums"
    return finish(
        alt.hconcat(
            layers, alt.layer(seen, points).properties(width=220, height=alt.Step(20)), data=data(frame)
        ),
        "Error signatures",
        subtitle,
        f"Error signatures by count. {subtitle}.",
    )


def lesson_effect(lessons: Any, *, limit: int = 20) -> AnyChart:
    """The failure rate that a lesson is about, before and after it was written, each with its 95 % interval.

    Args:
        lessons: what `lesson_effects` gives, or rows with `lesson, failures_before, calls_before, failures_after, calls_after`.
        limit: how many are shown, those with most calls after.
    """
    import altair as alt
    import polars as pl

    if not isinstance(lessons, pl.DataFrame):
        lessons = [_counts(row) for row in lessons or ()]
    names = ("failures_before", "calls_before", "failures_after", "calls_after")
    frame = as_frame(lessons, {"lesson": "str", **dict.fromkeys(names, "int")}).fill_null(0)
    frame = frame.filter(pl.col("calls_before") + pl.col("calls_after") > 0)
    if frame.is_empty():
        return nothing_yet("Lesson effect", "no lesson has calls before and after it yet")
    frame = frame.sort(["calls_after", "lesson"], descending=[True, False]).head(limit)
    rows = []
    for row in frame.iter_rows(named=True):
        for when in ("before", "after"):
            k, n = row[f"failures_{when}"], row[f"calls_{when}"]
            if n:
                low, high = wilson(k, n)
                rows.append(
                    {
                        "lesson": row["lesson"],
                        "when": when,
                        "rate": k / n,
                        "low": low,
                        "high": high,
                        "failures": k,
                        "calls": n,
                    }
                )
    long = pl.DataFrame(rows).with_columns(labels("lesson", 56))
    base = alt.Chart(data(long)).encode(
        y=alt.Y("lesson:N", sort=None, title=None, axis=alt.Axis(labelLimit=360)),
        yOffset=alt.YOffset("when:N", sort=["before", "after"]),
        color=alt.Color(
            "when:N", scale=alt.Scale(domain=["before", "after"], range=[VERMILION, BLUE]), title=None
        ),
        tooltip=["lesson:N", "when:N", "failures:Q", "calls:Q", alt.Tooltip("rate:Q", format=".1%")],
    )
    span = base.mark_rule(strokeWidth=2).encode(
        x=alt.X(
            "low:Q",
            title="failure rate with 95 % interval",
            axis=alt.Axis(format="%"),
            scale=alt.Scale(domainMin=0),
        ),
        x2="high:Q",
    )
    return finish(
        alt.layer(span, base.mark_point(size=70).encode(x="rate:Q")),
        "Lessons: failure rate before and after",
        "an interval that does not overlap is a difference",
        "Failure rate before and after each lesson with its 95 percent interval.",
        width=WIDTH - 200,
        height=alt.Step(14),
    )


def _counts(row: Any) -> dict[str, Any]:
    plain: dict[str, Any] = as_plain(row)
    if "before" not in plain:
        return plain
    (failures_before, calls_before), (failures_after, calls_after) = plain["before"], plain["after"]
    return {
        "lesson": f"{plain['tool']}: {plain['signature']}",
        "failures_before": failures_before,
        "calls_before": calls_before,
        "failures_after": failures_after,
        "calls_after": calls_after,
    }


def wilson(k: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a rate of `k` in `n`."""
    # Wilson (1927): keeps within 0..1 and is honest for few calls.
    p = k / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)
