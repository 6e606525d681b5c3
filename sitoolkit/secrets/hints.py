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
_SHORT = 400  # below, a few substring tests are faster than starting a pattern
_ONES = b"1" * _RUN
_MASK = bytes(
    49 if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "+/_-") else 32 for code in range(256)
)
# Anchored at a rare letter, which the engine finds by memchr.
_K = re.compile(r"k(?:ey|(?<=tok)en|(?<=cook)ie|ennw)")
_C = re.compile(r"cre[td]")
_FLAG = re.compile(r"[\s\"'](?:-[upa]|--user|--proxy-user)")
_SHAPE = re.compile(
    rb"[sp]k-(?:ant|proj|svcacct|admin|or-v1|lf)-|sk-[A-Za-z0-9]{20}|[sr]k_(?:live|test)_|gh[a-z]_[A-Za-z0-9]{16}|github_pat_"
    rb"|gl[a-z]{2,6}[-_][A-Za-z0-9]|A[KSBC][IC]A[A-Z0-9]{16}|AIza|AGE-SECRET|ATATT3|GOCSPX-|xox[a-z]|xapp-|xai-[A-Za-z0-9]{20}"
    rb"|whsec_|shpat_|hf_[A-Za-z0-9]{20}|npm_[A-Za-z0-9]{20}|nvapi-|pypi-[A-Za-z0-9_-]{20}|pplx-|PMAK-|lsv2_|lin_api_"
    rb"|gsk_[A-Za-z0-9]{16}|tvly-|eyJ|r8_[A-Za-z0-9]{20}|dop_v1_|dckr_pat_|dapi[a-f0-9]{20}|figd_|(?:AC|SK)[0-9a-f]{32}"
)
_BEFORE = (b"sg.", b"ya29.", b"hvs.", b"bearer ", b"basic ", b"webhooks/", b"bearer%20", b"bearer+")
_AWS = re.compile(r"[A-Za-z0-9/+]{40}")
_DISCORD = re.compile(rb"(?:^|/)[MNO][A-Za-z0-9_-]{22,27}$")
_DIGITS_COLON = re.compile(rb"\d{8,10}:$")


class Hints(NamedTuple):
    """Which detectors a text is worth."""

    low: str  # the text with ASCII letters in lower case, of the same length
    names: bool = True  # a word such as `token` or `password` occurs
    urls: bool = True  # a URL or a signed query may occur
    headers: bool = True  # a header with credentials may occur
    commands: bool = True  # a command with a password may occur
    shapes: bool = True  # a long run looks like a known shape or like base64 of a secret
    wrapped: bool = False  # such a run goes on over a line end


def hints(text: str) -> Hints | None:
    """Which detectors `text` is worth; `None` where it holds nothing."""
    if text.isascii():
        low, raw = text.lower(), text.encode()
    else:  # str.lower may change the length, and takes ten times as long
        raw = text.encode("utf-8", "surrogatepass")
        low = raw.lower().decode("utf-8", "surrogatepass")
    auth = "auth" in low
    if len(low) < _SHORT:
        keyed = "key" in low or "token" in low or "cookie" in low
        named = "cred" in low or "secret" in low or "kennwort" in low
    else:
        keyed = _K.search(low) is not None
        named = _C.search(low) is not None
    names = keyed or named or auth or "pass" in low or "pwd" in low
    urls = "://" in low or (("?" in low or "&" in low) and "sig" in low)
    headers = auth or (keyed and "cookie" in low)
    commands = (" -" in low and _FLAG.search(low) is not None) or (names and "pass:" in low)
    shapes, wrapped = _long_runs(raw) if len(raw) >= _RUN else (False, False)
    if not (names or urls or headers or commands or shapes):
        return None
    return Hints(low, names, urls, headers, commands, shapes, wrapped)


def _long_runs(raw: bytes) -> tuple[bool, bool]:
    """Whether a run of token characters is worth a closer look, and whether one that is goes on over a line end."""
    whole = raw
    if b"\\n" in raw:
        raw = raw.replace(b"\\r\\n", b"").replace(b"\\n", b"")
    mask = raw.translate(_MASK, b"\r\n")
    at = mask.find(_ONES)
    if at < 0:
        return False, False
    if len(mask) != len(raw):
        raw = raw.translate(None, b"\r\n")
    one_line = len(raw) == len(whole)
    telling = False
    while at >= 0:
        end = mask.find(b" ", at + _RUN)
        if end < 0:
            end = len(mask)
        run = raw[at:end]
        if _telling(run, raw[max(0, at - 12) : at]):
            if one_line or run not in whole:
                return True, not one_line
            telling = True
        at = mask.find(_ONES, end)
    return telling, False


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
    if _DISCORD.search(run):
        return True
    text = run.decode("ascii")
    if run.startswith((b"s/", b"//")):
        text = text[2:]
    if len(run) >= 40 and (run.startswith((b"s/", b"//")) or len(run) < 60):
        match = _AWS.search(text)
        if match and is_aws_secret(match.group()):
            return True
    if len(run) >= 24 and decode(text) is not None:
        return True
    return len(run) >= 200 and is_opaque(text)
