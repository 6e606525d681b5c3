"""`sql`: one query comes in, its rows go out as a table, JSON or CSV; it can change nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from sitoolkit.cli.common import emit, json_option, verb, with_workspace

if TYPE_CHECKING:
    import polars as pl

    from sitoolkit.workspace import Workspace

__all__ = ["sql"]


@verb(
    "sql",
    examples="""
    sitoolkit sql "select tool, outcome, count(*) as n from calls group by all order by n desc"
    sitoolkit sql "select id, text, seen_count, access_count from memories where status = 'active'" --json
    sitoolkit sql "describe calls"
    echo "select * from runs" | sitoolkit sql - --csv > runs.csv
    """,
)
@click.argument("query")
@with_workspace
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Rows to show as a table."
)
def sql(ws: Workspace, query: str, as_json: bool, as_csv: bool, limit: int) -> None:
    """Run QUERY (or `-` for standard input) over calls, sessions, signals, turns, memories, recalls, decisions, proposals, runs."""
    frame = ws.sql(sys.stdin.read() if query == "-" else query)
    if as_csv:
        import polars as pl

        flat = frame.with_columns(
            pl.col(name).map_elements(str, return_dtype=pl.String)
            for name, kind in frame.schema.items()
            if kind.is_nested()
        )
        click.echo(flat.write_csv(), nl=False)
        return
    emit(frame.to_dicts() if as_json else frame, as_json, lambda rows: _table(rows, limit))


def _table(frame: pl.DataFrame, limit: int) -> str:
    shown = [["" if value is None else _cell(value) for value in row] for row in frame.head(limit).rows()]
    names = frame.columns
    widths = [max([len(name), *(len(row[place]) for row in shown)]) for place, name in enumerate(names)]
    lines = ["  ".join(name.ljust(width) for name, width in zip(names, widths, strict=True)).rstrip()]
    lines.append("  ".join("-" * width for width in widths))
    lines += [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]
    if frame.height > limit:
        lines.append(f"… {frame.height - limit} more rows; --limit, --json or --csv show them")
    return "\n".join(lines)


def _cell(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:59]}…"
