"""Which reader reads a file: in comes a path, out come the reader and the reason, by content and never by name alone."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from sitoolkit.errors import ParameterError, TranscriptError
from sitoolkit.transcripts.base import Match, TranscriptFile

__all__ = ["choose", "choose_folder", "detect_format", "format_names", "reader_named", "readers"]


@lru_cache(maxsize=1)
def readers() -> tuple[Any, ...]:
    """All readers in order of name: those of this package, then those of plugins; a plugin's name wins.

    A plugin that does not load is named in a warning and skipped.
    """
    package = importlib.import_module("sitoolkit.transcripts")
    found: dict[str, Any] = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"sitoolkit.transcripts.{info.name}")
        for reader in getattr(module, "READERS", (module,)):
            if hasattr(reader, "NAME") and hasattr(reader, "sniff"):
                found[reader.NAME] = reader
    for entry in sorted(entry_points(group="sitoolkit.readers"), key=lambda entry: entry.name):
        try:
            reader = entry.load()
            if not (isinstance(reader.NAME, str) and callable(reader.sniff) and callable(reader.read)):
                raise TypeError("it has no NAME, sniff and read")
        except Exception as fault:  # noqa: BLE001 - a plugin may raise anything and must not stop the reading
            warnings.warn(f"reader {entry.name!r} is skipped: {fault}", stacklevel=2)
            continue
        found[reader.NAME] = reader
    return tuple(found[name] for name in sorted(found))


def format_names() -> tuple[str, ...]:
    """The names of all formats."""
    return tuple(reader.NAME for reader in readers())


def reader_named(name: str) -> Any:
    """The reader of a format, by its name or an alias.

    Raises:
        ParameterError: no reader has that name; names the nearest.
    """
    wanted = name.strip().lower().replace("_", "-")
    for reader in readers():
        if wanted == reader.NAME or wanted in getattr(reader, "ALIASES", ()):
            return reader
    import difflib

    near = difflib.get_close_matches(wanted, format_names(), 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ParameterError(f"no reader for format {name!r}{hint} known: {', '.join(format_names())}")


def choose(source: TranscriptFile) -> tuple[Any, Match]:
    """The reader that is surest of a file, with its reason.

    Raises:
        TranscriptError: the file is empty, binary or cannot be opened, or no reader knows it.
    """
    head = source.head
    best: tuple[Any, Match] | None = None
    for reader in readers():
        try:
            match = reader.sniff(head)
        except (TypeError, KeyError, IndexError, AttributeError, ValueError):
            continue  # a shape that the reader did not think of is not its own
        if match is not None and (best is None or match.score > best[1].score):
            best = (reader, match)
    if best is None:
        reason = "a binary file that no reader knows" if head.binary else _what_it_is(source)
        raise TranscriptError(
            f"{source.file}: {reason}; name its format with --format, known: {', '.join(format_names())}",
            file=source.file,
            reason=reason,
        )
    return best


def _what_it_is(source: TranscriptFile) -> str:
    head = source.head
    if head.layout == "text":
        return "text that no reader knows as a transcript"
    first = head.items[0] if head.items else None
    if isinstance(first, dict):
        keys = ", ".join(sorted(map(str, first))[:8])
        return f"JSON that no reader knows as a transcript (first record has {keys or 'no keys'})"
    return f"JSON that no reader knows as a transcript (first value is {type(first).__name__})"


def choose_folder(path: Path) -> tuple[Any, Match] | None:
    """The reader of a format that is a whole folder, if one knows it."""
    best: tuple[Any, Match] | None = None
    for reader in readers():
        sniff = getattr(reader, "sniff_folder", None)
        match = sniff(path) if sniff else None
        if match is not None and (best is None or match.score > best[1].score):
            best = (reader, match)
    return best


def detect_format(path: str | Path) -> tuple[str, str]:
    """The format of a file or folder and the reason for it.

    >>> detect_format("runs/a.jsonl")
    ('openai-chat', 'a messages list with roles')

    Raises:
        TranscriptError: no reader knows it.
    """
    path = Path(path)
    if path.is_dir():
        found = choose_folder(path)
        if found is None:
            raise TranscriptError(
                f"{path}: a folder of files; name one of them", file=str(path), reason="a folder"
            )
    else:
        found = choose(TranscriptFile(path))
    return found[0].NAME, found[1].reason
