"""What a line of a log says: comes in text, goes out its time, level, logger and message, whatever wrote it.

Knows JSON lines, logfmt, syslog, logcat, glog, log4j, Python's logging and most heads of a time, a level and a name. A
message is cut out the same way wherever it comes from, so one error in two logs is one error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from sitoolkit.errors import TimeError
from sitoolkit.records import parse_time

__all__ = ["LogLine", "begins_event", "level_of", "parse_line"]

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
    rf"\s*(?:[\[(<]?(?P<level>{_LEVEL})(?P<close>[\])>]?)(?P<join>\s*[:|\]]\s*|\s{{2,}}|\s+(?=\[)|(?<=[\])>])\s+|(?<=[A-Z]{{4}})\s+(?=\S))|(?P<letter>[EW])(?=[/:]))"
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
        if kind == "iso" and text[10] != "_":
            try:
                read = datetime.fromisoformat(text.replace(",", "."))
            except ValueError:
                read = None  # a space before the zone, nanoseconds, UTC in letters
            if read is not None:
                return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
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
            _, month, day, clock, written = text.split()
            return _civil(int(written), _MONTHS[month.lower()], int(day), clock)
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
    first = line[:1]
    if first == "{" and (parsed := _from_json(line, now)):
        return parsed
    if first in "IWEF" and (glog := _GLOG.match(line)):
        return LogLine(line[glog.end() :], _time("glog", glog[2], now), _LETTERS[glog[1]], glog[3], True)
    head = _TIME.match(line)
    if not head:
        if first.isdigit() and (hpc := _HPC.match(line)):
            return LogLine(line[hpc.end() :], parse_time(int(hpc[1])), "", "", True)
        if "=" in line[:40] and (parsed := _from_logfmt(line)):
            return parsed
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
    if bare["letter"]:
        return LogLine(line[bare.end() + 1 :].strip(), None, level_of(bare["letter"]), "", True)
    rest = line[bare.end() :]
    logger = ""
    if bare["join"].strip() == ":" and (root := _PYTHON_ROOT.match(rest)):
        logger, rest = root[1], rest[root.end() :]
    elif pytest := _PYTEST.match(rest):
        logger, rest = pytest[1], rest[pytest.end() :]
    return LogLine(rest, None, level_of(bare["level"]), logger, True)


def begins_event(line: str) -> bool:
    """Whether a line begins an event of its own: it starts with a time."""
    return bool(_TIME.match(line)) or line.startswith("{")
