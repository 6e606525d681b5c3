"""Comes in: text. Goes out: the spans in it that are secrets, each with its kind, in the text's own positions.

Three ways to find one: the shape of the value (`ghp_…`), the name beside it (`password=…`), the place it stands in
(`https://user:HERE@host`). Each detector starts from an anchor that a plain search reaches and looks only a bounded way round
it, so that hostile text costs time in proportion to its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sitoolkit.secrets.hints import hints
from sitoolkit.secrets.names import looks_random
from sitoolkit.secrets.pairs import by_name
from sitoolkit.secrets.places import by_place
from sitoolkit.secrets.runs import by_run
from sitoolkit.secrets.shapes import by_shape
from sitoolkit.secrets.spans import Span, apart
from sitoolkit.secrets.views import View, decoded, joined, uncoloured

__all__ = ["find_secrets"]

_PREFIX = (
    10  # a shape is joined over a line end where the end cuts its prefix; later cuts are `by_shape`'s own
)
_DEPTH = 2  # layers of base64 that are opened
# A line that ends in a word, and a next one that begins with a word and a sign: a name may have been cut in two.
_CUT_NAME = re.compile(r"[A-Za-z_-](?:\r?\n|\\n)[ \t]{0,80}[A-Za-z0-9_-]{1,30}\\{0,4}[\"']?[ \t]?[=:]")


def find_secrets(text: str, depth: int = 0) -> list[Span]:
    """Spans of secrets in `text`, in order, without overlap.

    >>> [(span.start, span.end, span.kind) for span in find_secrets("password=hunter2!")]
    [(9, 17, 'password')]

    Args:
        text: any text.
        depth: how many layers of base64 were opened already.
    """
    view = uncoloured(text)
    plain = view.text if view else text
    spans = _in_plain(plain, depth)
    escaped = decoded(plain)
    if escaped:
        spans += [_back(span, escaped) for span in _in_plain(escaped.text, depth)]
    if view:
        spans = [_back(span, view) for span in spans]
    return apart(spans)


def _back(span: Span, view: View) -> Span:
    return span._replace(start=view.start(span.start), end=view.end(span.end), anchor=-1)


def _in_plain(text: str, depth: int) -> list[Span]:
    found = hints(text)
    spans: list[Span] = []
    if found:
        spans = _detect(text, found.low, found.names, found.places, found.shapes, depth)
    if (found.shapes and ("\n" in text or "\\n" in text)) or _CUT_NAME.search(text):
        spans += _over_line_ends(text, depth)
    return spans


def _detect(text: str, low: str, names: bool, places: bool, shapes: bool, depth: int) -> list[Span]:
    spans: list[Span] = []
    if shapes or "private key" in low or "otpauth" in low or "slack.com" in low:
        spans += by_shape(text)
    if places or shapes:
        spans += by_place(text, low)
    if names:
        spans += by_name(text, low)
    if shapes:
        spans += by_run(text, lambda clear: depth < _DEPTH and bool(find_secrets(clear, depth + 1)))
    return spans


def _over_line_ends(text: str, depth: int) -> Iterator[Span]:
    """Secrets whose name, prefix or value of fixed length a line end cuts in two."""
    view = joined(text)
    if view is None:
        return
    low = view.text.lower() if view.text.isascii() else _lower(view.text)
    for span in _detect(view.text, low, True, False, True, depth):
        anchor = span.anchor if span.anchor >= 0 else span.start
        cuts = view.cuts(anchor, span.end)
        if not cuts or span.kind in ("opaque_base64", "private_key"):
            continue
        if span.kind in ("aws_secret_access_key", "base64"):
            yield _back(span, view)
        elif _inside_word(view.text, cuts[0]) and looks_random(view.text[span.start : span.end]):
            if anchor < span.start and cuts[0] <= span.start:
                later = [cut for cut in cuts if cut > span.start]
                yield _back(span._replace(end=later[0] if later else span.end), view)
            elif anchor == span.start and cuts[0] - span.start <= _PREFIX:
                yield _back(span, view)


def _inside_word(text: str, at: int) -> bool:
    return 0 < at < len(text) and all(char.isalnum() or char in "_-" for char in text[at - 1 : at + 1])


def _lower(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")
