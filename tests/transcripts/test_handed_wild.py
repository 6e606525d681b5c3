"""Every recording at hand of the wild formats: no exception, counts as its manifest says, and agreement with the truth beside it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from sitoolkit.errors import TranscriptError
from sitoolkit.transcripts.read import read_sessions
from sitoolkit.transcripts.source import ReadReport
from tests.transcripts.wild import reading, story

_FOLDERS = [
    "aider",
    "atif",
    "bfcl",
    "codex",
    "gemini-cli",
    "inspect-ai",
    "langfuse-traces",
    "langsmith",
    "mini-swe-agent",
    "openclaw",
    "opencode",
    "openhands",
    "otel",
    "own-shapes",
    "plain-logs",
    "reflexion",
    "swarm",
    "swe-agent",
    "telemetry",
    "terminal-bench",
    "toolbench",
    "transcribed",
    "vcr-cassettes",
    "who-and-when",
]
# calls, results and failures as read, where they differ from the manifest's rough count of known keys, and why
_TEXT = "calls that stand in text or in keys of the format's own, which the manifest does not count"
_TOLD = "the manifest counts each statement of a call, the reader each call"
_DIFFERS = {
    "atif/openhands_hello-world.trajectory.no_function_calling.json": (2, 1, 0, _TEXT),
    "atif/terminus_2_hello-world-context-summarization-linear-history.trajectory.cont-1.json": (4, 4, 0, _TEXT),
    "atif/terminus_2_hello-world-context-summarization-linear-history.trajectory.json": (3, 3, 0, f"{_TEXT}; a summary is no result"),
    "atif/terminus_2_hello-world-invalid-json.traces.json": (3, 2, 0, _TEXT),
    "atif/terminus_2_hello-world-invalid-json.trajectory.json": (3, 3, 0, "a message that the harness refused ran nothing"),
    "bfcl/aya_multi_turn_base.first25.jsonl": (13, 0, 0, _TEXT),
    "bfcl/aya_parallel_multiple.first40.jsonl": (61, 0, 0, _TEXT),
    "codex/session-basic.jsonl": (1, 1, 0, _TEXT),
    "inspect-ai/log_tool_call_error.json": (11, 11, 11, "calls restored from typed errors; the results stay orphans"),
    "langfuse-traces/claude-agent-2025-12-22.trace.json": (2, 2, 0, "tool observations are the results"),
    "langfuse-traces/langgraph-python-2025-08-22.trace.json": (1, 1, 0, _TOLD),
    "langfuse-traces/openai-agents-2025-09-30.trace.json": (1, 1, 0, _TOLD),
    "langfuse-traces/vercel-aisdk-2025-11-17.trace.json": (1, 1, 0, _TEXT),
    "langsmith/anthropic_managed_builtin_tools.jsonl": (1, 1, 0, _TEXT),
    "langsmith/anthropic_managed_custom_tools.jsonl": (1, 1, 0, _TEXT),
    "mini-swe-agent/github_issue.traj.json": (10, 10, 2, _TEXT),
    "mini-swe-agent/local.traj.json": (2, 2, 0, _TEXT),
    "openclaw/f967d602.jsonl": (4, 4, 3, "details.status is error though isError is false"),
    "otel/openinference-genai_openinference_client_span_input_output_only.json": (1, 1, 0, _TEXT),
    "otel/openinference-genai_openinference_client_span_tool_calls.json": (1, 1, 0, _TEXT),
    "otel/openinference-genai_otel_genai_client_span_tool_calls.json": (1, 1, 0, _TOLD),
    "otel/openinference-genai_otel_genai_tool_execution_span.json": (1, 1, 0, _TEXT),
    "otel/phoenix_pxi_turn_trace.json": (11, 11, 1, _TEXT),
    "own-shapes/chatgpt_export_conversation.json": (1, 1, 1, _TEXT),
    "own-shapes/cline_api_conversation_history.json": (4, 3, 1, _TEXT),
    "own-shapes/cline_ui_messages.json": (1, 1, 1, _TEXT),
    "own-shapes/langchain_dumps.json": (3, 2, 1, "an invalid tool call is a call"),
    "own-shapes/langchain_messages_to_dict.json": (1, 1, 0, _TEXT),
    "own-shapes/malformed.jsonl": (0, 0, 0, "a damaged record is set aside, not counted"),
    "swarm/session_20240422-134602.json": (2, 0, 0, _TEXT),
    "swarm/session_20240422-135231.json": (4, 1, 0, _TEXT),
    "swe-agent/6e44b9__sweagenttestrepo-1c2844.traj": (5, 5, 0, f"{_TOLD}; history and trajectory tell the same"),
    "swe-agent/llm_interactions_20251103_025309.jsonl": (5, 4, 0, f"{_TOLD}; the last submit has no answer"),
    "swe-agent/marshmallow-1867.function_calling_replace.traj": (11, 11, 1, f"{_TOLD}; history and trajectory tell the same"),
    "telemetry/phoenix_tau_openai_results.json": (140, 0, 0, _TEXT),
    "terminal-bench/mini-swe-agent_create-bucket.parse_error.results.json": (1, 1, 1, "the failing phase of the trial"),
    "terminal-bench/openhands-sonnet_run1.results.json": (10, 10, 10, "the failing phases of the trials"),
    "toolbench/G1_answer_10.json": (3, 3, 0, _TOLD),
    "toolbench/G1_answer_11.json": (4, 4, 0, _TOLD),
    "toolbench/G1_answer_59.json": (5, 5, 0, _TOLD),
    "toolbench/G1_answer_69.json": (24, 24, 22, "the tree holds the calls"),
}  # fmt: skip
_NO_TRANSCRIPT = (
    ".chatml.json", "plain-logs/", "alfworld_env_results", "phoenix_evals_mcp_runs", "nginx-request-logging", "orchestrator_qwen3", "README.md",
)  # fmt: skip


def _manifest(traces: Path) -> list[dict[str, str]]:
    with (traces / "MANIFEST.tsv").open(newline="") as handle:
        rows = csv.DictReader(handle, delimiter="\t")
        return [
            row for row in rows if row["file"].split("/")[0] in _FOLDERS and (traces / row["file"]).is_file()
        ]


def test_every_file_is_read_or_refused_with_a_reason_and_counts_agree(traces: Path) -> None:
    seen = 0
    for row in _manifest(traces):
        file = row["file"]
        report = ReadReport()
        if any(mark in file for mark in _NO_TRANSCRIPT):
            with pytest.raises(TranscriptError, match="no reader knows"):
                list(read_sessions(traces / file, report=report))
            continue
        for session in read_sessions(traces / file, report=report):
            assert session.source.file and session.format, file
            assert all(call.source.file and call.source.line for call in session.calls), file
        told = (report.calls + report.never_ran, report.results, report.failed)
        if file in _DIFFERS:
            assert told == _DIFFERS[file][:3], (file, told, _DIFFERS[file])
        elif row["call records"] and not file.startswith("who-and-when/"):
            said = (int(row["call records"]), int(row["result records"]), int(row["failed (rough)"]))
            assert told == said, (file, told, said)
        seen += 1
    assert seen >= 80


def test_who_and_when_has_a_call_for_each_exit_code(traces: Path) -> None:
    for path in sorted((traces / "who-and-when").glob("*.json")):
        history = json.loads(path.read_text())["history"]
        codes = [
            item["content"].split("(")[0] for item in history if str(item["content"]).startswith("exitcode: ")
        ]
        calls = reading(path).only.calls
        assert [call.failed for call in calls] == ["exitcode: 0" not in code for code in codes], path.name
        assert all(call.args.get("code") for call in calls), path.name


def _truth_calls(chatml: dict[str, Any]) -> set[tuple[str, str, str]]:
    """Calls in what others took the trace to say: id, tool and arguments."""
    found: set[tuple[str, str, str]] = set()
    for observation in chatml.values():
        for side in observation.values():
            for message in side.get("data", []) if side.get("success") else []:
                content = message.get("content")
                blocks = (
                    [b for b in content if isinstance(b, dict) and b.get("type") == "tool_use"]
                    if isinstance(content, list)
                    else []
                )
                for call in [*message.get("tool_calls", []), *blocks]:
                    args = call.get("arguments", call.get("input"))
                    args = json.loads(args) if isinstance(args, str) else args
                    found.add((call["id"], call["name"], json.dumps(args, sort_keys=True)))
    return found


def test_langfuse_agrees_with_the_messages_beside_the_traces(traces: Path) -> None:
    compared = 0
    for path in sorted((traces / "langfuse-traces").glob("*.trace.json")):
        truth = _truth_calls(json.loads(Path(str(path).replace(".trace.json", ".chatml.json")).read_text()))
        calls = [call for session in reading(path).sessions for call in session.calls]
        assert {(c.call_id, c.tool, json.dumps(c.args, sort_keys=True)) for c in calls} == truth, path.name
        assert all(call.paired and not call.failed for call in calls), path.name
        compared += len(calls)
    assert compared == 5


def test_openhands_logs_agree_with_its_transcript(traces: Path) -> None:
    """The transcript was written by the harness at the end; the logs were written request by request."""
    written = reading(traces / "openhands" / "fncall-llm-message.json").only
    logged = reading(traces / "openhands" / "llm-logs").only
    assert [(c.call_id, c.tool, c.args) for c in logged.calls] == [
        (c.call_id, c.tool, c.args) for c in written.calls
    ]
    assert story(logged)[:-1] == story(written)[:-1]
    assert story(logged)[-1] == ("finish", "unknown")  # its result came after the last request
    assert story(written)[0] == ("str_replace_editor", "failure/NOTFOUND")
    assert story(written)[2] == ("str_replace_editor", "failure/ARGS")


def test_openhands_conversation_folder(traces: Path) -> None:
    seen = reading(traces / "openhands" / "conv_38868567")
    assert story(seen.only) == [("finish", "success")] * 2 and seen.only.model == "gpt-4o-mini"


def test_inspect_typed_errors(traces: Path) -> None:
    path = traces / "inspect-ai" / "log_tool_call_error.json"
    told = [
        m["error"]["type"] for m in json.loads(path.read_text())["samples"][0]["messages"] if "error" in m
    ]
    calls = reading(path).only.calls
    modes = {
        "timeout": "TIMEOUT",
        "permission": "PERM",
        "file_not_found": "NOTFOUND",
        "parsing": "SYNTAX",
        "unicode_decode": "SYNTAX",
    }
    assert len(told) == len(calls) == 11 and all(call.failed for call in calls)
    for kind, call in zip(told, calls, strict=True):
        if kind in modes:
            assert call.failure_mode == modes[kind], kind


def test_terminal_bench_failure_modes(traces: Path) -> None:
    path = traces / "terminal-bench" / "openhands-sonnet_run1.results.json"
    trials = {trial["id"]: trial for trial in json.loads(path.read_text())["results"]}
    sessions = reading(path).sessions
    assert {session.id for session in sessions} == set(trials)
    for session in sessions:
        trial = trials[session.id]
        mode, resolved = trial["failure_mode"], trial["is_resolved"]
        assert session.outcome == ("success" if resolved else "failure"), session.id
        assert [call.outcome.value for call in session.calls] == (
            [] if mode == "unset" else ["timeout" if mode.endswith("timeout") else "failure"]
        )
        assert session.reward == (None if resolved is None else float(resolved))


def test_pi_calls_of_messages_that_ended_in_an_error_never_ran(traces: Path) -> None:
    seen = reading(traces / "openclaw" / "pi_large-session.lines001-220.jsonl")
    assert (seen.report.never_ran, seen.report.calls, seen.report.paired) == (16, 104, 104)


def test_swe_agent_ids_that_repeat_get_their_own_results(traces: Path) -> None:
    path = traces / "swe-agent" / "marshmallow-1867.function_calling_replace.traj"
    steps = json.loads(path.read_text())["trajectory"]
    calls = reading(path).only.calls
    for step, call in zip(steps, calls, strict=True):
        if step["observation"].strip():
            assert step["observation"].strip()[:60] in call.result, call.tool
