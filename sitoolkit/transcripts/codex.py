"""Codex rollouts: in comes a JSONL file of the Codex CLI, out goes one session.

Where defined: openai/codex, `codex-rs/protocol` (`RolloutItem`, `ResponseItem`, `EventMsg`). Versions seen: bare items
under a header without type (2025-07 to 2025-09, `instructions` as text, `record_type: state` between them), the
envelope `{timestamp, type, payload}` (0.39 and later), its header with `base_instructions: {text}` (0.9x and later), the
exec events of `codex exec --json` (`thread.started`, `item.completed`), and a viewer's form with `FunctionCall` items.
What the display log (`event_msg`) tells again is used for exit codes, durations and usage only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import as_json, text_of, usage_of
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile

__all__ = ["NAME", "read", "sniff"]

NAME = "codex"
_ENVELOPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_ITEMS = (
    "message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
    "local_shell_call", "local_shell_call_output", "web_search_call", "ghost_snapshot", "compaction", "tool_search_call",
)  # fmt: skip
_QUIET = frozenset([
    "token_count", "agent_message", "user_message", "agent_reasoning", "agent_reasoning_raw_content", "task_started",
    "task_complete", "turn_started", "turn_complete", "agent_reasoning_section_break", "exec_command_begin",
    "patch_apply_begin", "mcp_tool_call_begin", "web_search_begin", "exec_command_output_delta", "context_compacted",
    "thread_name_updated", "session_configured", "turn_diff", "background_event", "plan_update", "entered_review_mode",
    "exited_review_mode", "item_started", "item_completed", "view_image_tool_call", "agent_message_delta",
    "agent_reasoning_delta", "stream_error", "thread_settings_applied", "undo_started", "undo_completed",
])  # fmt: skip
_SCAFFOLD = (
    "<environment_context>", "<user_instructions>", "<permissions instructions>", "# AGENTS.md instructions", "<INSTRUCTIONS>",
    "<turn_aborted>", "<skills_instructions>", "<collaboration_mode>", "<model_switch>",
)  # fmt: skip


def sniff(head: Head) -> Match | None:
    """Told by the envelope's types, or by a header with id and instructions before bare response items."""
    records = head.dicts
    enveloped = [r for r in records if r.get("type") in _ENVELOPES and isinstance(r.get("payload"), Mapping)]
    if enveloped:
        return Match(0.97, f"Codex rollout lines: type {enveloped[0]['type']!r} with a payload")
    if any(r.get("type") in ("thread.started", "item.completed", "item.started") and ("thread_id" in r or "item" in r)
           for r in records):  # fmt: skip
        return Match(0.95, "events of `codex exec --json`: thread.started, item.completed")
    header = head.first
    is_header = (
        isinstance(header, Mapping) and "id" in header and "timestamp" in header and "type" not in header
    )
    if head.layout == "lines" and is_header and ("instructions" in header or "git" in header):
        return Match(
            0.95, "Codex rollout header without type (id, timestamp, instructions) before bare items"
        )
    if head.layout == "lines" and any(r.get("record_type") == "state" for r in records):
        return Match(0.9, "bare Codex items with record_type state between them")
    return None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """One session a file."""
    rollout = _Rollout(source, report)
    for line, record in source.records(report):
        if isinstance(record, Mapping):
            rollout.take(line, record)
        else:
            report.put_aside(source.file, line, f"a record that is {type(record).__name__}, not an object")
    session = rollout.finish()
    if session is not None:
        yield session


