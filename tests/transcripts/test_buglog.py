"""Faults that importers of others had, each with its minimal input and what is expected of ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sitoolkit.records import Outcome, Session
from sitoolkit.transcripts import ReadReport, read_sessions

Read = Callable[..., tuple[list[Session], ReadReport]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Write a transcript (bytes, text, one JSON value, or several records a line each) and read it."""

    def reading(
        *records: Any, name: str = "run.jsonl", format: str | None = None
    ) -> tuple[list[Session], ReadReport]:
        path = tmp_path / name
        if len(records) == 1 and isinstance(records[0], bytes):
            path.write_bytes(records[0])
        else:
            lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        report = ReadReport()
        return list(read_sessions(path, format=format, report=report)), report

    return reading


def _asks(*calls: tuple[str, str, dict[str, Any] | str]) -> dict[str, Any]:
    return {
        "role": "assistant",
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": args if isinstance(args, str) else json.dumps(args)}}
            for call_id, name, args in calls
        ],
    }  # fmt: skip


def _tells(call_id: str | None, content: str, **more: Any) -> dict[str, Any]:
    return {
        "role": "tool",
        "content": content,
        **({"tool_call_id": call_id} if call_id is not None else {}),
        **more,
    }


USER = {"role": "user", "content": "go"}


def test_1_tool_ids_reused_across_turns(read: Read) -> None:
    messages = [
        _asks(("t:0", "push", {"n": 1})),
        _tells("t:0", "r1"),
        _asks(("t:0", "push", {"n": 2})),
        _tells("t:0", "Error: r2"),
    ]
    ((session,), _) = read(messages)
    assert [(call.args["n"], call.result, call.outcome) for call in session.calls] == [
        (1, "r1", Outcome.SUCCESS),
        (2, "Error: r2", Outcome.FAILURE),
    ]
    assert all(call.paired_by == "id" and not call.guessed for call in session.calls)


def test_1_recorded_twin_in_tau_bench_pairs_every_call_with_the_next_result(traces: Path) -> None:
    path = traces / "tau-bench" / "gpt-4o-airline.tasks00-09.json"
    sessions = list(read_sessions(path))
    told = []
    for run in json.loads(path.read_text()):
        names = {}
        for message in run["traj"]:
            for call in message.get("tool_calls") or []:
                names[call["id"]] = (call["function"]["name"], json.loads(call["function"]["arguments"]))
            if message["role"] == "tool":
                told.append((*names[message["tool_call_id"]], message["content"]))
    read_back = [(call.tool, call.args, call.result) for session in sessions for call in session.calls]
    assert read_back == told
    assert len({call.call_id for session in sessions for call in session.calls}) == 95
    assert sum(len({c.call_id for c in s.calls}) < len(s.calls) for s in sessions) == 13


def test_2_parallel_results_in_completion_order(read: Read) -> None:
    ((session,), _) = read(
        [_asks(("a", "read", {"p": 1}), ("b", "read", {"p": 2})), _tells("b", "two"), _tells("a", "one")]
    )
    assert [(call.args["p"], call.result) for call in session.calls] == [(1, "one"), (2, "two")]


@pytest.mark.parametrize(
    "lines", [[USER, _asks(("c1", "apply_patch", {})), {"role": "user", "content": "continue"}]]
)
def test_4_call_persisted_without_its_output_is_unknown(read: Read, lines: list[Any]) -> None:
    ((session,), report) = read(*lines)
    (call,) = session.calls
    assert call.outcome is Outcome.UNKNOWN and not call.paired and not call.failed
    assert session.outcome == "unknown"
    assert report.outcomes == {"unknown": 1}


def test_7_truncated_json_arguments_are_kept_as_text_with_a_mark(read: Read) -> None:
    text = '{"path": "/a", "body": "tru'
    ((session,), _) = read([USER, _asks(("c", "save", text)), _tells("c", "Error: bad arguments")])
    (call,) = session.calls
    assert call.args == text
    assert call.args_error and "not JSON" in call.args_error


@pytest.mark.parametrize("text", ["", " ", "\n", "null"])
def test_8_empty_string_arguments_are_no_arguments(read: Read, text: str) -> None:
    ((session,), _) = read([USER, _asks(("c", "list_scopes", text)), _tells("c", "global")])
    assert session.calls[0].args == {}
    assert session.calls[0].args_error is None


def test_11_status_lost_on_the_way_through_a_store(read: Read) -> None:
    ((session,), _) = read([
        {"type": "human", "content": "go"},
        {"type": "ai", "content": "", "tool_calls": [{"name": "deploy", "args": {}, "id": "c"}]},
        {"type": "tool", "content": "it says nothing", "tool_call_id": "c", "additional_kwargs": {"status": "error"}},
    ])  # fmt: skip
    assert session.calls[0].outcome is Outcome.FAILURE
    assert session.calls[0].rule == "status"


def test_13_nonzero_exit_recorded_as_success(read: Read) -> None:
    text = "make: *** [all] Error 2\n[Command failed with exit code 2]"
    ((session,), _) = read([
        {"type": "ai", "content": "", "tool_calls": [{"name": "execute", "args": {"c": "make"}, "id": "c"}]},
        {"type": "tool", "name": "execute", "status": "success", "tool_call_id": "c", "content": text},
    ])  # fmt: skip
    assert session.calls[0].outcome is Outcome.FAILURE
    assert session.calls[0].rule == "exit-marker"


