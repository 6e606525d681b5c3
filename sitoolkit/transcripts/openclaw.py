"""OpenClaw and pi sessions: in comes a session JSONL of the pi coding agent or of OpenClaw, out goes one session.

Where defined: earendil-works/pi (before: badlogic/pi-mono), `packages/coding-agent/docs/session-format.md`; OpenClaw
writes the same. Versions seen: 1 (linear, no ids), 3 (a tree by `id` and `parentId`). Where the tree forks, the branch
of the last entry is the one that counts; turns off it are marked as abandoned. A message with `stopReason` error or
aborted did not run its calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import text_of, usage_of
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile

__all__ = ["NAME", "read", "sniff"]

NAME = "openclaw"
_BOOKKEEPING = (
    "thinking_level_change", "compaction", "branch_summary", "label", "custom", "session_info", "model_change", "leaf",
)  # fmt: skip


def sniff(head: Head) -> Match | None:
    """Told by a `session` header before `message` lines whose roles are user, assistant and toolResult."""
    records = head.dicts
    header = next((r for r in records if r.get("type") == "session" and "id" in r), None)
    messages = [
        r["message"] for r in records if r.get("type") == "message" and isinstance(r.get("message"), Mapping)
    ]
    spoken = [m for m in messages if "role" in m]
    if header is not None and (spoken or "cwd" in header) and not any("sessionId" in r for r in records):
        return Match(0.95, "a pi/OpenClaw session header (type session, id, cwd) before message lines")
    if any(m.get("role") == "toolResult" or "stopReason" in m for m in spoken):
        return Match(0.9, "message lines with role toolResult or stopReason, as pi and OpenClaw write them")
    return None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """One session a file."""
    build = SessionBuilder(source.file, source.stem, format=NAME, agent="pi")
    parents: dict[str, str | None] = {}
    turn_of: dict[int, str] = {}
    last: str | None = None
    known = False
    for line, record in source.records(report):
        if not isinstance(record, Mapping):
            report.put_aside(source.file, line, f"a record that is {type(record).__name__}, not an object")
            continue
        kind = record.get("type")
        entry_id = record.get("id")
        before = build.turns_seen
        if kind == "session":
            known = True
            _header(build, record, line)
            continue
        if kind in ("message", "custom_message"):
            known = True
            _message(build, record, line, report)
        elif kind in _BOOKKEEPING:
            if kind == "model_change" and isinstance(record.get("modelId"), str):
                build.fields["model"] = record["modelId"]
            elif kind == "compaction":
                build.note("the context was compacted")
        else:
            report.unknown(kind if kind is not None else "record without type")
        if isinstance(entry_id, str):
            parent = record.get("parentId")
            parents[entry_id] = parent if isinstance(parent, str) else None
            last = entry_id
            for index in range(before, build.turns_seen):
                turn_of[index] = entry_id
    _mark_branches(build, parents, turn_of, last)
    if known:
        yield build.build()


def _header(build: SessionBuilder, record: Mapping[str, Any], line: int) -> None:
    build.time(record.get("timestamp"))
    if isinstance(record.get("id"), str) and record["id"]:
        build.session_id = record["id"]
    build.line = line
    if isinstance(record.get("modelId"), str):
        build.fields["model"] = record["modelId"]
    cwd = record.get("cwd")
    if isinstance(cwd, str) and cwd.strip("/\\"):
        build.fields["project"] = cwd.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    parent = record.get("parentSession", record.get("branchedFrom"))
    if isinstance(parent, str):
        build.fields["parent_id"] = parent.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".jsonl")


def _message(build: SessionBuilder, record: Mapping[str, Any], line: int, report: ReadReport) -> None:
    message = record.get("message") if record.get("type") == "message" else record
    at = record.get("timestamp")
    if not isinstance(message, Mapping):
        report.put_aside(build.file, line, "a message line without a message")
        return
    if at is None:
        at = message.get("timestamp")
    role = message.get("role")
    if record.get("type") == "custom_message":
        build.turn("other", text_of(message.get("content")), at=at, line=line)
    elif role == "user":
        build.turn("user", text_of(message.get("content")), at=at, line=line)
    elif role == "assistant":
        _assistant(build, message, at, line, report)
    elif role in ("toolResult", "tool"):
        _result(build, message, at, line)
    elif (
        role == "bashExecution"
    ):  # the user ran it in pi's own shell: words of the user, not a call of the agent
        output = text_of(message.get("output"))
        build.turn("user", f"!{text_of(message.get('command'))}\n{output}".rstrip(), at=at, line=line)
    elif role in ("system", "custom", "branchSummary", "compactionSummary", "hookMessage"):
        build.turn("other", text_of(message.get("content", message.get("summary"))), at=at, line=line)
    else:
        report.unknown(f"message/{role}")


def _assistant(
    build: SessionBuilder, message: Mapping[str, Any], at: Any, line: int, report: ReadReport
) -> None:
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    words: list[str] = []
    calls: list[Mapping[str, Any]] = []
    for part in parts:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if isinstance(part, str) or kind == "text":
            words.append(text_of(part))
        elif kind == "toolCall" and isinstance(part, Mapping):
            calls.append(part)
        elif kind not in ("thinking", "image") and part is not None:
            report.unknown(f"part:{kind}")
    turn = build.turn("assistant", "\n".join(filter(None, words)), at=at, line=line)
    for part in calls:
        build.call(
            str(part.get("name") or ""),
            part.get("arguments"),
            call_id=part.get("id"),
            at=at,
            line=line,
            turn=turn,
        )
    model = message.get("model")
    if isinstance(model, str) and model != "delivery-mirror":
        build.fields["model"] = model
    build.usage(None, **usage_of(message.get("usage")))
    reason = message.get("stopReason")
    if reason in ("error", "aborted"):
        build.never_ran(turn)
        problem = text_of(message.get("errorMessage"))[:200]
        build.note(f"an assistant message ended in {reason}{': ' + problem if problem else ''}")


def _result(build: SessionBuilder, message: Mapping[str, Any], at: Any, line: int) -> None:
    details = message.get("details")
    told: dict[str, Any] = {}
    if isinstance(details, Mapping):
        code = details.get("exitCode")
        told["exit_code"] = code if isinstance(code, int) and not isinstance(code, bool) else None
        told["status"] = details["status"] if isinstance(details.get("status"), str) else None
        told["error"] = details["error"] if isinstance(details.get("error"), str) else None
        duration = details.get("durationMs")
        told["duration_ms"] = float(duration) if isinstance(duration, int | float) else None
    flag = message.get("isError")
    content = message.get("content")
    build.result(
        text_of(content) if isinstance(content, list) else content,
        call_id=message.get("toolCallId"), tool=message.get("toolName"), at=at, line=line,
        is_error=flag if isinstance(flag, bool) else None, **told,
    )  # fmt: skip


def _mark_branches(
    build: SessionBuilder, parents: Mapping[str, str | None], turn_of: Mapping[int, str], last: str | None
) -> None:
    """Mark turns that do not lie between the root and the last entry."""
    children = [parent for parent in parents.values() if parent is not None]
    if last is None or len(children) == len(set(children)):
        return
    path: set[str] = set()
    at: str | None = last
    while at is not None and at not in path:
        path.add(at)
        at = parents.get(at)
    for index, entry in turn_of.items():
        if entry not in path:
            build.abandon(index)
