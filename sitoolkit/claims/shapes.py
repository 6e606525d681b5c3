"""What values look like: text comes in, a named shape, a pattern, a host family or a unit goes out."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

__all__ = [
    "SHAPES",
    "common_ends",
    "common_shape",
    "host_families",
    "host_family",
    "host_of",
    "induced_pattern",
    "naming_style",
    "shape_of",
    "unit_of",
]

_HOST = r"(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:]+\]|[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9-]+)*)"

# name -> (pattern, how it is called in a sentence); the narrower before the wider.
SHAPES: dict[str, tuple[re.Pattern[str], str]] = {
    name: (re.compile(pattern), words)
    for name, pattern, words in (
        ("uuid", r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}", "a UUID"),
        (
            "datetime",
            r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?",
            "an ISO 8601 time",
        ),
        ("date", r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])", "a date as YYYY-MM-DD"),
        ("version", r"v?\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.-]+)?", "a version with three numbers"),
        ("cidr", r"\d{1,3}(?:\.\d{1,3}){3}/\d{1,2}", "an address range (CIDR)"),
        ("ip", r"\d{1,3}(?:\.\d{1,3}){3}", "an IPv4 address"),
        ("url", r"[a-z][a-z0-9+.-]*://[^\s]+", "a URL"),
        ("email", r"[^\s@/:]+@[^\s@/:]+\.[A-Za-z]{2,}", "a mail address"),
        ("host:port", _HOST + r":\d{1,5}", "host and port"),
        ("ENV_NAME", r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+", "the name of an environment variable"),
        ("channel", r"#[\w-]+", "a channel name with #"),
        ("path", r"(?:~|\.{1,2})?(?:/[^/\s:*?\"<>|]+)+/?", "an absolute path"),
        ("relative path", r"[\w.@-]+(?:/[\w.@-]+)+", "a relative path"),
        (
            "domain",
            r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+(?:app|cloud|com|dev|eu|example|internal|invalid|io|lan|local|net|org|test)",
            "a domain name",
        ),
        ("file name", r"[\w@-][\w.@-]*\.[A-Za-z][A-Za-z0-9]{0,7}", "a file name"),
        ("id", r"(?=.*\d)[A-Za-z]{2,8}[-_]?\d{2,}", "an id of letters and a number"),
        ("digits", r"\d+", "digits"),
        ("snake_case", r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+", "snake_case"),
        ("kebab-case", r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+", "kebab-case"),
    )
}
_SHAPE_CAP = 2_000  # longer text is prose or a document, not a value with a shape


@lru_cache(maxsize=65_536)
def shape_of(value: str) -> str | None:
    """The narrowest named shape that the whole value has.

    >>> shape_of("GRAFANA_TOKEN"), shape_of("redis_cache"), shape_of("hello")
    ('ENV_NAME', 'snake_case', None)
    """
    if not value or len(value) > _SHAPE_CAP or "\n" in value:
        return None
    return next((name for name, (pattern, _) in SHAPES.items() if pattern.fullmatch(value)), None)


def common_shape(values: Sequence[str]) -> str | None:
    """The narrowest shape that all values have, though single ones may have a narrower one."""
    if any(not value or len(value) > _SHAPE_CAP for value in values):
        return None
    return next(
        (name for name, (pattern, _) in SHAPES.items() if all(pattern.fullmatch(value) for value in values)),
        None,
    )


_RUN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^A-Za-z0-9]")


def induced_pattern(values: Sequence[str]) -> str | None:
    """A regular expression for values that are built alike, as `INC-[0-9]{4}`; None where they are not, or are plain words.

    >>> induced_pattern(["INC-0041", "INC-0977", "INC-1200"])
    'INC-[0-9]{4}'
    """
    if len(set(values)) < 2 or any(len(value) > 120 for value in values):
        return None
    rows = [_RUN.findall(value) for value in values]
    if (
        len({len(row) for row in rows}) != 1
        or len(rows[0]) < 2
        or any("".join(row) != value for row, value in zip(rows, values, strict=True))
    ):
        return None
    parts: list[str] = []
    fixed = 0
    for column in zip(*rows, strict=True):
        kinds = {_kind(run) for run in column}
        if len(set(column)) == 1:
            parts.append(re.escape(column[0]))
            fixed += 1
        elif len(kinds) == 1 and (kind := kinds.pop()) != "other":
            lengths = {len(run) for run in column}
            parts.append(
                kind + ("+" if len(lengths) > 1 else "" if lengths == {1} else f"{{{lengths.pop()}}}")
            )
        else:
            return None
    return "".join(parts).replace("\\-", "-") if fixed else None


def _kind(run: str) -> str:
    if run[0].isdigit():
        return "[0-9]"
    if run.isalpha():
        return "[A-Z]" if run.isupper() and len(run) > 1 else "[a-z]" if run.islower() else "[A-Za-z]"
    return "other"


def _shared_start(values: Sequence[str]) -> str:
    first, last = min(values, default=""), max(values, default="")
    at = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )
    return first[:at]


def common_ends(values: Sequence[str]) -> tuple[str, str]:
    """The text that all values begin with and the text that all end with, cut back to a separator.

    >>> common_ends(["/srv/a/x.md", "/srv/b/y.md"])
    ('/srv/', '.md')
    """
    front = _shared_start(values)
    back = _shared_start([value[::-1] for value in values])[::-1]
    room = min(len(value) for value in values) if values else 0
    while front and front[-1].isalnum():
        front = front[:-1]
    while back and back[0].isalnum():
        back = back[1:]
    if len(front) + len(back) > room:
        back = ""
    return (front if any(char.isalnum() for char in front) or front == "/" else ""), (
        back if any(char.isalnum() for char in back) else ""
    )


# ---------------------------------------------------------------- hosts, naming, units

_IN_URL = re.compile(r"^[a-z][a-z0-9+.-]*://(?:[^/@\s]*@)?(\[[0-9a-fA-F:]+\]|[^/:\s?#]+)", re.IGNORECASE)
_WITH_PORT = re.compile(rf"^({_HOST}):\d{{1,5}}(?:/\S*)?$")
_DOMAIN = re.compile(r"^(?=.{4,253}$)(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}$")


@lru_cache(maxsize=16_384)
def host_of(value: str) -> str | None:
    """The host in a URL, a `host:port`, or an address that stands alone; None for other text.

    >>> host_of("http://192.168.100.12:8080/x"), host_of("localhost:6379"), host_of("v1.2.3")
    ('192.168.100.12', 'localhost', None)
    """
    value = value.strip()
    found = _IN_URL.match(value) or _WITH_PORT.match(value)
    if found:
        return found.group(1).strip("[]").lower()
    if value.lower() == "localhost" or _is_address(value):
        return value.lower()
    return None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def host_family(host: str) -> str:
    """The kind of network that a host lies in: `localhost`, `192.168.100.x` (a private /24), `public address` or a domain.

    >>> host_family("127.0.0.1"), host_family("192.168.100.12"), host_family("api.lab.example")
    ('localhost', '192.168.100.x', 'lab.example')
    """
    if host == "localhost" or host.endswith(".localhost"):
        return "localhost"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        labels = host.rsplit(".", 2)
        return ".".join(labels[-2:]) if len(labels) > 1 else "bare host names"
    if address.is_loopback or address.is_unspecified:
        return "localhost"
    if address.is_private:
        return f"{host.rsplit('.', 1)[0]}.x" if address.version == 4 else "private IPv6"
    return "public addresses"


def naming_style(value: str) -> str | None:
    """`snake_case`, `kebab-case`, `camelCase`, `UPPER_CASE` of a compound identifier; None for single words and prose."""
    if re.fullmatch(r"[a-z0-9]+(?:_[a-z0-9]+)+", value):
        return "snake_case"
    if re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)+", value) and not re.fullmatch(r"[\d-]+", value):
        return "kebab-case"
    if re.fullmatch(r"[a-z]+[a-z0-9]*(?:[A-Z][a-z0-9]+)+", value):
        return "camelCase"
    if re.fullmatch(r"[A-Z0-9]+(?:_[A-Z0-9]+)+", value):
        return "UPPER_CASE"
    return None


_UNIT = re.compile(r"\d+(?:\.\d+)?\s?(ms|s|sec|m|min|h|d|B|KB|kB|MB|GB|TB|KiB|MiB|GiB|Ki|Mi|Gi|%|px)")


def unit_of(value: str) -> str | None:
    """The unit of a quantity written as text, as `ms` of `250ms`; None where there is none."""
    found = _UNIT.fullmatch(value.strip())
    return found.group(1) if found else None


def host_families(hosts: Iterable[str]) -> dict[str, str]:
    """Host -> family, coarser where there are many: more than two private /24 of one /16 become `192.168.x.x`, more than three
    domains `domain names`.

    >>> host_families(["localhost", "192.168.100.1"])["192.168.100.1"]
    '192.168.100.x'
    """
    families = {host: host_family(host) for host in hosts}
    networks: dict[str, set[str]] = {}
    for family in families.values():
        if re.fullmatch(r"\d+\.\d+\.\d+\.x", family):
            networks.setdefault(".".join(family.split(".")[:2]) + ".x.x", set()).add(family)
    coarser = {family: wide for wide, narrow in networks.items() if len(narrow) > 2 for family in narrow}
    domains = {family for family in families.values() if "." in family and not family.endswith(".x")}
    if len(domains) > 3:
        coarser |= dict.fromkeys(domains, "domain names")
    return {host: coarser.get(family, family) for host, family in families.items()}
