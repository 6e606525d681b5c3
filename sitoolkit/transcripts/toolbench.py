"""ToolBench answers: in comes a tree of tries, a converted answer or a training row, out goes a session for each query.

Where defined: OpenBMB/ToolBench, `toolbench/inference` (`Tree/Tree.py`, `Algorithms`) and its data. Seen: answer files of
the DFS and the chain method (`tree`, `answer_generation`), converted answers (`answer.answer_details`), and training rows
(`conversations` with Thought, Action, Action Input). Of a tree the branch that ended in the answer counts, else the last
one tried; all others are marked as abandoned. Observation codes are those of `rapidapi_multithread.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import as_json, text_of
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.react import parse_step
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile

__all__ = ["NAME", "read", "sniff"]

NAME = "toolbench"
_CODES = {
    1: "ToolNotFound", 2: "InvalidInput", 5: "Timeout", 6: "NotFound", 7: "Permission", 8: "Unauthorized",
    9: "TooManyRequests", 10: "RateLimit", 11: "RuntimeError", 12: "ConnectionError",
}  # fmt: skip
_DEPTH = 400  # of a tree


def sniff(head: Head) -> Match | None:
    """Told by `answer_generation` beside `tree`, by `answer_details`, or by conversations that begin as AutoGPT."""
    for value in head.dicts[:4]:
        if "answer_generation" in value and ("tree" in value or "forward_args" in value or "trys" in value):
            return Match(0.97, "a ToolBench answer: tree and answer_generation")
        if _details(value) is not None or any(
            _details(inner) is not None for inner in list(value.values())[:3]
        ):
            return Match(0.93, "converted ToolBench answers: answer_details")
        talk = value.get("conversations")
        if isinstance(talk, list) and any(
            isinstance(m, Mapping) and m.get("from") in ("function", "system") and "value" in m for m in talk[:6]
        ) and any(isinstance(m, Mapping) and "Action:" in str(m.get("value")) for m in talk[:8]):  # fmt: skip
            return Match(0.85, "training rows with Thought, Action and Action Input")
    return None


def _details(value: Any) -> list[Any] | None:
    answer = value.get("answer") if isinstance(value, Mapping) else None
    details = answer.get("answer_details") if isinstance(answer, Mapping) else None
    return details if isinstance(details, list) else None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """A session for each query."""
    for number, (line, record) in enumerate(source.items(report)):
        if not isinstance(record, Mapping):
            report.put_aside(source.file, line, f"a record that is {type(record).__name__}, not an answer")
        elif "answer_generation" in record:
            yield _answer(source, report, record, line, number)
        elif _details(record) is not None:
            yield _converted(source, report, "" if number == 0 else str(number), record, line)
        elif isinstance(record.get("conversations"), list):
            yield _row(source, report, record, line, number)
        else:
            found = False
            for key, inner in record.items():
                if _details(inner) is not None:
                    found = True
                    yield _converted(source, report, str(key), inner, line)
            if not found:
                report.put_aside(source.file, line, "a record without an answer")


# ---------------------------------------------------------------- a tree of tries


def _answer(
    source: TranscriptFile, report: ReadReport, record: Mapping[str, Any], line: int, number: int
) -> Session:
    build = SessionBuilder(
        source.file, source.session_id(number if number else ""), format=NAME, line=line, agent="toolbench"
    )
    told = record["answer_generation"] if isinstance(record.get("answer_generation"), Mapping) else {}
    for message in _prompts(told):
        role: Any = "system" if message.get("role") == "system" else "user"
        build.turn(role, text_of(message.get("content")), line=line)
    if isinstance(told.get("query"), str) and build.empty:
        build.turn("user", told["query"], line=line)
    tree = record["tree"] if isinstance(record.get("tree"), Mapping) else {}
    root = tree.get("tree", tree)
    walk = _Walk(build, report, line)
    if isinstance(root, Mapping):
        walk.down(root, (), None, 0)
    else:  # the chain method keeps `trys`
        for chain in record["trys"] if isinstance(record.get("trys"), list) else ():
            for node in chain if isinstance(chain, list) else (chain,):
                if isinstance(node, Mapping):
                    walk.down(node, (), None, 0)
    walk.mark()
    tokens = told.get("total_tokens")
    if isinstance(tokens, int):
        build.note(f"{tokens} tokens in all")
    win = record.get("win")
    outcome = "unknown" if not isinstance(win, bool) else "success" if win else "failure"
    return build.build(outcome=outcome, reward=float(win) if isinstance(win, bool) else None)


def _prompts(told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    chains = told.get("train_messages")
    first = chains[0] if isinstance(chains, list) and chains and isinstance(chains[0], list) else []
    return [m for m in first if isinstance(m, Mapping) and m.get("role") in ("system", "user")][:2]


class _Walk:
    """A walk through the tree, in the order in which nodes were tried."""

    def __init__(self, build: SessionBuilder, report: ReadReport, line: int) -> None:
        self.build, self.report, self.line = build, report, line
        self.leaves: list[tuple[bool, tuple[int, ...]]] = []  # (ended in the answer, turns of its path)

    def down(self, node: Mapping[str, Any], path: tuple[int, ...], action: str | None, depth: int) -> None:
        if depth > _DEPTH:
            self.report.put_aside(self.build.file, self.line, "a tree deeper than 400 nodes")
            return
        build, kind, text = self.build, node.get("node_type"), text_of(node.get("description"))
        code = node.get("observation_code")
        if kind == "Thought":
            path = (*path, build.turn("assistant", text, line=self.line))
        elif kind == "Action":
            action = text
        elif kind == "Action Input" and (action or text or node.get("observation") is not None):
            turn = build.turn("assistant", "", line=self.line)
            path = (*path, turn)
            call = build.call(action or "unknown", text, line=self.line, turn=turn)
            self._observation(call, node.get("observation"), code)
            action = None
        elif kind not in ("Action Input", None):
            self.report.unknown(f"node/{kind}")
        children = [child for child in _list(node.get("children")) if isinstance(child, Mapping)]
        for child in children:
            self.down(child, path, action, depth + 1)
        if not children and path:
            self.leaves.append((code == 3, path))

    def _observation(self, call: Any, observation: Any, code: Any) -> None:
        if observation is None or observation == "":
            return
        value = as_json(observation)
        told: dict[str, Any] = {}
        if isinstance(value, Mapping) and "response" in value:
            error = value.get("error")
            if error:
                told["error"] = text_of(error)
            value = as_json(value["response"])
        if isinstance(code, int) and code in _CODES:
            told.update(typed_error=_CODES[code], is_error=True)
        self.build.result(value, call=call, line=self.line, inline=True, **told)

    def mark(self) -> None:
        """All turns that are not on the path of the answer (else of the last try) were given up."""
        if len(self.leaves) < 2:
            return
        kept = next((path for good, path in reversed(self.leaves) if good), self.leaves[-1][1])
        for _good, path in self.leaves:
            for turn in path:
                if turn not in kept:
                    self.build.abandon(turn)


# ---------------------------------------------------------------- other shapes


def _converted(source: TranscriptFile, report: ReadReport, key: str, record: Any, line: int) -> Session:
    build = SessionBuilder(source.file, source.session_id(key), format=NAME, line=line, agent="toolbench")
    if isinstance(record.get("query"), str):
        build.turn("user", record["query"], line=line)
    pile = list(reversed(_details(record) or []))
    while pile:
        node = pile.pop()
        if not isinstance(node, Mapping):
            continue
        role, message = node.get("role"), node.get("message")
        if role in ("system", "user"):
            if text_of(message) and not (
                role == "user" and not build.empty and text_of(message) == record.get("query")
            ):
                build.turn(role, text_of(message), line=line)
        elif role == "tool":
            told = as_json(_python(message))
            if isinstance(told, Mapping) and "name" in told:
                call = build.call(str(told["name"]), told.get("arguments"), line=line)
                value = as_json(told.get("response"))
                error = value.get("error") if isinstance(value, Mapping) else None
                inner = (
                    as_json(value["response"])
                    if isinstance(value, Mapping) and "response" in value
                    else value
                )
                build.result(
                    inner, call=call, line=line, inline=True, error=text_of(error) if error else None
                )
            else:
                build.turn("tool", text_of(message), line=line)
        else:
            build.turn("assistant", text_of(message), line=line)
        pile.extend(reversed(_list(node.get("next"))))
    return build.build()


def _python(message: Any) -> Any:
    if isinstance(message, str) and message[:1] == "{" and "'" in message:
        import ast

        try:
            return ast.literal_eval(message)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return message
    return message


def _row(
    source: TranscriptFile, report: ReadReport, record: Mapping[str, Any], line: int, number: int
) -> Session:
    build = SessionBuilder(
        source.file, source.session_id(number if number else ""), format=NAME, line=line, agent="toolbench"
    )
    for item in record["conversations"]:
        if not isinstance(item, Mapping):
            report.put_aside(source.file, line, "a message that is no object")
            continue
        speaker, text = item.get("from"), text_of(item.get("value"))
        if speaker == "assistant":
            step = parse_step(text)
            turn = build.turn("assistant", step.thought, line=line)
            if step.tool:
                build.call(step.tool, step.args, line=line, turn=turn)
        elif speaker == "function":
            value = as_json(text)
            error = value.get("error") if isinstance(value, Mapping) else None
            inner = (
                as_json(value["response"]) if isinstance(value, Mapping) and "response" in value else value
            )
            build.result(inner, line=line, error=text_of(error) if error else None)
        else:
            build.turn("system" if speaker == "system" else "user", text, line=line)
    return build.build()


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
