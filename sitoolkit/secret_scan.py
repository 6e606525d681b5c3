"""Comes in: text. Goes out: the spans in it that are secrets, each with its kind.

Three ways to find one: the shape of the value (`ghp_…`), the name beside it (`password=…`), the place it stands in
(`https://user:HERE@host`). Each detector starts from an anchor that `str.find` reaches and looks only a bounded way
around it, so that hostile text costs time in proportion to its length. Shapes follow the vendors' formats and the rules of
detect-secrets and gitleaks.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

from sitoolkit.secret_names import is_placeholder, is_reference, key_kind, looks_random

__all__ = ["Span", "find_secrets"]


class Span(NamedTuple):
    """One secret in a text; `sure` values may be scrubbed wherever else they occur."""

    start: int
    end: int
    kind: str
    sure: bool = True
    anchor: int = -1  # where the name or the prefix begins that told it; -1: at `start`


_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# literal -> (kind, what follows the literal). The character before must not be a letter or a digit, nor one after.
_SHAPES: tuple[tuple[str, str, str], ...] = (
    ("sk-ant-", "anthropic", r"[a-z]{2,8}\d{2}-[A-Za-z0-9_-]{16,200}"),
    ("sk-proj-", "openai", r"[A-Za-z0-9_-]{12,200}"),
    ("sk-svcacct-", "openai", r"[A-Za-z0-9_-]{12,200}"),
    ("sk-admin-", "openai", r"[A-Za-z0-9_-]{12,200}"),
    ("sk-or-v1-", "openrouter", r"[0-9a-f]{32,128}"),
    ("sk-lf-", "langfuse", _UUID),
    ("pk-lf-", "langfuse", _UUID),
    ("sk-", "openai", r"(?=[A-Za-z]{0,60}[0-9])[A-Za-z0-9]{20,80}"),
    ("ghp_", "github", r"[A-Za-z0-9]{20,255}"),
    ("gho_", "github", r"[A-Za-z0-9]{20,255}"),
    ("ghu_", "github", r"[A-Za-z0-9]{20,255}"),
    ("ghs_", "github", r"[A-Za-z0-9]{20,255}"),
    ("ghr_", "github", r"[A-Za-z0-9]{20,255}"),
    ("github_pat_", "github", r"[A-Za-z0-9_]{20,255}"),
    ("glpat-", "gitlab", r"[A-Za-z0-9_.-]{18,300}"),
    ("gldt-", "gitlab", r"[A-Za-z0-9_.-]{18,300}"),
    ("glrt-", "gitlab", r"[A-Za-z0-9_.-]{18,300}"),
    ("glcbt-", "gitlab", r"[A-Za-z0-9_.-]{18,300}"),
    ("glptt-", "gitlab", r"[A-Za-z0-9_.-]{18,300}"),
    ("glsoat-", "gitlab", r"[A-Za-z0-9_.-]{18,300}"),
    ("glagent-", "gitlab", r"[A-Za-z0-9_.-]{18,300}"),
    ("AKIA", "aws_access_key_id", r"(?![A-Z0-9]{9}EXAMPLE)[A-Z0-9]{16}"),
    ("ASIA", "aws_access_key_id", r"(?![A-Z0-9]{9}EXAMPLE)[A-Z0-9]{16}"),
    ("ABIA", "aws_access_key_id", r"(?![A-Z0-9]{9}EXAMPLE)[A-Z0-9]{16}"),
    ("ACCA", "aws_access_key_id", r"(?![A-Z0-9]{9}EXAMPLE)[A-Z0-9]{16}"),
    ("AIza", "google_api_key", r"[A-Za-z0-9_-]{35}"),
    ("ya29.", "google_oauth", r"[A-Za-z0-9_-]{20,400}"),
    ("GOCSPX-", "google_oauth", r"[A-Za-z0-9_-]{20,60}"),
    ("xoxb-", "slack", r"[A-Za-z0-9-]{10,250}"),
    ("xoxp-", "slack", r"[A-Za-z0-9-]{10,250}"),
    ("xoxa-", "slack", r"[A-Za-z0-9-]{10,250}"),
    ("xoxs-", "slack", r"[A-Za-z0-9-]{10,250}"),
    ("xoxr-", "slack", r"[A-Za-z0-9-]{10,250}"),
    ("xoxe", "slack", r"[.-][A-Za-z0-9.-]{10,350}"),
    ("xapp-", "slack", r"\d-[A-Za-z0-9-]{10,250}"),
    ("hooks.slack.com/", "slack_webhook", r"(?:services|workflows|triggers)/[A-Za-z0-9_+/-]{8,200}"),
    ("discord.com/api/webhooks/", "discord_webhook", r"\d{5,25}/[A-Za-z0-9_-]{20,100}"),
    ("sk_live_", "stripe", r"[A-Za-z0-9]{10,250}"),
    ("sk_test_", "stripe", r"[A-Za-z0-9]{10,250}"),
    ("rk_live_", "stripe", r"[A-Za-z0-9]{10,250}"),
    ("rk_test_", "stripe", r"[A-Za-z0-9]{10,250}"),
    ("whsec_", "stripe", r"[A-Za-z0-9+/=]{16,100}"),
    ("hf_", "huggingface", r"[A-Za-z0-9]{30,60}"),
    ("SG.", "sendgrid", r"[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"),
    ("npm_", "npm", r"(?=[A-Za-z]{0,60}[0-9])[A-Za-z0-9]{30,60}"),
    ("pypi-", "pypi", r"[A-Za-z0-9_-]{50,300}"),
    ("lsv2_", "langsmith", r"(?:pt|sk)_[0-9a-f]{24,64}(?:_[0-9a-f]{6,20})?"),
    ("lsv2_", "langsmith", r"(?:pt|sk)_[A-Za-z0-9_]{24,64}"),
    ("gsk_", "groq", r"[A-Za-z0-9]{30,100}"),
    ("tvly-", "tavily", r"[A-Za-z0-9_-]{16,80}"),
    ("eyJ", "jwt", r"[A-Za-z0-9_-]{6,4000}\.eyJ[A-Za-z0-9_-]{4,8000}(?:\.[A-Za-z0-9_-]{0,2000})?"),
    ("eyJ", "jwt", r"[A-Za-z0-9_-]{6,4000}(?:\.[A-Za-z0-9_-]{0,8000}){4}"),
    ("otpauth://", "otp_seed", r"[^\s\"'<>\\]{8,500}"),
    ("xai-", "xai", r"[A-Za-z0-9]{40,120}"),
    ("pplx-", "perplexity", r"[A-Za-z0-9]{32,80}"),
    ("r8_", "replicate", r"[A-Za-z0-9]{30,60}"),
    ("nvapi-", "nvidia", r"[A-Za-z0-9_-]{40,100}"),
    ("dop_v1_", "digitalocean", r"[a-f0-9]{64}"),
    ("dckr_pat_", "docker", r"[A-Za-z0-9_-]{20,60}"),
    ("glsa_", "grafana", r"[A-Za-z0-9_]{32,60}"),
    ("hvs.", "vault", r"[A-Za-z0-9_-]{20,200}"),
    ("shpat_", "shopify", r"[a-fA-F0-9]{32}"),
    ("ATATT3", "atlassian", r"[A-Za-z0-9_=-]{40,250}"),
    ("lin_api_", "linear", r"[A-Za-z0-9]{30,60}"),
    ("PMAK-", "postman", r"[a-f0-9]{24}-[a-f0-9]{34}"),
    ("dapi", "databricks", r"[a-f0-9]{32}"),
    ("figd_", "figma", r"[A-Za-z0-9_-]{30,60}"),
    ("AGE-SECRET-KEY-1", "age", r"[A-Z0-9]{50,64}"),
)  # fmt: skip
_SHAPE_RULES = tuple(
    (
        literal,
        kind,
        re.compile(re.escape(literal) + tail + r"(?![A-Za-z0-9])"),
        re.compile(re.escape(literal) + tail),
    )
    for literal, kind, tail in _SHAPES
)
_TWILIO = re.compile(r"(?<![A-Za-z0-9])(?:AC|SK)[0-9a-f]{32}(?![A-Za-z0-9])")
_TELEGRAM = re.compile(r"(?<![\w:])\d{8,10}:[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])")
_DISCORD = re.compile(
    r"(?<![A-Za-z0-9_-])[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}(?![A-Za-z0-9_-])"
)
_PEM_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY = re.compile(r"(?:[A-Za-z0-9+/=:,.\s-]|\\[nrt])*")
_RUN = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")

_KEY_CHARS = re.compile(r"[A-Za-z0-9_.$-]{0,80}$")
_KEY_REST = re.compile(r"[A-Za-z0-9_]{0,60}(?:-[A-Za-z0-9_]{1,40}){0,4}(?:\[\])?")
_SEPARATOR = re.compile(
    r"(?P<q>\\{0,8}[\"'`]?)[ \t]{0,4}(?:\][ \t]?)?(?P<sep>:=|=>|={1,2}|:|%3[Dd]|%3[Aa]|\\u003[dD])[ \t]{0,4}(?P<type>(?:str|string|bytes|String|char\*)\s{0,2}=\s{0,2})?(?:[rbfuRBFU]{1,2}(?=[\"']))?"
    r"(?P<open>\\{0,8}[\"'`])?"
)
_FLAG = re.compile(
    r"(?:\\{0,8}[\"']\s{0,3},\s{0,3}\\{0,8}(?P<open>[\"'])|[ \t]+(?:\\\r?\n[ \t]*)?(?P<quote>[\"'])?)"
)
_PAIR = re.compile(r"(?P<q>\\{0,8}[\"'])\s{0,3},\s{0,3}(?P<open>\\{0,8}[\"'])")
_TAG = re.compile(r">\s{0,4}([^<>\s]{1,400})\s{0,4}</")
_BARE = re.compile(r"[^\s\"'`,;&<>(){}\[\]|\\]{1,4000}")
_BARE_WIDE = re.compile(r"[^\s\"'`<>\\]{1,4000}")
_SCHEME = re.compile(
    r"(?:Bearer|Basic|Token|ApiKey|Digest|Negotiate|AWS4-HMAC-SHA256|Bot|Key|OAuth)[ \t]+", re.I
)
_BEARER = re.compile(r"[Bb](?:earer|EARER)(?:[ \t]+|%20|\+)([A-Za-z0-9._~+/=-]{8,8000})")
_BASIC = re.compile(r"[Bb](?:asic|ASIC)[ \t]+([A-Za-z0-9+/_-]{8,4000}={0,2})")
_COOKIE = re.compile(r"(?:set-)?cookie2?\\{0,8}[\"']?\s{0,3}[:=,]\s{0,3}\\{0,8}[\"']?", re.I)
_COOKIE_VALUE = re.compile(r"[^\r\n\"'\\<>]{3,8000}")
_USERINFO = re.compile(r"(?P<user>[^\s/?#@:\"'<>\\]{0,200}):(?P<pw>[^\s/?#\"'<>\\]{1,400})@")
_TOKEN_USER = re.compile(r"(?P<pw>[A-Za-z0-9_.~%+=-]{16,300})@")
_QUERY = re.compile(
    r"[?&;](?:amp;)?(?P<key>[A-Za-z0-9_.\[\]-]{1,60})=(?P<value>[^\s&#;\"'<>\\`)\]}]{4,4000})"
)
_QUERY_KEYS = frozenset(
    [
        "sig",
        "signature",
        "x-amz-signature",
        "x-goog-signature",
        "x-amz-security-token",
        "x-amz-credential",
        "access_token",
        "api_key",
        "apikey",
        "token",
        "auth",
        "key",
        "code",
        "client_secret",
        "id_token",
        "refresh_token",
        "sas",
        "hmac",
        "x-ms-signature",
        "awsaccesskeyid",
    ]
)
_MYSQL = re.compile(
    r"(?:mysql|mariadb)[a-z]*\b[^\n|]{0,300}?[\s\"'](?:-p|--password[= ])\\{0,4}[\"']?([^\s\"'\\;|&]{1,200})"
)
_USER_FLAG = re.compile(
    r"(?:^|[\s\"'])(?:-u|-U|--user|--proxy-user)(?:[ =]?\\{0,4}[\"']?|\\{0,4}[\"'],\s{0,3}\\{0,4}[\"'])([^\s:\"'\\/]{1,100}):([^\s\"'\\]{1,300})"
)
_P_FLAG = re.compile(
    r"(?:sshpass|docker\s+login|helm\s+registry\s+login|podman\s+login|redis-cli|az\s+login|ldap\w+)\b[^\n|]{0,300}?\s-(?:p|a|w)[ =]?\\{0,4}[\"']?([^\s\"'\\;|&]{1,200})"
)
_PASS_COLON = re.compile(r"\bpass:([^\s\"'\\;|&]{1,200})")
_PROSE = re.compile(
    r"\s+(?:is|was|ist|lautet|war)\s*(?:now\s|set\sto\s|jetzt\s)?:?\s*[\"'`*]{0,3}([^\s\"'`*<>,;]{4,200})"
)
_SAMPLE_USERS = frozenset(
    ["user", "username", "usr", "foo", "me", "name", "login", "u", "youruser", "your_user"]
)
_SAMPLE_PASSWORDS = frozenset(
    ["pass", "password", "passwd", "pwd", "pw", "p", "secret", "bar", "yourpassword", "your_password"]
)
_KEYWORDS = ("pass", "pwd", "kennwort", "secret", "token", "key", "cred", "auth", "jwt", "bearer")


def find_secrets(text: str, depth: int = 0) -> list[Span]:
    """Spans of secrets in `text`, in order, without overlap.

    >>> [(span.kind, "password=hunter2!"[span.start:span.end]) for span in find_secrets("password=hunter2!")]
    [('password', 'hunter2!')]

    Args:
        text: any text; bytes of other encodings should have been replaced before.
        depth: how many base64 layers were already opened.
    """
    spans = [*_by_shape(text), *_by_place(text), *_by_name(text), *_by_run(text, depth)]
    return _merge(spans)


def _merge(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if merged and span.start < merged[-1].end:
            if span.end > merged[-1].end:
                merged[-1] = merged[-1]._replace(end=span.end)
            continue
        merged.append(span)
    return merged


def _occurrences(text: str, literal: str) -> Iterator[int]:
    position = text.find(literal)
    while position >= 0:
        yield position
        position = text.find(literal, position + 1)


# ---------------------------------------------------------------- by shape


def _by_shape(text: str) -> Iterator[Span]:
    for literal, kind, whole, loose in _SHAPE_RULES:
        for at in _occurrences(text, literal):
            if at and text[at - 1].isascii() and text[at - 1].isalnum():
                if not _after_escape(text, at):
                    continue
            match = whole.match(text, at)
            if match and not _at_line_end(text, match.end()):
                yield Span(at, match.end(), kind)
                continue
            end = _wrapped_end(text, at, loose, match.end() if match else 0)
            if end:
                yield Span(at, end, kind)
    if "AC" in text or "SK" in text:
        for match in _TWILIO.finditer(text):
            yield Span(match.start(), match.end(), "twilio")
    if ":" in text:
        for match in _TELEGRAM.finditer(text):
            yield Span(match.start(), match.end(), "telegram")
    if "." in text:
        for match in _DISCORD.finditer(text):
            yield Span(match.start(), match.end(), "discord")
    for at in _occurrences(text, "-----BEGIN "):
        begin = _PEM_BEGIN.match(text, at)
        if begin:
            end = _PEM_END.search(text, begin.end(), begin.end() + 20_000)
            body = _PEM_BODY.match(text, begin.end(), begin.end() + 20_000)
            yield Span(at, end.end() if end else max(begin.end(), body.end() if body else 0), "private_key")


def _after_escape(text: str, at: int) -> bool:
    # "\nghp_…" inside escaped text: the letter before belongs to the escape
    return at >= 2 and text[at - 2] == "\\" and text[at - 1] in "nrtbf"


_LINE_BREAK = re.compile(r"(?:\\r)?\\n|\r?\n")
_CONTINUES = re.compile(r"[ \t]{0,40}(?:[>|│+] ?)?")


def _at_line_end(text: str, end: int) -> bool:
    return bool(_LINE_BREAK.match(text, end))


def _wrapped_end(text: str, at: int, loose: re.Pattern[str], plain_end: int) -> int:
    """End of a token that a terminal wrapped over lines; 0 where there is none."""
    pieces, places, position = [], [], at
    for _ in range(6):
        run = re.compile(r"[A-Za-z0-9_.+/=-]{1,600}").match(text, position)
        if not run:
            break
        pieces.append(run.group())
        places.append((position, run.end()))
        wrap = _LINE_BREAK.match(text, run.end())
        if not wrap:
            break
        follow = _CONTINUES.match(text, wrap.end())
        position = follow.end() if follow else wrap.end()
    match = loose.match("".join(pieces))
    if not match:
        return plain_end
    left, end = match.end(), plain_end
    for number, (piece, (start, stop)) in enumerate(zip(pieces, places, strict=True)):
        used = min(left, len(piece))
        if used <= 0:
            break
        before = places[number - 1][1] if number else 0
        needed = not plain_end or before > plain_end
        if number and plain_end and not looks_random(piece) and not needed:
            break
        if number and plain_end and used < len(piece):
            break
        if number and (text[stop : stop + 1] in ("=", ":")) and plain_end:
            break
        end = max(end, start + used)
        left -= used
    return end


# ---------------------------------------------------------------- by place


def _by_place(text: str) -> Iterator[Span]:
    for at in _occurrences(text, "://"):
        match = _USERINFO.match(text, at + 3)
        if match:
            user, value = match["user"], match["pw"]
            sample = user.lower() in _SAMPLE_USERS and value.lower() in _SAMPLE_PASSWORDS
            if not sample and not is_placeholder(value) and not is_reference(value):
                yield Span(match.start("pw"), match.end("pw"), "url_password", _memorable(value))
            continue
        match = _TOKEN_USER.match(text, at + 3)
        if match and looks_random(match["pw"]):
            yield Span(match.start("pw"), match.end("pw"), "url_token")
    if "=" in text and ("?" in text or "&" in text):
        for match in _QUERY.finditer(text):
            key = match["key"].lower()
            value = match["value"]
            if (
                (key in _QUERY_KEYS or key_kind(key))
                and not is_placeholder(value)
                and not is_reference(value)
            ):
                if (
                    key in ("key", "code", "auth", "sig", "token")
                    and len(value) < 12
                    and not looks_random(value)
                ):
                    continue
                yield Span(
                    match.start("value"),
                    match.end("value"),
                    "url_query",
                    _memorable(value),
                    match.start("key"),
                )
    lowered = text.lower() if text.isascii() else _lower(text)
    if "bearer" in lowered:
        for match in _BEARER.finditer(text):
            if _scheme_value(match[1]):
                end = _extend(text, match.end())
                yield Span(match.start(1), end, "bearer")
    if "basic" in lowered:
        for match in _BASIC.finditer(text):
            if (_decode(match[1]) and ":" in (_decode(match[1]) or "")) or (
                looks_random(match[1]) and len(match[1]) >= 16
            ):
                yield Span(match.start(1), _extend(text, match.end()), "basic")
    if "cookie" in lowered:
        for match in _COOKIE.finditer(text):
            value_match = _COOKIE_VALUE.match(text, match.end())
            if value_match and "=" in value_match.group():
                yield from _cookie_spans(value_match)
    if "mysql" in lowered or "mariadb" in lowered:
        yield from _group(_MYSQL, text, "cli_password")
    if "-u" in text or "-U" in text or "--user" in text or "--proxy-user" in text:
        for match in _USER_FLAG.finditer(text):
            if match[1].isdigit() and match[2].isdigit():
                continue
            window = lowered[max(0, match.start() - 400) : match.start()]
            if not any(tool in window for tool in ("curl", "http", "wget", "ab ")) or is_placeholder(
                match[2]
            ):
                continue
            yield Span(match.start(2), match.end(2), "cli_password", _memorable(match[2], True))
    if "sshpass" in lowered or " login" in lowered or "redis-cli" in lowered or "ldap" in lowered:
        yield from _group(_P_FLAG, text, "cli_password")
    if "pass:" in text:
        yield from _group(_PASS_COLON, text, "cli_password", minimum=4)


def _lower(text: str) -> str:
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(c.lower() if c.isascii() else c for c in text)


def _group(pattern: re.Pattern[str], text: str, kind: str, minimum: int = 1) -> Iterator[Span]:
    for match in pattern.finditer(text):
        value = match[1]
        if len(value) >= minimum and not is_placeholder(value) and not is_reference(value):
            yield Span(match.start(1), match.end(1), kind, _memorable(value, True))


def _cookie_spans(match: re.Match[str]) -> Iterator[Span]:
    start = match.start()
    for part in re.finditer(r"[^;\s=,]{1,200}=([^;\s]{1,4000})", match.group()):
        name = part.group().partition("=")[0].lower()
        if name in (
            "path",
            "domain",
            "expires",
            "max-age",
            "samesite",
            "version",
            "priority",
        ) or is_placeholder(part[1]):
            continue
        yield Span(start + part.start(1), start + part.end(1), "cookie", _memorable(part[1]))


def _scheme_value(value: str) -> bool:
    return not is_placeholder(value) and not is_reference(value) and (len(value) >= 20 or looks_random(value))


def _extend(text: str, end: int) -> int:
    """Take the rest of a value that a terminal wrapped, where it looks like one."""
    while True:
        wrap = _LINE_BREAK.match(text, end)
        if not wrap:
            return end
        follow = _CONTINUES.match(text, wrap.end())
        piece = re.compile(r"[A-Za-z0-9_.+/=%~!@#$^*-]{4,400}").match(
            text, follow.end() if follow else wrap.end()
        )
        if not piece or not looks_random(piece.group()) or "=" in piece.group().rstrip("="):
            return end
        if text[piece.end() : piece.end() + 1] in ("=", ":", "("):
            return end
        end = piece.end()


def _memorable(value: str, password: bool = False) -> bool:
    """Whether a value is unusual enough to be scrubbed wherever else it occurs."""
    if len(value) < 8 or value.isdigit() or is_placeholder(value):
        return False
    return looks_random(value) or (password and not value.isalpha()) or len(value) >= 24


# ---------------------------------------------------------------- by name


def _by_name(text: str) -> Iterator[Span]:
    lowered = text.lower() if text.isascii() else _lower(text)
    done = -1
    anchors: list[int] = []
    for word in _KEYWORDS:
        anchors.extend(_occurrences(lowered, word))
    anchors.sort()
    for at in anchors:
        if at < done:
            continue
        head = _KEY_CHARS.search(text, max(0, at - 80), at)
        start = head.start() if head else at
        rest = _KEY_REST.match(text, at)
        end = rest.end() if rest else at
        done = end
        for span in _named(text, start, end):
            yield span._replace(anchor=start)
            done = max(done, span.end)


def _named(text: str, start: int, end: int) -> Iterator[Span]:
    name = text[start:end].rstrip("[]")
    kind = key_kind(name)
    if kind is None and "api" in name.lower() and name.lower().endswith("keys"):
        kind = "api_key"
    if kind is None:
        spaced = _spaced_name(text, start, end)
        kind = key_kind(spaced) if spaced else None
        if kind is None:
            return
    if name.startswith("--") or (name.startswith("-") and len(name) > 3):
        flag = _FLAG.match(text, end)
        if flag and not _SEPARATOR.match(text, end):
            yield from _value(text, flag.end(), kind, flag["open"] or flag["quote"] or "", "flag")
            return
    separator = _SEPARATOR.match(text, end)
    if separator:
        opening = separator["open"] or ""
        yield from _value(
            text,
            separator.end(),
            kind,
            opening,
            separator["sep"],
            key_start=start,
            quoted_key=bool(separator["q"]),
        )
        return
    pair = _PAIR.match(text, end)
    if pair and kind != "authorization":
        yield from _value(text, pair.end(), kind, pair["open"], "pair")
        return
    tag = _TAG.match(text, end)
    if tag and not is_placeholder(tag[1]):
        yield Span(tag.start(1), tag.end(1), kind, _memorable(tag[1], kind == "password"))
        return
    prose = _PROSE.match(text, end)
    if prose and kind in ("password", "token", "api_key", "secret"):
        value = prose[1].rstrip(".!?)")
        if looks_random(value) and not is_placeholder(value) and len(value) >= 6 and "://" not in value:
            yield Span(prose.start(1), prose.start(1) + len(value), kind, _memorable(value, True))


def _spaced_name(text: str, start: int, end: int) -> str:
    # "API key: …", "Access Token = …"
    before = re.compile(
        r"(?:api|access|private|secret|account|auth|client|personal access|signing|master)[ \t]$", re.I
    )
    window = text[max(0, start - 20) : start]
    match = before.search(window)
    return match.group() + text[start:end] if match else ""


def _value(
    text: str, at: int, kind: str, opening: str, how: str, key_start: int = 0, quoted_key: bool = False
) -> Iterator[Span]:
    if opening:
        closing = text.find(opening, at, at + 4000)
        while closing > 0 and len(opening) == 1 and text[closing - 1] == "\\" and closing < at + 4000:
            closing = text.find(opening, closing + 1, at + 4000)
        end = closing if closing >= 0 else min(len(text), at + 4000)
        if closing < 0:
            line = text.find("\n", at, end)
            end = line if line >= 0 else end
        value = text[at:end]
        inner = _SCHEME.match(value)
        if inner:
            at, value = at + inner.end(), value[inner.end() :]
        if not value.strip() or is_placeholder(value) or is_reference(value):
            return
        if kind == "authorization" and not (inner or looks_random(value)):
            return
        if kind == "cookie" and "=" in value:
            return
        if (
            " " in value.strip()
            and kind in ("token", "credential", "authorization", "api_key")
            and not looks_random(value)
        ):
            return
        if " " in value.strip() and len(value) > 200:
            return
        if "\n" in value and not looks_random(value):
            return
        yield Span(at, end, kind, _memorable(value, kind == "password"))
        return
    scheme = _SCHEME.match(text, at)
    if scheme:
        at = scheme.end()
    if not scheme:
        wrap = _LINE_BREAK.match(text, at)
        if wrap:
            return (yield from _next_line(text, wrap.end(), kind))
    match = (_BARE_WIDE if kind == "password" and how in ("=", ":", "flag") else _BARE).match(text, at)
    if not match:
        return
    value = match.group()
    if kind == "password" and how in ("=", ":", "flag"):
        value = _trim(value, text, key_start)
    elif text[key_start - 2 : key_start] == "s/" and "/" in value:
        value = value.partition("/")[0]
    value = value.rstrip(".,:") if how == ":" else value.rstrip(",")
    if not value or is_placeholder(value) or is_reference(value):
        return
    if key_kind(value) and _SEPARATOR.match(text, at + len(value)):
        return
    end = at + len(value)
    if how == "flag" and value.startswith("-"):
        return
    if _is_code(text, value, end, how, kind):
        return
    if kind == "authorization" and not scheme and not looks_random(value):
        return
    if how == ":" and value.isalpha() and _more_prose(text, end):
        return
    yield Span(at, _extend(text, end), kind, _memorable(value, kind == "password"))


_WHOLE_LINE = re.compile(r"[ \t]*([^\s\"'`<>\\]{6,400})[ \t]*(?=\r?\n|$|\\n)")


def _next_line(text: str, at: int, kind: str) -> Iterator[Span]:
    # "password=" at the end of a line, its value alone on the next
    match = _WHOLE_LINE.match(text, at)
    if (
        match
        and looks_random(match[1])
        and not re.search(r"[=:(]", match[1].rstrip("="))
        and not is_placeholder(match[1])
    ):
        yield Span(match.start(1), match.end(1), kind, _memorable(match[1], kind == "password"))


def _trim(value: str, text: str, key_start: int) -> str:
    """Cut a password where the syntax round it ends: `;` of a connection string, `&` of a form, `,` or `)` of a call."""
    if text[key_start - 2 : key_start] == "s/":
        value = value.partition("/")[0]
    for mark in (";", "&"):
        value = value.partition(mark)[0]
    found = re.search(r",(?=\w*[ =:]|$|[\w-]+[=:])", value)
    if found:
        value = value[: found.start()]
    for opening, closing in ("()", "[]", "{}"):
        if closing in value and value.count(closing) > value.count(opening):
            value = value[: value.index(closing)]
    return value.rstrip("|")


_CODE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")


def _is_code(text: str, value: str, end: int, how: str, kind: str) -> bool:
    """Whether an unquoted value is an expression: a call, an attribute, an index, the name of a variable."""
    if "(" in value or text[end : end + 1] in ("(", "["):
        return bool(re.match(r"[A-Za-z_][\w.]*\(?", value))
    name = _CODE_NAME.fullmatch(value)
    if not name:
        return False
    if "." in value and not looks_random(value):
        return True
    words = value.lower()
    if key_kind(value) and not looks_random(value):
        return True
    if words in (
        "await",
        "new",
        "get",
        "str",
        "self",
        "this",
        "args",
        "async",
        "return",
        "if",
        "not",
        "and",
        "or",
        "is",
        "the",
        "a",
        "data",
    ):
        return True
    return (
        how == ":"
        and kind in ("token", "credential", "authorization")
        and value.isalpha()
        and len(value) < 16
    )


def _more_prose(text: str, end: int) -> bool:
    return bool(re.compile(r"[ \t]+[A-Za-z(]").match(text, end))


# ---------------------------------------------------------------- by the look of a long run


_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+|[+/]")


def _by_run(text: str, depth: int) -> Iterator[Span]:
    for match in _RUN.finditer(text):
        run = match.group()
        start = match.start()
        if len(run) >= 24 and depth < 2:
            decoded = _decode(run)
            if decoded and find_secrets(decoded, depth + 1):
                yield Span(start, match.end(), "base64")
                continue
        yield from _aws_secret(text, run, start)
        if len(run) >= 200 and _opaque(run) and not _in_data_uri(text, start):
            yield Span(start, match.end(), "opaque_base64")


def _aws_secret(text: str, run: str, start: int) -> Iterator[Span]:
    for piece in re.finditer(r"(?:^|(?<=s/)|^//)([A-Za-z0-9/+]{40})(?=$|/)", run):
        value = piece[1]
        after = text[start + piece.end() : start + piece.end() + 1]
        if after == "=" or (piece.end() < len(run) and not run.startswith(("s/", "//"))):
            continue
        if not (
            any(c.isdigit() for c in value)
            and any(c.islower() for c in value)
            and any(c.isupper() for c in value)
        ):
            continue
        if len(_PARTS.findall(value)) * 3 >= len(value):
            yield Span(start + piece.start(1), start + piece.end(1), "aws_secret_access_key")


def _decode(run: str) -> str | None:
    body = run.rstrip("=").replace("-", "+").replace("_", "/")
    if len(body) % 4 == 1:
        body = body[:-1]
    try:
        raw = base64.b64decode(body[:20000] + "=" * (-len(body[:20000]) % 4))
    except (binascii.Error, ValueError):
        return None
    if not raw.isascii():
        return None
    text = raw.decode("ascii")
    return text if text.replace("\n", "").replace("\r", "").replace("\t", "").isprintable() else None


_MAGIC = (
    b"\x89PNG",
    b"\xff\xd8",
    b"GIF8",
    b"%PDF",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"RIFF",
    b"BM",
    b"II*",
    b"MM\x00",
)


def _opaque(run: str) -> bool:
    if not (
        any(c.isdigit() for c in run) and any(c.islower() for c in run) and any(c.isupper() for c in run)
    ):
        return False
    if len(_PARTS.findall(run)) * 5 < len(run):
        return False
    try:
        head = base64.b64decode(run[:200].replace("-", "+").replace("_", "/"))
    except (binascii.Error, ValueError):
        return True
    return not head.startswith(_MAGIC)


def _in_data_uri(text: str, start: int) -> bool:
    return "base64," in text[max(0, start - 12) : start]
