"""Comes in: a session. Goes out: the user turns in which the agent was corrected, each with what fired and where.

Four structural triggers over the last five turns (the seed's, with its faults mended): a negation (1.0), a tool call with other
arguments (0.9), an edit of the agent's answer (0.7) and a rewrite of its code (0.7). A correction says that what the agent did or said
is wrong, forbids it, or puts something else in its place. A user who changes their own mind, answers the agent's question with "no",
or corrects a mistake of their own does not correct the agent: in customer service, a changed order is a new wish unless the user says
that the agent got it wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from sitoolkit.loops.overrides import Redone, code_blocks, edited, overridden, rewritten
from sitoolkit.loops.phrases import PhraseRule, PhraseTable, load_phrases
from sitoolkit.loops.utterances import Clause, clauses, is_injected, own_words
from sitoolkit.prompt_block import strip_recalled
from sitoolkit.records import CorrectionSignal, Session, ToolInvocation, Turn, digest

__all__ = ["CONFIDENCE", "WINDOW", "detect_corrections", "signal_id", "turn_id", "without_recalled"]

WINDOW = 5  # [H] turns before the user's that a correction may be about
CONFIDENCE = {"negation": 1.0, "tool_override": 0.9, "edit": 0.7, "rewrite": 0.7}  # [H]
TEXT_CHARS = 4_000  # of the user's text in a signal
_TARGET_CHARS = 300
_SAID_CHARS = 4_000  # of what the agent said and did, for evidence
_MOST_CLAUSES = 30  # of one message
_LEAD_CHARS = 24  # a phrase that begins later stands within a sentence about something else
_ASKS = re.compile(r"\?[\s\"')*_`]*(?:$|\n)|\?[^?]{0,160}$")
# The agent tells of something that it did or is about to do: "I've added …", "Done.", "… now returns".
_ACTED = re.compile(
    r"\b(?:I|we|ich|wir)(?:'ve|'ll|'m| have| am| will| habe| werde)? (?!(?:see|check(?:ed)?|read|looked|listed|compared|searched|reviewed|analy[sz]ed|understood|need|found|find|can|could|need|understand|know|think|apologi[sz]e|sorry|afraid|would|hope|"
    r"appreciate|do|did|don't|have|sehe|kann|brauche|verstehe|weiß|glaube)\b)\w+|\b(?:done|fixed|updated|added|created|removed|changed|refactored|renamed|implemented|moved|"
    r"deleted|replaced|converted|now|jetzt|erledigt|fertig|here(?:'s| is)|hier ist)\b"
    r"|\b(?:script|function|code|file|class|module|tests?|query|loop|regex|component|endpoint|page|button|chart|table|column|config|job|build|report|summary|text|"
    r"path|service|variable|parser|method|migration|branch|commit|docs|readme|image|container|funktion|datei|skript|tabelle|spalte|liste|werte|bericht|klasse|logs)\b",
    re.IGNORECASE,
)
_PLANNED = re.compile(r"\b(?:I'll|I will|I'm going to|I am going to|ich werde)\b", re.IGNORECASE)
_DONE = re.compile(r"\b(?:I've|I have|I \w+ed|done|ich habe)\b", re.IGNORECASE)
_WORDS = re.compile(r"[\w./-]{2,}")
_COMMON = frozenset(
    [
        "the",
        "and",
        "for",
        "that",
        "this",
        "with",
        "from",
        "into",
        "them",
        "they",
        "you",
        "your",
        "it",
        "its",
        "not",
        "any",
        "all",
        "more",
        "again",
        "when",
        "than",
        "then",
        "just",
        "only",
        "ever",
        "same",
        "such",
        "like",
        "das",
        "die",
        "der",
        "den",
        "dem",
        "ein",
        "eine",
        "und",
        "oder",
        "mit",
        "von",
        "für",
        "nicht",
        "auch",
        "noch",
        "nur",
        "hier",
        "dort",
        "sie",
        "ist",
    ]
)


class _Before(NamedTuple):
    """What the agent said and did in the turns before."""

    said: str  # the last text
    asked: bool
    acted: bool  # it made a call, or tells of something that it did
    words: frozenset[str]  # of all texts and arguments, lower case
    calls: tuple[ToolInvocation, ...]
    codes: tuple[str, ...]


def detect_corrections(
    session: Session, phrases: Sequence[PhraseTable] | None = None
) -> list[CorrectionSignal]:
    """The turns of a session in which the user corrects the agent.

    >>> [(signal.turn, signal.kind, signal.wanted) for signal in detect_corrections(session)]
    [(3, 'negation', 'tabs')]

    Args:
        session: sealed or not; signals quote the user's text as it stands there.
        phrases: tables of phrases; those that ship and those of installed packages by default.

    Returns:
        At most one signal of a kind for each turn, in order. `spans` are character offsets in the turn's text without recalled
        blocks; `evidence` is the turn's id (see `turn_id`) and, for an override, the id of the call.
    """
    tables = load_phrases() if phrases is None else phrases
    session = without_recalled(session)
    signals: list[CorrectionSignal] = []
    turns = [turn for turn in session.turns if not turn.abandoned]
    for position, turn in enumerate(turns):
        if turn.role != "user" or not (turn.text.strip() or turn.calls) or is_injected(turn.text):
            continue
        before = _before(turns[:position])
        if before is None:
            continue  # a first message cannot correct
        signals += _signals(session, turn, before, tables)
    return signals


def turn_id(session: Session, turn: Turn) -> str:
    """Id of a turn, as telemetry keeps it."""
    return digest("turn", session.id, turn.index, turn.text)


def signal_id(signal: CorrectionSignal) -> str:
    """Id of a signal, as telemetry keeps it."""
    return digest("signal", signal.session_id, signal.turn, signal.kind, signal.text)


def without_recalled(session: Session) -> Session:
    """The session without the blocks that recall put into its messages: a fact is never made from recalled text."""
    if not any("recalled-memories" in turn.text.lower() for turn in session.turns):
        return session
    turns = tuple(turn.model_copy(update={"text": strip_recalled(turn.text)}) for turn in session.turns)
    return session.model_copy(update={"turns": turns})


def _before(turns: Sequence[Turn]) -> _Before | None:
    """The agent's side of the last turns; `None` where the agent has not acted within them."""
    recent: list[Turn] = []
    users = 0
    for turn in reversed(turns):
        if turn.role == "user" and not is_injected(turn.text):
            users += 1
        recent.append(turn)
        if users >= WINDOW or len(recent) >= 40 * WINDOW:
            break
    theirs = [
        turn for turn in reversed(recent) if turn.role == "assistant" and (turn.text.strip() or turn.calls)
    ]
    if not theirs:
        return None
    said = next((turn.text for turn in reversed(theirs) if turn.text.strip()), "")
    calls = tuple(call for turn in theirs for call in turn.calls)[-30:]
    texts = [turn.text[:_SAID_CHARS] for turn in theirs[-8:]]
    written = [value for call in calls[-12:] for value in _texts(call.args)]
    material = " ".join([*texts, *written, *(call.tool for call in calls)])[: 2 * _SAID_CHARS].lower()
    blocks = [block for turn in theirs[-3:] for _, _, block in code_blocks(turn.text)]
    codes = [value for call in calls[-6:] for value in _texts(call.args) if "\n" in value]
    asked = bool(_ASKS.search(said.rstrip()[-400:])) if not _acted_last(theirs) else False
    acted = bool(theirs[-1].calls) or bool(_ACTED.search(said[-600:]))
    return _Before(
        said,
        asked,
        acted,
        frozenset(word.strip(".-/") for word in _WORDS.findall(material)),
        calls,
        (*codes, *blocks),
    )


