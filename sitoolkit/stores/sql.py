"""SQL over a workspace for people and notebooks: one query comes in, a polars frame goes out; nothing else can happen.

The tables that a query names are read into a DuckDB of its own in memory; then file access, extensions and settings are locked,
and only then does the query run. It can neither read a file nor write one, nor change a store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sitoolkit.errors import ParameterError
from sitoolkit.records import parse_time
from sitoolkit.stores.telemetry_schema import STREAMS

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    import pyarrow as pa

    from sitoolkit.stores.journal import Entry
    from sitoolkit.workspace import Workspace

__all__ = ["TABLES", "run_sql"]

TABLES = (*STREAMS, "decisions", "memories", "proposals", "recalls", "runs")
_SECONDS = 120.0  # a query that runs longer is stopped


def run_sql(ws: Workspace, query: str, *, seconds: float = _SECONDS) -> pl.DataFrame:
    """Run one query over the tables of a workspace.

    >>> run_sql(ws, "select tool, count(*) as n from calls group by tool order by n desc")  # doctest: +SKIP

    Args:
        ws: the workspace.
        query: one statement that gives rows: SELECT, WITH, FROM, DESCRIBE, SUMMARIZE, VALUES.
        seconds: time after which it is stopped.

    Raises:
        ParameterError: the query is not valid or is not allowed; says where.
    """
    import duckdb

    statement = _one_statement(query)
    words = set(_words(query))
    telemetry = [stream for stream in STREAMS if stream in words]
    con = ws.telemetry.connection(load=True, tables=telemetry)
    try:
        for name, make in _OTHERS.items():
            if name in words:
                rows = make(ws)
                con.register("_rows", rows)
                con.execute(f"create table {name} as select * from _rows")
                con.unregister("_rows")
        for name in TABLES:  # so that `show tables` and error messages know the others
            if name not in words:
                con.execute(
                    f"create view {name} as select 'name {name} in the query to read it' as hint where false"
                )
        con.execute("set enable_external_access = false")
        con.execute("set lock_configuration = true")
        with _stopped_after(con, seconds):
            try:
                frame: pl.DataFrame = con.sql(statement).pl()
            except duckdb.InterruptException as fault:
                raise ParameterError(f"the query ran longer than {seconds:g} s and was stopped") from fault
            except duckdb.Error as fault:
                raise ParameterError(_explain(str(fault))) from fault
        return frame
    finally:
        con.close()


def _one_statement(query: str) -> str:
    import duckdb

    try:
        statements = duckdb.extract_statements(query)
    except duckdb.Error as fault:
        raise ParameterError(_explain(str(fault))) from fault
    if len(statements) != 1:
        raise ParameterError(f"one statement at a time; this text holds {len(statements)}")
    kind = str(statements[0].type).rpartition(".")[2]
    if kind not in ("SELECT", "EXPLAIN", "SELECT_STATEMENT", "EXPLAIN_STATEMENT"):
        raise ParameterError(
            f"only queries that give rows are run here, not {kind.removesuffix('_STATEMENT')}; begin with SELECT or WITH"
        )
    return query


def _words(query: str) -> list[str]:
    import re

    return re.findall(r"[a-z_]+", query.lower())


def _explain(text: str) -> str:
    text = text.split("\n\nStack Trace")[0].strip()
    if "disabled by configuration" in text or "file system operations are disabled" in text.lower():
        text = f"{text.splitlines()[0]}: a query here reads the workspace's tables alone"
    return f'{text}\nTables: {", ".join(TABLES)}. `sitoolkit sql "describe calls"` shows columns.'


class _stopped_after:  # noqa: N801 - reads as a word in `with _stopped_after(con, 5):`
    def __init__(self, con: duckdb.DuckDBPyConnection, seconds: float) -> None:
        import threading

        self._timer = threading.Timer(seconds, con.interrupt)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *exc: object) -> None:
        self._timer.cancel()


# ---------------------------------------------------------------- tables that are not telemetry


def _memories(ws: Workspace) -> pa.Table:
    counts = ws.journal.access()
    import polars as pl

    frame = ws.memory.frame()
    served = pl.DataFrame(
        {
            "id": list(counts),
            "access_count": [count for count, _ in counts.values()],
            "last_access": [last for _, last in counts.values()],
        },
        schema={"id": pl.String, "access_count": pl.Int64, "last_access": pl.Datetime("us", "UTC")},
    )
    joined = frame.join(served, on="id", how="left").with_columns(pl.col("access_count").fill_null(0))
    return joined.drop("rev").to_arrow()


def _recalls(ws: Workspace) -> pa.Table:
    def row(entry: Entry) -> dict[str, Any]:
        data = entry.data
        items = [item for item in data.get("items") or () if isinstance(item, dict)]
        reader = data.get("reader") or {}
        return {
            "id": str(data.get("id") or entry.id),
            "happened_at": entry.at,
            "run_id": entry.run_id,
            "query": data.get("query"),
            "agent": reader.get("agent"),
            "project": reader.get("project"),
            "team": reader.get("team"),
            "org": reader.get("org"),
            "items": len(items),
            "memory_ids": [str(item.get("memory_id")) for item in items],
            "slots": [str(item.get("slot")) for item in items],
            "tokens": data.get("tokens"),
            "abstained": data.get("abstained"),
        }

    return _table([row(entry) for entry in ws.journal.events("recall")], _RECALLS)


def _decisions(ws: Workspace) -> pa.Table:
    from sitoolkit.stores.proposals import DECISIONS

    rows = [
        {
            "proposal_id": entry.data.get("proposal_id"),
            "verdict": entry.data.get("what"),
            "decided_by": entry.data.get("by"),
            "seen_hash": entry.data.get("seen_hash"),
            "reason": entry.data.get("reason"),
            "happened_at": entry.at,
            "run_id": entry.run_id,
        }
        for entry in ws.proposals.events()
        if entry.data.get("what") in DECISIONS
    ]
    return _table(rows, _DECISIONS)


def _proposals(ws: Workspace) -> pa.Table:
    import orjson

    rows = [
        {
            **{
                name: getattr(one, name)
                for name in ("id", "title", "description", "proposed_by", "run_id", "note")
            },
            "type": str(one.type),
            "state": str(one.state),
            "confidence": str(one.confidence),
            "risk": str(one.risk),
            "evidence": list(one.evidence),
            "payload": orjson.dumps(one.to_json()["payload"]).decode(),
            "seen_count": one.seen_count,
            "created_at": one.created_at,
            "updated_at": one.updated_at,
        }
        for one in ws.proposals.list()
    ]
    return _table(rows, _PROPOSALS)


def _runs(ws: Workspace) -> pa.Table:
    import orjson

    rows: dict[str, dict[str, Any]] = {}
    for entry in ws.journal.events(("run_started", "run_ended")):
        if not entry.run_id:
            continue
        row = rows.setdefault(entry.run_id, {"run_id": entry.run_id, "status": "running"})
        row["verb"] = entry.data.get("verb")
        if entry.event == "run_started":
            row["started_at"] = entry.at
            row["parameters"] = orjson.dumps(entry.data.get("parameters") or {}).decode()
        else:
            row |= {
                "ended_at": entry.at,
                "status": entry.data.get("status"),
                "error": entry.data.get("error"),
            }
    for path in sorted((ws.path / "runs").glob("*/manifest.json")):
        try:
            found = orjson.loads(path.read_bytes())
        except (OSError, ValueError):
            continue  # `sitoolkit runs doctor` names it
        rows[path.parent.name] = {
            "run_id": str(found.get("run_id")),
            "verb": f"notebook {found.get('notebook')}",
            "status": found.get("status"),
            "started_at": parse_time(found.get("started_at")),
            "ended_at": parse_time(found.get("ended_at")),
            "error": orjson.dumps(found["error"]).decode() if found.get("error") else None,
            "parameters": orjson.dumps(found.get("parameters") or {}).decode(),
        }
    return _table(list(rows.values()), _RUNS)


def _table(rows: list[dict[str, Any]], columns: dict[str, str]) -> pa.Table:
    import pyarrow as pa

    kinds = {
        "text": pa.string(),
        "int": pa.int64(),
        "bool": pa.bool_(),
        "time": pa.timestamp("us", "UTC"),
        "texts": pa.list_(pa.string()),
    }
    schema = pa.schema([(name, kinds[kind]) for name, kind in columns.items()])
    return pa.Table.from_pylist([{name: row.get(name) for name in columns} for row in rows], schema=schema)


_RECALLS = {
    "id": "text", "happened_at": "time", "run_id": "text", "query": "text", "agent": "text", "project": "text",
    "team": "text", "org": "text", "items": "int", "memory_ids": "texts", "slots": "texts", "tokens": "int",
    "abstained": "bool",
}  # fmt: skip
_DECISIONS = {
    "proposal_id": "text", "verdict": "text", "decided_by": "text", "seen_hash": "text", "reason": "text",
    "happened_at": "time", "run_id": "text",
}  # fmt: skip
_PROPOSALS = {
    "id": "text", "type": "text", "title": "text", "description": "text", "state": "text", "confidence": "text",
    "risk": "text", "evidence": "texts", "payload": "text", "seen_count": "int", "proposed_by": "text", "run_id": "text",
    "note": "text", "created_at": "time", "updated_at": "time",
}  # fmt: skip
_RUNS = {
    "run_id": "text", "verb": "text", "status": "text", "started_at": "time", "ended_at": "time", "error": "text",
    "parameters": "text",
}  # fmt: skip

_OTHERS: dict[str, Callable[[Workspace], pa.Table]] = {
    "decisions": _decisions,
    "memories": _memories,
    "proposals": _proposals,
    "recalls": _recalls,
    "runs": _runs,
}
