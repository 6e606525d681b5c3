"""Comes in: JSON values and texts that belong together, such as those of one session. Goes out: the same without secrets, counted by kind.

Two passes: the first finds secrets by name, shape and place, the second removes what the first found wherever else it occurs,
cut by a line end or a colour code too.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from sitoolkit.secrets.names import (
    PLACEHOLDER,
    is_placeholder,
    is_reference,
    looks_random,
    placeholder,
    words,
)
from sitoolkit.secrets.rules import Rules
from sitoolkit.secrets.scan import find_secrets, is_clean
from sitoolkit.secrets.spans import Span, apart, memorable, occurrences
from sitoolkit.secrets.views import decoded, joined, uncoloured

__all__ = ["Work"]

_MAX_DEPTH = 200
_TOO_DEEP = "…[nested too deep]…"
_SCHEMA_TYPES = frozenset(("string", "number", "integer", "boolean", "object", "array", "null"))
_PLAIN_FIELDS = words(
    "type name user username login email host hostname port url endpoint region title description format "
    "scope scopes provider expires expiry expires_at expires_in created_at id env label kind method in "
    "flow database db account"
)
_FLAG_NAME = re.compile(r"--?[A-Za-z][A-Za-z0-9_-]{0,60}")
_PAIR_NAMES = ("name", "key", "header", "Name", "Key", "variable", "env")


class Work:
    """One pass over the strings that belong together: what was found in one is scrubbed from all."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.counts: Counter[str] = Counter()
        self.known: dict[str, str] = {}
        self._ordered: list[str] = []
        self._halves: list[tuple[str, str]] = []

    # ---- first pass: find

    def find(self, value: Any) -> Any:
        """The value with what was found in it replaced; the same object where nothing calls for a look."""
        strings: list[str] = []
        if self.rules.has_extras or not _gather(value, strings, 0) or not is_clean("\x00 ".join(strings)):
            return self.walk(value)
        return value

    def walk(self, value: Any, depth: int = 0, inside: str | None = None, name: str = "") -> Any:
        if isinstance(value, str):
            return self._leaf(value, inside, name)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return self._number(value, inside)
        if depth > _MAX_DEPTH:
            return _TOO_DEEP
        if isinstance(value, Mapping):
            return self._mapping(value, depth, inside)
        if isinstance(value, list | tuple):
            return self._list(value, depth, inside)
        if isinstance(value, bytes | bytearray):
            return self._leaf(bytes(value).decode("utf-8", "replace"), inside, name)
        if isinstance(value, set | frozenset):
            return self._list(sorted(value, key=repr), depth, inside)
        return self._leaf(str(value), inside, name)

    def _leaf(self, value: str, inside: str | None, name: str = "") -> str:
        if not inside or is_placeholder(value) or is_reference(value) or PLACEHOLDER.search(value):
            return self.string(value)
        found = self.string(value)
        if found != value and (
            PLACEHOLDER.fullmatch(found)
            or " " in value
            or "\n" in value
            or "://" in value
            or inside == "cookie"
        ):
            return found
        if inside == "authorization" and not looks_random(value):
            return found
        if inside in ("token", "credential") and len(value) > 400 and " " in value:
            return found
        self.counts[inside] += 1
        self._remember(value, inside, inside == "password")
        return placeholder(inside)

    def _number(self, value: float, inside: str | None) -> Any:
        if inside == "password" or (inside and abs(value) >= 1e5):
            self.counts[inside] += 1
            return placeholder(inside)
        return value

    def _mapping(self, value: Mapping[Any, Any], depth: int, inside: str | None) -> dict[str, Any]:
        result: dict[str, Any] = {}
        schema = value.get("type") in _SCHEMA_TYPES if isinstance(value.get("type"), str) else False
        if schema:
            inside = None
        paired = self._paired_kind(value)
        for key, item in value.items():
            name = key if isinstance(key, str) else str(key)
            kind = self.rules.kind_of_key(name)
            if kind is None and inside and name.lower() not in _PLAIN_FIELDS:
                kind = inside
            if kind is None and paired and name in ("value", "Value"):
                kind = paired
            shown = self.string(name) if len(name) >= 8 else name
            while shown in result:
                shown = _next_name(shown)
            result[shown] = self.walk(item, depth + 1, kind, name)
        return result

    def _paired_kind(self, value: Mapping[Any, Any]) -> str | None:
        if "value" in value or "Value" in value:
            for label in _PAIR_NAMES:
                name = value.get(label)
                if isinstance(name, str):
                    kind = self.rules.kind_of_key(name)
                    if kind:
                        return kind
        return None

    def _list(self, value: Iterable[Any], depth: int, inside: str | None) -> list[Any]:
        items = list(value)
        result: list[Any] = []
        for number, item in enumerate(items):
            kind = inside
            before = items[number - 1] if number else None
            if kind is None and isinstance(before, str) and isinstance(item, str):
                kind = self._after(before, item, items, number)
            result.append(self.walk(item, depth + 1, kind))
        return result

    def _after(self, before: str, item: str, items: list[Any], number: int) -> str | None:
        if _FLAG_NAME.fullmatch(before) and not item.startswith("-"):
            kind = self.rules.kind_of_key(before)
            if kind:
                return kind
            tools = [part for part in items[:number] if isinstance(part, str)]
            if (
                before in ("-u", "-U", "--user", "--proxy-user")
                and ":" in item
                and not item.replace(":", "").isdigit()
            ):
                return (
                    "cli_password"
                    if any("curl" in part or "http" in part or "wget" in part for part in tools)
                    else None
                )
            if before in ("-p", "-a") and any(re.search(r"sshpass|redis-cli|login", part) for part in tools):
                return "cli_password"
        if len(items) == 2 and number == 1 and len(before) <= 60:
            return self.rules.kind_of_key(before)
        return None

    # ---- strings

    def string(self, text: str) -> str:
        if len(text) < 5 or (not self.rules.has_extras and is_clean(text)):
            return text
        opening = text.lstrip()[:1]
        if opening in ("{", "[") and len(text) < 5_000_000:
            parsed = _json(text)
            if isinstance(parsed, dict | list):
                before = self.counts.copy()
                changed = self.walk(parsed, 1)
                if changed == parsed:
                    self.counts = before
                    return self._plain(text)
                spaced = '": ' in text or ", " in text
                return json.dumps(
                    changed, ensure_ascii=text.isascii(), separators=None if spaced else (",", ":")
                )
        return self._plain(text)

    def _plain(self, text: str) -> str:
        spans = self._spans(text)
        while spans:  # ends, since each round leaves fewer characters outside placeholders
            text = self._cut(text, spans)
            spans = self._spans(text)
        return text

    def _spans(self, text: str) -> list[Span]:
        found = [span for span in find_secrets(text) if not self.rules.allows(text, span)]
        found += self.rules.extra_spans(text)
        for span in found:
            if span.sure:
                self._remember(text[span.start : span.end], span.kind)
        return _around(apart(found), PLACEHOLDER.finditer(text)) if found else []

    def _remember(self, value: str, kind: str, password: bool = False) -> None:
        for view in (uncoloured(value), decoded(value)):
            value = view.text if view else value
        value = value if kind == "private_key" else re.sub(r"\s+|\\\\[nr]", "", value)
        if memorable(value, password) and not PLACEHOLDER.search(value):
            self.known.setdefault(value, kind)

    # ---- second pass: scrub what the first found elsewhere

    def scrub(self, value: Any) -> Any:
        """The value without what the first pass found anywhere; looked at again where that uncovers a secret's border."""
        while self.known:
            scrubbed = self._scrub(value, 0)
            if scrubbed == value:
                return value
            value = self.find(scrubbed)
        return value

    def _scrub(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._scrub_text(value)
        if depth > _MAX_DEPTH + 1:
            return value
        if isinstance(value, dict):
            result: dict[str, Any] = {}
            for key, item in value.items():
                shown = self._scrub_text(key)
                while shown in result:
                    shown = _next_name(shown)
                result[shown] = self._scrub(item, depth + 1)
            return result
        if isinstance(value, list | tuple):
            return [self._scrub(item, depth + 1) for item in value]
        return value

    def _scrub_text(self, text: str) -> str:
        if len(text) < 8:
            return text
        for secret in self._by_length():
            if secret in text:
                text = self._replace(text, secret)
        # one cut leaves the first or the second half of a secret whole
        if any(first in text or second in text for first, second in self._halves):
            text = self._scrub_cut(text)
        return text

    def _by_length(self) -> list[str]:
        if len(self._ordered) != len(self.known):
            self._ordered = sorted(self.known, key=lambda known: (-len(known), known))
            self._halves = [(known[: len(known) // 2], known[len(known) // 2 :]) for known in self._ordered]
        return self._ordered

    def _replace(self, text: str, secret: str) -> str:
        mark = placeholder(self.known[secret])
        kept = PLACEHOLDER.split(text)
        marks = PLACEHOLDER.findall(text)
        pieces = []
        for number, piece in enumerate(kept):
            self.counts[self.known[secret]] += piece.count(secret)
            pieces.append(piece.replace(secret, mark))
            if number < len(marks):
                pieces.append(marks[number])
        return "".join(pieces)

    def _scrub_cut(self, text: str) -> str:
        for look in (uncoloured, decoded, joined):
            view = look(text)
            found = (
                [
                    Span(view.start(at), view.end(at + len(secret)), kind)
                    for secret, kind in self.known.items()
                    if view and secret in view.text
                    for at in occurrences(view.text, secret)
                ]
                if view
                else []
            )
            spans = _around(apart(found), PLACEHOLDER.finditer(text))
            if spans:
                return self._scrub_text(self._cut(text, spans))
        return text

    def _cut(self, text: str, spans: list[Span]) -> str:
        pieces: list[str] = []
        position = 0
        for span in spans:
            pieces += [text[position : span.start], placeholder(span.kind)]
            position = span.end
            self.counts[span.kind] += 1
        return "".join([*pieces, text[position:]])


def _gather(value: Any, strings: list[str], depth: int) -> bool:
    """Collect keys and texts of a JSON value; false where it holds something that JSON does not."""
    if isinstance(value, str):
        strings.append(value)
        return True
    if value is None or isinstance(value, bool | int | float):
        return True
    if depth > _MAX_DEPTH:
        return False
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or not _gather(item, strings, depth + 1):
                return False
            strings.append(key)
        return True
    if isinstance(value, list | tuple):
        return all(_gather(item, strings, depth + 1) for item in value)
    return False


def _next_name(name: str) -> str:
    match = re.search(r"#(\d+)>$", name)
    if match:
        return f"{name[: match.start()]}#{int(match[1]) + 1}>"
    return f"{name[:-1]}#2>" if name.endswith(">") else f"{name}#2"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _around(spans: list[Span], marks: Iterable[re.Match[str]]) -> list[Span]:
    """The spans without the placeholders that stand in the text already."""
    kept = [mark.span() for mark in marks]
    if not kept:
        return spans
    result: list[Span] = []
    for span in spans:
        start = span.start
        for left, right in kept:
            if right > start and left < span.end:
                result.append(span._replace(start=start, end=max(start, left)))
                start = right
        result.append(span._replace(start=start))
    return [span for span in result if span.end > span.start]
