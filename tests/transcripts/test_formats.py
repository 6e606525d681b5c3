"""What each chat format says beyond its calls: sub-agents, branches, usage, rewards, errors; and the counts of recordings."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from sitoolkit.records import Outcome, Session
from sitoolkit.transcripts import ReadReport, detect_format, read_sessions


def _read(
    tmp_path: Path, *records: Any, name: str = "run.jsonl", format: str | None = None
) -> tuple[list[Session], ReadReport]:
    path = tmp_path / name
    text = (
        json.dumps(records[0]) if len(records) == 1 else "\n".join(json.dumps(record) for record in records)
    )
    path.write_text(text, encoding="utf-8")
    report = ReadReport()
    return list(read_sessions(path, format=format, report=report)), report


# ---------------------------------------------------------------- recordings: counts as the manifest says


def _manifest(traces: Path, folder: str) -> dict[str, tuple[int, int, int, int]]:
    with (traces / "MANIFEST.tsv").open() as lines:
        rows = [
            row
            for row in csv.reader(lines, delimiter="\t")
            if row[0] == "handed" and row[1].startswith(f"{folder}/")
        ]
    return {row[1]: tuple(int(cell) for cell in row[11:15]) for row in rows if row[11]}  # type: ignore[misc]


def _counts(path: Path) -> tuple[int, int, int, ReadReport]:
    report = ReadReport()
    list(read_sessions(path, report=report))
    return report.calls, report.results, report.failed, report


@pytest.mark.parametrize("folder", ["tau-bench", "tau2-bench", "claude-code", "claude-code-stream-json"])
def test_counts_are_those_of_the_manifest(traces: Path, folder: str) -> None:
    manifest = _manifest(traces, folder)
    assert manifest
    for file, (_ids, calls, results, failed) in manifest.items():
        if file.endswith("ccl_edge_cases.jsonl"):
            continue  # has its own test below
        assert _counts(traces / file)[:3] == (calls, results, failed), file


def test_edge_cases_has_one_result_less_since_its_message_is_misspelt_contenst(traces: Path) -> None:
    calls, results, failed, report = _counts(traces / "claude-code" / "ccl_edge_cases.jsonl")
    assert (calls, results, failed) == (3, 1, 1)
    assert [(item.line, item.reason) for item in report.set_aside] == [
        (10, "a user message without content"),
        (11, "a user record whose message is str"),
    ]
    assert report.unknown_types == {"str": 1, "{silly}": 1, "int": 1, "list": 1}


def test_cctrace_starts_mid_session_so_its_first_result_is_an_orphan_and_its_last_call_unanswered(
    traces: Path,
) -> None:
    report = _counts(traces / "claude-code" / "cctrace_main.lines430-536.jsonl")[3]
    assert (report.orphaned, report.outcomes["unknown"], report.abandoned) == (1, 1, 0)


def test_requests_that_restate_a_call_count_it_once_so_calls_are_fewer_than_the_manifest_s_records(
    traces: Path,
) -> None:
    for file, (_ids, calls, _results, _failed) in _manifest(traces, "provider-api").items():
        got, paired, _, report = _counts(traces / file)
        assert report.orphaned == report.guessed == 0, file
        assert got == paired, file
        assert got <= calls or "code_execution" in file or "mcp_servers" in file, file


@pytest.mark.parametrize(
    ("file", "calls"),
    [
        ("anthropic__anthropic_code_execution_tool.json", 2),  # run by the server: the manifest counts none
        ("anthropic__anthropic_mcp_servers.json", 2),  # run by the server: the manifest counts none
        ("anthropic__anthropic_memory_tool.json", 1),
        ("anthropic__anthropic_tool_with_thinking.json", 1),
        ("anthropic__multiple_parallel_tool_calls.json", 4),
        ("RAW_anthropic__multiple_parallel_tool_calls.yaml", 4),
        ("google__google_model_retry.json", 2),
        ("groq__tool_use_failed_error.json", 2),
        (
            "openai__compatible_api_with_tool_calls_without_id.json",
            1,
        ),  # told first without an id, then with one
        ("openai__multiple_agent_tool_calls.json", 2),  # begun with Gemini, handed to OpenAI
        ("openai_responses__openai_conversation_id_tool_call_continuation.json", 1),
        ("openai_responses__openai_responses_model_retry.json", 2),
    ],
)
def test_recorded_exchanges_hold_this_many_calls(traces: Path, file: str, calls: int) -> None:
    assert _counts(traces / "provider-api" / file)[0] == calls


def test_tau_bench_rewards_tasks_and_trials_stand_with_their_conversation(traces: Path) -> None:
    path = traces / "tau-bench" / "gpt-4o-airline.tasks00-09.json"
    runs = json.loads(path.read_text())
    sessions = list(read_sessions(path))
    assert [session.reward for session in sessions] == [run["reward"] for run in runs]
    assert [session.outcome for session in sessions] == [
        "success" if run["reward"] == 1 else "failure" for run in runs
    ]
    assert [session.task for session in sessions] == [run["info"]["task"]["instruction"] for run in runs]
    assert [session.id for session in sessions][:2] == [
        "gpt-4o-airline.tasks00-09#task0-trial0",
        "gpt-4o-airline.tasks00-09#task1-trial0",
    ]
    assert len({session.id for session in sessions}) == 40
    errors = [call for session in sessions for call in session.calls if call.failed]
    assert all(str(call.result).startswith("Error: ") for call in errors)
    assert {call.failure_mode for call in errors} == {"ARGS", "CONFLICT", "NOTFOUND"}


def test_every_format_of_the_recordings_is_told_by_its_content(traces: Path) -> None:
    for folder, format in [
        ("tau-bench", "tau-bench"),
        ("claude-code", "claude-code"),
        ("claude-code-stream-json", "claude-code-stream-json"),
        ("provider-api", "api-exchanges"),
    ]:
        for path in sorted((traces / folder).iterdir()):
            assert detect_format(path)[0] == format, path


# ---------------------------------------------------------------- Claude Code


def _record(
    kind: str, uuid: str, parent: str | None, content: Any, message_id: str | None = None, **more: Any
) -> dict[str, Any]:
    message = {"role": kind, "content": content, **({"id": message_id} if message_id else {})}
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s",
        "cwd": "/srv/shop",
        "message": message,
        **more,
    }


def _use(call_id: str, tool: str = "Bash") -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": call_id, "name": tool, "input": {"c": call_id}}]


def _result(call_id: str, text: str = "fine", **more: Any) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": call_id, "content": text, **more}]


def test_sidechains_are_sessions_of_their_own_with_a_parent(tmp_path: Path) -> None:
    sessions, _ = _read(
        tmp_path,
        _record("user", "u1", None, "go"),
        _record("assistant", "a1", "u1", _use("t", "Task"), "m1"),
        _record("user", "x1", None, "look", isSidechain=True),
        _record("assistant", "x2", "x1", _use("c"), "m2", isSidechain=True),
        _record("user", "x3", "x2", _result("c"), isSidechain=True),
        _record("user", "u2", "a1", _result("t")),
        _record("user", "y1", None, "agent", agentId="abc", isSidechain=True),
    )
    assert [(session.id, session.parent_id, len(session.calls)) for session in sessions] == [
        ("s", None, 1),
        ("s/side-x1", "s", 1),
        ("s/agent-abc", "s", 0),
    ]
    assert all(
        session.project == "shop" and session.calls == tuple(c for c in session.calls if c.paired)
        for session in sessions
    )


def test_a_prompt_that_was_edited_leaves_its_branch_abandoned(tmp_path: Path) -> None:
    (session,), report = _read(
        tmp_path,
        _record("user", "u1", None, "go"),
        _record("assistant", "a1", "u1", _use("c1"), "m1"),
        _record("user", "r1", "a1", _result("c1")),
        _record("user", "u2", "r1", "wrong way"),
        _record("assistant", "a2", "u2", _use("c2"), "m2"),
        _record("user", "r2", "a2", _result("c2")),
        _record("user", "u3", "r1", "right way"),
        _record("assistant", "a3", "u3", _use("c3"), "m3"),
        _record("user", "r3", "a3", _result("c3")),
    )[0:2]
    assert [(call.call_id, call.abandoned) for call in session.calls] == [
        ("c1", False),
        ("c2", True),
        ("c3", False),
    ]
    assert [turn.text for turn in session.turns if turn.abandoned and turn.role == "user"] == ["wrong way"]
    assert report.abandoned == 1


def test_parallel_calls_whose_results_hang_beside_the_path_are_not_abandoned(tmp_path: Path) -> None:
    (session,), report = _read(
        tmp_path,
        _record("user", "u1", None, "go"),
        _record("assistant", "a1", "u1", _use("c1"), "m1"),
        _record("assistant", "a2", "a1", _use("c2"), "m1"),
        _record("user", "r2", "a2", _result("c2")),
        _record("user", "r1", "a1", _result("c1")),
        _record("assistant", "a3", "r1", [{"type": "text", "text": "done"}], "m2"),
    )
    assert report.abandoned == 0 and not any(turn.abandoned for turn in session.turns)
    assert [call.turn for call in session.calls] == [1, 1]
    assert session.outcome == "success"


def test_after_a_compaction_what_stood_before_is_not_abandoned(tmp_path: Path) -> None:
    (session,), _ = _read(
        tmp_path,
        _record("user", "u1", None, "go"),
        _record("assistant", "a1", "u1", _use("c1"), "m1"),
        _record("user", "r1", "a1", _result("c1")),
        {
            "type": "system",
            "subtype": "compact_boundary",
            "uuid": "b",
            "parentUuid": None,
            "logicalParentUuid": "r1",
            "sessionId": "s",
            "content": "Conversation compacted",
        },
        _record(
            "user",
            "u2",
            "b",
            "This session is being continued from a previous conversation",
            isCompactSummary=True,
        ),
        _record("assistant", "a2", "u2", _use("c2"), "m2"),
        _record("user", "r2", "a2", _result("c2")),
    )
    assert [call.abandoned for call in session.calls] == [False, False]
    assert [turn.role for turn in session.turns] == ["user", "assistant", "other", "assistant"]


def test_records_told_again_count_once(tmp_path: Path) -> None:
    records = [
        _record("user", "u1", None, "go"),
        _record("assistant", "a1", "u1", _use("c1"), "m1"),
        _record("user", "r1", "a1", _result("c1")),
    ]
    (session,), report = _read(tmp_path, *records, *records)
    assert (len(session.turns), report.calls, report.orphaned) == (2, 1, 0)


def test_what_the_user_did_not_say_is_not_a_user_turn(tmp_path: Path) -> None:
    (session,), _ = _read(
        tmp_path,
        _record("user", "u1", None, "use tabs"),
        _record("user", "u2", "u1", "<command-name>/clear</command-name>"),
        _record("user", "u3", "u2", "<local-command-stdout>ok</local-command-stdout>"),
        _record("user", "u4", "u3", "hook says no", isMeta=True),
        _record("user", "u5", "u4", [{"type": "text", "text": "[Request interrupted by user]"}]),
        _record("user", "u6", "u5", "no, use tabs"),
    )
    assert [turn.text for turn in session.turns if turn.role == "user"] == ["use tabs", "no, use tabs"]


def test_tool_use_results_add_what_the_text_does_not_say(tmp_path: Path) -> None:
    (session,), _ = _read(
        tmp_path,
        _record("assistant", "a1", None, _use("c1") + _use("c2") + _use("c3", "WebFetch") + _use("c4"), "m1"),
        _record(
            "user", "r1", "a1", _result("c1", "partial"), toolUseResult={"stdout": "", "interrupted": True}
        ),
        _record("user", "r2", "r1", _result("c2"), toolUseResult={"durationMs": 250}),
        _record(
            "user", "r3", "r2", _result("c3", "page"), toolUseResult={"code": 404, "codeText": "Not Found"}
        ),
        _record(
            "user",
            "r4",
            "r3",
            _result("c4", "The user doesn't want to proceed with this tool use.", is_error=True),
        ),
    )
    assert [call.outcome for call in session.calls] == [
        Outcome.CANCELLED,
        Outcome.SUCCESS,
        Outcome.FAILURE,
        Outcome.CANCELLED,
    ]
    assert session.calls[1].duration_ms == 250
    assert session.calls[2].failure_mode == "NOTFOUND"


def test_durations_come_from_the_times_of_call_and_result(tmp_path: Path) -> None:
    (session,), _ = _read(
        tmp_path,
        _record("assistant", "a1", None, _use("c1"), "m1", timestamp="2026-01-01T00:00:00.000Z"),
        _record("user", "r1", "a1", _result("c1"), timestamp="2026-01-01T00:00:01.500Z"),
    )
    assert session.calls[0].duration_ms == 1500.0
    assert session.calls[0].result_source and session.calls[0].result_source.line == 2


def test_a_summary_names_the_session_it_is_about(tmp_path: Path) -> None:
    other = {**_record("user", "o1", None, "other"), "sessionId": "t"}
    sessions, _ = _read(
        tmp_path,
        _record("user", "u1", None, "go"),
        other,
        {"type": "summary", "summary": "Other things", "leafUuid": "o1"},
    )
    assert [(session.id, session.task) for session in sessions] == [("s", None), ("t", "Other things")]


def test_stream_json_result_says_how_the_run_ended_and_what_it_cost(tmp_path: Path) -> None:
    start = {"type": "system", "subtype": "init", "session_id": "s", "model": "m"}
    sub = {
        "type": "assistant",
        "session_id": "s",
        "parent_tool_use_id": "t1",
        "message": {"id": "m9", "role": "assistant", "content": _use("c9")},
    }
    end = {
        "type": "result",
        "subtype": "error_max_turns",
        "is_error": True,
        "session_id": "s",
        "num_turns": 3,
        "total_cost_usd": 0.5,
        "usage": {"output_tokens": 20},
    }
    main = {
        "type": "assistant",
        "session_id": "s",
        "message": {
            "id": "m1",
            "role": "assistant",
            "content": _use("t1", "Task"),
            "usage": {"output_tokens": 3},
        },
    }
    sessions, _ = _read(tmp_path, start, main, sub, end)
    assert [(session.id, session.parent_id, session.outcome) for session in sessions] == [
        ("s", None, "failure"),
        ("s/t1", "s", "unknown"),
    ]
    assert sessions[0].usage and (sessions[0].usage.cost_usd, sessions[0].usage.output_tokens) == (0.5, 20)
    assert "error_max_turns" in sessions[0].notes[0]


# ---------------------------------------------------------------- the others


def test_openai_reads_older_and_newer_calls_and_images(tmp_path: Path) -> None:
    (session,), _ = _read(
        tmp_path,
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400}},
                ],
            },
            {"role": "assistant", "content": None, "function_call": {"name": "old", "arguments": '{"a": 1}'}},
            {"role": "function", "name": "old", "content": "r1"},
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
                ],
            },
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "r2"}]},
        ],
    )
    assert [(call.tool, call.args, call.result) for call in session.calls] == [
        ("old", {"a": 1}, "r1"),
        ("patch", {"input": "*** Begin"}, "r2"),
    ]
    assert session.turns[0].text.startswith("see\n[image/png")


def test_langchain_dump_with_invalid_calls_and_unknown_messages(tmp_path: Path) -> None:
    def lc(name: str, **kwargs: Any) -> dict[str, Any]:
        return {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", name],
            "kwargs": kwargs,
        }

    (session,), report = _read(
        tmp_path,
        [
            lc("HumanMessage", content="go"),
            lc(
                "AIMessage",
                content="",
                tool_calls=[{"name": "a", "args": {"x": 1}, "id": "c1"}],
                invalid_tool_calls=[{"name": "b", "args": '{"x":', "id": "c2", "error": "not JSON"}],
                usage_metadata={"input_tokens": 10, "output_tokens": 5},
            ),
            lc("ToolMessage", content="boom", tool_call_id="c1", status="error"),
            {"lc": 1, "type": "not_implemented", "id": ["my", "CustomMessage"], "repr": "CustomMessage(…)"},
            lc("RemoveMessage", id="m1", content=""),
        ],
    )
    assert [(call.tool, call.args, call.args_error, call.outcome) for call in session.calls] == [
        ("a", {"x": 1}, None, Outcome.FAILURE),
        ("b", '{"x":', "not JSON", Outcome.UNKNOWN),
    ]
    assert session.usage and session.usage.input_tokens == 10
    assert report.unknown_types == {"CustomMessage": 1}


def test_a_call_that_groq_refused_never_ran(tmp_path: Path) -> None:
    error = {
        "code": "tool_use_failed",
        "message": "did not match schema",
        "failed_generation": '{"name": "get", "arguments": {"foo": 1}}',
    }
    (session,), report = _read(
        tmp_path,
        [
            {
                "request": {
                    "method": "POST",
                    "uri": "https://api.groq.com/openai/v1/chat/completions",
                    "body": {"messages": [{"role": "user", "content": "go"}]},
                },
                "response": {"status": {"code": 400}, "body": {"error": error}},
            }
        ],
    )
    assert session.format == "groq"
    assert [(call.tool, call.ran, call.outcome) for call in session.calls] == [
        ("get", False, Outcome.UNKNOWN)
    ]
    assert (report.calls, report.never_ran) == (0, 1)


def test_a_streamed_answer_is_put_together(tmp_path: Path) -> None:
    chunks = [
        {
            "choices": [
                {
                    "index": 0,
                    "delta": {
                        "tool_calls": [{"index": 0, "id": "c", "function": {"name": "get", "arguments": ""}}]
                    },
                }
            ]
        },
        {
            "choices": [
                {"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]}}
            ]
        },
        {
            "choices": [
                {
                    "index": 0,
                    "delta": {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
                    "finish_reason": "tool_calls",
                }
            ]
        },
    ]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n"
    (session,), _ = _read(
        tmp_path,
        [
            {
                "request": {
                    "uri": "x",
                    "body": json.dumps({"messages": [{"role": "user", "content": "go"}]}),
                },
                "response": {"body": {"string": body}},
            }
        ],
    )
    assert [(call.tool, call.args, call.paired) for call in session.calls] == [("get", {"a": 1}, False)]


def test_gemini_code_execution_is_a_call_with_its_outcome(tmp_path: Path) -> None:
    (session,), _ = _read(
        tmp_path,
        {"contents": [
            {"role": "user", "parts": [{"text": "sum"}]},
            {"role": "model", "parts": [{"thought": True, "text": "hidden"}, {"executableCode": {"language": "PYTHON", "code": "1/0"}}, {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "ZeroDivisionError: division by zero"}}, {"text": "It failed."}]},
        ]},
    )  # fmt: skip
    assert [(call.tool, call.outcome, call.failure_mode) for call in session.calls] == [
        ("code_execution", Outcome.FAILURE, "RUNTIME")
    ]
    assert session.turns[-1].text == "It failed."


def test_responses_builtin_tools_hold_their_result(tmp_path: Path) -> None:
    (session,), _ = _read(
        tmp_path,
        {"object": "response", "id": "resp_1", "output": [
            {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "x"}},
            {"type": "mcp_call", "id": "mcp", "name": "ask", "arguments": "{}", "output": None, "error": "Timed out"},
            {"type": "code_interpreter_call", "id": "ci", "status": "completed", "code": "1", "outputs": [{"type": "logs", "logs": "1"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
        ]},
    )  # fmt: skip
    assert [(call.tool, call.outcome) for call in session.calls] == [
        ("web_search", Outcome.SUCCESS),
        ("ask", Outcome.TIMEOUT),
        ("code_interpreter", Outcome.SUCCESS),
    ]
    assert session.id == "resp_1"


def test_tau2_simulations_with_rewards_user_tools_and_results_in_one_message(tmp_path: Path) -> None:
    sessions, report = _read(
        tmp_path,
        {"info": {"agent_info": {"llm": "gpt-x"}}, "tasks": [{"id": "7", "user_scenario": {"instructions": {"reason_for_call": "no signal"}}}], "simulations": [{
            "id": "sim1", "task_id": "7", "trial": 0, "termination_reason": "user_stop", "reward_info": {"reward": 1.0}, "agent_cost": 0.02,
            "messages": [
                {"role": "user", "content": "help"},
                {"role": "assistant", "tool_calls": [{"id": "a", "name": "get_line", "arguments": {"n": 1}}, {"id": "b", "name": "get_bill", "arguments": {}}]},
                {"role": "tool", "tool_messages": [{"role": "tool", "id": "b", "content": "bill", "requestor": "assistant", "error": False}, {"role": "tool", "id": "a", "content": "no line", "requestor": "assistant", "error": True}]},
                {"role": "user", "tool_calls": [{"id": "u", "name": "toggle_wifi", "arguments": {}, "requestor": "user"}]},
                {"role": "tool", "id": "u", "content": "on", "requestor": "user", "error": False},
            ]}]},
    )  # fmt: skip
    (session,) = sessions
    assert [(call.tool, call.result, call.outcome, call.agent) for call in session.calls] == [
        ("get_line", "no line", Outcome.FAILURE, ""),
        ("get_bill", "bill", Outcome.SUCCESS, ""),
        ("toggle_wifi", "on", Outcome.SUCCESS, "user"),
    ]
    assert (session.model, session.task, session.reward, session.outcome) == (
        "gpt-x",
        "no signal",
        1.0,
        "success",
    )
    assert report.orphaned == report.guessed == 0


@pytest.mark.parametrize(
    "extra", [{}, {"reward": 0.5, "model": "m", "metadata": {"agent": "ops", "project": "p"}}]
)
def test_openai_conversations_say_who_and_what_where_they_do(tmp_path: Path, extra: dict[str, Any]) -> None:
    (session,), _ = _read(
        tmp_path, {"id": "conv-1", "messages": [{"role": "user", "content": "a"}], **extra}, name="x.json"
    )
    assert session.id == "conv-1"
    assert (session.agent, session.project, session.reward) == (
        ("ops", "p", 0.5) if extra else ("", None, None)
    )


def test_sharegpt_and_calls_written_as_text(tmp_path: Path) -> None:
    conversation = {
        "conversations": [
            {"from": "human", "value": "weather?"},
            {"from": "function_call", "value": '{"name": "weather", "arguments": {"city": "Rome"}}'},
            {"from": "observation", "value": "Error: no such city"},
            {
                "from": "gpt",
                "value": 'I try again.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Roma"}}\n</tool_call>',
            },
            {
                "from": "tool",
                "value": '<tool_response>\n{"name": "weather", "content": "fine"}\n</tool_response>',
            },
            {"from": "gpt", "value": "It is fine."},
        ]
    }
    sessions, report = _read(tmp_path, conversation, {**conversation, "id": "second"})
    for session in sessions:
        assert [(call.tool, call.args, call.result, call.outcome) for call in session.calls] == [
            ("weather", {"city": "Rome"}, "Error: no such city", Outcome.FAILURE),
            ("weather", {"city": "Roma"}, "fine", Outcome.SUCCESS),
        ]
        assert [turn.text for turn in session.turns] == ["weather?", "", "I try again.", "It is fine."]
    assert report.orphaned == 0 and not report.unknown_types


def test_bedrock_converse_exchanges(tmp_path: Path) -> None:
    user = {"role": "user", "content": [{"text": "go"}]}
    asks = {
        "role": "assistant",
        "content": [{"text": "I look."}, {"toolUse": {"toolUseId": "t1", "name": "ls", "input": {"p": 1}}}],
    }
    tells = {
        "role": "user",
        "content": [
            {"toolResult": {"toolUseId": "t1", "content": [{"text": "no such folder"}], "status": "error"}}
        ],
    }
    answer = {"role": "assistant", "content": [{"text": "Gone."}]}

    def exchange(messages: list[Any], said: Any) -> dict[str, Any]:
        return {
            "request": {"uri": "x", "body": {"messages": messages}},
            "response": {"body": {"output": {"message": said}}},
        }

    (session,), report = _read(tmp_path, [exchange([user], asks), exchange([user, asks, tells], answer)])
    assert [(call.tool, call.args, call.result, call.outcome) for call in session.calls] == [
        ("ls", {"p": 1}, "no such folder", Outcome.FAILURE)
    ]
    assert [turn.text for turn in session.turns] == ["go", "I look.", "Gone."]
    assert report.orphaned == 0


def test_a_request_log_keeps_the_answer_beside_the_messages(tmp_path: Path) -> None:
    answer = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "function": {"name": "get", "arguments": "{}"}}],
    }
    (session,), _ = _read(
        tmp_path,
        {
            "model": "m",
            "messages": [{"role": "user", "content": "a"}],
            "response": {"choices": [{"message": answer}]},
        },
    )
    assert [call.tool for call in session.calls] == ["get"]


def test_a_restated_request_whose_cache_marks_moved_is_one_conversation(tmp_path: Path) -> None:
    def said(text: str, cached: bool) -> dict[str, Any]:
        return {
            "role": "user",
            "content": [
                {"type": "text", "text": text, **({"cache_control": {"type": "ephemeral"}} if cached else {})}
            ],
        }

    def exchange(messages: list[Any], text: str) -> dict[str, Any]:
        body = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": text}]}
        return {
            "request": {"uri": "x", "body": {"max_tokens": 1, "messages": messages}},
            "response": {"body": body},
        }

    mine = {"role": "assistant", "content": [{"type": "text", "text": "b"}]}
    (session,), _ = _read(
        tmp_path, [exchange([said("a", True)], "b"), exchange([said("a", False), mine, said("c", True)], "d")]
    )
    assert [turn.text for turn in session.turns] == ["a", "b", "c", "d"]


def test_a_log_that_tells_a_conversation_anew_on_each_line_counts_it_once(tmp_path: Path) -> None:
    def asks(number: int) -> list[dict[str, Any]]:
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "step", "arguments": json.dumps({"n": number})},
        }
        return [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": "ok"},
        ]

    start = [{"role": "system", "content": "s"}, {"role": "user", "content": "go"}]
    first = [{"id": f"req{n}", "messages": start + [m for k in range(n) for m in asks(k)]} for n in range(4)]
    other = {"id": "req9", "messages": [start[0], {"role": "user", "content": "else"}, *asks(7)]}
    sessions, report = _read(tmp_path, *first, other)
    assert [(session.id, [call.args["n"] for call in session.calls]) for session in sessions] == [
        ("req0", [0, 1, 2]),
        ("req9", [7]),
    ]
    assert report.calls == 4


def test_the_same_conversation_twice_is_two_runs(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "done"}]
    sessions, _ = _read(tmp_path, {"messages": messages}, {"messages": messages})
    assert [session.id.partition("/")[2] for session in sessions] == ["run#1", "run#2"]


def test_a_result_written_before_its_call_finds_it_and_says_that_this_is_a_guess(tmp_path: Path) -> None:
    (session,), report = _read(
        tmp_path,
        _record("user", "r1", None, _result("c1", "boom", is_error=True)),
        _record("assistant", "a1", "r1", _use("c1"), "m1"),
        _record("assistant", "a2", "a1", [{"type": "text", "text": "well"}], "m2"),
    )
    (call,) = session.calls
    assert (call.result, call.outcome, call.guessed, call.paired_by) == ("boom", Outcome.FAILURE, True, "id")
    assert (report.orphaned, report.guessed, session.orphan_results) == (0, 1, 0)
