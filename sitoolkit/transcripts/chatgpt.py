"""ChatGPT exports: in comes `conversations.json`, or one conversation, out goes a session for each.

Where defined: nowhere; the shape is that of the account's data export and of the web client's conversation object
(`mapping` of nodes with parent and children, `current_node`). Seen: exports of 2023 to 2025. The branch that ends in
`current_node` is the conversation; messages off it are marked as abandoned. A message to a recipient other than `all`
is a call of that tool, and the tool's message answers it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import as_json, text_of
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile

__all__ = ["NAME", "read", "sniff"]

NAME = "chatgpt"


def sniff(head: Head) -> Match | None:
    """Told by a `mapping` of nodes with parent and message."""
    for value in head.dicts[:4]:
        mapping = value.get("mapping")
        if isinstance(mapping, Mapping) and any(
            isinstance(node, Mapping) and "parent" in node and "message" in node
            for node in list(mapping.values())[:4]
        ):
            return Match(0.97, "a mapping of nodes with parent, children and message, as ChatGPT exports it")
    return None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """A session for each conversation."""
    for number, (line, record) in enumerate(source.items(report)):
        if isinstance(record, Mapping) and isinstance(record.get("mapping"), Mapping):
            yield _conversation(source, report, record, line, number)
        else:
            report.put_aside(source.file, line, "a record without a mapping of messages")


def _conversation(
    source: TranscriptFile, report: ReadReport, record: Mapping[str, Any], line: int, number: int
) -> Session:
    nodes = {key: node for key, node in record["mapping"].items() if isinstance(node, Mapping)}
    told = record.get("conversation_id", record.get("id"))
    build = SessionBuilder(
        source.file, told if isinstance(told, str) and told else source.session_id(number if number else ""),
        format=NAME, line=line, agent="chatgpt",
    )  # fmt: skip
    path = _path(nodes, record.get("current_node"))
    on_path = set(path)
    aside = [key for key in nodes if key not in on_path] if path else []
    order = path or list(nodes)
    if not path:
        build.note("the tree of messages is broken: they were read in the order of the file")
    for key in order:
        _message(build, report, nodes[key].get("message"), line)
    for key in aside:
        before = build.turns_seen
        _message(build, report, nodes[key].get("message"), line)
        for index in range(before, build.turns_seen):
            build.abandon(index)
    build.time(record.get("create_time"))
    title = record.get("title")
    return build.build(task=title if isinstance(title, str) else None)


def _path(nodes: Mapping[str, Mapping[str, Any]], leaf: Any) -> list[str]:
    """Node ids from the root to the current node; empty where the chain is broken."""
    if not isinstance(leaf, str) or leaf not in nodes:
        leaves = [key for key, node in nodes.items() if not node.get("children")]
        leaf = leaves[-1] if leaves else None
    path: list[str] = []
    seen: set[str] = set()
    while isinstance(leaf, str) and leaf in nodes:
        if leaf in seen:
            return []
        seen.add(leaf)
        path.append(leaf)
        leaf = nodes[leaf].get("parent")
    if isinstance(leaf, str):  # a parent that is not there
        return []
    return path[::-1]


def _message(build: SessionBuilder, report: ReadReport, message: Any, line: int) -> None:
    if not isinstance(message, Mapping):
        return
    author = message["author"] if isinstance(message.get("author"), Mapping) else {}
    content = message["content"] if isinstance(message.get("content"), Mapping) else {}
    metadata = message["metadata"] if isinstance(message.get("metadata"), Mapping) else {}
    role, at, kind = author.get("role"), message.get("create_time"), content.get("content_type")
    name = author["name"] if isinstance(author.get("name"), str) else None
    text = _text(content)
    recipient = message.get("recipient")
    if role == "assistant":
        model = metadata.get("resolved_model_slug") or metadata.get("model_slug")
        if isinstance(model, str):
            build.fields["model"] = model
        if isinstance(recipient, str) and recipient not in ("all", "assistant", ""):
            turn = build.turn("assistant", "", at=at, line=line)
            args = as_json(text)
            key = "code" if kind == "code" and not isinstance(args, Mapping) else "input"
            build.call(
                recipient, args if isinstance(args, Mapping) else {key: text}, at=at, line=line, turn=turn
            )
            if message.get("status") == "in_progress":
                build.never_ran(turn)
        elif kind not in ("thoughts", "reasoning_recap"):
            build.turn("assistant", text, at=at, line=line)
    elif role == "tool":
        status = message.get("status")
        aggregate = metadata.get("aggregate_result")
        told: dict[str, Any] = {}
        if isinstance(aggregate, Mapping) and isinstance(aggregate.get("status"), str):
            told["status"] = aggregate["status"]
            error = aggregate.get("in_kernel_exception")
            if isinstance(error, Mapping):
                told["typed_error"] = str(error.get("name") or "exception")
        elif isinstance(status, str) and status not in ("finished_successfully", "in_progress"):
            told["status"] = (
                status  # "finished_successfully" says that the message is complete, not that the code ran
            )
        if kind == "system_error":
            told.update(is_error=True, typed_error=str(content.get("name") or "") or None, error=text)
        build.result(text, tool=name, at=at, line=line, **told)
    elif role in ("user", "system"):
        if role == "system" and not text:
            return
        hidden = metadata.get("is_visually_hidden_from_conversation") is True and role == "user"
        build.turn("other" if hidden else role, text, at=at, line=line)
    else:
        report.unknown(f"author/{role}")


def _text(content: Mapping[str, Any]) -> str:
    parts = content.get("parts")
    if isinstance(parts, list):
        words = []
        for part in parts:
            if isinstance(part, Mapping):
                kind = part.get("content_type")
                words.append(part["text"] if isinstance(part.get("text"), str) else f"[{kind or 'part'}]")
            elif isinstance(part, str):
                words.append(part)
        return "\n".join(words)
    for key in ("text", "result", "content"):
        if isinstance(content.get(key), str):
            return str(content[key])
    return text_of(content.get("text")) if content.get("text") is not None else ""
