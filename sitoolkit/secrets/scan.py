"""Comes in: text. Goes out: the spans in it that are secrets, each with its kind, in the text's own positions.

Three ways to find one: the shape of the value (`ghp_…`), the name beside it (`password=…`), the place it stands in
(`https://user:HERE@host`). Each detector starts from an anchor that a plain search reaches and looks only a bounded way round
it, so that hostile text costs time in proportion to its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sitoolkit.secrets.hints import Hints, hints
from sitoolkit.secrets.names import key_kind, looks_random
from sitoolkit.secrets.pairs import by_name
from sitoolkit.secrets.places import in_commands, in_headers, in_urls
from sitoolkit.secrets.runs import by_run
from sitoolkit.secrets.shapes import by_shape
from sitoolkit.secrets.spans import Span, apart
from sitoolkit.secrets.views import View, decoded, joined, uncoloured

__all__ = ["find_secrets", "is_clean"]

_FEW_LINES = 12  # a text with no more line ends is looked at joined, whole
_NARROWEST = 40  # no terminal wraps before this column
_FEW_CUTS = 3
_DEPTH = 2  # layers of base64 that are opened
# A line that ends in a word, and a next one that begins with a word and a sign: a name may have been cut in two.
_CUT = r"[ \t]{0,80}[A-Za-z0-9_-]{1,30}\\{0,4}[\"']?[ \t]?[=:]"
_CUT_NAME = re.compile(r"\n(?:(?<=[A-Za-z_-]\n)|(?<=[A-Za-z_-]\r\n))" + _CUT)
_WORDS = re.compile(r"[A-Za-z0-9_-]+(?=[\"'\\]{0,6}[ \t]?[=:]?$)|[A-Za-z0-9_-]+(?=(?:\\r)?\\n|\r?\n)")
_CUT_NAME_ESCAPED = re.compile(r"\\n(?<=[A-Za-z_-]\\n)" + _CUT)


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


def is_clean(text: str) -> bool:
    """Whether `text` needs no closer look: a fast yes, while a no means only that `find_secrets` must decide."""
    if hints(text) is not None or uncoloured(text) or decoded(text):
        return False
    return not any(_near_cut_names(text))


def _back(span: Span, view: View) -> Span:
    return span._replace(start=view.start(span.start), end=view.end(span.end), anchor=-1)


def _in_plain(text: str, depth: int) -> list[Span]:
    found = hints(text)
    spans = _detect(text, found, depth) if found else []
    if "\n" not in text and "\\n" not in text:
        return spans
    if found and (found.wrapped or text.count("\n") + text.count("\\n") <= _FEW_LINES):
        stretches = [(0, len(text))]
    else:
        stretches = [*_near_cut_names(text), *(_near_full_lines(text) if found else ())]
    for start, end in stretches:
        near = [span for span in spans if span.start < end and span.end > start]
        for span in _over_line_ends(text[start:end], depth):
            span = span._replace(start=span.start + start, end=span.end + start)
            if span.kind == "otp_seed" or not any(
                one.start < span.end and one.end > span.start for one in near
            ):
                spans.append(span)
    return spans


def _near_full_lines(text: str) -> Iterator[tuple[int, int]]:
    """Stretches round lines as wide as the widest, where a terminal may have wrapped."""
    lines = text.split("\n")
    width = max(map(len, lines))
    position = 0
    for line in lines:
        if len(line) == width >= _NARROWEST and line[-1:].strip():
            yield position, position + 4 * width
        position += len(line) + 1


def _near_cut_names(text: str) -> Iterator[tuple[int, int]]:
    """Stretches round the line ends that may cut a name in two."""
    for line_end, pattern in (("\n", _CUT_NAME), ("\\n", _CUT_NAME_ESCAPED)):
        if line_end in text:
            for match in pattern.finditer(text):
                words = _WORDS.findall(text[max(0, match.start() - 60) : match.end()])
                if len(words) > 1 and key_kind("".join(words[-2:])):
                    yield max(0, match.start() - 200), match.end() + 4_000


def _detect(text: str, found: Hints, depth: int) -> list[Span]:
    low = found.low
    spans: list[Span] = []
    if found.shapes or "private key" in low or "otpauth" in low or "slack.com" in low:
        spans += by_shape(text)
    if found.urls:
        spans += in_urls(text)
    if found.headers or found.shapes:
        spans += in_headers(text, low)
    if found.commands:
        spans += in_commands(text, low)
    if found.names:
        spans += by_name(text, low)
    if found.shapes:
        spans += by_run(text, lambda clear: depth < _DEPTH and bool(find_secrets(clear, depth + 1)))
    return spans


def _over_line_ends(text: str, depth: int) -> Iterator[Span]:
    """Secrets that a line end cuts in their name, their prefix or their value; those that it does not are left out."""
    view = joined(text)
    found = hints(view.text) if view else None
    if view is None or found is None:
        return
    for span in _detect(view.text, found, depth):
        anchor = span.anchor if span.anchor >= 0 else span.start
        cuts = view.cuts(anchor, span.end)
        if not cuts or span.kind == "private_key" or not _glued(view.text, cuts[0]):
            continue
        value = view.text[span.start : span.end]
        if cuts[0] <= span.start:  # the name was cut: the value ends at the next line end
            later = [cut for cut in cuts if cut > span.start]
            if _inside_word(view.text, cuts[0]) and (
                span.kind.startswith(("url_", "cli_")) or looks_random(value)
            ):
                yield _back(span._replace(end=later[0] if later else span.end), view)
        elif span.kind == "opaque_base64" and (len(cuts) > _FEW_CUTS or value.startswith("MII")):
            continue  # a certificate
        elif not view.text[span.start : cuts[0]].isdigit():  # http://host:80, and a prompt on the next line
            yield _back(span, view)


def _glued(text: str, at: int) -> bool:
    return 0 < at < len(text) and not (text[at - 1].isspace() or text[at].isspace())


def _inside_word(text: str, at: int) -> bool:
    if not 0 < at < len(text) or not (text[at - 1].isalnum() or text[at - 1] in "_-"):
        return False
    return text[at].isalnum() or text[at] in "_-=:"
