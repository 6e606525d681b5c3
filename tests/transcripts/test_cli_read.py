"""`sitoolkit read`: JSON lines with the keys of the contract, a report at the end, reasons on demand, nothing secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sitoolkit.cli import cli
from sitoolkit.transcripts import read_sessions

MESSAGES = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "login", "arguments": '{"token": "abc123abc123", "host": "a"}'}}]},
    {"role": "tool", "tool_call_id": "c", "content": "Error: 401 Unauthorized for token=abc123abc123"},
]  # fmt: skip


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jsonl"
    path.write_text("".join(json.dumps(message) + "\n" for message in MESSAGES) + "{broken\n")
    return path


def _run(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, ["read", *map(str, words)])


@pytest.mark.parametrize("flag", [[], ["--json"]])
def test_prints_a_session_a_line_and_the_report(chat: Path, flag: list[str]) -> None:
    told = _run(chat, *flag)
    assert told.exit_code == 0
    session, last = [json.loads(line) for line in told.stdout.splitlines()]
    assert {"id", "format", "agent", "started_at", "outcome", "source", "turns", "calls"} <= set(session)
    (call,) = session["calls"]
    assert {
        "seq",
        "tool",
        "args",
        "result",
        "outcome",
        "failure_mode",
        "error",
        "duration_ms",
        "paired",
        "source",
    } <= set(call)
    assert (call["outcome"], call["failure_mode"], call["source"]["line"]) == ("failure", "PERM", 2)
    report = last["report"]
    assert {"files", "sessions", "calls", "results", "set_aside", "unknown_types"} <= set(report)
    assert [(item["line"], item["reason"][:8]) for item in report["set_aside"]] == [(4, "not JSON")]


def test_nothing_secret_is_printed(chat: Path) -> None:
    assert "abc123abc123" not in _run(chat).stdout


def test_what_is_printed_reads_back(chat: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.jsonl"
    again.write_text(_run(chat).stdout)
    (session,) = read_sessions(again)
    assert [(call.tool, call.outcome.value) for call in session.calls] == [("login", "failure")]


def test_why_says_format_and_reason(chat: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# notes")
    told = _run(tmp_path, "--why")
    assert f"{chat}: openai-chat (a message with a role on each line)" in told.stdout
    assert "notes.md: not read (text that no reader knows as a transcript)" in told.stdout


def test_format_overrules_and_an_unknown_one_is_a_usage_error(chat: Path) -> None:
    assert json.loads(_run(chat, "--format", "anthropic").stdout.splitlines()[0])["format"] == "anthropic"
    told = _run(chat, "--format", "opnai-chat")
    assert told.exit_code == 2
    assert "did you mean" in told.stderr


def test_rules_are_listed_and_switched_off(chat: Path) -> None:
    assert "exit-marker" in CliRunner().invoke(cli, ["read", "--rules"]).stdout
    session = json.loads(_run(chat, "--rule-off", "text-error").stdout.splitlines()[0])
    assert session["calls"][0]["outcome"] == "success"


@pytest.mark.parametrize("data", [b"", b"just prose", bytes(range(256)) * 9])
def test_a_file_that_cannot_be_read_ends_in_1_with_its_reason(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    told = _run(path)
    assert told.exit_code == 1
    assert str(path) in told.stderr and "Traceback" not in told.stderr
