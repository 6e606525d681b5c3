"""What happened, by a log: comes in lines, goes out events, a traceback and its head joined into one.

Tracebacks of Python, Java and JavaScript are read as blocks; an event is signed by the exception raised last and the
innermost frame of one's own code, because what a library raises below it is the same for many causes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from sitoolkit.loglines import LogLine, begins_event, parse_line

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
    r"(?:\s*\|\s*)?((?:[A-Za-z_][\w$]*\.)*[A-Z][\w$]*(?:Error|Exception|Warning|Exit|Interrupt|Fault|Failure|Timeout|Group|Iteration|[a-z]\w*))(?::\s*(.*)|\s*$)"
)
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_FOREIGN = re.compile(
    r"site-packages|dist-packages|[/\\]lib[/\\]python\d|<frozen|<string>|node_modules|node:internal|internal/|^(?:java|javax|jdk|sun|scala|kotlin|org\.junit|org\.apache|org\.springframework)\."
)
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
        self.python = False

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
    pending: LogLine | None = None
    trace: _Trace | None = None
    text: list[str] = []
    size = began = 0
    last_time: datetime | None = None

    def event() -> Iterator[LogEvent]:
        if trace is None and (pending is None or pending is _PASSED):
            return
        head = pending or LogLine("")
        message = head.message
        if trace is not None and trace.exception:
            raised = f"{trace.exception}: {trace.detail}" if trace.detail else trace.exception
            message = message or raised
        raised_level = "error" if trace is not None or _UNLEVELLED.search(message) else ""
        yield LogEvent(
            message.strip(),
            head.level or raised_level,
            head.time or last_time,
            head.logger,
            began,
            trace.exception if trace else "",
            (trace.frame or trace.any_frame) if trace else "",
            "\n".join(text)[:chars],
        )

    passed = ""
    open_block = False  # inside a Python traceback, whose last line is not indented
    for number, raw in enumerate(lines, first_line):
        line = raw.rstrip("\r\n")
        if not line.strip():
            continue
        if len(line) > 100_000:
            line = line[:100_000]
        if errors_only and _QUIET.match(line):
            yield from event()
            pending, trace, text, size, began, open_block, passed = _PASSED, None, [], 0, number, False, line
            continue
        indented = line[0] in " \t|+"
        if pending is _PASSED and trace is None and "Traceback" in line:
            last_time = parse_line(passed, now).time or last_time
        if _TRACEBACK.match(line):
            if trace is not None and trace.exception and not open_block and not _chained(text):
                yield from event()
                pending, text, size, began = None, [], 0, number
                trace = _Trace()
            elif trace is None:
                if pending is not None and pending.level in ("info", "debug"):
                    yield from event()  # the other stream's traceback landed behind a line of the log
                    pending = None
                if pending is None:
                    began, text, size = number, [], 0
                trace = _Trace()
            else:
                trace.restart()
            trace.python, open_block = True, True
        elif (indented or open_block) and (frame := _PYTHON_FRAME.match(line)):
            if trace is None:
                trace = _Trace()
            trace.add_frame(frame[1], frame[2] or "", innermost_last=True)
        elif open_block and indented:
            pass
        elif open_block and not begins_event(line):
            open_block = False
            if trace is not None and (raised := _RAISED.match(line)):
                trace.exception, trace.detail = raised[1], raised[2] or ""
        elif indented and (java := _JAVA_FRAME.match(line)) and not _SCRIPT_FRAME.match(line):
            trace = trace or _started(pending)
            trace.add_frame(java[1].rpartition(".")[0], java[1].rpartition(".")[2], innermost_last=False)
        elif indented and (script := _SCRIPT_FRAME.match(line)):
            trace = trace or _started(pending)
            trace.add_frame(script[2], script[1] or "", innermost_last=False)
        elif indented and _MORE.match(line):
            pass
        elif trace is not None and (cause := _CAUSE.match(line)):
            raised = _RAISED.match(cause[1])
            if raised:
                trace.exception, trace.detail = raised[1], raised[2] or ""
                trace.restart()
        elif trace is not None and line.startswith(_CHAINED):
            pass
        else:
            parsed = parse_line(line, now)
            raised = None if parsed.headed or indented else _RAISED.match(line)
            if raised and not _FAULT_TYPE.search(raised[1]):
                raised = None
            starts = parsed.headed or (pending is None and trace is None)
            if not starts and not indented:
                starts = pending is None or not pending.headed or trace is not None or raised is not None
            if (
                raised
                and pending is not None
                and pending.headed
                and trace is None
                and pending.level in ("error", "critical")
            ):
                trace, starts = _Trace(), False  # ERROR cannot store, and below it the exception
                trace.exception, trace.detail = raised[1], raised[2] or ""
            if starts:
                yield from event()
                pending, trace, text, size, began, open_block = parsed, None, [], 0, number, False
                last_time = parsed.time or last_time
                if parsed.extra:
                    trace = _trace_of(parsed.extra)
        if size < chars and len(text) < _EVENT_LINES:
            text.append(line)
            size += len(line) + 1
    yield from event()


_UNLEVELLED = re.compile(r"^(?:[\w.$]*(?:Error|Exception)\b(?::|\s*$)|panic: |fatal: |Uncaught |Unhandled )")
_FAULT_TYPE = re.compile(r"(?:Error|Exception|Exit|Interrupt|Fault|Failure|Timeout)$")


def _chained(text: list[str]) -> bool:
    return any(line.startswith(_CHAINED) for line in text[-2:])


def _started(pending: LogLine | None) -> _Trace:
    trace = _Trace()
    if pending is not None and (raised := _RAISED.search(pending.message)):
        trace.exception, trace.detail = raised[1], raised[2] or ""
    return trace


def _trace_of(text: str) -> _Trace | None:
    for event in read_events(text.splitlines()):
        if event.exception:
            trace = _Trace()
            trace.exception, trace.frame = event.exception, event.frame
            return trace
    return None
