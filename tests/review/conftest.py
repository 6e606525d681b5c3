"""A workspace in a temporary folder whose clock goes a second a look."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sitoolkit.models.embedders import HashingEmbedder
from sitoolkit.records import Memory
from sitoolkit.workspace import Workspace


class TickingClock:
    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture
def ws(tmp_path) -> Workspace:
    return Workspace(tmp_path / "ws", clock=TickingClock(), embedder=HashingEmbedder())


@pytest.fixture
def lesson(ws):
    """Write one lesson for the agent `ops`; gives its id."""
    memory = Memory(
        category="reflection", scope="agent:ops", text="Do not call `deploy` without `region`.", origin="reflected",
        slot="lesson:deploy:region", evidence=("e1",),
    )  # fmt: skip
    return ws.memory.upsert([memory], run_id="run_seed").items[0].id


def guide(ws, intent="backup_first", body="Take a backup before you change a router.", **more):
    payload = {"intent": intent, "agent": "ops", "keywords": ["backup"], "body": body, **more}
    return ws.proposals.propose(
        type="usage-guide", title=f"Guide {intent}", payload=payload, evidence=("e1",), proposed_by="triage"
    )
