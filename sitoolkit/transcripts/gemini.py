"""Gemini's generateContent: contents with parts, as a request's body, a list, or a content a line.

Defined by the Gemini API reference (`functionCall`, `functionResponse`, `executableCode`, `codeExecutionResult`; the Python SDK
writes the same names in snake case); seen: v1beta, 2024-2026. Calls often carry no id: name and position pair them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import (
    Head,
    Match,
    ReadReport,
    SessionBuilder,
    TranscriptFile,
    as_list,
    content_text,
    record_type,
)
from sitoolkit.transcripts.chat import usage_of
from sitoolkit.transcripts.openai import fields_of, session_name

__all__ = ["NAME", "add_content", "read", "sniff"]

NAME = "gemini-api"
ALIASES = ("gemini", "google", "generate-content")
_OUTCOMES = {
    "OUTCOME_OK": "ok", "OUTCOME_FAILED": "failed", "OUTCOME_DEADLINE_EXCEEDED": "timeout",
    1: "ok", 2: "failed", 3: "timeout",
}  # fmt: skip


def _is_content(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("parts"), list)
        and value.get("role") in ("user", "model", "function", "tool", None)
    )


def sniff(head: Head) -> Match | None:
    first = head.first
    if isinstance(first, list) and first and all(_is_content(value) for value in first[:8]):
        return Match(0.75, "a list of contents with parts")
    for value in head.dicts[:4]:
        contents = value.get("contents")
        if isinstance(contents, list) and contents and _is_content(contents[0]):
            return Match(0.8, "contents with parts")
        candidates = value.get("candidates")
        if (
            isinstance(candidates, list)
            and candidates
            and isinstance(candidates[0], dict)
            and _is_content(candidates[0].get("content"))
        ):
            return Match(0.8, "candidates with content parts")
    if head.layout == "lines" and head.dicts and all(_is_content(value) for value in head.dicts[:8]):
        return Match(0.7, "a content with parts on each line")
    return None


def read(source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
    build: SessionBuilder | None = None
    seen: set[int] = set()
    for line, value in source.items(report):
        if isinstance(value, list) or (
            isinstance(value, dict) and ("contents" in value or "candidates" in value)
        ):
            about = value if isinstance(value, dict) else {}
            one = SessionBuilder(
                source.file,
                session_name(source, about, line, seen),
                format=NAME,
                line=line,
                **fields_of(about),
            )
            add_system(one, about, line)
            contents = value if isinstance(value, list) else about.get("contents") or []
            for content in contents if isinstance(contents, list) else [contents]:
                add_content(one, content, report, line)
            add_response(one, about, report, line)
            yield one.build()
        elif _is_content(value):
            if build is None:
                build = SessionBuilder(source.file, source.session_id(), format=NAME, line=line)
            add_content(build, value, report, line)
        else:
            report.unknown(record_type(value))
    if build is not None:
        yield build.build()


def add_system(build: SessionBuilder, body: dict[str, Any], line: int | None) -> None:
    """Add the system instruction of a request."""
    system = body.get("systemInstruction") or body.get("system_instruction")
    if isinstance(system, dict):
        build.turn("system", content_text(system.get("parts")), line=line)
    elif isinstance(system, str):
        build.turn("system", system, line=line)


def add_response(build: SessionBuilder, body: dict[str, Any], report: ReadReport, line: int | None) -> None:
    """Add the first candidate of a response, with its usage."""
    candidates = body.get("candidates")
    if isinstance(candidates, list) and candidates and isinstance(candidates[0], dict):
        content = candidates[0].get("content")
        if isinstance(content, dict):
            add_content(build, {"role": "model", **content}, report, line)
    build.usage(**usage_of(body.get("usageMetadata") or body.get("usage_metadata")))
    if isinstance(body.get("modelVersion"), str):
        build.fields["model"] = body["modelVersion"]


def add_content(build: SessionBuilder, content: Any, report: ReadReport, line: int | None) -> None:
    """Add one content: its text as a turn, its calls and responses."""
    if not isinstance(content, dict):
        report.unknown(f"content:{record_type(content)}")
        return
    parts = [part for part in as_list(content.get("parts")) if isinstance(part, dict)]
    spoken = [part for part in parts if not part.get("thought") and _name_of(part) is None]
    text = content_text(spoken)
    for part in parts:
        answer = part.get("functionResponse", part.get("function_response"))
        if isinstance(answer, dict):
            _response(build, answer, line)
    if content.get("role") == "model":
        build.turn("assistant", text, line=line)
        for part in parts:
            _call(build, part, line)
    elif text:
        build.turn("user", text, line=line)


def _name_of(part: dict[str, Any]) -> str | None:
    for name in (
        "functionCall",
        "function_call",
        "functionResponse",
        "function_response",
        "executableCode",
        "executable_code",
    ):
        if isinstance(part.get(name), dict):
            return name
    return (
        "result"
        if isinstance(part.get("codeExecutionResult", part.get("code_execution_result")), dict)
        else None
    )


def _call(build: SessionBuilder, part: dict[str, Any], line: int | None) -> None:
    call = part.get("functionCall", part.get("function_call"))
    if isinstance(call, dict):
        build.call(str(call.get("name") or ""), call.get("args"), call_id=call.get("id"), line=line)
        return
    code = part.get("executableCode", part.get("executable_code"))
    if isinstance(code, dict):
        build.call(
            "code_execution",
            {"language": code.get("language"), "code": code.get("code")},
            call_id=code.get("id"),
            line=line,
        )
        return
    ran = part.get("codeExecutionResult", part.get("code_execution_result"))
    if isinstance(ran, dict):
        build.result(
            ran.get("output") or "",
            call_id=ran.get("id"),
            tool="code_execution",
            line=line,
            status=_OUTCOMES.get(ran.get("outcome")),
        )


def _response(build: SessionBuilder, answer: dict[str, Any], line: int | None) -> None:
    value = answer.get("response")
    if isinstance(value, dict) and len(value) == 1:
        key, inner = next(iter(value.items()))
        if key in ("output", "result", "return_value", "content"):
            value = inner
    build.result("" if value is None else value, call_id=answer.get("id"), tool=answer.get("name"), line=line)
