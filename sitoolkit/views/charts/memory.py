"""What is kept: a pattern with its claims, growth by category and status, survival and decay, and a map of all memories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sitoolkit.views.charts._base import WIDTH, as_frame, data, finish, label, labels, nothing_yet, scale
from sitoolkit.views.theme import BLUE, CATEGORIES, GREY, ORANGE, STATUSES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sitoolkit.views.charts._base import AnyChart

__all__ = ["decay_curves", "memory_growth", "memory_map", "pattern_card", "survival"]

_VARIANCE = "varies"


def pattern_card(pattern: Any) -> AnyChart:
    """One pattern's claims with the share of events in which each holds; what varies stands out.

    >>> charts.pattern_card(report.patterns[0])

    Args:
        pattern: a record or dict with `tool, sample_count, claims[{text, kind, support, of}]`, or a memory with these in its payload.
    """
    import altair as alt
    import polars as pl

    from sitoolkit.plain import as_plain

    plain = as_plain(pattern) or {}
    body = {
        **(plain.get("payload") or {}),
        **{key: plain[key] for key in ("tool", "sample_count", "claims", "scope") if key in plain},
    }
    frame = as_frame(body.get("claims") or [], {"text": "str", "kind": "str", "support": "int", "of": "int"})
    name = f"Pattern: {label(body.get('tool') or 'tool', 40)}"
    if frame.is_empty():
        return nothing_yet(name, "no claim was found in its events")
    frame = frame.with_columns(
        (pl.col("support") / pl.col("of").clip(lower_bound=1)).alias("share"),
        pl.format("{} of {}", "support", "of").alias("holds"),
        labels("text", 110).str.replace_all("`", ""),
        pl.when(pl.col("kind") == "variance")
        .then(pl.lit(_VARIANCE))
        .otherwise(pl.lit("holds"))
        .alias("meaning"),
    )
    base = alt.Chart(data(frame)).encode(
        y=alt.Y("text:N", sort=frame["text"].to_list(), title=None, axis=alt.Axis(labelLimit=620)),
        tooltip=["text:N", "kind:N", "holds:N"],
    )
    bars = base.mark_bar(height=12).encode(
        x=alt.X(
            "share:Q",
            title="share of events",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format="%", tickCount=3),
        ),
        color=alt.Color(
            "meaning:N",
            title=None,
            legend=alt.Legend(orient="bottom") if frame["meaning"].n_unique() > 1 else None,
            scale=alt.Scale(domain=["holds", _VARIANCE], range=[BLUE, ORANGE]),
        ),
    )
    text = base.mark_text(align="left", dx=4).encode(x="share:Q", text="holds:N")
    events = body.get("sample_count")
    subtitle = f"{frame.height} claims from {events} events" if events else f"{frame.height} claims"
    if body.get("scope"):
        subtitle += f", {label(body['scope'], 40)}"
    return finish(
        alt.layer(bars, text), name, subtitle, f"{name}: {subtitle}.", width=220, height=alt.Step(22)
    )


_MEMORY = {"category": "str", "status": "str", "created_at": "datetime", "ended_at": "datetime"}


def memory_growth(memories: Any) -> AnyChart:
    """Active memories by category over time, and how many stand in each status now.

    >>> charts.memory_growth(ws.memory.frame())

    Args:
        memories: rows with `category, status, created_at, ended_at`; counted here, so any number will do.
    """
    import altair as alt
    import polars as pl

    frame = as_frame(memories, _MEMORY)
    if frame.is_empty():
        return nothing_yet(
            "Memories", "capture transcripts, then distill: sitoolkit capture PATH; sitoolkit distill"
        )
    begun = frame.group_by("category", pl.col("created_at").dt.date().alias("day")).agg(
        pl.len().cast(pl.Int64).alias("change")
    )
    ended = (
        frame.drop_nulls("ended_at")
        .group_by("category", pl.col("ended_at").dt.date().alias("day"))
        .agg((-pl.len().cast(pl.Int64)).alias("change"))
    )
    changes = (
        pl.concat([begun, ended]).drop_nulls("day").group_by("category", "day").agg(pl.col("change").sum())
    )
    days = changes.select(pl.col("day").unique().sort())
    if days.height > 200:  # one point a day is enough up to half a year; above, 200 evenly spaced ones
        keep = sorted({round(index * (days.height - 1) / 199) for index in range(200)})
        days = days[keep]
    grid = days.join(changes.select("category").unique(), how="cross").sort("category", "day")
    running = changes.sort("category", "day").with_columns(
        pl.col("change").cum_sum().over("category").alias("active")
    )
    running = (
        grid.sort("day")
        .join_asof(
            running.select("category", "day", "active").sort("day"),
            on="day",
            by="category",
            check_sortedness=False,
        )
        .with_columns(
            pl.col("active").fill_null(0).clip(lower_bound=0), pl.col("day").cast(pl.Datetime("us", "UTC"))
        )
        .sort("category", "day")
    )
    now = frame.group_by("category", "status").len("rows").sort("category", "status")
    over_time = (
        alt.Chart(data(running))
        .mark_area(interpolate="step-after")
        .encode(
            x=alt.X(
                "day:T",
                scale=alt.Scale(type="utc"),
                title=None,
                axis=alt.Axis(format="%d %b %Y", labelAngle=0, tickCount=6),
            ),
            y=alt.Y("active:Q", title="active", stack=True),
            color=alt.Color(
                "category:N", scale=scale(CATEGORIES, frame["category"].unique()), title="category"
            ),
            tooltip=["category:N", "on:N", "active:Q"],
        )
        .properties(width=WIDTH, height=170)
    )
    if running["day"].n_unique() < 2:  # one day: an area has no width
        over_time = over_time.mark_bar(size=40)
    by_status = (
        alt.Chart(data(now))
        .mark_bar()
        .encode(
            x=alt.X("rows:Q", title="memories"),
            y=alt.Y("category:N", title=None, sort=list(CATEGORIES)),
            color=alt.Color("status:N", scale=scale(STATUSES, frame["status"].unique()), title="status now"),
            tooltip=["category:N", "status:N", "rows:Q"],
        )
        .properties(width=WIDTH, height=alt.Step(20))
    )
    active = int(frame.filter(pl.col("status") == "active").height)
    subtitle = f"{active:,} active of {frame.height:,}"
    return finish(
        alt.vconcat(over_time, by_status).resolve_scale(color="independent"),
        "Memories",
        subtitle,
        f"Memories by category and status over time: {subtitle}.",
    )


def survival(memories: Any, now: Any = None) -> AnyChart:
    """The share of memories still active at each age, by category (Kaplan and Meier 1958: those still active count as long as seen).

    Args:
        memories: rows with `category, created_at, ended_at`.
        now: the end of observation; by default the newest time in the rows.
    """
    import altair as alt
    import polars as pl

    frame = as_frame(memories, _MEMORY).drop_nulls("created_at")
    if frame.is_empty():
        return nothing_yet("Survival", "no memories yet")
    newest = [value for value in (frame["created_at"].max(), frame["ended_at"].max()) if value is not None]
    end = now if now is not None else max(newest)
    frame = frame.with_columns(
        ((pl.col("ended_at").fill_null(end) - pl.col("created_at")).dt.total_minutes() / 1440.0)
        .clip(lower_bound=0)
        .alias("age"),
        pl.col("ended_at").is_not_null().alias("ended"),
    )
    rows: list[dict[str, Any]] = []
    for (category,), part in frame.group_by(["category"], maintain_order=True):
        steps = (
            part.with_columns(pl.col("age").round(1))
            .group_by("age")
            .agg(pl.col("ended").sum().alias("ended"), pl.len().alias("seen"))
            .sort("age")
        )
        at_risk, share = part.height, 1.0
        rows.append({"category": category, "age_days": 0.0, "share": 1.0, "at_risk": at_risk})
        for age, ended, seen in steps.iter_rows():
            if ended:
                share *= 1 - ended / at_risk
                rows.append({"category": category, "age_days": age, "share": share, "at_risk": at_risk})
            at_risk -= seen
        rows.append(
            {
                "category": category,
                "age_days": float(steps["age"][-1]),
                "share": share,
                "at_risk": max(at_risk, 0),
            }
        )
    curve = pl.DataFrame(rows).sort("category", "age_days")
    if curve.height > 2000:
        curve = curve.gather_every(-(-curve.height // 2000))
    return finish(
        alt.Chart(data(curve))
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("age_days:Q", title="age in days"),
            y=alt.Y(
                "share:Q", title="still active", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])
            ),
            color=alt.Color("category:N", scale=scale(CATEGORIES, curve["category"].unique())),
            tooltip=["category:N", "age_days:Q", alt.Tooltip("share:Q", format=".0%"), "at_risk:Q"],
        ),
        "Survival of memories",
        "superseded and retired ones count as ended",
        "Share of memories still active at each age, by category.",
        width=WIDTH,
        height=180,
    )


def decay_curves(half_life_days: Mapping[str, float], floor: float = 0.1, *, days: int = 365) -> AnyChart:
    """How much of its weight a memory keeps after days without use: half after its half-life, never less than the floor.

    >>> charts.decay_curves(ws.settings.decay.half_life_days, ws.settings.decay.floor)
    """
    import altair as alt
    import polars as pl

    step = max(1, days // 120)
    rows = [
        {"category": category, "days": day, "weight": max(floor, 0.5 ** (day / half))}
        for category, half in half_life_days.items()
        for day in range(0, days + 1, step)
    ]
    rows += [{"category": "usage_guide", "days": day, "weight": 1.0} for day in (0, days)]
    lines = (
        alt.Chart(data(pl.DataFrame(rows)))
        .mark_line()
        .encode(
            x=alt.X("days:Q", title="days since last use"),
            y=alt.Y("weight:Q", title="factor on the score", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("category:N", scale=scale(CATEGORIES, [*half_life_days, "usage_guide"])),
            tooltip=["category:N", "days:Q", alt.Tooltip("weight:Q", format=".2f")],
        )
    )
    base = (
        alt.Chart(alt.InlineData(values=[{"floor": floor}]))
        .mark_rule(strokeDash=[4, 4], color=GREY)
        .encode(y="floor:Q")
    )
    return finish(
        alt.layer(lines, base),
        "Decay",
        f"nothing stored is rewritten; the floor is {floor:g}",
        "Decay factor by days since last use, by category.",
        width=WIDTH,
        height=180,
    )


def memory_map(memories: Any, matrix: Any, *, limit: int = 2_000) -> AnyChart:
    """All memories on a plane: near ones say similar things. The plane is that of the two largest principal components.

    >>> snapshot = ws.memory.snapshot()
    >>> charts.memory_map(snapshot.frame, snapshot.matrix)

    Args:
        memories: rows with `id, category, scope, text, seen_count`, in the order of the matrix.
        matrix: unit vectors, one a row; rows of zeros (no vector) are left out.
        limit: at most so many points, evenly picked; the plane is that of all rows.
    """
    import altair as alt
    import numpy as np
    import polars as pl

    frame = as_frame(
        memories, {"id": "str", "category": "str", "scope": "str", "text": "str", "seen_count": "int"}
    )
    vectors = np.asarray(matrix, dtype=np.float32)
    if frame.is_empty() or vectors.ndim != 2 or not len(vectors):
        return nothing_yet("Memory map", "no memories with a vector yet")
    has = np.linalg.norm(vectors, axis=1) > 0
    frame, vectors = frame.filter(pl.Series(has)), vectors[has]
    if frame.is_empty():
        return nothing_yet("Memory map", "no memories with a vector yet")
    sample = vectors if len(vectors) <= 20_000 else vectors[:: -(-len(vectors) // 20_000)]
    middle = sample.mean(axis=0)
    _, strength, axes = np.linalg.svd(sample - middle, full_matrices=False)
    axes = axes[:2] if len(axes) >= 2 else np.vstack([axes, np.zeros((2 - len(axes), vectors.shape[1]))])
    # The sign of a principal axis is arbitrary; fixed so that the same memories give the same picture.
    axes = axes * np.where(axes[np.arange(2), np.abs(axes).argmax(axis=1)] < 0, -1.0, 1.0)[:, None]
    step = -(-frame.height // limit)
    frame, vectors = frame.gather_every(step), vectors[::step]
    points = np.round((vectors - middle) @ axes.T, 4)
    frame = frame.with_columns(
        pl.Series("x", points[:, 0]), pl.Series("y", points[:, 1]), pl.col("text").map_elements(lambda text: label(text, 160), return_dtype=pl.String),
        labels("scope", 32), pl.col("seen_count").fill_null(1),
    )  # fmt: skip
    pick = alt.selection_point(name="category", fields=["category"], bind="legend")
    explained = float((strength[:2] ** 2).sum() / max(float((strength**2).sum()), 1e-9))
    return finish(alt.Chart(data(frame))
        .mark_point()
        .encode(
            x=alt.X("x:Q", axis=None, scale=alt.Scale(zero=False)),
            y=alt.Y("y:Q", axis=None, scale=alt.Scale(zero=False)),
            color=alt.Color("category:N", scale=scale(CATEGORIES, frame["category"].unique())),
            opacity=alt.condition(pick, alt.value(0.85), alt.value(0.08)),
            size=alt.Size("seen_count:Q", title="times seen", scale=alt.Scale(type="sqrt", range=[40, 300])),
            tooltip=["text:N", "category:N", "scope:N", "seen_count:Q", "id:N"],
        )
        .add_params(pick)
        .interactive(), "Memory map", f"{frame.height:,} memories; the plane shows {explained:.0%} of their spread; click the legend", "Memories placed by the likeness of what they say, coloured by category.", width=WIDTH, height=360)  # fmt: skip
