"""OpenHands conversations, V0 and V1: in come event streams, conversation folders or completion logs, out go sessions.

Where defined: All-Hands-AI/OpenHands, `openhands/events` (V0: `action` / `observation`, `cause`, `extras`), and
OpenHands/software-agent-sdk, `openhands-sdk/openhands/sdk/event` (V1: `kind`, `tool_call_id`). Seen: V1 conversation
folders (`base_state.json` beside `events/`), lists and lines of events of both versions, evaluation outputs with
`history` (V0 pairs, V0 events, V1 events), and completion logs of the SDK (`messages`, `response`, `cost`,
`latency_sec`), read file by file or as a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sitoolkit.errors import TranscriptError
from sitoolkit.records import Outcome, Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import find_messages, text_of, usage_of
from sitoolkit.transcripts.history import History, tell
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile

__all__ = ["NAME", "read", "read_folder", "sniff", "sniff_folder"]

NAME = "openhands"
_QUIET_KINDS = (
    "ConversationStateUpdateEvent", "Condensation", "CondensationRequest", "CondensationSummaryEvent", "TokenEvent",
    "LLMCompletionLogEvent", "PauseEvent", "SystemPromptUpdateEvent", "ConversationStateEvent", "StreamingDeltaEvent",
)  # fmt: skip
_QUIET_ACTIONS = (
    "change_agent_state",
    "recall",
    "condensation",
    "condensation_request",
    "start",
    "pause",
    "resume",
    "stop",
)
_QUIET_OBSERVATIONS = (
    "agent_state_changed",
    "recall",
    "null",
    "agent_condensation",
    "loop_detection",
    "server_ready",
)
_V0_TOOLS = {
    "run": "execute_bash", "run_ipython": "execute_ipython_cell", "browse": "browser", "browse_interactive": "browser",
    "edit": "str_replace_editor", "read": "str_replace_editor", "write": "str_replace_editor",
}  # fmt: skip


def sniff(head: Head) -> Match | None:
    """Told by V1 event kinds, by V0 actions and observations, by evaluation outputs, or by completion logs."""
    for value in head.dicts[:8]:
        if _is_v1(value):
            return Match(0.96, f"OpenHands V1 events: kind {value['kind']}")
        if _is_v0(value):
            return Match(0.93, "OpenHands V0 events: source, action or observation")
        history = value.get("history")
        if isinstance(history, list) and any(_is_event(item) for item in history[:4]):
            return Match(0.95, "an OpenHands evaluation output: history of events")
        for key in ("trajectory", "events"):
            events = value.get(key)
            if isinstance(events, list) and any(_is_v0(item) or _is_v1(item) for item in events[:4]):
                return Match(0.93, f"{key} of OpenHands events")
        if _is_completion(value):
            return Match(0.94, "an OpenHands completion log: messages, response, cost and latency")
        if "persistence_dir" in value and "execution_status" in value:
            return Match(0.6, "the state file of an OpenHands conversation")
    return None


def _is_v1(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("kind"), str)
        and "source" in value
        and (
            value["kind"].endswith("Event")
            or value["kind"] in _QUIET_KINDS
            or value["kind"] == "UserRejectObservation"
        )
    )


def _is_v0(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    if isinstance(value.get("observation"), str):
        return "extras" in value or "cause" in value
    return isinstance(value.get("action"), str) and isinstance(value.get("args"), Mapping) and "id" in value


def _is_event(value: Any) -> bool:
    return _is_v0(value) or _is_v1(value) or (isinstance(value, list) and any(_is_v0(item) for item in value))


def _is_completion(value: Mapping[str, Any]) -> bool:
    return (
        isinstance(value.get("messages"), list)
        and "response" in value
        and ("latency_sec" in value or "kwargs" in value)
    )


def sniff_folder(path: Path) -> Match | None:
    """A folder is one conversation where it holds `events/event-*.json`, or a run's completion logs."""
    events = path / "events"
    first = next(_numbered(events), None) if events.is_dir() else None
    if first is not None and _holds(first, lambda value: _is_v0(value) or _is_v1(value)):
        return Match(0.95, "an OpenHands conversation folder: its events/ hold OpenHands events")
    logs = sorted(path.glob("*.json"))[:400]
    timed = len(logs) > 1 and all(_log_time(log) is not None for log in logs)
    if timed and _holds(logs[0], _is_completion):
        return Match(0.9, "a folder of OpenHands completion logs")
    return None


