"""Comes in: text as terminals and programs write it. Goes out: views of it in which a secret stands whole, each with the way back.

A colour code, a line wrap, a percent escape or an escaped slash may cut a secret in two for the eye of a pattern and not
for a reader's. A view removes them and maps each position back to the text it was made from.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import NamedTuple

__all__ = ["LINE_BREAK", "View", "decoded", "joined", "next_line", "uncoloured"]

_ANSI = (
    r"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e|\^\[)\[[0-9;?]{0,20}[A-Za-z]"
    r"|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)"
    r"|[\u200b\u200c\u200d\u2060\ufeff\u00ad]"
)
_COLOUR = re.compile(_ANSI)
_COLOUR_STARTS = ("\x1b", "\\u001b", "\\u001B", "\\x1b", "\\x1B", "\\033", "\\e[", "^[[")
_INVISIBLE = re.compile(r"[\u200b-\u200d\u2060\ufeff\u00ad]")
LINE_BREAK = re.compile(r"(?:\\r)?\\n|\r?\n")
_WRAP = re.compile(_ANSI + r"|(?:(?:\\r)?\\n|\r?\n)[ \t]{0,80}(?:[>|│+] ?)?")
_ESCAPE = re.compile(_ANSI + r"|%([2-7][0-9A-Fa-f])|\\(/)|\\u00([2-7][0-9A-Fa-f])")
_PERCENT = re.compile(r"%[2-7][0-9A-Fa-f]")


_CONTINUES = re.compile(r"(?:(?:\\r)?\\n|\r?\n)[ \t]{0,80}(?:[>|│+] ?)?")


def next_line(text: str, end: int) -> int:
    """Where the text goes on behind the line break at `end`: behind indentation and quote marks."""
    match = _CONTINUES.match(text, end)
    return match.end() if match else end


class View(NamedTuple):
    """A text derived from another, and where its pieces came from."""

    text: str
    at: tuple[int, ...]  # where a piece begins in the view
    origin: tuple[int, ...]  # where it begins in the original
    length: tuple[int, ...]  # how long it is in the original

    def start(self, position: int) -> int:
        """Position in the original of the character at `position` of the view."""
        piece = bisect_right(self.at, position) - 1
        offset = position - self.at[piece]
        return self.origin[piece] + min(offset, max(0, self.length[piece] - 1))

    def end(self, position: int) -> int:
        """Position in the original just behind the character before `position` of the view."""
        if position <= 0:
            return self.origin[0]
        piece = bisect_left(self.at, position) - 1
        width = self._width(piece)
        if width == 1 and self.length[piece] > 1:
            return self.origin[piece] + self.length[piece]
        return self.origin[piece] + position - self.at[piece]

    def cuts(self, start: int, end: int) -> list[int]:
        """Positions inside (start, end) of the view where something was removed from the original."""
        return [
            cut
            for piece in range(bisect_right(self.at, start), bisect_left(self.at, end))
            if self.origin[piece] != self.origin[piece - 1] + self.length[piece - 1]
            for cut in (self.at[piece],)
        ]

    def _width(self, piece: int) -> int:
        after = self.at[piece + 1] if piece + 1 < len(self.at) else len(self.text)
        return after - self.at[piece]


def uncoloured(text: str) -> View | None:
    """The text without terminal colour codes and invisible characters; `None` where there are none."""
    coloured = "\x1b" in text or (
        ("\\" in text or "^[" in text) and any(start in text for start in _COLOUR_STARTS)
    )
    if not coloured and (text.isascii() or not _INVISIBLE.search(text)):
        return None
    return _without(text, _COLOUR)


def decoded(text: str) -> View | None:
    r"""The text with `%2F`, `\\/` and `\\u002f` resolved; `None` where there are none."""
    if "\\/" in text or "\\u00" in text or ("%" in text and _PERCENT.search(text)):
        return _without(text, _ESCAPE)
    return None


def joined(text: str) -> View | None:
    """The text with its lines joined, as if no terminal had wrapped them; `None` where it is one line."""
    return _without(text, _WRAP) if "\n" in text or "\\n" in text else None


def _without(text: str, pattern: re.Pattern[str]) -> View | None:
    pieces: list[str] = []
    at: list[int] = []
    origin: list[int] = []
    length: list[int] = []
    position = size = 0

    def add(piece: str, start: int, span: int) -> None:
        nonlocal size
        if piece:
            pieces.append(piece)
            at.append(size)
            origin.append(start)
            length.append(span)
            size += len(piece)

    for match in pattern.finditer(text):
        add(text[position : match.start()], position, match.start() - position)
        code = match.lastgroup or match.lastindex
        if code:
            group = match[match.lastindex or 0]
            add(group if group == "/" else chr(int(group, 16)), match.start(), match.end() - match.start())
        position = match.end()
    if not position:
        return None
    add(text[position:], position, len(text) - position)
    return View("".join(pieces), tuple(at), tuple(origin), tuple(length)) if pieces else None