@pytest.mark.parametrize(
    ("content", "outcome"),
    [
        ('{"success": 0, "error": "Malformed JSON arguments; the tool was not executed"}', Outcome.FAILURE),
        ('{"ok":false}', Outcome.FAILURE),
        ('{"status":"error"}', Outcome.FAILURE),
        ('{"error":null}', Outcome.SUCCESS),
        ("Unknown tool: bash", Outcome.FAILURE),
    ],
)
def test_15_failure_envelope_in_a_normal_result(read: Read, content: str, outcome: Outcome) -> None:
    ((session,), _) = read([USER, _asks(("c", "x", {})), _tells("c", content)])
    assert session.calls[0].outcome is outcome


def test_16_text_that_only_looks_like_an_error(read: Read) -> None:
    ((session,), _) = read([
        USER,
        _asks(("c", "restore", {}), ("d", "grep", {}), ("e", "restore", {})),
        _tells("c", "Error: 404 page template restored\n3 files written"),
        _tells("d", 'src/a.py:12:    raise ValueError("Error: bad")'),
        _tells("e", "Error: no such template", status="success"),
    ])  # fmt: skip
    assert [call.outcome for call in session.calls] == [Outcome.SUCCESS] * 3


def test_17_one_failed_call_does_not_fail_the_run(read: Read) -> None:
    messages: list[Any] = [USER]
    for number in range(5):
        messages += [
            _asks((f"c{number}", "build", {"n": max(number, 1)})),
            _tells(f"c{number}", "Error: boom" if number == 1 else "built"),
        ]
    ((session,), _) = read([*messages, {"role": "assistant", "content": "Done."}])
    assert sum(call.failed for call in session.calls) == 1
    assert session.outcome == "success"


def test_19_reading_goes_on_after_a_bad_line(read: Read) -> None:
    sessions, report = read(
        '{"type":"user","message":{"role":"user","content":"a"}}',
        '{"type":"assistant","message":{"content":[{"type":"te',
        '{"type":"user","message":{"role":"user","content":"b"}}',
    )
    assert [turn.text for turn in sessions[0].turns] == ["a", "b"]
    assert [(item.line, item.reason[:8]) for item in report.set_aside] == [(2, "not JSON")]


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85"])
def test_22_line_separators_inside_strings_split_no_line(read: Read, sign: str) -> None:
    record = '{"type":"user","message":{"role":"user","content":"a?b"}}'.replace("?", sign)
    second = '{"type":"user","message":{"role":"user","content":"c"}}'
    sessions, report = read(record, second)
    assert [turn.text for turn in sessions[0].turns] == [f"a{sign}b", "c"]
    assert [turn.source.line for turn in sessions[0].turns if turn.source] == [1, 2]
    assert not report.set_aside


@pytest.mark.parametrize("sign", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
def test_22_raw_control_characters_inside_strings_split_no_line(read: Read, sign: str) -> None:
    sessions, report = read(
        '{"type":"user","message":{"role":"user","content":"a?b"}}'.replace("?", sign),
        '{"type":"user","message":{"role":"user","content":"c"}}',
    )
    assert [turn.text for turn in sessions[0].turns] == [f"a{sign}b", "c"]
    assert not report.set_aside


def test_23_a_line_of_many_megabytes_is_read_and_its_image_left_out(read: Read) -> None:
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "A" * 6_000_000},
    }
    sessions, report = read(
        {"type": "user", "message": {"role": "user", "content": [image, {"type": "text", "text": "see"}]}},
        {"type": "user", "message": {"role": "user", "content": "next"}},
    )
    assert [turn.text for turn in sessions[0].turns] == ["[image/png, 4500000 bytes]\nsee", "next"]
    assert not report.set_aside


def test_25_one_message_on_many_lines_is_one_turn_and_its_usage_counts_once(read: Read) -> None:
    first = {
        "id": "m1",
        "usage": {"output_tokens": 1, "input_tokens": 7},
        "content": [{"type": "thinking", "thinking": "t"}],
    }
    second = {
        "id": "m1",
        "usage": {"output_tokens": 10, "input_tokens": 7},
        "content": [{"type": "tool_use", "id": "c", "name": "Bash", "input": {}}],
    }
    ((session,), report) = read(
        {"type": "assistant", "message": first}, {"type": "assistant", "message": second}
    )
    assert [turn.role for turn in session.turns] == ["assistant"]
    assert report.calls == 1
    assert session.usage and (session.usage.output_tokens, session.usage.input_tokens) == (10, 7)


def test_25_recorded_twin_has_the_largest_value_of_each_message(traces: Path) -> None:
    (session,) = read_sessions(traces / "claude-code" / "cctrace_main.lines430-536.jsonl")
    assert session.usage and session.usage.output_tokens == 17_875


def test_29_naive_times_are_read_as_utc_and_that_is_said(read: Read) -> None:
    ((session,), _) = read(
        {"role": "user", "content": "a", "timestamp": "2026-01-01T00:00:00"},
        {"role": "user", "content": "b", "timestamp": "2026-01-01T00:00:00+00:00"},
    )
    assert session.turns[0].at == session.turns[1].at is not None
    assert session.notes == ("times without a zone were read as UTC",)


def test_29_a_file_of_aware_times_says_nothing(read: Read) -> None:
    ((session,), _) = read(
        {"role": "user", "content": "a", "timestamp": "2026-01-01T00:00:00Z"},
        {"role": "user", "content": "b", "timestamp": 1760000000},
        {"role": "user", "content": "c", "timestamp": "not a time"},
    )
    assert [note[:22] for note in session.notes] == ["a time could not be re"]
    assert session.turns[2].at is None
