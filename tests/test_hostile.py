"""Hostile input through the public functions: what must not fail, and the right value of what comes out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sitoolkit.errors import ConfigError, ParameterError
from sitoolkit.loops.capture import capture_sessions
from sitoolkit.models.embedders import HashingEmbedder
from sitoolkit.redaction import seal
from sitoolkit.stable import drop_blobs
from sitoolkit.transcripts import read_sessions
from sitoolkit.transcripts.base import content_text
from sitoolkit.workspace import Workspace


def _line(role: str, block: str) -> str:
    return (
        f'{{"type":"{role}","sessionId":"s-1","cwd":"/srv/a","timestamp":"2026-05-04T10:48:04Z",'
        f'"message":{{"role":"{role}","content":[{block}]}}}}\n'
    )


def _call(args: str, result: str) -> str:
    use = f'{{"type":"tool_use","id":"t1","name":"create_ticket","input":{args}}}'
    return _line("assistant", use) + _line(
        "user", f'{{"type":"tool_result","tool_use_id":"t1","content":{result}}}'
    )


def _nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize(
    ("args", "result"),
    [
        (_nested(900), '"ok"'),
        ('{"x":' + "[" * 900 + "]" * 900 + "}", '"ok"'),
        ('{"x":1}', "[" * 900 + '"ok"' + "]" * 900),
        ('{"x":1}', '[{"type":"x","content":' * 400 + '"ok"' + "}]" * 400),
        (f'{{"x":{json.dumps(_nested(900))}}}', json.dumps(_nested(900))),
    ],
)
def test_deep_nesting_costs_no_session(tmp_path: Path, args: str, result: str) -> None:
    file = tmp_path / "deep.jsonl"
    file.write_text(_call(args, result), encoding="utf-8")
    (session,) = read_sessions(file)
    (call,) = seal(session).session.calls
    assert call.tool == "create_ticket"
    assert call.outcome == "success"
    assert len(call.id) > 16
    report = capture_sessions(Workspace(tmp_path / "ws", embedder=HashingEmbedder()), read_sessions(file))
    assert (report.calls, report.captured.written, report.captured.failed) == (1, 1, 0)


def test_nesting_is_cut_at_a_hundred_levels_and_only_there() -> None:
    kept = json.loads(_nested(100))
    assert drop_blobs(kept) == kept
    text = json.dumps(drop_blobs(json.loads(_nested(101))), ensure_ascii=False)
    assert text == '{"a": ' * 100 + '"…[nested too deep]…"' + "}" * 100


def test_parts_within_parts_keep_their_order() -> None:
    content = [{"type": "text", "text": "a"}, [["b"], {"content": [{"text": "c"}, "d"]}], "", {"output": "e"}]
    assert content_text(content) == "a\nb\nc\nd\ne"


@pytest.mark.parametrize("name", ["new\nline", "bell\x07", "bytes\udcff"])
def test_a_workspace_where_no_memory_can_lie_is_refused_before_anything_is_written(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(ConfigError, match="control characters or bytes that are not UTF-8"):
        Workspace(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_path_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match="a path is empty"):
        list(read_sessions(["", str(tmp_path)]))
    with pytest.raises(ConfigError, match="name is empty"):
        Workspace("")


@pytest.mark.parametrize(
    ("closed", "words", "code"),
    [(">&-", "sql 'select 1 as n' --json", 0), ("2>&-", "sql nonsense", 2), ("<&-", "capture - --json", 1)],
)
def test_a_closed_standard_stream_is_an_empty_one(tmp_path: Path, closed: str, words: str, code: int) -> None:
    line = f'"{sys.executable}" -m sitoolkit.cli {words} --workspace "{tmp_path}/ws" {closed}'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    assert "Traceback" not in done.stderr and "fault of sitoolkit" not in done.stderr
