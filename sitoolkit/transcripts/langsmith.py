"""LangSmith runs: in come runs, or the operations that a client posted, out goes a session for each trace.

Where defined: langchain-ai/langsmith-sdk, `schemas.py` (`Run`, `RunBase`) and the batch ingest body `{post, patch}`. Seen:
operations of SDK 0.1 (2024-10) and 0.4, exported runs as a list, as JSON lines, and as a tree with `child_runs`.
A patch adds to the run that was posted with its id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Match
from sitoolkit.transcripts.dialects import as_json
from sitoolkit.transcripts.source import Head, ReadReport, TranscriptFile
from sitoolkit.transcripts.spans import Span, sessions_of

__all__ = ["NAME", "read", "sniff"]

NAME = "langsmith"
_RUN_TYPES = frozenset(["llm", "chain", "tool", "retriever", "embedding", "prompt", "parser"])
_KINDS = {"llm": "llm", "tool": "tool"}


def sniff(head: Head) -> Match | None:
    """Told by runs with `run_type`, by `post` and `patch` lists of them, or by `dotted_order`."""
    for value in head.dicts[:4]:
        if any(_has_runs(value.get(key)) for key in ("post", "patch")):
            return Match(0.95, "LangSmith run operations: post and patch lists of runs")
        if value.get("run_type") in _RUN_TYPES and ("inputs" in value or "trace_id" in value):
            return Match(0.95, "LangSmith runs: run_type with inputs")
        if "dotted_order" in value and "trace_id" in value:
            return Match(0.9, "LangSmith run operations: dotted_order and trace_id")
        if _has_runs(value.get("runs")):
            return Match(0.9, "a list of LangSmith runs")
    return None


def _has_runs(value: Any) -> bool:
    return isinstance(value, list) and any(
        isinstance(item, Mapping) and ("run_type" in item or "dotted_order" in item) for item in value[:4]
    )


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    """A session for each trace in the file."""
    runs: dict[str, dict[str, Any]] = {}
    lines: dict[str, int] = {}
    for line, record in source.items(report):
        if not isinstance(record, Mapping):
            report.put_aside(source.file, line, f"a record that is {type(record).__name__}, not a run")
            continue
        batches = [record[key] for key in ("post", "patch", "runs") if isinstance(record.get(key), list)]
        for run in [item for batch in batches for item in batch] if batches else [record]:
            if isinstance(run, Mapping):
                _take(runs, lines, run, line, 0)
            else:
                report.put_aside(source.file, line, "an operation without a run")
    spans = [_span(run, lines[key]) for key, run in runs.items()]
    if spans:
        yield from sessions_of(spans, source, report, NAME)


def _take(
    runs: dict[str, dict[str, Any]], lines: dict[str, int], run: Mapping[str, Any], line: int, depth: int
) -> None:
    key = str(run.get("id") or f"line {line}.{len(runs)}")
    known = runs.setdefault(key, {})
    lines.setdefault(key, line)
    for name, value in run.items():
        if name == "child_runs":
            continue
        if value is not None and not (name in known and value in ("", [], {})):
            known[name] = value
    for child in run["child_runs"] if isinstance(run.get("child_runs"), list) and depth < 64 else ():
        if isinstance(child, Mapping):
            _take(
                runs,
                lines,
                {"parent_run_id": run.get("id"), "trace_id": run.get("trace_id"), **child},
                line,
                depth + 1,
            )


def _span(run: Mapping[str, Any], line: int) -> Span:
    extra = run["extra"] if isinstance(run.get("extra"), Mapping) else {}
    metadata = extra["metadata"] if isinstance(extra.get("metadata"), Mapping) else {}
    params = extra["invocation_params"] if isinstance(extra.get("invocation_params"), Mapping) else {}
    inputs, outputs = as_json(run.get("inputs")), as_json(run.get("outputs"))
    kind = _KINDS.get(str(run.get("run_type")), "other")
    model = metadata.get("ls_model_name") or params.get("model") or params.get("model_name")
    usage = None
    if isinstance(outputs, Mapping):
        usage = outputs.get("usage_metadata") or outputs.get("usage")
        if not isinstance(usage, Mapping) and isinstance(outputs.get("llm_output"), Mapping):
            usage = outputs["llm_output"].get("token_usage")
        if kind == "llm" and isinstance(outputs.get("model"), str):
            model = outputs["model"]
    if not isinstance(usage, Mapping):
        usage = {key: run.get(key) for key in ("prompt_tokens", "completion_tokens", "total_cost")}
    if isinstance(outputs, Mapping) and kind == "tool" and set(outputs) <= {"output", "error"}:
        outputs = outputs.get("output")
    error = run.get("error")
    thread = metadata.get("session_id") or metadata.get("thread_id") or metadata.get("conversation_id")
    tool_call = inputs.get("tool_call_id") if isinstance(inputs, Mapping) and kind == "tool" else None
    return Span(
        id=_text(run.get("id")), parent=_text(run.get("parent_run_id")), trace=_text(run.get("trace_id")) or _root(run),
        kind=kind, name=str(run.get("name") or ""), start=run.get("start_time"), end=run.get("end_time"),
        failed=bool(error) or run.get("status") == "error", error=_text(error),
        inputs=inputs, outputs=outputs or None, model=_text(model), usage=usage, call_id=_text(tool_call),
        agent=_text(metadata.get("lc_agent_name") or metadata.get("ls_agent_name")), conversation=_text(thread), line=line,
    )  # fmt: skip


def _root(run: Mapping[str, Any]) -> str | None:
    """Without a trace id the first part of the dotted order names the trace; a run without a parent is its own."""
    order = run.get("dotted_order")
    if isinstance(order, str) and "Z" in order:
        return order.split(".")[0].partition("Z")[2] or None
    return _text(run.get("id")) if not run.get("parent_run_id") else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
