"""The journal: events come in and are chained by hash; who saw what, what was written, and by which run, goes out.

One line an entry, a file a month: `{"hash": H, "prev": hash of the entry before, "seq": n, "id": …, "at": …, "event": …,
"run_id": …, "data": …}`, where H is the SHA-256 of the line's bytes behind the hash. Several processes append safely.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from sitoolkit.errors import NotFoundError
from sitoolkit.records import Clock, Record, UtcTime, iso, parse_time, utc_now
from sitoolkit.stores.log import (
    Fault,
    Line,
    decode,
    encode,
    explain_disk,
    locked_file,
    read_lines,
    write_lines,
)

__all__ = ["Cursor", "Entry", "Journal", "Verdict"]

_ACCESS = "access.json"  # counts of recalls up to a place, so that a new process need not read all
_SAVE_BYTES = 1 << 20
START = "0" * 64  # `prev` of the first entry
_HEAD = b'{"hash":"'
_BODY = len(_HEAD) + 64 + len(b'",')  # where the hashed bytes begin


class Entry(Record):
    """One entry of a journal."""

    id: str
    seq: int  # 1 for the first; no gaps
    at: UtcTime
    event: str
    run_id: str | None = None
    data: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies defaults
    prev: str = START
    hash: str = ""


class Verdict(Record):
    """What `verify` found: the chain holds, or the first entry where it does not."""

    ok: bool
    entries: int
    broken: str | None = None  # id of the first entry that does not fit (or where it stands)
    reason: str | None = None
    torn: tuple[str, ...] = ()  # lines cut off by a killed writer; they break nothing


class _Place(NamedTuple):
    segment: str
    offset: int
    number: int


class Journal:
    """Append-only, hash-chained events of a workspace.

    >>> journal = Journal(Path("/tmp/example-journal"))
    >>> journal.append("recall", {"id": "rec_1", "items": [{"memory_id": "mem_1"}]}).startswith("jrn_")
    True

    Args:
        folder: where the monthly files lie; made at the first append.
        clock: gives the time of an entry.
        fsync: wait for the disk at each append.
    """

    def __init__(self, folder: str | os.PathLike[str], *, clock: Clock = utc_now, fsync: bool = True) -> None:
        self.folder = Path(folder)
        self.clock = clock
        self.fsync = fsync
        self._access = _Access(self)

    # ------------------------------------------------------------ in

    def append(self, event: str, data: Mapping[str, Any] | None = None, run_id: str | None = None) -> str:
        """Append one entry; gives its id.

        Args:
            event: what happened, as `recall`, `memory`, `run_started`.
            data: JSON values; redacted by the caller.
            run_id: the run it belongs to.

        Raises:
            StoreError: the disk is full or the folder read-only; nothing was kept.
        """
        return self.append_entry(event, data, run_id).id

    def append_entry(
        self,
        event: str,
        data: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        *,
        fsync: bool | None = None,
    ) -> Entry:
        """As `append`, and gives the whole entry."""
        at = self.clock()
        while True:
            segment = self._segment_for(at)
            with locked_file(self.folder / segment) as descriptor:
                if self._segment_for(at) != segment:  # another process began a new month meanwhile
                    continue
                prev, seq = self._tail(descriptor, segment)
                entry, line = _chain(prev, seq + 1, at, event, run_id, dict(data or {}))
                with explain_disk(self.folder):
                    write_lines(descriptor, [line], fsync=self.fsync if fsync is None else fsync)
                return entry

    def take_back(self, entry: Entry) -> bool:
        """Remove an entry that nothing followed: the write it announced failed, and was told to have failed.

        Gives false when others have appended since; the entry then stays.
        """
        segments = self.segments()
        if not segments:
            return False
        path = self.folder / segments[-1]
        with locked_file(path) as descriptor:
            size = os.fstat(descriptor).st_size
            last, start = _last_line(descriptor, size)
            if last is None or decode(last).get("hash") != entry.hash:
                return False
            with explain_disk(path):
                os.ftruncate(descriptor, start)
            return True

    # ------------------------------------------------------------ out

    def segments(self) -> list[str]:
        """Names of the monthly files, oldest first."""
        try:
            return sorted(name for name in os.listdir(self.folder) if name.endswith(".jsonl"))  # noqa: PTH208 - a name costs less than a Path, and this runs at every append
        except FileNotFoundError:
            return []

    def events(
        self,
        kind: str | Iterable[str] | None = None,
        since: datetime | str | None = None,
        *,
        until: datetime | str | None = None,
        run_id: str | None = None,
        faults: list[Fault] | None = None,
    ) -> Iterator[Entry]:
        """Entries in order, filtered by event name, time (`since` <= at <= `until`) and run.

        Args:
            kind: one event name or several; all when absent.
            since: aware time or ISO text.
            until: aware time or ISO text.
            run_id: only this run's.
            faults: takes lines that are no entries.
        """
        kinds = {kind} if isinstance(kind, str) else set(kind) if kind is not None else None
        first, last = parse_time(since), parse_time(until)
        # Most lines are of other kinds: the name is looked for in the bytes before the line is parsed.
        marks = [b'"event":' + encode_text(name) for name in kinds] if kinds is not None else None
        for line in self.lines(faults, marks=marks):
            record = line.record
            if kinds is not None and record.get("event") not in kinds:
                continue
            if run_id is not None and record.get("run_id") != run_id:
                continue
            entry = Entry.model_validate(record)
            if (first is None or entry.at >= first) and (last is None or entry.at <= last):
                yield entry

    def lines(
        self,
        faults: list[Fault] | None = None,
        *,
        after: _Place | None = None,
        marks: list[bytes] | None = None,
    ) -> Iterator[Line]:
        """Raw lines over all files, in order."""
        for segment in self.segments():
            offset = number = 0
            if after is not None:
                if segment < after.segment:
                    continue
                if segment == after.segment:
                    offset, number = after.offset, after.number
            yield from read_lines(
                self.folder / segment, offset=offset, number=number, faults=faults, marks=marks
            )

    def find(self, id: str) -> Entry:
        """The entry with this id, or the newest whose `data.id` it is (a recall's id, say).

        Raises:
            NotFoundError: no entry has it.
        """
        found: dict[str, Any] | None = None
        mark = encode_text(id)
        for line in self.lines(marks=[mark]):
            record = line.record
            if record.get("id") == id:
                return Entry.model_validate(record)
            data = record.get("data")
            if isinstance(data, dict) and data.get("id") == id:
                found = record
        if found is None:
            raise NotFoundError(
                f"no entry {id!r} in the journal {self.folder}; `sitoolkit sql` lists recalls"
            )
        return Entry.model_validate(found)

    def head(self) -> tuple[int, str]:
        """Sequence number and hash of the last entry; (0, zeros) for an empty journal."""
        segments = self.segments()
        if not segments:
            return 0, START
        with explain_disk(self.folder, "read"):
            descriptor = os.open(self.folder / segments[-1], os.O_RDONLY)
        try:
            prev, seq = self._tail(descriptor, segments[-1])
        finally:
            os.close(descriptor)
        return seq, prev

    def verify(self) -> Verdict:
        """Recompute every hash and link; name the first entry that was changed, or before which one is missing."""
        prev, seq, entries = START, 0, 0
        faults: list[Fault] = []
        for line in self.lines(faults):
            record = line.record
            name = str(record.get("id") or f"line {line.number}")
            body = line.raw[_BODY:]
            if not line.raw.startswith(_HEAD) or hashlib.sha256(body).hexdigest() != record.get("hash"):
                return Verdict(ok=False, entries=entries, broken=name, reason="its content was changed")
            if record.get("prev") != prev or record.get("seq") != seq + 1:
                return Verdict(
                    ok=False,
                    entries=entries,
                    broken=name,
                    reason="an entry before it is missing or was changed",
                )
            prev, seq, entries = str(record["hash"]), seq + 1, entries + 1
        torn = tuple(f"{fault.file}:{fault.line}: {fault.reason}" for fault in faults)
        return Verdict(ok=True, entries=entries, torn=torn)

    def access(self) -> dict[str, tuple[int, datetime]]:
        """For each memory that a recall served: how often, and when last. Reads only what is new since the last call."""
        return self._access.read()

    # ------------------------------------------------------------ inside

    def _segment_for(self, at: datetime) -> str:
        name = f"{at:%Y-%m}.jsonl"
        segments = self.segments()
        # A clock that was set back must not put an entry before its predecessor.
        return max(name, segments[-1]) if segments else name

    def _tail(self, descriptor: int, segment: str) -> tuple[str, int]:
        """Hash and number of the last whole entry at or before `segment`."""
        size = os.fstat(descriptor).st_size
        while size:
            last, start = _last_line(descriptor, size)
            if last is not None:
                with suppress(ValueError, KeyError, TypeError):  # a torn line: the one before it counts
                    record = decode(last)
                    return str(record["hash"]), int(record["seq"])
            size = start
        for earlier in reversed([name for name in self.segments() if name < segment]):
            other = os.open(self.folder / earlier, os.O_RDONLY)
            try:
                return self._tail(other, earlier)
            finally:
                os.close(other)
        return START, 0


def encode_text(text: str) -> bytes:
    """A text as it stands in an encoded line."""
    return encode({"": text})[4:-1]


def _chain(
    prev: str, seq: int, at: datetime, event: str, run_id: str | None, data: dict[str, Any]
) -> tuple[Entry, bytes]:
    name = hashlib.sha256(f"{prev}{seq}{event}".encode()).hexdigest()[:24]
    fields = {
        "prev": prev,
        "seq": seq,
        "id": f"jrn_{name}",
        "at": iso(at),
        "event": event,
        "run_id": run_id,
        "data": data,
    }
    body = encode(fields)[1:]
    own = hashlib.sha256(body).hexdigest()
    line = _HEAD + own.encode() + b'",' + body
    return Entry.model_validate({**fields, "at": at, "hash": own}), line


def _last_line(descriptor: int, size: int) -> tuple[bytes | None, int]:
    """The last line that ends before `size`, and where it starts; blank lines are skipped."""
    end, step = size, 16 << 10
    data = b""
    place = size
    while True:
        place = max(0, end - step)
        data = os.pread(descriptor, end - place, place)
        text = data.rstrip(b"\n ")
        cut = text.rfind(b"\n")
        if cut >= 0 or place == 0:
            start = place + cut + 1
            line = text[cut + 1 :]
            return (line or None), (start if line else 0)
        step *= 4


class Cursor:
    """Reads what a journal gained since the last time, of one event.

    Args:
        journal: the journal.
        event: the event to read.
        place: where an earlier cursor stopped, as `place` gave it.
    """

    def __init__(self, journal: Journal, event: str, place: Mapping[str, Any] | None = None) -> None:
        self._journal = journal
        self._mark = b'"event":' + encode_text(event)
        self._event = event
        self._place = _FIRST
        self._before = b""  # the bytes before the place, by which it is known again
        if place:
            self._place = _Place(str(place["segment"]), int(place["offset"]), int(place["number"]))
            self._before = bytes.fromhex(place["before"])
        self.restarted = False  # whether the last `read` had to begin anew: an entry was taken back

    @property
    def place(self) -> dict[str, Any]:
        """Where the next reading starts; JSON."""
        return {**self._place._asdict(), "before": self._before.hex()}

    def read(self) -> Iterator[dict[str, Any]]:
        """The entries that are new, as JSON objects."""
        self.restarted = not self._sound()
        if self.restarted:
            self._place, self._before = _FIRST, b""
        for segment in self._journal.segments():
            if segment < self._place.segment:
                continue
            path = self._journal.folder / segment
            offset, number = self._place[1:] if segment == self._place.segment else (0, 0)
            for line in read_lines(path, offset=offset, number=number, marks=[self._mark], ends=True):
                self._place, self._before = _Place(segment, line.end, line.number), line.raw[-_KNOWN_BY:]
                if line.record.get("event") == self._event:
                    yield line.record

    def _sound(self) -> bool:
        """Whether the bytes before the place are still those that were read."""
        if not self._place.offset:
            return True
        wanted = self._before + b"\n"
        try:
            with (self._journal.folder / self._place.segment).open("rb") as file:
                file.seek(self._place.offset - len(wanted))
                return file.read(len(wanted)) == wanted
        except OSError:
            return False


_FIRST = _Place("", 0, 0)
_KNOWN_BY = 48


class _Access:
    """Counts of served memories, kept up to date by reading what the journal gained; kept on disk for the next process."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._cursor: Cursor | None = None
        self._counts: dict[str, tuple[int, datetime]] = {}
        self._saved = _FIRST

    def read(self) -> dict[str, tuple[int, datetime]]:
        if self._cursor is None:
            self._cursor = self._load()
        fresh = list(self._cursor.read())
        if self._cursor.restarted:
            self._counts.clear()
        for record in fresh:
            self._count(record)
        place = self._cursor._place
        if place.segment != self._saved.segment or place.offset - self._saved.offset > _SAVE_BYTES:
            self._save()
        return self._counts

    def _load(self) -> Cursor:
        with suppress(OSError, ValueError, KeyError, TypeError):  # a cache: without it all is read
            kept = decode((self._journal.folder / _ACCESS).read_bytes())
            cursor = Cursor(self._journal, "recall", kept["place"])
            if cursor._sound():
                self._counts = {
                    id: (int(count), datetime.fromtimestamp(micros / 1e6, UTC))
                    for id, (count, micros) in kept["counts"].items()
                }
                self._saved = cursor._place
                return cursor
        return Cursor(self._journal, "recall")

    def _save(self) -> None:
        assert self._cursor is not None
        self._saved = self._cursor._place
        if self._saved.offset < _SAVE_BYTES and self._saved.segment == (self._journal.segments() or [""])[0]:
            return  # reading so little costs less than keeping it
        counts = {id: (count, round(last.timestamp() * 1e6)) for id, (count, last) in self._counts.items()}
        path = self._journal.folder / _ACCESS
        partial = path.with_suffix(f".{os.getpid()}.partial")
        with suppress(OSError):  # a cache
            partial.write_bytes(encode({"place": self._cursor.place, "counts": counts}))
            partial.replace(path)

    def _count(self, record: Mapping[str, Any]) -> None:
        data = record.get("data")
        at = parse_time(record.get("at"))
        if at is None or not isinstance(data, dict) or data.get("shadow"):
            return
        for item in data.get("items") or ():
            memory = item.get("memory_id") if isinstance(item, dict) else item
            if isinstance(memory, str):
                count, last = self._counts.get(memory, (0, at))
                self._counts[memory] = (count + 1, max(last, at))
