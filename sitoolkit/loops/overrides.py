"""Comes in: what the agent did and said last, and a user's message. Goes out: whether the message redoes it: a call with other
arguments, an edit of the agent's text, a rewrite of its code.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rapidfuzz.distance import Levenshtein

from sitoolkit.records import ToolInvocation

__all__ = ["EDIT_DISTANCE", "REWRITE_SHARE", "Redone", "code_blocks", "edited", "overridden", "rewritten"]

EDIT_DISTANCE = 0.3  # [H] normalised; below, the message is an edit of the answer
REWRITE_SHARE = 0.5  # [H] share of lines that differ; above, the code was rewritten
_LEAST_CHARS = 24  # shorter answers ("Done.") are near to anything
_MOST_CHARS = 8_000  # above, distance is measured over lines
_MOST_CODES = 8  # blocks of either side that are compared
_LEAST_LINES = 3
_SCANNED = 4_000  # of a message that is searched for calls and commands
_SHARED_NAMES = 0.3  # share of names that two versions of one code have in common at least
_FENCE = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w{2,}")
_DEFINED = re.compile(
    r"\b(?:def|class|function|func|fn|const|let|var|interface|type|struct|CREATE TABLE)\s+([A-Za-z_]\w*)"
)
_CALL = re.compile(r"(?<![\w.])([A-Za-z_][\w.-]{1,80})\(([^()\n]*(?:\([^()\n]*\)[^()\n]*)*)\)")
_COMMAND = re.compile(
    r"(?:^|\n)[ \t]{0,20}(?:!|\$ )[ \t]{0,20}([^\n]{1,2000})|<bash-input>([^<]{1,2000})</bash-input>",
    re.DOTALL,
)
_TARGETS = (
    "path", "file_path", "file", "filename", "notebook_path", "name", "service", "id", "key", "url", "endpoint", "table", "query", "repo", "branch",
    "host", "user_id", "order_id", "reservation_id", "resource", "target",
)  # fmt: skip
_SHELL = ("command", "cmd", "script")


class Redone(NamedTuple):
    """That the message redoes something: of what kind, with what confidence, where in it, and what."""

    start: int
    end: int
    target: str
    call: ToolInvocation | None = None
    wanted: str | None = None
    unwanted: str | None = None


# ---------------------------------------------------------------- a call with other arguments


def overridden(text: str, made: Iterable[ToolInvocation], calls: Sequence[ToolInvocation]) -> Redone | None:
    """Whether the user calls a tool that the agent called last, for the same target with other arguments.

    Args:
        text: the user's message.
        made: calls that the user's own turn made.
        calls: the agent's calls of the last turns, oldest first.
    """
    if not calls:
        return None
    for call in made:
        found = _contradicted(call.tool, call.args, calls)
        if found:
            return Redone(0, len(text), f"{found[0].tool}", found[0], *found[1:])
    for match in _CALL.finditer(text[:_SCANNED]):
        args = _call_args(match[2])
        if args:
            found = _contradicted(match[1], args, calls)
            if found:
                return Redone(match.start(), match.end(), found[0].tool, found[0], *found[1:])
    for match in _COMMAND.finditer(text[:_SCANNED]):
        found = _other_command((match[1] or match[2] or "").strip(), calls)
        if found:
            return Redone(match.start(), match.end(), found[0].tool, found[0], *found[1:])
    return None


def _call_args(text: str) -> dict[str, Any] | None:
    """Arguments of `name(a=1, b="x")` or `name({"a": 1})`; values are read, never run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the compiler, about escapes in the user's text
            tree = ast.parse(f"f({text})", mode="eval").body
        if not isinstance(tree, ast.Call):
            return None
        if len(tree.args) == 1 and not tree.keywords:
            value = ast.literal_eval(tree.args[0])
            return value if isinstance(value, dict) else None
        return {word.arg: ast.literal_eval(word.value) for word in tree.keywords if word.arg} or None
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return _json_args(text)


