"""The page `docs/reference/formats.md` is made here: what each reader made of the recordings at hand.

`SITOOLKIT_UPDATE_DOCS=1 pytest tests/transcripts/test_formats_page.py` writes it anew.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from sitoolkit.errors import TranscriptError
from sitoolkit.failures import RULES
from sitoolkit.transcripts import ReadReport, read_sessions
from sitoolkit.transcripts.detect import readers
from sitoolkit.transcripts.read import find_transcripts

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "formats.md"
# Notes, results of environments, test output and experiment tables; *.chatml.json is the truth that others left beside traces.
NO_TRANSCRIPTS = (
    "README",
    "alfworld_env_results",
    "phoenix_evals_mcp_runs",
    "nginx-request-logging.tests",
    "orchestrator_qwen3_run",
)
COLUMNS = ("files", "sessions", "calls", "paired", "guessed", "orphaned", "failed", "set aside")


def _reports(traces: Path) -> tuple[dict[str, ReadReport], list[str]]:
    """What each reader read, and the files that no reader knows."""
    reports: dict[str, ReadReport] = {}
    unknown: list[str] = []
    for folder in sorted(traces.iterdir()):
        if not folder.is_dir() or folder.name in ("loghub", "plain-logs", "secrets"):
            continue  # logs and secrets, no transcripts
        for path, _ in find_transcripts(folder):
            report = ReadReport()
            try:
                list(read_sessions(path, report=report))
            except TranscriptError:
                unknown.append(path.name)
                continue
            (name,) = report.formats
            total = reports.setdefault(name, ReadReport())
            for field in ("files", "sessions", "calls", "paired", "guessed", "orphaned", "never_ran"):
                setattr(total, field, getattr(total, field) + getattr(report, field))
            total.outcomes += Counter(report.outcomes)
            total.set_aside += report.set_aside
    return reports, unknown


def _page(reports: dict[str, ReadReport]) -> str:
    lines = [
        "# Formats",
        "",
        "<!-- made by tests/transcripts/test_formats_page.py; do not edit -->",
        "",
        "What the readers made of the recordings that sitoolkit is tested with. *Guessed*: paired by position where ids lack or",
        "repeat within one message. *Orphaned*: a result whose call the file does not hold. *Failed*: failures and time-outs.",
        "",
        "| format | " + " | ".join(COLUMNS) + " |",
        "|---|" + "---:|" * len(COLUMNS),
    ]
    for name, report in sorted(reports.items()):
        cells = (
            report.files,
            report.sessions,
            report.calls,
            report.paired,
            report.guessed,
            report.orphaned,
            report.failed,
            len(report.set_aside),
        )
        lines.append(f"| {name} | " + " | ".join(map(str, cells)) + " |")
    lines += [
        "",
        "## All formats",
        "",
        "`--format` takes these names; what each reader knows of its format stands at the top of its module.",
        "",
    ]
    for reader in readers():
        module = sys.modules[getattr(reader, "__name__", type(reader).__module__)]
        first = (module.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
        also = getattr(reader, "ALIASES", ())
        lines.append(f"* **{reader.NAME}**{' (also ' + ', '.join(also) + ')' if also else ''}: {first}")
    lines += [
        "",
        "## How an outcome is judged",
        "",
        "The first rule that speaks decides, from top to bottom. `--rule-off NAME` switches one off; a package adds its own by the entry",
        "point group `sitoolkit.failure_rules`.",
        "",
        "| rule | says |",
        "|---|---|",
        *(f"| `{rule.name}` | {rule.says} |" for rule in RULES if rule.kind == "outcome"),
        "",
        "The mode of a failure (PERM, NOTFOUND, TIMEOUT, SYNTAX, RUNTIME, TOOL_GAP, ARGS, CONFLICT, NETWORK) comes from the error's type, an exit",
        "code of 124, 126 or 127, an HTTP status, or its words, in that order; RUNTIME where nothing fits. Of a program's output only",
        "words count that programs die of: a test that prints `expected 5` failed at run time, not for its arguments.",
        "",
    ]
    return "\n".join(lines)


def test_every_recording_is_read_without_an_exception_and_the_page_says_what_came_of_it(traces: Path) -> None:
    reports, unknown = _reports(traces)
    page = _page(reports)
    if os.environ.get("SITOOLKIT_UPDATE_DOCS"):
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page, "run with SITOOLKIT_UPDATE_DOCS=1 to write the page anew"
    for name, report in reports.items():
        assert report.sessions, name
        assert report.calls >= report.paired, name
    assert not [
        name for name in unknown if not name.startswith(NO_TRANSCRIPTS) and not name.endswith(".chatml.json")
    ]


def test_the_page_lists_every_reader() -> None:
    text = PAGE.read_text(encoding="utf-8")
    missing = [reader.NAME for reader in readers() if f"**{reader.NAME}**" not in text]
    if missing == ["acme"]:
        pytest.skip("a plugin of another test is loaded")
    assert not missing
