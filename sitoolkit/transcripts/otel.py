"""OpenTelemetry and OpenInference spans: in come spans of any exporter, out goes a session for each trace or conversation.

Where defined: the OTLP JSON encoding (`resourceSpans`), the console exporters of the SDKs, Arize Phoenix's span export,
and the attribute names that `otel_attributes` lists. Seen: OTLP JSON and JSON lines, Phoenix spans (flat and nested
attributes), console spans, and bare attribute mappings of one span.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.otel_attributes import flat_attributes, is_genai, span_of
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile
from sitoolkit.transcripts.spans import Span, sessions_of

__all__ = ["NAME", "read", "sniff"]

NAME = "otel"
ALIASES = ("openinference", "otlp", "opentelemetry", "phoenix")
_MARKS = ("gen_ai.", "llm.", "openinference.", "traceloop.", "gen_ai", "ai.operationId")


def sniff(head: Head) -> Match | None:
    """Told by `resourceSpans`, by spans with a context and attributes, or by GenAI attribute names."""
    for value in head.dicts[:8]:
        if any(str(key).startswith("attributes.") for key in value) and "context.span_id" in value:
            return Match(0.93, "rows of a span table: attributes.* and context.span_id")
        if "resourceSpans" in value or "resource_spans" in value:
            return Match(0.97, "OTLP JSON: resourceSpans")
        if "scopeSpans" in value:
            return Match(0.95, "OTLP JSON: scopeSpans")
        if isinstance(value.get("attributes"), Mapping | list) and _has_identity(value):
            marked = is_genai(flat_attributes(value["attributes"]))
            return Match(0.92 if marked else 0.6, "spans with attributes, a name and span ids")
        if isinstance(value.get("spans"), list) and any(
            isinstance(span, Mapping) and "attributes" in span for span in value["spans"][:3]
        ):
            return Match(0.85, "a trace that holds spans with attributes")
        if any(str(key).startswith(_MARKS) for key in value):
            return Match(0.9, "GenAI or OpenInference attribute names")
    return None


def _has_identity(value: Mapping[str, Any]) -> bool:
    return any(key in value for key in ("context", "spanId", "span_id", "span_kind", "traceId", "trace_id"))


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """A session for each trace, or for each conversation where the spans name it."""
    spans: list[Span] = []
    for line, record in source.items(report):
        before = len(spans)
        spans.extend(_spans(record, line, 0))
        if len(spans) == before:
            report.put_aside(source.file, line, "a record that is no span")
    if spans:
        yield from sessions_of(spans, source, report, NAME)


def _spans(record: Any, line: int, depth: int) -> Iterator[Span]:
    if not isinstance(record, Mapping) or depth > 6:
        return
    if "context.span_id" in record and "attributes" not in record:
        record = _unflattened(record)
    for key in (
        "resourceSpans",
        "resource_spans",
        "scopeSpans",
        "scope_spans",
        "instrumentationLibrarySpans",
        "spans",
    ):
        inner = record.get(key)
        if isinstance(inner, list):
            for item in inner:
                yield from _spans(item, line, depth + 1)
            return
    if isinstance(record.get("data"), list) and "attributes" not in record:
        for item in record["data"]:
            yield from _spans(item, line, depth + 1)
    elif isinstance(record.get("attributes"), Mapping | list):
        yield _span(record, line)
    elif any(str(key).startswith(_MARKS) for key in record):
        yield _bare(record, line)
    elif _has_identity(record) and "name" in record:
        yield _span({**record, "attributes": {}}, line)


def _unflattened(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of Phoenix's span table as a span."""
    span: dict[str, Any] = {"attributes": {}, "context": {}}
    for key, value in row.items():
        outer, dot, inner = str(key).partition(".")
        if dot and outer in span:
            span[outer][inner] = value
        elif key not in span:
            span[str(key)] = value
    return span


def _bare(record: Mapping[str, Any], line: int) -> Span:
    span = span_of(flat_attributes(record))
    span.line = line
    return span


def _span(raw: Mapping[str, Any], line: int) -> Span:
    flat = flat_attributes(raw["attributes"])
    events = raw["events"] if isinstance(raw.get("events"), list) else ()
    span = span_of(flat, name=str(raw.get("name") or ""), events=events, declared_kind=raw.get("span_kind"))
    context = raw["context"] if isinstance(raw.get("context"), Mapping) else {}
    span.id = _id(_first(raw, "spanId", "span_id") or context.get("span_id") or context.get("spanId"))
    span.parent = _id(_first(raw, "parentSpanId", "parent_span_id", "parent_id", "parentId"))
    span.trace = _id(_first(raw, "traceId", "trace_id") or context.get("trace_id") or context.get("traceId"))
    span.start = _first(
        raw, "startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime", "timestamp"
    )
    span.end = _first(raw, "endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime")
    span.line = line
    status = raw.get("status", raw.get("status_code", raw.get("statusCode")))
    message = raw.get("status_message", raw.get("statusMessage"))
    if isinstance(status, Mapping):
        message = _first(status, "message", "description") or message
        status = _first(status, "code", "status_code", "statusCode")
    if status in (2, "2") or str(status).upper().endswith("ERROR"):
        span.failed = True
        span.error = span.error if span.error and not message else (str(message) if message else span.error)
    elif status in (1, "1") or str(status).upper().endswith("OK"):
        span.failed = False
    return span


def _first(mapping: Mapping[str, Any], *names: str) -> Any:
    for name in names:
        if mapping.get(name) not in (None, ""):
            return mapping[name]
    return None


def _id(value: Any) -> str | None:
    return value.removeprefix("0x") if isinstance(value, str) and value.strip("0x") else None
