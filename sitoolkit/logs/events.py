"""What happened, by a log: comes in lines, goes out events, a traceback and its head joined into one.

Tracebacks of Python, Java and JavaScript are read as blocks; an event is signed by the exception raised last and the
innermost frame of one's own code, because what a library raises below it is the same for many causes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from sitoolkit.logs.lines import LogLine, begins_event, parse_line

__all__ = ["LogEvent", "read_events"]


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One event of a log: a message with its traceback, if it has one."""

    message: str
    level: str
    time: datetime | None
    logger: str
    line: int  # 1-based, of its first line
    exception: str = ""  # the type that was raised last
    frame: str = ""  # module:function of the innermost frame of one's own code
    text: str = ""  # what stood there, bounded


_TRACEBACK = re.compile(r"\s*(?:\+\s*)?(?:Exception Group )?Traceback \(most recent call last\)")
_PYTHON_FRAME = re.compile(r'\s+(?:\|\s+)*File "([^"]+)", line \d+(?:, in (.+))?')
_JAVA_FRAME = re.compile(r"\s+at ([\w.$/<>@-]+)\(([^)]*)\)")
_SCRIPT_FRAME = re.compile(r"\s+at (?:(?:async |new )?([\w.$<>\[\] ]+) \()?((?:file://)?[^()\s]+):\d+:\d+\)?")
_MORE = re.compile(r"\s+\.\.\. \d+ (?:more|common frames omitted)")
_CAUSE = re.compile(r"\s*(?:Caused by: |Suppressed: )(.*)")
_RAISED = re.compile(
    r"(?:\s*\|\s*|E\s+)?((?:[A-Za-z_][\w$]*\.)*[A-Z][\w$]*(?:Error|Exception|Warning|Exit|Interrupt|Fault|Failure|Timeout|Group|Iteration|[a-z]\w*))(?::\s*(.*)|\s*$)"
)
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_FOREIGN = re.compile(
    r"site-packages|dist-packages|[/\\]lib[/\\]python\d|<frozen|<string>|node_modules|node:internal|internal/|^(?:java|javax|jdk|sun|scala|kotlin|org\.junit|org\.apache|org\.springframework)\."
)
_LINE_CHARS = 100_000
_EVENT_LINES = 400  # a longer traceback is cut; its last line is what counts


_QUIET = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)?\]?[ |:-]+\[?(?:INFO|DEBUG|TRACE|NOTICE)\b"
)
_PASSED = LogLine("", None, "info", "", True)


class _Trace:
    """A traceback being read: frames and the exception that was raised last."""

    def __init__(self) -> None:
        self.exception = ""
        self.detail = ""
        self.frame = ""
        self.any_frame = ""

    def add_frame(self, where: str, name: str, *, innermost_last: bool) -> None:
        label = _frame_label(where, name)
        if innermost_last or not self.any_frame:
            self.any_frame = label
        if not _FOREIGN.search(where) and (innermost_last or not self.frame):
            self.frame = label

    def restart(self) -> None:
        self.frame = self.any_frame = ""


def _frame_label(where: str, name: str) -> str:
    stem = re.split(r"[/\\]", where)[-1]
    stem = stem.removesuffix(".py") if stem.endswith(".py") else stem
    return f"{stem}:{name.strip()}" if name else stem


def read_events(
    lines: Iterable[str],
    *,
    now: datetime | None = None,
    first_line: int = 1,
    chars: int = 8_000,
    errors_only: bool = False,
) -> Iterator[LogEvent]:
    """Join the lines of a log into events: a head with its traceback is one event, as is a traceback alone.

    >>> [e.exception for e in read_events(["ERROR job failed", "Traceback (most recent call last):",
    ...     '  File "a.py", line 3, in run', "KeyError: 'x'"])]
    ['KeyError']

    Args:
        lines: in file order.
        now: to find the year of times without one.
        first_line: number of the first line in its file, counted from 1.
        chars: how much of an event's text is kept.
        errors_only: lines that say INFO or less behind their time are passed over unread; most lines of a log are.
    """
    reading = _Reading(now, chars)
    for number, raw in enumerate(lines, first_line):
        line = raw.rstrip("\r\n")[:_LINE_CHARS]
        if not line.strip():
            continue
        if errors_only and _QUIET.match(line):
            ended = reading.close()
            reading.begin(_PASSED, number)
            reading.passed = line
        else:
            ended = reading.take(line, number)
            reading.keep(line)
        if ended is not None:
            yield ended
    last = reading.close()
    if last is not None:
        yield last


