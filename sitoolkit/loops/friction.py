"""Where an agent struggles: failed calls come in, one event a (tool, failure mode) and session goes out.

The trigger of loop 1: the same tool failed in the same way `threshold` times within one session. Counters live for a
session, timeouts count, a call counts once however often it is read, and evidence is bounded: the first, the last and the
most different failure. `detect_friction` reads a stream; `scan_friction` the telemetry of a workspace, by SQL.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Literal, NamedTuple

from sitoolkit.learning.rates import MIN_RATE_COUNT, rate_test
from sitoolkit.records import (
    BINEvent,
    Outcome,
    Record,
    ToolInvocation,
    canonical_json,
    digest,
    iso,
    parse_time,
)

if TYPE_CHECKING:
    import duckdb

    from sitoolkit.workspace import Workspace

__all__ = [
    "FrictionReport",
    "detect_friction",
    "event_key",
    "failure_mode_of",
    "find_friction",
    "scan_friction",
    "threshold_for",
]

EVENT = "bin_event"  # what the journal calls a firing
MAX_BETWEEN = 32  # failures between the first and the last that are compared for the most different
_FAILED = (Outcome.FAILURE, Outcome.TIMEOUT)


class FrictionReport(Record):
    """What a scan of the workspace found; `fired` are the events that no earlier scan had fired."""

    events: tuple[BINEvent, ...] = ()
    fired: tuple[BINEvent, ...] = ()
    sessions: int = 0
    calls: int = 0
    failures: int = 0


def failure_mode_of(call: ToolInvocation) -> str:
    """The call's failure mode; a timeout without one is TIMEOUT, any other failure UNKNOWN."""
    return call.failure_mode or ("TIMEOUT" if call.outcome is Outcome.TIMEOUT else "UNKNOWN")


def threshold_for(tool: str, mode: str, threshold: int, thresholds: Mapping[str, int] | None) -> int:
    """The threshold of a pair: `tool:MODE` wins over `tool`, that over `:MODE`, that over the default."""
    if thresholds:
        for key in (f"{tool}:{mode}", tool, f":{mode}"):
            if key in thresholds:
                return thresholds[key]
    return threshold


def event_key(session_id: str, tool: str, mode: str) -> str:
    """The identity of a firing: one a session and pair, in whatever scan."""
    return "bin_" + digest("bin", session_id, tool, mode)[:24]


class _Failure(NamedTuple):
    id: str
    seq: int
    at: datetime | float | None  # microseconds since the epoch where it was read by SQL
    args: str | None
    error: str | None

    def words(self) -> frozenset[str]:
        return _words((self.args or "")[:500], (self.error or "")[:500])


_WORD = re.compile(r"\w+")


@lru_cache(maxsize=4_096)  # an agent that is stuck says the same again and again
def _words(args: str, error: str) -> frozenset[str]:
    return frozenset(_WORD.findall(args)) | frozenset(_WORD.findall(error))


@dataclass(slots=True)
class _Pair:
    """Failures of one pair in one session: counted; the ends and a bounded number between them are kept."""

    count: int = 0
    first: _Failure | None = None
    last: _Failure | None = None
    between: list[_Failure] = field(default_factory=list)
    agent: str = ""

    def add(self, found: _Failure) -> None:
        self.count += 1
        if self.first is None or found[1::-1] < self.first[1::-1]:
            self.first, found = found, self.first or found
        if self.last is None or found[1::-1] > self.last[1::-1]:
            self.last, found = found, self.last or found
        if found is not self.first and found is not self.last and len(self.between) < MAX_BETWEEN:
            self.between.append(found)

    def evidence(self) -> tuple[str, ...]:
        ends = [end for end in (self.first, self.last) if end is not None]
        return _evidence([*ends[:1], *self.between, *ends[1:]])


def _evidence(kept: Sequence[_Failure]) -> tuple[str, ...]:
    """The first, the last and, between them, the one least like either."""
    if len(kept) < 4:
        return tuple(dict.fromkeys(found.id for found in kept))
    ends = {kept[0].words(), kept[-1].words()}
    odd = min(
        kept[1:-1],
        key=lambda found: (-min(_distance(found.words(), end) for end in ends), found.seq, found.id),
    )
    return tuple(dict.fromkeys((kept[0].id, odd.id, kept[-1].id)))


def _when(found: _Failure | None) -> datetime | None:
    at = found.at if found else None
    return datetime.fromtimestamp(at / 1e6, UTC) if isinstance(at, int | float) else at


def _distance(one: frozenset[str], other: frozenset[str]) -> float:
    union = len(one | other)
    return 1.0 - len(one & other) / union if union else 0.0


