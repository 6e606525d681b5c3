"""Comes in: text. Goes out: which detectors are worth running on it, at some ten nanoseconds a kilobyte's byte.

Nearly all text of a transcript holds no secret. A few passes of `bytes.find` over the lower-cased text, and one over a mask in
which token characters are ones, tell that much faster than the detectors themselves.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sitoolkit.secrets.runs import decode, is_aws_secret, is_opaque

__all__ = ["Hints", "hints"]

_RUN = 20  # the shortest run of token characters in any known shape
_ONES = b"1" * _RUN
_MASK = bytes(
    49 if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "+/_-") else 32 for code in range(256)
)
# Anchored at a rare letter, which the engine finds by memchr.
_K = re.compile(rb"k(?:ey|(?<=tok)en|(?<=cook)ie|ennw)")
_C = re.compile(rb"cre[td]")
_FLAG = re.compile(rb"[\s\"'](?:-[upa]|--user|--proxy-user)")
_SHAPE = re.compile(
    rb"[sp]k-(?:ant|proj|svcacct|admin|or-v1|lf)-|sk-[A-Za-z0-9]{20}|[sr]k_(?:live|test)_|gh[a-z]_[A-Za-z0-9]{16}|github_pat_"
    rb"|gl[a-z]{2,6}[-_][A-Za-z0-9]|A[KSBC][IC]A[A-Z0-9]{16}|AIza|AGE-SECRET|ATATT3|GOCSPX-|xox[a-z]|xapp-|xai-[A-Za-z0-9]{20}"
    rb"|whsec_|shpat_|hf_[A-Za-z0-9]{20}|npm_[A-Za-z0-9]{20}|nvapi-|pypi-[A-Za-z0-9_-]{20}|pplx-|PMAK-|lsv2_|lin_api_"
    rb"|gsk_[A-Za-z0-9]{16}|tvly-|eyJ|r8_[A-Za-z0-9]{20}|dop_v1_|dckr_pat_|dapi[a-f0-9]{20}|figd_|(?:AC|SK)[0-9a-f]{32}"
)
_BEFORE = (b"sg.", b"ya29.", b"hvs.", b"bearer ", b"basic ", b"webhooks/", b"bearer%20", b"bearer+")
_AWS = re.compile(r"[A-Za-z0-9/+]{40}")
_DIGITS_COLON = re.compile(rb"\d{8,10}:$")


class Hints(NamedTuple):
    """Which detectors a text is worth."""

    names: bool  # a word such as `token` or `password` occurs
    places: bool  # a URL, a header or a command with credentials may occur
    shapes: bool  # a long run looks like a known shape or like base64 of a secret
    low: str  # the text with ASCII letters in lower case; empty where nothing was found

    def __bool__(self) -> bool:
        return self.names or self.places or self.shapes


_NOTHING = Hints(False, False, False, "")


def hints(text: str) -> Hints:
    """Which detectors `text` is worth; false where it holds nothing."""
    raw = text.encode("utf-8", "surrogatepass")
    low = raw.lower()
    auth = b"auth" in low
    cookie_or_key = _K.search(low) is not None
    names = cookie_or_key or auth or b"pass" in low or b"pwd" in low or _C.search(low) is not None
    places = (
        auth
        or b"://" in low
        or (cookie_or_key and b"cookie" in low)
        or (b" -" in low and _FLAG.search(low) is not None)
        or ((b"?" in raw or b"&" in raw) and b"sig" in low)
        or b"pass:" in low
    )
    shapes = _long_runs(raw)
    if not (names or places or shapes):
        return _NOTHING
    return Hints(names, places, shapes, low.decode("utf-8", "surrogatepass"))


def _long_runs(raw: bytes) -> bool:
    """Whether a run of token characters, over line ends too, is worth a closer look."""
    if len(raw) < _RUN:
        return False
    if b"\\n" in raw:
        raw = raw.replace(b"\\r\\n", b"").replace(b"\\n", b"")
    mask = raw.translate(_MASK, b"\r\n")
    at = mask.find(_ONES)
    if at < 0:
        return False
    if len(mask) != len(raw):
        raw = raw.translate(None, b"\r\n")
    while at >= 0:
        end = mask.find(b" ", at + _RUN)
        if end < 0:
            end = len(mask)
        if _telling(raw[at:end], raw[max(0, at - 12) : at]):
            return True
        at = mask.find(_ONES, end)
    return False


def _telling(run: bytes, before: bytes) -> bool:
    if _SHAPE.search(run):
        return True
    if before and (
        before[-1] in b". /0+:"
        and (before.lower().endswith(_BEFORE) or (len(run) >= 35 and _DIGITS_COLON.search(before)))
    ):
        return True
    if run.islower() or run.isupper():
        return False
    if len(run) >= 23 and run[0] in b"MNO" and len(run) <= 28:
        return True
    text = run.decode("ascii")
    if len(run) >= 40 and (run.startswith((b"s/", b"//")) or len(run) < 60):
        match = _AWS.search(text)
        if match and is_aws_secret(match.group()):
            return True
    if len(run) >= 24 and decode(text) is not None:
        return True
    return len(run) >= 200 and is_opaque(text)