class _Rollout:
    """The state of one file while its lines are read."""

    def __init__(self, source: TranscriptFile, report: ReadReport) -> None:
        self.report = report
        self.build = SessionBuilder(source.file, source.stem, format=NAME, agent="codex")
        self.named = False
        self.total: dict[str, float] = {}
        self.user_turns: list[int] = []
        self.told_users: set[str] = set()

    def take(self, line: int, record: Mapping[str, Any]) -> None:
        kind, payload, at = record.get("type"), record.get("payload"), record.get("timestamp")
        if kind == "session_meta" and isinstance(payload, Mapping):
            self._header(payload, at, line)
        elif kind == "response_item" and isinstance(payload, Mapping):
            self._item(payload, at, line)
        elif kind == "event_msg" and isinstance(payload, Mapping):
            self._event(payload, at, line)
        elif kind == "turn_context" and isinstance(payload, Mapping):
            model = payload.get("model")
            if isinstance(model, str):
                self.build.fields["model"] = model
        elif kind in ("compacted", "world_state", "inter_agent_communication"):
            self.build.note("the context was compacted") if kind == "compacted" else self.report.unknown(kind)
        elif kind is None and "record_type" in record:
            self.build.time(at)
        elif kind is None and "id" in record and ("timestamp" in record or "instructions" in record):
            self._header(record, at, line)
        elif isinstance(kind, str) and kind in _ITEMS:
            self._item(record, at, line)
        elif isinstance(kind, str) and "." in kind:
            self._exec_event(kind, record, line)
        elif kind in ("Message", "FunctionCall", "FileChange", "Reasoning", "Event", "Other"):
            self._viewer(kind, record, at, line)
        else:
            self.report.unknown(kind if kind is not None else "record without type")

    def _header(self, meta: Mapping[str, Any], at: Any, line: int) -> None:
        build = self.build
        build.time(meta.get("timestamp") or at)
        if self.named:  # a resumed or forked file repeats its origin's header
            return
        if isinstance(meta.get("id"), str) and meta["id"]:
            build.session_id, self.named = meta["id"], True
        build.line = line
        cwd = meta.get("cwd")
        if isinstance(cwd, str) and cwd.strip("/\\"):
            build.fields["project"] = cwd.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1] or None
        for key in ("parent_thread_id", "forked_from_id"):
            if isinstance(meta.get(key), str):
                build.fields["parent_id"] = meta[key]
        told = meta.get("source")
        if isinstance(told, Mapping):  # {"subagent": {"thread_spawn": {"parent_thread_id": …}}}
            spawn = told.get("subagent")
            spawn = spawn.get("thread_spawn") if isinstance(spawn, Mapping) else None
            if isinstance(spawn, Mapping) and isinstance(spawn.get("parent_thread_id"), str):
                build.fields["parent_id"] = spawn["parent_thread_id"]
        instructions = meta.get("instructions")
        if instructions is None:
            instructions = meta.get("base_instructions")
        if isinstance(instructions, Mapping):
            instructions = instructions.get("text")
        if isinstance(instructions, str) and instructions:
            build.turn("system", instructions, at=meta.get("timestamp") or at, line=line)

    def _item(self, item: Mapping[str, Any], at: Any, line: int) -> None:
        build, kind = self.build, item.get("type")
        call_id = item.get("call_id")
        call_id = call_id if isinstance(call_id, str) else None
        if kind == "message":
            self._message(item, at, line)
        elif kind in ("function_call", "custom_tool_call", "tool_search_call"):
            args = item.get("arguments", item.get("input"))
            if kind == "custom_tool_call" and isinstance(args, str):
                args = {"input": args}
            name = item.get("name") or kind.removesuffix("_call")
            namespace = item.get("namespace")
            if (
                isinstance(namespace, str)
                and namespace
                and isinstance(name, str)
                and not name.startswith(namespace)
            ):
                name = f"{namespace}{name}" if namespace.endswith("__") else f"{namespace}.{name}"
            self._call(str(name), args, call_id or _text(item.get("id")), at, line)
        elif kind == "local_shell_call":
            action = item.get("action")
            args = dict(action) if isinstance(action, Mapping) else {}
            args.pop("type", None)
            made = self._call("local_shell", args, call_id or _text(item.get("id")), at, line)
            if item.get("status") == "incomplete":
                build.evidence(made, status="incomplete")
        elif kind in (
            "function_call_output",
            "custom_tool_call_output",
            "local_shell_call_output",
            "tool_search_output",
        ):
            self._output(item.get("output", item.get("tools")), call_id, at, line)
        elif kind == "web_search_call":
            action = item.get("action")
            made = self._call(
                "web_search", dict(action) if isinstance(action, Mapping) else {}, call_id, at, line
            )
            if item.get("status") in ("completed", "failed"):
                build.result(None, call=made, status=str(item["status"]), at=at, line=line, inline=True)
        elif kind in (
            "reasoning",
            "ghost_snapshot",
            "compaction",
            "compaction_summary",
            "context_compaction",
        ):
            build.time(at)
        else:
            self.report.unknown(f"response_item/{kind}")

    def _call(self, tool: str, args: Any, call_id: str | None, at: Any, line: int) -> Any:
        return self.build.call(tool, args, call_id=call_id, at=at, line=line)

    def _message(self, item: Mapping[str, Any], at: Any, line: int) -> None:
        build, text = self.build, text_of(item.get("content"))
        role = item.get("role")
        if role == "assistant":
            content = item.get("content")
            if isinstance(content, list):
                text = "\n".join(
                    text_of(part)
                    for part in content
                    if isinstance(part, Mapping) and part.get("type") != "reasoning"
                )
            build.turn("assistant", text, at=at, line=line)
        elif role == "user":
            if text.lstrip().startswith(_SCAFFOLD):
                build.turn("system", text, at=at, line=line)
            else:
                self._user(text, at, line)
        else:
            build.turn("system" if role in ("system", "developer") else "other", text, at=at, line=line)

    def _user(self, text: str, at: Any, line: int) -> None:
        self.build.fields.pop("outcome", None)  # the run went on after it was aborted
        self.told_users.add(text.strip())
        self.user_turns.append(self.build.turn("user", text, at=at, line=line))

    def _output(self, output: Any, call_id: str | None, at: Any, line: int) -> None:
        told: dict[str, Any] = {}
        value = output
        if isinstance(output, Mapping):
            if isinstance(output.get("success"), bool):
                told["is_error"] = not output["success"]
            value = output.get("content", output.get("output", output))
        if isinstance(value, list):
            value = text_of(value)
        inner = as_json(value)
        if (
            isinstance(inner, list)
            and inner
            and all(isinstance(i, Mapping) and i.get("type") == "text" for i in inner)
        ):
            value = text_of(inner)  # an MCP tool's content, written as JSON
        if isinstance(inner, Mapping) and isinstance(inner.get("metadata"), Mapping) and "output" in inner:
            exit_code, seconds = inner["metadata"].get("exit_code"), inner["metadata"].get("duration_seconds")
            if isinstance(exit_code, int) and not isinstance(exit_code, bool):
                told["exit_code"] = exit_code
            if isinstance(seconds, int | float) and not isinstance(seconds, bool):
                told["duration_ms"] = seconds * 1000
            value = inner["output"]
        self.build.result(value, call_id=call_id, at=at, line=line, **told)

    def _event(self, event: Mapping[str, Any], at: Any, line: int) -> None:
        build, kind = self.build, str(event.get("type"))
        call_id = _text(event.get("call_id"))
        if kind == "token_count":
            info = event.get("info")
            if isinstance(info, Mapping):
                self._total(info.get("total_token_usage"))
        elif kind == "user_message":
            text = text_of(event.get("message"))
            if text.strip() and text.strip() not in self.told_users:
                self._user(text, at, line)
        elif kind in (
            "exec_command_end",
            "patch_apply_end",
            "mcp_tool_call_end",
            "dynamic_tool_call_response",
        ):
            if call_id:
                self._ending(kind, event, call_id, at, line)
        elif kind == "turn_aborted":
            build.note(f"a turn was aborted: {event.get('reason') or 'no reason given'}")
            build.fields["outcome"] = "cancelled"
        elif kind == "error":
            build.note(f"error event: {text_of(event.get('message'))[:200]}")
        elif kind == "thread_rolled_back":
            self._roll_back(event.get("num_turns"))
        elif kind not in _QUIET and not str(kind).startswith(("collab_", "realtime_", "hook_", "guardian_")):
            self.report.unknown(f"event_msg/{kind}")
        if kind in ("task_started", "turn_started", "task_complete", "turn_complete"):
            build.fields.pop("outcome", None)

    def _ending(self, kind: str, event: Mapping[str, Any], call_id: str, at: Any, line: int) -> None:
        told: dict[str, Any] = {"duration_ms": _milliseconds(event.get("duration"))}
        value: Any = None
        if kind == "exec_command_end":
            code = event.get("exit_code")
            told["exit_code"] = code if isinstance(code, int) and not isinstance(code, bool) else None
            value = event.get("aggregated_output") or event.get("formatted_output") or event.get("stdout")
            if event.get("status") in ("declined",):
                told["status"] = "declined"
        elif kind == "patch_apply_end":
            if isinstance(event.get("success"), bool):
                told["is_error"] = not event["success"]
            value = event.get("stdout") or event.get("stderr")
        elif kind == "mcp_tool_call_end":
            outcome = event.get("result")
            if isinstance(outcome, Mapping):
                if "Err" in outcome:
                    told["is_error"], told["error"], value = True, text_of(outcome["Err"]), outcome["Err"]
                elif isinstance(outcome.get("Ok"), Mapping):
                    flag = outcome["Ok"].get("isError", outcome["Ok"].get("is_error"))
                    told["is_error"] = flag if isinstance(flag, bool) else None
                    value = text_of(outcome["Ok"].get("content"))
        elif isinstance(event.get("success"), bool):
            told["is_error"] = not event["success"]
        if not self.build.evidence(call_id, **told) and kind == "exec_command_end":
            command = event.get("command")
            made = self._call("exec_command", {"command": command}, call_id, at, line)
            duration = told.pop("duration_ms")
            self.build.result(value, call=made, at=at, line=line, duration_ms=duration, **told)

    def _total(self, usage: Any) -> None:
        amounts = usage_of(usage)
        if amounts:
            self.total = {key: max(amount, self.total.get(key, 0)) for key, amount in amounts.items()}

    def _roll_back(self, turns: Any) -> None:
        if not isinstance(turns, int) or isinstance(turns, bool) or turns <= 0 or not self.user_turns:
            return
        first = self.user_turns[-turns] if turns <= len(self.user_turns) else self.user_turns[0]
        for index in range(first, self.build.turns_seen):
            self.build.abandon(index)
        del self.user_turns[-turns:]
        self.build.note(f"{turns} turns were rolled back")

    def _exec_event(self, kind: str, record: Mapping[str, Any], line: int) -> None:
        build, item = self.build, record.get("item")
        if kind == "thread.started":
            if isinstance(record.get("thread_id"), str) and not self.named:
                build.session_id, self.named = record["thread_id"], True
        elif kind == "turn.completed":
            build.usage(None, **usage_of(record.get("usage")))
        elif kind in ("turn.failed", "error"):
            build.fields["outcome"] = "failure"
            build.note(f"{kind}: {text_of(record.get('error') or record.get('message'))[:200]}")
        elif kind in ("item.completed", "item.started", "item.updated") and isinstance(item, Mapping):
            self._exec_item(kind == "item.completed", item, line)
        elif kind != "turn.started":
            self.report.unknown(kind)

    def _exec_item(self, done: bool, item: Mapping[str, Any], line: int) -> None:
        build, kind = self.build, item.get("type", item.get("item_type"))
        call_id = _text(item.get("id"))
        status = _text(item.get("status"))
        if kind in ("agent_message", "assistant_message"):
            if done:
                build.turn("assistant", text_of(item.get("text")), line=line)
            return
        if kind in ("reasoning", "todo_list", "error"):
            if kind == "error":
                build.note(f"error item: {text_of(item.get('message'))[:200]}")
            return
        args: Any
        if kind == "command_execution":
            tool, args = "command_execution", {"command": item.get("command")}
        elif kind == "file_change":
            tool, args = "file_change", {"changes": item.get("changes")}
        elif kind == "mcp_tool_call":
            tool, args = f"{item.get('server')}.{item.get('tool')}", item.get("arguments")
        elif kind == "web_search":
            tool, args = "web_search", {"query": item.get("query")}
        else:
            self.report.unknown(f"item/{kind}")
            return
        made = build.call(tool, args, call_id=call_id, line=line, restates=True)
        if done:
            code = item.get("exit_code")
            build.result(
                item.get("aggregated_output", item.get("result")), call=made, line=line, status=status,
                exit_code=code if isinstance(code, int) and not isinstance(code, bool) else None,
                error=text_of(item.get("error")) or None,
            )  # fmt: skip

    def _viewer(self, kind: str, record: Mapping[str, Any], at: Any, line: int) -> None:
        build = self.build
        if kind == "Message":
            self._message(record, at, line)
        elif kind == "FunctionCall":
            made = build.call(
                str(record.get("name") or ""),
                record.get("args"),
                call_id=_text(record.get("id")),
                at=at,
                line=line,
            )
            if "result" in record:
                self._viewer_result(record["result"], made, at, line)
        elif kind == "Other":
            self.report.unknown("Other")

    def _viewer_result(self, value: Any, made: Any, at: Any, line: int) -> None:
        told: dict[str, Any] = {}
        if isinstance(value, Mapping) and isinstance(value.get("metadata"), Mapping):
            code, seconds = value["metadata"].get("exit_code"), value["metadata"].get("duration_seconds")
            told["exit_code"] = code if isinstance(code, int) and not isinstance(code, bool) else None
            told["duration_ms"] = seconds * 1000 if isinstance(seconds, int | float) else None
        self.build.result(value, call=made, at=at, line=line, inline=True, **told)

    def finish(self) -> Session | None:
        if self.build.empty and not self.named:
            return None
        if self.total:
            self.build.usage(None, **self.total)
        return self.build.build()


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _milliseconds(value: Any) -> float | None:
    """A duration as Rust writes it, `{secs, nanos}`, or as text such as `1.2s`."""
    if isinstance(value, Mapping):
        secs, nanos = value.get("secs"), value.get("nanos")
        if isinstance(secs, int | float) and isinstance(nanos, int | float):
            return secs * 1000 + nanos / 1e6
    if isinstance(value, str):
        number = value.removesuffix("ms") if value.endswith("ms") else value.removesuffix("s")
        try:
            return float(number) * (1 if value.endswith("ms") else 1000)
        except ValueError:
            return None
    return None
