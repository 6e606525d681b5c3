"""Does a call change state? Comes in a tool call, goes out yes or no with the reason.

What is known beats what is guessed: the workspace's own lists, then the tool's annotation, then what the arguments say (a
shell command, an SQL statement, an HTTP method, an `action`), then the verb at the head of the tool's name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from sitoolkit.records import Outcome, ToolInvocation
from sitoolkit.settings import Settings
from sitoolkit.writes.shell import shell_writes, sql_writes
from sitoolkit.writes.verbs import words_of

__all__ = [
    "SEED_VERBS",
    "WRITE_VERBS",
    "is_precedent",
    "is_write_call",
    "name_words",
    "succeeded",
    "why_write",
]

# The fifteen of seed document 000: the floor.
SEED_VERBS = words_of("seed")
WRITE_VERBS = SEED_VERBS | words_of("write")
_READ_VERBS, _NOUNS_TOO, _STATE_NOUNS = words_of("read"), words_of("nouns_too"), words_of("state_nouns")
_LOOKED_UP, _LEADING, _ADJECTIVES = words_of("looked_up"), words_of("leading"), words_of("adjectives")
_HANDOFF = re.compile(r"^(transfer|hand_?off|delegate|escalate)_?to_")

_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


@lru_cache(maxsize=8192)
def name_words(tool: str) -> tuple[str, ...]:
    """A tool's name in lower-case words, split on `_ - . / :` and camelCase; of an MCP name the part after the server.

    >>> name_words("mcp__dns__updateRecord")
    ('update', 'record')
    """
    own = tool.rsplit("__", 1)[-1] or tool  # server__tool, with or without mcp__ before it
    return tuple(word.lower() for word in _CAMEL.findall(own))


def is_write_call(call: ToolInvocation, settings: Settings | None = None) -> bool:
    """Whether the call changes state, as far as its name, arguments and annotation tell.

    >>> is_write_call(ToolInvocation(session_id="s", seq=0, tool="get_update_status", source=Source(file="f")))
    False

    Args:
        call: the call; its outcome does not matter here.
        settings: the workspace's; `capture.write_tools` and `capture.read_tools` (names or globs) win over everything.
    """
    return why_write(call, settings)[0]


def why_write(call: ToolInvocation, settings: Settings | None = None) -> tuple[bool, str]:
    """The verdict of `is_write_call` with the rule that gave it."""
    if settings is not None:
        if _listed(call.tool, settings.capture.write_tools):
            return True, "listed in capture.write_tools"
        if _listed(call.tool, settings.capture.read_tools):
            return False, "listed in capture.read_tools"
    if call.is_write is not None:
        return call.is_write, "the tool's own annotation"
    by_name, word = _by_name(call.tool)
    if by_name and word in SEED_VERBS:
        told = _by_action(call.args) if len(name_words(call.tool)) > 1 and word not in ("exec",) else None
        return (
            (told, "its action argument")
            if told is False and _several_actions(call.tool)
            else (True, f"verb {word!r}")
        )
    told, why = _by_args(call.tool, call.args)
    if told is not None:
        return told, why
    return (by_name, f"verb {word!r}" if word else "no verb known")


def is_precedent(call: ToolInvocation, settings: Settings | None = None) -> bool:
    """A call that changed state and is known to have succeeded, on a branch that was not given up: one to learn from."""
    return succeeded(call) and is_write_call(call, settings)


def succeeded(call: ToolInvocation) -> bool:
    """The call ran, came back well, and its branch was not given up."""
    return call.outcome is Outcome.SUCCESS and call.ran and not call.abandoned


def _listed(tool: str, names: tuple[str, ...]) -> bool:
    return bool(names) and any(tool == name or fnmatchcase(tool, name) for name in names)


def _several_actions(tool: str) -> bool:
    return name_words(tool)[-1] in ("tool", "editor", "manager", "client")


@lru_cache(maxsize=8192)
def _by_name(tool: str) -> tuple[bool, str]:
    words = name_words(tool)
    if _HANDOFF.match("_".join(words)):
        return False, "transfer"
    at = 0
    while at < len(words) - 1 and words[at] in _LEADING:
        at += 1
    words = words[at:]
    for place, word in enumerate(words):
        if word in _READ_VERBS:
            joined = [
                other
                for joint, other in zip(words[place:], words[place + 1 :], strict=False)
                if joint in ("and", "or")
            ]
            both = next((other for other in joined if other in WRITE_VERBS), None)
            return (True, both) if both else (False, word)
        if word in _ADJECTIVES:
            break
        if word in WRITE_VERBS:
            rest = words[place + 1 :]
            if word == "resolve" and rest and rest[-1] in _LOOKED_UP:
                return False, word
            noun = word in _NOUNS_TOO and bool(rest) and (rest[-1] in _READ_VERBS or rest[-1] in _STATE_NOUNS)
            trailing = word in _NOUNS_TOO and place > 0 and not rest and word not in SEED_VERBS
            if noun or trailing:
                return False, rest[-1] if rest else word
            return True, word
    return False, ""


# ---------------------------------------------------------------- arguments

_SHELL_TOOLS, _HTTP_TOOLS = words_of("shell_tools"), words_of("http_tools")
_PROGRAM_WORDS = words_of("program_words")
_SHELL_KEYS = ("command", "cmd", "script", "bash", "keystrokes", "code")
_SQL_KEYS = ("sql", "query", "statement", "command", "q")
_METHOD_KEYS = ("method", "http_method", "httpMethod", "verb", "request_method")
_ACTION_KEYS = ("action", "operation", "op", "command", "mode")
_TELLING = frozenset((*_SHELL_KEYS, *_SQL_KEYS, *_METHOD_KEYS, *_ACTION_KEYS))


def _by_args(tool: str, args: Any) -> tuple[bool | None, str]:
    words = set(name_words(tool))
    if isinstance(args, str):
        args = {"command": args}
    if not isinstance(args, Mapping) or _TELLING.isdisjoint(args):
        return None, ""
    for key in _SQL_KEYS:
        value = args.get(key)
        if isinstance(value, str):
            verdict = sql_writes(value)
            if verdict is not None:
                return verdict, "SQL statement"
    method = next((args[key] for key in _METHOD_KEYS if isinstance(args.get(key), str)), None)
    if method and (words & _HTTP_TOOLS or any(key in args for key in ("url", "uri", "path", "endpoint"))):
        if method.upper() in ("POST", "PUT", "PATCH", "DELETE"):
            return True, f"HTTP method {method.upper()}"
        if method.upper() in ("GET", "HEAD", "OPTIONS"):
            return False, f"HTTP method {method.upper()}"
    action = _by_action(args)
    if action is not None:
        return action, "its action argument"
    if words & _SHELL_TOOLS or "cmd" in args or words & {"exec", "execute"}:
        for key in _SHELL_KEYS:
            value = args.get(key)
            if isinstance(value, list) and all(isinstance(part, str) for part in value):
                value = value[-1] if len(value) == 3 and value[1] in ("-c", "-lc") else shlex.join(value)
            if isinstance(value, str):
                writes = shell_writes(value)
                return writes, "shell command"
    return None, ""


def _by_action(args: Any) -> bool | None:
    if not isinstance(args, Mapping):
        return None
    for key in _ACTION_KEYS:
        value = args.get(key)
        if isinstance(value, str) and 0 < len(value) <= 40 and re.fullmatch(r"[A-Za-z][A-Za-z_.-]*", value):
            writes, word = _by_name(value)
            if word and value.lower() not in _PROGRAM_WORDS:
                return writes
    return None
