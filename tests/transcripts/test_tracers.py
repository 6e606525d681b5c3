"""Langfuse, LangSmith, OpenTelemetry, OpenInference, MLflow, managed agents and ChatGPT exports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sitoolkit.transcripts.dialects import find_messages, read_message, usage_of
from sitoolkit.transcripts.otel_attributes import flat_attributes, nested
from tests.transcripts.wild import FIXTURES, reading, story


def test_langfuse_joins_a_tool_span_with_its_call() -> None:
    seen = reading("langfuse.json")
    assert seen.format == "langfuse"
    assert story(seen.only) == [("weather", "failure/NETWORK")]
    assert seen.only.calls[0].call_id == "k1" and not seen.only.calls[0].guessed
    assert seen.only.reward == 1.0 and seen.only.orphan_results == 0


def test_langsmith_runs_of_langchain() -> None:
    seen = reading("langsmith.jsonl")
    assert story(seen.only) == [("add", "success"), ("ping", "timeout/TIMEOUT")]
    assert (
        seen.only.calls[1].args == {"host": "x"}
        and "times without a zone were read as UTC" in seen.only.notes
    )


def test_langsmith_operations_add_to_the_run_that_was_posted() -> None:
    session = reading("langsmith_batch.json").only
    assert [turn.text for turn in session.turns] == ["Hi", "Hello"] and session.model == "m"


def test_otlp_with_current_names() -> None:
    session = reading("otel_otlp.json").only
    assert (session.id, session.agent, session.model) == ("conv-7", "ops", "m")
    assert story(session) == [("restart", "failure/PERM")] and session.calls[0].duration_ms == 1500
    assert session.usage is not None and session.usage.input_tokens == 9


def test_deprecated_names_and_message_events() -> None:
    seen = reading("otel_deprecated.json")
    assert [[turn.text for turn in s.turns] for s in seen.sessions] == [["Hi", ""], ["Ho", "Ha"]]
    assert story(seen.sessions[0]) == [("now", "unknown")]


def test_a_naive_time_is_kept_and_said_so() -> None:
    late = reading("otel_deprecated.json").sessions[1]
    assert late.started_at is not None and late.started_at.isoformat() == "2026-03-01T11:00:00+00:00"
    assert "times without a zone were read as UTC" in late.notes


def test_openinference_nested_attributes() -> None:
    session = reading("openinference.json").only
    assert (
        session.id == "oi-1"
        and story(session) == [("sum", "success")]
        and session.calls[0].args == {"x": [1]}
    )


def test_mlflow_both_versions() -> None:
    seen = reading("mlflow_3.json")
    assert seen.format == "mlflow" and story(seen.only) == [("look", "failure/RUNTIME")]
    assert [turn.text for turn in seen.only.turns] == ["Hi", "", "Ho"]
    assert story(reading("mlflow_2.json").only) == [("look", "success")]


def test_managed_agents_events_that_come_back_count_once() -> None:
    seen = reading("managed_agents.jsonl")
    assert story(seen.only) == [("w", "failure/RUNTIME")] and seen.only.orphan_results == 0
    assert [turn.text for turn in seen.only.turns] == ["S", "Go", "", "It failed"]
    assert seen.report.unknown_types == {"agent.novel": 1}


def test_chatgpt_branches() -> None:
    session = reading("chatgpt_conversations.json").only
    assert session.id == "cg-1" and story(session) == [("python", "failure/RUNTIME")]
    assert [turn.text for turn in session.turns if turn.abandoned] == ["given up"]


@pytest.mark.parametrize("order", [[3, 2, 1, 0], [1, 3, 0, 2]])
def test_the_order_of_spans_in_the_file_changes_nothing(order: list[int], tmp_path: Path) -> None:
    document = json.loads((FIXTURES / "langfuse.json").read_text())
    document["observations"] = [document["observations"][at] for at in order]
    path = tmp_path / "shuffled.json"
    path.write_text(json.dumps(document))
    told, again = reading("langfuse.json").only, reading(path).only
    assert [c.result for c in told.calls] == [c.result for c in again.calls] and story(told) == story(again)


@pytest.mark.parametrize(
    ("message", "role", "calls", "results"),
    [
        ({"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": 1}}}]}, "assistant", ["f"], 0),
        ({"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"r": 1}}}]}, "tool", [], 1),
        ({"role": "assistant", "content": [{"toolUse": {"toolUseId": "x", "name": "f", "input": {}}}]}, "assistant", ["f"], 0),
        ({"role": "user", "content": [{"toolResult": {"toolUseId": "x", "content": [{"text": "r"}], "status": "error"}}]}, "tool", [], 1),
        ({"type": "function_call", "call_id": "x", "name": "f", "arguments": "{}"}, "assistant", ["f"], 0),
        ({"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "x", "toolName": "f", "input": {}}]}, "assistant", ["f"], 0),
        ({"role": "tool", "content": [{"type": "tool-result", "toolCallId": "x", "toolName": "f", "output": {"type": "error-text", "value": "no"}}]}, "tool", [], 1),
        ({"message": {"role": "assistant", "tool_calls": [{"tool_call": {"id": "x", "function": {"name": "f", "arguments": ""}}}]}}, "assistant", ["f"], 0),
        ({"lc": 1, "id": ["a", "ToolMessage"], "kwargs": {"content": "r", "tool_call_id": "x", "additional_kwargs": {"status": "error"}}}, "tool", [], 1),
        ({"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}, "assistant", ["f"], 0),
    ],
)  # fmt: skip
def test_messages_of_any_dialect(
    message: dict[str, object], role: str, calls: list[str], results: int
) -> None:
    plain = read_message(message)
    assert plain.role == role
    assert [call.tool for call in plain.calls] == calls
    assert len(plain.results) == results


def test_errors_of_dialects_are_kept() -> None:
    bedrock = read_message(
        {"role": "user", "content": [{"toolResult": {"toolUseId": "x", "content": [], "status": "error"}}]}
    )
    vercel = read_message({"role": "tool", "content": [{"type": "tool-result", "toolCallId": "x", "toolName": "f",
                                                        "output": {"type": "error-text", "value": "no"}}]})  # fmt: skip
    langchain = read_message(
        {"type": "tool", "content": "e", "tool_call_id": "c", "additional_kwargs": {"status": "error"}}
    )
    assert (
        bedrock.results[0].is_error and vercel.results[0].is_error and langchain.results[0].status == "error"
    )


def test_small_helpers() -> None:
    assert nested(
        {"llm.input_messages.1.message.role": "b", "llm.input_messages.0.message.role": "a"},
        "llm.input_messages",
    ) == [
        {"message": {"role": "a"}},
        {"message": {"role": "b"}},
    ]
    assert flat_attributes(
        [
            {"key": "a", "value": {"intValue": "3"}},
            {"key": "b", "value": {"arrayValue": {"values": [{"stringValue": "x"}]}}},
        ]
    ) == {
        "a": 3,
        "b": ["x"],
    }
    assert usage_of({"promptTokenCount": 2, "cost": {"total": 0.5}}) == {"input_tokens": 2, "cost_usd": 0.5}
    assert [m.role for m in find_messages("system: be kind\nuser: hi")] == ["system", "user"]


def _otel(tmp_path: Path, *spans: dict[str, object]) -> list[tuple[str, object, str]]:
    path = tmp_path / "spans.jsonl"
    path.write_text("".join(json.dumps({"trace_id": "t", **span}) + "\n" for span in spans))
    return [(c.tool, c.args, c.outcome.value) for s in reading(path).sessions for c in s.calls]


def test_spans_of_other_instrumentations(tmp_path: Path) -> None:
    """Google ADK, OpenLLMetry, Strands events and pydantic-ai write the same things under names of their own."""
    adk = [
        {"name": "call_llm", "span_id": "1", "start_time": 1, "attributes": {
            "gen_ai.system": "gcp.vertex.agent", "gen_ai.request.model": "g",
            "gcp.vertex.agent.llm_request": json.dumps({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}),
            "gcp.vertex.agent.llm_response": json.dumps({"content": {"role": "model", "parts": [{"function_call": {"id": "k", "name": "w", "args": {"c": 1}}}]}})}},
        {"name": "execute_tool w", "span_id": "2", "start_time": 2, "end_time": 3, "attributes": {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "w", "gcp.vertex.agent.tool_call_args": "{\"c\": 1}",
            "gcp.vertex.agent.tool_response": "{\"status\": \"error\", \"error_message\": \"no such city\"}"}},
    ]  # fmt: skip
    assert _otel(tmp_path, *adk) == [("w", {"c": 1}, "failure")]
    openllmetry = [
        {"name": "openai.chat", "span_id": "1", "start_time": 1, "attributes": {
            "llm.request.type": "chat", "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "[{\"type\":\"text\",\"text\":\"Hi\"}]",
            "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.tool_calls.0.name": "w", "gen_ai.completion.0.tool_calls.0.id": "k",
            "gen_ai.completion.0.tool_calls.0.arguments": "{\"c\": 1}"}},
        {"name": "w.tool", "span_id": "2", "start_time": 2, "attributes": {
            "traceloop.span.kind": "tool", "traceloop.entity.name": "w", "traceloop.entity.input": "{\"inputs\": {\"c\": 1}}",
            "traceloop.entity.output": "{\"output\": \"sunny\"}"}},
    ]  # fmt: skip
    assert _otel(tmp_path, *openllmetry) == [("w", {"c": 1}, "success")]
    strands = {"name": "chat", "span_id": "1", "start_time": 1, "attributes": {"gen_ai.operation.name": "chat"}, "events": [
        {"name": "gen_ai.user.message", "attributes": {"content": "[{\"text\": \"Hi\"}]"}},
        {"name": "gen_ai.choice", "attributes": {"message": "[{\"toolUse\": {\"toolUseId\": \"k\", \"name\": \"w\", \"input\": {\"c\": 1}}}]"}},
    ]}  # fmt: skip
    assert _otel(tmp_path, strands) == [("w", {"c": 1}, "unknown")]
    pydantic = {"name": "chat g", "span_id": "1", "start_time": 1, "attributes": {"gen_ai.operation.name": "chat", "events": json.dumps([
        {"event.name": "gen_ai.user.message", "role": "user", "content": "Hi"},
        {"event.name": "gen_ai.assistant.message", "role": "assistant", "tool_calls": [{"id": "k", "type": "function", "function": {"name": "w", "arguments": "{}"}}]},
        {"event.name": "gen_ai.tool.message", "role": "tool", "id": "k", "content": "sunny"},
        {"event.name": "gen_ai.choice", "message": {"role": "assistant", "content": "Sunny"}}])}}  # fmt: skip
    assert _otel(tmp_path, pydantic) == [("w", {}, "success")]


def test_blocks_of_llamaindex() -> None:
    message = read_message({"role": "assistant", "blocks": [{"block_type": "text", "text": "Hm"}, {
        "block_type": "tool_call", "tool_call_id": "k", "tool_name": "w", "tool_kwargs": {"c": 1}}]})  # fmt: skip
    assert message.text == "Hm" and [(c.tool, c.args, c.call_id) for c in message.calls] == [
        ("w", {"c": 1}, "k")
    ]


def test_rows_of_a_span_table(tmp_path: Path) -> None:
    row = {"name": "w", "span_kind": "TOOL", "parent_id": None, "start_time": "2026-03-01T10:00:00Z", "end_time": "2026-03-01T10:00:01Z",
           "status_code": "ERROR", "status_message": "TimeoutError: no answer", "context.span_id": "1", "context.trace_id": "t",
           "attributes.openinference.span.kind": "TOOL", "attributes.tool.name": "w", "attributes.input.value": "{\"c\": 1}"}  # fmt: skip
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    session = reading(path).only
    assert story(session) == [("w", "timeout/TIMEOUT")] and session.calls[0].args == {"c": 1}
