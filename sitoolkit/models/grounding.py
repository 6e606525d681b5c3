"""Holds a model's wording to the facts: a wording and the one claim it words come in, a verdict with a reason goes out.

A wording passes when it says nothing that the claim does not say. Words are the unit: each must be a word of the claim's
own template wording or values, or a neutral word that states no fact of its own. On top of that come checks for what the
same words can still get wrong: polarity, quantity, direction, and the order of what is named. The checks are strict on
purpose: a rejected wording costs nothing but style, since the template's wording takes its place.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

from sitoolkit.records import Claim

__all__ = ["MAX_WORDING_CHARS", "check_wording", "literals", "quoted"]

MAX_WORDING_CHARS = 400

_TOKEN = re.compile(
    r"[^\W_]+(?:[^\s\w]?[\w]+)*", re.UNICODE
)  # a word with what is glued into it: a_b, 10.0.0.1, x/y, isn't
_SHARE = re.compile(r"\b(\d+) (?:out )?of (\d+)\b")
_FIGURATIVE = re.compile(
    r"\bfollow(s|ed|ing)? (the|a|this) (pattern|convention|format|form|shape)\b", re.IGNORECASE
)
_FIGURATIVE_WORDS = frozenset(["follow", "follows", "followed", "following"])  # a pattern comes after nothing
_QUOTED = re.compile(r"[`'\"“”]([^`'\"“”]{1,200})[`'\"“”]")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+(?:\.\d+)*|[^\W\d_a-zA-Z]+", re.UNICODE)
_HIDDEN = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)
_NAME_LIKE = re.compile(r"[_/:@\\.]|\d|[a-z][A-Z]|^[A-Z]{2,}$")  # what makes a token a literal, not a word

_NUMBERS = {
    "zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8",
    "nine": "9", "ten": "10", "eleven": "11", "twelve": "12", "once": "1", "twice": "2", "dozen": "12", "both": "2",
    "single": "1", "pair": "2", "hundred": "100", "thousand": "1000",
}  # fmt: skip


@lru_cache(maxsize=1)
def _word_lists() -> dict[str, list[str]]:
    return tomllib.loads(files("sitoolkit.models").joinpath("vocabulary.toml").read_text(encoding="utf-8"))


def _vocabulary(name: str) -> frozenset[str]:
    return frozenset(_word_lists()[name])


# What turns a statement round. A wording must deny exactly when its claim does.
_DENYING = _vocabulary("denying")
_UNIVERSAL = _vocabulary("universal")
_PARTIAL = _vocabulary("partial")
_DIRECTIONS = (
    (_vocabulary("before"), _vocabulary("after")),
    (_vocabulary("at_least"), _vocabulary("at_most")),
)

# Words that state no fact of their own.
_NEUTRAL = _vocabulary("neutral")


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    """Fold plural and verb endings, so that `requires` and `required` are one word; short words stay whole."""
    for ending in ("ations", "ation", "ings", "ing", "ies", "ied", "ers", "er", "ed", "es", "s", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            word = word[: -len(ending)] + ("y" if ending in ("ies", "ied") else "")
            break
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


_NEUTRAL_STEMS = frozenset(_stem(word) for word in _NEUTRAL)
_KNOWN = (
    _NEUTRAL
    | _DENYING
    | _UNIVERSAL
    | _PARTIAL
    | frozenset().union(*(side for pair in _DIRECTIONS for side in pair))
)


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def _words(tokens: Iterable[str]) -> set[str]:
    """Lower-case words and number parts of the tokens, whole tokens included."""
    found: set[str] = set()
    for token in tokens:
        found.add(token.lower())
        found.update(part.lower() for part in _PART.findall(token))
    return found


def quoted(text: str) -> set[str]:
    """The tokens that stand in quotes or backticks, lower case."""
    return {token.lower() for part in _QUOTED.findall(text) for token in _tokens(part)}


def literals(text: str) -> list[str]:
    """The names, numbers, hosts, paths and quoted values in a text, in order, lower case."""
    marked = quoted(text)
    return [token.lower() for token in _tokens(text) if _NAME_LIKE.search(token) or token.lower() in marked]


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _strings(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _strings(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _has(words: set[str], vocabulary: frozenset[str]) -> bool:
    return not words.isdisjoint(vocabulary)


def check_wording(wording: object, claim: Claim) -> str | None:
    """Say why a wording goes beyond its claim, or `None` where it keeps to it.

    >>> fact = Claim(id="c1", kind="constant", text="`auth` is always `token`", support=6, of=6)
    >>> check_wording("Always pass `auth` as `token`.", fact) is None
    True
    >>> check_wording("Never pass `auth` as `token`.", fact)
    'polarity: the claim does not deny, the wording does'

    Args:
        wording: what the model wrote for this claim.
        claim: the computed claim; its text is the template's wording, its data the computed values.
    """
    if not isinstance(wording, str) or not wording.strip():
        return "form: the wording is empty"
    if len(wording) > MAX_WORDING_CHARS or "\n" in wording.strip():
        return f"form: more than one line of {MAX_WORDING_CHARS} characters"
    if _HIDDEN.search(wording):
        return "form: hidden characters"
    said = _tokens(wording)
    plain = [token.lower().replace("’", "'") for token in said]
    own_tokens = _tokens(claim.text)
    own_plain = {token.lower() for token in own_tokens}
    allowed = _words(own_tokens) | _words(_tokens(" ".join(_strings(claim.data))))
    allowed |= {str(claim.support), str(claim.of)} | {_stem(word) for word in allowed if word.isalpha()}

    invented = _invented(said, allowed, quoted(wording))
    if invented is not None:
        return f"literal: {invented!r} is not in the evidence"
    left_out = quoted(claim.text) - set(plain)
    if left_out:
        return f"omission: the wording leaves out {min(left_out)!r}"
    wording_words = set(plain) | {part for token in plain for part in token.split("-")}
    denies, should_deny = _has(wording_words, _DENYING), _has(own_plain, _DENYING)
    if denies != should_deny:
        return f"polarity: the claim {'denies' if should_deny else 'does not deny'}, the wording {'does' if denies else 'does not'}"
    if (
        denies
        and sum(word in _DENYING for word in plain) % 2
        != sum(token.lower() in _DENYING for token in own_tokens) % 2
    ):
        return "polarity: the wording denies another number of times than the claim"
    for share in _SHARE.finditer(wording):
        if (share[1], share[2]) != (str(claim.support), str(claim.of)) and share[0] not in claim.text:
            return f"quantity: it holds in {claim.support} of {claim.of}, the wording says {share[0]}"
    if _has(wording_words, _UNIVERSAL - {"any"}) and claim.support < claim.of:
        return f"quantity: it holds in {claim.support} of {claim.of}, the wording says always"
    if _has(wording_words, _PARTIAL) and not _has(own_plain, _PARTIAL):
        return "quantity: the wording says sometimes, the claim does not"
    wording_words -= _FIGURATIVE_WORDS if _FIGURATIVE.search(wording) else frozenset()
    for one, other in _DIRECTIONS:
        for side, opposite in ((one, other), (other, one)):
            if _has(wording_words, side) and not _has(own_plain, side):
                turned = _has(own_plain, opposite)
                return f"direction: the wording {'turns the claim round' if turned else 'adds one that the claim has not'}"
    return _order(wording, claim)


def _invented(said: Sequence[str], allowed: set[str], marked: set[str]) -> str | None:
    """The first token that neither the claim nor the neutral vocabulary knows; a quoted one must be the claim's own."""
    for token in said:
        lower = token.lower().replace("’", "'")
        if lower in allowed:
            continue
        if lower in marked or _NAME_LIKE.search(token):
            return token
        if lower in _KNOWN or _NUMBERS.get(lower) in allowed:
            continue
        pieces = [piece for piece in lower.split("-") if piece]
        if not all(
            piece in allowed or _stem(piece) in allowed or _stem(piece) in _NEUTRAL_STEMS for piece in pieces
        ):
            return token
    return None


def _order(wording: str, claim: Claim) -> str | None:
    """Names that the claim puts in an order must stand in that order: swapping them would tie values to the wrong argument."""
    how_often = re.compile(rf"\b{claim.support} of {claim.of}\b")  # may stand anywhere
    order = list(dict.fromkeys(literals(how_often.sub("", claim.text))))
    place = {literal: index for index, literal in enumerate(order)}
    seen = [
        place[literal] for literal in dict.fromkeys(literals(how_often.sub("", wording))) if literal in place
    ]
    if seen != sorted(seen):
        return "order: the wording names things in another order than the claim"
    return None
