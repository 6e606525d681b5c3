"""Comes in: text. Goes out: the secrets in it that are told by where they stand: in a URL, a header, behind a flag of a command."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sitoolkit.secrets.names import is_placeholder, is_reference, key_kind, looks_random, words
from sitoolkit.secrets.runs import decode
from sitoolkit.secrets.spans import Span, continued, memorable, occurrences

__all__ = ["in_commands", "in_headers", "in_urls"]

_USERINFO = re.compile(r"(?P<user>[^\s/?#@:\"'<>\\]{0,200}):(?P<pw>[^\s/?#\"'<>\\]{1,400})@")
_TOKEN_USER = re.compile(r"(?P<pw>[A-Za-z0-9_.~%+=-]{16,300})@")
_SAMPLE_USERS = words("user username usr foo me name login u youruser your_user")
_SAMPLE_PASSWORDS = words("pass password passwd pwd pw p secret bar yourpassword your_password")

_QUERY = re.compile(
    r"[?&;](?:amp;)?(?P<key>[A-Za-z0-9_.\[\]-]{1,60})=(?P<value>[^\s&#;\"'<>\\`)\]}|]{4,4000})"
)
_QUERY_KEYS = words(
    "sig signature x-amz-signature x-goog-signature x-amz-security-token x-amz-credential access_token "
    "api_key apikey token auth key code client_secret id_token refresh_token sas hmac x-ms-signature"
)
_SHORT_WORDS = words("key code auth sig token sas")

_BEARER = re.compile(r"[Bb](?:earer|EARER)(?:[ \t]+|%20|\+)\\{0,4}[\"']?([A-Za-z0-9._~+/=-]{8,8000})")
_BASIC = re.compile(r"[Bb](?:asic|ASIC)[ \t]+([A-Za-z0-9+/_-]{8,4000}={0,2})")
_COOKIE = re.compile(r"(?:set-)?cookie2?\\{0,8}[\"']?\s{0,3}[:=,]\s{0,3}\\{0,8}[\"']?", re.I)
_COOKIE_TEXT = re.compile(r"[^\r\n\"'\\<>]{3,8000}")
_COOKIE_PART = re.compile(r"[^;\s=,]{1,200}=([^;\s]{1,4000})")
_COOKIE_PLAIN = words("path domain expires max-age samesite version priority")

_MYSQL = re.compile(
    r"(?:mysql|mariadb)[a-z]*\b[^\n|]{0,300}?[\s\"'](?:-p|--password[= ])\\{0,4}[\"']?([^\s\"'\\;|&]{1,200})"
)
_USER_FLAG = re.compile(
    r"(?:-u|--user|--proxy-user)(?:[ =]?\\{0,4}[\"']?|\\{0,4}[\"'],\s{0,3}\\{0,4}[\"'])([^\s:\"'\\/]{1,100}):([^\s\"'\\]{1,300})",
    re.I,
)
_LOGIN = re.compile(
    r"(?:sshpass|(?:docker|helm|podman|registry|az|oc|npm)\s{1,3}login|redis-cli|ldap\w{1,10})\b[^\n|]{0,300}?\s(?:-p|-a|-w)[ =]?\\{0,4}[\"']?([^\s\"'\\;|&]{1,200})"
)
_PASS_SOURCE = re.compile(r"\bpass:([^\s\"'\\;|&]{4,200})")
_CLIENTS = ("curl", "http", "wget", "ab ")


def in_urls(text: str) -> Iterator[Span]:
    """Passwords and tokens before the host, and values of telling query parameters."""
    yield from _before_hosts(text)
    if "=" in text and ("?" in text or "&" in text):
        yield from _in_queries(text)


def _before_hosts(text: str) -> Iterator[Span]:
    for at in occurrences(text, "://"):
        match = _USERINFO.match(text, at + 3)
        if match:
            user, value = match["user"], match["pw"]
            sample = user.lower() in _SAMPLE_USERS and value.lower() in _SAMPLE_PASSWORDS
            if not sample and not is_placeholder(value) and not is_reference(value):
                yield Span(match.start("pw"), match.end("pw"), "url_password", memorable(value), at)
            continue
        match = _TOKEN_USER.match(text, at + 3)
        if match and looks_random(match["pw"]):
            yield Span(*match.span("pw"), "url_token", anchor=at)


def _in_queries(text: str) -> Iterator[Span]:
    for match in _QUERY.finditer(text):
        key, value = match["key"].lower(), match["value"]
        if not (key in _QUERY_KEYS or key_kind(key)) or is_placeholder(value) or is_reference(value):
            continue
        if key in _SHORT_WORDS and (len(value) < 12 or not looks_random(value)):
            continue
        yield Span(*match.span("value"), "url_query", memorable(value), match.start("key"))


def in_headers(text: str, low: str) -> Iterator[Span]:
    """Bearer and basic credentials, and cookies; `low` is the text in lower case."""
    if "bearer" in low:
        for match in _BEARER.finditer(text):
            value = match[1]
            if (
                not is_placeholder(value)
                and not is_reference(value)
                and (len(value) >= 20 or looks_random(value))
            ):
                yield Span(match.start(1), continued(text, match.end()), "bearer", anchor=match.start())
    if "basic" in low:
        for match in _BASIC.finditer(text):
            if ":" in (decode(match[1]) or "") or (looks_random(match[1]) and len(match[1]) >= 16):
                yield Span(match.start(1), continued(text, match.end()), "basic", anchor=match.start())
    if "cookie" in low:
        done = 0
        for match in _COOKIE.finditer(text):
            found = _COOKIE_TEXT.match(text, match.end()) if match.start() >= done else None
            if found:
                done = found.end()
                yield from _in_cookie(found, match.start())


def _in_cookie(match: re.Match[str], anchor: int) -> Iterator[Span]:
    for part in _COOKIE_PART.finditer(match.group()):
        name = part.group().partition("=")[0].lower()
        if name not in _COOKIE_PLAIN and not is_placeholder(part[1]):
            start = match.start()
            end = continued(match.string, start + part.end(1))
            yield Span(start + part.start(1), end, "cookie", memorable(part[1]), anchor)


def in_commands(text: str, low: str) -> Iterator[Span]:
    """Passwords behind the flags of clients that take them there; `low` is the text in lower case."""
    if "mysql" in low or "mariadb" in low:
        yield from _first_group(_MYSQL, text)
    for flag in ("-u", "--proxy-user"):
        for at in occurrences(low, flag):
            start = at - 1 if low.startswith("--user", at - 1) else at
            if start and low[start - 1] not in " \t\n\"'":
                continue
            match = _USER_FLAG.match(text, start)
            if not match or (match[1].isdigit() and match[2].isdigit()):  # user and group ids
                continue
            before = low[max(0, start - 400) : start]
            if any(client in before for client in _CLIENTS) and not is_placeholder(match[2]):
                yield Span(*match.span(2), "cli_password", memorable(match[2], True), start)
    if "sshpass" in low or " login" in low or "redis-cli" in low or "ldap" in low:
        yield from _first_group(_LOGIN, text)
    if "pass:" in low:
        yield from _first_group(_PASS_SOURCE, text)


def _first_group(pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    for match in pattern.finditer(text):
        if not is_placeholder(match[1]) and not is_reference(match[1]):
            yield Span(*match.span(1), "cli_password", memorable(match[1], True), match.start())
