"""Comes in: a user's message. Goes out: what the user said in own words, at the same positions, and the clauses of it.

Code, quotes, pasted logs and what a harness put into the message are blanked out: they are not the user speaking.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Clause", "clauses", "is_injected", "own_words"]

HEAD_CHARS = 6_000  # own words of a long message stand at its beginning or at its end
TAIL_CHARS = 3_000
_INJECTED = re.compile(
    r"\s*(?:<(?:command-|local-command|system|bash-std|task-notification|user_instructions|environment_context|turn_aborted|permissions|"
    r"recalled|INSTRUCTIONS)|\[Request interrupted|This session is being continued from a previous|Caveat: The messages below|# AGENTS\.md|"
    r"Your task is to create a detailed summary|###STOP###|\[Image:|A new session was started via|/[a-z][\w-]*(?:\s|$))",
)
_FENCE = re.compile(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL)
_BLOCK = re.compile(r"<([a-zA-Z][\w-]{1,40})(?:\s[^<>]{0,200})?>.*?(?:</\1>|\Z)", re.DOTALL)
_QUOTED = re.compile(
    r"[\"“„«]([^\"”“»\n]{1,400})[\"”“»]|(?<!\w)'([^'\n]{1,200})'(?!\w)|(?<!\w)‘([^’\n]{1,200})’(?!\w)|`([^`\n]{1,400})`"
)
_LOG_LINE = re.compile(
    r"[ \t]*(?:>|\||\$ |>>> |[+-]{3} |@@ |[+-](?=[^\s\w])|\d{4}-\d\d-\d\d|\[?\d\d:\d\d:\d\d|Traceback|File \"|at [\w.$<>/]+[(:]|(?:\w+\.)*\w*(?:Error|Exception|Warning|Failure)\b[:(]|"
    r"npm (?:ERR|WARN)|(?:error|warning|fatal|note|info|debug)(?:\[\w+\])?: |FAILED |PASSED |E {2,}|(?:INFO|DEBUG|WARN|WARNING|ERROR|FATAL|TRACE)\b|[\w./-]+:\d+(?::\d+)?:|"
    r"(?:def|class|import|from \S+ import|return|const|let|var|function|public|private|if \(|for \(|while \(|#include|package|SELECT|INSERT|UPDATE)\b.*[;:{(),]\s*$|"
    r".*[;{}]\s*$|[\w.]+\(.*\)\s*$|[\w.\[\]\"']+ = .+$|\{.*\}\s*$)"
)
# What stands behind the colon of such an order is its material.
_MATERIAL = re.compile(
    r"\s*(?:please |can you |could you |bitte )?(?:translate|proofread|summari[sz]e|rewrite|rephrase|paraphrase|explain|correct|analy[sz]e|classify|review|übersetze?|erkläre?|"
    r"fasse|korrigiere?|what (?:does|do|is)|how (?:do|would) you say|was (?:heißt|bedeutet))\b[^:\n]{0,80}:\s",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?;\n]+(?:\.(?=[\w/])[^.!?;\n]*)*[.!?;]*")
_PART = re.compile(
    r"[,:—–]\s+|\s-\s|,(?=\w)|\b(?:but|and then|so|because|since|aber|und|weil|denn)\s+(?=you\b|i\b|that\b|this\b|it\b|don'?t\b|stop\b|please\b|not\b|du\b|ich\b|das\b)",
    re.I,
)

_BARE_NO = re.compile(r"(?:no+|nope|nein|nee|nö|wrong|falsch)\s*[.!,;]*(?:\s*(?:no+|nein)\s*[.!,;]*)*", re.IGNORECASE)


class Clause(NamedTuple):
    """A stretch of a message's own words in which a phrase may begin."""

    start: int  # in the message
    sentence_start: int
    sentence_end: int
    first: bool  # nothing but openers stands before it
    opening: bool  # it stands in the first sentence
    question: bool


def is_injected(text: str) -> bool:
    """Whether a message comes from the harness (a command, a reminder, a summary) rather than from a person."""
    return bool(_INJECTED.match(text))


def own_words(text: str) -> str:
    """The message with all that is not the user speaking replaced by blanks; positions stay.

    >>> own_words('No, use tabs. The log said "do not use tabs, ever".')
    'No, use tabs. The log said                           .'

    Args:
        text: a user's message; of a long one only the beginning and the end are read.
    """
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        middle = len(text) - HEAD_CHARS - TAIL_CHARS
        return _own(text[:HEAD_CHARS]) + " " * middle + _own(text[-TAIL_CHARS:])
    return _own(text)


def _own(text: str) -> str:
    text = text.replace("’", "'").replace("´", "'").replace("###STOP###", " " * 10)
    if "```" in text or "~~~" in text:
        text = _FENCE.sub(_blank, text)
    material = _MATERIAL.match(text)
    if material:
        text = text[: material.end()] + re.sub(r"[^\n]", " ", text[material.end() :])
    if "<" in text:
        text = _BLOCK.sub(_blank, text)
    text = "".join(_blank_line(line) for line in text.splitlines(keepends=True))
    return _QUOTED.sub(_unquoted, text)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group())


def _blank_line(line: str) -> str:
    if _LOG_LINE.match(line) or (line.startswith(("    ", "\t")) and line.strip()):
        return " " * (len(line) - 1) + line[-1] if line.endswith("\n") else " " * len(line)
    return line


def _unquoted(match: re.Match[str]) -> str:
    inner = next(group for group in match.groups() if group is not None)
    if len(inner.split()) > 2:
        return " " * len(match.group())
    return f" {inner} "  # a name in quotes is the user's own word


def clauses(words: str) -> Iterator[Clause]:
    """Where a phrase may begin: at each sentence, and behind each comma, colon, dash and conjunction in it."""
    said = False
    held: int | None = None  # a sentence that is a bare "no" belongs to what follows it
    for sentence in _SENTENCE.finditer(words):
        body = sentence.group()
        if not body.strip():
            continue
        lead = len(body) - len(body.lstrip())
        begin = sentence.start() + lead if held is None else held
        if held is None and _BARE_NO.fullmatch(body.strip()) and words[sentence.end() :].strip():
            held = begin
            continue
        held = None
        question = body.rstrip().endswith("?")
        starts = [sentence.start() + part.end() for part in _PART.finditer(body, lead + 1)]
        if begin != sentence.start() + lead:
            starts.insert(0, sentence.start() + lead)
        for number, start in enumerate([begin, *starts]):
            yield Clause(start, begin, sentence.end(), not said and number == 0, not said, question)
        said = True
