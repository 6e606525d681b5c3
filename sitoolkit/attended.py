"""Tells whether a person is at the wheel: code that runs unattended (loops, plugins, headless notebooks) says so here.

The gate refuses every decision that is tried in an unattended block, whoever's name it gives.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["UNATTENDED_VARIABLE", "unattended", "who_runs_unattended"]

UNATTENDED_VARIABLE = "SITOOLKIT_UNATTENDED"  # set for the kernels of headless notebooks
_RUNNING: ContextVar[str] = ContextVar("sitoolkit_unattended", default="")


@contextmanager
def unattended(what: str) -> Iterator[None]:
    """Mark a block as running without a person; blocks nest.

    >>> with unattended("plugin x"):
    ...     who_runs_unattended()
    'plugin x'
    """
    token = _RUNNING.set(what)
    try:
        yield
    finally:
        _RUNNING.reset(token)


def who_runs_unattended() -> str:
    """What runs without a person here; empty where a person may be."""
    return _RUNNING.get() or os.environ.get(UNATTENDED_VARIABLE, "")
