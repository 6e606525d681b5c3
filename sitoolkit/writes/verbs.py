"""Word lists that tell what calls and commands do: `verbs.toml` comes in, frozen sets go out."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

__all__ = ["PROGRAMS", "PROGRAMS_ANY", "PROGRAMS_SQL", "READ_ONLY", "words_of"]

_LISTS: dict[str, Any] = tomllib.loads(
    files("sitoolkit.writes").joinpath("verbs.toml").read_text(encoding="utf-8")
)


def words_of(name: str) -> frozenset[str]:
    """The words of one list.

    >>> "create" in words_of("seed")
    True
    """
    return frozenset(_LISTS[name].split())


# programs that change something whatever they are called with; whose argument is SQL; and with which sub-commands
PROGRAMS_ANY = words_of("programs_any")
PROGRAMS_SQL = words_of("programs_sql")
PROGRAMS: dict[str, frozenset[str]] = {
    program: frozenset(verbs.split())
    for programs, verbs in _LISTS["programs"].items()
    for program in programs.split()
}
READ_ONLY: dict[str, frozenset[str]] = {verb: frozenset(alone) for verb, alone in _LISTS["read_only"].items()}
