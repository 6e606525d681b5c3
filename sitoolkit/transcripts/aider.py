"""Aider chat histories: in comes `.aider.chat.history.md`, out goes a session for each start of aider.

Where defined: Aider-AI/aider, `aider/io.py` (`append_chat_history`). Versions seen: 0.30 to 0.86. `# aider chat started
at …` begins a session, lines after `#### ` are the user's, lines after `> ` are the program's, the rest is the model's.
Aider has no tool calls: an applied or failed edit and a command that the user let it run are read as calls of `edit` and
`run`, since they are what it did to the world. Commands of the user (`/add`, `/run`) are the user's words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile

__all__ = ["NAME", "read", "sniff"]

NAME = "aider"
_START = re.compile(r"^# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*$")
_APPLIED = re.compile(r"^Applied edit to (.+)$")
_REFUSED = re.compile(
    r"^(?:The LLM did not conform to the edit format|(?:\d+ )?SEARCH/REPLACE blocks? failed to match)"
)
_RUNNING = re.compile(r"^Running (?!the )(.+)$")
_MODEL = re.compile(r"^(?:Main model|Model): (\S+)")
_TOKENS = re.compile(
    r"^Tokens: ([\d.,]+k?) sent, (?:[^,]*cache[^,]*, )*([\d.,]+k?) received\.(?:.*?\$([\d.]+) message)?"
)
_STOPPED = re.compile(r"\^C(?: KeyboardInterrupt| again to exit)")


def sniff(head: Head) -> Match | None:
    """Told by the line `# aider chat started at …`."""
    if head.layout == "text" and re.search(_START.pattern, head.text, re.MULTILINE):
        return Match(0.98, "a heading `# aider chat started at …`")
    return None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """A session for each start at which something was asked or answered."""
    chat: _Chat | None = None
    starts: dict[str, int] = {}
    before = False
    for line, raw in source.lines(report):
        text = raw.decode("utf-8", "replace").rstrip("\r\n")
        started = _START.match(text)
        if started:
            if chat is not None:
                yield from _kept(chat, report)
            key = started.group(1)
            starts[key] = starts.get(key, 0) + 1
            chat = _Chat(source, key, line, starts[key])
        elif chat is not None:
            chat.take(line, text)
        elif text.strip() and not before:
            before = True
            report.put_aside(source.file, line, "text before the first start of aider")
    if chat is not None:
        yield from _kept(chat, report)


def _kept(chat: _Chat, report: ReadReport) -> Iterator[Session]:
    if chat.worth_keeping:
        yield chat.finish()
    else:
        report.unknown("a start in which nothing was asked")


class _Chat:
    """One start of aider while its lines are read: blocks of one speaker are gathered and then told."""

    def __init__(self, source: TranscriptFile, started: str, line: int, number: int) -> None:
        self.build = SessionBuilder(
            source.file,
            f"{source.stem.lstrip('.')}#{started.replace(' ', 'T')}",
            format=NAME,
            line=line,
            agent="aider",
        )
        try:
            at = datetime.strptime(started, "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007 - aider writes local time without a zone
            self.build.time(at.isoformat())
        except ValueError:
            self.build.note(f"a time could not be read: {started}")
        self.speaker = ""
        self.words: list[str] = []
        self.line = line
        self.asked = False
        self.running: Any = None

    @property
    def worth_keeping(self) -> bool:
        self._tell()
        return self.asked or self.build.calls_seen > 0

    def take(self, line: int, text: str) -> None:
        if text.startswith("#### ") or text == "####":
            speaker, words = "user", text[5:]
        elif text.startswith("> ") or text == ">":
            speaker, words = "program", text[2:]
        elif not text.strip():
            if self.words and self.speaker == "assistant":
                self.words.append("")
            return
        else:
            speaker, words = "assistant", text
        if speaker != self.speaker:
            self._tell()
            self.speaker, self.line = speaker, line
        if speaker == "program":
            self._program(words.rstrip(), line)
        self.words.append(words.rstrip() if speaker != "assistant" else words)

    def _tell(self) -> None:
        text = "\n".join(self.words).strip()
        self.words = []
        if self.speaker == "program":
            if self.running is not None:
                self.build.result(text.partition("\n")[2], call=self.running, line=self.line)
                self.running = None
            elif text:
                self.build.turn("other", text, line=self.line)
        elif text and self.speaker in ("user", "assistant"):
            self.asked = True
            self.build.turn("user" if self.speaker == "user" else "assistant", text, line=self.line)
        self.speaker = ""

    def _program(self, words: str, line: int) -> None:
        """What the program says about edits, commands, models and tokens."""
        build = self.build
        applied, running, model, tokens = (
            pattern.match(words) for pattern in (_APPLIED, _RUNNING, _MODEL, _TOKENS)
        )
        if model:
            build.fields["model"] = model.group(1)
        elif applied:
            call = build.call("edit", {"path": applied.group(1).strip()}, line=line)
            build.result(words, call=call, status="success", line=line, inline=True)
        elif _REFUSED.match(words):
            call = build.call("edit", {}, line=line)
            build.result(words, call=call, is_error=True, error=words, line=line, inline=True)
        elif running and self.asked:
            self._tell()
            self.speaker, self.line = "program", line
            self.running = build.call("run", {"command": running.group(1).strip()}, line=line)
        elif tokens:
            build.usage(
                None, input_tokens=_count(tokens.group(1)), output_tokens=_count(tokens.group(2)),
                cost_usd=float(tokens.group(3)) if tokens.group(3) else None,
            )  # fmt: skip
        elif _STOPPED.match(words):
            build.note("the user stopped aider with ^C")

    def finish(self) -> Session:
        return self.build.build()


def _count(text: str) -> int | None:
    """1.2k, 1,234 or 567 tokens."""
    number = text.replace(",", "")
    try:
        return int(float(number[:-1]) * 1000) if number.endswith("k") else int(float(number))
    except ValueError:
        return None
