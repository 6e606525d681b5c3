"""The command line as a shell sees it: one JSON value, exit codes, help that teaches, odd terminals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from sitoolkit.cli import COMMANDS, cli
from sitoolkit.cli.common import Verb, VerbGroup, emit, explain_error, json_text
from sitoolkit.errors import (
    ConfigError,
    ModelUnavailable,
    NotFoundError,
    ParameterError,
    RunFailed,
    ScopeError,
    SitoolkitError,
    StoreLocked,
)

DEMO = Path(__file__).resolve().parents[1] / "data" / "transcripts"


def run(*words: str, home: Path | None = None) -> Result:
    env = {"SITOOLKIT_HOME": str(home), "SITOOLKIT_MODELS_EMBEDDER": "hashing"} if home else {}
    return CliRunner().invoke(cli, list(words), env=env)


def commands() -> list[tuple[str, click.Command]]:
    """Every command and sub-command with its full name."""
    found = []
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        found.append((name, command))
        if isinstance(command, click.Group):
            found += [(f"{name} {inner}", each) for inner, each in command.commands.items()]
    return found


ALL = commands()


@pytest.mark.parametrize("name,command", ALL, ids=[name for name, _ in ALL])
def test_every_command_has_help_with_an_example_that_parses(name: str, command: click.Command) -> None:
    result = run(*name.split(), "--help")
    assert result.exit_code == 0
    assert command.help and command.help.strip()
    assert isinstance(command, Verb | VerbGroup), f"{name} is not made by `verb` or `group`"
    assert "Examples:" in result.output and f"sitoolkit {name.split()[0]}" in result.output
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help or parameter.type.name == "choice", (
                f"{name} {parameter.opts[0]} has no help"
            )


def test_help_names_every_verb_of_the_contract() -> None:
    text = run("--help").output
    verbs = "read capture distill guides recall explain who-saw friction signatures lessons reflect triage corrections maintenance review tools decay memory run nightly runs schedule doctor demo sql notebooks"
    for verb in verbs.split():
        assert re.search(rf"^\s+{verb}\s", text, re.MULTILINE), verb


def test_an_unknown_command_names_the_nearest_one() -> None:
    result = run("recal")
    assert result.exit_code == 2
    assert "Did you mean `sitoolkit recall`?" in result.output


def test_a_command_that_is_missing_gives_a_clean_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "absent", ("absent_module", "", "learn"))
    result = run("absent")
    assert result.exit_code == 2 and "not in this version" in result.output


def test_each_error_has_the_exit_code_of_the_contract() -> None:
    expected = {
        SitoolkitError("x"): 1, ConfigError("x"): 2, ParameterError("x"): 2, ScopeError("x"): 2, NotFoundError("x"): 1, StoreLocked("x"): 3,
        ModelUnavailable("x"): 4, RunFailed("x", exit_code=124): 124, OSError(28, "No space left on device", "/x"): 1,
    }  # fmt: skip
    for error, code in expected.items():
        text, given = explain_error(error)
        assert given == code and text, error
    assert explain_error(KeyboardInterrupt())[1] == 130
    assert explain_error(RuntimeError("Query interrupted"))[1] == 130  # DuckDB's answer to Ctrl+C


def test_an_unexpected_error_is_one_line_and_debug_shows_its_trace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def breaks(*args: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr("sitoolkit.runs.list_runs", breaks)
    result = run("runs", "list", home=tmp_path)
    assert result.exit_code == 1 and "ZeroDivisionError" in result.stderr and "Traceback" not in result.output
    assert isinstance(run("--debug", "runs", "list", home=tmp_path).exception, ZeroDivisionError)


def test_a_wrong_setting_ends_with_2_and_names_it(tmp_path: Path) -> None:
    (tmp_path / "sitoolkit.toml").write_text("[distill]\nmin_sample = 3\n")
    result = run("distill", home=tmp_path)
    assert result.exit_code == 2 and "min_samples" in result.stderr and result.stdout == ""


@pytest.mark.parametrize(
    "words",
    [
        ("distill", "--scope", "nobody"),
        ("distill", "--as-of", "yesterday"),
        ("distill", "--as-of", "2026-05-01T00:00:00"),
        ("run", "no_such_notebook"),
        ("run", "02_pattern_distillation", "-p", "min_sampels=3"),
        ("run", "02_pattern_distillation", "-p", "min_samples=abc"),
        ("run", "02_pattern_distillation", "-p", "min_samples"),
        ("nightly", "-p", "nothing_knows_this=1"),
        ("schedule", "print", "--at", "25:00"),
        ("schedule", "print", "--zone", "Nowhere/Land"),
        ("recall",),
        ("capture",),
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2_and_starts_nothing(words: tuple[str, ...], tmp_path: Path) -> None:
    result = run(*words, home=tmp_path / "ws")
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert not (tmp_path / "ws" / "runs").exists()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "ws"
    result = run("capture", str(DEMO / "ops.jsonl"), "--json", home=folder)
    assert result.exit_code == 0, result.output
    return folder


JSON_COMMANDS = [
    ("capture", str(DEMO / "ops.jsonl")),
    ("distill",),
    ("distill", "--dry-run"),
    ("guides", "list"),
    ("recall", "register a service", "--agent", "ops"),
    ("friction",),
    ("signatures", "--hours", "9999"),
    ("lessons",),
    ("triage",),
    ("maintenance",),
    ("review", "list"),
    ("tools", "list"),
    ("decay", "--dry-run"),
    ("memory", "list"),
    ("runs", "list"),
    ("schedule", "print"),
    ("sql", "select count(*) as n from calls"),
    ("notebooks", "list"),
]


@pytest.mark.parametrize("words", JSON_COMMANDS, ids=[" ".join(words[:2])[:24] for words in JSON_COMMANDS])
def test_json_is_one_value_on_standard_output_and_nothing_else(words: tuple[str, ...], home: Path) -> None:
    result = run(*words, "--json", home=home)
    assert result.exit_code == 0, result.output
    json.loads(result.stdout)
    assert run(*words, home=home).exit_code == 0


def test_the_keys_of_the_contract_are_there(home: Path) -> None:
    for words, keys in {
        (
            "distill",
        ): "groups_seen groups_processed skipped_low_samples patterns_written patterns_superseded claims_dropped patterns",
        (
            "capture",
            str(DEMO / "ops.jsonl"),
        ): "files sessions calls outcomes writes captured set_aside unknown_types redactions",
        ("recall", "register a service", "--agent", "ops"): "id text tokens abstained items",
        ("friction",): "events",
        ("decay", "--dry-run"): "seen kept demoted expired retired promoted",
    }.items():
        value = json.loads(run(*words, "--json", home=home).stdout)
        assert set(keys.split()) <= set(value), words


def test_the_schedule_is_text_with_the_paths_of_this_machine(tmp_path: Path) -> None:
    home = tmp_path / "a b"
    for kind, word in (
        ("cron", "CRON_TZ=Europe/Berlin"),
        ("systemd", "OnCalendar=*-*-* 03:05:00 Europe/Berlin"),
        ("airflow", 'schedule="5 3 * * *"'),
    ):
        text = run(
            "schedule", "print", "--kind", kind, "--at", "03:05", "--zone", "Europe/Berlin", home=home
        ).output
        assert word in text and "nightly" in text and str(home) in text
    compile(run("schedule", "print", "--kind", "airflow", home=home).output, "dag", "exec")


def test_notebooks_are_copied_once_and_kept_when_they_were_changed(tmp_path: Path) -> None:
    assert run("notebooks", "copy", str(tmp_path / "mine")).exit_code == 0
    notebook = tmp_path / "mine" / "00_quickstart.ipynb"
    assert notebook.is_file() and (tmp_path / "mine" / "pictures" / "loop.svg").is_file()
    notebook.write_text("mine")
    assert "kept" in run("notebooks", "copy", str(tmp_path / "mine")).output
    assert notebook.read_text() == "mine"
    run("notebooks", "copy", str(tmp_path / "mine"), "--overwrite")
    assert notebook.read_text() != "mine"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion(shell: str) -> None:
    assert "_SITOOLKIT_COMPLETE" in run("completion", shell).output


# ---------------------------------------------------------------- odd terminals


def program(*words: str, **given: Any) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, **given.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-m", "sitoolkit.cli", *words],
        capture_output=True,
        timeout=120,
        env=env,
        check=False,
        **given,
    )


def test_a_reader_that_leaves_early_is_no_error() -> None:
    script = f"{sys.executable} -m sitoolkit.cli read {DEMO / 'ops.jsonl'} --json | head -1 >/dev/null; exit ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", script], capture_output=True, timeout=120, check=False)
    assert ended.returncode == 0 and b"Traceback" not in ended.stderr, ended.stderr


def test_a_terminal_without_utf8_gets_escapes(tmp_path: Path) -> None:
    env = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "SITOOLKIT_HOME": str(tmp_path)}
    ended = program("sql", "select 'ü€𝕏' as word", "--json", env=env)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)[0]["word"] == "ü€𝕏"


def test_control_characters_of_others_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    emit("x", False, "a\x1b[31mred\x07\u202e")
    assert capsys.readouterr().out == "a\\x1b[31mred\\x07\\u202e\n"
    assert json.loads(json_text({"a": "\ud800"})) == {"a": "\ud800"}
    assert json.loads(json_text({"a": float("nan"), "b": {2, 1}})) == {"a": None, "b": [1, 2]}


def test_sigterm_ends_a_command_with_143(tmp_path: Path) -> None:
    code = (
        "import sys, time, click\nfrom sitoolkit import cli\n"
        "@click.command('wait')\ndef wait():\n    print('begun', flush=True)\n    time.sleep(60)\n"
        "import types; m = types.ModuleType('sitoolkit.cli.waiting'); m.wait = wait; m.__spec__ = __import__('importlib.machinery').machinery.ModuleSpec(m.__name__, None)\n"
        "sys.modules[m.__name__] = m; cli.COMMANDS['wait'] = ('waiting', '', 'learn'); sys.argv = ['sitoolkit', 'wait']; cli.main()"
    )
    for signum, expected in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None and process.stdout.readline() == b"begun\n"
        time.sleep(0.1)
        process.send_signal(signum)
        _, said = process.communicate(timeout=30)
        assert process.returncode == expected and b"Traceback" not in said, said


def test_help_is_there_at_once() -> None:
    heavy = "import sys, sitoolkit.cli; print(sorted({'polars', 'lancedb', 'duckdb', 'altair', 'numpy', 'papermill', 'pyarrow'} & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
