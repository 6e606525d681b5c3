"""Whatever a story of calls is written in, it reads back as the same calls; damage changes only what it must."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sitoolkit.records import Outcome, Session
from sitoolkit.transcripts import ReadReport, detect_format, read_sessions, write_sessions
from tests.transcripts.writers import WRITERS, Step, expected, stories

few = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
formats = pytest.mark.parametrize("name", WRITERS)


def _read(text: str, format: str | None = None) -> tuple[list[Session], ReadReport]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        path.write_bytes(text.encode("utf-8"))
        report = ReadReport()
        return list(read_sessions(path, format=format, report=report)), report


def _calls(sessions: list[Session]) -> list[tuple[str, object, object]]:
    return [(call.tool, call.args, call.result) for session in sessions for call in session.calls]


def _check(name: str, steps: list[Step]) -> ReadReport:
    write, format = WRITERS[name]
    sessions, report = _read(write(steps), format)
    assert _calls(sessions) == expected(steps)
    for call in (call for session in sessions for call in session.calls):
        assert (call.outcome is Outcome.UNKNOWN) == (call.result is None)
        assert call.paired == (call.result is not None)
    assert [call.seq for session in sessions for call in session.calls] == list(range(report.calls))
    assert not report.set_aside
    return report


@formats
@few
@given(steps=stories("unique"))
def test_what_is_written_reads_back_as_the_same_calls(name: str, steps: list[Step]) -> None:
    report = _check(name, steps)
    assert report.orphaned == report.guessed == 0
    assert report.calls == report.paired


@formats
@few
@given(steps=stories("unique"), data=st.data())
def test_parallel_results_in_any_order(name: str, steps: list[Step], data: st.DataObject) -> None:
    for step in steps:
        step.order = data.draw(st.permutations(range(len(step.calls))))
    report = _check(name, steps)
    assert report.orphaned == report.guessed == 0


@formats
@few
@given(steps=stories("repeated"), data=st.data())
def test_ids_that_repeat_from_message_to_message(name: str, steps: list[Step], data: st.DataObject) -> None:
    for step in steps:
        step.order = data.draw(st.permutations(range(len(step.calls))))
    report = _check(name, steps)
    assert report.orphaned == report.guessed == 0


@pytest.mark.parametrize("name", [name for name in WRITERS if name not in ("responses",)])
@few
@given(steps=stories("none"))
def test_no_ids_at_all_pair_by_position(name: str, steps: list[Step]) -> None:
    report = _check(name, steps)
    assert report.orphaned == 0
    assert report.guessed <= sum(len(step.calls) - 1 for step in steps if step.calls)


@formats
@pytest.mark.parametrize("ids", ["unique", "repeated"])
@few
@given(data=st.data())
def test_a_lost_result_leaves_its_call_unknown_and_the_others_alone(
    name: str, ids: str, data: st.DataObject
) -> None:
    steps = data.draw(stories(ids))
    asking = [call for step in steps for call in step.calls]
    data.draw(st.sampled_from(asking)).result = None
    report = _check(name, steps)
    assert report.outcomes["unknown"] == 1
    assert report.orphaned == 0


@formats
@pytest.mark.parametrize("ids", ["unique", "repeated"])
@few
@given(data=st.data())
def test_a_lost_call_leaves_orphans_and_the_others_alone(name: str, ids: str, data: st.DataObject) -> None:
    steps = data.draw(stories(ids))
    lost = data.draw(st.sampled_from([step for step in steps if step.calls]))
    lost.dropped = True
    steps.append(Step("assistant", "end"))
    report = _check(name, steps)
    assert report.calls == report.paired
    assert report.orphaned <= len(lost.calls)
    if ids == "unique":
        assert report.orphaned == len(lost.calls)


@formats
@few
@given(steps=stories("unique"))
def test_the_content_tells_the_format(name: str, steps: list[Step]) -> None:
    write, format = WRITERS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.dat"
        path.write_text(write(steps), encoding="utf-8")
        found, reason = detect_format(path)
    assert found == format or (name.startswith("anthropic") and not any(step.calls for step in steps))
    assert reason


@formats
@few
@given(steps=stories("unique"))
def test_to_openai_and_back_gives_the_same_calls(name: str, steps: list[Step]) -> None:
    import json

    write, format = WRITERS[name]
    sessions, _ = _read(write(steps), format)
    again, report = _read(json.dumps(sessions[0].to_openai()), "openai-chat")
    assert _calls(again) == _calls(sessions[:1])
    assert [turn.text for turn in again[0].turns] == [turn.text for turn in sessions[0].turns]
    assert report.guessed == 0


@formats
@few
@given(steps=stories("repeated"))
def test_written_sessions_read_back_unchanged(name: str, steps: list[Step]) -> None:
    write, format = WRITERS[name]
    sessions, _ = _read(write(steps), format)
    with tempfile.TemporaryDirectory() as folder:
        for ending in (".jsonl", ".jsonl.gz", ".jsonl.zst"):
            path = Path(folder) / f"all{ending}"
            assert write_sessions(path, sessions) == len(sessions)
            assert list(read_sessions(path)) == sessions
            assert [entry.name for entry in Path(folder).iterdir() if entry.name.startswith(".")] == []


@few
@given(st.binary(max_size=400))
def test_no_bytes_whatever_crash_a_reader(data: bytes) -> None:
    from sitoolkit.errors import TranscriptError

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_bytes(data)
        try:
            list(read_sessions(path))
        except TranscriptError as fault:
            assert str(path) in str(fault)


@formats
@settings(max_examples=10, deadline=None)
@given(steps=stories("unique"), data=st.data())
def test_a_file_cut_anywhere_gives_what_stands_before_the_cut(
    name: str, steps: list[Step], data: st.DataObject
) -> None:
    from sitoolkit.errors import TranscriptError

    write, format = WRITERS[name]
    raw = write(steps).encode()
    cut = data.draw(st.integers(1, len(raw)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.jsonl"
        path.write_bytes(raw[:cut])
        report = ReadReport()
        try:
            sessions = list(read_sessions(path, format=format, report=report))
        except TranscriptError:
            return
    got, whole = _calls(sessions), expected(steps)
    assert len(got) <= len(whole)
    assert [(tool, args) for tool, args, _ in got] == [(tool, args) for tool, args, _ in whole[: len(got)]]
    assert all(
        result is None or result == want for (_, _, result), (_, _, want) in zip(got, whole, strict=False)
    )


@few
@given(steps=stories("unique") | stories("repeated") | stories("none"), data=st.data())
def test_the_fast_way_of_plain_conversations_gives_the_same_session(
    steps: list[Step], data: st.DataObject
) -> None:
    import json

    from sitoolkit.transcripts.base import SessionBuilder
    from sitoolkit.transcripts.chat import add_messages
    from sitoolkit.transcripts.plain_chat import plain_session

    for step in steps:
        step.order = data.draw(st.permutations(range(len(step.calls))))
        step.dropped = bool(step.calls) and data.draw(st.integers(0, 9)) == 0
    for call in [call for step in steps for call in step.calls]:
        call.result = data.draw(
            st.sampled_from([call.result, "Error: no such user", '{"success": false}', "", None])
        )
    messages = json.loads(WRITERS["openai list"][0](steps))
    fields = data.draw(st.sampled_from([{}, {"agent": "ops", "model": "m", "reward": 1.0}]))
    build = SessionBuilder("a.jsonl", "s", format="openai-chat", line=3, **fields)
    add_messages(build, messages, ReadReport(), 3)
    slow = build.build()
    fast = plain_session("a.jsonl", "s", "openai-chat", 3, messages, fields)
    assert fast is None or fast == slow
    if all(call.id and call.result is not None for step in steps for call in step.calls) and not any(
        s.dropped for s in steps
    ):
        assert fast == slow