def detect_friction(
    invocations: Iterable[ToolInvocation],
    threshold: int = 3,
    thresholds: Mapping[str, int] | None = None,
    *,
    method: Literal["count", "rate"] = "count",
) -> list[BINEvent]:
    """Find the pairs of tool and failure mode that failed repeatedly within a session.

    >>> detect_friction(calls)[0].count  # three failures of `push` with PERM in session s1
    3

    Args:
        invocations: calls of any number of sessions, interleaved as they may be; a call that occurs twice counts once.
        threshold: failures of one pair within one session that make an event; 3 is the paper's theta.
        thresholds: exceptions to it: `"tool"`, `"tool:MODE"` or `":MODE"` to a count.
        method: `count` is the fixed threshold; `rate` asks instead whether the count is more than the tool's own base rate
            explains, and whether the pair has struck in earlier sessions (see docs/explanation/friction.md).

    Returns:
        One event a pair and session, by time; `fired_before` counts the earlier sessions in which the pair fired.
    """
    pairs: dict[tuple[str, str, str], _Pair] = {}
    seen: set[str] = set()
    uses: defaultdict[tuple[str, str], int] = defaultdict(int)
    starts: dict[str, datetime] = {}
    for call in invocations:
        identifier = call.id or f"{call.session_id}#{call.seq}"
        if identifier in seen:
            continue
        seen.add(identifier)
        uses[call.session_id, call.tool] += 1
        if call.started_at is not None:
            known = starts.get(call.session_id)
            if known is None or call.started_at < known:
                starts[call.session_id] = call.started_at
        if call.outcome in _FAILED:
            pair = pairs.setdefault(
                (call.session_id, call.tool, failure_mode_of(call)), _Pair(agent=call.agent)
            )
            args = call.args if isinstance(call.args, str) else canonical_json(call.args)
            pair.add(_Failure(identifier, call.seq, call.started_at, args[:500], call.error))
    order = sorted(
        {session for session, _ in uses}, key=lambda session: _instant(starts.get(session), session)
    )
    if method == "rate":
        counts = {key: pair.count for key, pair in pairs.items()}
        keep = rate_test(order, counts, uses)
    else:
        keep = {
            key
            for key, pair in pairs.items()
            if pair.count >= threshold_for(key[1], key[2], threshold, thresholds)
        }
    events = [
        BINEvent(
            tool=key[1],
            failure_mode=key[2],
            session_id=key[0],
            agent=pair.agent,
            count=pair.count,
            threshold=MIN_RATE_COUNT
            if method == "rate"
            else threshold_for(key[1], key[2], threshold, thresholds),
            evidence=pair.evidence(),
            at=_when(pair.last),
        )
        for key, pair in pairs.items()
        if key in keep
    ]
    return _with_history(events)


def _instant(at: datetime | None, name: str) -> tuple[bool, float, str]:
    return (at is None, at.timestamp() if at else 0.0, name)


def _with_history(
    events: Iterable[BINEvent], before: Mapping[tuple[str, str], int] | None = None
) -> list[BINEvent]:
    """Sort events by time and number the firings of each pair."""
    seen: defaultdict[tuple[str, str], int] = defaultdict(int)
    ordered = []
    for event in sorted(
        events, key=lambda event: (*_instant(event.at, event.session_id), event.tool, event.failure_mode)
    ):
        pair = (event.tool, event.failure_mode)
        earlier = seen[pair] + (before.get(pair, 0) if before else 0)
        ordered.append(event.model_copy(update={"fired_before": earlier}) if earlier else event)
        seen[pair] += 1
    return ordered


# ---------------------------------------------------------------- over recorded telemetry

_MODE = "coalesce(failure_mode, case when outcome = 'timeout' then 'TIMEOUT' else 'UNKNOWN' end)"


def find_friction(
    con: duckdb.DuckDBPyConnection,
    threshold: int = 3,
    thresholds: Mapping[str, int] | None = None,
    *,
    table: str = "calls",
) -> list[tuple[str, str, str, int, tuple[str, ...], str, datetime | None]]:
    """Pairs at or over their threshold in a table of calls: session, tool, mode, count, evidence ids, agent, time.

    Args:
        con: a DuckDB connection that has the table, as `Telemetry.connection(load=True)` gives it.
        threshold: failures within one session.
        thresholds: exceptions, as for `detect_friction`.
        table: name of the table or view.
    """
    least = min([threshold, *(thresholds or {}).values()])
    columns = {row[0] for row in con.execute(f"describe {table}").fetchall()}
    failed = "failed" if "failed" in columns else "outcome in ('failure', 'timeout')"
    pair = "hash(session_id, tool, coalesce(failure_mode, 'TIMEOUT'))"  # may join pairs; the rows tell them apart
    kept = f"session_id, tool, {_MODE} as mode, id, seq, agent, epoch_us(started_at), {_args(columns)}, left(error, 500)"
    ordered = "order by session_id, tool, mode, seq, id"
    repeated = f"repeated as (select pair from found group by pair having count(*) >= {int(least)})"
    # One number stands for the pair while all failures are counted; texts are read for the few that remain.
    if _has_rowid(con, table):
        query = f"""
            with found as materialized (select {pair} as pair, rowid as place from {table} where {failed}), {repeated},
            places as materialized (select place from found where pair in (select pair from repeated))
            select {kept} from {table} where rowid in (select place from places) {ordered}"""
    else:
        query = f"""
            with found as materialized (select {pair} as pair, * from {table} where {failed}), {repeated}
            select {kept} from found where pair in (select pair from repeated) {ordered}"""
    found = []
    for key, group in groupby(con.execute(query).fetchall(), key=itemgetter(0, 1, 2)):
        rows = list(group)
        session, tool, mode = key
        if len(rows) < threshold_for(tool, mode, threshold, thresholds):
            continue
        chosen = [_Failure(*row[3:5], *row[6:9]) for row in (rows[0], *rows[1:-1][:MAX_BETWEEN], rows[-1])]
        agent = next((row[5] for row in rows if row[5]), "")
        found.append((session, tool, mode, len(rows), _evidence(chosen), agent, _when(chosen[-1])))
    return found