def _holds(file: Path, test: Callable[[Mapping[str, Any]], bool]) -> bool:
    """Whether the first value of a file passes a test; a file that cannot be read does not."""
    try:
        first = TranscriptFile(file).head.first
    except TranscriptError:
        return False
    return isinstance(first, Mapping) and test(first)


def _numbered(folder: Path) -> Iterator[Path]:
    found = [p for p in folder.glob("*.json") if p.stem.isdigit() or p.name.startswith("event-")]
    yield from sorted(found, key=lambda p: (int(digits) if (digits := _digits(p.stem)) else 0, p.name))


def _digits(stem: str) -> str:
    part = stem.removeprefix("event-").split("-")[0]
    return part if part.isdigit() else ""


def _log_time(path: Path) -> float | None:
    try:
        return float(path.stem.rsplit("-", 1)[-1])
    except ValueError:
        return None


def read_folder(path: Path, report: ReadReport) -> Iterator[Session]:
    """One session of a conversation folder, or of a folder of completion logs (in order of time)."""
    if (path / "events").is_dir():
        talk = _Conversation(str(path), path.name.removeprefix("conv_"), report)
        for file in _numbered(path / "events"):
            for line, record in _records(file, report):
                talk.take(record, line, str(file))
        state = path / "base_state.json"
        if state.is_file():
            for _line, record in _records(state, report):
                if isinstance(record, Mapping):
                    talk.state(record)
        if not talk.build.empty:
            yield talk.finish()
        return
    logs = sorted(path.glob("*.json"), key=lambda log: (_log_time(log) or 0.0, log.name))
    records: list[tuple[int, Any]] = []
    for log in logs:
        records.extend(_records(log, report))
    yield from _completions(records, str(path), path.name, report)


def _records(file: Path, report: ReadReport) -> list[tuple[int, Any]]:
    """The records of one file of a folder; a file that cannot be read is set aside, the others go on."""
    try:
        return list(TranscriptFile(file).records(report))
    except TranscriptError as fault:
        report.put_aside(str(file), fault.line, fault.reason.removeprefix(f"{file}: "))
        return []


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """The conversations of one file."""
    first = source.head.dicts[:1]
    if first and _is_completion(first[0]):
        yield from _completions(source.items(report), source.file, source.session_id(), report)
        return
    talk = _Conversation(source.file, source.session_id(), report)
    found = False
    for line, record in source.items(report):
        history = _held(record)
        if history is not None and isinstance(record, Mapping):
            found = True
            yield _evaluated(source, report, record, history, line)
        elif isinstance(record, Mapping) and "persistence_dir" in record:
            talk.state(record)
        else:
            talk.take(record, line, source.file)
    if not talk.build.empty:
        yield talk.finish()
    elif not found:
        report.put_aside(source.file, None, "no message and no call: a state file, or bookkeeping alone")


def _held(record: Any) -> list[Any] | None:
    """The events that a record holds, if it is an evaluation output or a dataset row."""
    if not isinstance(record, Mapping) or _is_v0(record) or _is_v1(record):
        return None
    for key in ("history", "trajectory", "events"):
        events = record.get(key)
        if isinstance(events, list) and any(_is_event(item) for item in events[:4]):
            return events
    return None


def _evaluated(
    source: TranscriptFile, report: ReadReport, record: Mapping[str, Any], history: list[Any], line: int
) -> Session:
    name = record.get("instance_id")
    session_id = name if isinstance(name, str) and name else source.session_id(line if line > 1 else "")
    talk = _Conversation(source.file, session_id, report)
    for item in history:
        for event in item if isinstance(item, list) else (item,):  # V0 wrote pairs of action and observation
            talk.take(event, line, source.file)
    metrics = record["metrics"] if isinstance(record.get("metrics"), Mapping) else {}
    talk.metrics(metrics)
    verdict = _deep(record, "report", "resolved")
    if verdict is None:
        verdict = _deep(record, "test_result", "report", "resolved")
    if verdict is None:
        verdict = record.get("resolved")
    about: dict[str, Any] = {}
    if isinstance(verdict, bool | int) and verdict in (0, 1):
        about = {"outcome": "success" if verdict else "failure", "reward": float(verdict)}
    if isinstance(record.get("error"), str) and record["error"]:
        talk.build.note(f"the run ended in an error: {record['error'][:200]}")
        about.setdefault("outcome", "failure")
    return talk.finish(**about)


