"""Comes in: a correction. Goes out: the fact in it, with the slot that says which facts contradict it; or nothing, where none is stated.

Facts are worded by rule from what the user named: what is wanted and what is not, what is forbidden, how things are done here. "Put it
there" names nothing that would hold tomorrow, and makes no fact.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from sitoolkit.loops.utterances import own_words
from sitoolkit.records import CorrectionSignal, Origin, Scope, digest

__all__ = ["INFERRED", "Fact", "content_of", "fact_of", "fact_scope", "slot_of", "word_overlap"]

INFERRED = 0.7  # [H] confidence of a fact that the user did not state but that follows from what they did
_FORBIDS = ("forbid", "stop-doing", "verbiete", "hoer-auf")
_STATES = ("we-do", "wir-nutzen")
_VAGUE = re.compile(
    r"(?:it|that|this|them|those|these|one|ones|so|there|here|again|das|es|die|den|dies|diese|dort|hier|so|mich|dich|me|you|everything|anything|alles|something)",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"(?:no[,.!\s]+)?(write|make|call|name|put|return|keep|set|store|log|import|run|read|schreibe?|nenne?|setze?)\b",
    re.I,
)
_TAIL = re.compile(
    r"\s+(?:(?:in|on|for|at|of|inside|within|when|under|auf|für|bei|im|beim) .{2,60})$", re.IGNORECASE
)
_WHERE = re.compile(
    r"\b(?:in|on|for|at|inside|within|auf|für|bei|im|beim) (?:the |our |my |all |den |die |das |der |dem )?([^,.;!?\n]{2,50})",
    re.IGNORECASE,
)
_WORD = re.compile(r"[\w+#./-]{2,}")
_SMALL = frozenset(
    [
        "the",
        "an",
        "and",
        "or",
        "not",
        "no",
        "to",
        "in",
        "on",
        "of",
        "for",
        "with",
        "use",
        "using",
        "never",
        "always",
        "do",
        "does",
        "don't",
        "dont",
        "please",
        "any",
        "all",
        "it",
        "is",
        "are",
        "be",
        "den",
        "die",
        "das",
        "der",
        "und",
        "oder",
        "nicht",
        "nie",
    ]
)
_STATEMENT_CHARS = 200


@dataclass(frozen=True)
class Fact:
    """What a correction states: a text for the prompt, and its place among the facts."""

    text: str
    subject: str
    aspect: str
    value: str
    unwanted: str | None = None
    where: str | None = None  # "the compose files"
    slotted: bool = True  # False: no slot was found, so that nothing can be said to contradict it
    origin: Origin = Origin.USER_STATED
    confidence: float = 1.0

    @property
    def slot(self) -> str | None:
        """The slot of the memory: `fact:SUBJECT:ASPECT`."""
        return f"fact:{self.subject}:{self.aspect}" if self.slotted else None


@dataclass(frozen=True)
class _Slot:
    subject: str
    aspect: str
    values: re.Pattern[str] | None
    forms: tuple[re.Pattern[str], ...]


@lru_cache(maxsize=1)
def _slots() -> tuple[_Slot, ...]:
    text = files("sitoolkit").joinpath("phrases", "slots", "slots.toml").read_text(encoding="utf-8")
    slots = []
    for entry in tomllib.loads(text)["slot"]:
        values = sorted(entry.get("values", ()), key=lambda value: (-len(value), value))
        pattern = "|".join(re.escape(value) for value in values)
        slots.append(
            _Slot(
                entry["subject"],
                entry["aspect"],
                re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.IGNORECASE) if values else None,
                tuple(re.compile(form, re.IGNORECASE) for form in entry.get("forms", ())),
            )
        )
    return tuple(slots)


def slot_of(wanted: str, unwanted: str | None = None, sentence: str = "") -> tuple[str, str, str] | None:
    """Subject, aspect and value of what is wanted; with what is not wanted, both must be values of one slot.

    >>> slot_of("tabs", "spaces")
    ('indentation', 'style', 'tabs')

    Args:
        wanted: the user's X.
        unwanted: the user's Y, if they named one.
        sentence: in which both stand; names the subject of a port or a version.
    """
    for slot in _slots():
        value = _value(slot, wanted)
        if value is None or (unwanted is not None and _value(slot, unwanted) is None):
            continue
        subject = slot.subject
        if subject == "*":
            subject = _subject(sentence.replace(wanted, " ").replace(unwanted or "\0", " ")) or slot.aspect
        return subject, slot.aspect, value
    return None


def _value(slot: _Slot, text: str) -> str | None:
    for form in slot.forms:
        match = form.search(text)
        if match:
            return match[1].lower()
    match = slot.values.search(text) if slot.values else None
    return match.group() if match else None


def _subject(sentence: str) -> str | None:
    found = [match[1].strip().lower() for match in _WHERE.finditer(sentence)]
    return found[-1][:40] if found else None


def fact_of(signal: CorrectionSignal) -> Fact | None:
    """The fact that a correction states, worded by rule; `None` where it states none that would hold tomorrow.

    >>> fact_of(signal).text
    'Use tabs, not spaces.'
    """
    if signal.kind != "negation":
        return None
    if signal.wanted and signal.unwanted:
        return _choice(signal, signal.wanted, signal.unwanted)
    rule = signal.rule.partition(":")[2]
    words = own_words(signal.text)
    if rule in _FORBIDS or rule in _STATES:
        return _statement(signal, words, rule in _STATES)
    return None


def _choice(signal: CorrectionSignal, wanted: str, unwanted: str) -> Fact | None:
    words = own_words(signal.text)
    where = None
    tail = _TAIL.search(unwanted)
    if tail:
        where, unwanted = tail.group().strip(), unwanted[: tail.start()].strip()
    else:
        tail = _TAIL.search(wanted)
        known = slot_of(wanted)
        if tail and not (known and known[2].lower() in tail.group().lower()):
            where, wanted = tail.group().strip(), wanted[: tail.start()].strip()
    if where is None:
        low = words.lower()
        end = max(low.rfind(name.lower()) + len(name) for name in (wanted, unwanted))
        behind = re.match(
            r"[,\s]{0,3}((?:in|on|for|at|inside|within|auf|für|bei|im|beim) [^,.;!?\n]{2,60})",
            words[end:],
            re.IGNORECASE,
        )
        where = behind[1].strip() if behind else None
    if (
        not wanted
        or not unwanted
        or _VAGUE.fullmatch(wanted)
        or _VAGUE.fullmatch(unwanted)
        or wanted.lower() == unwanted.lower()
    ):
        return None
    found = slot_of(wanted, unwanted, words)
    if found:
        subject, aspect, value = found
        other = slot_of(unwanted, None, words)
        unwanted_value = other[2] if other and other[1] == aspect else unwanted
    else:  # a choice between these two, whichever way it is made
        first, second = sorted((wanted.lower(), unwanted.lower()))
        subject, aspect, value, unwanted_value = f"{first} or {second}"[:120], "choice", wanted, unwanted
    said = _VERB.match(words, min((start for start, _ in signal.spans), default=0))
    verb = said[1].capitalize() if said else "Use"
    text = f"{verb} {wanted}, not {unwanted}{' ' + where if where else ''}."
    return Fact(text, subject, aspect, value, unwanted_value, where)


def _statement(signal: CorrectionSignal, words: str, states: bool) -> Fact | None:
    """A prohibition or a custom in the user's own words; without a slot, since no value stands in it."""
    if not signal.spans:
        return None
    start, end = signal.spans[0]
    stop = re.compile(r"[.!?;\n]|$").search(words, end)
    sentence = " ".join(words[start : stop.start() if stop else end].split())[:_STATEMENT_CHARS].rstrip(" ,:")
    sentence = re.sub(r"^(?:no|nope|nein)[,.!\s]+", "", sentence, flags=re.IGNORECASE)
    telling = [
        word for word in _WORD.findall(sentence.lower()) if word not in _SMALL and not _VAGUE.fullmatch(word)
    ]
    if len(telling) < 2:
        return None
    if states:
        found = slot_of(sentence)
        if found:
            return Fact(f"{sentence[0].upper()}{sentence[1:]}.", *found)
    text = f"{sentence[0].upper()}{sentence[1:]}."
    return Fact(
        text, " ".join(telling[:6]), "custom" if states else "forbidden", sentence.lower(), slotted=False
    )


def fact_scope(signal: CorrectionSignal) -> Scope:
    """The project's scope, else the agent's, else the session's; never everyone's."""
    if signal.project:
        return Scope.of("project", signal.project)
    return Scope.of("agent", signal.agent) if signal.agent else Scope.of("session", signal.session_id)


def content_of(fact: Fact) -> str:
    """Digest of what is stated, whatever the words: the same slot and value is the same fact."""
    stated = (
        "inferred" if fact.origin is Origin.INFERRED else "stated"
    )  # a stated fact replaces the same one inferred
    return digest("fact", stated, fact.slot or fact.text.casefold(), fact.value.casefold())


def word_overlap(one: str, other: str) -> float:
    """Share of telling words that two statements have in common, 0 to 1."""
    first, second = (
        {word for word in _WORD.findall(text.lower()) if word not in _SMALL} for text in (one, other)
    )
    return len(first & second) / min(len(first), len(second)) if first and second else 0.0
