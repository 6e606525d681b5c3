"""Comes in: phrase tables, one TOML file a language. Goes out: compiled rules for how people correct an agent.

English and German lie in `sitoolkit/phrases`. A package adds a language, or rules to one, by an entry point of the group
`sitoolkit.phrases` that names a path, a mapping, or a function that gives either.
"""

from __future__ import annotations

import logging
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any

from sitoolkit.errors import ConfigError

__all__ = ["GROUP", "PhraseRule", "PhraseTable", "load_phrases", "phrase_table"]

log = logging.getLogger(__name__)

GROUP = "sitoolkit.phrases"
PLACES = ("clause", "message", "anywhere")
GUARDS = ("question", "answer", "self", "wish", "mine", "personal", "polite", "condition", "pleased", "want")
NEEDS = ("evidence", "contrast", "leading", "first", "known")
_WORDLESS = (
    "self",
    "wish",
    "mine",
    "personal",
    "polite",
    "condition",
    "pleased",
    "want",
    "asks",
    "next",
    "aux",
)
_WITHIN = r"(?:[^,.;:!?\n]|[.:](?=\w))"  # `{w}` in a pattern: a character within a name or a phrase, as the dot of a.py


@dataclass(frozen=True)
class PhraseRule:
    """One way to correct: where its pattern is tried, what it yields to and what it needs."""

    name: str
    pattern: re.Pattern[str]
    at: str = "clause"
    unless: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    has: tuple[str, ...] = ()  # one of them stands in the sentence, in lower case


@dataclass(frozen=True)
class PhraseTable:
    """The rules of one language."""

    language: str
    openers: re.Pattern[str]
    never: re.Pattern[str]
    rules: tuple[PhraseRule, ...]
    guards: Mapping[str, re.Pattern[str]] = field(default_factory=dict)


def phrase_table(values: Mapping[str, Any], came_from: str = "phrases") -> PhraseTable:
    """Compile a table.

    >>> table = phrase_table({"language": "fr", "rule": [{"name": "non", "pattern": "non, "}]})
    >>> table.rules[0].name
    'non'

    Args:
        values: as in `sitoolkit/phrases/en.toml`: `language`, `openers`, `never`, guards, and a list `rule`.
        came_from: named in errors.

    Raises:
        ConfigError: a key, a guard or a pattern is not valid.
    """
    rules: list[PhraseRule] = []
    try:
        for entry in values.get("rule", []):
            rule = PhraseRule(
                name=str(entry["name"]),
                pattern=_compiled(entry["pattern"]),
                at=entry.get("at", "clause"),
                unless=tuple(entry.get("unless", ())),
                needs=tuple(entry.get("needs", ())),
                has=tuple(entry.get("has", ())),
            )
            unknown = {rule.at} - {*PLACES} | {*rule.unless} - {*GUARDS} | {*rule.needs} - {*NEEDS}
            if unknown:
                raise ConfigError(f"{came_from}: rule {rule.name!r} names {', '.join(sorted(unknown))}")
            rules.append(rule)
        never = "|".join(f"(?:{pattern})" for pattern in values.get("never", ())) or r"(?!)"
        return PhraseTable(
            language=str(values["language"]),
            openers=_compiled(values.get("openers") or ""),
            never=_compiled(never),
            rules=tuple(rules),
            guards={name: _compiled(values[name]) for name in _WORDLESS if values.get(name)},
        )
    except (KeyError, TypeError, re.error) as fault:
        raise ConfigError(f"{came_from}: not a phrase table: {fault!r}") from fault


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("{w}", _WITHIN), re.IGNORECASE)


@lru_cache(maxsize=1)
def load_phrases() -> tuple[PhraseTable, ...]:
    """All tables: those that ship, and those of installed packages; one that does not load is logged and skipped."""
    tables = []
    for file in sorted(files("sitoolkit").joinpath("phrases").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            tables.append(phrase_table(tomllib.loads(file.read_text(encoding="utf-8")), file.name))
    return (*tables, *_of_packages(entry_points(group=GROUP)))


def _of_packages(points: Iterable[Any]) -> Iterable[PhraseTable]:
    for point in sorted(points, key=lambda point: (point.name, point.value)):
        try:
            made = point.load()
            made = made() if callable(made) else made
            if not isinstance(made, Mapping):
                made = tomllib.loads(Path(made).read_text(encoding="utf-8"))
            yield phrase_table(made, point.name)
        except Exception as fault:  # noqa: BLE001 - code of others: whatever it raises is reported and skipped
            log.warning("phrases of %s do not load: %s: %s", point.name, type(fault).__name__, fault)
