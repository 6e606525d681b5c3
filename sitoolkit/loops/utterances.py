"""Comes in: a user's message. Goes out: what the user said in own words, at the same positions, and the clauses of it.

Code, quotes, pasted logs and what a harness put into the message are blanked out: they are not the user speaking.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Clause", "clauses", "is_injected", "own_words"]

HEAD_CHARS = 1_500  # own words of a long message stand at its beginning or at its end
TAIL_CHARS = 700
_INJECTED = re.compile(
    r"\s*(?:<(?:command-|local-command|system|bash-std|task-notification|user_instructions|environment_context|turn_aborted|permissions|"
    r"recalled|INSTRUCTIONS)|\[Request interrupted|This session is being continued from a previous|Caveat: The messages below|# AGENTS\.md|"
    r"Your task is to create a detailed summary|###STOP###|\[Image:|A new session was started via|/[a-z][\w-]*(?:\s|$))",
)
_FENCE = re.compile(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL)
_TAG = re.compile(r"<([a-zA-Z][\w-]{1,40})(?:\s[^<>]{0,200})?>")
_MOST_TAGS = 20
_SENTENCE_CHARS = 500  # a longer run without a stop is no sentence; what follows in it is not looked at
_QUOTED = re.compile(
    r"[\"“„«]([^\"”“»\n]{1,400})[\"”“»]|(?<!\w)'([^'\n]{1,200})'(?!\w)|(?<!\w)‘([^’\n]{1,200})’(?!\w)|`([^`\n]{1,400})`"
)
_LOG_LINE = re.compile(
    r"(?:>|\||\$ |>>> |[+-]{3} |@@ |[+-](?=[^\s\w])|\d{4}-\d\d-\d\d|\[?\d\d:\d\d:\d\d|Traceback|File \"|at [\w.$<>/]{1,200}[(:]|(?:\w{1,60}\.){0,8}\w{0,60}(?:Error|Exception|Warning|Failure)\b[:(]|"
    r"npm (?:ERR|WARN)|(?:error|warning|fatal|note|info|debug)(?:\[\w{1,20}\])?: |FAILED |PASSED |E {2,}|(?:INFO|DEBUG|WARN|WARNING|ERROR|FATAL|TRACE)\b|[\w./-]{1,200}:\d+(?::\d+)?:|"
    r"(?:def|class|import|from \S{1,100} import|return|const|let|var|function|public|private|if \(|for \(|while \(|#include|package|SELECT|INSERT|UPDATE)\b.{0,400}[;:{(),]$|"
    r"[\w.\[\]\"']{1,100} = .)"
)
_CODE_CALL = re.compile(r"[\w.]{1,100}\(.{0,1000}\)$")
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

_BARE_NO = re.compile(
    r"(?:no+|nope|nein|nee|nö|wrong|falsch)\s*[.!,;]*(?:\s*(?:no+|nein)\s*[.!,;]*)*", re.IGNORECASE
)


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
    if len(text) <= HEAD_CHARS + TAIL_CHARS:
        return _own(text)
    material = _MATERIAL.match(text)
    if material:
        return _own(text[: material.end()]) + "\n" * (len(text) - material.end())
    end = len(text) - TAIL_CHARS
    tail = text[end:]
    if text.count("```", 0, end) % 2:  # the end begins within code
        closing = tail.find("```")
        code = len(tail) if closing < 0 else closing + 3
        tail = " " * code + tail[code:]
    return _own(text[:HEAD_CHARS]) + "\n" * (end - HEAD_CHARS) + _own(tail)


def _own(text: str) -> str:
    text = text.replace("’", "'").replace("´", "'").replace("###STOP###", " " * 10)
    if "```" in text or "~~~" in text:
        text = _FENCE.sub(_blank, text)
    material = _MATERIAL.match(text)
    if material:
        text = text[: material.end()] + re.sub(r"[^\n]", " ", text[material.end() :])
    if "<" in text:
        text = _without_blocks(text)
    text = "".join(_blank_line(line) for line in text.splitlines(keepends=True))
    return _QUOTED.sub(_unquoted, text)


def _without_blocks(text: str) -> str:
    """Blank out what stands in tags, with the tags: what a harness or an editor put into the message."""
    position = 0
    for _ in range(_MOST_TAGS):
        tag = _TAG.search(text, position)
        if tag is None:
            break
        closing = text.find(f"</{tag[1]}>", tag.end())
        position = tag.end()
        if closing >= 0:
            position = closing + len(tag[1]) + 3
            blank = re.sub(r"[^\n]", " ", text[tag.start() : position])
            text = text[: tag.start()] + blank + text[position:]
    return text


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group())


def _blank_line(line: str) -> str:
    body = line.strip()
    if not body:
        return line
    pasted = (
        line.startswith(("    ", "\t"))
        or body[-1] in ";{}"
        or _LOG_LINE.match(body)
        or (body[-1] == ")" and _CODE_CALL.match(body))
    )
    if not pasted:
        return line
    return " " * (len(line) - 1) + "\n" if line.endswith("\n") else " " * len(line)


def _unquoted(match: re.Match[str]) -> str:
    inner = next(group for group in match.groups() if group is not None)
    if len(inner.split()) > 2:
        return " " * len(match.group())
    return f" {inner} "  # a name in quotes is the user's own word


def _sentences(words: str) -> Iterator[re.Match[str]]:
    if len(words) <= HEAD_CHARS + TAIL_CHARS:
        yield from _SENTENCE.finditer(words)
    else:  # the middle is blank
        yield from _SENTENCE.finditer(words, 0, HEAD_CHARS)
        yield from _SENTENCE.finditer(words, len(words) - TAIL_CHARS)


def clauses(words: str) -> Iterator[Clause]:
    """Where a phrase may begin: at each sentence, and behind each comma, colon, dash and conjunction in it."""
    said = False
    held: int | None = None  # a sentence that is a bare "no" belongs to what follows it
    for sentence in _sentences(words):
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
        finish = min(sentence.end(), begin + _SENTENCE_CHARS)
        starts = [sentence.start() + part.end() for part in _PART.finditer(body, lead + 1)]
        if begin != sentence.start() + lead:
            starts.insert(0, sentence.start() + lead)
        for number, start in enumerate([begin, *starts]):
            if start < finish:
                yield Clause(start, begin, finish, not said and number == 0, not said, question)
        said = True
