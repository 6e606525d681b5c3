"""A clock that tests move by hand: comes in an instant, goes out a callable that returns it."""

from __future__ import annotations

from datetime import datetime, timedelta

from sitoolkit.records import parse_time

__all__ = ["FixedClock"]


class FixedClock:
    """A `Clock` that stands still until it is told to advance.

    >>> clock = FixedClock("2026-05-04T08:00:00Z")
    >>> clock.advance(hours=1).hour
    9

    Args:
        at: the instant, ISO 8601 with a zone or an aware `datetime`.
        tick_s: seconds to advance after each reading; 0 by default.

    Raises:
        TimeError: the instant has no zone or cannot be read.
    """

    def __init__(self, at: str | datetime = "2026-06-01T08:00:00Z", *, tick_s: float = 0.0) -> None:
        start = parse_time(at)
        if start is None:
            raise ValueError("a fixed clock needs an instant")
        self.now: datetime = start
        self.tick_s = tick_s

    def __call__(self) -> datetime:
        present = self.now
        self.now += timedelta(seconds=self.tick_s)
        return present

    def advance(self, **parts: float) -> datetime:
        """Move forward by `timedelta(**parts)` and return the new present."""
        self.now += timedelta(**parts)
        return self.now
