"""Telemetry: known records are kept once, sealed days count once, and what was killed or cut costs one record."""

from __future__ import annotations

import multiprocessing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sitoolkit.errors import StoreError
from sitoolkit.records import Outcome
from sitoolkit.stores.telemetry import Telemetry
from sitoolkit.testing import FixedClock
from tests.stores.making import call


@pytest.fixture
def telemetry(tmp_path: Path, clock: FixedClock) -> Telemetry:
    return Telemetry(tmp_path / "telemetry", clock=clock, fsync=False)


def count(telemetry: Telemetry) -> tuple[int, int]:
    return telemetry.sql("select count(*), count(distinct id) from calls").row(0)


def test_an_import_repeated_changes_nothing(telemetry: Telemetry) -> None:
    calls = [call(number) for number in range(100)]
    first = telemetry.append("calls", calls)
    assert (first.written, first.repeated) == (100, 0)
    assert first.new_ids == tuple(one["id"] for one in calls)
    before = (telemetry.folder / "calls" / "2026-05-04.0.jsonl").read_bytes()
    again = telemetry.append("calls", list(reversed(calls)))
    assert (again.written, again.repeated, again.new_ids) == (0, 100, ())
    assert (telemetry.folder / "calls" / "2026-05-04.0.jsonl").read_bytes() == before


def test_a_new_process_knows_what_is_there(telemetry: Telemetry, clock: FixedClock) -> None:
    telemetry.append("calls", [call(number) for number in range(10)])
    other = Telemetry(telemetry.folder, clock=clock)
    report = other.append("calls", [call(number) for number in range(12)])
    assert (report.written, report.repeated) == (2, 10)
    assert telemetry.append("calls", [call(11)]).repeated == 1


