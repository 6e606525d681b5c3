"""When the newest call of the telemetry happened: comes in the store, goes out its time."""

from __future__ import annotations

from datetime import datetime

from sitoolkit.records import parse_time
from sitoolkit.stores.telemetry import Telemetry

__all__ = ["newest_call"]


def newest_call(telemetry: Telemetry) -> datetime | None:
    """The time of the newest call, or of its import where it carries none; None without calls."""
    found = telemetry.sql("select epoch_us(max(happened_at)) as newest from calls")["newest"][0]
    return None if found is None else parse_time(found / 1e6)
