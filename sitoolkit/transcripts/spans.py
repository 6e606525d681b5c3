"""Spans of a tracer become sessions: in come `Span`s of one file, out goes the story of each trace or conversation.

Each tracer's reader only says what is what in its own records; what is the same for all is decided here: a trace is a
session, traces of one conversation are one; model calls tell the messages, tool spans tell what ran, how long and how
it ended; an outer model span that repeats an inner one is passed over; where there are no model calls, the messages
of the outermost span are taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sitoolkit.errors import TimeError
from sitoolkit.records import Session, parse_time
from sitoolkit.transcripts.dialects import CallPart, Message, ResultPart, as_json, find_messages, text_of
from sitoolkit.transcripts.history import History, is_tool_definition, tell
from sitoolkit.transcripts.pairing import SessionBuilder
from sitoolkit.transcripts.source import ReadReport, TranscriptFile

__all__ = ["Span", "Trace", "sessions_of", "traces_of"]


@dataclass(slots=True)
class Span:
    """One step that a tracer recorded, in plain words."""

    id: str | None = None
    parent: str | None = None
    trace: str | None = None
    kind: str = "other"  # llm, tool, agent, other
    name: str = ""
    start: Any = None
    end: Any = None
    failed: bool = False  # the tracer says it ended in an error
    error: str | None = None
    inputs: Any = None
    outputs: Any = None
    model: str | None = None
    usage: Any = None
    tool: str | None = None
    call_id: str | None = None
    agent: str | None = None
    conversation: str | None = None
    line: int | None = None
    order: int = 0


@dataclass(slots=True)
class Trace:
    """The story of one session as far as spans tell it."""

    id: str | None
    history: History
    spans: list[Span] = field(default_factory=list)
    agent: str | None = None
    task: str | None = None
    failed: bool = False
    error: str | None = None
    started: datetime | None = None
    ended: datetime | None = None
    line: int | None = None
    notes: list[str] = field(default_factory=list)


def when(value: Any) -> datetime | None:
    """A span's time; one without a zone is UTC, one that cannot be read is unknown."""
    try:
        return parse_time(value, naive_is_utc=True)
    except (TimeError, ValueError, OverflowError):
        return None


