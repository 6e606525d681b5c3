"""Names that a transcript gives become scopes later: whatever they hold, a session can be scoped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sitoolkit.records import Scope
from tests.transcripts.wild import reading


@pytest.mark.parametrize("name", ["ops", " ops\nteam ", "o\x00ps", "y" * 400, "", "\n", "Überwacher 7"])
def test_any_agent_name_can_be_a_scope(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    step = {
        "step_id": 1,
        "source": "agent",
        "message": "",
        "tool_calls": [{"tool_call_id": "k", "function_name": "f", "arguments": {}}],
    }
    path.write_text(
        json.dumps(
            {
                "schema_version": "ATIF-v1.5",
                "session_id": f"s{name}",
                "agent": {"name": name},
                "steps": [step],
            }
        )
    )
    session = reading(path).only
    assert session.calls[0].scope.kind in ("agent", "global")
    assert Scope.of("session", session.id)
    assert "\n" not in session.agent and len(session.agent) <= 200
