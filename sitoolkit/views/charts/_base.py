"""What the charts share: frames of any origin with the columns a chart needs, safe labels, and the chart that says "nothing yet"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sitoolkit.plain import as_plain
from sitoolkit.views.html import visible

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

    AnyChart = alt.Chart | alt.LayerChart | alt.FacetChart | alt.VConcatChart | alt.HConcatChart

__all__ = [
    "OTHERS",
    "as_frame",
    "finish",
    "label",
    "nothing_yet",
    "scale",
    "title",
    "top",
    "values",
]

OTHERS = "(others)"
WIDTH = 640
_TIMES = ("datetime",)


def as_frame(rows: Any, columns: Mapping[str, str]) -> pl.DataFrame:
    """Rows of any origin as a frame with just the given columns and types.

    >>> as_frame([{"tool": "deploy"}], {"tool": "str", "count": "int"}).columns
    ['tool', 'count']

    Args:
        rows: a polars frame, records, dicts, or nothing.
        columns: name -> `str`, `int`, `float`, `bool` or `datetime`; a missing column is filled with nulls.
    """
    import polars as pl

    kinds: dict[str, Any] = {
        "str": pl.String, "int": pl.Int64, "float": pl.Float64, "bool": pl.Boolean, "datetime": pl.Datetime("us", "UTC"),
    }  # fmt: skip
    if isinstance(rows, pl.LazyFrame):
        rows = rows.collect()
    if not isinstance(rows, pl.DataFrame):
        if hasattr(rows, "to_arrow_table"):
            rows = pl.DataFrame(rows.to_arrow_table())
        else:
            plain = as_plain(list(rows or ()))
            kept = [{name: _flat(row.get(name)) for name in columns} for row in plain]
            rows = pl.DataFrame(kept, infer_schema_length=None) if kept else pl.DataFrame()
    frame: pl.DataFrame = rows
    return frame.select(
        [
            _cast(pl.col(name), frame.schema[name], kinds[kind]).alias(name)
            if name in frame.columns
            else pl.lit(None, dtype=kinds[kind]).alias(name)
            for name, kind in columns.items()
        ]
        if frame.width
        else [pl.Series(name, [], dtype=kinds[kind]) for name, kind in columns.items()]
    )


def _flat(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | datetime) or value is None else str(value)


def _cast(column: pl.Expr, have: Any, want: Any) -> pl.Expr:
    import polars as pl

    if want == pl.Datetime("us", "UTC"):
        if have == pl.String:
            return column.str.to_datetime(time_unit="us", time_zone="UTC", strict=False)
        if isinstance(have, pl.Datetime):
            return (
                column.dt.cast_time_unit("us").dt.replace_time_zone("UTC")
                if have.time_zone is None
                else column.dt.convert_time_zone("UTC").dt.cast_time_unit("us")
            )
    return column.cast(want, strict=False)


def label(text: Any, limit: int = 48) -> str:
    """Text of any origin as a label: one line, bounded, with hidden and direction-changing characters shown."""
    shown = visible(" ".join(str("" if text is None else text).split())[: limit * 4])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def labels(column: str, limit: int = 48) -> pl.Expr:
    """A column as labels; each distinct text is looked at once."""
    import polars as pl

    return (
        pl.col(column)
        .fill_null("(none)")
        .map_batches(
            lambda series: series.replace_strict(
                (distinct := series.unique()),
                [label(text, limit) for text in distinct],
                return_dtype=pl.String,
            ),
            return_dtype=pl.String,
        )
    )


def top(frame: pl.DataFrame, column: str, count: str, n: int) -> list[str]:
    """The `n` values of a column with the most of `count`, most first; equal ones by name."""
    import polars as pl

    ranked = frame.group_by(column).agg(pl.col(count).sum()).sort([count, column], descending=[True, False])
    return ranked.head(n)[column].to_list()


def values(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """A small frame as the rows that a chart carries; times as ISO 8601 UTC, hidden characters written out."""
    return [
        {name: visible(value) if isinstance(value, str) else value for name, value in row.items()}
        for row in as_plain(frame)
    ]


def data(frame: pl.DataFrame) -> Any:
    """The data of a chart, inline: what is drawn is what a test can read."""
    import altair as alt

    return alt.InlineData(values=values(frame))


def scale(colours: Mapping[str, str], present: Iterable[str]) -> Any:
    """A colour scale with fixed meanings, for the values that occur."""
    import altair as alt

    from sitoolkit.views.theme import PALETTE

    names = [name for name in colours if name in set(present)]
    extra = sorted(set(present) - set(names))
    return alt.Scale(
        domain=[*names, *extra],
        range=[
            *(colours[name] for name in names),
            *(PALETTE[index % len(PALETTE)] for index in range(len(extra))),
        ],
    )


def title(text: str, subtitle: str = "") -> Any:
    """A chart's title, with what it says in a second line."""
    import altair as alt

    return alt.TitleParams(text=text, subtitle=subtitle) if subtitle else alt.TitleParams(text=text)


def nothing_yet(name: str, hint: str) -> AnyChart:
    """The chart of no data: says what would fill it."""
    import altair as alt

    chart = (
        alt.Chart(alt.InlineData(values=[{"text": hint}]))
        .mark_text(align="left", baseline="top", fontSize=13, x=0, y=4)
        .encode(text=alt.Text("text:N"))
    )
    return finish(chart, name, "nothing yet", f"{name}: nothing yet. {hint}", width=WIDTH, height=30)


def finish(chart: Any, name: str, subtitle: str, description: str = "", **properties: Any) -> AnyChart:
    """Give a chart its title, its size, and the sentence that a screen reader says."""
    finished: AnyChart = chart.properties(
        title=title(name, subtitle), description=description or f"{name}: {subtitle}.", **properties
    )
    return finished
