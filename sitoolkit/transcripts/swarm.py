"""OpenAI Swarm's saved runs: messages with a `task_id`, a tool call as a message's `tool: {tool, args}`.

Defined by openai/swarm's early `runner` (`session_*.json`); seen: April 2024. It saves no results: calls stay unanswered, unless the
user skipped them. Each task is a session.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Head, Match, ReadReport, SessionBuilder, TranscriptFile, record_type
from sitoolkit.transcripts.chat import add_message

NAME = "swarm"
_SKIPPED = re.compile(r"Tool (\S+) execution skipped by user")


def _is_ours(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and "task_id" in value
        and "role" in value
        and ("tool" in value or "content" in value)
    )


def sniff(head: Head) -> Match | None:
    values = head.items[:32]
    if values and all(_is_ours(value) for value in values):
        called = any(isinstance(value.get("tool"), dict) and "tool" in value["tool"] for value in values)
        return Match(
            0.8 if called else 0.55,
            "messages with role and task_id" + (" and tool: {tool, args}" if called else ""),
        )
    return None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    builds: dict[str, SessionBuilder] = {}
    for line, value in source.items(report):
        if not _is_ours(value):
            report.unknown(record_type(value))
            continue
        task = str(value["task_id"])
        if task not in builds:
            builds[task] = SessionBuilder(source.file, task, format=NAME, line=line)
        build = builds[task]
        call = value.get("tool")
        if isinstance(call, dict):
            build.turn("assistant", line=line)
            build.call(str(call.get("tool") or ""), call.get("args"), line=line)
            continue
        skipped = _SKIPPED.match(str(value.get("content") or ""))
        if skipped:
            build.result(value["content"], tool=skipped.group(1), line=line)
        else:
            add_message(build, value, report, line)
    for build in builds.values():
        yield build.build()
