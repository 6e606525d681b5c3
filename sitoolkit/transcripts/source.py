"""Bytes of a transcript become JSON records with line numbers: in comes a file, out come its values, one at a time.

Plain, `.gz` and `.zst` files, told by their first bytes; UTF-8, and UTF-16 where a byte-order mark says so. A file is
read as lines of JSON where its first full line is JSON, else as JSON values one after another. Only `\\n` ends a
line, so line numbers are those of `wc -l` plus one. What is damaged costs one record: it is repaired where the repair
is certain, else set aside with file, line and reason.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import orjson

from sitoolkit.errors import TranscriptError
from sitoolkit.records import Outcome, Session

__all__ = ["Head", "ReadReport", "SetAside", "TranscriptFile", "loads", "parse_args"]

HEAD_BYTES = 65_536  # what detection looks at; the first record of nearly every format fits
WHOLE_BYTES = 32_000_000  # a file of one JSON value up to this size is parsed whole for detection
KEPT_REASONS = 10_000  # a gigabyte of damaged lines must not fill the memory with reasons
KEPT_TYPES = 1_000
_CHUNK = 1 << 20
_DECODER = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"[ \t\r\n\ufeff\x00\x1e]*")  # \x1e: JSON text sequences (RFC 7464)
_SURROGATE = re.compile("[\ud800-\udfff]")
_GENERIC_NAMES = frozenset({
    "messages", "message", "transcript", "transcripts", "session", "sessions", "trajectory", "traj", "conversation",
    "conversations", "output", "log", "results", "result", "history", "events", "chat", "data", "main", "trace", "run",
    "rollout", "api_conversation_history", "index",
})  # fmt: skip


class SetAside(NamedTuple):
    """One record that could not be read, or one file."""

    file: str
    line: int | None
    reason: str


@dataclass
class ReadReport:
    """What happened to everything that was read; filled while sessions are read.

    >>> report = ReadReport()
    >>> sessions = list(read_sessions("runs/", report=report))
    >>> report.set_aside
    """

    files: int = 0
    sessions: int = 0
    calls: int = 0  # calls that ran; `never_ran` stands beside
    results: int = 0  # calls with their result, and results without a call
    paired: int = 0
    guessed: int = 0
    orphaned: int = 0
    never_ran: int = 0
    abandoned: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)  # files of each format
    set_aside: list[SetAside] = field(
        default_factory=list
    )  # the first 10,000; `set_aside_count` has them all
    set_aside_count: int = 0
    unknown_types: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)  # kind of repair -> how often

    def put_aside(self, file: str, line: int | None, reason: str) -> None:
        """Record that one record (or, without a line, one file) was not read."""
        self.set_aside_count += 1
        if len(self.set_aside) < KEPT_REASONS:
            self.set_aside.append(SetAside(file, line, reason))

    def unknown(self, kind: object) -> None:
        """Count a record whose type the reader does not know."""
        name = str(kind)[:80]
        self.unknown_types[
            name if name in self.unknown_types or len(self.unknown_types) < KEPT_TYPES else "…"
        ] += 1

    def saw(self, session: Session) -> None:
        """Add one finished session to the counts."""
        self.sessions += 1
        self.orphaned += session.orphan_results
        self.results += session.orphan_results
        paired = ran = total = guessed = abandoned = 0
        outcomes: dict[Outcome, int] = {}
        for turn in session.turns:
            for call in turn.calls:
                total += 1
                if call.ran:
                    ran += 1
                    outcome = call.outcome
                    outcomes[outcome] = outcomes.get(outcome, 0) + 1
                paired += call.paired
                guessed += call.guessed
                abandoned += call.abandoned
        for outcome, count in outcomes.items():
            self.outcomes[outcome.value] += count
        self.calls += ran
        self.never_ran += total - ran
        self.paired += paired
        self.results += paired
        self.guessed += guessed
        self.abandoned += abandoned

    @property
    def failed(self) -> int:
        """Calls that ended in a failure or a timeout."""
        return self.outcomes[Outcome.FAILURE.value] + self.outcomes[Outcome.TIMEOUT.value]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, with the keys of the contract and the counts beside them."""
        return {
            "files": self.files,
            "sessions": self.sessions,
            "calls": self.calls,
            "results": self.results,
            "set_aside": [item._asdict() for item in self.set_aside],
            "set_aside_count": self.set_aside_count,
            "unknown_types": dict(sorted(self.unknown_types.items())),
            "repaired": dict(sorted(self.repaired.items())),
            "paired": self.paired,
            "guessed": self.guessed,
            "orphaned": self.orphaned,
            "never_ran": self.never_ran,
            "abandoned": self.abandoned,
            "outcomes": dict(sorted(self.outcomes.items())),
            "formats": dict(sorted(self.formats.items())),
        }


