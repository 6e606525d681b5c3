"""ReAct text: in comes `Thought: … Action: … Action Input: …` as models write it, out go thought and call.

Used by the readers of ToolBench, Reflexion and LangChain-like text logs.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from sitoolkit.transcripts.dialects import as_json

__all__ = ["Step", "bracketed", "parse_step"]

_ACTION = re.compile(r"^[ \t]*Action(?: \d+)?:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_INPUT = re.compile(r"^[ \t]*Action Input(?: \d+)?:[ \t]*", re.MULTILINE)
_THOUGHT = re.compile(r"^[ \t]*Thought(?: \d+)?:[ \t]*", re.MULTILINE)
_BRACKETED = re.compile(r"\A([A-Za-z_][\w .-]{0,60})\[(.*)\]\s*\Z", re.DOTALL)


class Step(NamedTuple):
    """What was thought, which tool was asked for and with what; `tool` is `None` where nothing was asked."""

    thought: str
    tool: str | None
    args: Any


def bracketed(text: str) -> tuple[str, Any] | None:
    """`Search[entity]` as tool and argument.

    >>> bracketed("Search[Jenny Craig]")
    ('Search', {'input': 'Jenny Craig'})
    """
    found = _BRACKETED.match(text.strip())
    return (found.group(1).strip(), {"input": found.group(2)}) if found else None


def parse_step(text: str) -> Step:
    """Take one answer apart; text without an action is all thought."""
    action = _ACTION.search(text)
    if action is None:
        return Step(_THOUGHT.sub("", text).strip(), None, None)
    thought = _THOUGHT.sub("", text[: action.start()]).strip()
    given = _INPUT.search(text, action.end())
    if given is None:
        pair = bracketed(action.group(1))
        return Step(thought, pair[0], pair[1]) if pair else Step(thought, action.group(1) or None, {})
    rest = text[given.end() :].strip()
    cut = re.search(r"\n[ \t]*Observation(?: \d+)?:", rest)
    return Step(thought, action.group(1) or None, as_json(rest[: cut.start()].strip() if cut else rest))
