"""What a successful call looks like as a memory: sessions come in, sealed calls and the precedents they become go out.

Pure functions: no store takes part. Equal contents give equal memories, whichever occurrence is seen first.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import orjson

from sitoolkit.prompt_block import strip_recalled
from sitoolkit.records import Category, Memory, Origin, Session, ToolInvocation, Turn
from sitoolkit.redaction import Redactor, seal
from sitoolkit.settings import Settings
from sitoolkit.stable import bound, drop_blobs, stable_text
from sitoolkit.writes import is_precedent

__all__ = ["event_memory", "event_text", "find_events", "placed", "prepare", "settled"]

PAYLOAD_CHARS = 2_000  # a result in a precedent's payload
_RECALLED = re.compile("recalled-memories", re.IGNORECASE)
_RECALLED_BYTES = re.compile(b"recalled-memories", re.IGNORECASE)


def prepare(
    session: Session, redactor: Redactor | None = None, result_chars: int = 8_000
) -> tuple[Session, Counter[str]]:
    """A session as it may be stored: recalled blocks taken out, secrets redacted, results bounded, ids set."""
    sealed = seal(_without_recalled(session), redactor, result_chars)
    return sealed.session, sealed.redactions


def _without_recalled(session: Session) -> Session:
    if not any(_may_hold(turn.text) or any(map(_call_may_hold, turn.calls)) for turn in session.turns):
        return session
    return session.model_copy(update={"turns": tuple(_clean_turn(turn) for turn in session.turns)})


def _may_hold(text: str) -> bool:
    return len(text) > 40 and _RECALLED.search(text) is not None


def _call_may_hold(call: ToolInvocation) -> bool:
    if call.id:
        return False
    try:  # one C call is cheaper than a walk over the values
        return _RECALLED_BYTES.search(orjson.dumps((call.args, call.result, call.error))) is not None
    except TypeError:
        return True


def _clean_turn(turn: Turn) -> Turn:
    calls = tuple(call if call.id else _clean_call(call) for call in turn.calls)
    return turn.model_copy(update={"text": _strip_value(turn.text), "calls": calls})


def _clean_call(call: ToolInvocation) -> ToolInvocation:
    update = {  # `drop_blobs`, which sealing does anyway, bounds the nesting before it is walked
        "args": _strip_value(drop_blobs(call.args)),
        "result": _strip_value(drop_blobs(call.result)),
        "error": _strip_value(call.error),
    }
    return call.model_copy(update=update)


def _strip_value(value: Any) -> Any:
    if isinstance(value, str):
        return strip_recalled(value) if _may_hold(value) else value
    if isinstance(value, Mapping):
        return {key: _strip_value(item) for key, item in value.items()}
    return [_strip_value(item) for item in value] if isinstance(value, list) else value


def find_events(sessions: Iterable[Session], settings: Settings | None = None) -> list[ToolInvocation]:
    """The calls that become precedents: state-changing and successful, sealed.

    >>> [event.tool for event in find_events(read_sessions("transcripts/"))]
    ['register_service', 'deploy_service']

    Args:
        sessions: as readers give them, or sealed already.
        settings: for the workspace's own lists of write and read tools.
    """
    return [
        call for session in sessions for call in prepare(session)[0].calls if is_precedent(call, settings)
    ]


def event_text(call: ToolInvocation, args_chars: int = 600, result_chars: int = 400) -> str:
    """The fixed shape of a precedent's text: action, arguments, result; one shape keeps embeddings comparable.

    >>> print(event_text(call))
    Action: register_service
    Arguments: {"kind": "redis", "name": "redis_cache"}
    Result: {"status": "ok"}

    Equal contents give equal texts: keys are sorted, and a result loses what changes from run to run.

    Args:
        call: sealed.
        args_chars: cap of the arguments' JSON, in characters; 600 is the seed's.
        result_chars: cap of the result; 400 is the seed's; 0 leaves it out.
    """
    return _text(call, settled(call.result), args_chars, result_chars)


def _text(call: ToolInvocation, result: Any, args_chars: int, result_chars: int) -> str:
    lines = [f"Action: {call.tool}", f"Arguments: {_one_line(call.args, args_chars)}"]
    if result_chars and result not in (None, "", {}, []):
        lines.append(f"Result: {_one_line(result, result_chars)}")
    return "\n".join(lines)


def settled(value: Any) -> Any:
    """A result without times, durations and request ids, so that two runs of one call give the same."""
    if isinstance(value, str):
        return stable_text(value)
    if isinstance(value, Mapping | list):
        return _without_marks(json.loads(stable_text(value)))
    return value


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_marks(item) for key, item in value.items() if item != "<volatile>"}
    return [_without_marks(item) for item in value] if isinstance(value, list) else value


def _one_line(value: Any, chars: int) -> str:
    text = (
        value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    )
    text = " ".join(text[: 4 * chars + 100].split())
    return text if len(text) <= chars else text[: chars - 1] + "…"


def event_memory(
    call: ToolInvocation, settings: Settings, now: datetime, others: Iterable[ToolInvocation] = ()
) -> Memory:
    """The precedent that a call and further calls of the same content become."""
    config = settings.capture
    calls = [call, *others]
    times = [each.started_at or now for each in calls]
    result = settled(call.result)
    return Memory(
        category=Category.OPERATIONAL_EVENT,
        scope=call.scope,
        text=_text(call, result, config.args_chars, config.result_chars),
        payload={
            "tool": call.tool,
            "args": call.args,
            "result": bound(result, PAYLOAD_CHARS),
            "is_error": False,
        },
        tags=(call.tool,),
        origin=Origin.OBSERVED,
        confidence=config.confidence,
        base_weight=config.base_weight,
        content_hash=call.content_hash,
        seen_count=len({each.id for each in calls}),
        first_seen=min(times),
        last_seen=max(times),
        evidence=tuple(sorted({each.id for each in calls})),  # all of them: the store counts by occurrence
        written_by="capture",
    )


def placed(
    session: Session,
    *,
    agent: str | None = None,
    project: str | None = None,
    team: str | None = None,
    org: str | None = None,
) -> Session:
    """The session with an agent, project, team and organisation where its transcript named none.

    >>> placed(session, agent="ops").agent
    'ops'
    """
    wanted = {"agent": agent, "project": project, "team": team, "org": org}
    update = {name: value for name, value in wanted.items() if value and not getattr(session, name)}
    if not update:
        return session
    turns = tuple(
        turn.model_copy(update={"calls": tuple(call.model_copy(update=update) for call in turn.calls)})
        if turn.calls
        else turn
        for turn in session.turns
    )
    return session.model_copy(update={**update, "turns": turns})
