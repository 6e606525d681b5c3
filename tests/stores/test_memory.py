"""The memory store: kept once, superseded instead of overwritten, and never more than was acknowledged."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitoolkit.errors import (
    EmbedderMismatch,
    MigrationNeeded,
    ModelUnavailable,
    NotFoundError,
    StoreDamaged,
    StoreError,
)
from sitoolkit.records import Memory, Status, WriteReport, digest
from sitoolkit.settings import Settings
from sitoolkit.stores.memory_schema import blocked_reason, key_of
from sitoolkit.stores.memory_table import ids_filter
from sitoolkit.testing import FixedClock, HashingEmbedder
from sitoolkit.workspace import Workspace
from tests.stores.making import event, fact, lesson


def results(report: WriteReport) -> list[str]:
    return [item.result for item in report.items]


# ---------------------------------------------------------------- once


def test_a_memory_is_written_once_and_repeats_raise_its_count(ws: Workspace, clock: FixedClock) -> None:
    assert results(ws.memory.upsert([event(1)], run_id="r1")) == ["written"]
    first = ws.memory.rows()[0]
    clock.advance(days=1)
    again = ws.memory.upsert([event(1, occurrences=3)], run_id="r2")
    assert results(again) == ["repeated"]
    row = ws.memory.rows()[0]
    assert (row.seen_count, row.last_seen, row.first_seen) == (3, clock(), first.first_seen)
    assert (row.created_at, row.run_id, row.id) == (first.created_at, "r1", again.items[0].id)


def test_an_occurrence_counts_once_however_often_it_is_imported(ws: Workspace) -> None:
    ws.memory.upsert([event(1, occurrences=2)])
    version = ws.memory.version
    report = ws.memory.upsert([event(1, occurrences=2), event(1)])
    assert results(report) == ["repeated", "repeated"]
    assert report.items[0].reason == "nothing new"
    assert ws.memory.version == version
    assert ws.memory.rows()[0].seen_count == 2


def test_one_batch_merges_its_repeats(ws: Workspace) -> None:
    report = ws.memory.upsert([event(1), event(2), event(1, occurrences=4)])
    assert results(report) == ["written", "written", "repeated"]
    assert sorted(row.seen_count for row in ws.memory.rows()) == [1, 4]


def test_the_same_content_in_another_scope_or_category_is_another_memory(ws: Workspace) -> None:
    ws.memory.upsert([event(1), event(1, scope="agent:other"), lesson(event(1).text)])
    assert len({row.id for row in ws.memory.rows()}) == 3


def test_more_occurrences_than_a_row_carries_are_still_counted_once(ws: Workspace) -> None:
    ws.memory.upsert([event(1, occurrences=500)])
    ws.memory.upsert([event(1, occurrences=700)])
    ws.memory.upsert([event(1, occurrences=600)])
    row = ws.memory.rows()[0]
    assert (row.seen_count, len(row.evidence)) == (700, 200)
    ws.memory.rebuild()
    ws.memory.upsert([event(1, occurrences=700)])
    assert ws.memory.rows()[0].seen_count == 700


def test_order_of_imports_changes_no_row(tmp_path: Path) -> None:
    memories = [event(number % 7, occurrences=1 + number % 4) for number in range(20)]
    rows = []
    for name, order in (("a", memories), ("b", list(reversed(memories)))):
        ws = Workspace(tmp_path / name, clock=FixedClock(), embedder=HashingEmbedder(32))
        for memory in order:
            ws.memory.upsert([memory], run_id="r")
        rows.append([row.to_json() for row in ws.memory.rows()])
    assert rows[0] == rows[1]


def test_a_fact_is_seen_as_often_as_it_was_told(ws: Workspace) -> None:
    for told in ("turn-1", "turn-2", "turn-1"):
        ws.memory.upsert([fact("tabs", evidence=(told, f"{told}-answer"))])
    assert ws.memory.rows()[0].seen_count == 2


def test_first_and_last_seen_are_the_events_own_times(ws: Workspace) -> None:
    ws.memory.upsert([event(1, first_seen="2026-03-02T00:00:00Z", last_seen="2026-03-03T00:00:00Z")])
    ws.memory.upsert(
        [event(1, occurrences=2, first_seen="2026-03-01T00:00:00Z", last_seen="2026-03-01T00:00:00Z")]
    )
    row = ws.memory.rows()[0]
    assert (row.first_seen.day, row.last_seen.day) == (1, 3)  # type: ignore[union-attr]


# ---------------------------------------------------------------- slots


def test_another_content_in_a_slot_supersedes(ws: Workspace, clock: FixedClock) -> None:
    ws.memory.upsert([fact("tabs")], run_id="r1")
    clock.advance(hours=1)
    report = ws.memory.upsert([fact("spaces", "turn-2")], run_id="r2")
    old, new = sorted(ws.memory.rows(), key=lambda row: row.status)[::-1]
    assert (old.status, old.ended_at, old.ended_by, old.superseded_by) == (
        "superseded",
        clock(),
        "r2",
        new.id,
    )
    assert (new.status, new.supersedes, report.superseded) == ("active", old.id, (old.id,))
    assert ws.memory.snapshot().ids == [new.id]


def test_the_superseded_content_comes_back_with_new_evidence_alone(ws: Workspace) -> None:
    ws.memory.upsert([fact("tabs", "turn-1")])
    ws.memory.upsert([fact("spaces", "turn-2")])
    assert results(ws.memory.upsert([fact("tabs", "turn-1")])) == ["unchanged"]
    assert results(ws.memory.upsert([fact("tabs", "turn-3")])) == ["written"]
    active = ws.memory.rows(status="active")
    assert [row.text for row in active] == ["the project indents with tabs"]
    assert len(ws.memory.rows()) == 2


def test_two_contents_of_one_slot_in_one_batch_leave_one_active(ws: Workspace) -> None:
    report = ws.memory.upsert([fact("tabs"), fact("spaces", "turn-2"), fact("none", "turn-3")])
    assert results(report) == ["written"] * 3
    assert [row.text for row in ws.memory.rows(status="active")] == ["the project indents with none"]


def test_a_candidate_takes_its_slot_when_it_becomes_active(ws: Workspace) -> None:
    ws.memory.upsert([fact("tabs")])
    ws.memory.upsert([fact("spaces", "turn-2", status="candidate")])
    assert len(ws.memory.rows(status="active")) == 1
    candidate = ws.memory.rows(status="candidate")[0]
    ws.memory.set_status([candidate.id], Status.ACTIVE, reason="approved")
    assert [row.id for row in ws.memory.rows(status="active")] == [candidate.id]


def test_what_is_quarantined_stays_so(ws: Workspace) -> None:
    id = ws.memory.upsert([event(1)]).items[0].id
    ws.memory.set_status([id], Status.QUARANTINED, reason="prompt injection")
    report = ws.memory.upsert([event(1, occurrences=2)])
    assert report.blocked == 1
    assert report.items[0].reason == "quarantined: prompt injection"
    assert len(ws.memory.snapshot()) == 0


def test_a_directive_that_was_removed_comes_back_with_its_file(ws: Workspace) -> None:
    guide = Memory(
        category="usage_guide",
        scope="global",
        text="use the registry",
        origin="directive",
        slot="guide:ops:x",
    )
    id = ws.memory.upsert([guide]).items[0].id
    assert results(ws.memory.upsert([guide])) == ["repeated"]
    assert ws.memory.rows()[0].seen_count == 1
    ws.memory.set_status([id], Status.RETIRED, reason="file removed")
    assert results(ws.memory.upsert([guide])) == ["written"]


# ---------------------------------------------------------------- status and revision


def test_a_status_is_set_with_its_reason_and_an_unknown_id_is_reported(ws: Workspace) -> None:
    id = ws.memory.upsert([event(1)]).items[0].id
    report = ws.memory.set_status([id, "mem_nope", id], "retired", run_id="r2", reason="expired")
    assert [(item.result, item.reason) for item in report.items] == [
        ("written", "expired"),
        ("failed", "no such memory"),
    ]
    row = ws.memory.get(id)
    assert row is not None
    assert (row.status, row.reason, row.ended_by) == ("retired", "expired", "r2")
    assert results(ws.memory.set_status([id], "retired", reason="again")) == ["unchanged"]


def test_a_revision_changes_what_is_no_content(ws: Workspace) -> None:
    id = ws.memory.upsert([event(1)]).items[0].id
    row = ws.memory.revise(id, run_id="r2", reason="cited", confidence=0.9, tags=("x",))
    assert (row.confidence, row.tags, ws.memory.get(id)) == (0.9, ("x",), row)
    with pytest.raises(StoreError, match="'text' of a memory is not revised"):
        ws.memory.revise(id, reason="x", text="other")
    with pytest.raises(NotFoundError, match="memory list"):
        ws.memory.revise("mem_nope", reason="x", confidence=1.0)
    with pytest.raises(ValueError, match="less than or equal to 1"):
        ws.memory.revise(id, reason="x", confidence=7.0)


# ---------------------------------------------------------------- hostile text

HOSTILE = [
    "it's_a_note",
    "x' OR '1'='1",
    'a"b',
    "%_",
    "'; DROP TABLE memories; --",
    "back\\slash",
    "new\nline",
    "`$(id)`",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_quotes_in_text_slots_tags_and_ids_match_exactly(ws: Workspace, text: str) -> None:
    others = [event(number) for number in range(5)]
    ws.memory.upsert(
        [*others, fact("tabs", slot=f"fact:{text}:x", tags=(text,), payload={text: text})], run_id=text
    )
    ws.memory.upsert([fact("spaces", "turn-2", slot=f"fact:{text}:x")])
    assert len(ws.memory.rows(status="active")) == 6
    assert len(ws.memory.rows(status="superseded")) == 1
    assert len(ws.memory.rows(run_id=text)) == 6
    assert ws.memory.rows(ids=[text]) == []
    assert ws.memory.get(text) is None
    assert ws.memory.rows(scopes=[text]) == []
    assert ws.memory.set_status([text], "retired", reason=text).failed == 1
    assert len(ws.memory.rows()) == 7


def test_scopes_with_quotes_are_kept_apart(ws: Workspace) -> None:
    ws.memory.upsert([event(1, scope="agent:O'Brien"), event(1, scope="agent:x' OR '1'='1"), event(1)])
    assert [row.scope for row in ws.memory.rows(scopes=["agent:O'Brien"])] == ["agent:O'Brien"]
    vector = HashingEmbedder(32).embed([event(1).text])[0]
    found = ws.memory.search_vectors(vector, ["agent:x' OR '1'='1"], 10)
    assert len(found) == 1
    assert found[0][1] == pytest.approx(1.0, abs=1e-5)


def test_no_text_of_others_becomes_part_of_a_filter() -> None:
    with pytest.raises(ValueError, match="not an id or key"):
        ids_filter("id", ["mem_1", "x' or '1'='1"])
    assert key_of("slot", "it's") != key_of("slot", "its")
    assert key_of("a", "bc") != key_of("ab", "c")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("use \u202eit", "reading direction"),
        ("use \u2067it", "reading direction"),
        ("use \u200bit", "an invisible character"),
        ("p\u200dassword", "an invisible character"),
        ("tag \U000e0041", "an invisible character"),
        ("bell \x07", "a control character"),
        ("escape \x1b[31m", "a control character"),
        ("half \ud800", "half of a surrogate pair"),
        ("  \n ", "its text is empty"),
        ("x" * 100_001, "at most 100000 are kept"),
    ],
)
def test_text_that_hides_something_is_blocked_with_the_reason(ws: Workspace, text: str, what: str) -> None:
    report = ws.memory.upsert([event(1), lesson(text), event(2)])
    assert results(report) == ["written", "blocked", "written"]
    assert what in str(report.items[1].reason)
    assert len(ws.memory.rows()) == 2


@pytest.mark.parametrize(
    "text", ["naïve café", "日本語", "مرحبا بالعالم", "👩‍💻 wrote it", "می‌خواهم", "tabs\tand\nlines", "क्‍ष"]
)
def test_honest_text_in_any_script_is_kept(text: str) -> None:
    assert blocked_reason(lesson(text)) is None


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_no_text_whatever_raises(text: str) -> None:
    reason = blocked_reason(lesson(text))
    assert reason is None or reason.startswith("its ")


@settings(max_examples=8, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=6, unique=True), st.data())
def test_what_was_acknowledged_comes_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], data: st.DataObject
) -> None:
    ws = Workspace(tmp_path_factory.mktemp("ws"), clock=FixedClock(), embedder=HashingEmbedder(16))
    payload = {
        "value": data.draw(st.none() | st.integers(-(2**60), 2**60) | st.text() | st.lists(st.booleans()))
    }
    memories = [lesson(text, payload=payload, tags=("a",)) for text in texts]
    report = ws.memory.upsert(memories)
    kept = {row.id: row for row in ws.memory.rows()}
    for memory, item in zip(memories, report.items, strict=True):
        if item.result == "written":
            assert (kept[item.id].text, kept[item.id].payload) == (memory.text, memory.payload)
    assert ws.memory.check() == []


# ---------------------------------------------------------------- vectors and the embedder


class Counting(HashingEmbedder):
    """Counts the texts that it is given."""

    def __init__(self, dim: int = 32) -> None:
        super().__init__(dim)
        self.texts: list[str] = []

    def embed(self, texts, kind="passage"):  # type: ignore[no-untyped-def]
        self.texts.extend(texts)
        return super().embed(texts, kind)


def test_a_text_is_embedded_once(tmp_path: Path) -> None:
    embedder = Counting()
    ws = Workspace(tmp_path, embedder=embedder)
    ws.memory.upsert([event(1, scope=f"agent:{name}") for name in "abc"] + [event(2)])
    assert sorted(embedder.texts) == sorted([event(1).text, event(2).text])
    ws.memory.upsert([event(1, occurrences=5, scope="agent:a")])
    assert len(embedder.texts) == 2


def test_rows_are_unit_vectors_in_the_order_of_the_frame(ws: Workspace) -> None:
    ws.memory.upsert([event(number) for number in range(30)])
    snapshot = ws.memory.snapshot()
    assert snapshot.frame["id"].is_sorted()
    assert np.allclose(np.linalg.norm(snapshot.matrix, axis=1), 1, atol=1e-5)
    again = HashingEmbedder(32).embed(snapshot.frame["text"].to_list())
    assert np.allclose(snapshot.matrix, again, atol=1e-6)
    assert "vector" not in snapshot.frame.columns


class Away(HashingEmbedder):
    """An embedder whose server does not answer."""

    away = True

    def embed(self, texts, kind="passage"):  # type: ignore[no-untyped-def]
        if self.away:
            raise ModelUnavailable("no server")
        return super().embed(texts, kind)


def test_a_row_that_could_not_be_embedded_says_so_and_is_no_row_of_zeros(tmp_path: Path) -> None:
    embedder = Away(32)
    ws = Workspace(tmp_path, embedder=embedder)
    assert ws.memory.upsert([event(1)]).written == 1
    row = ws.memory.rows()[0]
    assert row.embed_model is None
    snapshot = ws.memory.snapshot()
    assert snapshot.has_vector.tolist() == [False]
    assert ws.memory.search_vectors(HashingEmbedder(32).embed(["x"])[0], ["agent:ops"], 5) == []
    assert ws.memory.vectors([row.id]) == {}
    assert "no vector" in ws.memory.check()[0]
    embedder.away = False
    ws.memory.reembed(embedder)
    assert ws.memory.snapshot().has_vector.tolist() == [True]
    assert ws.memory.check() == []


def test_another_size_is_refused_with_both_sizes_and_the_command(tmp_path: Path) -> None:
    Workspace(tmp_path, embedder=HashingEmbedder(8)).memory.upsert([event(1)])
    ws = Workspace(tmp_path, embedder=HashingEmbedder(4))
    with pytest.raises(EmbedderMismatch, match=r"\(8 numbers.*\(4,.*sitoolkit memory reembed"):
        ws.memory.upsert([event(2)])
    with pytest.raises(EmbedderMismatch, match=r"holds vectors of 8 numbers.*the query has 4"):
        ws.memory.search_vectors(np.ones(4, dtype=np.float32), ["agent:ops"], 1)
    assert len(ws.memory.rows()) == 1


def test_other_weights_of_the_same_size_are_refused(tmp_path: Path) -> None:
    class Other(HashingEmbedder):
        sha = "0" * 64

    Workspace(tmp_path, embedder=HashingEmbedder(8)).memory.upsert([event(1)])
    with pytest.raises(EmbedderMismatch, match="weights"):
        Workspace(tmp_path, embedder=Other(8)).memory.upsert([event(2)])


def test_reembedding_takes_over_when_it_is_whole_and_keeps_the_old(tmp_path: Path) -> None:
    old = Workspace(tmp_path, embedder=HashingEmbedder(8))
    old.memory.upsert([event(number) for number in range(20)])
    before = old.memory.rows()
    ws = Workspace(tmp_path, embedder=HashingEmbedder(16))
    report = ws.reembed()
    assert (report.rows, report.embedded, report.kept) == (20, 20, "memories-000001")
    assert ws.memory.snapshot().matrix.shape == (20, 16)
    assert [row.to_json() for row in ws.memory.rows()] == [row.to_json() for row in before]
    assert ws.memory.check() == []
    assert ws.memory.drop_old() == ["memories-000001"]
    assert ws.memory.upsert([event(99)]).written == 1
    assert len(old.memory.rows()) == 21  # an open handle sees the table that took over


def test_a_stopped_reembedding_goes_on(tmp_path: Path) -> None:
    Workspace(tmp_path, embedder=HashingEmbedder(8)).memory.upsert([event(number) for number in range(1_200)])

    class Stops(Counting):
        def embed(self, texts, kind="passage"):  # type: ignore[no-untyped-def]
            if len(self.texts) >= 512:
                raise KeyboardInterrupt
            return super().embed(texts, kind)

    with pytest.raises(KeyboardInterrupt):
        Workspace(tmp_path, embedder=Stops(16)).reembed()
    assert Workspace(tmp_path, embedder=HashingEmbedder(8)).memory.upsert([event(3_000)]).written == 1
    embedder = Counting(16)
    report = Workspace(tmp_path, embedder=embedder).reembed()
    assert (report.rows, report.embedded) == (1_201, 1_201 - 512)
    assert len(embedder.texts) == 1_201 - 512


# ---------------------------------------------------------------- reading


def test_filters_of_rows(ws: Workspace) -> None:
    ws.memory.upsert(
        [event(1), event(2, scope="project:shop"), fact("tabs"), lesson("never do it")], run_id="r1"
    )
    ws.memory.upsert([fact("spaces", "turn-2")], run_id="r2")
    assert len(ws.memory.rows(category="operational_event")) == 2
    assert (
        len(ws.memory.rows(category=["operational_event", "reflection"], scopes=["agent:ops", "global"])) == 2
    )
    assert len(ws.memory.rows(status=[Status.ACTIVE])) == 4
    assert len(ws.memory.rows(run_id="r2")) == 2
    ids = [row.id for row in ws.memory.rows()]
    assert ids == sorted(ids)
    assert [row.id for row in ws.memory.rows(ids=[*ids[:2], "nope"])] == ids[:2]
    assert ws.memory.rows(ids=[]) == []


def test_an_empty_store_reads_as_empty(ws: Workspace) -> None:
    assert ws.memory.rows() == []
    assert ws.memory.get("mem_x") is None
    assert len(ws.memory.snapshot()) == 0
    assert ws.memory.frame(as_of="2026-01-01T00:00:00Z").height == 0
    assert ws.memory.search_vectors(np.ones(32, dtype=np.float32), ["global"], 3) == []
    assert ws.memory.version == "none"
    ws.memory.optimize()
    assert ws.memory.check() == []
    assert not ws.path.exists()


def test_a_snapshot_is_the_same_object_until_something_changes(ws: Workspace) -> None:
    ws.memory.upsert([event(1), fact("tabs")])
    first = ws.memory.snapshot()
    assert ws.memory.snapshot() is first
    ws.memory.upsert([fact("spaces", "turn-2"), event(2)])
    second = ws.memory.snapshot()
    assert second.version != first.version
    fresh = Workspace(ws.path, embedder=HashingEmbedder(32)).memory.snapshot()
    assert second.frame.equals(fresh.frame)
    assert np.array_equal(second.matrix, fresh.matrix)
    assert first.frame.height == 2  # what a reader holds does not change under it


def test_a_snapshot_sees_what_another_handle_wrote_at_once(ws: Workspace) -> None:
    other = Workspace(ws.path, embedder=HashingEmbedder(32))
    for number in range(12):
        ws.memory.upsert([event(number)])
        assert len(other.memory.snapshot()) == number + 1


def test_rows_as_they_stood(ws: Workspace, clock: FixedClock) -> None:
    ws.memory.upsert([fact("tabs"), event(1)])
    first = clock()
    clock.advance(days=1)
    ws.memory.upsert([fact("spaces", "turn-2"), event(1, occurrences=3)])
    then = {row.text: row for row in ws.memory.rows(as_of=first, status="active")}
    assert set(then) == {"the project indents with tabs", event(1).text}
    assert then[event(1).text].seen_count == 1
    assert len(ws.memory.rows(as_of=first - timedelta(seconds=1))) == 0
    assert ws.memory.rows(as_of=clock()) == ws.memory.rows() or [
        r.id for r in ws.memory.rows(as_of=clock())
    ] == [r.id for r in ws.memory.rows()]


def test_the_frame_of_the_past_is_that_of_the_table(ws: Workspace, clock: FixedClock) -> None:
    ws.memory.upsert(
        [
            fact("tabs", tags=("a", "b"), payload={"ü": [1, None]}, expires_at="2027-01-01T00:00:00.5Z"),
            event(1),
        ],
        run_id="r",
    )
    ws.memory.upsert([fact("spaces", "turn-2")])
    leave = ["embed_model", "has_vector", "rev"]
    then, now = ws.memory.frame(as_of=clock()).drop(leave), ws.memory.frame().drop(leave)
    assert then.schema == now.schema
    assert then.equals(now)


def test_export_is_json_lines_in_order(ws: Workspace, tmp_path: Path) -> None:
    ws.memory.upsert([event(2), event(1), fact("tabs")])
    assert ws.memory.export(tmp_path / "out" / "memories.jsonl") == 3
    lines = [json.loads(line) for line in (tmp_path / "out" / "memories.jsonl").read_text().splitlines()]
    assert [Memory.model_validate(line) for line in lines] == ws.memory.rows()


# ---------------------------------------------------------------- keeping house


def test_ended_rows_leave_the_table_after_their_retention_and_the_journal_still_tells(tmp_path: Path) -> None:
    clock = FixedClock("2026-05-04T08:00:00Z")
    config = Settings.model_validate({"decay": {"keep_states_days": 10}})
    ws = Workspace(tmp_path, settings=config, clock=clock, embedder=HashingEmbedder(8))
    ws.memory.upsert([fact("tabs")])
    clock.advance(days=1)
    ws.memory.upsert([fact("spaces", "turn-2")])
    old = ws.memory.rows(status="superseded")[0]
    clock.advance(days=9)
    ws.memory.optimize()
    assert len(ws.memory.rows()) == 2
    clock.advance(days=2)
    ws.memory.optimize()
    assert [row.text for row in ws.memory.rows()] == ["the project indents with spaces"]
    assert [one.kind for one in ws.memory.history(old.id)] == ["written", "changed"]
    assert [row.text for row in ws.memory.rows(as_of="2026-05-04T09:00:00Z")] == [old.text]
    assert ws.memory.check() == []
    assert ws.memory.rebuild().rows == 1
    ws.memory.upsert([fact("tabs", "turn-3")])
    assert ws.memory.check() == []


def test_versions_and_files_stay_few(ws: Workspace) -> None:
    for number in range(70):
        ws.memory.upsert([event(number)])
    assert ws.memory.table.versions_on_disk() <= 66
    ws.memory.optimize()
    assert ws.memory.table.versions_on_disk() <= 2
    assert len(ws.memory.rows()) == 70


def test_a_newer_store_is_refused_politely(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    ws.memory.upsert([event(1)])
    monkeypatch.setattr("sitoolkit.stores.memory_table.SCHEMA", 1)
    older = Workspace(ws.path, embedder=HashingEmbedder(32))
    with pytest.raises(
        MigrationNeeded,
        match="has schema 2, this sitoolkit knows up to 1; upgrade sitoolkit, nothing was changed",
    ):
        older.memory.rows()


def test_a_large_table_gets_an_index_and_scopes_stay_apart(tmp_path: Path) -> None:
    config = Settings.model_validate({"recall": {"matrix_rows": 0}})
    ws = Workspace(tmp_path, settings=config, embedder=HashingEmbedder(16))
    ws.memory.upsert([event(number, scope=f"agent:a{number % 40}") for number in range(1_200)])
    ws.memory.optimize()
    assert [index.columns for index in ws.memory.table.open().list_indices()] == [["vector"]]
    ws.memory.optimize()
    found = ws.memory.search_vectors(HashingEmbedder(16).embed([event(7).text])[0], ["agent:a7"], 5)
    rows = {row.id: row for row in ws.memory.rows(ids=[id for id, _ in found])}
    assert len(found) == 5
    assert {row.scope for row in rows.values()} == {"agent:a7"}
    assert rows[found[0][0]].text == event(7).text


# ---------------------------------------------------------------- damage


def test_a_damaged_table_says_so_and_is_rebuilt(ws: Workspace) -> None:
    ws.memory.upsert([event(number, occurrences=2) for number in range(10)] + [fact("tabs")])
    ws.memory.upsert([fact("spaces", "turn-2")])
    before = [row.to_json() for row in ws.memory.rows()]
    for path in (ws.path / "memory" / "memories-000001.lance" / "_versions").iterdir():
        path.write_bytes(b"garbage")
    broken = Workspace(ws.path, clock=ws.clock, embedder=HashingEmbedder(32))
    with pytest.raises(StoreDamaged, match="sitoolkit memory rebuild"):
        broken.memory.rows()
    assert "sitoolkit memory rebuild" in broken.memory.check()[0]
    report = broken.memory.rebuild()
    assert (report.rows, report.kept) == (12, "memories-000001")
    assert [row.to_json() for row in broken.memory.rows()] == before
    assert broken.memory.check() == []
    assert broken.memory.upsert([event(1, occurrences=2)]).items[0].reason == "nothing new"


def test_a_table_that_is_gone_is_made_again_by_the_next_writer(ws: Workspace) -> None:
    import shutil

    ws.memory.upsert([event(1), event(2)])
    shutil.rmtree(ws.path / "memory")
    again = Workspace(ws.path, clock=ws.clock, embedder=HashingEmbedder(32))
    again.memory.upsert([event(3)])
    assert len(again.memory.rows()) == 3
    assert again.memory.check() == []


def test_a_pointer_that_is_garbage_says_so_and_is_rebuilt(ws: Workspace) -> None:
    ws.memory.upsert([event(1)])
    (ws.path / "memory" / "current.json").write_text("{")
    again = Workspace(ws.path, clock=ws.clock, embedder=HashingEmbedder(32))
    with pytest.raises(StoreDamaged, match="memory rebuild"):
        again.memory.rows()
    again.memory.rebuild()
    assert len(again.memory.rows()) == 1


def test_a_write_that_the_table_refuses_is_not_kept(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    ws.memory.upsert([event(1)])
    entries = ws.journal.head()

    def full(*args: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("lancedb.merge.LanceMergeInsertBuilder.execute", full)
        with pytest.raises(
            StoreError, match="no space is left; nothing of this write was kept; free some space"
        ):
            ws.memory.upsert([event(2), fact("tabs")])
    assert ws.journal.head() == entries
    assert len(ws.memory.rows()) == 1
    assert results(ws.memory.upsert([event(2), fact("tabs")])) == ["written", "written"]
    assert ws.memory.check() == []


def test_a_failed_write_that_others_followed_is_marked_and_never_made(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws.memory.upsert([event(1)])

    def full(*args: object, **more: object) -> None:
        ws.journal.append("recall", {"id": "rec_1", "items": []})
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("lancedb.merge.LanceMergeInsertBuilder.execute", full)
        with pytest.raises(StoreError):
            ws.memory.upsert([event(2)])
    again = Workspace(ws.path, clock=ws.clock, embedder=HashingEmbedder(32))
    again.memory.upsert([event(3)])
    assert sorted(row.text for row in again.memory.rows()) == sorted([event(1).text, event(3).text])
    assert again.memory.check() == []


def test_what_a_dead_writer_journaled_is_completed(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    ws.memory.upsert([event(1), fact("tabs")], run_id="r1")

    class Killed(BaseException):
        pass

    def die(*args: object, **more: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("sitoolkit.stores.memory_table.MemoryTable.merge", die)
        with pytest.raises(Killed):
            ws.memory.upsert([event(1, occurrences=3), fact("spaces", "turn-2"), event(5)], run_id="r2")
    again = Workspace(ws.path, clock=ws.clock, embedder=HashingEmbedder(32))
    assert len(again.memory.rows()) == 2  # readers are not held up
    again.memory.upsert([event(6)])
    assert {row.text for row in again.memory.rows(status="active")} == {
        event(1).text, event(5).text, event(6).text, "the project indents with spaces",
    }  # fmt: skip
    assert again.memory.check() == []
    assert all(row.embed_model == "hashing" for row in again.memory.rows())
    assert again.memory.rows(ids=[again.memory.upsert([event(1)]).items[0].id])[0].seen_count == 3


def test_an_open_writer_completes_what_another_left_undone(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws.memory.upsert([fact("tabs")])  # this writer knows what the table holds, until another writes
    other = Workspace(ws.path, clock=ws.clock, embedder=HashingEmbedder(32))
    other.memory.upsert([event(1), fact("spaces", "turn-2")])

    class Killed(BaseException):
        pass

    def die(*args: object, **more: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("sitoolkit.stores.memory_table.MemoryTable.merge", die)
        with pytest.raises(Killed):
            other.memory.upsert([event(1, occurrences=3), fact("none", "turn-3")])
    report = ws.memory.upsert([event(1, occurrences=4), fact("two", "turn-4"), event(6)])
    assert results(report) == ["repeated", "written", "written"]
    assert {row.text: row.seen_count for row in ws.memory.rows(status="active")} == {
        event(1).text: 4, event(6).text: 1, "the project indents with two": 1,
    }  # fmt: skip
    assert ws.memory.check() == []
    assert results(other.memory.upsert([event(6), fact("two", "turn-4")])) == ["repeated", "repeated"]


def test_digest_of_ids_is_stable() -> None:
    # An id names a content for good: a changed recipe would write every memory of every store a second time.
    assert digest("a", {"b": 1.0}) == digest("a", {"b": 1})