def _acted_last(turns: Sequence[Turn]) -> bool:
    # the last thing the agent did was a call without a word: nothing was asked
    return not turns[-1].text.strip()


def _texts(value: object, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value[:_SAID_CHARS]
    elif depth < 4 and isinstance(value, dict):
        for item in list(value.values())[:30]:
            yield from _texts(item, depth + 1)
    elif depth < 4 and isinstance(value, list | tuple):
        for item in value[:30]:
            yield from _texts(item, depth + 1)


def _signals(
    session: Session, turn: Turn, before: _Before, tables: Sequence[PhraseTable]
) -> Iterable[CorrectionSignal]:
    text = turn.text
    found = _negation(text, before, tables)
    if found:
        rule, spans, wanted, unwanted = found
        yield _signal(session, turn, "negation", spans, rule, before.said[:_TARGET_CHARS], wanted, unwanted)
    other = overridden(text, turn.calls, before.calls)
    if other and other.call:
        call = other.call
        yield _signal(
            session, turn, "tool_override", ((other.start, other.end),), "other-arguments", call.tool, other.wanted, other.unwanted,
            (call.id,) if call.id else (),
        )  # fmt: skip
    redone = _redone(text, before)
    if redone:
        change, kind = redone
        yield _signal(session, turn, kind, ((change.start, change.end),), f"{kind}-distance", change.target)


def _redone(text: str, before: _Before) -> tuple[Redone, str] | None:
    version = rewritten(text, before.codes)
    if version:
        return version
    change = edited(text, before.said)
    return (change, "edit") if change else None


def _signal(
    session: Session,
    turn: Turn,
    kind: str,
    spans: Sequence[tuple[int, int]],
    rule: str,
    target: str,
    wanted: str | None = None,
    unwanted: str | None = None,
    more: tuple[str, ...] = (),
) -> CorrectionSignal:
    return CorrectionSignal.model_validate(
        {
            "session_id": session.id, "turn": turn.index, "kind": kind, "confidence": CONFIDENCE[kind], "text": turn.text[:TEXT_CHARS],
            "target": target or None, "evidence": (turn_id(session, turn), *more), "spans": tuple(spans), "wanted": wanted,
            "unwanted": unwanted, "rule": rule, "agent": session.agent, "project": session.project, "at": turn.at or session.started_at,
            "source": turn.source or session.source,
        }
    )  # fmt: skip


# ---------------------------------------------------------------- negation


def _negation(
    text: str, before: _Before, tables: Sequence[PhraseTable]
) -> tuple[str, tuple[tuple[int, int], ...], str | None, str | None] | None:
    """The first rule that fires, the spans it rests on, and X and Y where the user names them."""
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
    return best[0], spans, best[2], best[3]


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
    rule: PhraseRule, table: PhraseTable, words: str, clause: Clause, match: re.Match[str], before: _Before
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
    rule: PhraseRule, table: PhraseTable, words: str, clause: Clause, match: re.Match[str], before: _Before
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


def _invites(table: PhraseTable, before: _Before) -> bool:
    """Whether the agent's last words offer a choice or ask for something without a question mark."""
    asks = table.guards.get("asks")
    return bool(asks and asks.search(before.said, max(0, len(before.said) - 300)))


def _leading(
    table: PhraseTable,
    words: str,
    clause: Clause,
    match: re.Match[str],
    before: _Before,
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


def _evident(forbidden: str, before: _Before) -> bool:
    """Whether what the user forbids is what the agent did: a file or a name among its arguments, or the same verb and object."""
    words = [word.lower().strip(".-/") for word in _WORDS.findall(forbidden)[:12]]
    if not words:
        return False
    args = {
        word
        for call in before.calls[-8:]
        for text in _texts(call.args)
        for word in _WORDS.findall(text[:4_000].lower())
    }
    objects = [word for word in words[1:] if word not in _COMMON and len(word) > 3]
    if any(
        ("." in word or "/" in word or "_" in word) and any(word in one for one in args) for word in objects
    ):
        return True
    stem = words[0][: max(3, min(5, len(words[0]) - 1))]
    said = set(_WORDS.findall(before.said.lower()[-2_000:])) | args
    did = any(word.startswith(stem) for word in said)
    return did and (not objects or any(any(word[:5] == one[:5] for one in before.words) for word in objects))


def _contrasts(table: PhraseTable, words: str, clause: Clause, unwanted: str, before: _Before) -> bool:
    """Whether what is replaced is what the agent did, and neither part of a next task nor one side of a choice that it offered."""
    on = table.guards.get("next")
    if on and on.match(words, clause.sentence_start, clause.sentence_end):
        return False
    if (before.asked or _invites(table, before)) and _known(
        unwanted, frozenset(_WORDS.findall(before.said[-200:].lower()))
    ):
        return False
    return _known(unwanted, before.words)


def _known(unwanted: str, said: frozenset[str]) -> bool:
    """Whether half of the telling words of what the user does not want occur among words of the agent."""
    words = [word.lower().strip(".-/") for word in _WORDS.findall(unwanted)[:6]]
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
