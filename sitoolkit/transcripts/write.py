"""Sessions go into our own JSONL: a session a line, which `read_sessions` reads back unchanged."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import orjson

from sitoolkit.records import Session

__all__ = ["session_line", "write_sessions"]


def session_line(session: Session) -> bytes:
    """One line of our own JSONL, with its end; fields at their defaults are left out."""
    return orjson.dumps(session.model_dump(mode="json", exclude_defaults=True)) + b"\n"


def write_sessions(path: str | os.PathLike[str], sessions: Iterable[Session]) -> int:
    """Write sessions to a file (`.gz` and `.zst` compress) and return how many; the file appears when it is complete.

    >>> write_sessions("all.jsonl", read_sessions("runs/"))
    12

    What is written is what is given: redact first (`redaction.seal`) what leaves the machine.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    count = 0
    try:
        with _opened(part, path.suffix) as handle:
            for session in sessions:
                handle.write(session_line(session))
                count += 1
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count


def _opened(part: Path, suffix: str) -> IO[bytes]:
    if suffix == ".gz":
        return gzip.open(part, "wb")  # type: ignore[return-value]
    if suffix == ".zst":
        import zstandard

        handle: IO[bytes] = zstandard.open(part, "wb")
        return handle
    return part.open("wb")