# ---------------------------------------------------------------- one JSON text


def _scrub(value: Any) -> Any:
    """Lone surrogates cannot be written as UTF-8; U+FFFD takes their place."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_scrub(key): _scrub(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_scrub(item) for item in value]
    return value


def loads(text: bytes | str) -> Any:
    """Parse one JSON text; NaN, infinities, numbers of any size, control characters and lone surrogates are tolerated.

    Raises:
        ValueError: it is not JSON, or nested too deep.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        try:
            return _scrub(_DECODER.decode(text))
        except RecursionError as fault:
            raise ValueError("nested too deep") from fault


_LONG_NUMBER = re.compile(r"\d{17,}")


def parse_args(text: object) -> tuple[Any, str | None]:
    """The arguments of a call and, where they are not JSON, why: `(args, error)`.

    Empty text is no argument at all, `{}`. Text that is not JSON is kept as it is, never replaced by `{}`.
    """
    if not isinstance(text, str):
        return ({} if text is None else text), None
    stripped = text.strip()
    if not stripped:
        return {}, None
    try:
        if len(stripped) > 17 and _LONG_NUMBER.search(stripped):  # ids of 20 digits must not become floats
            return _scrub(_DECODER.decode(stripped)), None
        value = loads(stripped)
    except (ValueError, RecursionError) as fault:
        return text, f"arguments are not JSON: {str(fault)[:120]}"
    if isinstance(value, str):  # JSON inside a JSON string
        try:
            inner = loads(value)
        except ValueError:
            return value, None
        return (inner if isinstance(inner, dict) else value), None
    return ({} if value is None else value), None


def _decode_at(text: str, at: int) -> tuple[Any, int]:
    try:
        value, end = _DECODER.raw_decode(text, at)
    except RecursionError as fault:
        raise ValueError("nested too deep") from fault
    return _scrub(value) if "\\u" in text else value, end


def _all_of(text: str, at: int) -> list[Any] | None:
    """All JSON objects from `at` on, if they fill the text to its end."""
    values: list[Any] = []
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if at >= len(text):
            return values
        if text[at] != "{":
            return None
        try:
            value, at = _decode_at(text, at)
        except ValueError:
            return None
        values.append(value)


def _repair(text: str, fault: str) -> tuple[list[Any], str | None, str | None]:
    """Values of a damaged line, the kind of repair, and the reason why the rest is set aside."""
    whole = _all_of(text, 0)
    if whole:
        return whole, ("two records on one line" if len(whole) > 1 else None), None
    start = _SPACE.match(text).end()  # type: ignore[union-attr]
    if text[start : start + 1] == "{":
        try:
            first, end = _decode_at(text, start)
        except ValueError:
            pass  # the first record is damaged; the one behind it may be whole
        else:
            later = _tail_of(text, end)
            reason = "text after a record" if not later else None
            return [first, *(later or [])], "two records on one line" if later else None, reason
    tail = _tail_of(text, start + 1)
    if tail:
        cut = text[start : start + 1] == "{"
        reason = "a record cut short before the next on the same line" if cut else None
        return tail, ("next record after a cut one" if cut else "stray leading text"), reason
    return [], None, f"not JSON: {fault[:120]}"


def _tail_of(text: str, start: int) -> list[Any] | None:
    """Whole records that end the line, behind text that is none; an object inside a cut record does not count."""
    opening = re.match(r'\s*\{"[^"]{1,40}"', text)
    marks = [re.escape(opening.group().strip())] if opening else []
    found = [m.start() for mark in marks for m in re.finditer(mark, text[start:])][:64]
    found += [m.start() for m in re.finditer(r'\{\s*"', text[start:])][:64]
    for at in sorted({start + offset for offset in found}):
        before = text[:at].rstrip()[-1:]
        if before and before in ":,[":
            continue
        values = _all_of(text, at)
        if values:
            return values
    return None


# ---------------------------------------------------------------- one file


