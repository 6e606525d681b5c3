"""What the tests of the wild formats share: where fixtures lie, how to read one, and what a call came to in one line."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from sitoolkit.records import Session
from sitoolkit.transcripts.detect import detect_format
from sitoolkit.transcripts.read import read_sessions
from sitoolkit.transcripts.source import ReadReport

FIXTURES = Path(__file__).parents[1] / "fixtures" / "transcripts"


class Reading(NamedTuple):
    """All that reading one path gave."""

    format: str
    sessions: list[Session]
    report: ReadReport

    @property
    def only(self) -> Session:
        assert len(self.sessions) == 1, [session.id for session in self.sessions]
        return self.sessions[0]


def reading(path: str | Path) -> Reading:
    """Read a fixture by name, or any path."""
    path = FIXTURES / path if isinstance(path, str) else path
    report = ReadReport()
    sessions = list(read_sessions(path, report=report))
    return Reading(detect_format(path)[0], sessions, report)


def story(session: Session) -> list[tuple[str, str]]:
    """Each call with how it ended: outcome, or outcome and mode, or why it does not count."""
    return [
        (
            call.tool,
            "never ran"
            if not call.ran
            else "/".join(
                filter(None, (call.outcome.value, call.failure_mode, "abandoned" if call.abandoned else ""))
            ),
        )
        for call in session.calls
    ]
