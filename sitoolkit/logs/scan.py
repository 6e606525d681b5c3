"""Which errors happen, how often and since when: failed calls and log lines come in, ranked error signatures go out.

Both sources give the same kind of message, so an error that an agent saw and a log wrote is one signature; seen within
seconds in both it is one event. Logs are read by their tails, and the next scan reads only what is new.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from sitoolkit.error_texts import bare_message, call_error, error_message, error_template
from sitoolkit.logs.events import LogEvent, read_events
from sitoolkit.logs.files import find_logs, open_part
from sitoolkit.logs.report import SetAside, SignatureScan, group_tallies, report
from sitoolkit.records import (
    ToolInvocation,
    parse_time,
    utc_now,
)
from sitoolkit.signatures import mask_message
from sitoolkit.stores.newest import newest_calls
from sitoolkit.stores.scans import Place, ScanLog, Tally

if TYPE_CHECKING:
    from sitoolkit.redaction import Redactor
    from sitoolkit.workspace import Workspace

__all__ = [
    "SetAside",
    "SignatureScan",
    "scan_error_signatures",
    "signature_mapping",
]

log = logging.getLogger(__name__)

TIERS = {
    "small": (15, 800),
    "medium": (30, 2_000),
    "large": (60, 8_000),
}  # [O] signatures shown, characters of an example
MOST_TEMPLATES = 50_000  # of one file and scan; a log with more kinds of errors has values that no rule knows
_OWN = "sitoolkit"


# ---------------------------------------------------------------- the scan


def scan_error_signatures(
    ws: Workspace | None = None,
    *,
    logs: Iterable[str | Path] = (),
    hours: float | None = None,
    tier: str | None = None,
    calls: Iterable[ToolInvocation] | None = None,
    now: datetime | str | None = None,
    full: bool = False,
    max_signatures: int | None = None,
    example_chars: int | None = None,
    total_chars: int | None = None,
    tail_bytes: int | None = None,
    redactor: Redactor | None = None,
) -> SignatureScan:
    """Count the errors of a window by what they say.

    >>> scan_error_signatures(ws, logs=["/var/log/app.log"], hours=24).signatures[0].signature
    'lost connection to <*>'

    Args:
        ws: gives the failed calls of its telemetry and remembers how far each log was read; None scans `logs` and `calls` alone.
        logs: files, folders or globs.
        hours: length of the window; an event without any time counts when it is first read.
        tier: `small`, `medium` or `large`: 15, 30 or 60 signatures with examples of up to 800, 2,000 or 8,000 characters.
        calls: instead of the workspace's telemetry.
        now: end of the window; by default the workspace's clock for logs, and for telemetry the newest call of each scope.
        full: read whole files whatever was read before, and keep no offsets.
        max_signatures: instead of the tier's number.
        example_chars: instead of the tier's length.
        total_chars: cap on signatures and examples together.
        tail_bytes: how much of a file's end is read; 2 MB by default.
        redactor: removes secrets where there is no workspace.

    Raises:
        ValueError: the tier is not known.
    """
    settings = ws.settings.signatures if ws is not None else None
    from sitoolkit.settings import SignatureSettings

    defaults = settings or SignatureSettings()
    tier = tier or defaults.tier
    if tier not in TIERS:
        raise ValueError(f"no tier {tier!r}; known: {', '.join(TIERS)}")
    window = defaults.hours if hours is None else float(hours)
    end = (parse_time(now) if now is not None else None) or (ws.clock() if ws is not None else utc_now())
    since = end - timedelta(hours=window)
    most, cut = TIERS[tier]
    reader = _Reader(redactor or (ws.redactor if ws is not None else _default_redactor()), end)
    state = ScanLog(ws.path / "signatures", fsync=ws.settings.store.fsync) if ws is not None else None
    files, missing = find_logs(logs, ws.path if ws is not None else None)
    aside = [SetAside(file=file, reason=reason) for file, reason in missing]
    tallies: list[Tally] = []
    if state is not None and not full:
        _scan_new(state, files, reader, tail_bytes or defaults.tail_bytes, aside)
        wanted = {str(file) for file in files}
        tallies += [tally for tally in state.tallies(since) if not logs or tally.source in wanted]
    else:
        for file in files:
            tallies += _scan_file(file, reader, None if full else (tail_bytes or defaults.tail_bytes), aside)
    called = (
        _called(ws, reader, window, end, fixed=now is not None)
        if calls is None and ws is not None
        else reader.calls(calls or (), since, end)
    )
    tallies = [_clipped(tally, since) for tally in tallies if _within(tally, since, end)] + called
    groups = group_tallies(tallies)
    known = state.known() if state is not None else {}
    shown = max_signatures if max_signatures is not None else most
    return report(
        groups,
        known,
        state,
        window,
        shown,
        example_chars or cut,
        total_chars or defaults.total_chars,
        end,
        len(files),
        aside,
    )


def _called(ws: Workspace, reader: _Reader, hours: float, end: datetime, *, fixed: bool) -> list[Tally]:
    """Failed calls of the telemetry; unless `now` was given, the window of each scope ends at its newest call."""
    span = timedelta(hours=hours)
    failed = ("failure", "timeout")
    if fixed:
        return reader.calls(
            ws.telemetry.invocations(since=end - span, until=end, outcomes=failed), None, None
        )
    found: list[ToolInvocation] = []
    for scope, newest in newest_calls(ws.telemetry).items():
        last = min(end, newest)
        found += ws.telemetry.invocations(since=last - span, until=last, scopes=[scope], outcomes=failed)
    return reader.calls(found, None, None)


def signature_mapping(ws: Workspace) -> dict[str, str]:
    """Ids of signatures that were replaced by a wider one -> the id that stands for them now."""
    known = ScanLog(ws.path / "signatures").known()
    after: dict[str, str] = {}
    for signature in known.values():
        for old in signature.replaces:
            after[old] = signature.id
    found = {}
    for old in after:
        new, steps = after[old], 0
        while new in after and steps < len(after):
            new, steps = after[new], steps + 1
        found[old] = new
    return found


def _default_redactor() -> Redactor:
    from sitoolkit.redaction import Redactor

    return Redactor()


def _within(tally: Tally, since: datetime, end: datetime) -> bool:
    when = tally.last or tally.seen_at
    return when is None or since <= when <= end + timedelta(days=1)


def _clipped(tally: Tally, since: datetime) -> Tally:
    """A tally of the hour in which the window begins, without the events before it."""
    if tally.first is None or tally.first >= since or len(tally.times) != tally.count:
        return tally
    kept = [when for when in tally.times if when >= since.timestamp()]
    return replace(tally, count=len(kept), first=since, times=kept)


class _Reader:
    """Turns events and calls into tallies; redacts what a template or an example would keep."""

    def __init__(self, redactor: Redactor, now: datetime) -> None:
        self.redactor = redactor
        self.now = now
        self._clean: dict[str, tuple[str, str]] = {}

    def tally(
        self, found: dict[tuple[str, str, int], Tally], event: LogEvent, source: str, severity: str
    ) -> Tally:
        raw, merges = error_template(event)
        clean = self._clean.get(raw)
        if clean is None:
            clean = self._clean[raw] = self._redacted(raw, merges, event)
        template, example = clean
        hour = int(event.time.timestamp() // 3600) if event.time else -1
        key = (template, severity, hour)
        tally = found.get(key)
        if tally is None:
            if len(found) >= MOST_TEMPLATES:
                template, merges = "<other>", False
                key = (template, severity, hour)
            tally = found.setdefault(
                key, Tally(template, source, severity, seen_at=self.now, example=example, merges=merges)
            )
        tally.add(event.time)
        if source != "telemetry" and not tally.evidence:
            tally.evidence.append(f"log:{source}:{event.line}" if event.line > 0 else f"log:{source}")
        return tally

    def _redacted(self, raw: str, merges: bool, event: LogEvent) -> tuple[str, str]:
        text = event.text or event.message
        example, _ = self.redactor.text(text[:8_000])
        message, counts = self.redactor.text(bare_message(event.message) or event.message)
        template = raw if not counts or not merges else mask_message(message)
        template, _ = self.redactor.text(template)
        return template, example

    def calls(
        self, calls: Iterable[ToolInvocation], since: datetime | None, end: datetime | None
    ) -> list[Tally]:
        found: dict[tuple[str, str, int], Tally] = {}
        seen: set[str] = set()
        for call in calls:
            if not call.failed or (call.id and call.id in seen):
                continue
            seen.add(call.id)
            when = call.started_at
            if when is not None and since is not None and end is not None and not since <= when <= end:
                continue
            event = error_message(call_error(call))
            if event is None:
                continue
            timed = LogEvent(
                event.message,
                event.level,
                when,
                "",
                call.source.line or 0,
                event.exception,
                event.frame,
                event.text,
            )
            tally = self.tally(
                found, timed, "telemetry", "critical" if event.level == "critical" else "error"
            )
            tally.agents.add(call.agent) if call.agent else None
            tally.tools.add(call.tool)
            if call.id and len(tally.evidence) < 10:
                tally.evidence.append(call.id)
        return list(found.values())


def _scan_file(path: Path, reader: _Reader, tail: int | None, aside: list[SetAside]) -> list[Tally]:
    try:
        if tail is None:
            from sitoolkit.logs.counts import count_errors

            return count_errors(path, reader.tally, reader.now)
        part = open_part(path, None, tail)
    except OSError as fault:
        aside.append(SetAside(file=str(path), reason=fault.strerror or str(fault)))
        return []
    return _tallies(part.lines, part.first_line, str(path), reader) if part else []


def _tallies(lines: Iterable[str], first_line: int, source: str, reader: _Reader) -> list[Tally]:
    found: dict[tuple[str, str, int], Tally] = {}
    for event in read_events(lines, now=reader.now, first_line=first_line, errors_only=True):
        if event.level in ("error", "critical") and not event.logger.startswith(_OWN):
            reader.tally(found, event, source, event.level)
    return list(found.values())


def _scan_new(
    state: ScanLog, files: Iterable[Path], reader: _Reader, tail: int, aside: list[SetAside]
) -> None:
    """Read what is new and keep it in the state, from which the window is read."""
    places: dict[str, Place] = state.places()
    for file in files:
        name = str(file)
        try:
            part = open_part(file, places.get(name), tail)
        except OSError as fault:
            aside.append(SetAside(file=name, reason=fault.strerror or str(fault)))
            continue
        if part is None:
            continue
        if part.skipped_bytes and name not in places:
            log.info(
                "%s: the first %d bytes are older than the tail and are not read", name, part.skipped_bytes
            )
        found = _tallies(part.lines, part.first_line, name, reader)
        state.keep(name, part.place, found)
