"""Claude Code's session files: a record a line, linked by `parentUuid`, one line for each content block of a message.

No public schema; seen: versions 1.0 to 2.1 (`~/.claude/projects/*/*.jsonl`, `agent-*.jsonl` of sub-agents) and the web
export `{"loglines": […]}`. A message's lines share `message.id`; its usage is a running value, right at its largest.
Sidechains are sessions of their own with a parent. A branch that a later prompt replaced is marked as abandoned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import (
    Head,
    Match,
    ReadReport,
    SessionBuilder,
    TranscriptFile,
    content_text,
    record_type,
)
from sitoolkit.transcripts.chat import add_message, usage_of

__all__ = ["NAME", "Conversation", "read", "sniff"]

NAME = "claude-code"
ALIASES = ("claude", "claude-code-jsonl")
_SILENT = frozenset({
    "file-history-snapshot", "progress", "queue-operation", "attachment", "last-prompt", "permission-mode", "ai-title", "agent-name",
    "mode", "custom-title", "agent-color", "pr-link", "tag", "saved_hook_context", "started", "bridge-session", "worktree-state",
    "content-replacement", "relocated", "agent-setting", "file-history-delta", "attribution-snapshot",
})  # fmt: skip
_NOT_SPOKEN = (
    "<command-name>", "<command-message>", "<local-command-stdout>", "<local-command-stderr>", "<local-command-caveat>", "<bash-input>",
    "<bash-stdout>", "<system-reminder>", "<task-notification>", "<user-memory-input>", "[Request interrupted by user",
    "Caveat: The messages below were generated", "This session is being continued from a previous conversation",
)  # fmt: skip


def sniff(head: Head) -> Match | None:
    first = head.first
    if isinstance(first, dict) and isinstance(first.get("loglines"), list):
        return Match(1.0, "an export with loglines")
    score = 0.0
    reason = ""
    for value in head.dicts:
        message = value.get("message")
        typed = value.get("type") in ("user", "assistant", "system", "summary")
        if typed and "sessionId" in value and ("uuid" in value or "parentUuid" in value):
            return Match(1.0, "records with type, sessionId and uuid")
        if value.get("type") == "file-history-snapshot" and "snapshot" in value:
            score, reason = max(score, 0.9), "a file-history-snapshot record"
        if (
            value.get("type") in ("user", "assistant")
            and isinstance(message, dict)
            and "session_id" not in value
        ):
            score, reason = max(score, 0.6), reason or "records of type user or assistant that hold a message"
        if value.get("type") == "summary" and "leafUuid" in value:
            score, reason = max(score, 0.9), "a summary with leafUuid"
        if typed and isinstance(message, dict) and "sessionId" in value:
            score, reason = max(score, 0.9), "records with type, sessionId and message"
    return Match(score, reason) if score else None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    conversation = Conversation(source, report, NAME)
    for line, record in _records(source, report):
        conversation.add(line, record)
    yield from conversation.sessions()


def _records(source: TranscriptFile, report: ReadReport) -> Iterator[tuple[int, Any]]:
    for line, record in source.items(report):
        if isinstance(record, dict) and isinstance(record.get("loglines"), list):
            for inner in record["loglines"]:
                yield line, inner
        else:
            yield line, record


class _Node:
    """One record in the tree of a session."""

    __slots__ = ("message", "parent", "prompt", "turn")

    def __init__(self, parent: str | None, message: str | None, turn: int | None, prompt: bool) -> None:
        self.parent, self.message, self.turn, self.prompt = parent, message, turn, prompt


class Conversation:
    """Records of one file, shared by the session files and by stream-json, which differ in names only."""

    def __init__(self, source: TranscriptFile, report: ReadReport, name: str) -> None:
        self.source, self.report, self.name = source, report, name
        self.builds: dict[str, SessionBuilder] = {}
        self.trees: dict[str, dict[str, _Node]] = {}
        self.sides: dict[str, str] = {}  # uuid of a sidechain record -> uuid of its root
        self.titles: list[tuple[str | None, str]] = []  # uuid of the record that a title is about, title
        self.last = ""  # the session of the record before: records without an id belong to it
        self.endings: dict[str, dict[str, Any]] = {}

    def add(self, line: int, record: Any) -> None:
        """Take one record."""
        if not isinstance(record, dict):
            self.report.unknown(record_type(record))
            return
        kind = record.get("type")
        if not isinstance(kind, str):
            self.report.unknown(record_type(record))
        elif kind in ("user", "assistant"):
            message = record.get("message")
            if not isinstance(message, dict):
                self.report.put_aside(
                    self.source.file, line, f"a {kind} record whose message is {record_type(message)}"
                )
            elif "content" not in message:
                self.report.put_aside(self.source.file, line, f"a {kind} message without content")
            else:
                self._message(line, record, kind, message)
        elif kind == "summary":
            self.titles.append((record.get("leafUuid"), str(record.get("summary") or "")))
        elif kind == "system":
            self._system(line, record)
        elif kind in ("ai-title", "custom-title"):
            title = record.get("aiTitle") or record.get("customTitle") or record.get("title")
            self.titles.append((None, str(title or "")))
        elif kind not in _SILENT:
            self.report.unknown(record_type(record))

    def _build(self, record: dict[str, Any], line: int) -> tuple[str, SessionBuilder]:
        """The session that a record belongs to: main, sub-agent or sidechain."""
        session = record.get("sessionId") or record.get("session_id")
        session = (
            session
            if isinstance(session, str) and session
            else (self.last.split("\n")[0] or self.source.session_id())
        )
        inner = ""
        if isinstance(record.get("agentId"), str):
            inner = f"agent-{record['agentId']}"
        elif isinstance(record.get("parent_tool_use_id"), str):
            inner = record["parent_tool_use_id"]
        elif record.get("isSidechain") is True:
            uuid, parent = record.get("uuid"), record.get("parentUuid")
            root = self.sides.get(parent, str(uuid)) if isinstance(parent, str) else uuid
            if isinstance(uuid, str):
                self.sides[uuid] = str(root)
            inner = f"side-{str(root)[:8]}"
        key = f"{session}\n{inner}"
        build = self.builds.get(key)
        if build is None:
            fields: dict[str, Any] = {}
            cwd = record.get("cwd")
            if isinstance(cwd, str) and cwd:
                folder = PureWindowsPath(cwd) if "\\" in cwd else PurePosixPath(cwd)
                fields["project"] = folder.name or None
            if inner:
                fields["parent_id"] = session
            name = f"{session}/{inner}" if inner else session
            build = self.builds[key] = SessionBuilder(
                self.source.file, name, format=self.name, line=line, **fields
            )
            self.trees[key] = {}
        self.last = key
        return key, build

    def _message(self, line: int, record: dict[str, Any], kind: str, message: dict[str, Any]) -> None:
        key, build = self._build(record, line)
        tree = self.trees[key]
        uuid = record.get("uuid") if isinstance(record.get("uuid"), str) else None
        if uuid in tree:
            return  # the same record once more, as resumed sessions copy them
        at = record.get("timestamp") or message.get("timestamp")
        spoken = {**message, "role": kind, "timestamp": at}
        turn: int | None
        prompt = False
        if kind == "assistant":
            message_id = message.get("id") if isinstance(message.get("id"), str) else None
            group = message_id or uuid
            turn = add_message(build, spoken, self.report, line, key=group)
            if message.get("model") not in (None, "<synthetic>") and isinstance(message["model"], str):
                build.fields["model"] = message["model"]
            amounts = usage_of(message.get("usage"))
            if isinstance(record.get("costUSD"), int | float):
                amounts["cost_usd"] = record["costUSD"]
            if amounts:
                build.usage(group or f"line {line}", **amounts)
            if record.get("isApiErrorMessage") is True and turn is not None:
                build.never_ran(turn)
        else:
            group = None
            turn = self._user(build, record, spoken, line)
            prompt = turn is not None and not record.get("isMeta")
        if isinstance(uuid, str):
            parent = record.get("parentUuid") or record.get("logicalParentUuid")
            tree[uuid] = _Node(parent if isinstance(parent, str) else None, group, turn, prompt)

    def _user(
        self, build: SessionBuilder, record: dict[str, Any], message: dict[str, Any], line: int
    ) -> int | None:
        content = message.get("content")
        told = record.get("toolUseResult", record.get("tool_use_result"))
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        results = [block for block in blocks if block.get("type") == "tool_result"]
        first = (
            content
            if isinstance(content, str)
            else next((b.get("text") for b in blocks if b.get("type") == "text"), "")
        )
        hidden = (
            record.get("isMeta") is True
            or record.get("isCompactSummary") is True
            or record.get("isSynthetic") is True
        )
        if not results and (hidden or str(first or "").lstrip().startswith(_NOT_SPOKEN)):
            return build.turn(
                "other", content_text(content), at=message.get("timestamp"), line=line, author="claude-code"
            )
        turn = add_message(build, message, self.report, line)
        if len(results) == 1 and isinstance(results[0].get("tool_use_id"), str) and isinstance(told, dict):
            build.evidence(results[0]["tool_use_id"], **_evidence(told))
        return turn

    def _system(self, line: int, record: dict[str, Any]) -> None:
        subtype = record.get("subtype")
        uuid = record.get("uuid")
        if isinstance(uuid, str) and self.last:
            parent = record.get("parentUuid") or record.get("logicalParentUuid")
            self.trees[self.last].setdefault(
                uuid, _Node(parent if isinstance(parent, str) else None, None, None, False)
            )
        if subtype is None and not isinstance(record.get("content"), str):
            self.report.unknown("system")

    def sessions(self) -> Iterator[Session]:
        """The finished sessions in order of appearance."""
        for key, build in self.builds.items():
            for turn in _abandoned(self.trees[key]):
                build.abandon(turn)
            fields = dict(self.endings.get(key, {}))
            titles = [
                title for leaf, title in self.titles if isinstance(leaf, str) and leaf in self.trees[key]
            ]
            if not titles and "parent_id" not in build.fields and len(self.trees) == 1:
                titles = [title for _leaf, title in self.titles]
            if titles and titles[-1]:
                fields.setdefault("task", titles[-1])
            yield build.build(**fields)


def _evidence(told: dict[str, Any]) -> dict[str, Any]:
    """What `toolUseResult` adds to the text of a result."""
    found: dict[str, Any] = {}
    if told.get("interrupted") is True:
        found["status"] = "interrupted"
    for name in ("totalDurationMs", "durationMs", "duration_ms"):
        if isinstance(told.get(name), int | float) and not isinstance(told[name], bool):
            found["duration_ms"] = told[name]
            break
    code = told.get("code")
    if isinstance(code, int) and code >= 400 and "codeText" in told:
        found["error"] = f"HTTP {code} {told['codeText']}"
    for name in ("exitCode", "exit_code", "returnCode"):
        if isinstance(told.get(name), int) and not isinstance(told[name], bool):
            found["exit_code"] = told[name]
    return found


def _abandoned(tree: dict[str, _Node]) -> Iterable[int]:
    """Turns off the path that leads to the last record, unless they belong to a message or to results on it."""
    linked = sum(node.parent in tree for node in tree.values())
    if linked < len(tree) // 2 or not tree:
        return ()
    order = list(tree)
    place = {uuid: index for index, uuid in enumerate(order)}
    live: set[str] = set()
    at: str | None = order[-1]
    while at is not None and at not in live:
        live.add(at)
        node = tree[at]
        if node.parent in tree:
            at = node.parent
        elif node.parent is not None and place[at] > 0:
            at = order[place[at] - 1]  # the parent is not in the file (cut, compacted): what stands before is
        else:
            at = None
    messages = {tree[uuid].message for uuid in live}
    dead = {
        uuid
        for uuid in tree
        if uuid not in live and not (tree[uuid].message and tree[uuid].message in messages)
    }
    roots = _dead_roots(tree, dead)
    return sorted({node.turn for uuid in dead if (node := tree[uuid]).turn is not None and roots.get(uuid)})


def _dead_roots(tree: dict[str, _Node], dead: set[str]) -> dict[str, bool]:
    """For each record off the path: does its branch begin with a prompt or an answer, not with a late tool result?"""
    verdict: dict[str, bool] = {}
    for uuid in tree:
        if uuid not in dead:
            continue
        node = tree[uuid]
        inherited = verdict.get(node.parent or "", False)
        verdict[uuid] = inherited or node.prompt or node.message is not None
    return verdict
