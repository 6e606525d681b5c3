"""Comes in: a user's message and what the agent said and did before it. Goes out: whether the message rejects that, by which rule, and X and Y.

Phrases alone do not tell: a "no" may answer a question, a "don't" may be part of the next task. Each rule of the tables says what it
yields to and what it needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from sitoolkit.loops.phrases import PhraseRule, PhraseTable
from sitoolkit.loops.utterances import Clause, clauses, own_words
from sitoolkit.records import ToolInvocation
from sitoolkit.secrets.names import words as _set_of

__all__ = ["SAID_CHARS", "WORDS", "Before", "Negation", "negation", "texts_of"]

SAID_CHARS = 4_000  # of what the agent said and did, for evidence
_MOST_CLAUSES = 30  # of one message
_LEAD_CHARS = 24  # a phrase that begins later stands within a sentence about something else
_PLANNED = re.compile(r"\b(?:I'll|I will|I'm going to|I am going to|ich werde)\b", re.IGNORECASE)
_DONE = re.compile(r"\b(?:I've|I have|I \w+ed|done|ich habe)\b", re.IGNORECASE)
WORDS = re.compile(r"[\w./-]{2,}")
_COMMON = _set_of(
    "the and for that this with from into them they you your it its not any all more again when than then just only "
    "ever same such like das die der den dem ein eine und oder mit von für nicht auch noch nur hier dort sie ist"
)


class Before(NamedTuple):
    """What the agent said and did in the turns before."""

    said: str  # the last text
    asked: bool
    acted: bool  # it made a call, or tells of something that it did
    words: frozenset[str]  # of all texts and arguments, lower case
    calls: tuple[ToolInvocation, ...]
    codes: tuple[str, ...]


class Negation(NamedTuple):
    """What fired, the spans it rests on, and X and Y where the user names them."""

    rule: str
    spans: tuple[tuple[int, int], ...]
    wanted: str | None
    unwanted: str | None


def texts_of(value: object, depth: int = 0) -> Iterator[str]:
    """The texts in a JSON value, cut, some levels deep."""
    if isinstance(value, str):
        yield value[:SAID_CHARS]
    elif depth < 4 and isinstance(value, dict):
        for item in list(value.values())[:30]:
            yield from texts_of(item, depth + 1)
    elif depth < 4 and isinstance(value, list | tuple):
        for item in value[:30]:
            yield from texts_of(item, depth + 1)


def negation(text: str, before: Before, tables: Sequence[PhraseTable]) -> Negation | None:
    """Whether the message rejects what the agent did; the rule with the tightest X and Y, else the first that fires."""
    words = own_words(text)
    if not words.strip():
        return None
    places = list(islice(clauses(words), _MOST_CLAUSES))
    fired: list[tuple[str, tuple[int, int], str | None, str | None]] = []
    for table in tables:
        for clause in places:
            start = _behind_openers(table, words, clause)
            if table.never.match(words, start, clause.sentence_end):
                continue
            for rule in table.rules:
                match = _match(rule, words, start, clause)
                if (
                    match
                    and not _mere_not(table, match)
                    and not _yields(rule, table, words, clause, match, before)
                    and _has(rule, table, words, clause, match, before)
                ):
                    named = match.groupdict()
                    fired.append(
                        (
                            f"{table.language}:{rule.name}",
                            match.span(),
                            _named(named.get("x")),
                            _named(named.get("y")),
                        )
                    )
    if not fired:
        return None
    pairs = [one for one in fired if one[2] and one[3]]
    best = min(pairs, key=lambda one: len(f"{one[2]}{one[3]}")) if pairs else fired[0]  # the tightest X and Y
    spans = tuple(sorted({span for _, span, _, _ in fired}))
    return Negation(best[0], spans, best[2], best[3])


def _behind_openers(table: PhraseTable, words: str, clause: Clause) -> int:
    match = table.openers.match(words, clause.start, clause.sentence_end)
    return match.end() if match else clause.start


def _match(rule: PhraseRule, words: str, start: int, clause: Clause) -> re.Match[str] | None:
    if rule.at == "anywhere":
        if clause.start != clause.sentence_start:
            return None  # the sentence was searched at its first clause
        if rule.has:
            sentence = words[clause.sentence_start : clause.sentence_end].lower()
            if not any(text in sentence for text in rule.has):
                return None
        return rule.pattern.search(words, clause.sentence_start, clause.sentence_end)
    if rule.at == "message" and not clause.first:
        return None
    for place in dict.fromkeys((clause.start, start)):
        match = rule.pattern.match(words, place, clause.sentence_end)
        if match:
            return match
    return None


def _mere_not(table: PhraseTable, match: re.Match[str]) -> bool:
    """Whether the `not` that was taken for "X, not Y" belongs to a verb: "it does not work"."""
    aux = table.guards.get("aux")
    wanted = match.groupdict().get("x")
    joined = re.search(r"\b(?:instead of|rather than|statt|anstatt)\b", match.group(), re.IGNORECASE)
    return bool(aux and wanted and not joined and aux.search(wanted.strip()))


def _yields(
    rule: PhraseRule, table: PhraseTable, words: str, clause: Clause, match: re.Match[str], before: Before
) -> bool:
    """Whether one of the rule's guards holds."""
    for guard in rule.unless:
        if guard == "question":
            if clause.question:
                return True
        elif guard == "answer":
            if before.asked or _invites(table, before):
                return True
        elif guard == "pleased":
            pattern = table.guards.get(guard)
            if pattern and pattern.match(words, len(words) - len(words.lstrip())):
                return True
        else:
            pattern = table.guards.get(guard)
            start = max(0, clause.sentence_start - 200) if guard == "self" else clause.sentence_start
            if pattern and pattern.search(words, start, clause.sentence_end):
                if guard == "want" and before.acted:
                    continue
                return True
    return False