def _args(columns: set[str]) -> str:
    return "left(args::varchar, 500)" if "args" in columns else "null"


def _has_rowid(con: duckdb.DuckDBPyConnection, table: str) -> bool:
    import duckdb

    try:
        con.execute(f"select rowid from {table} limit 0").fetchall()
    except duckdb.BinderException:
        return False
    return True


def scan_friction(
    ws: Workspace,
    *,
    threshold: int | None = None,
    thresholds: Mapping[str, int] | None = None,
    since: datetime | str | None = None,
) -> FrictionReport:
    """Find friction in the workspace's telemetry and fire what has not been fired.

    A firing is an entry of the journal, so a scan that was stopped goes on where it was and fires nothing twice; the hook
    `on_bin_trigger` gets each new event.

    Args:
        ws: the workspace.
        threshold: failures within a session; by default as the settings say (3).
        thresholds: exceptions for a tool or mode; by default those of the settings.
        since: only sessions with calls at or after this instant.
    """
    settings = ws.settings.friction
    limit = settings.threshold if threshold is None else threshold
    exceptions = dict(settings.thresholds) if thresholds is None else dict(thresholds)
    from_when = parse_time(since) if isinstance(since, str) else since
    with ws.run("friction", threshold=limit, thresholds=exceptions, since=iso(from_when)) as run:
        with ws.telemetry.connection(tables=("calls",)) as con:
            con.execute("create temp table scanned as select * from calls")
            if from_when is not None:
                con.execute(
                    "delete from scanned where session_id not in (select session_id from scanned where happened_at >= ?)",
                    [from_when],
                )
            found = find_friction(con, limit, exceptions, table="scanned")
            sessions, calls, failures = con.execute(
                "select count(distinct session_id), count(*), count(*) filter (outcome in ('failure', 'timeout')) from scanned"
            ).fetchall()[0]
        fired_keys, fired_pairs = _fired(ws)
        events = [
            BINEvent(
                tool=tool,
                failure_mode=mode,
                session_id=session,
                agent=agent,
                count=count,
                threshold=threshold_for(tool, mode, limit, exceptions),
                evidence=evidence,
                at=at,
            )
            for session, tool, mode, count, evidence, agent, at in found
        ]
        outside = defaultdict(int, fired_pairs)
        keys = {event_key(event.session_id, event.tool, event.failure_mode) for event in events}
        for key, pair in fired_keys.items():
            if key in keys:
                outside[pair] -= 1  # it is among the events and counted there
        ordered = _with_history(events, outside)
        new = [
            event
            for event in ordered
            if event_key(event.session_id, event.tool, event.failure_mode) not in fired_keys
        ]
        for event in new:
            key = event_key(event.session_id, event.tool, event.failure_mode)
            ws.journal.append(EVENT, {"key": key, **event.to_json()}, run_id=run.id)
            _call_hook(ws, event)
    return FrictionReport(
        events=tuple(ordered), fired=tuple(new), sessions=sessions, calls=calls, failures=failures
    )


def _fired(ws: Workspace) -> tuple[dict[str, tuple[str, str]], dict[tuple[str, str], int]]:
    keys: dict[str, tuple[str, str]] = {}
    pairs: defaultdict[tuple[str, str], int] = defaultdict(int)
    for entry in ws.journal.events(EVENT):
        key = str(entry.data.get("key", ""))
        if key not in keys:
            pair = (str(entry.data.get("tool", "")), str(entry.data.get("failure_mode", "")))
            keys[key] = pair
            pairs[pair] += 1
    return keys, pairs


def _call_hook(ws: Workspace, event: BINEvent) -> None:
    from sitoolkit.plugins import call_hook

    call_hook(ws, "on_bin_trigger", event)
