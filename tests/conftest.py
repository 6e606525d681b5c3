"""Fixtures for all tests: where recordings of others lie when they are at hand, and workspaces in temporary folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).resolve().parents[1].parent / "shared"


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder with recordings of real agents; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("SITOOLKIT_TRACES") or _BESIDE / "traces")
    if not folder.is_dir():
        pytest.skip("no recordings at hand (set SITOOLKIT_TRACES)")
    return folder
