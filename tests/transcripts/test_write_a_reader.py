"""The page "Write a reader" is true: its reader, its transcript and its claims, as an installed plugin."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from sitoolkit.transcripts import detect
from sitoolkit.transcripts.detect import detect_format, format_names

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-a-reader.md"


def _block(title: str | None, kind: str = "python") -> str:
    mark = rf'```{kind} title="{re.escape(title)}"\n' if title else rf"```{kind}\n"
    found = re.search(mark + r"(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert found, title
    return found.group(1)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path that looks like an installed package with an entry point, as pip would leave it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    about = tmp_path / "acme_reader-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-reader\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        _block("pyproject.toml", "toml")
        .replace('[project.entry-points."sitoolkit.readers"]', "[sitoolkit.readers]")
        .replace('"', "")
    )
    detect.readers.cache_clear()
    yield tmp_path
    detect.readers.cache_clear()
    sys.modules.pop("acme_reader", None)


def test_the_example_reads_as_the_page_says(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (installed / "acme_reader.py").write_text(_block("acme_reader.py"))
    (installed / "run.acme.jsonl").write_text(_block("run.acme.jsonl", "json"))
    monkeypatch.chdir(installed)
    assert detect_format("run.acme.jsonl") == ("acme", "the first record has acme_run")
    assert "acme" in format_names()
    exec(compile(_block(None), str(PAGE), "exec"), {})


@pytest.mark.parametrize("code", ["raise RuntimeError('broken')", "NAME = 3", "NAME = 'acme'"])
def test_a_reader_that_does_not_load_is_named_and_skipped(installed: Path, code: str) -> None:
    (installed / "acme_reader.py").write_text(code)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        names = format_names()
    assert "acme" not in names and "openai-chat" in names
    assert any("reader 'acme' is skipped" in str(warning.message) for warning in told)


def test_every_reader_of_ours_has_a_name_a_docstring_and_the_two_functions() -> None:
    names = format_names()
    assert len(names) == len(set(names))
    for reader in detect.readers():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", reader.NAME)
        assert callable(reader.sniff) and callable(reader.read)
        module = sys.modules[reader.__name__ if hasattr(reader, "__name__") else type(reader).__module__]
        assert module.__doc__ and len(module.__doc__) > 80
