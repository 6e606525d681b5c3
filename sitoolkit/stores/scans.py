"""How far each log file was read and what was found there: tallies come in with their offset, tallies of a window go out.

One line a file and scan holds both the offset and the counts, so a scan that is killed leaves both or neither, and the next
one reads the same bytes again. Signatures that were shown are kept beside them, with the ids that they replace.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sitoolkit.stores.log import AppendLog, Fault

__all__ = ["KnownSignature", "Place", "ScanLog", "Tally", "file_head"]

HEAD_BYTES = 64  # of a file that tell whether it is still the same one
MOST_TIMES = 200  # instants kept of a tally, to see that two sources saw one event


@dataclass
class Tally:
    """How often one template was seen in one place within one hour."""

    template: str
    source: str
    severity: str
    count: int = 0
    first: datetime | None = None
    last: datetime | None = None
    seen_at: datetime | None = None  # when it was read; stands for its time where a log writes none
    example: str = ""
    merges: bool = True  # false: signed by type and frame, never merged by likeness
    times: list[float] = field(default_factory=list)
    agents: set[str] = field(default_factory=set)
    tools: set[str] = field(default_factory=set)
    evidence: list[str] = field(default_factory=list)

    def add(self, when: datetime | None, count: int = 1) -> None:
        self.count += count
        if when is None:
            return
        if self.first is None or when < self.first:
            self.first = when
        if self.last is None or when > self.last:
            self.last = when
        if len(self.times) < MOST_TIMES:
            self.times.append(when.timestamp())


@dataclass(frozen=True)
class Place:
    """How far a file was read."""

    offset: int
    line: int  # lines before the offset, as far as they were counted
    inode: int
    head: str
    head_bytes: int
    size: int
    open_line: bool = False  # the line at the offset was counted before it had its newline


@dataclass(frozen=True)
class KnownSignature:
    """A signature that was shown before; `members` are digests of the templates it stood for."""

    id: str
    template: str
    version: int
    members: frozenset[str]
    replaces: tuple[str, ...]
    first_known: str


def file_head(path: Path, size: int) -> tuple[str, int]:
    """Digest of the first bytes of a file, and how many they are."""
    with path.open("rb") as file:
        head = file.read(min(HEAD_BYTES, size))
    return hashlib.sha256(head).hexdigest()[:16], len(head)


class ScanLog:
    """The state of the scans of a workspace.

    >>> ScanLog(Path("/tmp/example-scans")).places()
    {}

    Args:
        folder: where the state lies; made at the first write.
        fsync: wait for the disk.
    """

    def __init__(self, folder: str | os.PathLike[str], *, fsync: bool = True) -> None:
        self.folder = Path(folder)
        self._scans = AppendLog(self.folder / "scans.jsonl", fsync=fsync)
        self._book = AppendLog(self.folder / "book.jsonl", fsync=fsync)

    def places(self) -> dict[str, Place]:
        """How far each file was read last."""
        found = {}
        for record in self._records(self._scans):
            place = record.get("place")
            if isinstance(place, dict):
                found[str(record.get("file"))] = Place(**place)
        return found

    def keep(self, file: str, place: Place, tallies: Iterable[Tally]) -> None:
        """Keep what one scan found in one file, together with how far it read."""
        self._scans.append({"file": file, "place": vars(place), "tallies": [_packed(one) for one in tallies]})

    def tallies(self, since: datetime | None) -> Iterator[Tally]:
        """What scans found whose hour reaches into the window; a file that was read anew counts once."""
        for record in self._records(self._scans):
            for packed in record.get("tallies") or ():
                tally = _unpacked(packed)
                when = tally.last or tally.seen_at
                if since is None or when is None or when >= since:
                    yield tally

    def known(self) -> dict[str, KnownSignature]:
        """The signatures shown so far, by id."""
        found = {}
        for record in self._records(self._book):
            found[str(record["id"])] = KnownSignature(
                str(record["id"]),
                str(record.get("template", "")),
                int(record.get("version", 1)),
                frozenset(record.get("members") or ()),
                tuple(record.get("replaces") or ()),
                str(record.get("first_known", "")),
            )
        return found

    def note(self, signatures: Iterable[KnownSignature]) -> None:
        """Remember signatures that were shown."""
        self._book.extend(
            {**vars(one), "members": sorted(one.members), "replaces": list(one.replaces)}
            for one in signatures
        )

    def _records(self, log: AppendLog) -> Iterator[dict[str, Any]]:
        faults: list[Fault] = []  # a torn line is a scan that was killed: its bytes are read again
        if log.path.exists():
            yield from log.records(faults)


def _packed(tally: Tally) -> dict[str, Any]:
    return {
        "t": tally.template, "s": tally.source, "v": tally.severity, "n": tally.count, "e": tally.example,
        "m": tally.merges, "f": _stamp(tally.first), "l": _stamp(tally.last), "r": _stamp(tally.seen_at),
        "w": [round(one, 3) for one in tally.times], "i": tally.evidence,
    }  # fmt: skip


def _unpacked(packed: dict[str, Any]) -> Tally:
    return Tally(
        packed["t"], packed["s"], packed["v"], packed["n"], _when(packed["f"]), _when(packed["l"]), _when(packed["r"]),
        packed["e"], packed["m"], list(packed["w"]), evidence=list(packed.get("i") or ()),
    )  # fmt: skip


def _stamp(when: datetime | None) -> float | None:
    return when.timestamp() if when else None


def _when(stamp: float | None) -> datetime | None:
    return datetime.fromtimestamp(stamp, UTC) if stamp is not None else None
