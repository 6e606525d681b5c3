"""Calls as text: in come BFCL results, AppWorld-like code logs and lists of `name(arg=value)`, out go sessions.

Where defined: ShishirPatil/gorilla, `berkeley-function-call-leaderboard` (result files: `{id, result}` or bare lists, a
line a question); StonyBrookNLP/appworld, `experiments/outputs/…/logs/*.jsonl` (`{content, role}` and environment io
blocks with `apis.app.method(…)`). A call in text is a proposal: BFCL result files hold no outcome, so every outcome is
unknown. Only literals are read as arguments; anything else stays text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import as_json, text_of, usage_of
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile

__all__ = ["NAME", "calls_in", "read", "sniff"]

NAME = "bfcl"
ALIASES = ("call-text", "appworld", "gorilla")
_CHARS = 200_000  # of a text that is taken apart
_CALL_LIST = re.compile(r"\A\s*\[?\s*[A-Za-z_][\w.]*\s*\(.*\)\s*\]?\s*\Z", re.DOTALL)
_APIS = re.compile(r"\bapis\.\w+\.\w+\s*\(")
_BLOCK = re.compile(r"```(?:python)?[ \t]*\n(.*?)```", re.DOTALL)
_FAILED = re.compile(r"\AExecution failed\.|\ATraceback \(most recent call last\)")


def sniff(head: Head) -> Match | None:
    """Told by lines that are lists of call texts, by BFCL ids with a result, or by `apis.app.method(…)` blocks."""
    values = head.values
    records = head.dicts
    if any(
        "result" in r and (("_" in str(r.get("id")) and "latency" in r) or _is_bfcl_id(r.get("id")))
        for r in records
    ):
        return Match(0.93, "BFCL results: an id and a result")
    if (
        head.layout == "lines"
        and values
        and all(_is_line(v) for v in values)
        and any(
            isinstance(v, list) and v and isinstance(v[0], str) and _CALL_LIST.match(v[0]) for v in values
        )
    ):
        return Match(0.8, "lines that are lists of call texts")
    talk = [
        text_of(r.get("content")) for r in records if r.get("role") in ("assistant", "environment", "user")
    ]
    if any(_APIS.search(text) for text in talk) and any(
        "```" in text or _FAILED.match(text) for text in talk
    ):
        return Match(0.9, "messages whose code calls apis.app.method(…), as in AppWorld")
    if any(isinstance(r.get("input"), str) and "output" in r and _APIS.search(r["input"]) for r in records):
        return Match(0.9, "environment io of AppWorld: input code and output")
    return None


def _is_bfcl_id(value: Any) -> bool:
    return isinstance(value, str) and bool(
        re.match(
            r"(?:simple|multiple|parallel|live|multi_turn|irrelevance|java|rest|exec|memory|web_search)\w*_\d",
            value,
        )
    )


def _is_line(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """A session for each question; of AppWorld logs one for the file."""
    records = source.head.dicts
    if any("role" in r for r in records) or any("input" in r and "output" in r for r in records):
        yield from _appworld(source, report)
        return
    for line, record in source.records(report):
        if isinstance(record, Mapping):
            yield _question(source, report, str(record.get("id") or line), record.get("result"), record, line)
        elif _is_line(record):
            yield _question(source, report, str(line), record, {}, line)
        else:
            report.put_aside(source.file, line, f"a record that is {type(record).__name__}, not a result")


def _question(
    source: TranscriptFile, report: ReadReport, key: str, result: Any, record: Mapping[str, Any], line: int
) -> Session:
    build = SessionBuilder(source.file, source.session_id(key), format=NAME, line=line)
    build.note("calls as text: nothing says whether they ran")
    asked = record.get("question", record.get("prompt"))
    for message in asked[0] if isinstance(asked, list) and asked and isinstance(asked[0], list) else ():
        if isinstance(message, Mapping):
            build.turn(
                "user" if message.get("role") == "user" else "system",
                text_of(message.get("content")),
                line=line,
            )
    _told(build, result, line, 0)
    if build.empty:
        build.turn("assistant", "", line=line)
    tokens = {
        "input_tokens": _total(record.get("input_token_count")),
        "output_tokens": _total(record.get("output_token_count")),
    }
    build.usage(None, **usage_of(tokens))
    return build.build(outcome="unknown")


def _total(value: Any, depth: int = 0) -> float | None:
    if isinstance(value, list) and depth < 4:
        return sum(filter(None, (_total(item, depth + 1) for item in value)))
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _told(build: SessionBuilder, result: Any, line: int, depth: int) -> None:
    """A text, a list of turns, a list of steps, or the objects of function calling (`[{name: arguments}]`)."""
    if depth > 6:
        return
    if isinstance(result, str):
        turn = build.turn("assistant", result, line=line)
        for tool, args, problem in calls_in(result):
            build.call(tool, args, line=line, turn=turn, args_error=problem)
    elif isinstance(result, Mapping):
        turn = build.turn("assistant", "", line=line)
        for name, args in result.items():
            build.call(str(name), args, line=line, turn=turn)
    elif isinstance(result, list):
        if result and all(isinstance(item, Mapping) and len(item) == 1 for item in result):
            turn = build.turn("assistant", "", line=line)
            for item in result:
                for name, args in item.items():
                    build.call(str(name), args, line=line, turn=turn)
            return
        for item in result:
            _told(build, item, line, depth + 1)


def calls_in(text: str) -> list[tuple[str, Any, str | None]]:
    """Calls written as Python: tool, arguments by name (by position as `arg1` …), and why they stayed text.

    >>> calls_in("[add(a=1, b=2)]")
    [('add', {'a': 1, 'b': 2}, None)]
    """
    words = text.strip().removeprefix("```python").removeprefix("```").removesuffix("```").strip()
    if len(words) > _CHARS or not _CALL_LIST.match(words):
        return []
    try:
        tree = ast.parse(words if words[:1] == "[" else f"[{words}]", mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return (
            []
            if "(" not in words
            else [(words.lstrip("[ ").partition("(")[0], words, "the call is not readable")]
        )
    if not isinstance(tree.body, ast.List):
        return []
    return [_call(node, words) for node in tree.body.elts if isinstance(node, ast.Call)]


def _call(node: ast.Call, text: str) -> tuple[str, Any, str | None]:
    args: dict[str, Any] = {}
    problem = None
    given = [(f"arg{number}", value) for number, value in enumerate(node.args, 1)]
    for name, value in [*given, *((keyword.arg or "kwargs", keyword.value) for keyword in node.keywords)]:
        try:
            args[name] = _plain(ast.literal_eval(value))
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            args[name] = ast.unparse(value)
            problem = "an argument is an expression, kept as text"
    return ast.unparse(node.func), args, problem


def _plain(value: Any) -> Any:
    """Values that JSON has: tuples and sets become lists, bytes and complex numbers text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


