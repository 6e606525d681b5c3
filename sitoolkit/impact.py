"""Estimates what a change would be worth: recorded calls of a tool come in, a rate with its interval goes out."""

from __future__ import annotations

from sitoolkit.claims import wilson_lower, wilson_upper
from sitoolkit.records import Record

__all__ = ["Impact", "expected_impact"]


class Impact(Record):
    """Share of calls that would not have failed, with the 95 % Wilson interval and what it rests on."""

    estimate: float
    low: float
    high: float
    prevented: int  # failures in that mode
    of: int  # calls of the tool
    basis: str


def expected_impact(tool: str, failures: int, calls: int, sessions: int) -> Impact:
    """How much the success rate of a tool would rise if one kind of failure were settled.

    >>> expected_impact("bash", 34, 400, 12).estimate
    0.085

    Args:
        tool: name of the tool, for the basis.
        failures: calls that failed in the mode.
        calls: all calls of the tool in the same sessions.
        sessions: how many sessions those are.

    The interval is Wilson's at 95 %: it holds for small counts, and never leaves 0 to 1.
    """
    calls = max(calls, failures, 1)
    return Impact(
        estimate=round(failures / calls, 4),
        low=round(wilson_lower(failures, calls), 4),
        high=round(wilson_upper(failures, calls), 4),
        prevented=failures,
        of=calls,
        basis=f"{failures} of {calls} calls of {tool} in {sessions} sessions; an upper bound, if every such failure were settled",
    )
