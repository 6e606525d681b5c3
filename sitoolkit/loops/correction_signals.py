"""Comes in: a session. Goes out: the user turns in which the agent was corrected, each with what fired and where.

Four structural triggers over the last five turns (the seed's, with its faults mended): a negation (1.0), a tool call with other
arguments (0.9), an edit of the agent's answer (0.7) and a rewrite of its code (0.7). A correction says that what the agent did or said
is wrong, forbids it, or puts something else in its place. A user who changes their own mind, answers the agent's question with "no",
or corrects a mistake of their own does not correct the agent: in customer service, a changed order is a new wish unless the user says
that the agent got it wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sitoolkit.loops.negation import SAID_CHARS, WORDS, Before, negation, texts_of
from sitoolkit.loops.overrides import Redone, code_blocks, edited, overridden, rewritten
from sitoolkit.loops.phrases import PhraseTable, load_phrases
from sitoolkit.loops.utterances import is_injected
from sitoolkit.prompt_block import strip_recalled
from sitoolkit.records import CorrectionSignal, Session, Turn, digest

__all__ = ["CONFIDENCE", "WINDOW", "detect_corrections", "signal_id", "turn_id", "without_recalled"]

WINDOW = 5  # [H] turns before the user's that a correction may be about
CONFIDENCE = {"negation": 1.0, "tool_override": 0.9, "edit": 0.7, "rewrite": 0.7}  # [H]
TEXT_CHARS = 4_000  # of the user's text in a signal
_TARGET_CHARS = 300
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


def _before(turns: Sequence[Turn]) -> Before | None:
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
    texts = [turn.text[:SAID_CHARS] for turn in theirs[-8:]]
    written = [value for call in calls[-12:] for value in texts_of(call.args)]
    material = " ".join([*texts, *written, *(call.tool for call in calls)])[: 2 * SAID_CHARS].lower()
    blocks = [block for turn in theirs[-3:] for _, _, block in code_blocks(turn.text)]
    codes = [value for call in calls[-6:] for value in texts_of(call.args) if "\n" in value]
    asked = bool(_ASKS.search(said.rstrip()[-400:])) if not _acted_last(theirs) else False
    acted = bool(theirs[-1].calls) or bool(_ACTED.search(said[-600:]))
    return Before(
        said,
        asked,
        acted,
        frozenset(word.strip(".-/") for word in WORDS.findall(material)),
        calls,
        (*codes, *blocks),
    )


def _acted_last(turns: Sequence[Turn]) -> bool:
    # the last thing the agent did was a call without a word: nothing was asked
    return not turns[-1].text.strip()


def _signals(
    session: Session, turn: Turn, before: Before, tables: Sequence[PhraseTable]
) -> Iterable[CorrectionSignal]:
    text = turn.text
    found = negation(text, before, tables)
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


def _redone(text: str, before: Before) -> tuple[Redone, str] | None:
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
