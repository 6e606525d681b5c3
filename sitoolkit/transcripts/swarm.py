"""Swarm task logs: in comes a list of messages with task ids, out goes a session for each task.

Where defined: OpenAI's first Swarm example, as Arize's openinference repository records it (`session_*.json`, 2024-04).
A message may hold a call (`tool: {tool, args}`); results are not recorded, so calls stay without an outcome, save where
the log says that the user skipped one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Outcome, Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import text_of
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile

__all__ = ["NAME", "read", "sniff"]

NAME = "swarm"
_SKIPPED = re.compile(r"\ATool (\S+) execution skipped by user")


def sniff(head: Head) -> Match | None:
    """Told by messages with a task id, some of which hold a tool."""
    items = _messages(head.items)
    if items and all("task_id" in item and "role" in item for item in items):
        return Match(0.93, "messages with task_id and role, as Swarm's example logs them")
    return None


def _messages(items: list[Any]) -> list[Mapping[str, Any]]:
    flat = items[0] if len(items) == 1 and isinstance(items[0], list) else items
    return [item for item in flat[:16] if isinstance(item, Mapping)]


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """A session for each task id."""
    builds: dict[str, SessionBuilder] = {}
    open_calls: dict[str, list[Any]] = {}
    for line, record in source.items(report):
        for item in record if isinstance(record, list) else [record]:
            if not isinstance(item, Mapping):
                report.put_aside(source.file, line, f"a message that is {type(item).__name__}, not an object")
                continue
            key = str(item.get("task_id") or "")
            build = builds.setdefault(
                key, SessionBuilder(source.file, key or source.session_id(), format=NAME, agent="swarm")
            )
            _message(build, open_calls.setdefault(key, []), item, line)
    for build in builds.values():
        yield build.build(outcome="unknown")


def _message(build: SessionBuilder, calls: list[Any], item: Mapping[str, Any], line: int) -> None:
    tool, text = item.get("tool"), text_of(item.get("content"))
    if isinstance(tool, Mapping):
        turn = build.turn("assistant", "", line=line)
        calls.append(
            build.call(
                str(tool.get("tool") or tool.get("name") or ""), tool.get("args"), line=line, turn=turn
            )
        )
        return
    skipped = _SKIPPED.match(text)
    if skipped:
        for call in reversed(calls):
            if call.values["tool"] == skipped.group(1) and not call.answered:
                build.result(text, call=call, line=line, outcome=Outcome.CANCELLED, inline=True)
                break
        return
    role: Any = item.get("role")
    build.turn(role if role in ("user", "assistant", "system", "tool") else "other", text, line=line)
