"""Scores correction detection on our labelled turns, and writes the figures into `docs/explanation/corrections.md`.

Run `python -m tests.corrections_figures` after a change of the phrase tables; `tests/test_corrections.py` fails while page and code differ.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from sitoolkit.loops.corrections import detect_corrections
from sitoolkit.records import Session, Source, Turn

FIXTURES = Path(__file__).parent / "fixtures" / "corrections"
PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "corrections.md"
BEGIN, END = "<!-- figures: written by tests/corrections_figures.py -->", "<!-- end of figures -->"
_GERMAN = (
    "ich ",
    "nicht",
    "nein",
    "das ",
    "die ",
    "der ",
    "du ",
    "bitte",
    "danke",
    "wie ",
    "soll",
    "eine",
    "kein",
)


class Score(NamedTuple):
    """How many turns were right and wrong."""

    turns: int
    corrections: int
    found: int
    false: int

    @property
    def precision(self) -> float:
        """Share of what was found that is right."""
        return self.found / (self.found + self.false) if self.found + self.false else 1.0

    @property
    def recall(self) -> float:
        """Share of the corrections that were found."""
        return self.found / self.corrections if self.corrections else 1.0


def rows(half: str) -> list[dict[str, str]]:
    """The labelled turns of `tune` or `report`: before (the agent's message), text (the user's), label."""
    lines = (FIXTURES / f"{half}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def session_of(before: str, text: str, **fields: object) -> Session:
    """A session in which the agent says one thing and the user answers."""
    source = Source(file="labelled.jsonl", line=1)
    turns = (
        Turn(role="user", text="Please help me with this.", index=0),
        Turn(role="assistant", text=before, index=1),
        Turn(role="user", text=text, index=2),
    )
    return Session.model_validate({"id": "labelled", "source": source, "turns": turns, **fields})


def is_german(row: dict[str, str]) -> bool:
    """Whether a labelled turn is German, told by small words of both messages."""
    both = f" {row['before'].lower()} {row['text'].lower()} "
    return sum(both.count(word) for word in _GERMAN) >= 2 and " the " not in both and " i " not in both


def score(labelled: list[dict[str, str]]) -> Score:
    """Precision and recall of the negation trigger."""
    corrections = found = false = 0
    for row in labelled:
        fired = any(
            one.kind == "negation" for one in detect_corrections(session_of(row["before"], row["text"]))
        )
        wanted = row["label"] == "negation"
        corrections += wanted
        found += fired and wanted
        false += fired and not wanted
    return Score(len(labelled), corrections, found, false)


def figures() -> str:
    """The table of the page."""
    lines = [
        "| turns | labelled | corrections | found | false alarms | precision | recall |",
        "|---|---|---|---|---|---|---|",
    ]
    tune, report = rows("tune"), rows("report")
    parts = (
        ("tuned on", tune),
        ("reported", report),
        ("reported, English", [row for row in report if not is_german(row)]),
        ("reported, German", [row for row in report if is_german(row)]),
    )
    for name, part in parts:
        got = score(part)
        lines.append(
            f"| {name} | {got.turns} | {got.corrections} | {got.found} | {got.false} | {got.precision:.3f} | {got.recall:.3f} |"
        )
    return "\n".join(lines)


def page_with_figures(page: str) -> str:
    """The page with its figures as they are now."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{figures()}\n\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page_with_figures(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(figures())
