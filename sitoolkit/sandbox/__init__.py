"""Confined processes for code that sitoolkit did not write."""

from sitoolkit.sandbox.confined import (
    ConfinedRun,
    HostFailure,
    HostServices,
    Limits,
    NoHost,
    check_source,
    run_confined,
)

__all__ = ["ConfinedRun", "HostFailure", "HostServices", "Limits", "NoHost", "check_source", "run_confined"]