def test_a_large_day_is_known_too(
    telemetry: Telemetry, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    telemetry.append("calls", [call(number, outcome="unknown") for number in range(20)])
    telemetry.append("calls", [call(number) for number in range(10)])
    monkeypatch.setattr("sitoolkit.stores.telemetry_known.BY_DUCKDB_BYTES", 0)
    other = Telemetry(telemetry.folder, clock=clock)
    report = other.append("calls", [call(number) for number in range(30)])
    assert (report.written, report.updated, report.repeated) == (10, 10, 10)
    assert count(other) == (30, 30)


def test_one_batch_holds_each_record_once(telemetry: Telemetry) -> None:
    report = telemetry.append("calls", [call(1), call(1), call(2)])
    assert (report.written, report.repeated) == (2, 1)


def test_another_path_of_the_same_transcript_is_a_repeat(telemetry: Telemetry) -> None:
    telemetry.append("calls", [call(1)])
    moved = call(1) | {"source": {"file": "/other/a.jsonl", "line": 9, "format": "openai"}}
    assert telemetry.append("calls", [moved]).repeated == 1


def test_a_call_that_got_its_result_is_shown_with_it(telemetry: Telemetry) -> None:
    telemetry.append("calls", [call(1, outcome="unknown", result=None)])
    report = telemetry.append("calls", [call(1)])
    assert (report.written, report.updated) == (0, 1)
    assert telemetry.sql("select id, outcome from calls").rows() == [(call(1)["id"], "success")]


def test_the_shorter_copy_read_later_does_not_hide_a_result(telemetry: Telemetry) -> None:
    telemetry.append("calls", [call(1)])
    assert telemetry.append("calls", [call(1, outcome="unknown", result=None)]).repeated == 1
    assert telemetry.sql("select outcome from calls").item() == "success"


def test_a_record_comes_back_as_it_was(telemetry: Telemetry) -> None:
    given = call(
        3, args={"deep": [1, {"ü": None}], "n": 1.5, "nul": "a\u0000b"}, duration_ms=12.5, is_write=True
    )
    telemetry.append("calls", [given])
    assert next(telemetry.invocations()).to_json() == given


@pytest.mark.parametrize("text", ["\ud800", "a\u0000b", "'; drop table calls; --", "\u202e", "x" * 100_000])
def test_hostile_text_is_kept_and_costs_no_other_record(telemetry: Telemetry, text: str) -> None:
    report = telemetry.append("calls", [call(1), call(2, tool="t", args={"a": text}, error=text), call(3)])
    assert report.written == 3
    assert count(telemetry) == (3, 3)
    telemetry.seal(before=telemetry.clock() + timedelta(days=2))
    assert count(telemetry) == (3, 3)


def test_what_has_no_id_or_is_too_large_is_refused_with_a_reason(telemetry: Telemetry) -> None:
    report = telemetry.append("calls", [call(1), {"tool": "t"}, call(2, result="x" * (17 << 20))])
    assert report.written == 1
    assert report.failed[0].reason == "it has no id; seal it first"
    assert "bytes; at most" in str(report.failed[1].reason)


def test_fields_without_a_column_are_kept(telemetry: Telemetry) -> None:
    telemetry.append("sessions", [{"id": "s1", "agent": "ops", "turns": 3, "mood": "fine", "notes": ["a"]}])
    assert telemetry.sql("select extra->>'$.mood', turns, notes from sessions").row(0) == ("fine", 3, ["a"])


def test_an_unknown_stream_is_an_error(telemetry: Telemetry) -> None:
    with pytest.raises(StoreError, match="no stream 'cals'; known: calls"):
        telemetry.append("cals", [])


def test_an_empty_store_has_typed_empty_tables(telemetry: Telemetry) -> None:
    assert count(telemetry) == (0, 0)
    assert telemetry.calls_frame().height == 0
    assert list(telemetry.invocations()) == []
    assert telemetry.resolve(["x"]).height == 0
    assert telemetry.seal() == {}


# ---------------------------------------------------------------- reading


def test_calls_are_ordered_by_time_session_and_position(telemetry: Telemetry, tmp_path: Path) -> None:
    calls = [call(number) for number in range(60)]
    telemetry.append("calls", calls)
    turned = Telemetry(tmp_path / "turned", clock=telemetry.clock, fsync=False)
    turned.append("calls", list(reversed(calls)))
    assert telemetry.calls_frame().equals(turned.calls_frame())
    assert telemetry.calls_frame()["happened_at"].is_sorted()


def test_filters(telemetry: Telemetry) -> None:
    telemetry.append("calls", [call(number) for number in range(100)])
    telemetry.append("calls", [call(100, agent="", project="shop", started_at=None)])
    assert telemetry.calls_frame(session_ids=["session-1"]).height == 20
    assert set(telemetry.calls_frame(outcomes=["failure"])["outcome"]) == {"failure"}
    assert telemetry.calls_frame(scopes=["project:shop"])["id"].to_list() == [call(100)["id"]]
    assert telemetry.calls_frame(tools=["tool_1' or 1=1 --"]).height == 0
    assert telemetry.calls_frame(since="2026-05-02T00:00:00Z", until="2026-05-02T23:00:00Z").height == 33
    assert telemetry.calls_frame(ids=[call(5)["id"]], columns=["seq", "happened_at"]).columns == [
        "seq",
        "happened_at",
    ]
    assert [one.outcome for one in telemetry.invocations(ids=[call(9)["id"]])] == [Outcome.FAILURE]
    with pytest.raises(StoreError, match="no column 'nope'"):
        telemetry.calls_frame(columns=["nope"])
    assert len(telemetry.sessions_using("tool_3", most=2)) == 2


def test_evidence_resolves_to_file_and_line(telemetry: Telemetry) -> None:
    telemetry.append("calls", [call(4)])
    telemetry.append(
        "turns",
        [{"id": "turn-1", "session_id": "s", "index": 2, "source": {"file": "b", "line": 7, "format": "x"}}],
    )
    found = telemetry.resolve([call(4)["id"], "turn-1", "unknown"]).sort("kind")
    assert found.select("kind", "file", "line").rows() == [("call", "a.jsonl", 5), ("turn", "b", 7)]


# ---------------------------------------------------------------- damage


def test_a_torn_line_costs_itself_and_is_named(telemetry: Telemetry) -> None:
    telemetry.append("calls", [call(1), call(2)])
    path = telemetry.folder / "calls" / "2026-05-04.0.jsonl"
    with path.open("ab") as file:
        file.write(path.read_bytes().splitlines()[0][:150])
    assert count(telemetry) == (2, 2)
    telemetry.append("calls", [call(3)])
    assert count(telemetry) == (3, 3)
    faults = telemetry.check()
    assert [(Path(fault.file).name, fault.line) for fault in faults] == [("2026-05-04.0.jsonl", 3)]


def test_the_record_that_was_being_written_can_be_written_again(
    telemetry: Telemetry, clock: FixedClock
) -> None:
    telemetry.append("calls", [call(1), call(2)])
    path = telemetry.folder / "calls" / "2026-05-04.0.jsonl"
    path.write_bytes(path.read_bytes()[:-30])
    again = Telemetry(telemetry.folder, clock=clock, fsync=False)
    report = again.append("calls", [call(1), call(2)])
    assert (report.written, report.repeated) == (1, 1)
    assert count(again) == (2, 2)


# ---------------------------------------------------------------- sealing


def test_sealed_days_count_once_and_stay_known(telemetry: Telemetry, clock: FixedClock) -> None:
    telemetry.append("calls", [call(number) for number in range(50)])
    before = telemetry.calls_frame()
    clock.advance(days=3)
    telemetry.append(
        "calls", [call(number) for number in range(60)]
    )  # the first import of a day seals those before
    names = sorted(path.name for path in (telemetry.folder / "calls").iterdir())
    assert names == ["2026-05-04.0.parquet", "2026-05-07.0.jsonl"]
    assert count(telemetry) == (60, 60)
    assert telemetry.calls_frame(ids=before["id"].to_list()).equals(before)
    assert Telemetry(telemetry.folder, clock=clock).append("calls", [call(3), call(55)]).repeated == 2
    assert telemetry.seal() == {}


def test_today_is_not_sealed(telemetry: Telemetry) -> None:
    telemetry.append("calls", [call(1)])
    assert telemetry.seal() == {}


def test_a_clock_set_back_opens_another_part_of_a_sealed_day(telemetry: Telemetry, clock: FixedClock) -> None:
    telemetry.append("calls", [call(1)])
    clock.advance(days=3)
    telemetry.seal()
    clock.advance(days=-3)
    telemetry.append("calls", [call(1), call(2)])
    assert count(telemetry) == (2, 2)
    clock.advance(days=3)
    assert telemetry.seal() == {"calls": 1}
    assert count(telemetry) == (2, 2)


def test_a_crash_between_rename_and_removal_counts_nothing_twice(
    telemetry: Telemetry, clock: FixedClock
) -> None:
    telemetry.append("calls", [call(number) for number in range(5)])
    path = telemetry.folder / "calls" / "2026-05-04.0.jsonl"
    kept = path.read_bytes()
    clock.advance(days=3)
    telemetry.seal()
    path.write_bytes(kept)  # as if the removal had not happened
    (path.parent / "2026-05-04.1.partial").write_bytes(b"half a file")
    assert count(telemetry) == (5, 5)
    assert telemetry.append("calls", [call(2)]).repeated == 1
    telemetry.seal()
    assert not path.exists()
    assert count(telemetry) == (5, 5)


def test_torn_lines_are_kept_beside_a_sealed_day(telemetry: Telemetry, clock: FixedClock) -> None:
    telemetry.append("calls", [call(1)])
    path = telemetry.folder / "calls" / "2026-05-04.0.jsonl"
    with path.open("ab") as file:
        file.write(b'{"id":"torn')
    clock.advance(days=3)
    assert telemetry.seal() == {"calls": 1}
    assert path.with_suffix(".torn").read_bytes() == b'{"id":"torn\n'


def test_a_changed_call_is_the_newest_across_sealed_days(telemetry: Telemetry, clock: FixedClock) -> None:
    telemetry.append("calls", [call(1, outcome="unknown", result=None)])
    clock.advance(days=3)
    assert telemetry.append("calls", [call(1)]).updated == 1
    clock.advance(days=3)
    assert telemetry.seal() == {"calls": 1}
    assert telemetry.sql("select outcome from calls").rows() == [("success",)]
    assert Telemetry(telemetry.folder, clock=clock).append("calls", [call(1)]).repeated == 1


# ---------------------------------------------------------------- several importers


def _import(folder: str, numbers: list[int]) -> None:
    telemetry = Telemetry(folder, fsync=False)
    for start in range(0, len(numbers), 10):
        telemetry.append("calls", [call(number) for number in numbers[start : start + 10]])


@pytest.mark.timeout(60)
def test_four_importers_of_the_same_files_leave_each_call_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    orders = [list(range(100)), list(reversed(range(100))), list(range(50, 150)), list(range(0, 150, 2))]
    importers = [context.Process(target=_import, args=(str(tmp_path / "t"), order)) for order in orders]
    for importer in importers:
        importer.start()
    for importer in importers:
        importer.join()
    assert [importer.exitcode for importer in importers] == [0, 0, 0, 0]
    assert count(Telemetry(tmp_path / "t")) == (150, 150)


def test_no_lock_is_kept_while_reading(telemetry: Telemetry) -> None:
    telemetry.append("calls", [call(1)])
    with telemetry.connection() as con:
        assert telemetry.append("calls", [call(2)]).written == 1
        rows: Any = con.sql("select count(*) from calls").fetchall()
        assert rows == [(2,)]
