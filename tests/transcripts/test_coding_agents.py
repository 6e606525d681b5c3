"""Codex, pi and OpenClaw, opencode, Gemini CLI, Cline and aider: each version of each format, and its own traps."""

from __future__ import annotations

import pytest

from tests.transcripts.wild import reading, story


def test_codex_bare_items_under_a_header_without_type() -> None:
    seen = reading("codex_bare.jsonl")
    assert seen.format == "codex" and seen.only.id == "c-bare"
    assert story(seen.only) == [("shell", "success"), ("shell", "failure/NOTFOUND")]
    assert [turn.role for turn in seen.only.turns] == ["system", "system", "user", "assistant", "assistant"]
    assert seen.only.calls[0].duration_ms == 200 and not seen.report.unknown_types


def test_codex_envelope_with_base_instructions_and_the_display_log() -> None:
    seen = reading("codex_envelope.jsonl")
    session = seen.only
    assert session.turns[0].text == "Be brief." and (session.project, session.model) == ("shop", "gpt-x")
    assert [turn.text for turn in session.turns if turn.role == "user"] == [
        "Fix it"
    ]  # told in both logs, once here
    assert story(session) == [
        ("exec_command", "failure/RUNTIME"),
        ("apply_patch", "success"),
        ("web_search", "success"),
        ("exec_command", "unknown"),
    ]
    assert session.calls[0].duration_ms == 1500 and session.calls[0].rule == "exit-code"
    assert session.calls[3].args == '{"cmd":"sle' and session.calls[3].args_error
    assert session.usage is not None and session.usage.input_tokens == 300  # running totals are not added up
    assert session.outcome == "cancelled" and seen.report.unknown_types == {"event_msg/brand_new_event": 1}


def test_codex_turns_that_were_rolled_back_are_abandoned() -> None:
    session = reading("codex_rollback.jsonl").only
    assert story(session) == [("exec_command", "success/abandoned"), ("local_shell", "failure/TOOL_GAP")]
    assert [turn.abandoned for turn in session.turns if turn.role == "user"] == [True, False]


def test_codex_exec_events_tell_a_call_once() -> None:
    session = reading("codex_exec.jsonl").only
    assert session.id == "c-exec" and story(session) == [("command_execution", "failure/NOTFOUND")]


def test_openclaw_branch_given_up_and_message_that_ended_in_an_error() -> None:
    seen = reading("openclaw_tree.jsonl")
    assert seen.format == "openclaw"
    assert story(seen.only) == [
        ("read", "success/abandoned"),
        ("read", "failure/NOTFOUND"),  # isError is false, the details say error
        ("bash", "failure/RUNTIME"),
        ("write", "never ran"),
    ]
    assert (
        seen.report.calls == 3 and seen.report.never_ran == 1 and seen.report.unknown_types == {"surprise": 1}
    )


def test_opencode_events_replace_what_was_told() -> None:
    seen = reading("opencode_events.jsonl")
    assert story(seen.only) == [("read", "success"), ("glob", "failure/ARGS"), ("bash", "unknown")]
    assert seen.only.calls[0].duration_ms == 500 and seen.only.parent_id == "ses_0"
    assert seen.report.unknown_types == {"odd.hook": 1}


@pytest.mark.parametrize(
    ("file", "calls"),
    [
        ("opencode_export.json", [("bash", "failure/RUNTIME"), ("bash", "never ran")]),
        ("opencode_run.jsonl", [("list", "success")]),
    ],
)
def test_opencode_other_shapes(file: str, calls: list[tuple[str, str]]) -> None:
    seen = reading(file)
    assert seen.format == "opencode" and story(seen.only) == calls


def test_gemini_cli_statuses() -> None:
    seen = reading("gemini_cli.json")
    assert seen.format == "gemini-cli"
    assert story(seen.only) == [
        ("read_file", "success"),
        ("run_shell_command", "failure/TOOL_GAP"),
        ("write_file", "cancelled"),
    ]
    assert seen.only.calls[0].result == "text" and seen.report.unknown_types == {"message/martian": 1}


def test_gemini_cli_lines_and_a_rewind() -> None:
    session = reading("gemini_cli.jsonl").only
    assert [(turn.text, turn.abandoned) for turn in session.turns] == [
        ("Go", False),
        ("Right", False),
        ("Wrong", True),
    ]


def test_gemini_cli_stream_joins_pieces() -> None:
    session = reading("gemini_cli_stream.jsonl").only
    assert session.turns[1].text == "I look" and story(session) == [("list", "failure/NOTFOUND")]


def test_cline_xml_calls_denials_and_a_call_that_was_cut_off() -> None:
    seen = reading("cline_xml.json")
    assert seen.format == "cline"
    assert story(seen.only) == [
        ("read_file", "failure/NOTFOUND"),
        ("write_to_file", "cancelled"),
        ("execute_command", "never ran"),
    ]
    assert seen.only.calls[1].args == {"path": "a.py", "content": "<b>x</b>"}
    assert [turn.text for turn in seen.only.turns if turn.role == "user"] == ["Add a route", "no, use tabs"]


def test_cline_native_calls_and_its_interface() -> None:
    assert story(reading("cline_native.json").only) == [("read_file", "success")]
    seen = reading("cline_ui.json")
    assert story(seen.only) == [("readFile", "success"), ("execute_command", "failure/RUNTIME")]
    assert seen.report.unknown_types == {"say/brand_new": 1}


def test_aider_edits_and_commands() -> None:
    seen = reading("aider.chat.history.md")
    assert seen.format == "aider" and seen.only.model == "acme/m"
    assert story(seen.only) == [("edit", "success"), ("edit", "failure/RUNTIME"), ("run", "failure/ARGS")]
    assert seen.only.turns[1].text == "rename f to g\neverywhere"
    assert seen.only.usage is not None and seen.only.usage.input_tokens == 2500
