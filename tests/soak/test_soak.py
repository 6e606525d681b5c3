"""The long forms: 240 kills, two minutes of a crowd, a year of nights, a thousand single captures. Run by `make soak`."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from sitoolkit.records import Reader
from sitoolkit.testing import FixedClock, HashingEmbedder
from sitoolkit.workspace import Workspace
from tests.soak.crash import kill_again_and_again, many_at_once
from tests.stores.making import call, event

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_sixty_kills(tmp_path: Path, seed: int) -> None:
    assert kill_again_and_again(tmp_path, 60, seed=seed, longest_s=1.0) >= 60


def test_four_writers_and_eight_readers_for_two_minutes(tmp_path: Path) -> None:
    wrote, read = many_at_once(tmp_path, writers=4, readers=8, seconds=120)
    assert [told[2] for told in (*wrote, *read)] == [None] * 12
    assert all(done > 20 for done, _, _ in wrote)
    assert all(done > 100 for done, _, _ in read)


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_a_thousand_single_captures_leave_at_most_twice_their_payload(tmp_path: Path) -> None:
    embedder = HashingEmbedder(256)
    ws = Workspace(tmp_path, embedder=embedder)
    for number in range(1_000):
        ws.memory.upsert([event(number)], run_id="r")
    ws.memory.optimize()
    rows = ws.memory.rows()
    payload = sum(len(row.model_dump_json()) + 4 * embedder.dim for row in rows)
    assert len(rows) == 1_000
    assert size(tmp_path / "memory") <= payload
    assert size(tmp_path / "memory") + size(tmp_path / "journal") <= 2 * payload


def search_p95(ws: Workspace) -> float:
    from sitoolkit.recall import recall

    times = []
    for number in range(80):
        started = time.perf_counter()
        recall(ws, f"deploy service svc-{number * 37}", Reader(agent="ops"))
        times.append(time.perf_counter() - started)
    return float(np.percentile(times[10:], 95))


def test_a_year_of_nights_keeps_search_as_fast_as_a_fresh_table(tmp_path: Path) -> None:
    clock = FixedClock("2026-01-01T02:00:00Z")
    old = Workspace(tmp_path / "year", clock=clock, embedder=HashingEmbedder(64))
    for night in range(365):
        first = night * 200
        with old.run("capture") as run:
            old.telemetry.append(
                "calls",
                [call(number, started_at=clock().isoformat()) for number in range(first, first + 200)],
            )
            # Each night: 60 % new contents, the rest known ones seen again.
            numbers = [*range(night * 120, night * 120 + 120), *range(0, 80)]
            old.memory.upsert([event(n, evidence=(f"{night}-{n}",)) for n in numbers], run_id=run.id)
            old.telemetry.seal()
            old.memory.optimize()
        clock.advance(days=1)
    assert old.memory.table.versions_on_disk() <= 3
    rows = old.memory.rows(status="active")
    fresh = Workspace(tmp_path / "fresh", clock=clock, embedder=HashingEmbedder(64))
    fresh.memory.upsert(rows)
    fresh.memory.optimize()
    assert len(fresh.memory.rows()) == len(rows) == 365 * 120
    assert size(tmp_path / "year" / "memory") <= 1.5 * size(tmp_path / "fresh" / "memory")
    for _attempt in range(3):  # another process on the machine may spoil one measurement
        year, new = search_p95(old), search_p95(fresh)
        if year <= 1.5 * new:
            break
    assert year <= 1.5 * new, f"{year * 1e3:.1f} ms after a year, {new * 1e3:.1f} ms fresh"
    assert old.memory.check() == []
    assert old.telemetry.sql("select count(*) from calls").item() == 365 * 200
