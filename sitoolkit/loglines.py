"""What a line of a log says: comes in text, goes out its time, level, logger and message, whatever wrote it.

Knows JSON lines, logfmt, syslog, logcat, glog, log4j, Python's logging and most heads of a time, a level and a name. A
message is cut out the same way wherever it comes from, so one error in two logs is one error. `read_events` joins a
traceback with its head into one event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from sitoolkit.errors import TimeError
from sitoolkit.records import parse_time

__all__ = ["LogEvent", "LogLine", "level_of", "parse_line", "read_events"]

# RFC 5424's severities, folded to five; a word of another framework stands at the level its manual gives it.
_LEVELS = {
    "trace": "debug", "debug": "debug", "verbose": "debug", "fine": "debug", "finer": "debug", "finest": "debug",
    "info": "info", "information": "info", "informational": "info", "notice": "info", "success": "info", "config": "info",
    "warn": "warning", "warning": "warning",
    "error": "error", "err": "error", "severe": "error", "failure": "error", "failed": "error",
    "critical": "critical", "crit": "critical", "fatal": "critical", "alert": "critical", "emerg": "critical",
    "emergency": "critical", "panic": "critical",
}  # fmt: skip
_LETTERS = {"V": "debug", "D": "debug", "I": "info", "W": "warning", "E": "error", "F": "critical"}
_MONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}
_LEVEL = (
    r"(?i:trace|debug|verbose|info(?:rmation(?:al)?)?|notice|success|warn(?:ing)?|error|err|severe|crit(?:ical)?|fatal|alert|emerg(?:ency)?"
    r"|panic|failure)"
)
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\[\d{1,2}(?:;\d{1,2})+m|\[0m|\[\d\dm")

_TIME = re.compile(
    r"""\s*(?:-\ |[\w.-]+\.log\S*\s+)?[\[(]?(?:
  (?P<iso>\d{4}-\d\d-\d\d[T\ _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\s?(?:Z|UTC|[+-]\d\d:?\d\d)?)
 |(?P<slash>\d{4}/\d\d/\d\d\ \d\d:\d\d:\d\d(?:[.,]\d+)?)
 |(?P<short>\d\d/\d\d/\d\d\ \d\d:\d\d:\d\d)
 |(?P<asctime>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\ [A-Z][a-z]{2}\ {1,2}\d{1,2}\ \d\d:\d\d:\d\d(?:\.\d+)?\ \d{4})
 |(?P<syslog>[A-Z][a-z]{2}\ {1,2}\d{1,2}\ \d\d:\d\d:\d\d(?:\.\d+)?)
 |(?P<clf>\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d\ [+-]\d{4})
 |(?P<logcat>\d\d-\d\d\ \d\d:\d\d:\d\d\.\d{3})
 |(?P<compact>\d{8}-\d{1,2}:\d{1,2}:\d{1,2}:\d{1,3})
 |(?P<hdfs>\d{6}\ \d{6}(?=\ \d+\ ))
 |(?P<dotted>\d\d\.\d\d\ \d\d:\d\d:\d\d)
 |(?P<bgl>\d{10}\ \d{4}\.\d\d\.\d\d)
 |(?P<clock>\d\d:\d\d:\d\d(?:[.,]\d+)?)
)[\])]?""",
    re.X,
)
_GLOG = re.compile(r"([IWEF])(\d{4} \d\d:\d\d:\d\d(?:\.\d+)?)\s+\d+\s+([\w./-]+:\d+)\]\s*")
_LOGCAT = re.compile(r"\s*\d+\s+\d+\s+([VDIWEF])\s+([^:]{1,80}?)\s*:\s")
_SYSLOG = re.compile(
    r"\s*(?:\S+\s+)?([A-Za-z_][\w./()-]*?(?:\([\w-]+\))?|[A-Za-z_][^\[\]:]{0,40}(?=\[\d+\]))(?:\[\d+\])?(?: \(\[?[\w.]+\]?\))?:\s+"
)
_BGL = re.compile(rf"\s+\S+\s+\d{{4}}-\d\d-\d\d-\S+\s+\S+\s+\S+\s+\S+\s+(?P<level>{_LEVEL})\s+")
_CLUSTER = re.compile(r"\s+\S+\s+[A-Z][a-z]{2}\s+\d+\s+\d\d:\d\d:\d\d\s+\S+\s+([\w./() -]+?)(?:\[\d+\])?:\s+")
_HPC = re.compile(r"\d+ \S+ \S+ \S+ (\d{10}) \d+ (?=\S)")
_REQUEST = re.compile(r"\s*([\w.-]+)\s+\[req-[^\]]*\]\s+")
_FIELDS = re.compile(  # what may stand between the time and the level: process ids, threads, names
    rf"""[\s|:,\]-]*(?:(?:\[[^\]]{{0,160}}\]|\d+|[A-Za-z_][\w.$/-]*(?=\s*(?:::|\||\[|-\s)))[\s|:-]*){{0,4}}?
    [\[(<]?(?P<level>{_LEVEL})\b[\])>]?""",
    re.X,
)
_PIPES = re.compile(r"\s*(?:\|\s*)?(?:[\w.$<>/-]{1,80}(?::[\w<>.-]+)*\s*(?:\||::)\s*){1,4}")
_AFTER = re.compile(  # what may stand between the level and the message
    r"""[\s:|\]-]*(?:\[[^\]]{0,200}\](?:\s*-)?\s+(?=\S))?(?:\d+\s+)?(?:\d+\#\d+:\s+(?:\*\d+\s+)?)?
    (?:(?P<logger>[A-Za-z_][\w.$/*-]*(?:\[[\w.-]+\])?(?::[\w<>]+)?(?::\d+)?)(?:\s?:\s+|\s-\s+|\s+\|\s+|\s{4,}))?(?:-\s+)?""",
    re.X,
)
_NODE = re.compile(
    r"\s*\[.*@\d+\]\s+-\s+"
)  # log4j with thread and file: [QuorumPeer[myid=1]/0:0:0:0:2181:Class@774] - message
_BARE = re.compile(
    rf"\s*[\[(<]?(?P<level>{_LEVEL}|E|W)(?P<close>[\])>]?)(?P<join>\s*[:|\]]\s*|\s{{2,}}|\s+(?=\[)|(?<=[\])>])\s+|(?<=[A-Z]{{4}})\s+(?=\S))"
)
_PROGRAM = re.compile(r"\s*[\w.]+(?: \*\d+)? - (?=\S)")
_PYTHON_ROOT = re.compile(r"([\w.]+):(?=\S)")
_PYTEST = re.compile(r"([\w.]+):[\w.]+\.py:\d+\s+(?=\S)")
_LOGFMT = re.compile(
    r'(?:^|\s)(level|lvl|severity|msg|message|time|ts|timestamp|error|err|logger|component)=("(?:[^"\\]|\\.)*"|\S+)'
)
_LOCATION = re.compile(r"\s*\((?:[\w/.-]+\.\w{1,4}):\d+\)\s*$")

_MESSAGE_KEYS = (
    "message",
    "msg",
    "event",
    "error",
    "detail",
    "exception",
    "reason",
    "traceback",
    "text",
    "body",
    "log",
)
_LEVEL_KEYS = (
    "levelname",
    "level",
    "severity",
    "lvl",
    "log.level",
    "severity_text",
    "severityText",
    "loglevel",
)
_TIME_KEYS = ("timestamp", "time", "ts", "@timestamp", "asctime", "datetime", "date")
_NAME_KEYS = ("name", "logger", "logger_name", "component", "module", "service")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line: `time` is None where it has none, `level` is "" where it says none."""

    message: str
    time: datetime | None = None
    level: str = ""
    logger: str = ""
    headed: bool = False  # the line began an event: it had a time, a level or a JSON body
    extra: str = ""  # a traceback that a JSON line carries beside its message


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


def level_of(word: object) -> str:
    """`debug`, `info`, `warning`, `error` or `critical` for a level's name, letter or Python number; "" for none of them."""
    if isinstance(word, bool) or word is None:
        return ""
    if isinstance(word, int | float):
        scale = ((10, "debug"), (20, "info"), (30, "warning"), (40, "error"))
        for limit, name in scale:
            if word <= limit:
                return name
        return "critical"
    text = str(word).strip()
    return _LEVELS.get(text.lower(), _LETTERS.get(text, ""))


def _time(kind: str, text: str, now: datetime | None) -> datetime | None:
    try:
        if kind in ("iso", "slash"):
            text = text.replace("/", "-").replace("_", " ").replace(",", ".").replace("UTC", "Z").strip()
            text = re.sub(r"\s+(?=Z|[+-]\d\d:?\d\d$)", "", text)
            text = re.sub(r"(\.\d{6})\d+", r"\1", text)
            return parse_time(text, naive_is_utc=True)
        if kind == "short":
            return datetime.strptime(text, "%y/%m/%d %H:%M:%S").replace(tzinfo=UTC)
        if kind == "hdfs":
            return datetime.strptime(text, "%y%m%d %H%M%S").replace(tzinfo=UTC)
        if kind == "compact":
            day, hour, minute, second, milli = re.split(r"[-:]", text)
            base = datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC)
            return base.replace(
                hour=int(hour), minute=int(minute), second=int(second), microsecond=int(milli) * 1000
            )
        if kind == "bgl":
            return parse_time(int(text.split()[0]))
        if kind == "clf":
            day, month, rest = text.split("/", 2)
            written, clock = rest.split(":", 1)
            return parse_time(
                f"{written}-{_MONTHS[month.lower()]:02}-{day}T{clock[:8]}{clock[-5:-2]}:{clock[-2:]}"
            )
        if kind == "asctime":
            _, month, day, clock, year = text.split()
            return _civil(int(year), _MONTHS[month.lower()], int(day), clock)
        if kind in ("syslog", "logcat", "glog") and now is not None:
            if kind == "syslog":
                name, day, clock = text.split()
                month = str(_MONTHS[name.lower()])
            elif kind == "logcat":
                date, clock = text.split()
                month, day = date.split("-")
            else:
                date, clock = text.split()
                month, day = date[:2], date[2:]
            month_number, day_number = int(month), int(day)
            for year in (
                now.year + 1,
                now.year,
                now.year - 1,
            ):  # the year is not written: the newest that is not ahead
                guess = _civil(year, month_number, day_number, clock)
                if guess is not None and guess <= now + timedelta(days=1):
                    return guess
    except (ValueError, KeyError, TimeError):
        return None
    return None


def _civil(year: int, month: int, day: int, clock: str) -> datetime | None:
    hour, minute, second = clock.split(":")
    try:
        return datetime(
            year,
            month,
            day,
            int(hour),
            int(minute),
            int(float(second)) if float(second) < 60 else 59,
            tzinfo=UTC,
        )
    except ValueError:  # 29 February of another year
        return None


def _first(record: dict[str, Any], keys: tuple[str, ...]) -> Any:
    for key in keys:
        value = record.get(key)
        if value not in (None, "", [], {}):
            return value
    return None


def _from_json(text: str, now: datetime | None) -> LogLine | None:
    try:
        record = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(record, dict):
        return None
    inner = _first(record, _MESSAGE_KEYS)
    if isinstance(inner, dict):
        record = {**record, **inner}
        inner = _first(inner, _MESSAGE_KEYS)
    if inner is None:
        return None
    try:
        when = parse_time(_clean_time(_first(record, _TIME_KEYS)), naive_is_utc=True)
    except TimeError:
        when = None
    extra = next(
        (
            record[key]
            for key in ("exc_info", "exception", "traceback", "stack_trace", "stack")
            if isinstance(record.get(key), str)
        ),
        "",
    )
    level = level_of(_first(record, _LEVEL_KEYS))
    name = _first(record, _NAME_KEYS)
    message = inner if isinstance(inner, str) else orjson.dumps(inner).decode()
    if message == extra:
        message = extra.strip().rpartition("\n")[2]
    return LogLine(message, when, level, name if isinstance(name, str) else "", True, extra)


def _clean_time(value: object) -> object:
    return re.sub(r"(?<=\d),(?=\d)", ".", value) if isinstance(value, str) else value


def parse_line(line: str, now: datetime | None = None) -> LogLine:
    """Cut a line of a log into time, level, logger and message; a line without a head is all message.

    >>> parse_line("2026-01-02 03:04:05,678 ERROR app.db: lost 10.0.0.7").message
    'lost 10.0.0.7'

    Args:
        line: one line, with or without its newline.
        now: to find the year of a time that is written without one; without it such a time is unknown.
    """
    line = line.rstrip("\r\n")
    if "\x1b" in line or (line.startswith("[") and "m" in line[:9]):
        line = _ANSI.sub("", line)
    if line.startswith("{") and (parsed := _from_json(line, now)):
        return parsed
    if "=" in line and (parsed := _from_logfmt(line)):
        return parsed
    if glog := _GLOG.match(line):
        return LogLine(line[glog.end() :], _time("glog", glog[2], now), _LETTERS[glog[1]], glog[3], True)
    if hpc := _HPC.match(line):
        return LogLine(line[hpc.end() :], parse_time(int(hpc[1])), "", "", True)
    head = _TIME.match(line)
    if not head:
        return _without_time(line)
    kind = head.lastgroup or ""
    when = _time(kind, head[kind], now)
    rest = line[head.end() :]
    if kind == "logcat" and (logcat := _LOGCAT.match(rest)):
        return LogLine(rest[logcat.end() :], when, _LETTERS[logcat[1]], logcat[2], True)
    if kind == "compact" and rest.startswith("|"):
        parts = rest.split("|", 3)
        return LogLine(parts[-1], when, "", parts[1], True)
    if kind == "bgl" and (cluster := _BGL.match(rest) or _CLUSTER.match(rest)):
        level = level_of(cluster.groupdict().get("level"))
        return LogLine(rest[cluster.end() :], when, level, "", True)
    if kind == "syslog" and (syslog := _SYSLOG.match(rest)):
        inner = rest[syslog.end() :]
        bare = _BARE.match(inner)
        return LogLine(inner, when, level_of(bare["level"]) if bare else "", syslog[1], True)
    if found := _FIELDS.match(rest):
        level = level_of(found["level"])
        after = rest[found.end() :]
        if request := _REQUEST.match(after):
            return LogLine(after[request.end() :], when, level, request[1], True)
        if node := _NODE.match(after):
            return LogLine(after[node.end() :], when, level, "", True)
        if pipes := _PIPES.match(after) if "|" in after[:120] else None:
            return LogLine(
                after[pipes.end() :], when, level, pipes[0].strip(" |").split("|")[0].strip(), True
            )
        tail = _AFTER.match(after)
        if tail is None:
            return LogLine(after.strip(), when, level, "", True)
        return LogLine(after[tail.end() :].strip(), when, level, tail["logger"] or "", True)
    if kind == "dotted" and (program := _PROGRAM.match(rest)):
        return LogLine(rest[program.end() :], when, "", program[0].strip(" -"), True)
    return LogLine(rest.lstrip(" \t-|:]"), when, "", "", True)


def _from_logfmt(line: str) -> LogLine | None:
    if not re.match(r"\s*[A-Za-z_.]+=", line):
        return None
    found = {key: value.strip('"').replace('\\"', '"') for key, value in _LOGFMT.findall(line)}
    message = found.get("msg") or found.get("message")
    if message is None or not ({"level", "lvl", "severity"} & found.keys()):
        return None
    try:
        when = parse_time(
            _clean_time(found.get("time") or found.get("ts") or found.get("timestamp")), naive_is_utc=True
        )
    except TimeError:
        when = None
    if fault := found.get("error") or found.get("err"):
        message = f"{message}: {fault}"
    return LogLine(
        message,
        when,
        level_of(found.get("level") or found.get("lvl") or found.get("severity")),
        found.get("logger", ""),
        True,
    )


def _without_time(line: str) -> LogLine:
    bare = _BARE.match(line)
    if not bare:
        return LogLine(line)
    rest = line[bare.end() :]
    logger = ""
    if bare["join"].strip() == ":" and (root := _PYTHON_ROOT.match(rest)):
        logger, rest = root[1], rest[root.end() :]
    elif pytest := _PYTEST.match(rest):
        logger, rest = pytest[1], rest[pytest.end() :]
    return LogLine(rest, None, level_of(bare["level"]), logger, True)


# ---------------------------------------------------------------- events

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
    lines: Iterable[str], *, now: datetime | None = None, first_line: int = 1, chars: int = 8_000
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
    """
    pending: LogLine | None = None
    trace: _Trace | None = None
    text: list[str] = []
    size = began = 0
    last_time: datetime | None = None

    def event() -> Iterator[LogEvent]:
        if pending is None and trace is None:
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

    open_block = False  # inside a Python traceback, whose last line is not indented
    for number, raw in enumerate(lines, first_line):
        line = raw.rstrip("\r\n")
        if not line.strip():
            continue
        if len(line) > 100_000:
            line = line[:100_000]
        indented = line[0] in " \t|+"
        if _TRACEBACK.match(line):
            if trace is not None and trace.exception and not open_block and not _chained(text):
                yield from event()
                pending, text, size, began = None, [], 0, number
                trace = _Trace()
            elif trace is None:
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
        elif open_block and not parse_head(line):
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


def parse_head(line: str) -> bool:
    """Whether a line begins an event of its own: it starts with a time."""
    return bool(_TIME.match(line)) or line.startswith("{")


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
