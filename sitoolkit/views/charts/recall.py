"""What reaches prompts: slots filled, tokens, abstentions, and memories that no recall ever served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sitoolkit.records import iso, parse_time
from sitoolkit.views.charts._base import WIDTH, as_frame, data, finish, nothing_yet, scale
from sitoolkit.views.theme import BLUE, CATEGORIES, GREY, ORANGE

if TYPE_CHECKING:
    import polars as pl

    from sitoolkit.views.charts._base import AnyChart

__all__ = ["never_recalled", "recall_overview"]

_SLOTS = {
    "directive": CATEGORIES["usage_guide"],
    "lesson": CATEGORIES["reflection"],
    "fact": CATEGORIES["learned_fact"],
    "pattern": CATEGORIES["expert_knowledge"],
    "precedent": CATEGORIES["operational_event"],
}


def recall_overview(recalls: Any) -> AnyChart:
    """Which slots recalls filled day by day, how many tokens they took, and how often there was nothing to say.

    Args:
        recalls: records or rows with `at, tokens, abstained` and `items[{slot}]` or `slots` (names).
    """
    import altair as alt
    import polars as pl

    columns: dict[str, list[Any]] = {name: [] for name in ("at", "tokens", "abstained", *_SLOTS)}
    for row in recalls.iter_rows(named=True) if isinstance(recalls, pl.DataFrame) else recalls or ():
        record = row if isinstance(row, Mapping) else row.to_json()
        filled = Counter(_slot_of(item) for item in record.get("slots") or record.get("items") or ())
        columns["at"].append(iso(parse_time(record.get("at"))))
        columns["tokens"].append(record.get("tokens"))
        columns["abstained"].append(bool(record.get("abstained")))
        for slot in _SLOTS:
            columns[slot].append(filled[slot])
    frame = as_frame(
        pl.DataFrame(columns, strict=False),
        {"at": "datetime", "tokens": "int", "abstained": "bool", **dict.fromkeys(_SLOTS, "int")},
    )
    frame = frame.drop_nulls("at")
    if frame.is_empty():
        return nothing_yet("Recalls", 'ask something: sitoolkit recall "how do I register a service"')
    frame = frame.with_columns(pl.col("at").dt.truncate("1d").alias("day"))
    slots = (
        frame.group_by("day").agg(pl.col(list(_SLOTS)).sum()).unpivot(index="day", variable_name="slot", value_name="items")
        .filter(pl.col("items") > 0).with_columns(pl.col("day").dt.strftime("%Y-%m-%d").alias("on")).sort("day", "slot").tail(1500)
    )  # fmt: skip
    kinds = (
        frame.group_by("day", pl.when("abstained").then(pl.lit("abstained")).otherwise(pl.lit("answered")).alias("kind"))
        .len("recalls").with_columns(pl.col("day").dt.strftime("%Y-%m-%d").alias("on")).sort("day", "kind").tail(1500)
    )  # fmt: skip
    tokens = (
        frame.filter(~pl.col("abstained"))
        .group_by((pl.col("tokens").fill_null(0) // 50 * 50).alias("tokens"))
        .len("recalls")
        .sort("tokens")
        .with_columns((pl.col("tokens") + 50).alias("to"))
    )
    day = alt.X(
        "day:T",
        timeUnit="utcyearmonthdate",
        title=None,
        axis=alt.Axis(format="%d %b", labelAngle=0, tickCount=5),
    )
    half = (WIDTH - 40) // 2
    filled = (
        alt.Chart(data(slots)).mark_bar()
        .encode(x=day, y=alt.Y("items:Q", title="slots filled"), color=alt.Color("slot:N", scale=scale(_SLOTS, slots["slot"].unique())), tooltip=["on:N", "slot:N", "items:Q"])
        .properties(width=WIDTH, height=130)
    )  # fmt: skip
    asked = (
        alt.Chart(data(kinds)).mark_bar()
        .encode(
            x=day, y=alt.Y("recalls:Q", title="recalls"),
            color=alt.Color("kind:N", title="recall", scale=alt.Scale(domain=["answered", "abstained"], range=[BLUE, ORANGE])),
            tooltip=["on:N", "kind:N", "recalls:Q"],
        ).properties(width=half, height=110)
    )  # fmt: skip
    sizes = (
        alt.Chart(data(tokens)).mark_bar()
        .encode(x=alt.X("tokens:Q", bin="binned", title="tokens in the prompt"), x2="to:Q", y=alt.Y("recalls:Q", title="recalls"), color=alt.value(GREY), tooltip=["tokens:Q", "recalls:Q"])
        .properties(width=half, height=110)
    )  # fmt: skip
    share = float(frame["abstained"].sum()) / frame.height
    subtitle = f"{frame.height:,} recalls, {share:.0%} abstained, median {_median(frame['tokens'])} tokens"
    return finish(
        alt.vconcat(filled, alt.hconcat(asked, sizes).resolve_scale(color="independent")).resolve_scale(
            color="independent"
        ),
        "Recalls",
        subtitle,
        f"Recalls: {subtitle}.",
    )


def _slot_of(item: Any) -> str:
    return str(item.get("slot") or "") if isinstance(item, Mapping) else str(item)


def never_recalled(memories: Any) -> AnyChart:
    """How many active memories of each category a recall has served, and how many never.

    Args:
        memories: rows with `category, status, access_count`.
    """
    import altair as alt
    import polars as pl

    frame = as_frame(memories, {"category": "str", "status": "str", "access_count": "int"})
    frame = frame.filter(pl.col("status").fill_null("active") == "active")
    if frame.is_empty():
        return nothing_yet("Never recalled", "no active memories yet")
    never = "never recalled"
    counted = (
        frame.with_columns(
            pl.when(pl.col("access_count").fill_null(0) > 0)
            .then(pl.lit("recalled"))
            .otherwise(pl.lit(never))
            .alias("use")
        )
        .group_by("category", "use")
        .len("memories")
        .sort("category", "use")
    )
    total = int(counted.filter(pl.col("use") == never)["memories"].sum())
    return finish(alt.Chart(data(counted))
        .mark_bar()
        .encode(
            x=alt.X("memories:Q", title="active memories"),
            y=alt.Y("category:N", sort=list(CATEGORIES), title=None),
            color=alt.Color("use:N", title=None, scale=alt.Scale(domain=["recalled", never], range=[BLUE, ORANGE])),
            tooltip=["category:N", "use:N", "memories:Q"],
        ), "Never recalled", f"{total:,} of {frame.height:,} active memories were never served", f"{total} of {frame.height} active memories were never served by a recall.", width=WIDTH, height=alt.Step(22))  # fmt: skip


def _median(column: pl.Series) -> int:
    middle = column.median()
    return round(middle) if isinstance(middle, int | float) else 0
