"""Lints and type-checks a tool's source: the text comes in, what ruff and mypy say goes out.

Both belong to the extra `toolsmith`. Where one is not installed the result says so; whoever builds decides whether that
is enough: a recipe ships checked, code by a model does not.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from sitoolkit.records import Record

__all__ = ["Check", "lint", "type_check"]

_SECONDS = 120
_PREAMBLE = """from typing import Any


class CallFailed(Exception):
    mode: str
    result: Any


class Host:
    def call(self, tool: str, args: Any, timeout_s: float | None = None) -> Any: ...
    def start(self, tool: str, args: Any) -> str:
        return ""

    def poll(self, handle: str, wait_s: float = 0.0) -> Any: ...
    def sleep(self, seconds: float) -> None: ...


"""


class Check(Record):
    """Whether a check passed. `installed` is false where the checker is not there; then nothing was checked."""

    name: str
    passed: bool
    installed: bool = True
    detail: str = ""


def lint(source: str) -> Check:
    """Run ruff: errors, undefined and unused names, likely bugs."""
    flags = [
        "check",
        "--isolated",
        "--no-cache",
        "--select",
        "E9,F,B,PLE",
        "--config",
        'builtins=["CallFailed", "Host"]',
    ]
    return _run("ruff", [*flags, "--output-format", "concise"], source, 0)


def type_check(source: str) -> Check:
    """Run mypy over the source behind declarations of what every tool is given."""
    flags = [
        "--no-error-summary",
        "--hide-error-context",
        "--no-incremental",
        "--python-version",
        "3.11",
        "--config-file",
        "",
    ]
    return _run("mypy", flags, _PREAMBLE + _future_last(source), _PREAMBLE.count("\n"))


def _future_last(source: str) -> str:
    return re.sub(r"^from __future__ import annotations\n", "\n", source, flags=re.MULTILINE)


def _run(name: str, flags: list[str], text: str, offset: int) -> Check:
    if importlib.util.find_spec(name) is None:
        return Check(
            name=name,
            passed=False,
            installed=False,
            detail=f"{name} is not installed; pip install 'sitoolkit[toolsmith]'",
        )
    with tempfile.TemporaryDirectory(prefix="sitoolkit-check-") as folder:
        file = Path(folder) / "tool.py"
        file.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run(
                [sys.executable, "-m", name, *flags, str(file)],
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                cwd=folder,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Check(name=name, passed=False, detail=f"over {_SECONDS} s")
    said = re.sub(
        r"^.*?tool\.py:(\d+)", lambda m: f"line {int(m[1]) - offset}", done.stdout, flags=re.MULTILINE
    )
    return Check(
        name=name,
        passed=done.returncode == 0,
        detail="" if done.returncode == 0 else (said or done.stderr)[:1500],
    )
