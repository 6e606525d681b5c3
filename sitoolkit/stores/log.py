"""Append-only logs: records come in and become one JSON line each; lines come back as records, damaged ones with a reason.

Several processes may append to one file. A line is one `write` under an advisory lock; a process that is killed loses at
most the line it was writing, and the next append starts on a fresh line. What a full disk cut short is taken back.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from sitoolkit.errors import StoreError

__all__ = ["AppendLog", "Fault", "Line", "decode", "encode", "explain_disk", "read_lines", "read_records"]

CHUNK_BYTES = 4 << 20  # whole lines are written in chunks of about this size
_NEWLINE = b"\n"
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)


class Fault(NamedTuple):
    """A line that is no record: where it stands and why."""

    file: str
    line: int
    reason: str


class Line(NamedTuple):
    """One record with its place: 1-based line number, and the byte offset behind it."""

    record: dict[str, Any]
    number: int
    end: int
    raw: bytes


def encode(record: Mapping[str, Any]) -> bytes:
    """One line of JSON without its newline; lone surrogates and large integers survive."""
    import orjson

    try:
        return orjson.dumps(record)
    except TypeError:  # what orjson refuses: lone surrogates, integers above 64 bits, keys that are no text
        return json.dumps(record, ensure_ascii=True, separators=(",", ":"), default=str).encode("ascii")


def decode(line: bytes) -> Any:
    """The value of one line.

    Raises:
        ValueError: the line is not JSON.
    """
    import orjson

    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return json.loads(line)


@contextmanager
def explain_disk(path: Path, doing: str = "write") -> Iterator[None]:
    """Turn a full disk, a read-only folder and their kin into a `StoreError` that says what to do."""
    try:
        yield
    except OSError as fault:
        number = fault.errno or _number_in(str(fault))
        if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            reason, advice = "no space is left", "free some space and run the same command again"
        elif number in (errno.EACCES, errno.EPERM, errno.EROFS):
            reason, advice = "no right to write there", "change its permissions or choose another --workspace"
        else:
            reason, advice = str(fault), "run `sitoolkit doctor`"
        raise StoreError(
            f"cannot {doing} {path}: {reason}; nothing of this write was kept; {advice}"
        ) from fault


def _number_in(text: str) -> int:
    """The errno that a library of others put into its text, as in `No space left on device (os error 28)`."""
    _, found, rest = text.partition("os error ")
    digits = rest.split(")")[0] if found else ""
    return int(digits) if digits.isdigit() else 0


@contextmanager
def locked_file(path: Path) -> Iterator[int]:
    """Open `path` for appending and hold its advisory lock; gives the descriptor."""
    with explain_disk(path):
        try:
            descriptor = os.open(path, _APPEND, 0o644)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, _APPEND, 0o644)
    with _held(descriptor):
        yield descriptor


@contextmanager
def _held(descriptor: int) -> Iterator[None]:
    try:
        try:
            import fcntl
        except ImportError:  # Windows: one write call is all that guards a line there
            yield
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
    finally:
        os.close(descriptor)


def write_lines(descriptor: int, lines: Iterable[bytes], *, fsync: bool = True) -> int:
    """Append whole lines through a locked descriptor; all of them or none; gives the offset of the first.

    Raises:
        OSError: the disk is full; the file is as it was.
    """
    size = os.fstat(descriptor).st_size
    start = size
    torn = size > 0 and os.pread(descriptor, 1, size - 1) != _NEWLINE
    buffer = bytearray(_NEWLINE if torn else b"")
    start += len(buffer)
    try:
        for line in lines:
            buffer += line
            buffer += _NEWLINE
            if len(buffer) >= CHUNK_BYTES:
                _write_whole(descriptor, buffer)
                buffer = bytearray()
        if buffer:
            _write_whole(descriptor, buffer)
        if fsync:
            os.fsync(descriptor)
    except OSError:
        with suppress(OSError):  # the first fault is the one to tell; a cut that failed leaves a torn line
            os.ftruncate(descriptor, size)
        raise
    return start


def _write_whole(descriptor: int, data: bytes | bytearray) -> None:
    done = os.write(descriptor, data)
    if done != len(data):
        # A short write means that the disk is full or a limit is reached; the next one says which.
        rest = memoryview(data)[done:]
        while rest:
            rest = rest[os.write(descriptor, rest) :]


class AppendLog:
    """One JSON line a record, safe with several writers.

    >>> log = AppendLog(Path("/tmp/example.jsonl"), fsync=False)
    >>> log.append({"tool": "deploy"})

    Args:
        path: the file; its folder is made at the first append.
        fsync: wait until the disk has the lines before an append returns.
    """

    def __init__(self, path: str | os.PathLike[str], *, fsync: bool = True) -> None:
        self.path = Path(path)
        self.fsync = fsync

    def append(self, record: Mapping[str, Any]) -> None:
        """Append one record.

        Raises:
            StoreError: the disk is full or the folder is read-only; nothing was kept.
        """
        self.extend([record])

    def extend(self, records: Iterable[Mapping[str, Any]]) -> int:
        """Append records, all or none; gives how many."""
        lines = [encode(record) for record in records]
        if lines:
            with locked_file(self.path) as descriptor, explain_disk(self.path):
                write_lines(descriptor, lines, fsync=self.fsync)
        return len(lines)

    def records(self, faults: list[Fault] | None = None) -> Iterator[dict[str, Any]]:
        """All records in the order they were written; damaged lines go to `faults`."""
        return read_records(self.path, faults)


def read_lines(
    path: str | os.PathLike[str],
    *,
    offset: int = 0,
    number: int = 0,
    faults: list[Fault] | None = None,
    marks: list[bytes] | None = None,
    ends: bool = False,
) -> Iterator[Line]:
    """The records of a log from a byte offset on, with their places.

    A last line without its newline is being written or was torn: it is told in `faults` and not passed, so that `end` of
    the last line given is where the next reading starts.

    Args:
        path: the file; a missing one has no lines.
        offset: where to start; must be 0 or the `end` of an earlier line.
        number: lines before `offset`.
        faults: takes the lines that are no records.
        marks: only lines that contain one of these bytes are parsed; the others are passed over.
        ends: give a line without a record for what was passed over, so that the caller knows how far it read.
    """
    faults = [] if faults is None else faults
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - closed by the with below
    except FileNotFoundError:
        return
    with file:
        file.seek(offset)
        place = offset
        for raw in file:
            number += 1
            if not raw.endswith(_NEWLINE):
                faults.append(Fault(str(path), number, "the last line was cut off while it was written"))
                return
            place += len(raw)
            text = raw.strip()
            record: Any = None
            if text and (marks is None or any(mark in text for mark in marks)):
                try:
                    record = decode(text)
                except ValueError:
                    faults.append(
                        Fault(str(path), number, "not JSON: the line was cut off while it was written")
                    )
                else:
                    if not isinstance(record, dict):
                        faults.append(Fault(str(path), number, f"a {type(record).__name__}, not an object"))
                        record = None
            if record is not None:
                yield Line(record, number, place, text)
            elif ends:
                yield Line({}, number, place, text)


def read_records(path: str | os.PathLike[str], faults: list[Fault] | None = None) -> Iterator[dict[str, Any]]:
    """All records of a log, in order; damaged lines go to `faults` with line and reason."""
    return (line.record for line in read_lines(path, faults=faults))
