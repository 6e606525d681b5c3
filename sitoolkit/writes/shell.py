"""Does a command or statement change something? Text of a shell command or of SQL comes in, yes or no goes out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from sitoolkit.writes.verbs import PROGRAMS, PROGRAMS_ANY, PROGRAMS_SQL, READ_ONLY, words_of

__all__ = ["shell_writes", "sql_writes"]

_CLOUD_VERBS = words_of("seed") | words_of("write") | {"rm", "mv", "cp", "mb", "rb"}
_WRAPPERS, _CLOUD = words_of("wrappers"), words_of("cloud_programs")
_SQL_WRITE = re.compile(
    r"(insert\s+(or\s+\w+\s+)?into|update\s+[\w.\"`\[\]]+\s+(as\s+\w+\s+)?set|delete\s+from|merge\s+into|replace\s+into|upsert\s+into"
    r"|(create|drop|alter|truncate)\s+(or\s+replace\s+)?(temp(orary)?\s+|unique\s+|external\s+|materialized\s+)*"
    r"(table|view|index|database|schema|function|trigger|role|user|sequence|type|extension)\b|truncate\s+\w|grant\s+\w+|revoke\s+\w+"
    r"|copy\s+\S+\s+from|mutation\b\s*\w*\s*[({])",
    re.IGNORECASE,
)
_SQL_READ = re.compile(
    r"(select\b.+?\bfrom\b|select\s+[\d'*(]|show\s+\w+|describe\s+\w+|explain\s+\w+|pragma\s+\w+|values\s*\()",
    re.IGNORECASE | re.DOTALL,
)
_SQL_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_SQL_TEXT = re.compile(r"'(?:[^']|'')*'")


def sql_writes(text: str) -> bool | None:
    """True or false for SQL (and GraphQL mutations); None where the text is something else."""
    head = _SQL_TEXT.sub("''", _SQL_COMMENT.sub(" ", text[:20_000]))
    verdict: bool | None = None
    for statement in head.split(";"):
        statement = statement.strip()
        if re.match(r"with\b", statement, re.IGNORECASE):
            if re.search(r"\)\s*(insert\s+into|update\s+\S+\s+set|delete\s+from)", statement, re.IGNORECASE):
                return True
            verdict = False if _SQL_READ.search(statement) else verdict
        elif _SQL_WRITE.match(statement):
            return True
        elif _SQL_READ.match(statement):
            verdict = False
    return verdict


_REDIRECT = re.compile(r"(?<![<>=\-&0-9])(?:[12&])?>{1,2}\|?\s*(?![&>(=])(['\"]?)([^\s'\"|;&<>]+)")


def shell_writes(command: str) -> bool:
    """Whether a shell command changes files, processes, packages or something remote.

    >>> shell_writes("cd /srv && git log | tail -3"), shell_writes("git commit -m x")
    (False, True)
    """
    text = re.split(r"<<-?\s*['\"]?\w+", command[:20_000], maxsplit=1)[0]
    bare = re.sub(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"", "''", text)
    for found in _REDIRECT.finditer(bare):
        if not found.group(2).startswith("/dev/"):
            return True
    return any(_segment_writes(part) for part in _segments(text))


def _segments(text: str) -> Iterable[list[str]]:
    for line in text.splitlines():
        try:
            lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&()")
            lexer.whitespace_split = True
            lexer.commenters = "#"
            tokens = list(lexer)
        except ValueError:  # an open quote: words are good enough
            tokens = line.split()
        part: list[str] = []
        for token in tokens:
            if token and set(token) <= set(";|&()"):
                yield part
                part = []
            else:
                part.append(token)
        yield part


def _segment_writes(words: list[str]) -> bool:
    while words and (
        words[0].rsplit("/", 1)[-1] in _WRAPPERS or re.match(r"^\w+=|^-|^\d+[smh]?$|^\{$", words[0])
    ):
        words = words[1:]
    if not words:
        return False
    program, rest = words[0].rsplit("/", 1)[-1], words[1:]
    if program in ("bash", "sh", "zsh") and "-c" in rest[:-1]:
        return shell_writes(rest[rest.index("-c") + 1])
    if program in ("sed", "perl"):
        return any(re.match(r"-[a-zA-Z]*i", word) for word in rest)
    if program == "find":
        return "-delete" in rest or any(
            rest[at] == "-exec" and _segment_writes(rest[at + 1 :]) for at in range(len(rest))
        )
    if program in ("curl", "http", "https", "httpie", "xh"):
        flags = " ".join(rest)
        return bool(
            re.search(
                r"(?<!\S)(-X\s*|--request[ =])?(POST|PUT|PATCH|DELETE)(?!\S)|(?<!\S)(-d|--data\S*|-F|--form|-T|--upload-file|--json)(?!\S)",
                flags,
            )
        )
    if program == "make":
        return any(word in ("install", "deploy", "clean", "release", "publish", "uninstall") for word in rest)
    if program == "tar":
        return bool(rest) and bool(re.match(r"-?[a-zA-Z]*[xcru]", rest[0]))
    if program in _CLOUD:
        return any(word.split("-")[0] in _CLOUD_VERBS for word in rest[:4])
    if program in PROGRAMS_ANY:
        return True
    if program in PROGRAMS_SQL:
        return any(sql_writes(word) for word in rest)
    if program not in PROGRAMS:
        return False
    verbs = PROGRAMS[program]
    plain = [word for word in rest if not word.startswith("-")]
    if program == "git" and rest[:1] == ["-C"]:
        plain = plain[1:]
    at = next((place for place, word in enumerate(plain[:3]) if word in verbs), None)
    if at is None or "--dry-run" in rest:
        return False
    if program == "git" and at > 0:
        return False
    following = rest[rest.index(plain[at]) + 1 :]
    return (following[0] if following else "") not in READ_ONLY.get(plain[at], ())
