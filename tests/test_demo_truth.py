"""What is learned from the demo's transcripts, scored against their truth."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sitoolkit.claims import timelines
from sitoolkit.claims.shapes import SHAPES
from sitoolkit.loops.capture import find_events, prepare
from sitoolkit.loops.distill import Pattern, distill
from sitoolkit.records import Claim, Session
from sitoolkit.testing import generate_demo
from sitoolkit.transcripts import read_sessions

DATA = Path(__file__).parents[1] / "data"
SEEDS = (7, 8, 11, 23)


def missed(truth: dict[str, Any], patterns: Iterable[Pattern]) -> list[str]:
    """Planted conventions that no claim states."""
    claims = [(pattern.tool, claim) for pattern in patterns for claim in pattern.claims]
    return [
        convention["id"]
        for convention in truth["conventions"]
        if convention["samples"]
        and not any(tool == convention["tool"] and states(claim, convention) for tool, claim in claims)
    ]


def states(claim: Claim, convention: dict[str, Any]) -> bool:
    data = claim.data
    if claim.kind != convention["kind"] or data.get("arg") != convention.get("arg"):
        return False
    match claim.kind:
        case "always_given":
            return sorted(data["args"]) == convention["args"]
        case "constant":
            return bool(data["value"] == convention["value"])
        case "closed_set":
            return bool(data["values"] == convention["values"])
        case "template":
            return bool(data["template"] == convention["template"])
        case "range":
            return bool(convention["low"] <= data["low"] and data["high"] <= convention["high"])
        case "preceded_by":
            return bool(data["before"] == convention["before"])
        case "shape":
            return bool(data["shape"] == convention["shape"])
        case "variance":
            return data["of"] == "hosts" and len(data["families"]) == len(convention["families"])
    return False


def contradicted(truth: dict[str, Any], patterns: Iterable[Pattern]) -> list[str]:
    """Claims that say more than the truth allows."""
    wrong = []
    for pattern in patterns:
        spec = truth["tools"].get(pattern.tool)
        for claim in pattern.claims:
            if spec is None or not allowed(claim, spec):
                wrong.append(f"{pattern.tool}: {claim.kind}: {claim.text}")
    return wrong


def allowed(claim: Claim, spec: dict[str, Any]) -> bool:
    data = claim.data
    rule = spec["args"].get(data.get("arg"), {})
    kind = rule.get("kind")
    match claim.kind:
        case "always_given":
            return set(data["args"]) == set(spec["args"])
        case "preceded_by":
            return bool(data["before"] == spec.get("preceded_by"))
        case "constant":
            return kind == "constant" and bool(data["value"] == rule["value"])
        case "usual_value":
            return kind in ("constant", "set")
        case "closed_set" if kind == "set":
            return bool(data["values"] == rule["values"])
        case "closed_set":  # a template over a closed set gives a closed set
            return kind == "template" and rule["template"] == "{kind|upper}_TOKEN"
        case "template":
            return kind == "template" and bool(data["template"] == rule["template"])
        case "range":
            return kind == "range" and bool(rule["low"] <= data["low"] and data["high"] <= rule["high"])
        case "shape" if kind == "shape":
            return bool(data["shape"] == rule["shape"])
        case "shape":  # of what is a set or a template anyway
            return kind in ("set", "template") and data["shape"] in (*SHAPES, "pattern")
        case "variance":
            return "hosts" in rule and bool(data["of"] == "hosts")
    return False


def sessions_of(seed: int) -> tuple[dict[str, Any], list[Session]]:
    demo = generate_demo(seed)
    return demo.truth, [session for crew in demo.sessions.values() for session in crew]


@pytest.mark.parametrize("seed", SEEDS)
def test_all_planted_conventions_are_found_and_none_is_contradicted(seed: int) -> None:
    truth, sessions = sessions_of(seed)
    events = find_events(sessions)
    patterns = distill(events, timelines(call for session in sessions for call in session.calls))
    assert missed(truth, patterns) == []
    assert contradicted(truth, patterns) == []


def test_every_successful_write_of_the_truth_is_an_event_and_no_other_tool_is() -> None:
    truth, sessions = sessions_of(7)
    counts: dict[str, int] = {}
    for event in find_events(sessions):
        counts[event.tool] = counts.get(event.tool, 0) + 1
    assert counts == truth["writes"]


def test_no_planted_secret_is_left_in_an_event() -> None:
    truth, sessions = sessions_of(7)
    text = "".join(event.model_dump_json() for event in find_events(sessions))
    assert not [secret["kind"] for secret in truth["secrets"] if secret["value"] in text]
    assert "GRAFANA_TOKEN" in text


@pytest.fixture(scope="module")
def shipped_sessions() -> list[Session]:
    return list(read_sessions(DATA / "transcripts"))


def test_the_shipped_files_read_back_as_the_truth_says(shipped_sessions: list[Session]) -> None:
    truth = json.loads((DATA / "truth.json").read_text(encoding="utf-8"))
    listed = [
        (row["id"], row["format"], row["agent"], row["project"], row["calls"]) for row in truth["sessions"]
    ]
    assert sorted((s.id, s.format, s.agent, s.project, len(s.calls)) for s in shipped_sessions) == sorted(
        listed, key=str
    )
    outcomes = Counter(call.outcome.value for session in shipped_sessions for call in session.calls)
    assert outcomes == {name: count for name, count in truth["outcomes"].items() if count}
    failed = Counter(
        (call.tool, call.failure_mode)
        for session in shipped_sessions
        for call in session.calls
        if call.failed
    )
    planted = {(plant["tool"], plant["mode"]): plant["count"] for plant in truth["failures"]}
    noise = {(row["tool"], row["mode"]): row["count"] for row in truth["noise_failures"]}
    assert failed == planted | noise


def test_the_shipped_files_give_all_conventions_too(shipped_sessions: list[Session]) -> None:
    truth = json.loads((DATA / "truth.json").read_text(encoding="utf-8"))
    lines = timelines(call for session in shipped_sessions for call in session.calls)
    patterns = distill(find_events(shipped_sessions), lines)
    assert missed(truth, patterns) == [] and contradicted(truth, patterns) == []


def test_what_comes_before_did_come_before_in_every_call_of_the_evidence() -> None:
    _, sessions = sessions_of(7)
    sealed = [prepare(session)[0] for session in sessions]
    calls = {call.id: call for session in sealed for call in session.calls}
    patterns = distill(find_events(sealed), timelines(calls.values()))
    found = [claim for pattern in patterns for claim in pattern.claims if claim.kind == "preceded_by"]
    assert len(found) == 3
    for claim in found:
        for call in (calls[i] for i in claim.evidence):
            earlier = [
                other
                for other in calls.values()
                if other.session_id == call.session_id and other.seq < call.seq
            ]
            assert any(
                other.tool == claim.data["before"] and other.outcome == "success" for other in earlier
            ), claim.text