@dataclass
class Head:
    """What detection sees of a file: its name, its first bytes and its first values."""

    path: Path
    data: bytes  # the first 64 kB, decompressed
    text: str
    layout: Literal["lines", "json", "text"]
    values: list[Any]  # lines: the first records; json: the first top-level values; an array stays an array
    container: Literal["array", "object", "none"] = "none"  # of the first top-level value in a json layout
    binary: bool = False

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def first(self) -> Any:
        """The first value, or `None`."""
        return self.values[0] if self.values else None

    @property
    def items(self) -> list[Any]:
        """The first records whatever the layout: an array's elements, else the values."""
        if self.container == "array" and self.values and isinstance(self.values[0], list):
            return self.values[0][:64]
        return self.values

    @property
    def dicts(self) -> list[dict[str, Any]]:
        """The objects among `items`."""
        return [item for item in self.items if isinstance(item, dict)]


class TranscriptFile:
    """One file to read. Readers get it as `source` and use `records`, `items`, `document` or `text`.

    >>> source = TranscriptFile("run.jsonl.gz")
    >>> for line, record in source.records(report): ...
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.file = str(self.path)
        self._head: Head | None = None
        self._document: Any = None
        self._has_document = False

    @property
    def stem(self) -> str:
        """The name without its endings; with the folder's name before it where the name says nothing."""
        name = self.path.name
        for ending in (
            ".gz",
            ".zst",
            ".jsonl",
            ".ndjson",
            ".json",
            ".yaml",
            ".yml",
            ".txt",
            ".md",
            ".log",
            ".traj",
        ):
            if name.lower().endswith(ending) and len(name) > len(ending):
                name = name[: -len(ending)]
        if name.lower() in _GENERIC_NAMES and self.path.absolute().parent.name:
            return f"{self.path.absolute().parent.name}/{name}"
        return name

    def session_id(self, key: object = "") -> str:
        """An id that stays the same when the file grows or is moved: the file's stem, and what tells its sessions apart."""
        return f"{self.stem}#{key}" if key != "" else self.stem

    def open(self) -> IO[bytes]:
        """The bytes of the file, decompressed, as UTF-8.

        Raises:
            TranscriptError: it cannot be opened.
        """
        try:
            raw = io.BufferedReader(io.FileIO(self.path), _CHUNK)
        except OSError as fault:
            raise TranscriptError(f"{self.file}: {fault.strerror or fault}", file=self.file) from fault
        magic = raw.peek(4)[:4]
        if magic[:2] == b"\x1f\x8b":
            raw.close()
            return gzip.open(self.path, "rb")  # type: ignore[return-value]
        if magic == b"\x28\xb5\x2f\xfd":
            return io.BufferedReader(_Zstd(raw), _CHUNK)
        if magic[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and magic != b"\xff\xfe\x00\x00":
            return io.BufferedReader(_Recoded(raw))
        return raw

    def lines(self, report: ReadReport | None = None) -> Iterator[tuple[int, bytes]]:
        """Line number and bytes of each line; a stream that breaks off is reported and ends the lines."""
        number = 0
        with self.open() as handle:
            try:
                for number, line in enumerate(handle, 1):
                    yield number, line
            except (OSError, EOFError, zlib.error) as fault:
                if report is None:
                    raise TranscriptError(f"{self.file}: {fault}", file=self.file, line=number) from fault
                report.put_aside(self.file, number + 1, f"the file breaks off: {fault}")
            except Exception as fault:
                if type(fault).__name__ != "ZstdError":  # its class is known only once zstandard is loaded
                    raise
                if report is None:
                    raise TranscriptError(f"{self.file}: {fault}", file=self.file, line=number) from fault
                report.put_aside(self.file, number + 1, f"the file breaks off: {fault}")

    def records(self, report: ReadReport) -> Iterator[tuple[int, Any]]:
        """Each JSON value with the line it starts on: one a line, or one after another. Damaged ones are set aside."""
        if self.head.layout == "json":
            yield from self._values(report, open_arrays=False)
            return
        fast = orjson.loads
        for number, line in self.lines(report):
            try:
                yield number, fast(line)
            except orjson.JSONDecodeError as fault:
                yield from self._mend(number, line, str(fault), report)

    def _mend(self, number: int, line: bytes, fault: str, report: ReadReport) -> Iterator[tuple[int, Any]]:
        stripped = line.strip(b" \t\r\n\x1e")
        if not stripped or stripped == codecs.BOM_UTF8:
            return
        if not stripped.strip(b"\x00 "):
            report.put_aside(self.file, number, "only NUL bytes")
            return
        try:
            text = stripped.decode("utf-8")
        except UnicodeDecodeError:
            text = stripped.decode("utf-8", "replace")
            report.repaired["bytes that are not UTF-8"] += 1
        text = text.lstrip("\ufeff").strip("\x00 \t\r\n\x1e")
        try:
            yield number, loads(text)
            return
        except (ValueError, RecursionError) as problem:
            fault = str(problem) or fault
        values, repair, reason = _repair(text, fault)
        if repair:
            report.repaired[repair] += 1
        if reason:
            report.put_aside(self.file, number, reason)
        for value in values:
            yield number, value

    def items(self, report: ReadReport) -> Iterator[tuple[int, Any]]:
        """Like `records`, but a top-level array of a document is opened: its elements come one at a time."""
        if self.head.layout == "json" or self.head.container == "array":
            yield from self._values(report, open_arrays=True)
        else:
            yield from self.records(report)

    def document(self) -> Any:
        """The whole file as one JSON value.

        Raises:
            TranscriptError: it is not one JSON value.
        """
        if not self._has_document:
            with self.open() as handle:
                data = handle.read()
            try:
                self._document = loads(data.strip(b"\x00 \t\r\n").removeprefix(codecs.BOM_UTF8))
            except (ValueError, RecursionError) as fault:
                raise TranscriptError(f"{self.file}: not JSON: {fault}", file=self.file) from fault
            self._has_document = True
        return self._document

    def text(self) -> str:
        """The whole file as text."""
        with self.open() as handle:
            return handle.read().decode("utf-8", "replace").removeprefix("\ufeff")

    def _values(self, report: ReadReport, *, open_arrays: bool) -> Iterator[tuple[int, Any]]:
        """JSON values one after another, in bounded memory; what is no JSON ends the file with a set-aside record."""
        with self.open() as handle:
            window = _Window(handle)
            inside = False
            while True:
                window.skip(", \t\r\n\x00\ufeff\x1e" if inside else " \t\r\n\x00\ufeff\x1e")
                start = window.peek()
                if not start:
                    if inside:
                        report.put_aside(
                            self.file, window.line, "the array is not closed: the file is cut short"
                        )
                    return
                if inside and start == "]":
                    window.at += 1
                    inside = False
                    continue
                if open_arrays and not inside and start == "[":
                    window.at += 1
                    inside = True
                    continue
                line = window.line
                try:
                    value = window.take()
                except ValueError as fault:
                    report.put_aside(self.file, line, f"not JSON: {str(fault)[:120]}")
                    return
                yield line, value

    @property
    def head(self) -> Head:
        """The first bytes and values; read once.

        Raises:
            TranscriptError: the file is empty, cannot be opened, or is binary.
        """
        if self._head is None:
            self._head = self._read_head()
        return self._head

    def _read_head(self) -> Head:
        with self.open() as handle:
            try:
                data = handle.read(HEAD_BYTES)
            except Exception as fault:  # whatever a decompressor raises
                raise TranscriptError(f"{self.file}: cannot be read: {fault}", file=self.file) from fault
            if not data.strip(b"\x00 \t\r\n").removeprefix(codecs.BOM_UTF8):
                raise TranscriptError(
                    f"{self.file}: the file is empty", file=self.file, reason="the file is empty"
                )
            text = data.decode("utf-8", "replace").lstrip("\ufeff")
            cut = len(data) >= HEAD_BYTES
            if _looks_binary(data, text):
                return Head(self.path, data, text, "text", [], binary=True)
            first_end = data.find(b"\n")
            while cut and first_end < 0 and len(data) < WHOLE_BYTES:  # one very long line
                more = handle.read(_CHUNK)
                if not more:
                    cut = False
                    break
                data += more
                first_end = data.find(b"\n")
        values = _first_lines(data, cut)
        if values is not None:
            only = values[0] if len(values) == 1 and not cut else None
            return Head(self.path, data[:HEAD_BYTES], text, "lines", values, _container(only))
        stripped = text.lstrip(" \t\r\n\x00\x1e")
        if stripped[:1] in ("{", "["):
            found = self._first_values()
            if found:
                return Head(self.path, data[:HEAD_BYTES], text, "json", found, _container(found[0]))
        return Head(self.path, data[:HEAD_BYTES], text, "text", [])

    def _first_values(self) -> list[Any]:
        """The first top-level values of a document; of a large array its first elements."""
        scratch = ReadReport()
        try:
            size = self.path.stat().st_size
        except OSError:
            size = 0
        if size <= WHOLE_BYTES:
            try:
                return [self.document()]
            except TranscriptError:
                pass  # several values, or cut short: what can be read is read
        found: list[Any] = []
        with self.open() as handle:
            is_array = handle.read(4096).decode("utf-8", "replace").lstrip("\ufeff \t\r\n\x00")[:1] == "["
        for _line, value in self._values(scratch, open_arrays=is_array):
            found.append(value)
            if len(found) >= 16:
                break
        return [found] if is_array and found else found


def _container(value: Any) -> Literal["array", "object", "none"]:
    return "array" if isinstance(value, list) else "object" if isinstance(value, dict) else "none"


def _first_lines(data: bytes, cut: bool) -> list[Any] | None:
    """The first records if the file is JSON lines; `None` if it is not."""
    lines = data.split(b"\n")
    if cut and len(lines) > 1:
        lines.pop()
    values: list[Any] = []
    bad = 0
    first_is_whole = False
    for line in lines[:200]:
        stripped = line.strip(b" \t\r\x00\x1e").removeprefix(codecs.BOM_UTF8)
        if not stripped:
            continue
        try:
            value = loads(stripped)
        except (ValueError, RecursionError):
            bad += 1
            text = stripped.decode("utf-8", "replace")
            values.extend(value for value in _repair(text, "")[0] if isinstance(value, dict))
            if bad > 3 + len(values):
                return None
            continue
        if not values and not bad:
            first_is_whole = isinstance(value, dict | list)
        values.append(value)
        if len(values) >= 64:
            break
    if not any(isinstance(value, dict | list) for value in values):
        return None
    return values if len(values) > bad or first_is_whole else None


def _looks_binary(data: bytes, text: str) -> bool:
    if data[:1] in (b"{", b"["):
        return False
    odd = sum(text.count(sign) for sign in ("\ufffd", "\x01", "\x02", "\x03", "\x04", "\x05", "\x06"))
    return odd > max(8, len(text) // 50)


class _Recoded(io.RawIOBase):
    """UTF-16 as UTF-8."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._reader = codecs.getreader("utf-16")(raw, "replace")
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            self._left = self._reader.read(_CHUNK // 4).encode("utf-8", "replace")
        part = self._left[: len(buffer)]
        self._left = self._left[len(part) :]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._reader.stream.close()
        super().close()


class _Zstd(io.RawIOBase):
    """A zstd file that says when it breaks off; frames may follow one another."""

    def __init__(self, raw: IO[bytes]) -> None:
        import zstandard

        self._raw = raw
        self._start = zstandard.ZstdDecompressor().decompressobj
        self._frame = self._start()
        self._left = b""
        self._begun = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            data = self._frame.unused_data if self._frame.eof else b""
            data = data or self._raw.read(_CHUNK // 8)
            if not data:
                if self._begun and not self._frame.eof:
                    raise EOFError("the compressed data ends within a frame")
                return 0
            if self._frame.eof:
                self._frame = self._start()
            self._begun = True
            self._left = self._frame.decompress(data)
        part = self._left[: len(buffer)]
        self._left = self._left[len(part) :]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Window:
    """A stream of text of which only the present value is held."""

    def __init__(self, handle: IO[bytes]) -> None:
        self._handle = handle
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._text = ""
        self.at = 0
        self._counted = 0  # up to here newlines are counted
        self._newlines = 0
        self._ended = False

    @property
    def line(self) -> int:
        self._newlines += self._text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._newlines + 1

    def _more(self, size: int = _CHUNK) -> bool:
        if self._ended:
            return False
        _ = self.line
        data = self._handle.read(size)
        self._ended = not data
        self._text = self._text[self.at :] + self._decode(data, self._ended)
        self.at = self._counted = 0
        return not self._ended

    def skip(self, signs: str) -> None:
        while True:
            text, at, end = self._text, self.at, len(self._text)
            while at < end and text[at] in signs:
                at += 1
            self.at = at
            if at < end or not self._more():
                return

    def peek(self) -> str:
        return self._text[self.at : self.at + 1]

    def take(self) -> Any:
        """The next value; reads on in doubling steps while it is cut."""
        size = _CHUNK
        while True:
            try:
                value, end = _decode_at(self._text, self.at)
            except ValueError:
                if not self._more(size):
                    raise
                size = min(size * 2, 1 << 26)
                continue
            if end == len(self._text) and not self._ended and self._text[end - 1] not in '}]"':
                self._more(size)  # a number may go on
                if not self._ended:
                    continue
            self.at = end
            return value
