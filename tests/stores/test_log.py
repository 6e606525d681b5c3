"""The append-only log: what several writers, killed writers and full disks leave."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitoolkit.errors import StoreError
from sitoolkit.stores.log import AppendLog, Fault, decode, encode, read_lines, read_records


def test_records_come_back_in_the_order_written(tmp_path: Path) -> None:
    log = AppendLog(tmp_path / "new" / "log.jsonl", fsync=False)
    log.append({"a": 1})
    assert log.extend([{"b": "ü\n"}, {"c": None}]) == 2
    assert list(log.records()) == [{"a": 1}, {"b": "ü\n"}, {"c": None}]


def test_a_missing_log_has_no_records(tmp_path: Path) -> None:
    assert list(read_records(tmp_path / "none.jsonl")) == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_any_json_object_is_one_line(record: dict[str, object]) -> None:
    line = encode(record)
    assert b"\n" not in line
    if all(abs(number) < 2**63 for number in _integers(record)):
        assert decode(line) == record


def _integers(value: object) -> list[int]:
    if isinstance(value, dict):
        return [number for item in value.values() for number in _integers(item)]
    if isinstance(value, list):
        return [number for item in value for number in _integers(item)]
    return [value] if isinstance(value, int) else []


@pytest.mark.parametrize("value", ["\ud800", "a\udfffb", 2**80])
def test_what_is_hard_to_encode_is_kept(tmp_path: Path, value: object) -> None:
    log = AppendLog(tmp_path / "log.jsonl", fsync=False)
    log.append({"value": value})
    assert next(iter(log.records()))["value"] == value


@pytest.mark.parametrize("cut", [1, 5, 12])
def test_a_torn_last_line_costs_itself_and_the_next_append_starts_afresh(tmp_path: Path, cut: int) -> None:
    log = AppendLog(tmp_path / "log.jsonl", fsync=False)
    log.append({"n": 1})
    with log.path.open("ab") as file:
        file.write(b'{"n": "torn by a kill"}'[:cut])
    faults: list[Fault] = []
    assert list(log.records(faults)) == [{"n": 1}]
    assert [(fault.line, "cut off" in fault.reason) for fault in faults] == [(2, True)]
    log.append({"n": 3})
    faults.clear()
    assert list(log.records(faults)) == [{"n": 1}, {"n": 3}]
    assert [fault.line for fault in faults] == [2]


def test_reading_goes_on_where_it_stopped(tmp_path: Path) -> None:
    log = AppendLog(tmp_path / "log.jsonl", fsync=False)
    log.extend([{"n": number} for number in range(5)])
    lines = list(read_lines(log.path))
    rest = list(read_lines(log.path, offset=lines[2].end, number=lines[2].number))
    assert [line.record["n"] for line in rest] == [3, 4]
    assert [line.number for line in rest] == [4, 5]


def test_a_line_that_is_no_object_is_told(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"n": 1}\n[1, 2]\n\n{"n": 2}\n')
    faults: list[Fault] = []
    assert [record["n"] for record in read_records(path, faults)] == [1, 2]
    assert [(fault.line, fault.reason) for fault in faults] == [(2, "a list, not an object")]


def _append_many(path: str, name: str, count: int) -> None:
    log = AppendLog(path, fsync=False)
    for number in range(count):
        log.append({"writer": name, "number": number, "text": name * 2_000})


def test_four_writers_leave_whole_lines_each_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    context = multiprocessing.get_context("forkserver")
    writers = [context.Process(target=_append_many, args=(str(path), name, 100)) for name in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(records) == 400
    for name in "abcd":
        assert [record["number"] for record in records if record["writer"] == name] == list(range(100))


def _write_beyond(path: str, answers: multiprocessing.SimpleQueue[object]) -> None:
    import signal

    log = AppendLog(path, fsync=False)
    log.append({"n": "acknowledged"})
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    size = os.path.getsize(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 500, resource.RLIM_INFINITY))
    try:
        log.extend([{"n": number, "text": "x" * 100} for number in range(50)])
        answers.put("no error")
    except StoreError as fault:
        answers.put(str(fault))


def test_a_write_that_does_not_fit_fails_whole(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    context = multiprocessing.get_context("forkserver")
    answers = context.SimpleQueue()
    writer = context.Process(target=_write_beyond, args=(str(path), answers))
    writer.start()
    said = answers.get()
    writer.join()
    assert "no space is left" in str(said)
    assert list(read_records(path)) == [{"n": "acknowledged"}]


def test_a_read_only_folder_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **more: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError, match="no right to write there; nothing of this write was kept"):
        AppendLog(tmp_path / "log.jsonl").append({"n": 1})