def _is_naive(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        parse_time(value)
    except TimeError as fault:
        return "without a zone" in str(fault)
    return False


def traces_of(spans: Iterable[Span]) -> Iterator[Trace]:
    """Group spans by conversation, else by trace, and tell the story of each, in order of first appearance."""
    every = list(spans)
    for order, span in enumerate(every):
        span.order = order
    _inherit(every)
    conversation_of: dict[str | None, str] = {}
    for span in every:
        if span.conversation:
            conversation_of.setdefault(span.trace, span.conversation)
    groups: dict[str | None, list[Span]] = {}
    for span in every:
        groups.setdefault(conversation_of.get(span.trace, span.trace), []).append(span)
    for key, members in groups.items():
        yield _tell(key, members)


def _inherit(spans: list[Span]) -> None:
    """A span without a trace id belongs to the trace of its parent."""
    by_id = {span.id: span for span in spans if span.id}
    for span in spans:
        seen: set[int] = set()
        at: Span | None = span
        while at is not None and span.trace is None and id(at) not in seen:
            seen.add(id(at))
            at = by_id.get(at.parent or "")
            if at is not None and at.trace:
                span.trace = at.trace


def _tell(key: str | None, spans: list[Span]) -> Trace:
    trace = Trace(key, History(), spans, line=spans[0].line)
    starts = [moment for moment in (when(span.start) for span in spans) if moment]
    ends = [moment for moment in (when(span.end) for span in spans) if moment]
    trace.started, trace.ended = min(starts, default=None), max(ends, default=None)
    if any(_is_naive(span.start) for span in spans):
        trace.notes.append("times without a zone were read as UTC")
    ids = {span.id for span in spans if span.id}
    roots = [span for span in spans if not span.parent or span.parent not in ids]
    trace.failed = any(root.failed for root in roots)
    trace.error = next((root.error for root in roots if root.failed and root.error), None)
    trace.agent = _agent_of(spans, roots)
    outer = _outer_models(spans)
    far = float("inf")
    for span in sorted(
        spans, key=lambda s: (t.timestamp() if (t := when(s.start)) else far, s.kind != "llm", s.order)
    ):
        if span.kind == "llm" and id(span) not in outer:
            _model_call(trace.history, span)
        elif span.kind == "tool" or _looks_like_tool(span):
            _tool_run(trace.history, span)
    _without_model_calls(trace, roots)
    return trace


def _agent_of(spans: list[Span], roots: list[Span]) -> str | None:
    """The agent nearest above the first model call, else the outermost."""
    by_id = {span.id: span for span in spans if span.id}
    at = next((span for span in spans if span.kind == "llm"), None)
    seen = set[int]()
    while at is not None and id(at) not in seen:
        if at.agent:
            return at.agent
        seen.add(id(at))
        at = by_id.get(at.parent or "")
    return next((span.agent for span in roots + spans if span.agent), None)


def _outer_models(spans: list[Span]) -> set[int]:
    by_id = {span.id: span for span in spans if span.id}
    outer: set[int] = set()
    for span in spans:
        if span.kind != "llm":
            continue
        at, seen = by_id.get(span.parent or ""), set[int]()
        while at is not None and id(at) not in seen:
            seen.add(id(at))
            if at.kind == "llm":
                outer.add(id(at))
            at = by_id.get(at.parent or "")
    return outer


def _model_call(history: History, span: Span) -> None:
    at = when(span.start)
    asked = [m for m in find_messages(span.inputs, "user") if not is_tool_definition(m)]
    history.request(asked, at=at, line=span.line, author=None)
    answered = find_messages(span.outputs, "assistant")
    for message in answered:
        if message.role in ("other", "user"):
            message.role = "assistant"
    history.answer(
        answered,
        at=when(span.end) or at,
        line=span.line,
        model=span.model,
        usage=span.usage,
        author=span.agent,
    )


def _looks_like_tool(span: Span) -> bool:
    """A span of no declared kind whose output is one tool message (LangGraph through OpenTelemetry)."""
    if span.kind != "other":
        return False
    output = as_json(span.outputs)
    return (
        isinstance(output, Mapping)
        and (output.get("type") == "tool" or output.get("role") == "tool")
        and (output.get("tool_call_id") is not None or output.get("name") == span.name)
    )


def _unwrapped(value: Any) -> Any:
    """Arguments as the tool got them: tracers wrap them in `input`, `kwargs`, `arguments`."""
    value = as_json(value)
    if isinstance(value, Mapping):
        if set(value) <= {"args", "kwargs"} and value:
            kwargs, args = value.get("kwargs"), value.get("args")
            if isinstance(kwargs, Mapping) and (kwargs or not args):
                return kwargs
            return args if args else {}
        if len(value) == 1:
            inner = as_json(next(iter(value.values())))
            inner = _python_dict(inner) if isinstance(inner, str) else inner
            if next(iter(value)) in (
                "input",
                "arguments",
                "inputs",
                "tool_input",
                "tool_arguments",
                "args",
                "input_str",
            ) and (isinstance(inner, Mapping)):
                return inner
    if isinstance(value, str):
        return _python_dict(value)
    return value


def _python_dict(text: str) -> Any:
    """LangChain hands a tracer the arguments as `str(dict)`."""
    if text[:1] != "{" or text[-1:] != "}" or len(text) > 100_000:
        return text
    import ast

    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def _tool_run(history: History, span: Span) -> None:
    start, end = when(span.start), when(span.end)
    call_id = span.call_id
    output = as_json(span.outputs)
    result = ResultPart(content=output, call_id=call_id)
    told = find_messages(output, "tool") if isinstance(output, Mapping | list) else []
    part = next((part for message in told for part in message.results), None)
    if part is not None and len(told) == 1:
        result = part
        call_id = result.call_id = call_id or part.call_id
    elif isinstance(output, Mapping) and set(output) <= {
        "content",
        "isError",
        "is_error",
        "structuredContent",
        "_meta",
    }:
        flag = output.get("isError", output.get("is_error"))
        texts = find_messages({"role": "tool", **output}, "tool")
        if texts and texts[0].results:
            result.content = texts[0].results[0].content
        result.is_error = flag if isinstance(flag, bool) else None
    elif isinstance(output, Mapping) and set(output) == {"output"}:
        result.content = as_json(output["output"])
    if span.failed:
        result.is_error = True
        result.error = span.error or result.error
        if result.content is None:
            result.content = span.error
    call = CallPart(span.tool or span.name, _unwrapped(span.inputs), call_id)
    missing = span.outputs is None and not span.failed and end is None
    duration = (end - start).total_seconds() * 1000 if start and end and end >= start else None
    history.tool_run(
        call, None if missing else result, at=end or start, line=span.line, started_at=start, duration_ms=duration,
        author=span.agent,
    )  # fmt: skip


def _without_model_calls(trace: Trace, roots: list[Span]) -> None:
    """Fill in what only the outermost span tells: the whole talk, or the question at least."""
    history = trace.history
    said = any(entry.message.role == "assistant" and entry.message.text for entry in history.entries)
    asked = any(entry.message.role == "user" and entry.message.text for entry in history.entries)
    for root in roots:
        if root.kind in ("llm", "tool") or _looks_like_tool(root):
            continue
        inputs = find_messages(root.inputs, "user")
        if not asked:
            count = len(history.entries)
            if not inputs and root.inputs not in (None, "", {}, []):
                inputs = [Message(role="user", text=text_of(root.inputs))]
            history.request(
                [m for m in inputs if m.role in ("user", "system")], at=when(root.start), line=root.line
            )
            fresh, history.entries[count:] = history.entries[count:], []
            history.entries[:0] = fresh
        if not said:
            outputs = find_messages(root.outputs, "assistant")
            if not outputs and root.outputs not in (None, "", {}, []):
                outputs = [Message(role="assistant", text=text_of(root.outputs))]
            history.request(
                [m for m in outputs if not is_tool_definition(m)], at=when(root.end), line=root.line
            )
    first = next(
        (e.message.text for e in history.entries if e.message.role == "user" and e.message.text), None
    )
    trace.task = first


def sessions_of(
    spans: Iterable[Span],
    source: TranscriptFile,
    report: ReadReport,
    name: str,
    *,
    notes: Iterable[str] = (),
    **fields: Any,
) -> Iterator[Session]:
    """The sessions that a file's spans tell of; a trace without a word or a call is set aside.

    Args:
        name: the format's name.
        notes: what the reader has to say about each session.
        fields: fields of `Session` that the tracer tells beside its spans.
    """
    for number, trace in enumerate(traces_of(spans)):
        if not trace.history.entries:
            report.put_aside(source.file, trace.line, "a trace without messages and tool runs")
            continue
        session_id = trace.id or source.session_id(number if number else "")
        build = SessionBuilder(
            source.file, session_id, format=name, line=trace.line, agent=trace.agent or "", **fields
        )
        for note in (*notes, *trace.notes):
            build.note(note)
        tell(build, trace.history.entries, report)
        about: dict[str, Any] = {"task": trace.task}
        if trace.failed:
            about["outcome"] = "failure"
            if trace.error:
                build.note(f"the trace ended in an error: {trace.error[:200]}")
        if trace.started is not None:
            about["started_at"] = trace.started
        if trace.ended is not None:
            about["ended_at"] = trace.ended
        about["started_at"] = about.get("started_at") or build.time(fields.get("started_at"))
        yield build.build(**about)
