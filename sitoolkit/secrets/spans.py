"""The one type that passes between the detectors: a span of a text that is a secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sitoolkit.secrets.names import is_placeholder, looks_random
from sitoolkit.secrets.views import LINE_BREAK, next_line

__all__ = ["Span", "apart", "continued", "memorable", "occurrences"]

_CONTINUATION = re.compile(r"[A-Za-z0-9_.+/=%~!@#$^*-]{4,400}")


class Span(NamedTuple):
    """One secret in a text.

    `sure` values are unusual enough to be scrubbed wherever else they occur; `anchor` is where the name or the prefix
    begins that told the secret, -1 where that is `start`.
    """

    start: int
    end: int
    kind: str
    sure: bool = True
    anchor: int = -1


def apart(spans: Iterable[Span]) -> list[Span]:
    """Spans in order, merged where they overlap; the kind of the first is kept."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.end <= span.start:
            continue
        if merged and span.start < merged[-1].end:
            if span.end > merged[-1].end:
                merged[-1] = merged[-1]._replace(end=span.end)
            continue
        merged.append(span)
    return merged


def memorable(value: str, password: bool = False) -> bool:
    """Whether a value is unusual enough to be scrubbed wherever else it occurs: `postgres` is not, `hunter2-x` is."""
    if len(value) < 8 or len(value) > 4_000 or value.isdigit() or is_placeholder(value):
        return False
    return (
        looks_random(value) or (password and not value.isalpha()) or (len(value) >= 24 and " " not in value)
    )


def occurrences(text: str, literal: str) -> Iterator[int]:
    """Positions of a literal, from left to right."""
    position = text.find(literal)
    while position >= 0:
        yield position
        position = text.find(literal, position + 1)


def continued(text: str, end: int) -> int:
    """End of a value that ends at a line's end, with the rest that a terminal wrapped, where the rest looks like one."""
    while LINE_BREAK.match(text, end):
        piece = _CONTINUATION.match(text, next_line(text, end))
        if not piece or not looks_random(piece.group()) or "=" in piece.group().rstrip("="):
            return end
        if text[piece.end() : piece.end() + 1] in ("=", ":", "("):
            return end
        end = piece.end()
    return end
