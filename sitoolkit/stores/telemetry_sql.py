"""SQL over telemetry's files: paths come in, the SELECT that reads them with the stream's columns and types goes out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sitoolkit.stores.telemetry_schema import COLUMNS

if TYPE_CHECKING:
    import duckdb

__all__ = ["LINE_BYTES", "connect", "select_jsonl", "select_parquet", "sql_name", "sql_text"]

LINE_BYTES = 16 << 20  # a longer record is refused; results are bounded long before


def connect() -> duckdb.DuckDBPyConnection:
    import duckdb

    con = duckdb.connect(":memory:")
    con.execute("set TimeZone = 'UTC'")
    con.execute("set enable_progress_bar = false")
    con.execute(
        "set python_enable_replacements = false"
    )  # a table's name never means a variable of the caller
    return con


def sql_text(value: object) -> str:
    """A SQL text literal."""
    return "'" + str(value).replace("'", "''") + "'"


def sql_name(value: str) -> str:
    """A SQL identifier."""
    return '"' + value.replace('"', '""') + '"'


def select_jsonl(stream: str, paths: Sequence[Path]) -> str:
    columns = ", ".join(f"{sql_name(name)}: {sql_text(kind)}" for name, kind in COLUMNS[stream].items())
    names = ", ".join(sql_name(name) for name in COLUMNS[stream])
    files = ", ".join(sql_text(path) for path in paths)
    return (
        f"select {names} from read_json([{files}], format = 'newline_delimited', ignore_errors = true, "
        f"maximum_object_size = {2 * LINE_BYTES}, columns = {{{columns}}}) where id is not null"
    )


def select_parquet(con: duckdb.DuckDBPyConnection, stream: str, paths: Sequence[Path]) -> str:
    files = ", ".join(sql_text(path) for path in paths)
    source = f"read_parquet([{files}], union_by_name = true)"
    have = {row[0] for row in con.execute(f"describe select * from {source}").fetchall()}
    names = ", ".join(
        sql_name(name)
        if name in have
        else f"null::{kind} as {sql_name(name)}"  # sealed before the column came
        for name, kind in COLUMNS[stream].items()
    )
    return f"select {names} from {source}"
