"""`sitoolkit corrections`: one JSON object a line, redacted; `--learn` writes facts, and without a path what is kept is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from sitoolkit.cli import cli

SECRET = "ghp" + "_" + "a1B2" * 9


def call(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, list(words))
    return result.exit_code, result.stdout, result.stderr


def run(*words: str) -> tuple[int, list[dict[str, Any]], str]:
    code, out, err = call(*words)
    return code, [json.loads(line) for line in out.splitlines()], err


def transcript(folder: Path) -> str:
    messages = [
        {"role": "user", "content": "format the file"},
        {"role": "assistant", "content": "I've used spaces."},
        {"role": "user", "content": f"No, use tabs, not spaces. The token is {SECRET}."},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "thanks, no further questions"},
    ]
    path = folder / "chat.json"
    path.write_text(json.dumps({"messages": messages}))
    return str(path)


def test_lines_hold_the_keys_of_the_contract_and_no_secret(tmp_path: Path) -> None:
    code, lines, _ = run("corrections", transcript(tmp_path), "--workspace", str(tmp_path / "ws"), "--json")
    assert code == 0
    [line] = lines
    assert {"session_id", "turn", "kind", "confidence", "text", "target", "evidence"} <= set(line)
    assert (line["kind"], line["wanted"], line["unwanted"]) == ("negation", "tabs", "spaces")
    assert SECRET not in json.dumps(lines)


def test_learn_keeps_what_is_shown_without_a_path_and_memory_retract_takes_it_back(tmp_path: Path) -> None:
    ws = str(tmp_path / "ws")
    code, _, told = run("corrections", transcript(tmp_path), "--learn", "--workspace", ws)
    assert code == 0
    assert "1 written" in told
    code, kept, _ = run("corrections", "--workspace", ws)
    assert (code, len(kept), kept[0]["kind"]) == (0, 1, "negation")
    listed = ("memory", "list", "--category", "learned_fact", "--json", "--workspace", ws)
    [fact] = json.loads(call(*listed)[1])
    assert fact["text"] == "Use tabs, not spaces."
    code, _, _ = call("memory", "retract", fact["id"], "--reason", "we moved on", "--workspace", ws, "--json")
    assert code == 0
    assert json.loads(call(*listed)[1]) == []
