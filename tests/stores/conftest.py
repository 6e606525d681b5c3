"""Workspaces with a fixed clock and the hashing embedder, and short ways to make memories."""

from __future__ import annotations

from pathlib import Path

import pytest

from sitoolkit.testing import FixedClock, HashingEmbedder
from sitoolkit.workspace import Workspace


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock("2026-05-04T08:00:00Z")


@pytest.fixture
def ws(tmp_path: Path, clock: FixedClock) -> Workspace:
    return Workspace(tmp_path / "ws", clock=clock, embedder=HashingEmbedder(32))
