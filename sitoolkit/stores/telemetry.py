"""Telemetry: redacted records of calls, sessions, signals and user turns come in and are kept; frames and SQL go out.

A folder a stream. Each day of import is a JSONL file that several processes append to; sealed days are Parquet. DuckDB
reads both through one view in memory and holds no lock on them. A record is known by its id: the same again is a repeat, a
changed one (a call that got its result in a longer transcript) is appended as a new version, and the view shows the newest.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sitoolkit.errors import StoreDamaged, StoreError
from sitoolkit.records import Clock, ToolInvocation, iso, parse_time, utc_now
from sitoolkit.stores.lock import writer_lock
from sitoolkit.stores.log import Fault, explain_disk, locked_file, read_lines, write_lines
from sitoolkit.stores.telemetry_known import Appended, Known, Part, prepare
from sitoolkit.stores.telemetry_schema import COLUMNS, JSON_COLUMNS, STREAMS, VIEWS
from sitoolkit.stores.telemetry_sql import connect, select_jsonl, select_parquet, sql_name

if TYPE_CHECKING:
    import duckdb
    import polars as pl

__all__ = ["STREAMS", "Appended", "Telemetry"]

log = logging.getLogger(__name__)


class Telemetry:
    """The append-only record of everything that was imported.

    >>> telemetry = Telemetry(Path("/tmp/example-telemetry"))
    >>> telemetry.append("calls", [call.to_json() for call in session.calls]).written  # doctest: +SKIP
    12

    Args:
        folder: where the streams lie; made at the first append.
        clock: decides the day of import.
        fsync: wait for the disk at each append.
        seal_after_days: days older than this become Parquet when `seal` runs.
        lock_timeout_s: seconds to wait for another importer.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        clock: Clock = utc_now,
        fsync: bool = True,
        seal_after_days: float = 1.0,
        lock_timeout_s: float = 30.0,
    ) -> None:
        self.folder = Path(folder)
        self.clock = clock
        self.fsync = fsync
        self.seal_after_days = seal_after_days
        self.lock_timeout_s = lock_timeout_s
        self._known = {stream: Known() for stream in STREAMS}

    # ------------------------------------------------------------ in

    def append(self, stream: str, records: Iterable[Mapping[str, Any]]) -> Appended:
        """Append records that are not known yet; all of them or none.

        Args:
            stream: `calls`, `sessions`, `signals` or `turns`.
            records: JSON objects with an `id`; redacted by the caller.

        Raises:
            StoreError: the disk is full or the folder read-only; nothing was kept.
            StoreLocked: another importer held the stream too long.
        """
        _check_stream(stream)
        now = self.clock()
        prepared, failed = prepare(stream, records, iso(now) or "")
        if not prepared:
            return Appended(failed=tuple(failed))
        with writer_lock(self.folder, self.lock_timeout_s, doing="import"):
            known = self._known[stream]
            known.catch_up(self._parts(stream))
            fresh, report = known.sort_out(prepared, stream)
            if fresh:
                new_day = self._write(stream, now, [item.line() for item in fresh])
                known.add(fresh, self._parts(stream))
                if new_day:
                    self._seal_quietly()
        return report.model_copy(update={"failed": tuple(failed)})

    def _seal_quietly(self) -> None:
        """The first import of a day seals those before it; what was appended is acknowledged whatever comes of that."""
        try:
            self.seal()
        except StoreError as fault:
            log.warning("days of telemetry stay JSONL for now: %s", fault)

    def _write(self, stream: str, now: datetime, lines: Sequence[bytes]) -> bool:
        """Append lines to the day's file; gives whether it is new."""
        day = f"{now:%Y-%m-%d}"
        number = 0
        while True:
            path = self.folder / stream / f"{day}.{number}.jsonl"
            if path.with_suffix(".parquet").exists():
                number += 1
                continue
            with locked_file(path) as descriptor, explain_disk(path):
                return write_lines(descriptor, lines, fsync=self.fsync) == 0

    def seal(self, *, before: datetime | None = None) -> dict[str, int]:
        """Turn whole days of JSONL into Parquet; gives rows sealed for each stream. The first import of a day does it too.

        A crash at any point leaves either the JSONL or the Parquet file to be read, never both. Torn lines are kept beside
        it in a `.torn` file.

        Args:
            before: days that ended before this; by default those older than `seal_after_days`.
        """
        limit = before or self.clock() - timedelta(days=self.seal_after_days)
        sealed: dict[str, int] = {}
        with writer_lock(self.folder, self.lock_timeout_s, doing="seal days"):
            for stream in STREAMS:
                for part in self._parts(stream, hidden=True):
                    day = datetime.fromisoformat(f"{part.name[:10]}T00:00:00+00:00")
                    if not part.sealed and day + timedelta(days=1) <= limit:
                        sealed[stream] = sealed.get(stream, 0) + self._seal_part(stream, part)
        return sealed

    def _seal_part(self, stream: str, part: Part) -> int:
        target = part.path.with_suffix(".parquet")
        if target.exists():  # a crash between the rename and the removal: the Parquet file is whole
            part.path.unlink(missing_ok=True)
            return 0
        faults: list[Fault] = []
        count = sum(1 for _ in read_lines(part.path, faults=faults))
        partial = target.with_suffix(".partial")
        with connect() as con, explain_disk(part.path, "seal"):
            rows = con.sql(select_jsonl(stream, [part.path])).to_arrow_table()
            if rows.num_rows != count:
                log.warning("%s stays JSONL: %d of %d lines fit its schema", part.path, rows.num_rows, count)
                return 0
            import pyarrow.parquet as pq

            pq.write_table(rows, partial, compression="zstd", row_group_size=100_000)
            _sync(partial)
            if faults:
                _keep_torn(part.path, faults)
            partial.replace(target)
            _sync(target.parent)
            part.path.unlink()
        return count

    # ------------------------------------------------------------ out

    def _parts(self, stream: str, *, hidden: bool = False) -> list[Part]:
        """The files of a stream in order; JSONL that was already sealed is left out unless `hidden`."""
        try:
            names = sorted(os.listdir(self.folder / stream))  # noqa: PTH208 - names are enough, and a year has many
        except FileNotFoundError:
            return []
        sealed = {name[:-8] for name in names if name.endswith(".parquet")}
        parts = []
        for name in names:
            stem, _, kind = name.rpartition(".")
            if kind == "parquet" or (kind == "jsonl" and (hidden or stem not in sealed)):
                parts.append(Part(stem, kind == "parquet", self.folder / stream / name))
        return parts

    def connection(
        self, *, load: bool = False, tables: Iterable[str] | None = None
    ) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection in memory with `calls`, `sessions`, `signals` and `turns`; the caller closes it.

        Args:
            load: read the records into tables now (many queries over many records) instead of views that read the
                files at each query.
            tables: only these.

        Raises:
            StoreDamaged: a file cannot be read.
        """
        import duckdb

        wanted = STREAMS if tables is None else [name for name in STREAMS if name in set(tables)]
        for attempt in range(5):
            con = connect()
            try:
                for stream in wanted:
                    kind = "table" if load else "view"
                    con.execute(f"create {kind} {stream} as {self._select(con, stream)}")
                return con
            except duckdb.IOException as fault:  # a day was sealed between the listing and the reading
                con.close()
                if attempt == 4:
                    raise StoreDamaged(
                        f"telemetry in {self.folder} cannot be read: {fault}; run `sitoolkit doctor`"
                    ) from fault
        raise AssertionError("unreachable")

    def _select(self, con: duckdb.DuckDBPyConnection, stream: str) -> str:
        parts = self._parts(stream)
        sources = []
        lines = [part.path for part in parts if not part.sealed and part.path.stat().st_size]
        if lines:
            sources.append(select_jsonl(stream, lines))
        sealed = [part.path for part in parts if part.sealed]
        if sealed:
            sources.append(select_parquet(con, stream, sealed))
        if not sources:
            nothing = ", ".join(f"null::{kind} as {sql_name(name)}" for name, kind in COLUMNS[stream].items())
            sources.append(f"select {nothing} where false")
        raw = " union all ".join(sources)
        return VIEWS[stream].format(
            newest=f"""with raw as ({raw}), changed as (select id, max(v) as v from raw where v > 0 group by id),
            newest as (select raw.* from raw left join changed using (id) where raw.v = coalesce(changed.v, 0))"""
        )

    def sql(self, query: str) -> pl.DataFrame:
        """Rows of a trusted query over the four streams; `Workspace.sql` is the one for queries of others."""
        with self.connection() as con:
            frame: pl.DataFrame = con.sql(query).pl()
        return frame

    def calls_frame(
        self,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        session_ids: Iterable[str] | None = None,
        scopes: Iterable[str] | None = None,
        tools: Iterable[str] | None = None,
        outcomes: Iterable[str] | None = None,
        ids: Iterable[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> pl.DataFrame:
        """Calls as a polars frame, ordered by time, session and position.

        Args:
            since: first instant, by the call's time or else its import.
            until: last instant.
            session_ids: only these sessions.
            scopes: only these scopes (a call's scope is its agent, else its project, else global).
            tools: only these tools.
            outcomes: only these outcomes.
            ids: only these occurrences.
            columns: only these columns; `args`, `result` and `payload` are JSON text.
        """
        query, values = self._calls_query(
            since, until, session_ids, scopes, tools, outcomes, ids, columns=columns
        )
        with self.connection(tables=["calls"]) as con:
            frame: pl.DataFrame = con.sql(query, params=values).pl()
        return frame

    def invocations(
        self,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        session_ids: Iterable[str] | None = None,
        scopes: Iterable[str] | None = None,
        tools: Iterable[str] | None = None,
        outcomes: Iterable[str] | None = None,
        ids: Iterable[str] | None = None,
    ) -> Iterator[ToolInvocation]:
        """Calls as records, ordered by time, session and position; arguments as for `calls_frame`."""
        query, values = self._calls_query(since, until, session_ids, scopes, tools, outcomes, ids)
        with self.connection(tables=["calls"]) as con:
            reader = con.sql(query, params=values).to_arrow_reader(10_000)
            for batch in reader:
                for row in batch.to_pylist():
                    yield ToolInvocation.model_validate(_plain("calls", row))

    def _calls_query(
        self,
        since: datetime | str | None,
        until: datetime | str | None,
        session_ids: Iterable[str] | None,
        scopes: Iterable[str] | None,
        tools: Iterable[str] | None,
        outcomes: Iterable[str] | None,
        ids: Iterable[str] | None,
        *,
        columns: Sequence[str] | None = None,
    ) -> tuple[str, list[Any]]:
        chosen = "*"
        if columns is not None:
            known = {*COLUMNS["calls"], "happened_at", "scope", "source_file", "source_line"}
            unknown = [name for name in columns if name not in known]
            if unknown:
                raise StoreError(f"calls have no column {unknown[0]!r}; known: {', '.join(sorted(known))}")
            chosen = ", ".join(sql_name(name) for name in columns)
        where: list[str] = ["true"]
        values: list[Any] = []
        for text, value in (("happened_at >= ?", parse_time(since)), ("happened_at <= ?", parse_time(until))):
            if value is not None:
                where.append(text)
                values.append(value)
        for column, wanted in (
            ("session_id", session_ids), ("scope", scopes), ("tool", tools), ("outcome", outcomes), ("id", ids),
        ):  # fmt: skip
            if wanted is not None:
                where.append(f"{column} in (select unnest(?::varchar[]))")
                values.append([str(one) for one in wanted])
        return (
            f"select {chosen} from calls where {' and '.join(where)} order by happened_at, session_id, seq, id",
            values,
        )

    def sessions_using(self, tool: str, *, most: int = 100) -> list[str]:
        """Ids of the sessions that called a tool, newest first."""
        with self.connection(tables=["calls"]) as con:
            rows = con.execute(
                "select session_id, max(happened_at) as newest from calls where tool = ? group by session_id "
                "order by newest desc, session_id limit ?",
                [tool, most],
            ).fetchall()
        return [str(row[0]) for row in rows]

    def resolve(self, ids: Iterable[str]) -> pl.DataFrame:
        """Where evidence comes from: a row (id, kind, session_id, tool, file, line, format) for each id that is known."""
        with self.connection() as con:
            frame: pl.DataFrame = con.sql(
                """with wanted as (select distinct unnest(?::varchar[]) as id), found as (
                select id, 'call' as kind, session_id, tool, source from calls semi join wanted using (id) union all
                select id, 'session', id, null, source from sessions semi join wanted using (id) union all
                select id, 'signal', session_id, null, source from signals semi join wanted using (id) union all
                select id, 'turn', session_id, null, source from turns semi join wanted using (id))
                select id, kind, session_id, tool, source.file as file, source.line as line, source.format as format
                from found order by id, kind""",
                params=[[str(one) for one in ids]],
            ).pl()
        return frame

    def check(self) -> list[Fault]:
        """Read every line and every sealed day; gives what is damaged, with file, line and reason."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        faults: list[Fault] = []
        for stream in STREAMS:
            for part in self._parts(stream):
                if part.sealed:
                    try:
                        pq.read_table(part.path, columns=["id"])
                    except (pa.ArrowException, OSError) as fault:
                        faults.append(Fault(str(part.path), 0, f"not readable: {fault}"))
                else:
                    for _ in read_lines(part.path, faults=faults):
                        pass
        return faults


# ---------------------------------------------------------------- files and rows


def _check_stream(stream: str) -> None:
    if stream not in STREAMS:
        raise StoreError(f"telemetry has no stream {stream!r}; known: {', '.join(STREAMS)}")


def _plain(stream: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row of DuckDB as the record that was appended."""
    import orjson

    for column in JSON_COLUMNS[stream]:
        text = row.get(column)
        if text is not None:
            row[column] = orjson.loads(text)
    return {key: value for key, value in row.items() if value is not None}


def _keep_torn(path: Path, faults: Sequence[Fault]) -> None:
    numbers = {fault.line for fault in faults}
    with path.open("rb") as file, path.with_suffix(".torn").open("wb") as kept:
        for number, raw in enumerate(file, 1):
            if number in numbers:
                kept.write(raw if raw.endswith(b"\n") else raw + b"\n")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
