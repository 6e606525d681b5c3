"""Who&When failure logs: in comes one annotated group chat, out goes one failed session.

Where defined: ag2ai/Agents_Failure_Attribution (algorithm-generated and hand-crafted logs). Experts write code blocks;
`Computer_terminal` runs them and answers `exitcode: N (…)`: the block before it is the call, of the agent that wrote it.
In hand-crafted logs (Magentic-One) the role names the agent. Who was at fault and when is kept as a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import text_of
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile

__all__ = ["NAME", "read", "sniff"]

NAME = "who-and-when"
_CODE = re.compile(r"```(\w+)?[ \t]*\n(.*?)```", re.DOTALL)
_EXIT = re.compile(r"\A\s*exitcode: (-?\d+) \((?:.*?)\)\s*\n?(?:Code output:[ \t]?)?", re.DOTALL)
_SCRIPT = re.compile(r"\A\s*The script ran[^\n]*?exit code(?: was)?: (-?\d+)[^\n]*\n?(?:Its output was:\n)?")
_TERMINALS = ("computer_terminal", "computerterminal", "executor")


def sniff(head: Head) -> Match | None:
    """Told by `history` beside `mistake_agent` and `mistake_step`."""
    for value in head.dicts[:3]:
        if isinstance(value.get("history"), list) and any(
            key in value for key in ("mistake_agent", "mistake_step")
        ):
            return Match(0.97, "history beside mistake_agent and mistake_step")
        if isinstance(value.get("history"), list) and "question_ID" in value:
            return Match(0.9, "history beside question_ID")
    return None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """One session a record."""
    for number, (line, record) in enumerate(source.items(report)):
        if isinstance(record, Mapping) and isinstance(record.get("history"), list):
            yield _chat(source, report, record, line, number)
        else:
            report.put_aside(source.file, line, "a record without a history")


def _chat(
    source: TranscriptFile, report: ReadReport, record: Mapping[str, Any], line: int, number: int
) -> Session:
    told = record.get("question_ID", record.get("question_id"))
    build = SessionBuilder(
        source.file, told if isinstance(told, str) and told else source.session_id(number if number else ""),
        format=NAME, line=line,
    )  # fmt: skip
    question = record.get("question")
    if isinstance(question, str):
        build.turn("user", question, line=line)
    block: tuple[int, str, str, str] | None = None  # turn, language, code, author
    for item in record["history"]:
        if not isinstance(item, Mapping):
            report.put_aside(source.file, line, "a message that is no object")
            continue
        text, role = text_of(item.get("content")), text_of(item.get("role"))
        name = item["name"] if isinstance(item.get("name"), str) else role
        if name.lower().startswith(_TERMINALS):
            block = _terminal(build, text, block, name, line)
            continue
        turn = build.turn(
            "user" if name in ("human", "user", "Human") else "assistant", text, author=name, line=line
        )
        found = _CODE.findall(text)
        block = (turn, found[-1][0], "\n\n".join(code for _lang, code in found), name) if found else block
    answer = record.get("is_correct", record.get("is_corrected"))
    if record.get("mistake_agent") is not None:
        build.note(f"at fault: {record.get('mistake_agent')}, step {record.get('mistake_step')}")
    if record.get("mistake_reason"):
        build.note(f"reason: {text_of(record.get('mistake_reason'))[:300]}")
    return build.build(
        task=question if isinstance(question, str) else None,
        outcome="success" if answer is True else "failure",
        reward=1.0 if answer is True else 0.0,
    )


def _terminal(
    build: SessionBuilder, text: str, block: tuple[int, str, str, str] | None, name: str, line: int
) -> tuple[int, str, str, str] | None:
    """What the terminal answered: the result of the last code block, or a remark that there is none."""
    found = _EXIT.match(text) or _SCRIPT.match(text)
    if found is None:
        build.turn("tool", text, author=name, line=line)
        return block
    if block is None:
        call = build.call("execute_code", {}, line=line, args_error="the code is not in the log")
    else:
        turn, language, code, author = block
        args = {"language": language or "python", "code": code}
        call = build.call("execute_code", args, line=line, turn=turn, agent=author)
    build.result(
        text[found.end() :].rstrip("\n"),
        call=call,
        line=line,
        exit_code=int(found.group(1)),
        guessed=block is None,
    )
    return None
