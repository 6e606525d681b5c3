"""Comes in: text. Goes out: the secrets in it that show as a long run of base64: encoded headers, AWS secret keys, session tokens."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator

from sitoolkit.secrets.spans import Span, continued

__all__ = ["by_run", "decode", "is_aws_secret", "is_opaque"]

_RUN = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_AWS = re.compile(r"(?:^|(?<=^s/)|(?<=^//))([A-Za-z0-9/+]{40})(?=$|/)")
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+|[+/_-]")
# Letters of a part in random base64 are about two, in words and paths four or more.
_PART_CHARS = 2.7
_PART_CHARS_WITH_SIGNS = 4.5  # `+` or `/` among exactly forty characters is a sign of its own
_PART_CHARS_LONG = 8.0
_OPAQUE_CHARS = 200  # length of the shortest session token that vendors document
_SIGNATURE = re.compile(r"(?:ignature|ncrypted_content|data|base64)\\*[\"']?\s?[:=,]\s?\\*[\"']?$")
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
# ASCII has its top bit unset, so that every fourth character of its base64 lies in the lower half of the alphabet.
_TEXT_START = re.compile(r"(?:[A-Za-f][A-Za-z0-9+/_-]{3}){3}")
_DECODED_LEAST = 12
_DECODED_CHARS = 20_000


def by_run(text: str, is_secret: Callable[[str], bool]) -> Iterator[Span]:
    """Secrets that show as a long run.

    Args:
        text: where to look.
        is_secret: whether the text that a run of base64 stands for holds a secret.
    """
    for match in _RUN.finditer(text):
        run = match.group()
        start = match.start()
        if run.islower() and not run.endswith("="):
            continue
        lead = 2 if run.startswith(("s/", "//")) else 0
        clear = decode(run[lead:])
        if clear and is_secret(clear):
            end = min(match.end(), start + lead + (len(clear) + 2) // 3 * 4)
            yield Span(start + lead, continued(text, end), "base64")
            continue
        for piece in _AWS.finditer(run):
            if text[start + piece.end() : start + piece.end() + 1] != "=" and is_aws_secret(piece[1]):
                yield Span(start + piece.start(1), start + piece.end(1), "aws_secret_access_key")
        if (
            len(run) >= _OPAQUE_CHARS
            and is_opaque(run)
            and not _SIGNATURE.search(text[max(0, start - 40) : start])
        ):
            yield Span(start, match.end(), "opaque_base64", sure=False)


def _mixed(value: str) -> bool:
    return not value.isupper() and not value.islower() and any(char.isdigit() for char in value)


def is_aws_secret(value: str) -> bool:
    """Whether forty characters look drawn at random rather than like a path or a name."""
    signs = "+" in value or "/" in value
    chars = _PART_CHARS_WITH_SIGNS if signs else _PART_CHARS
    return _mixed(value) and len(_PARTS.findall(value)) * chars >= len(value)


def is_opaque(run: str) -> bool:
    """Whether a long run is base64 of bytes that are no text and no known kind of file: a token, not a document."""
    head = run[:400]
    if not _mixed(head) or len(_PARTS.findall(head)) * _PART_CHARS_LONG < len(head):
        return False
    if (head.count("/") * 12 > len(head) and head.count("+") == 0) or head.count("-") * 10 > len(head):
        return False  # a path, a slug
    try:
        raw = base64.b64decode(run[:200].replace("-", "+").replace("_", "/"))
    except (binascii.Error, ValueError):
        return True
    return not raw.startswith(_MAGIC) and not raw.isascii()


def decode(run: str) -> str | None:
    """The printable text that a run of base64 begins with, `None` where it is no text."""
    if not _TEXT_START.match(run):
        return None
    body = run.rstrip("=")[:_DECODED_CHARS].replace("-", "+").replace("_", "/")
    if len(body) % 4 == 1:
        body = body[:-1]
    try:
        raw = base64.b64decode(body + "=" * (-len(body) % 4))
    except (binascii.Error, ValueError):
        return None
    text = raw.decode("ascii", "replace").partition("\ufffd")[0]
    shown = text.translate(_SPACES)
    if not shown.isprintable():
        text = text[: next(at for at, char in enumerate(shown) if not char.isprintable())]
    return text if len(text) >= _DECODED_LEAST else None


_SPACES = {9: " ", 10: " ", 13: " "}
