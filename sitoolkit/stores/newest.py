"""When the newest call of each scope happened: comes in the telemetry, goes out a time a scope.

Transcripts are often studied long after they were made, and those of one agent longer than those of another; a window that
ends at a scope's own newest call sees both.
"""

from __future__ import annotations

from datetime import datetime

from sitoolkit.records import parse_time
from sitoolkit.stores.telemetry import Telemetry

__all__ = ["newest_calls"]


def newest_calls(telemetry: Telemetry) -> dict[str, datetime]:
    """The time of the newest call of each scope, or of its import where it carries none."""
    rows = telemetry.sql(
        "select scope, epoch_us(max(happened_at)) as newest from calls group by scope order by scope"
    )
    found = {}
    for scope, newest in rows.iter_rows():
        when = parse_time(newest / 1e6) if newest is not None else None
        if when is not None:
            found[str(scope)] = when
    return found