def _json_args(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _contradicted(
    tool: str, args: Any, calls: Sequence[ToolInvocation]
) -> tuple[ToolInvocation, str | None, str | None] | None:
    name = tool.rpartition("__")[2].rpartition(".")[2].lower()
    for call in reversed(calls):
        if call.tool.rpartition("__")[2].rpartition(".")[2].lower() != name:
            continue
        if not isinstance(args, Mapping) or not isinstance(call.args, Mapping):
            return None
        shared = [key for key in args if key in call.args]
        same = [key for key in shared if _equal(args[key], call.args[key])]
        other = [key for key in shared if not _equal(args[key], call.args[key])]
        if not other or not (same or len(call.args) == 1):
            return None
        targets = [key for key in _TARGETS if key in shared]
        if targets and targets[0] in other and len(call.args) > 1:
            return None  # another target: a further call, not a correction
        return call, f"{other[0]}={args[other[0]]}"[:200], f"{other[0]}={call.args[other[0]]}"[:200]
    return None


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other) or str(one).strip() == str(other).strip()


def _other_command(
    command: str, calls: Sequence[ToolInvocation]
) -> tuple[ToolInvocation, str | None, str | None] | None:
    """The agent's last shell call that ran the same program on the same target with other words."""
    words = command.split()[:60]
    if len(words) < 2:
        return None
    for call in reversed(calls):
        theirs = next(
            (
                call.args[key]
                for key in _SHELL
                if isinstance(call.args, Mapping) and isinstance(call.args.get(key), str)
            ),
            None,
        )
        if theirs is None:
            continue
        old = theirs.split()[:60]
        if len(old) < 2 or old[0] != words[0]:
            continue
        if old == words:
            return None
        named = {word for word in old[1:] if not word.startswith("-")}
        if named & {word for word in words[1:] if not word.startswith("-")}:
            return call, command[:200], theirs[:200]
    return None


# ---------------------------------------------------------------- an edited text, rewritten code


def edited(text: str, answer: str) -> Redone | None:
    """Whether the message is the agent's answer with small changes: normalised Levenshtein distance over zero and under 0.3."""
    message, before = text.strip(), answer.strip()
    if len(before) < _LEAST_CHARS or len(message) < _LEAST_CHARS or message == before:
        return None
    shorter, longer = sorted((len(message), len(before)))
    if shorter < longer * (1 - EDIT_DISTANCE):
        return None
    distance = _distance(message, before)
    return Redone(0, len(text), before[:200]) if 0 < distance < EDIT_DISTANCE else None


def _distance(one: str, other: str) -> float:
    if max(len(one), len(other)) <= _MOST_CHARS:
        return Levenshtein.normalized_distance(one, other, score_cutoff=EDIT_DISTANCE)
    return Levenshtein.normalized_distance(one.splitlines(), other.splitlines(), score_cutoff=EDIT_DISTANCE)


def rewritten(text: str, codes: Sequence[str]) -> tuple[Redone, str] | None:
    """Whether a code block of the message is a new version of code that the agent wrote.

    Args:
        text: the user's message.
        codes: code of the agent, oldest first.

    Returns:
        What was redone and `rewrite` (more than half of the lines differ) or `edit` (small changes); `None` where neither holds.
    """
    blocks = code_blocks(text)
    if not blocks:
        return None
    theirs = [code[:_MOST_CHARS] for code in codes[-_MOST_CODES:]]
    for start, end, block in blocks[:_MOST_CODES]:
        for code in reversed(theirs):
            kind = _version(block[:_MOST_CHARS], code)
            if kind:
                return Redone(start, end, code.strip()[:200]), kind
    return None


def code_blocks(text: str) -> list[tuple[int, int, str]]:
    """Fenced code of a text: start, end and content."""
    if "```" not in text:
        return []
    return [(*match.span(1), match[1]) for match in _FENCE.finditer(text[:20_000]) if match[1].strip()][:20]


def _version(block: str, code: str) -> str | None:
    new = [line.strip() for line in block.splitlines() if line.strip()]
    old = [line.strip() for line in code.splitlines() if line.strip()]
    if not new or not old or new == old or not (len(old) / 12 <= len(new) <= len(old) * 12):
        return None
    if edited(block, code):
        return "edit"
    if min(len(new), len(old)) < _LEAST_LINES:
        return None
    defined = set(_DEFINED.findall(block)) & set(_DEFINED.findall(code))
    names, theirs = set(_NAME.findall(block[:20_000])), set(_NAME.findall(code[:20_000]))
    if not defined and len(names & theirs) < _SHARED_NAMES * min(len(names), len(theirs)):
        return None  # other code, not another version of it
    kept = len(set(new) & set(old))
    differ = 1 - kept / max(len(new), len(old))
    return "rewrite" if differ > REWRITE_SHARE else None
