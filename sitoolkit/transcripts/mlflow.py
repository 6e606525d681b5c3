"""MLflow traces: in comes a trace as MLflow exports it, or a list of them, out goes a session for each.

Where defined: mlflow/mlflow, `mlflow/entities/trace.py` (`Trace.to_json`). Versions seen: 2 (spans with `context`,
`start_time` in nanoseconds, `status_code`) and 3 (spans with `trace_id`, `start_time_unix_nano`, `status`). Attribute
values are JSON texts; `mlflow.spanType` names the kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import as_json, unquoted
from sitoolkit.transcripts.otel_attributes import flat_attributes, span_of
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile
from sitoolkit.transcripts.spans import Span, sessions_of

__all__ = ["NAME", "read", "sniff"]

NAME = "mlflow"


def sniff(head: Head) -> Match | None:
    """Told by `info` beside `data.spans`, or by spans with `mlflow.` attributes."""
    for value in head.dicts[:4]:
        data = as_json(value.get("data", value.get("trace")))
        if isinstance(data, Mapping) and "data" in data:
            data = data["data"]
        if isinstance(data, Mapping) and isinstance(data.get("spans"), list) and (
            "info" in value or _mlflow_spans(data["spans"])
        ):  # fmt: skip
            return Match(0.96, "an MLflow trace: info and data.spans")
        if _mlflow_spans(value.get("spans")) or _mlflow_spans([value]):
            return Match(0.9, "spans with mlflow.* attributes")
    return None


def _mlflow_spans(spans: Any) -> bool:
    if not isinstance(spans, list):
        return False
    return any(
        isinstance(span, Mapping)
        and isinstance(span.get("attributes"), Mapping)
        and any(str(key).startswith("mlflow.") for key in span["attributes"])
        for span in spans[:4]
    )


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """A session for each trace."""
    loose: list[Span] = []
    for line, record in source.items(report):
        if not isinstance(record, Mapping):
            report.put_aside(source.file, line, f"a record that is {type(record).__name__}, not a trace")
            continue
        trace = as_json(record["trace"]) if "trace" in record else record
        trace = trace if isinstance(trace, Mapping) else record
        data = as_json(trace.get("data"))
        spans = data.get("spans") if isinstance(data, Mapping) else trace.get("spans")
        if isinstance(spans, list):
            info = trace["info"] if isinstance(trace.get("info"), Mapping) else {}
            yield from _trace(source, report, info, data if isinstance(data, Mapping) else {}, spans, line)
        elif "attributes" in record:
            loose.append(_span(record, line))
        else:
            report.put_aside(source.file, line, "a record without spans")
    if loose:
        yield from sessions_of(loose, source, report, NAME)


def _trace(
    source: TranscriptFile,
    report: ReadReport,
    info: Mapping[str, Any],
    data: Mapping[str, Any],
    spans: list[Any],
    line: int,
) -> Iterator[Session]:
    made = [_span(span, line) for span in spans if isinstance(span, Mapping)]
    trace_id = info.get("trace_id") or info.get("request_id")
    for span in made:
        if isinstance(trace_id, str):
            span.trace = trace_id
    metadata = info.get("trace_metadata", info.get("request_metadata"))
    notes = []
    if isinstance(metadata, Mapping) and isinstance(metadata.get("mlflow.trace.session"), str):
        notes.append(f"MLflow session {metadata['mlflow.trace.session']}")
    for span in made:
        span.conversation = None
    if not made and not data:
        report.put_aside(source.file, line, "a trace without spans")
        return
    state = info.get("state", info.get("status"))
    root = Span(trace=trace_id if isinstance(trace_id, str) else None, inputs=unquoted(data.get("request")),
                outputs=unquoted(data.get("response")), failed=state == "ERROR", line=line)  # fmt: skip
    yield from sessions_of([*made, root], source, report, NAME, notes=notes)


def _span(raw: Mapping[str, Any], line: int) -> Span:
    flat = flat_attributes(raw.get("attributes"))
    for key, value in flat.items():  # values are JSON texts, also those that are plain words
        if key.startswith("mlflow.") and isinstance(value, str) and value[:1] == '"' and value[-1:] == '"':
            flat[key] = unquoted(value)
        elif key.startswith("mlflow.") and value == "null":
            flat[key] = None
    events = raw["events"] if isinstance(raw.get("events"), list) else ()
    span = span_of(flat, name=str(raw.get("name") or ""), events=events, declared_kind=raw.get("span_type"))
    context = raw["context"] if isinstance(raw.get("context"), Mapping) else {}
    status = raw.get("status", raw.get("status_code"))
    code = str(status.get("code") if isinstance(status, Mapping) else status)
    message = status.get("message") if isinstance(status, Mapping) else raw.get("status_message")
    span.id = _text(raw.get("span_id") or context.get("span_id"))
    span.parent = _text(raw.get("parent_span_id") or raw.get("parent_id"))
    span.trace = _text(raw.get("trace_id") or context.get("trace_id"))
    span.start = raw.get("start_time_unix_nano", raw.get("start_time"))
    span.end = raw.get("end_time_unix_nano", raw.get("end_time"))
    span.line = line
    if code.upper().endswith("ERROR"):
        span.failed = True
        span.error = _text(message) or span.error
    return span


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