class _Reading:
    """The event being read: its head, its traceback if one has begun, and its text so far."""

    def __init__(self, now: datetime | None, chars: int) -> None:
        self.now = now
        self.chars = chars
        self.head: LogLine | None = None
        self.trace: _Trace | None = None
        self.inside = False  # a Python traceback, whose last line is not indented
        self.text: list[str] = []
        self.size = 0
        self.began = 0
        self.last_time: datetime | None = None
        self.passed = ""

    def begin(self, head: LogLine | None, number: int) -> None:
        self.head, self.trace, self.inside = head, None, False
        self.text, self.size, self.began = [], 0, number

    def keep(self, line: str) -> None:
        if self.size < self.chars and len(self.text) < _EVENT_LINES:
            self.text.append(line)
            self.size += len(line) + 1

    def close(self) -> LogEvent | None:
        """The event that has ended, or None where nothing was read."""
        head, trace = self.head, self.trace
        if trace is None and (head is None or head is _PASSED):
            return None
        head = head or LogLine("")
        message = head.message
        if trace is not None and trace.exception:
            raised = f"{trace.exception}: {trace.detail}" if trace.detail else trace.exception
            message = message or raised
        level = head.level or ("error" if trace is not None or _UNLEVELLED.search(message) else "")
        return LogEvent(
            message.strip(),
            level,
            head.time or self.last_time,
            head.logger,
            self.began,
            trace.exception if trace else "",
            (trace.frame or trace.any_frame) if trace else "",
            "\n".join(self.text)[: self.chars],
        )

    def take(self, line: str, number: int) -> LogEvent | None:
        """Read one line; gives the event that it ends."""
        indented = line[0] in " \t|+"
        if "Traceback" in line and _TRACEBACK.match(line):
            return self._traceback(number)
        if self.inside:
            if frame := _PYTHON_FRAME.match(line):
                self._trace().add_frame(frame[1], frame[2] or "", innermost_last=True)
                return None
            if indented:
                return None
            if not begins_event(line):
                self.inside = False
                self._raised(_RAISED.match(line))
                return None
        if indented and self._frame(line):
            return None
        if self.trace is not None:
            if cause := _CAUSE.match(line):
                if self._raised(_RAISED.match(cause[1])):
                    self.trace.restart()
                return None
            if line.startswith(_CHAINED):
                return None
        return self._other(line, number, indented)

    def _traceback(self, number: int) -> LogEvent | None:
        ended = None
        if self.trace is not None and (not self.trace.exception or self.inside or _chained(self.text)):
            self.trace.restart()  # another part of the same chain
        else:
            if self.head is _PASSED:
                self.last_time = parse_line(self.passed, self.now).time or self.last_time
            quiet = self.head is not None and self.head.level in ("info", "debug")
            if self.head is None or quiet or self.trace is not None:
                ended = self.close()  # behind a quiet line the other stream's traceback landed
                self.begin(None, number)
            self.trace = _Trace()
        self.inside = True
        return ended

    def _trace(self) -> _Trace:
        if self.trace is None:
            self.trace = _Trace()
            if self.head is not None:
                self._raised(_RAISED.search(self.head.message))
        return self.trace

    def _raised(self, raised: re.Match[str] | None) -> bool:
        if raised is None or self.trace is None:
            return False
        self.trace.exception, self.trace.detail = raised[1], raised[2] or ""
        return True

    def _frame(self, line: str) -> bool:
        """Whether an indented line is a frame, or stands for some."""
        if python := _PYTHON_FRAME.match(line):
            self._trace().add_frame(python[1], python[2] or "", innermost_last=True)
        elif (java := _JAVA_FRAME.match(line)) and not _SCRIPT_FRAME.match(line):
            where, _, name = java[1].rpartition(".")
            self._trace().add_frame(where, name, innermost_last=False)
        elif script := _SCRIPT_FRAME.match(line):
            self._trace().add_frame(script[2], script[1] or "", innermost_last=False)
        else:
            return bool(_MORE.match(line))
        return True

    def _other(self, line: str, number: int, indented: bool) -> LogEvent | None:
        """A line that belongs to no traceback: it begins an event, or goes on with one."""
        parsed = parse_line(line, self.now)
        raised = None if parsed.headed or indented else _RAISED.match(line)
        if raised and not _FAULT_TYPE.search(raised[1]):
            raised = None
        head, trace = self.head, self.trace
        if (
            raised
            and head is not None
            and head.headed
            and trace is None
            and head.level in ("error", "critical")
        ):
            self.trace = _Trace()  # ERROR cannot store, and below it the exception
            self._raised(raised)
            return None
        starts = parsed.headed or (head is None and trace is None)
        if not starts and not indented:
            starts = head is None or not head.headed or trace is not None or raised is not None
        if not starts:
            return None
        ended = self.close()
        self.begin(parsed, number)
        self.last_time = parsed.time or self.last_time
        if parsed.extra:
            self.trace = _trace_of(parsed.extra)
        return ended


_UNLEVELLED = re.compile(
    r"^(?:E\s+)?(?:[\w.$]*(?:Error|Exception)\b(?::|\s*$)|panic: |fatal: |Uncaught |Unhandled )"
)
_FAULT_TYPE = re.compile(r"(?:Error|Exception|Exit|Interrupt|Fault|Failure|Timeout)$")


def _chained(text: list[str]) -> bool:
    return any(line.startswith(_CHAINED) for line in text[-2:])


def _trace_of(text: str) -> _Trace | None:
    for event in read_events(text.splitlines()):
        if event.exception:
            trace = _Trace()
            trace.exception, trace.frame = event.exception, event.frame
            return trace
    return None
