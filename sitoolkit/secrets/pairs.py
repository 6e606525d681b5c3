"""Comes in: text. Goes out: the secrets in it that are told by the name beside them: `password=…`, `"api_key": "…"`, `--token …`.

The text may be an environment file, JSON at any depth of escaping, YAML, code, a command, a form or prose; so an unquoted value is
taken as far as the syntax round it allows, and left alone where it is an expression (`token = get_token()`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sitoolkit.secrets.names import is_placeholder, is_reference, key_kind, looks_random, words
from sitoolkit.secrets.spans import Span, continued, memorable, occurrences
from sitoolkit.secrets.views import LINE_BREAK, next_line

__all__ = ["KEYWORDS", "by_name"]

KEYWORDS = ("pass", "pwd", "kennwort", "secret", "token", "key", "cred", "auth", "jwt")

_VALUE_CHARS = 4_000
_BEFORE = re.compile(r"[A-Za-z0-9_.$-]{0,80}")
_REST = re.compile(r"[A-Za-z0-9_]{0,60}(?:-[A-Za-z0-9_]{1,40}){0,4}(?:\[\])?")
_SEPARATOR = re.compile(
    r"(?P<quote>\\{0,8}[\"'`]?)[ \t]{0,4}(?:\][ \t]?)?(?P<sign>:=|=>|={1,2}|:|%3[Dd]|%3[Aa]|\\u003[dD])[ \t]{0,4}"
    r"(?P<type>(?:str|string|bytes|String|char\*)[ \t]{0,2}=[ \t]{0,2})?(?:[rbfuRBFU]{1,2}(?=[\"']))?(?P<open>\\{0,8}[\"'`])?"
)
_FLAG = re.compile(
    r"(?:\\{0,8}[\"'][ \t]{0,3},\s{0,3}(?P<open>\\{0,8}[\"'])|[ \t]+(?:\\\r?\n[ \t]*)?(?P<quote>[\"'])?)"
)
_PAIR = re.compile(r"(?P<quote>\\{0,8}[\"'])\s{0,3},\s{0,3}(?P<open>\\{0,8}[\"'])")
_TAG = re.compile(r">\s{0,4}([^<>\s]{1,400})\s{0,4}</")
_PROSE = re.compile(
    r"[ \t]+(?:is|was|ist|lautet|war)\s{0,3}(?:now\s|set\sto\s|jetzt\s)?:?\s{0,3}[\"'`*]{0,3}([^\s\"'`*<>,;]{4,200})"
)
_SCHEME = re.compile(
    r"(?:Bearer|Basic|Token|ApiKey|Digest|Negotiate|AWS4-HMAC-SHA256|Bot|Key|OAuth)[ \t]+", re.I
)
_BARE = re.compile(r"[^\s\"'`,;&<>(){}\[\]|\\]{1,4000}")
_BARE_PASSWORD = re.compile(r"[^\s\"'`<>\\]{1,4000}")  # a password may hold any sign
_WHOLE_LINE = re.compile(r"[ \t]*([^\s\"'`<>\\]{6,400})[ \t]*(?=\r?\n|$|\\n)")
_SPACED = re.compile(r"(?:api|access|private|secret|account|auth|client|signing|master|bot)[ \t]$")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_CALL = re.compile(r"[A-Za-z_][\w.]*[(\[]?")
_MORE_PROSE = re.compile(r"[ \t]+[A-Za-z(]")
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w.@ -]*(?:/[\w.@ -]+)*/?|[A-Za-z]:[\\/].*")
_CODE_WORDS = words(
    "await new get str self this args async return if not and or is the a an data to for with in of from "
    "was has include omit same-origin required optional none default"
)


def by_name(text: str, low: str) -> Iterator[Span]:
    """Secrets told by the name beside them.

    Args:
        text: where to look.
        low: the same with ASCII letters in lower case.
    """
    anchors = sorted(at for word in KEYWORDS if word in low for at in occurrences(low, word))
    done = -1
    for at in anchors:
        if at < done:
            continue
        rest = _REST.match(text, at)
        end = done = rest.end() if rest else at
        follow = text[end : end + 1]
        if follow and follow in " \t" and not _worth_looking(text, end, low):
            continue
        if follow.isalnum() or follow in ("(", ".", "/", "?", "!", "{", ""):
            continue
        before = _BEFORE.match(low[max(0, at - 80) : at][::-1])
        start = at - (before.end() if before else 0)
        if text[max(0, start - 9) : start] == "redacted:":
            continue
        for span in _named(text, start, end):
            yield span._replace(anchor=start)
            done = max(done, span.end)


def _worth_looking(text: str, end: int, low: str) -> bool:
    """Whether a name before a blank can still have a value: a sign, `is`, or a flag."""
    after = text[end : end + 6].lstrip(" \t")
    if after[:1] in ("=", ":", "]", "\\", ">") or after[:2] in ("is", "wa", "is", "la"):
        return True
    window = low[max(0, end - 60) : end]
    return "-" in window and bool(re.search(r"(?:^|[\s\"'\[,=|/:(])--?[a-z0-9_-]{2,60}$", window))


def _named(text: str, start: int, end: int) -> Iterator[Span]:
    name = text[start:end].removesuffix("[]")
    kind = key_kind(name)
    if kind is None:
        spaced = _SPACED.search(text[max(0, start - 12) : start].lower())
        kind = key_kind(spaced.group() + name) if spaced else None
    if kind is None:
        return
    separator = _SEPARATOR.match(text, end)
    if name.startswith("-") and len(name) > 3 and not separator:
        flag = _FLAG.match(text, end)
        if flag:
            yield from _value(text, flag.end(), kind, flag["open"] or flag["quote"] or "", "flag", start)
        return
    if separator:
        yield from _value(text, separator.end(), kind, separator["open"] or "", separator["sign"], start)
        return
    pair = _PAIR.match(text, end)
    if pair:
        quoted = text[start - len(pair["quote"]) : start] == pair["quote"]
        if quoted:
            yield from _value(text, pair.end(), kind, pair["open"], "pair", start)
        return
    tag = _TAG.match(text, end)
    if tag and not is_placeholder(tag[1]):
        yield Span(*tag.span(1), kind, memorable(tag[1], kind == "password"))
        return
    prose = _PROSE.match(text, end)
    if prose and kind not in ("authorization", "cookie", "credential"):
        value = prose[1].rstrip(".!?)")
        if len(value) >= 6 and looks_random(value) and not is_placeholder(value) and "://" not in value:
            yield Span(prose.start(1), prose.start(1) + len(value), kind, memorable(value, True))


def _value(text: str, at: int, kind: str, opening: str, sign: str, start: int) -> Iterator[Span]:
    if opening:
        yield from _quoted(text, at, kind, opening, sign)
    else:
        yield from _bare(text, at, kind, sign, start)


def _quoted(text: str, at: int, kind: str, opening: str, sign: str) -> Iterator[Span]:
    limit = min(len(text), at + _VALUE_CHARS)
    closing = text.find(opening, at, limit)
    while closing > 0 and len(opening) == 1 and text[closing - 1] == "\\" and closing < limit:
        closing = text.find(opening, closing + 1, limit)
    if closing < 0:  # cut off: the rest of the line
        closing = text.find("\n", at, limit)
    end = closing if closing >= 0 else limit
    value = text[at:end]
    scheme = _SCHEME.match(value)
    if scheme:
        at, value = at + scheme.end(), value[scheme.end() :]
    plain = value.strip()
    if not plain or is_placeholder(value) or is_reference(plain) or _harmless(plain, kind):
        return
    random = looks_random(plain)
    if kind == "authorization" and not (scheme or random):
        return
    if kind == "cookie" and "=" in value:
        return  # places.by_place takes each part
    if sign == "pair" and (not random or key_kind(plain) or text[end : end + 6].lstrip("\\\"' ")[:1] == ":"):
        return
    if " " in plain and (len(plain) > 200 or (kind != "password" and kind != "secret" and not random)):
        return
    if "\n" in value and not random:
        return
    yield Span(at, end, kind, memorable(value, kind == "password"))


def _bare(text: str, at: int, kind: str, sign: str, start: int) -> Iterator[Span]:
    scheme = _SCHEME.match(text, at)
    if scheme:
        at = scheme.end()
    elif LINE_BREAK.match(text, at):
        line = _WHOLE_LINE.match(text, next_line(text, at))
        if (
            line
            and looks_random(line[1])
            and not re.search(r"[=:(]", line[1].rstrip("="))
            and not is_placeholder(line[1])
        ):
            yield Span(*line.span(1), kind, memorable(line[1], kind == "password"))
        return
    wide = kind == "password" and sign in ("=", ":", "flag")
    match = (_BARE_PASSWORD if wide else _BARE).match(text, at)
    if not match:
        return
    value = match.group()
    if text[max(0, start - 2) : start] in ("s/", "s|", "s#"):  # the pattern of a sed expression
        value = value.partition(text[start - 1])[0]
    if wide:
        value = _without_syntax(value)
    value = value.rstrip(".,:") if sign == ":" else value.rstrip(",")
    end = at + len(value)
    if not value or is_placeholder(value) or is_reference(value) or _harmless(value, kind):
        return
    if sign == "flag" and (value.startswith("-") or (value.isalpha() and _MORE_PROSE.match(text, end))):
        return
    if key_kind(value) and (value.startswith("-") or _SEPARATOR.match(text, end)):
        return  # a name again: its own value comes next
    if _is_code(text, value, end, sign, kind):
        return
    if kind == "authorization" and not scheme and not looks_random(value):
        return
    if sign == ":" and value.isalpha() and _MORE_PROSE.match(text, end):
        return
    yield Span(at, continued(text, end), kind, memorable(value, kind == "password"))


def _harmless(value: str, kind: str) -> bool:
    """A count, or the path of the file that holds the secret."""
    if value.isdigit() and len(value) < (3 if kind == "password" else 6):
        return True
    return kind in ("password", "secret", "credential") and bool(_PATH.fullmatch(value))


def _without_syntax(value: str) -> str:
    """Cut a password where the syntax round it ends: `;` of a connection string, `&` of a form, `,` or `)` of a call."""
    for sign in (";", "&"):
        value = value.partition(sign)[0]
    comma = re.search(r",(?=\w*[ =:]|$|[\w-]{1,60}[=:])", value)
    if comma:
        value = value[: comma.start()]
    for opening, closing in ("()", "[]", "{}"):
        if closing in value and value.count(closing) > value.count(opening):
            value = value[: value.index(closing)]
    return value.rstrip("|")


def _is_code(text: str, value: str, end: int, sign: str, kind: str) -> bool:
    """Whether an unquoted value is an expression: a call, an attribute, an index, the name of a variable."""
    if "(" in value or text[end : end + 1] in ("(", "["):
        return bool(_CALL.match(value))
    if value.lower() in _CODE_WORDS:
        return True
    if not _NAME.fullmatch(value) or looks_random(value):
        return False
    if "." in value or key_kind(value):
        return True
    return (
        sign == ":"
        and kind in ("token", "credential", "authorization")
        and value.isalpha()
        and len(value) < 16
    )
