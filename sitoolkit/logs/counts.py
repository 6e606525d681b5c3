"""The errors of a whole log, however large: comes in a file, goes out tallies, in bounded memory and at the disk's speed.

Lines that differ in digits only are counted together by polars first; each kind is then read once, as the tail scan reads
every line. Tracebacks are found by their first line and read as blocks.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from sitoolkit.logs.events import LogEvent, read_events
from sitoolkit.logs.lines import parse_line
from sitoolkit.stores.scans import Tally

__all__ = ["count_errors"]

Add = Callable[[dict[tuple[str, str, int], Tally], LogEvent, str, str], Tally]

_MAY_BE_ERROR = (  # a level that is one, an error without a level, or the first lines of a traceback; literals, for speed
    r"ERR|[Ee]rr|CRIT|[Cc]rit|FATAL|[Ff]atal|SEVERE|[Ss]evere|ALERT|[Aa]lert|EMERG|[Ee]merg|PANIC|[Pp]anic|FAILURE|[Ff]ailure"
    r"|Exception|Traceback|^(?:\t|    )at |\"(?:level|severity)\":\s*(?:[45]\d|60)\b|^[EF]\d{4} |\s[EF] [\w.-]+\s*: "
)
_VALUES = (
    r"[a-f]{0,4}[0-9][0-9a-f-]*"  # numbers, hexadecimal, UUIDs; what is over-folded is told apart by `_KEPT`
)
_KEPT = (  # digits that are part of what is said
    r"((?:HTTP|[Ee]rrno)[^0-9]{0,18}\d{1,3}|\b(?:python|py|sha|utf|ipv|md|base|http|oauth|u?int|float|x|amd|arm|tls|ssl|h|s|ec|p|v|es|log|[A-Z]{1,6}-?)\d+)"
)
_OPENS = re.compile(r"\s*(?:\+\s*)?(?:Exception Group )?Traceback \(most recent call last\)|(?:\t|    )at ")
_ISO = re.compile(r"\[?\d{4}-\d\d-\d\d[T _]\d\d:\d\d:\d\d")
_MARKS = (b"Traceback (most recent call last)", b"\n\tat ", b"\n    at ")
_BLOCK_BYTES = 64_000


def count_errors(path: Path, add: Add, now: datetime) -> list[Tally]:
    """Count the error lines and tracebacks of a whole file.

    Args:
        path: the log.
        add: puts an event into a dictionary of tallies and gives the tally.
        now: to find the year of times without one.

    Raises:
        OSError: the file cannot be read.
    """
    found: dict[tuple[str, str, int], Tally] = {}
    if path.stat().st_size == 0:
        return []
    blocks = False
    for count, first, last in _kinds(path):
        if _OPENS.match(first):
            blocks = True
            continue
        for event in read_events([first], now=now):
            if event.level not in ("error", "critical") or event.logger.startswith("sitoolkit"):
                continue
            tally = add(found, event, str(path), event.level)
            tally.count += count - 1
            until = parse_line(last, now).time if count > 1 and event.time is not None else None
            if until is not None and event.time is not None:
                tally.first = min(tally.first or event.time, event.time, until)
                tally.last = max(tally.last or event.time, event.time, until)
    for block in _blocks(path) if blocks else ():
        _add_block(block, found, add, str(path), now)
    return [tally for tally in found.values() if tally.count > 0]


def _kinds(path: Path) -> Iterator[tuple[int, str, str]]:
    """Kinds of lines that may be errors: how many, and the first and last of them by their text."""
    import polars as pl

    line = pl.col("line")
    dated = _is_dated(path)
    said = line.str.slice(24) if dated else line
    frame: Any = (
        pl.scan_lines(path, name="line", glob=False)
        .filter(line.str.contains(_MAY_BE_ERROR))
        .select(line.str.slice(0, 2_000))
        .with_columns(
            kind=said.str.replace_all(_VALUES, "0"),
            kept=said.str.extract(_KEPT, 1),
            hour=line.str.slice(0, 14) if dated else pl.lit(""),
        )
        .group_by("kind", "kept", "hour")
        .agg(pl.len().alias("count"), pl.col("line").min().alias("first"), pl.col("line").max().alias("last"))
        .sort("first", "last")
        .collect(engine="streaming")
    )
    for row in frame.iter_rows(named=True):
        yield row["count"], row["first"], row["last"]


def _is_dated(path: Path) -> bool:
    """Whether lines begin with an ISO time, so that their text sorts by time and their hour can be cut out."""
    with path.open(encoding="utf-8", errors="replace") as file:
        sample = [line for _, line in zip(range(200), file, strict=False)]
    return sum(bool(_ISO.match(line)) for line in sample) * 2 > len(sample)


def _blocks(path: Path) -> Iterator[list[str]]:
    """The lines of each traceback, with the line before it."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        size = len(data)
        ahead = {mark: data.find(mark) for mark in _MARKS}
        while True:
            nearest = min((place for place in ahead.values() if place >= 0), default=-1)
            if nearest < 0:
                return
            begin = data.rfind(b"\n", 0, data.rfind(b"\n", 0, nearest + 1) if nearest else 0) + 1
            lines, position = [], begin
            while position < min(size, begin + _BLOCK_BYTES):
                end = data.find(b"\n", position)
                end = size if end < 0 else end
                lines.append(data[position:end].decode("utf-8", "replace"))
                position = end + 1
                if position > nearest and len(lines) > 2 and _ends(lines):
                    break
            yield lines
            ahead = {
                mark: data.find(mark, position - 1) if 0 <= place < position else place
                for mark, place in ahead.items()
            }


_INSIDE = re.compile(r"\s|Caused by: |Traceback |During handling|The above exception|\s*$")


def _ends(lines: list[str]) -> bool:
    """A block ends at the second line in a row that begins an event of its own."""
    return not _INSIDE.match(lines[-1]) and not _INSIDE.match(lines[-2])


def _add_block(
    lines: list[str], found: dict[tuple[str, str, int], Tally], add: Add, source: str, now: datetime
) -> None:
    for event in read_events(lines, now=now):
        if not event.exception or not event.frame:
            continue
        if event.level in ("error", "critical"):
            add(found, event, source, event.level)
        # The head of the block, and the line that names the exception, were counted as lines of their own.
        for line in event.text.split("\n"):
            for alone in read_events([line], now=now):
                if alone.level in ("error", "critical"):
                    add(found, alone, source, alone.level).count -= 2
