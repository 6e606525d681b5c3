"""Memory over time: histories, differences between runs, undo with and without what was built on it, earlier schemas."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sitoolkit.errors import NotFoundError, StoreError
from sitoolkit.records import Status
from sitoolkit.stores.history import word_diff
from sitoolkit.testing import FixedClock, HashingEmbedder
from sitoolkit.workspace import Workspace
from tests.stores.making import event, fact, lesson


def do(ws: Workspace, clock: FixedClock, *memories: Any) -> str:
    """One run that writes these memories; gives its id."""
    clock.advance(hours=1)
    with ws.run("test") as run:
        ws.memory.upsert(memories, run_id=run.id)
    return run.id


def active(ws: Workspace) -> set[str]:
    return {row.text for row in ws.memory.rows(status="active")}


def test_history_tells_what_happened_by_which_run_and_why(ws: Workspace, clock: FixedClock) -> None:
    first = do(ws, clock, fact("tabs"))
    second = do(ws, clock, fact("spaces", "turn-2"))
    third = do(ws, clock, fact("tabs", "turn-3"))
    id = ws.memory.rows(status="active")[0].id
    told = ws.memory.history(id)
    assert [(one.run_id, one.kind, one.op) for one in told] == [
        (first, "written", "upsert"), (second, "changed", "upsert"), (third, "changed", "upsert"),
    ]  # fmt: skip
    assert told[1].changes["status"] == ["active", "superseded"]
    assert told[2].changes["status"] == ["superseded", "active"]
    with pytest.raises(NotFoundError, match="memory list"):
        ws.memory.history("mem_nope")


def test_diff_of_two_runs(ws: Workspace, clock: FixedClock) -> None:
    a = do(ws, clock, fact("tabs"), event(1), lesson("old lesson"))
    gone = ws.memory.rows(category="reflection")[0].id
    with ws.run("decay") as run:
        ws.memory.set_status([gone], Status.RETIRED, run_id=run.id, reason="expired")
    b = do(ws, clock, fact("spaces", "turn-2"), event(1, occurrences=2), event(2))
    found = ws.memory.diff(a, b)
    assert {row.text for row in found.added} == {"the project indents with spaces", event(2).text}
    assert [row.text for row in found.superseded] == ["the project indents with tabs"]
    assert [row.text for row in found.retired] == ["old lesson"]
    assert [row["changes"]["seen_count"] for row in found.changed] == [[1, 2]]
    assert found.texts[0]["diff"] == [[" ", "the project indents with"], ["-", "tabs"], ["+", "spaces"]]
    back = ws.memory.diff(b, a)
    assert {row.text for row in back.added} == {"the project indents with tabs", "old lesson"}
    assert ws.memory.diff(a, a).model_dump(exclude={"a", "b"}) == ws.memory.diff(b, b).model_dump(
        exclude={"a", "b"}
    )


def test_diff_takes_times_and_refuses_what_is_neither(ws: Workspace, clock: FixedClock) -> None:
    do(ws, clock, event(1))
    then = clock().isoformat()
    do(ws, clock, event(2))
    assert [row.text for row in ws.memory.diff(then, clock().isoformat()).added] == [event(2).text]
    with pytest.raises(NotFoundError, match="neither a run of the journal nor a time"):
        ws.memory.diff("run_nope", then)


def test_words_that_differ() -> None:
    assert word_diff("", "new words") == [["+", "new words"]]
    assert word_diff("same", "same") == [[" ", "same"]]


# ---------------------------------------------------------------- undo


def test_undo_restores_what_a_run_superseded_and_takes_back_what_it_wrote(
    ws: Workspace, clock: FixedClock
) -> None:
    do(ws, clock, fact("tabs"), event(1))
    before = [row.to_json() for row in ws.memory.rows()]
    second = do(ws, clock, fact("spaces", "turn-2"), event(1, occurrences=4), event(2))
    with ws.run("undo") as run:
        report = ws.memory.undo(second, by_run=run.id)
    assert (len(report.restored), len(report.retired)) == (2, 2)
    assert [row.to_json() for row in ws.memory.rows(status="active")] == before
    assert ws.memory.check() == []
    assert len(ws.memory.snapshot()) == 2


def test_what_was_undone_can_be_written_again(ws: Workspace, clock: FixedClock) -> None:
    first = do(ws, clock, event(1, occurrences=3))
    do(ws, clock, event(7))
    ws.memory.undo(first)
    assert active(ws) == {event(7).text}
    report = ws.memory.upsert([event(1, occurrences=3)])
    assert report.written == 1
    assert ws.memory.rows(ids=[report.items[0].id])[0].seen_count == 3
    assert ws.memory.check() == []


def test_undone_occurrences_count_again(ws: Workspace, clock: FixedClock) -> None:
    do(ws, clock, event(1))
    second = do(ws, clock, event(1, occurrences=3))
    ws.memory.undo(second)
    assert ws.memory.rows()[0].seen_count == 1
    ws.memory.upsert([event(1, occurrences=3)])
    assert ws.memory.rows()[0].seen_count == 3
    ws.memory.rebuild()
    assert ws.memory.upsert([event(1, occurrences=3)]).items[0].reason == "nothing new"


def test_undo_refuses_with_the_runs_that_built_on_it(ws: Workspace, clock: FixedClock) -> None:
    first = do(ws, clock, fact("tabs"))
    second = do(ws, clock, fact("spaces", "turn-2"))
    third = do(ws, clock, fact("none", "turn-3"), event(9))
    untouched = do(ws, clock, event(1))
    with pytest.raises(StoreError, match=f"{second} on mem_.*{third} on mem_.*--cascade") as refused:
        ws.memory.undo(first)
    assert untouched not in str(refused.value)
    assert active(ws) == {"the project indents with none", event(9).text, event(1).text}
    report = ws.memory.undo(first, cascade=True)
    assert report.runs == (third, second, first)
    assert active(ws) == {event(1).text}
    assert ws.memory.check() == []


def test_an_undo_can_be_undone(ws: Workspace, clock: FixedClock) -> None:
    do(ws, clock, fact("tabs"))
    second = do(ws, clock, fact("spaces", "turn-2"))
    with ws.run("undo") as run:
        ws.memory.undo(second, by_run=run.id)
    assert active(ws) == {"the project indents with tabs"}
    ws.memory.undo(run.id)
    assert active(ws) == {"the project indents with spaces"}
    assert ws.memory.check() == []


def test_undo_of_a_retirement_and_of_a_revision(ws: Workspace, clock: FixedClock) -> None:
    do(ws, clock, event(1))
    before = ws.memory.rows()[0]
    with ws.run("decay") as run:
        ws.memory.revise(before.id, run_id=run.id, reason="never recalled", base_weight=0.1)
        ws.memory.set_status([before.id], Status.RETIRED, run_id=run.id, reason="expired")
    ws.memory.undo(run.id)
    assert ws.memory.rows() == [before]


def test_undo_of_an_unknown_run(ws: Workspace) -> None:
    with pytest.raises(NotFoundError, match="changed no memory"):
        ws.memory.undo("run_nope")


def test_undo_restores_rows_that_were_dropped_meanwhile(ws: Workspace, clock: FixedClock) -> None:
    do(ws, clock, fact("tabs"))
    second = do(ws, clock, fact("spaces", "turn-2"))
    clock.advance(days=100)
    ws.memory.optimize()
    assert len(ws.memory.rows()) == 1
    ws.memory.undo(second)
    assert active(ws) == {"the project indents with tabs"}
    assert ws.memory.snapshot().has_vector.all()
    assert ws.memory.check() == []


# ---------------------------------------------------------------- earlier schemas


def old_table(folder: Path, schema: int, rows: int = 5) -> None:
    """A store as earlier versions wrote it: 0 with rows of zeros for texts without a vector, 1 with `has_vector`."""
    import json

    import lancedb

    at = datetime(2026, 1, 2, tzinfo=UTC)
    vectors = HashingEmbedder(8).embed([f"old memory {number}" for number in range(rows)])
    vectors[0] = 0
    columns: dict[str, Any] = {
        "id": [f"mem_{number:024x}" for number in range(rows)],
        "category": ["reflection"] * rows,
        "scope": ["global"] * rows,
        "text": [f"old memory {number}" for number in range(rows)],
        "payload": ["{}"] * rows,
        "origin": ["reflected"] * rows,
        "status": ["active"] * (rows - 1) + ["retired"],
        "content_hash": [f"{number}" for number in range(rows)],
        "slot": [None] * (rows - 1) + ["lesson:x:y"],
        "seen_count": pa.array([2] * rows, pa.int64()),
        "first_seen": pa.array([at] * rows, pa.timestamp("us", "UTC")),
        "created_at": pa.array([at] * rows, pa.timestamp("us", "UTC")),
        "evidence": [["a", "b"]] * rows,
        "confidence": [0.7] * rows,
        "base_weight": [1.0] * rows,
    }
    values = pa.array(vectors.astype(np.float32).ravel())
    if schema >= 1:
        columns["has_vector"] = [False] + [True] * (rows - 1)
        mask = pa.array([True] + [False] * (rows - 1))
        columns["vector"] = pa.FixedSizeListArray.from_arrays(values, 8, mask=mask)
    else:
        columns["vector"] = pa.FixedSizeListArray.from_arrays(values, 8)
    table = pa.table(columns)
    info = {"schema": schema, "embedder": "hashing", "dim": 8, "sha": HashingEmbedder(8).sha}
    folder.mkdir(parents=True)
    made = lancedb.connect(str(folder)).create_table(
        "memories-000001",
        table.replace_schema_metadata({"sitoolkit": json.dumps(info)}),
        on_bad_vectors="null",
    )
    assert made.count_rows() == rows
    (folder / "current.json").write_text('{"table": "memories-000001"}')


@pytest.mark.parametrize("schema", [0, 1])
def test_a_store_of_an_earlier_schema_is_brought_up_to_date(tmp_path: Path, schema: int) -> None:
    old_table(tmp_path / "memory", schema)
    ws = Workspace(tmp_path, embedder=HashingEmbedder(8))
    rows = ws.memory.rows()
    assert [row.text for row in rows] == [f"old memory {number}" for number in range(5)]
    assert ws.memory.table.info.schema == 2
    assert ws.memory.snapshot().has_vector.tolist() == [False, True, True, True]
    assert [row.embed_model for row in rows] == [None, *["hashing"] * 4]
    assert (rows[0].seen_count, rows[0].evidence, rows[4].status, rows[4].slot) == (
        2,
        ("a", "b"),
        "retired",
        "lesson:x:y",
    )
    assert ws.memory.table.tables() == [
        "memories-000001",
        "memories-000002",
    ]  # the old one is kept until told
    assert [one.op for one in ws.memory.history(rows[1].id)] == ["migrate"]
    assert ws.memory.rebuild().rows == 5
    assert [problem for problem in ws.memory.check() if "no vector" not in problem] == []


def test_a_migration_that_was_stopped_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old_table(tmp_path / "memory", 1)

    class Killed(BaseException):
        pass

    def die(*args: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("sitoolkit.stores.memory_table.MemoryTable.point_to", die)
        with pytest.raises(Killed):
            Workspace(tmp_path, embedder=HashingEmbedder(8)).memory.rows()
    ws = Workspace(tmp_path, embedder=HashingEmbedder(8))
    assert len(ws.memory.rows()) == 5
    assert len(ws.memory.history(ws.memory.rows()[0].id)) == 1
    ws.memory.upsert([lesson("new")])
    assert len(ws.memory.rows()) == 6
