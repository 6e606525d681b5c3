"""The journal: a chain that names the entry that was touched, whoever wrote and whoever was killed."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from sitoolkit.errors import NotFoundError
from sitoolkit.stores.journal import Cursor, Journal
from sitoolkit.testing import FixedClock


@pytest.fixture
def journal(tmp_path: Path, clock: FixedClock) -> Journal:
    return Journal(tmp_path / "journal", clock=clock, fsync=False)


def fill(journal: Journal, count: int = 6) -> list[str]:
    return [journal.append("note", {"number": number}, f"run_{number % 2}") for number in range(count)]


def test_events_come_back_filtered(journal: Journal, clock: FixedClock) -> None:
    ids = fill(journal)
    clock.advance(hours=1)
    journal.append("recall", {"id": "rec_1"})
    assert [entry.id for entry in journal.events("note")] == ids
    assert [entry.data["number"] for entry in journal.events(run_id="run_1")] == [1, 3, 5]
    assert [entry.event for entry in journal.events(since="2026-05-04T08:30:00Z")] == ["recall"]
    assert len(list(journal.events(("note", "recall"), until="2026-05-04T08:30:00Z"))) == 6
    assert [entry.seq for entry in journal.events()] == [1, 2, 3, 4, 5, 6, 7]


def test_find_takes_an_entry_id_or_the_id_in_its_data(journal: Journal) -> None:
    entry = journal.append("recall", {"id": "rec_1", "query": "q"})
    assert journal.find(entry).data["query"] == "q"
    assert journal.find("rec_1").id == entry
    with pytest.raises(NotFoundError, match="rec_2"):
        journal.find("rec_2")


def test_an_untouched_chain_holds(journal: Journal) -> None:
    fill(journal)
    verdict = journal.verify()
    assert verdict.ok
    assert verdict.entries == 6


def test_an_empty_journal_holds(journal: Journal) -> None:
    assert journal.verify().ok
    assert journal.head() == (0, "0" * 64)


@pytest.mark.parametrize("place", range(6))
def test_a_changed_entry_is_named(journal: Journal, place: int) -> None:
    ids = fill(journal)
    path = journal.folder / journal.segments()[0]
    lines = path.read_text().splitlines(keepends=True)
    lines[place] = lines[place].replace(f'"number":{place}', '"number":99')
    path.write_text("".join(lines))
    verdict = journal.verify()
    assert not verdict.ok
    assert verdict.broken == ids[place]
    assert verdict.reason == "its content was changed"


@pytest.mark.parametrize("place", range(5))
def test_after_a_removed_entry_the_next_is_named(journal: Journal, place: int) -> None:
    ids = fill(journal)
    path = journal.folder / journal.segments()[0]
    lines = path.read_text().splitlines(keepends=True)
    del lines[place]
    path.write_text("".join(lines))
    verdict = journal.verify()
    assert not verdict.ok
    assert verdict.broken == ids[place + 1]


def test_an_entry_made_up_is_named(journal: Journal) -> None:
    fill(journal)
    path = journal.folder / journal.segments()[0]
    lines = path.read_text().splitlines(keepends=True)
    lines.insert(3, lines[2])
    path.write_text("".join(lines))
    assert not journal.verify().ok


def test_a_torn_line_breaks_nothing_and_is_told(journal: Journal) -> None:
    fill(journal, 2)
    path = journal.folder / journal.segments()[0]
    with path.open("ab") as file:
        file.write(b'{"hash":"0123')
    journal.append("note", {"number": 3})
    verdict = journal.verify()
    assert verdict.ok
    assert verdict.entries == 3
    assert len(verdict.torn) == 1


def test_a_month_has_its_file_and_the_chain_goes_on(journal: Journal, clock: FixedClock) -> None:
    fill(journal, 2)
    clock.advance(days=40)
    fill(journal, 2)
    clock.advance(days=-60)  # a clock that was set back
    fill(journal, 2)
    assert journal.segments() == ["2026-05.jsonl", "2026-06.jsonl"]
    assert journal.verify().ok
    assert [entry.seq for entry in journal.events()] == [1, 2, 3, 4, 5, 6]


def _append(folder: str, name: str) -> None:
    journal = Journal(folder, fsync=False)
    for number in range(100):
        journal.append("note", {"writer": name, "number": number})


def test_four_writers_make_one_chain(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    writers = [context.Process(target=_append, args=(str(tmp_path / "j"), name)) for name in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    journal = Journal(tmp_path / "j")
    verdict = journal.verify()
    assert verdict.ok
    assert verdict.entries == 400
    assert len({entry.id for entry in journal.events()}) == 400


def test_access_counts_recalls_and_reads_only_what_is_new(journal: Journal, clock: FixedClock) -> None:
    journal.append("recall", {"id": "r1", "items": [{"memory_id": "mem_a"}, {"memory_id": "mem_b"}]})
    first = clock()
    clock.advance(hours=2)
    journal.append("recall", {"id": "r2", "items": [{"memory_id": "mem_a"}]})
    journal.append("recall", {"id": "r3", "shadow": True, "items": [{"memory_id": "mem_b"}]})
    assert journal.access() == {"mem_a": (2, clock()), "mem_b": (1, first)}
    journal.append("recall", {"id": "r4", "items": [{"memory_id": "mem_b"}]})
    assert journal.access()["mem_b"] == (2, clock())
    assert Journal(journal.folder).access() == journal.access()


def test_an_entry_is_taken_back_while_it_is_the_last(journal: Journal) -> None:
    fill(journal, 2)
    entry = journal.append_entry("note", {"number": 2})
    assert journal.take_back(entry)
    assert journal.head()[0] == 2
    entry = journal.append_entry("note", {"number": 2})
    journal.append("note", {"number": 3})
    assert not journal.take_back(entry)
    assert journal.verify().ok


def test_a_cursor_begins_anew_when_its_place_is_gone(journal: Journal) -> None:
    fill(journal, 2)
    entry = journal.append_entry("note", {"number": 2})
    cursor = Cursor(journal, "note")
    assert len(list(cursor.read())) == 3
    journal.take_back(entry)
    journal.append("note", {"number": "a longer entry than the one taken back"})
    assert len(list(cursor.read())) == 3
    assert cursor.restarted
    again = Cursor(journal, "note", cursor.place)
    assert list(again.read()) == []


def test_counts_of_access_are_kept_for_the_next_process(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sitoolkit.stores.journal._SAVE_BYTES", 200)
    for number in range(10):
        journal.append("recall", {"id": f"r{number}", "items": [{"memory_id": "mem_a"}]})
        journal.append("note", {"text": "x" * 300})
    assert journal.access()["mem_a"][0] == 10
    kept = journal.folder / "access.json"
    assert kept.exists()
    journal.append("recall", {"id": "r10", "items": [{"memory_id": "mem_a"}]})
    assert Journal(journal.folder).access() == journal.access()
    assert journal.access()["mem_a"][0] == 11
    kept.write_text("{")
    assert Journal(journal.folder).access() == journal.access()


def test_counts_kept_for_another_journal_are_not_believed(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sitoolkit.stores.journal._SAVE_BYTES", 200)
    for number in range(10):
        journal.append("recall", {"id": f"r{number}", "items": [{"memory_id": "mem_a"}]})
    journal.access()
    other = Journal(tmp_path / "other", clock=journal.clock)
    for number in range(20):
        other.append("recall", {"id": f"r{number}", "items": [{"memory_id": "mem_b"}]})
    (other.folder / "access.json").write_bytes((journal.folder / "access.json").read_bytes())
    assert {id: count for id, (count, _) in other.access().items()} == {"mem_b": 20}
