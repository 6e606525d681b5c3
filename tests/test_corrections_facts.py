"""Facts from corrections: agreement, contradiction, doubt, and who sees them."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sitoolkit.errors import NotFoundError, ParameterError
from sitoolkit.loops.capture import capture_sessions
from sitoolkit.loops.corrections import learn_facts, retract_fact
from sitoolkit.loops.facts import slot_of
from sitoolkit.recall import recall
from sitoolkit.records import (
    Memory,
    Origin,
    Reader,
    Session,
    Source,
    Status,
    ToolInvocation,
    Turn,
    parse_time,
)
from sitoolkit.settings import ModelSettings, Settings
from sitoolkit.testing import ScriptedChat
from sitoolkit.testing.demo import generate_demo
from sitoolkit.workspace import Workspace

START = parse_time("2026-05-04T08:00:00Z")
assert START is not None


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "ws", settings=Settings(models=ModelSettings(embedder="hashing")))


def said(
    text: str, *, hour: int = 0, before: str = "I've used npm, spaces, docker and X.", id: str = "", project: str | None = "atlas",
    call: ToolInvocation | None = None,
) -> Session:  # fmt: skip
    at: datetime = START + timedelta(hours=hour)  # type: ignore[operator]
    source = Source(file="t.jsonl", line=hour + 1, format="sitoolkit")
    turns = (
        Turn(role="user", text="go", index=0, at=at),
        Turn(role="assistant", text=before, calls=(call,) if call else (), index=1, at=at),
        Turn(role="user", text=text, index=2, at=at, source=source),
    )
    return Session(id=id or f"s{hour}", source=source, project=project, turns=turns)


def facts(ws: Workspace, status: str | None = "active") -> list[Memory]:
    return sorted(ws.memory.rows(category="learned_fact", status=status), key=lambda row: row.text)


def test_the_demos_facts_are_learned_and_its_contradiction_is_settled(ws: Workspace) -> None:
    demo = generate_demo(7)
    sessions = [session for crew in demo.sessions.values() for session in crew]
    learn_facts(ws, reversed(sessions))
    found = {
        (row.scope.name, row.payload["value"], row.payload["unwanted"], row.seen_count) for row in facts(ws)
    }
    assert found == {
        (fact["project"], fact["value"], fact["unwanted"], fact["count"]) for fact in demo.truth["facts"]
    }
    [old] = facts(ws, "superseded")
    [truth] = demo.truth["superseded_facts"]
    assert (old.payload["value"], old.scope.name) == (truth["value"], truth["project"])
    [new] = [row for row in facts(ws) if row.slot == old.slot and row.scope == old.scope]
    assert new.payload["value"] == "yarn"


def test_the_same_sessions_again_change_nothing(ws: Workspace) -> None:
    sessions = [
        said("No, use tabs, not spaces.", hour=1),
        said("no, use pnpm, not npm", hour=2),
        said("no, use yarn, not pnpm", hour=3),
    ]
    first = learn_facts(ws, sessions)
    rows = [row.to_json() for row in facts(ws, None)]
    again = learn_facts(ws, reversed(sessions))
    assert first.facts["written"] == 3
    assert (again.facts["written"], again.new_signals) == (0, 0)
    assert [row.to_json() for row in facts(ws, None)] == rows


def test_agreement_counts(ws: Workspace) -> None:
    learn_facts(ws, [said("No, use tabs, not spaces.", hour=1)])
    learn_facts(ws, [said("use tabs instead of spaces", hour=2)])
    [row] = facts(ws)
    assert (row.seen_count, row.confidence, row.origin) == (2, 1.0, Origin.USER_STATED)
    assert len(row.evidence) == 2


def test_the_newer_statement_holds_whatever_the_order_of_import(ws: Workspace) -> None:
    learn_facts(ws, [said("No, use yarn, not npm.", hour=9)])
    report = learn_facts(ws, [said("No, use pnpm, not npm.", hour=2)])
    assert [row.payload["value"] for row in facts(ws)] == ["yarn"]
    assert report.learned[0]["result"] == "superseded"
    assert "older than what holds" in report.learned[0]["reason"]
    assert [row.payload["value"] for row in facts(ws, "superseded")] == ["pnpm"]


def test_what_was_superseded_keeps_the_time_in_which_it_held(ws: Workspace) -> None:
    learn_facts(ws, [said("No, use pnpm, not npm.", hour=1)])
    learn_facts(ws, [said("No, use yarn, not pnpm.", hour=2)])
    [old] = facts(ws, "superseded")
    assert old.first_seen == START + timedelta(hours=1)  # type: ignore[operator]
    assert old.ended_at is not None
    assert old.superseded_by == facts(ws)[0].id


def test_back_again_with_new_evidence(ws: Workspace) -> None:
    for hour, text in enumerate(
        ("No, use tabs, not spaces.", "No, use spaces, not tabs.", "no, use tabs, not spaces")
    ):
        learn_facts(ws, [said(text, hour=hour, before="I've used tabs and spaces.")])
    assert [row.payload["value"] for row in facts(ws)] == ["tabs"]
    assert [row.payload["value"] for row in facts(ws, "superseded")] == ["spaces"]


def test_unknown_values_share_a_slot_with_what_they_replace(ws: Workspace) -> None:
    learn_facts(ws, [said("No, use foolib, not barlib.", hour=1, before="I've used barlib.")])
    learn_facts(ws, [said("No, use bazlib, not foolib.", hour=2, before="I've used foolib.")])
    assert [row.payload["value"] for row in facts(ws)] == ["bazlib"]


def test_two_places_hold_two_values(ws: Workspace) -> None:
    learn_facts(
        ws,
        [
            said("No, use tabs, not spaces, in the Makefile.", hour=1),
            said("No, use spaces, not tabs, in the Python files.", hour=2, before="I've used tabs."),
        ],
    )
    assert sorted(row.payload["value"] for row in facts(ws)) == ["spaces", "tabs"]


def test_without_a_slot_both_stay_and_a_person_is_asked(ws: Workspace) -> None:
    learn_facts(ws, [said("Never edit the license file.", hour=1, before="I've edited the license file.")])
    report = learn_facts(
        ws,
        [
            said(
                "Never edit the license file headers.", hour=2, before="I've edited the license file headers."
            )
        ],
    )
    assert len(facts(ws)) == 2
    [proposal] = ws.proposals.list(type="fact-update")
    assert report.proposals == (proposal.id,)
    assert len(proposal.evidence) == 2
    assert proposal.payload["retire"] == [next(row.id for row in facts(ws) if "headers" not in row.text)]


@pytest.mark.parametrize(
    "text",
    [
        "That's wrong.",
        "no, put it there",
        "no, not that one",
        "use it instead of that",
        "undo that",
        "you forgot the tests",
    ],
)
def test_what_names_nothing_that_holds_tomorrow_is_no_fact(ws: Workspace, text: str) -> None:
    report = learn_facts(ws, [said(text)])
    assert report.signals == report.without_fact == 1
    assert facts(ws) == []


def test_a_fact_is_inferred_from_overrides_that_recur_and_loses_to_a_stated_one(ws: Workspace) -> None:
    def overridden(hour: int) -> Session:
        made = ToolInvocation(
            session_id=f"s{hour}",
            seq=0,
            tool="deploy",
            args={"host": "a", "port": 8080},
            source=Source(file="t", line=1),
        )
        return said('deploy(host="a", port=8443)', hour=hour, call=made)

    learn_facts(ws, [overridden(1)])
    assert facts(ws) == []
    learn_facts(ws, [overridden(2)])
    [row] = facts(ws)
    assert (row.text, row.origin, row.confidence) == ("Call deploy with port = 8443.", Origin.INFERRED, 0.7)
    learn_facts(ws, [overridden(3)])
    [row] = facts(ws)
    assert 0.7 < row.confidence < 1.0
    assert len(row.evidence) == 3
    stated = row.model_copy(
        update={"id": "", "content_hash": "", "text": "Call deploy with port = 9000.", "origin": Origin.USER_STATED, "confidence": 0.5, "evidence": ("e",),
                "payload": {**row.payload, "value": "9000"}}
    )  # fmt: skip
    ws.memory.upsert([stated])
    report = learn_facts(ws, [overridden(4)])
    assert [one.payload["value"] for one in facts(ws)] == ["9000"]
    assert "a user stated otherwise" in report.learned[-1]["reason"]


def test_evidence_resolves_to_session_and_line(ws: Workspace) -> None:
    session = said("No, use tabs, not spaces.", hour=4)
    capture_sessions(ws, [session])
    learn_facts(ws, [session])
    [row] = facts(ws)
    [found] = ws.telemetry.resolve(row.evidence).to_dicts()
    assert (found["session_id"], found["file"], found["line"], found["kind"]) == (
        "s4",
        "t.jsonl",
        5,
        "signal",
    )
    [turn] = ws.sql("select evidence from signals").to_series().to_list()[0]
    assert ws.telemetry.resolve([turn]).to_dicts()[0]["kind"] == "turn"


def test_a_secret_in_a_correction_is_stored_nowhere(ws: Workspace) -> None:
    secret = "ghp" + "_" + "a1B2" * 9
    learn_facts(ws, [said(f"No, use {secret}, not spaces.")])
    stored = [row.model_dump_json() for row in facts(ws, None)] + [
        str(ws.sql("select * from signals").to_dicts())
    ]
    assert all(secret not in text for text in stored)
    assert any(secret.encode() in path.read_bytes() for path in ws.path.rglob("*") if path.is_file()) is False


def test_facts_are_recalled_in_their_slot_for_readers_of_the_project_only(ws: Workspace) -> None:
    learn_facts(
        ws,
        [
            said("No, use tabs, not spaces.", hour=1),
            said("No, use pnpm, not npm.", hour=2),
            said("No, use yarn, not pnpm.", hour=3),
        ],
    )
    seen = recall(ws, "tabs or spaces for indentation", Reader(project="atlas"))
    assert [(item.slot, item.text) for item in seen.items if "tabs" in item.text] == [
        ("fact", "Use tabs, not spaces.")
    ]
    assert not any(
        "pnpm, not npm" in item.text for item in recall(ws, "pnpm or npm", Reader(project="atlas")).items
    )
    for reader in (Reader(), Reader(project="other"), Reader(agent="atlas")):
        assert recall(ws, "tabs or spaces for indentation", reader).items == ()


def test_a_session_without_a_project_keeps_its_fact_to_itself(ws: Workspace) -> None:
    learn_facts(ws, [said("No, use tabs, not spaces.", project=None)])
    assert [str(row.scope) for row in facts(ws)] == ["session:s0"]


def test_a_person_takes_a_fact_back(ws: Workspace) -> None:
    session = said("No, use tabs, not spaces.", hour=1)
    learn_facts(ws, [session])
    [row] = facts(ws)
    with pytest.raises(ParameterError):
        retract_fact(ws, row.id, by="", reason="x")
    with pytest.raises(NotFoundError):
        retract_fact(ws, "mem_000000000000000000000000", by="ada", reason="x")
    retract_fact(ws, row.id, by="ada", reason="we moved on")
    assert facts(ws) == []
    kept = ws.memory.get(row.id)
    assert kept is not None
    assert (kept.status, kept.reason) == (Status.RETIRED, "retracted by ada: we moved on")
    assert learn_facts(ws, [session]).facts["written"] == 0
    assert facts(ws) == []
    learn_facts(ws, [said("use tabs instead of spaces", hour=2)])
    assert len(facts(ws)) == 1


@pytest.mark.parametrize(
    ("answer", "text", "written_by"),
    [
        ("Use tabs, never spaces.", "Use tabs, never spaces.", "scripted"),
        ("Use spaces, not tabs.", "Use tabs, not spaces.", "template"),  # X and Y have changed places
        ("Use tabs of width 8, not spaces.", "Use tabs, not spaces.", "template"),  # more than the user said
    ],
)
def test_a_model_words_a_fact_in_the_users_own_words_or_not_at_all(
    tmp_path: Path, answer: str, text: str, written_by: str
) -> None:
    def words(prompt: str, schema: Any) -> dict[str, Any]:
        [id] = schema["properties"]["wordings"]["items"]["properties"]["id"]["enum"]
        return {"wordings": [{"id": id, "text": answer}]}

    ws = Workspace(
        tmp_path / "ws",
        settings=Settings(models=ModelSettings(embedder="hashing")),
        chat=ScriptedChat([words]),
    )
    learn_facts(ws, [said("No, use tabs, not spaces.")])
    [row] = facts(ws)
    assert (row.text, row.written_by) == (text, written_by)


@pytest.mark.parametrize(
    ("wanted", "unwanted", "slot"),
    [
        ("tabs", "4 spaces", ("indentation", "style", "tabs")),
        ("pnpm", "npm", ("package manager", "tool", "pnpm")),
        ("times in UTC", "local time", ("time zone", "value", "UTC")),
        ("foolib", "barlib", None),
        ("pytest", "npm", None),
    ],
)
def test_slots(wanted: str, unwanted: str, slot: tuple[str, str, str] | None) -> None:
    assert slot_of(wanted, unwanted) == slot
