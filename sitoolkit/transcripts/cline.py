"""Cline, Roo Code and Kilo Code tasks: in comes `api_conversation_history.json` or `ui_messages.json`, out goes one session.

Where defined: cline/cline, `src/shared/ExtensionMessage.ts` and `src/core/task` (RooCodeInc/Roo-Code alike). Shapes seen:
the API history with calls as XML in the text, answered by `[tool for '…'] Result:`; the same with native `tool_use`
blocks (3.x of 2025); and the messages of the interface (`type` ask or say). A folder with both is read from the API
history, since it alone holds results word for word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Outcome, Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import as_json, read_message, text_of, usage_of
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile

__all__ = ["NAME", "read", "sniff"]

NAME = "cline"
ALIASES = ("roo", "roo-code", "kilo", "kilo-code")
_TOOLS = (
    "execute_command", "read_file", "write_to_file", "replace_in_file", "apply_diff", "insert_content", "search_and_replace",
    "search_files", "list_files", "list_code_definition_names", "browser_action", "use_mcp_tool", "access_mcp_resource",
    "ask_followup_question", "attempt_completion", "new_task", "plan_mode_respond", "plan_mode_response", "load_mcp_documentation",
    "switch_mode", "fetch_instructions", "codebase_search", "update_todo_list", "web_fetch", "new_rule", "report_bug",
    "condense", "edit_file", "use_skill", "web_search", "generate_image", "run_slash_command", "edit", "apply_patch", "focus_chain",
)  # fmt: skip
_CALL = re.compile(rf"<({'|'.join(_TOOLS)})>(.*?)</\1>", re.DOTALL)
_OPEN = re.compile(rf"<({'|'.join(_TOOLS)})>")
_PARAMETER = re.compile(r"<(\w+)>(.*?)</\1>", re.DOTALL)
_WHOLE = re.compile(
    r"<(content|diff|new_content|result|arguments|follow_up|todos|response|context|question|regex|command)>(.*)</\1>",
    re.DOTALL,
)
_RESULT = re.compile(r"\A\s*\[(\w+)(?: for .*?| to .*?| on .*?)?\] Result:\s*", re.DOTALL)
_DENIED = re.compile(
    r"\AThe user denied this operation|\AThe user rejected|user denied this operation", re.IGNORECASE
)
_ENVIRONMENT = re.compile(r"<environment_details>.*?(?:</environment_details>|\Z)", re.DOTALL)
_SKIPPED = re.compile(r"\ATool \[.*?\] was not executed", re.DOTALL)
_UI_QUIET = frozenset([
    "api_req_started", "api_req_finished", "api_req_retried", "api_req_deleted", "checkpoint_created", "checkpoint_saved",
    "shell_integration_warning", "reasoning", "mcp_server_request_started", "browser_action_result", "deleted_api_reqs", "task_progress",
    "resume_task", "resume_completed_task", "load_mcp_documentation", "info", "condense_context", "codebase_search_result",
    "command_output", "mcp_notification", "generate_explanation", "hook", "hook_status", "hook_output", "conditional_rules_applied",
    "subtask_result", "user_feedback_diff", "error_retry", "clineignore_error", "mistake_limit_reached", "auto_approval_max_req_reached",
])  # fmt: skip


def sniff(head: Head) -> Match | None:
    """Told by the task and environment tags and XML calls of the API history, or by ask and say messages."""
    if head.container != "array":
        return None
    items = head.dicts[:12]
    if any(
        i.get("type") in ("ask", "say") and isinstance(i.get(str(i.get("type"))), str) and "ts" in i
        for i in items
    ):
        return Match(0.95, "messages of type ask and say with ts: Cline's ui_messages")
    texts = [text_of(i.get("content")) for i in items if i.get("role") in ("user", "assistant")]
    if not texts:
        return None
    tagged = any("<environment_details>" in text for text in texts)
    asked = any(re.match(r"\s*<(task|user_message|feedback)>", text) for text in texts[:2])
    called = any(_CALL.search(text) for text in texts)
    answered = any(_RESULT.match(text) for text in texts)
    if (tagged and (asked or called or answered)) or (called and (answered or asked)):
        return Match(0.93, "messages with <task>, <environment_details> and XML calls: Cline's API history")
    return None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """One session a file."""
    build = SessionBuilder(source.file, source.session_id(), format=NAME, agent="cline")
    interface = any(i.get("type") in ("ask", "say") for i in source.head.dicts[:12])
    history = _Interface(build, report) if interface else _History(build, report)
    for line, record in source.items(report):
        if isinstance(record, Mapping):
            history.take(record, line)
        else:
            report.put_aside(source.file, line, f"a message that is {type(record).__name__}, not an object")
    history.end()
    if not build.empty:
        yield build.build()


# ---------------------------------------------------------------- api_conversation_history.json


class _History:
    """The API history: XML calls in the assistant's text, results in the next user message."""

    def __init__(self, build: SessionBuilder, report: ReadReport) -> None:
        self.build, self.report = build, report
        self.waiting: list[Any] = []

    def take(self, record: Mapping[str, Any], line: int) -> None:
        message = read_message(record, "other")
        at = record.get("ts")
        for kind in message.unknown:
            self.report.unknown(f"part:{kind}")
        if record.get("role") == "assistant":
            turn = self.build.turn("assistant", message.text, at=at, line=line)
            self.waiting = [
                self.build.call(part.tool, part.args, call_id=part.call_id, at=at, line=line, turn=turn)
                for part in message.calls
            ]
            if not message.calls:
                self.waiting = [
                    self.build.call(tool, args, at=at, line=line, turn=turn)
                    for tool, args in _xml_calls(message.text)
                ]
                cut = _OPEN.search(_CALL.sub("", message.text))
                if cut and not self.waiting:
                    self.build.call(
                        cut.group(1),
                        {},
                        at=at,
                        line=line,
                        turn=turn,
                        ran=False,
                        args_error="the call was cut off",
                    )
            usage = record.get("metrics")
            if isinstance(usage, Mapping):
                self.build.usage(None, **{**usage_of(usage.get("tokens")), **usage_of(usage)})
        elif record.get("role") in ("user", "tool"):
            for part in message.results:
                self._result(text_of(part.content), part.call_id, part.is_error, at, line)
            self._texts(record.get("content"), message.text, bool(message.results), at, line)
        else:
            self.report.unknown(f"message/{record.get('role')}")

    def _texts(self, content: Any, text: str, answered: bool, at: Any, line: int) -> None:
        """Text blocks of a user message: results of XML calls, environment details, and the user's own words."""
        blocks = (
            [text_of(part) for part in content if not isinstance(part, Mapping) or part.get("type") == "text"]
            if isinstance(content, list)
            else [text]
        )
        words: list[str] = []
        result: list[str] | None = None
        for block in blocks:
            bare = _ENVIRONMENT.sub("", block).strip()
            if not bare:
                continue
            if _RESULT.match(bare) and self.waiting:
                self._told(result, at, line)
                result = [_RESULT.sub("", bare)]
            elif _DENIED.search(bare) and self.waiting and result is None:
                result = [bare]
            elif result is not None and not bare.startswith(
                ("<feedback>", "<user_message>", "[TASK RESUMPTION]")
            ):
                result.append(bare)
            else:
                words.append(bare)
        self._told(result, at, line)
        said = "\n".join(words)
        for tag in ("task", "feedback", "user_message", "answer"):
            said = said.replace(f"<{tag}>", "").replace(f"</{tag}>", "")
        if said.strip() and not (answered and _SKIPPED.match(said)):
            self.build.turn("user", said.strip(), at=at, line=line)

    def _told(self, result: list[str] | None, at: Any, line: int) -> None:
        if result is not None:
            self._result("\n".join(filter(None, result)), None, None, at, line)

    def _result(self, text: str, call_id: str | None, is_error: bool | None, at: Any, line: int) -> None:
        call = None if call_id else (self.waiting.pop(0) if self.waiting else None)
        told: dict[str, Any] = {"is_error": is_error}
        if _DENIED.search(text[:200]) or _SKIPPED.match(text):
            told["outcome"] = Outcome.CANCELLED
        elif text.startswith(("The tool execution failed with the following error", "<error>", "[ERROR]")):
            told["is_error"] = True
        self.build.result(text, call_id=call_id, call=call, at=at, line=line, **told)
        feedback = re.search(r"<feedback>(.*?)</feedback>", text, re.DOTALL)
        if feedback and feedback.group(1).strip():
            self.build.turn("user", feedback.group(1).strip(), at=at, line=line)

    def end(self) -> None:
        """Nothing is left open."""