def _has(
    rule: PhraseRule, table: PhraseTable, words: str, clause: Clause, match: re.Match[str], before: Before
) -> bool:
    """Whether what the rule needs is there."""
    for need in rule.needs:
        leading = _leading(table, words, clause, match, before)
        unwanted = match.groupdict().get("y") or match.group()
        if need == "leading" and not leading:
            return False
        if need == "known" and not _known(unwanted, before.words):
            return False
        if need == "first" and not _leading(table, words, clause, match, before, anyhow=True):
            return False
        if need == "evidence" and not _evident(unwanted, before):
            condition = table.guards.get("condition")
            told = before.calls or _DONE.search(before.said[-600:])
            planned = _PLANNED.search(before.said[-300:]) and not _DONE.search(before.said[-600:])
            if (
                not leading
                or planned
                or not told
                or (condition and condition.search(words, match.start(), clause.sentence_end))
            ):
                return False
        if need == "contrast" and not leading and not _contrasts(table, words, clause, unwanted, before):
            return False
    return True


def _invites(table: PhraseTable, before: Before) -> bool:
    """Whether the agent's last words offer a choice or ask for something without a question mark."""
    asks = table.guards.get("asks")
    return bool(asks and asks.search(before.said, max(0, len(before.said) - 300)))


def _leading(
    table: PhraseTable,
    words: str,
    clause: Clause,
    match: re.Match[str],
    before: Before,
    anyhow: bool = False,
) -> bool:
    """Whether the message begins with the match, or with a refusal, as an answer to what the agent did and not as a next task."""
    if before.asked or _invites(table, before):
        return False
    refuses, on = table.guards.get("refuses"), table.guards.get("next")
    if refuses and refuses.match(words, len(words) - len(words.lstrip())):
        return True
    if (
        not (before.acted or anyhow)
        or not clause.opening
        or match.start() - clause.sentence_start > _LEAD_CHARS
    ):
        return False
    return not (on and on.match(words, clause.sentence_start, clause.sentence_end))


def _evident(forbidden: str, before: Before) -> bool:
    """Whether what the user forbids is what the agent did: a file or a name among its arguments, or the same verb and object."""
    words = [word.lower().strip(".-/") for word in WORDS.findall(forbidden)[:12]]
    if not words:
        return False
    args = {
        word
        for call in before.calls[-8:]
        for text in texts_of(call.args)
        for word in WORDS.findall(text[:4_000].lower())
    }
    objects = [word for word in words[1:] if word not in _COMMON and len(word) > 3]
    if any(
        ("." in word or "/" in word or "_" in word) and any(word in one for one in args) for word in objects
    ):
        return True
    stem = words[0][: max(3, min(5, len(words[0]) - 1))]
    said = set(WORDS.findall(before.said.lower()[-2_000:])) | args
    did = any(word.startswith(stem) for word in said)
    return did and (not objects or any(any(word[:5] == one[:5] for one in before.words) for word in objects))


def _contrasts(table: PhraseTable, words: str, clause: Clause, unwanted: str, before: Before) -> bool:
    """Whether what is replaced is what the agent did, and neither part of a next task nor one side of a choice that it offered."""
    on = table.guards.get("next")
    if on and on.match(words, clause.sentence_start, clause.sentence_end):
        return False
    if (before.asked or _invites(table, before)) and _known(
        unwanted, frozenset(WORDS.findall(before.said[-200:].lower()))
    ):
        return False
    return _known(unwanted, before.words)


def _known(unwanted: str, said: frozenset[str]) -> bool:
    """Whether half of the telling words of what the user does not want occur among words of the agent."""
    words = [word.lower().strip(".-/") for word in WORDS.findall(unwanted)[:6]]
    telling = [word for word in words if word not in _COMMON] or words
    known = sum(
        any(
            word == one or (len(word) > 3 and one.startswith(word[: max(4, min(5, len(word) - 1))]))
            for one in said
        )
        for word in telling
    )
    return bool(telling) and 2 * known >= len(telling)


_TRIM = re.compile(
    r"^(?:(?:use|using|put|make|take|it|that|should|must|be|is|nimm|nutze?|benutze?|verwende?|the|a|an|to|in|with|for|as|den|die|das|der|dem)\s+)+"
    r"|\s+(?:please|bitte|here|hier|though|anymore|any more|ok|okay|instead|thanks)$",
    re.IGNORECASE,
)


def _named(value: str | None) -> str | None:
    if value is None:
        return None
    value = " ".join(value.strip(" \t\"'`*_").split())
    shorter = _TRIM.sub("", value)
    return shorter[:120] or None
