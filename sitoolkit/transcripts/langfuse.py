"""Langfuse exports: in comes a trace with its observations, or a list of either, out goes a session for each trace.

Where defined: langfuse/langfuse, the public API's `TraceWithFullDetails` and `Observation`, and the UI's export
(`{trace, observations}`). Seen: exports of 2024-05 to 2025-12 from eight frameworks; observation types GENERATION, SPAN,
EVENT and (since 2025-09) AGENT, TOOL, CHAIN, RETRIEVER, EVALUATOR, EMBEDDING, GUARDRAIL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import as_json, unquoted
from sitoolkit.transcripts.otel_attributes import flat_attributes
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile
from sitoolkit.transcripts.spans import Span, sessions_of

__all__ = ["NAME", "read", "sniff"]

NAME = "langfuse"
_KINDS = {"GENERATION": "llm", "TOOL": "tool", "AGENT": "agent"}
_TYPES = frozenset([*_KINDS, "SPAN", "EVENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"])
_OTEL_KINDS = {"LLM": "llm", "TOOL": "tool", "AGENT": "agent"}
_VERDICTS = (
    "reward",
    "success",
    "correctness",
    "correct",
    "accuracy",
    "score",
    "pass",
    "task_success",
    "resolved",
)


def sniff(head: Head) -> Match | None:
    """Told by observations with a type, a start and a trace id."""
    for value in head.dicts[:4]:
        if isinstance(value.get("observations"), list) and (
            "trace" in value or any(map(_is_observation, value["observations"][:3])) or "projectId" in value
        ):
            return Match(0.95, "a Langfuse trace with its observations")
        if _is_observation(value):
            return Match(0.9, f"a Langfuse observation of type {value['type']}")
        if "input" not in value and value and all(_is_parsed(item) for item in value.values()):
            return None
    return None


def _is_parsed(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) <= {"input", "output"}


def _is_observation(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and value.get("type") in _TYPES
        and ("traceId" in value or "parentObservationId" in value)
        and ("startTime" in value or "level" in value)
    )


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """A session for each trace; observations that stand alone are grouped by their trace."""
    loose: list[Span] = []
    for line, record in source.items(report):
        if _is_observation(record):
            loose.append(_span(record, line))
        elif isinstance(record, Mapping) and isinstance(record.get("observations"), list):
            trace = record["trace"] if isinstance(record.get("trace"), Mapping) else record
            spans = [_span(item, line) for item in record["observations"] if isinstance(item, Mapping)]
            yield from _trace(source, report, trace, spans, line)
        elif isinstance(record, Mapping) and isinstance(record.get("data"), list):  # a page of the API
            loose.extend(_span(item, line) for item in record["data"] if _is_observation(item))
        else:
            report.put_aside(source.file, line, "a record without observations")
    if loose:
        yield from sessions_of(loose, source, report, NAME)


def _trace(
    source: TranscriptFile, report: ReadReport, trace: Mapping[str, Any], spans: list[Span], line: int
) -> Iterator[Session]:
    trace_id = trace.get("id")
    root = Span(
        id=None, trace=trace_id if isinstance(trace_id, str) else None, kind="other", name=str(trace.get("name") or ""),
        inputs=unquoted(trace.get("input")), outputs=unquoted(trace.get("output")), line=line,
    )  # fmt: skip
    for span in spans:
        span.trace = span.trace or root.trace
        span.conversation = None
    fields: dict[str, Any] = {}
    notes = []
    for score in trace["scores"] if isinstance(trace.get("scores"), list) else ():
        if not isinstance(score, Mapping):
            continue
        name, value = str(score.get("name")), score.get("value")
        notes.append(f"score {name}: {value if value is not None else score.get('stringValue')}")
        if name.lower() in _VERDICTS and isinstance(value, int | float) and not isinstance(value, bool):
            fields["reward"] = float(value)
    session_id = trace.get("sessionId")
    if isinstance(session_id, str) and session_id:
        notes.append(f"Langfuse session {session_id}")
    yield from sessions_of(
        [*spans, root], source, report, NAME, notes=notes, started_at=trace.get("timestamp"), **fields
    )


def _span(observation: Mapping[str, Any], line: int) -> Span:
    metadata = as_json(observation.get("metadata"))
    attributes = flat_attributes(as_json(metadata.get("attributes"))) if isinstance(metadata, Mapping) else {}
    kind = _KINDS.get(str(observation.get("type")), "other")
    if kind == "other":
        told = attributes.get("openinference.span.kind") or attributes.get("gen_ai.operation.name")
        kind = _OTEL_KINDS.get(str(told).upper(), "tool" if told == "execute_tool" else "other")
    usage = observation.get("usageDetails") or observation.get("usage")
    amounts = dict(usage) if isinstance(usage, Mapping) else {}
    cost = observation.get("totalCost", observation.get("calculatedTotalCost"))
    if isinstance(cost, int | float) and cost:
        amounts["cost_usd"] = cost
    level = observation.get("level")
    message = observation.get("statusMessage")
    return Span(
        id=_text(observation.get("id")), parent=_text(observation.get("parentObservationId")),
        trace=_text(observation.get("traceId")), kind=kind, name=str(observation.get("name") or ""),
        start=observation.get("startTime"), end=observation.get("endTime"), failed=level == "ERROR",
        error=_text(message) if level in ("ERROR", "WARNING") else None,
        inputs=observation.get("input"), outputs=observation.get("output"), model=_text(observation.get("model")),
        usage=amounts or None, tool=_text(attributes.get("gen_ai.tool.name") or attributes.get("tool.name")),
        call_id=_text(attributes.get("gen_ai.tool.call.id") or attributes.get("ai.toolCall.id")),
        agent=_text(observation.get("name")) if observation.get("type") == "AGENT" else None, line=line,
    )  # fmt: skip


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