def _xml_calls(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Calls as XML; what has no closing tag was cut off and never ran."""
    text = re.sub(r"<thinking>.*?</thinking>", "", text, flags=re.DOTALL)
    found: list[tuple[str, dict[str, Any]]] = []
    for name, body in _CALL.findall(text):
        args: dict[str, Any] = {}
        whole = _WHOLE.search(body)
        rest = body
        if whole:  # contents of a file may hold tags of their own
            rest = body[: whole.start()] + body[whole.end() :]
        for key, value in _PARAMETER.findall(rest):
            args[key] = value.strip("\n")
        if whole:
            args[whole.group(1)] = whole.group(2).strip("\n")
        if name == "use_mcp_tool" and isinstance(args.get("arguments"), str):
            args["arguments"] = as_json(args["arguments"])
        found.append((name, args))
    return found


# ---------------------------------------------------------------- ui_messages.json

_ASKED = {
    "command": "execute_command", "use_mcp_server": "use_mcp_tool", "browser_action_launch": "browser_action",
    "followup": "ask_followup_question", "completion_result": "attempt_completion", "plan_mode_respond": "plan_mode_respond",
    "new_task": "new_task",
}  # fmt: skip


class _Interface:
    """What the interface showed: a question to the user or a saying, one after another."""

    def __init__(self, build: SessionBuilder, report: ReadReport) -> None:
        self.build, self.report = build, report
        self.open: Any = None
        self.output: list[str] = []
        self.output_at: tuple[Any, int] = (None, 0)

    def take(self, record: Mapping[str, Any], line: int) -> None:
        kind = record.get("type")
        what = str(record.get(str(kind)))
        at, text = record.get("ts"), text_of(record.get("text"))
        if record.get("partial") is True:
            return
        if what == "command_output":
            self.output.append(text)
            self.output_at = (at, line)
            return
        if what != "user_feedback":
            self._close()
        if (kind == "ask" and what in _ASKED) or (
            kind == "say" and what in ("command", "use_mcp_server", "browser_action")
        ):
            self._call(str(what), text, at, line)
        elif what == "tool":
            self._tool(text, at, line)
        elif what in ("task", "user_feedback"):
            if self.open is not None and what == "user_feedback":
                self._close(feedback=True)
            if text:
                self.build.turn("user", text, at=at, line=line)
        elif what in ("text", "completion_result"):
            if text:
                self.build.turn("assistant", text, at=at, line=line)
        elif what == "mcp_server_response" and self.open is not None:
            self.build.result(text, call=self.open, at=at, line=line)
            self.open = None
        elif what in ("error", "diff_error", "rooignore_error"):
            if self.open is not None:
                self.build.result(text, call=self.open, at=at, line=line, is_error=True, error=text)
                self.open = None
            else:
                self.build.turn("other", text, at=at, line=line)
        elif what == "api_req_failed":
            self.build.note(f"a request failed: {text[:200]}")
        elif what in _UI_QUIET:
            self._request(what, text, at)
        else:
            self.report.unknown(f"{kind}/{what}")

    def _request(self, what: Any, text: str, at: Any) -> None:
        self.build.time(at)
        told = as_json(text)
        if what in ("api_req_started", "deleted_api_reqs") and isinstance(told, Mapping):
            self.build.usage(None, **usage_of(told))
            if told.get("cancelReason") == "user_cancelled":
                self.build.note("the user cancelled a request")
            elif told.get("streamingFailedMessage"):
                self.build.note(f"a request failed: {text_of(told['streamingFailedMessage'])[:200]}")

    def _call(self, what: str, text: str, at: Any, line: int) -> None:
        tool = _ASKED.get(what, what)
        told = as_json(text)
        if what == "use_mcp_server" and isinstance(told, Mapping):
            inner = as_json(told.get("arguments"))
            args: Any = {**told, "arguments": inner}
        elif what in ("command",):
            args = {"command": text}
        elif what == "completion_result" and not text:
            return
        else:
            args = told if isinstance(told, Mapping) else {"text": text}
        self.open = self.build.call(tool, args, at=at, line=line)

    def _tool(self, text: str, at: Any, line: int) -> None:
        told = as_json(text)
        told = told if isinstance(told, Mapping) else {"tool": "unknown", "text": text}
        name = str(told.get("tool") or "unknown")
        args = {key: value for key, value in told.items() if key not in ("tool", "content")}
        call = self.build.call(name, args or {"content": told.get("content")}, at=at, line=line)
        if isinstance(told.get("content"), str) and name.startswith(("read", "list", "search")):
            self.build.result(told["content"], call=call, at=at, line=line, inline=True)
        else:
            self.open = call

    def _close(self, *, feedback: bool = False) -> None:
        if self.open is not None and self.output:
            at, line = self.output_at
            self.build.result("\n".join(self.output), call=self.open, at=at, line=line)
            self.open = None
        elif self.open is not None and feedback:
            self.open = None  # the user answered with words: what became of the call is not said
        self.output = []

    def end(self) -> None:
        self._close()
