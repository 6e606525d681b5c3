"""IN: transcripts of any harness become sessions, one reader a format, with a report of all that could not be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sitoolkit.transcripts.base import Match, Reader, SessionBuilder, TranscriptFile
    from sitoolkit.transcripts.detect import detect_format
    from sitoolkit.transcripts.read import read_sessions
    from sitoolkit.transcripts.source import ReadReport
    from sitoolkit.transcripts.write import write_sessions

__all__ = [
    "Match",
    "ReadReport",
    "Reader",
    "SessionBuilder",
    "TranscriptFile",
    "detect_format",
    "read_sessions",
    "write_sessions",
]

_HOME = {
    "Match": "base",
    "ReadReport": "source",
    "Reader": "base",
    "SessionBuilder": "pairing",
    "TranscriptFile": "source",
    "detect_format": "detect",
    "read_sessions": "read",
    "write_sessions": "write",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
