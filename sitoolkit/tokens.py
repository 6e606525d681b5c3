"""Text comes in, an estimate of its tokens goes out, and texts cut to a number of tokens.

No tokenizer is asked: the estimate has to be the same on every machine and for every model. It counts pieces as byte-pair
vocabularies cut them and errs on the high side, so that a budget in estimated tokens holds in real ones.
"""

from __future__ import annotations

import functools
import re

__all__ = ["cut_to_tokens", "estimate_tokens"]

# Measured on English prose, JSON, code, logs and paths against the 32k vocabulary of Llama 2 (which cuts finer than newer,
# larger ones) and on WordPiece; docs/explanation/recall.md has the table. A piece is:
_PIECE = re.compile(
    r"(?P<word>[A-Za-z]+)|(?P<digits>\d)|(?P<space>[ \t]{2,}|[\r\n]+)|(?P<one> )|(?P<mark>[!-/:-@\[-`{-~])|(?P<other>[^\x00-\x7f])|(?P<rest>.)",
    re.DOTALL,
)
_WORDS = re.compile(r"[A-Za-z]+")
_SPACES = re.compile(r"[ \t]{2,}|[\r\n]+")
_SINGLES = re.compile(r"[!-@\[-`{-~\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|(?<![ \t])\t(?![ \t])")
_LETTERS_A_TOKEN = 4.2  # of a word that is not in the vocabulary as a whole
_MARGIN = 1.08  # on the sum: log lines, the worst of what was measured, come out at 1.04 of Llama 2's count
_WHOLE_WORD = 6  # letters up to which a lower-case word is taken to be one token


def estimate_tokens(text: str) -> int:
    """About how many tokens a model's tokenizer makes of a text; high rather than low.

    >>> estimate_tokens("Restart the worker first.")
    7

    Args:
        text: any text; letters beyond ASCII count one token each, East Asian characters 1.3.
    """
    return _ceil(_MARGIN * _sum(text))


@functools.lru_cache(maxsize=4096)
def _sum(text: str) -> float:
    # The same sum as over _cost, by kinds of pieces at once.
    words = _WORDS.findall(text)
    easy = [word for word in words if len(word) <= _WHOLE_WORD and (word.islower() or word.istitle())]
    cost = float(len(easy))
    if len(easy) < len(words):
        cost += sum(
            _word(word)
            for word in words
            if not (len(word) <= _WHOLE_WORD and (word.islower() or word.istitle()))
        )
    cost += len(_SINGLES.findall(text))
    cost += sum(1 + len(run) // 8 for run in _SPACES.findall(text))
    if not text.isascii():
        cost += sum(_other(character) for character in text if not character.isascii())
    return cost


def cut_to_tokens(text: str, tokens: int, marker: str = " …") -> str:
    """The beginning of a text that fits into so many estimated tokens, cut between words, with a marker where it was cut.

    >>> cut_to_tokens("one two three four five six", 4)
    'one two …'

    Args:
        text: any text.
        tokens: estimated tokens that the result may have, marker included; with no room for the marker the result is "".
        marker: what shows the cut.
    """
    if estimate_tokens(text) <= tokens:
        return text
    room = tokens / _MARGIN - _sum(marker)
    spent, fits = 0.0, 0
    for match in _PIECE.finditer(text):
        spent += _cost(match)
        if spent * _MARGIN <= tokens:
            if spent <= room:
                fits = match.end()
        elif fits == 0 or room <= 0:
            return ""
        else:
            kept = text[:fits]
            # Back to the last space, unless that would lose much (a text without spaces).
            space = max(kept.rfind(" "), kept.rfind("\n"))
            if fits < len(text) and not text[fits].isspace() and space > fits * 0.6:
                kept = kept[:space]
            return kept.rstrip() + marker
    return text


def _cost(match: re.Match[str]) -> float:
    kind = match.lastgroup
    if kind == "word":
        return _word(match.group())
    if kind == "one":
        return 0.0  # a single space belongs to the word after it
    if kind == "space":
        return float(1 + len(match.group()) // 8)
    return _other(match.group()) if kind == "other" else 1.0


def _word(word: str) -> float:
    if len(word) <= _WHOLE_WORD and (word.islower() or word.istitle()):
        return 1.0
    letters = 2.0 if word.isupper() and len(word) > 1 else _LETTERS_A_TOKEN
    return max(1.0, len(word) / letters)


def _other(character: str) -> float:
    if character > "\uffff":
        return 4.0  # emoji and rare scripts fall apart into bytes
    if "\u2190" <= character <= "\u2bff":
        return 3.0  # arrows, dingbats, box drawing
    return 1.3 if "\u2e80" <= character <= "\u9fff" else 1.0


def _ceil(number: float) -> int:
    return int(-(-number // 1))