# ---------------------------------------------------------------- AppWorld


def _appworld(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """Code blocks are run by the environment, whose answer is the next message; each block is one call."""
    build = SessionBuilder(source.file, source.session_id(), format=NAME, agent="appworld")
    waiting: Any = None
    for line, record in source.items(report):
        if not isinstance(record, Mapping):
            report.put_aside(source.file, line, f"a record that is {type(record).__name__}, not a message")
            continue
        if "input" in record and "output" in record:
            call = _block(build, text_of(record["input"]), line)
            _outcome(build, call, text_of(record["output"]), line)
            continue
        text, role = text_of(record.get("content")), record.get("role")
        if role == "assistant":
            turn = build.turn("assistant", text, line=line)
            blocks = _BLOCK.findall(text)
            code = blocks[-1] if blocks else text if _APIS.search(text) else ""
            waiting = _block(build, code, line, turn) if code else None
        elif waiting is not None and role in ("user", "environment", "tool"):
            output = text.removeprefix("Output:").strip()
            fenced = _BLOCK.match(output)
            _outcome(build, waiting, fenced.group(1) if fenced else output, line)
            waiting = None
        else:
            where: Any = role if role in ("user", "system") else "other"
            build.turn(where, text, line=line)
    if not build.empty:
        yield build.build()


def _block(build: SessionBuilder, code: str, line: int, turn: int | None = None) -> Any:
    names = [name.rstrip("( ") for name in _APIS.findall(code)]
    tool = names[0].removeprefix("apis.") if len(set(names)) == 1 else "execute_code"
    args: dict[str, Any] = {"code": code.strip("\n")}
    if len(set(names)) > 1:
        args["apis"] = [name.removeprefix("apis.") for name in names]
    return build.call(tool, args, line=line, turn=turn)


def _outcome(build: SessionBuilder, call: Any, output: str, line: int) -> None:
    failed = bool(_FAILED.match(output.strip()))
    build.result(
        as_json(output),
        call=call,
        line=line,
        is_error=True if failed else None,
        error=output if failed else None,
    )
