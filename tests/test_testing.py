"""What `sitoolkit.testing` offers: demo transcripts that never change, and stand-ins that do as they are told."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from sitoolkit.errors import ModelError, TimeError
from sitoolkit.records import Outcome, ToolInvocation
from sitoolkit.testing import (
    FixedClock,
    ScriptedChat,
    as_anthropic,
    as_claude_code,
    as_langchain,
    as_openai,
    as_own,
    demo_files,
    generate_demo,
    write_demo,
)
from sitoolkit.transcripts import read_sessions

DATA = Path(__file__).parents[1] / "data"


def test_the_shipped_transcripts_are_what_the_generator_writes() -> None:
    files = demo_files()
    assert {str(path.relative_to(DATA)) for path in DATA.rglob("*") if path.is_file()} == set(files)
    for name, text in files.items():
        assert (DATA / name).read_bytes() == text.encode(), name


def test_the_shipped_transcripts_stay_small() -> None:
    assert sum(len(text.encode()) for text in demo_files().values()) < 1_500_000


def test_another_seed_gives_another_world_of_the_same_shape() -> None:
    first, second = generate_demo(7).truth, generate_demo(8).truth
    assert first["writes"] != {} and first["sessions"] != second["sessions"]
    assert [entry["id"] for entry in first["failures"]] == [entry["id"] for entry in second["failures"]]


def test_writing_twice_touches_nothing(tmp_path: Path) -> None:
    paths = write_demo(tmp_path)
    before = [path.stat().st_mtime_ns for path in paths]
    assert [path.stat().st_mtime_ns for path in write_demo(tmp_path)] == before


def test_every_plant_fails_as_often_as_the_truth_says_and_once_in_a_row_of_three() -> None:
    demo = generate_demo()
    failed = Counter(
        (call.tool, call.failure_mode)
        for sessions in demo.sessions.values()
        for session in sessions
        for call in session.calls
        if call.failed
    )
    for plant in demo.truth["failures"]:
        assert failed[plant["tool"], plant["mode"]] == plant["count"] >= 5, plant["id"]
    assert len(demo.truth["failures"]) >= 8
    assert {row["tool"] for row in demo.truth["friction"]} == {row["tool"] for row in demo.truth["failures"]}


def test_successful_calls_keep_every_convention_of_the_truth() -> None:
    demo = generate_demo()
    for sessions in demo.sessions.values():
        for session in sessions:
            done: set[str] = set()
            for call in session.calls:
                spec = demo.truth["tools"].get(call.tool)
                if call.outcome is not Outcome.SUCCESS:
                    continue
                if spec:
                    assert set(call.args) == set(spec["args"]), call
                    assert not spec.get("preceded_by") or spec["preceded_by"] in done, call
                    for arg, rule in spec["args"].items():
                        value = call.args[arg]
                        assert rule["kind"] != "constant" or value == rule["value"]
                        assert rule["kind"] != "set" or value in rule["values"]
                        assert rule["kind"] != "range" or rule["low"] <= value <= rule["high"]
                done.add(call.tool)


def test_secrets_are_planted_where_the_truth_says() -> None:
    files = demo_files()
    text = "".join(files[name] for name in files if name != "truth.json")
    for secret in json.loads(files["truth.json"])["secrets"]:
        assert secret["value"] in text


def test_a_fixed_clock_moves_only_when_told() -> None:
    clock = FixedClock("2026-05-04T08:00:00Z")
    assert clock() == clock()
    assert clock.advance(days=1).day == 5
    with pytest.raises(TimeError):
        FixedClock("2026-05-04T08:00:00")


def test_a_script_answers_in_order_and_says_when_it_is_at_its_end() -> None:
    chat = ScriptedChat([{"a": 1}, ValueError("boom"), lambda prompt, schema: {"said": prompt}])
    assert chat.complete("x", {}) == {"a": 1}
    with pytest.raises(ValueError, match="boom"):
        chat.complete("y", {})
    assert chat.complete("z", {}) == {"said": "z"}
    with pytest.raises(ModelError, match="at its end"):
        chat.complete("more", {})
    assert chat.prompts == ["x", "y", "z", "more"]


@pytest.mark.parametrize("crew", ["ops", "atlas", "data"])
@pytest.mark.parametrize("form", ["own", "openai", "anthropic", "claude_code", "langchain"])
def test_sessions_written_in_any_format_read_back_with_the_same_calls(
    crew: str, form: str, tmp_path: Path
) -> None:
    writers = {
        "own": lambda session: as_own([session]),
        "openai": lambda session: as_openai([session]),
        "anthropic": as_anthropic,
        "claude_code": as_claude_code,
        "langchain": as_langchain,
    }
    for session in generate_demo().sessions[crew][:8]:
        path = tmp_path / f"{session.id}.{'json' if form in ('anthropic', 'langchain') else 'jsonl'}"
        path.write_text(writers[form](session), encoding="utf-8")
        [read] = read_sessions(path)

        def told(calls: Iterable[ToolInvocation]) -> list[tuple[object, ...]]:
            return [(call.tool, call.args, call.failed, call.outcome is Outcome.UNKNOWN) for call in calls]

        assert told(read.calls) == told(session.calls), session.id