class _Conversation:
    """One conversation of either version, while its events come in."""

    def __init__(self, file: str, session_id: str, report: ReadReport) -> None:
        self.build = SessionBuilder(file, session_id, format=NAME, agent="openhands")
        self.report = report
        self.actions: dict[Any, Any] = {}  # id of the action -> its call
        self.responses: dict[str, int] = {}  # id of the model's response -> its turn
        self.is_write: dict[str, bool] = {}

    def take(self, event: Any, line: int, file: str) -> None:
        self.build.file = file
        if _is_v1(event):
            self._v1(event, line)
        elif _is_v0(event):
            self._v0(event, line)
        elif isinstance(event, Mapping):
            self.report.unknown(
                event.get("kind") or event.get("action") or event.get("observation") or "record without kind"
            )
        else:
            self.report.put_aside(file, line, f"an event that is {type(event).__name__}, not an object")

    # ---- V1

    def _v1(self, event: Mapping[str, Any], line: int) -> None:
        build, kind, at = self.build, event["kind"], event.get("timestamp")
        if kind == "SystemPromptEvent":
            self._tools(event.get("tools"))
            build.turn("system", text_of(event.get("system_prompt")), at=at, line=line)
        elif kind == "MessageEvent":
            message = event["llm_message"] if isinstance(event.get("llm_message"), Mapping) else {}
            role: Any = str(message.get("role", event.get("source")))
            role = {"user": "user", "assistant": "assistant", "agent": "assistant", "system": "system"}.get(
                role, "other"
            )
            extra = text_of(event.get("extended_content")) if event.get("extended_content") else ""
            build.turn(
                role, "\n".join(filter(None, (text_of(message.get("content")), extra))), at=at, line=line
            )
        elif kind == "ActionEvent":
            self._v1_action(event, at, line)
        elif kind == "ObservationEvent":
            self._v1_observation(event, at, line)
        elif kind == "AgentErrorEvent":
            error = text_of(event.get("error"))
            build.result(error, call_id=_text(event.get("tool_call_id")), tool=_text(event.get("tool_name")), at=at,
                         line=line, is_error=True, error=error)  # fmt: skip
        elif kind == "UserRejectObservation":
            reason = text_of(event.get("rejection_reason"))
            self._answer(event, reason or "rejected by the user", at, line, outcome=Outcome.CANCELLED)
        elif kind in ("ConversationErrorEvent", "ServerErrorEvent"):
            build.note(f"conversation error {event.get('code')}: {text_of(event.get('detail'))[:200]}")
            build.fields["outcome"] = "failure"
        elif kind == "InterruptEvent":
            build.note("the conversation was interrupted")
        elif kind not in _QUIET_KINDS:
            self.report.unknown(kind)

    def _tools(self, tools: Any) -> None:
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, Mapping) and isinstance(tool.get("annotations"), Mapping):
                hint = tool["annotations"].get("readOnlyHint")
                name = tool.get("title") or tool.get("name")
                if hint is True and isinstance(name, str):  # false says only that it may write
                    self.is_write[name] = False

    def _v1_action(self, event: Mapping[str, Any], at: Any, line: int) -> None:
        build = self.build
        told = event["tool_call"] if isinstance(event.get("tool_call"), Mapping) else {}
        function = told["function"] if isinstance(told.get("function"), Mapping) else told
        tool = _text(event.get("tool_name")) or _text(function.get("name")) or "unknown"
        action = event.get("action")
        args = function.get("arguments")
        if args is None and isinstance(action, Mapping):
            args = {key: value for key, value in action.items() if key != "kind"}
        thought = text_of(event.get("thought")) if event.get("thought") else ""
        response = _text(event.get("llm_response_id"))
        turn = build.turn(
            "assistant", thought, at=at, line=line, key=f"response {response}" if response else None
        )
        call = build.call(
            tool, args, call_id=_text(event.get("tool_call_id")) or _text(told.get("id")), at=at, line=line, turn=turn,
            is_write=self.is_write.get(tool),
        )  # fmt: skip
        if action is None:  # the arguments did not fit the tool: an AgentErrorEvent follows
            build.note("an action was refused before it ran")
        self.actions[str(event.get("id"))] = call

    def _v1_observation(self, event: Mapping[str, Any], at: Any, line: int) -> None:
        seen = event["observation"] if isinstance(event.get("observation"), Mapping) else {}
        value = seen.get("content", seen.get("output", seen.get("result")))
        if isinstance(value, list | Mapping):
            value = text_of(value)
        if value is None:
            value = {key: item for key, item in seen.items() if key not in ("kind", "is_error")}
        code = seen.get("exit_code")
        if code is None:
            code = _deep(seen, "metadata", "exit_code")
        flag = seen.get("is_error", seen.get("error") if isinstance(seen.get("error"), bool) else None)
        told: dict[str, Any] = {"is_error": flag if isinstance(flag, bool) else None}
        if isinstance(code, int) and not isinstance(code, bool) and code != -1:  # -1: still running
            told["exit_code"] = code
        if seen.get("timeout") is True:
            told["outcome"] = Outcome.TIMEOUT
        self._answer(event, value, at, line, **told)

    def _answer(self, event: Mapping[str, Any], value: Any, at: Any, line: int, **told: Any) -> None:
        call = self.actions.get(str(event.get("action_id")))
        call_id = _text(event.get("tool_call_id"))
        if call is not None and call.answered:
            call = None
        self.build.result(
            value, call=call, call_id=call_id, tool=_text(event.get("tool_name")), at=at, line=line, **told
        )

    # ---- V0

    def _v0(self, event: Mapping[str, Any], line: int) -> None:
        if isinstance(event.get("observation"), str):
            self._v0_observation(event, line)
        else:
            self._v0_action(event, line)

    def _v0_action(self, event: Mapping[str, Any], line: int) -> None:
        build, action, at = self.build, str(event["action"]), event.get("timestamp")
        args = dict(event["args"])
        source = event.get("source")
        if action == "system":
            build.turn("system", text_of(args.get("content")), at=at, line=line)
            return
        if action == "message":
            role: Any = {"user": "user", "agent": "assistant"}.get(str(source), "other")
            build.turn(role, text_of(args.get("content")), at=at, line=line)
            self._v0_usage(event)
            return
        if action in _QUIET_ACTIONS:
            build.time(at)
            return
        meta = event["tool_call_metadata"] if isinstance(event.get("tool_call_metadata"), Mapping) else {}
        response = meta["model_response"] if isinstance(meta.get("model_response"), Mapping) else {}
        thought = args.pop("thought", None)
        name = _text(meta.get("function_name")) or _V0_TOOLS.get(action, action)
        asked = next(
            (
                c["function"].get("arguments")
                for choice in _list(response.get("choices"))[:1]
                for c in _list(_deep(choice, "message", "tool_calls"))
                if isinstance(c, Mapping)
                and c.get("id") == meta.get("tool_call_id")
                and isinstance(c.get("function"), Mapping)
            ),
            None,
        )
        if action in ("finish", "reject", "think"):
            args["thought"] = text_of(thought) if action == "think" else args.get("thought")
            args = {key: value for key, value in args.items() if value not in (None, "", {})}
        key = _text(response.get("id"))
        if source == "user" and not meta:
            build.note("actions of the user stand among the turns of the agent")
        turn = build.turn(
            "assistant", text_of(thought) if thought and action != "think" else "", at=at, line=line,
            key=f"response {key}" if key else None,
        )  # fmt: skip
        call = build.call(
            name,
            asked if asked is not None else args,
            call_id=_text(meta.get("tool_call_id")),
            at=at,
            line=line,
            turn=turn,
        )
        self.actions[str(event.get("id"))] = call
        self._v0_usage(event)
        if action in ("finish", "reject") and "tool_call_id" not in meta:
            build.result(
                text_of(args.get("outputs")) or None, call=call, status="completed", line=line, inline=True
            )
        if args.get("confirmation_state") == "rejected":
            build.result("rejected by the user", call=call, outcome=Outcome.CANCELLED, line=line, inline=True)

    def _v0_usage(self, event: Mapping[str, Any]) -> None:
        metrics = event.get("llm_metrics")
        if isinstance(metrics, Mapping):
            self.metrics(metrics)
        model = _deep(event, "tool_call_metadata", "model_response", "model")
        if isinstance(model, str) and not self.build.fields.get("model"):
            self.build.fields["model"] = model

    def _v0_observation(self, event: Mapping[str, Any], line: int) -> None:
        build, kind, at = self.build, str(event["observation"]), event.get("timestamp")
        extras = event["extras"] if isinstance(event.get("extras"), Mapping) else {}
        meta = event["tool_call_metadata"] if isinstance(event.get("tool_call_metadata"), Mapping) else {}
        call = self.actions.get(str(event.get("cause")))
        call_id = _text(meta.get("tool_call_id"))
        if kind in _QUIET_OBSERVATIONS and (call is None or call.answered):
            if kind == "agent_state_changed" and extras.get("agent_state") in ("error", "rejected"):
                build.note(
                    f"the agent's state became {extras['agent_state']}: {text_of(extras.get('reason'))[:120]}"
                )
                build.fields["outcome"] = "failure"
            build.time(at)
            return
        if kind == "null" and call is not None:
            told: dict[str, Any] = {"status": "completed"}
        elif kind == "error":
            told = {"is_error": True, "error": text_of(event.get("content"))}
        elif kind == "user_rejected":
            told = {"outcome": Outcome.CANCELLED}
        else:
            code = _deep(extras, "metadata", "exit_code")
            code = extras.get("exit_code") if code is None else code
            told = {}
            if isinstance(code, int) and not isinstance(code, bool) and code != -1:
                told["exit_code"] = code
            if extras.get("error") is True or (event.get("success") is False and code is None):
                told["is_error"] = True
        if call is not None and call.answered:
            call = None
        if call is None and call_id is None:
            if kind == "error":
                build.turn("other", text_of(event.get("content")), at=at, line=line)
                return
            if kind in ("user_rejected", "success", "delegate"):
                build.time(at)
                return
        build.result(text_of(event.get("content")), call=call, call_id=call_id, tool=_text(meta.get("function_name")),
                     at=at, line=line, **told)  # fmt: skip

    # ---- both

    def metrics(self, metrics: Mapping[str, Any]) -> None:
        """Accumulated metrics: each statement is a running total, so the largest counts."""
        usage = metrics.get("accumulated_token_usage")
        amounts = usage_of(usage)
        cost = metrics.get("accumulated_cost")
        if isinstance(cost, int | float) and not isinstance(cost, bool):
            amounts["cost_usd"] = cost
        if amounts:
            self.build.usage("accumulated", **amounts)

    def state(self, state: Mapping[str, Any]) -> None:
        """What `base_state.json` says: id, model, usage, status."""
        build = self.build
        if isinstance(state.get("id"), str):
            build.session_id = state["id"]
        model = _deep(state, "agent", "llm", "model")
        if isinstance(model, str):
            build.fields["model"] = model
        for name, metrics in (_deep(state, "stats", "usage_to_metrics") or {}).items() if isinstance(
            _deep(state, "stats", "usage_to_metrics"), Mapping
        ) else ():  # fmt: skip
            if isinstance(metrics, Mapping):
                amounts = usage_of(metrics.get("accumulated_token_usage"))
                cost = metrics.get("accumulated_cost")
                if isinstance(cost, int | float) and not isinstance(cost, bool):
                    amounts["cost_usd"] = cost
                build.usage(f"state {name}", **amounts)
        status = state.get("execution_status", state.get("agent_status"))
        if status in ("error", "stuck"):
            build.fields["outcome"] = "failure"
            build.note(f"execution status: {status}")

    def finish(self, **about: Any) -> Session:
        return self.build.build(**about)


# ---------------------------------------------------------------- completion logs


def _completions(
    records: Iterable[tuple[int, Any]], file: str, session_id: str, report: ReadReport
) -> Iterator[Session]:
    """Requests of one conversation restate what was said; each file of the log adds one answer."""
    history = History()
    model = None
    for line, record in records:
        if not isinstance(record, Mapping) or not isinstance(record.get("messages"), list | str):
            report.put_aside(file, line, "a record without messages")
            continue
        response = record["response"] if isinstance(record.get("response"), Mapping) else {}
        at = record.get("timestamp")
        history.request(find_messages(record["messages"], "user"), line=line, at=None)
        usage = usage_of(response.get("usage"))
        if isinstance(record.get("cost"), int | float):
            usage["cost_usd"] = record["cost"]
        model = _text(response.get("model")) or model
        history.answer(find_messages(response, "assistant"), at=at, line=line, usage=usage, model=model)
    if history.entries:
        build = SessionBuilder(file, session_id, format=NAME, agent="openhands", line=1)
        tell(build, history.entries, report)
        yield build.build(model=model)


def _deep(value: Any, *keys: str) -> Any:
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
