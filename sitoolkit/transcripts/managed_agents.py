"""Anthropic managed-agent sessions: in comes a log of the sessions API (requests sent, events streamed), out goes one session.

Where defined: the beta sessions API of Anthropic (`client.beta.sessions.events`). Seen: pairs `[method, body]` a line, as
LangSmith's tests record them (2026-07), and bare events. An event that was sent comes back in the stream; it counts once.
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

NAME = "anthropic-sessions"
ALIASES = ("managed-agents",)
_QUIET = ("session.", "span.model_request_start", "agent.thinking", "agent.thread_")


def sniff(head: Head) -> Match | None:
    """Told by `client.beta.sessions…` lines, or by events such as agent.tool_use and session.status_idle."""
    for value in head.values[:8]:
        if isinstance(value, list) and len(value) == 2 and str(value[0]).startswith("client.beta.sessions"):
            return Match(0.96, f"lines of the sessions API: {value[0]}")
    kinds = {str(r.get("type")) for r in head.dicts}
    if kinds & {"agent.tool_use", "agent.custom_tool_use", "agent.message"} and any(
        "processed_at" in r for r in head.dicts
    ):
        return Match(0.93, "events of the sessions API: agent.* with processed_at")
    return None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """One session a file."""
    build = SessionBuilder(source.file, source.session_id(), format=NAME)
    sent: list[tuple[str, str]] = []  # events sent and not yet seen in the stream
    for line, record in source.records(report):
        if isinstance(record, list) and len(record) == 2 and isinstance(record[0], str):
            _pair(build, report, sent, record[0], record[1], line)
        elif isinstance(record, Mapping):
            _event(build, report, record, line)
        else:
            report.put_aside(source.file, line, f"a record that is {type(record).__name__}, not an event")
    if not build.empty:
        yield build.build()


def _pair(
    build: SessionBuilder, report: ReadReport, sent: list[tuple[str, str]], method: str, body: Any, line: int
) -> None:
    if method.endswith("sessions.create") and isinstance(body, Mapping):
        agent = body["agent"] if isinstance(body.get("agent"), Mapping) else {}
        if isinstance(body.get("id"), str):
            build.session_id = body["id"]
        build.fields["agent"] = agent["name"] if isinstance(agent.get("name"), str) else ""
        model = agent.get("model")
        model = model.get("id") if isinstance(model, Mapping) else model
        if isinstance(model, str):
            build.fields["model"] = model
        if isinstance(agent.get("system"), str):
            build.turn("system", agent["system"], at=body.get("created_at"), line=line)
    elif method.endswith("events.send") and isinstance(body, list):
        events = body[-1].get("events") if body and isinstance(body[-1], Mapping) else None
        for event in events if isinstance(events, list) else ():
            if isinstance(event, Mapping):
                sent.append(_key(event))
                _event(build, report, event, line)
    elif isinstance(body, Mapping):
        if _key(body) in sent:
            sent.remove(_key(body))
            build.time(body.get("processed_at"))
            if body.get("type") in ("user.custom_tool_result", "user.tool_result") and isinstance(
                body.get("is_error"), bool
            ):
                build.evidence(
                    str(body.get("custom_tool_use_id") or body.get("tool_use_id")), is_error=body["is_error"]
                )
            return
        _event(build, report, body, line)
    else:
        report.unknown(method)


def _key(event: Mapping[str, Any]) -> tuple[str, str]:
    told = event.get("custom_tool_use_id") or event.get("tool_use_id") or ""
    return str(event.get("type")), f"{told}{text_of(event.get('content'))}"


def _event(build: SessionBuilder, report: ReadReport, event: Mapping[str, Any], line: int) -> None:
    kind, at = str(event.get("type")), event.get("processed_at", event.get("created_at"))
    text = text_of(event.get("content"))
    if kind == "user.message":
        build.turn("user", text, at=at, line=line)
    elif kind == "agent.message":
        build.turn("assistant", text, at=at, line=line)
    elif kind in ("agent.tool_use", "agent.custom_tool_use", "agent.mcp_tool_use"):
        call = build.call(
            str(event.get("name") or ""), event.get("input"), call_id=event.get("id"), at=at, line=line
        )
        if event.get("evaluated_permission") == "deny":
            build.evidence(call, status="denied", typed_error="PermissionDenied")
    elif kind in (
        "agent.tool_result",
        "agent.mcp_tool_result",
        "user.custom_tool_result",
        "user.tool_result",
    ):
        told = event.get("tool_use_id") or event.get("custom_tool_use_id") or event.get("mcp_tool_use_id")
        flag = event.get("is_error")
        build.result(
            text, call_id=told if isinstance(told, str) else None, at=at, line=line,
            is_error=flag if isinstance(flag, bool) else None,
        )  # fmt: skip
    elif kind == "user.tool_confirmation":
        build.note(f"the user answered a permission question: {event.get('result')}")
    elif kind == "span.model_request_end":
        build.usage(
            str(event.get("model_request_start_id") or event.get("id")), **usage_of(event.get("model_usage"))
        )
    elif kind in ("user.interrupt",):
        build.note("the user interrupted the session")
    elif kind == "session.error":
        build.note(f"session error: {text_of(event.get('error'))[:200]}")
        build.fields["outcome"] = "failure"
    elif not kind.startswith(_QUIET):
        report.unknown(kind)
