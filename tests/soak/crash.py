"""Writers that are killed, and what must hold afterwards: used by the short form in tests/stores and the long one here.

A worker does random steps on a workspace and notes each one that was acknowledged. It is killed with -9 at a random moment;
then a new process opens the workspace, and everything that was acknowledged must be there, once.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import time
import warnings
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

from sitoolkit.records import Memory, digest
from sitoolkit.testing import HashingEmbedder
from sitoolkit.workspace import Workspace
from tests.stores.making import call, event, fact

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["lancedb", "polars", "pyarrow", "duckdb", "sitoolkit.stores.memory", "tests.soak.crash"]
)
# The fork server itself never uses lancedb, so that a fork of it is sound.
warnings.filterwarnings("ignore", message="lancedb fork support is experimental")


def open_ws(path: Path | str, dim: int = 16) -> Workspace:
    return Workspace(path, embedder=HashingEmbedder(dim))


class Ack:
    """Notes what was acknowledged, in a file that a kill cannot take back."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def note(self, kind: str, **fields: Any) -> None:
        os.write(self._file, json.dumps({"kind": kind, **fields}).encode() + b"\n")


def work(path: str, acks: str, seed: int, ready: Any) -> None:
    """Random steps until it is killed."""
    rng = random.Random(seed)
    ws = open_ws(path)
    ack = Ack(acks)
    step(ws, rng, ack)  # what is loaded at first use is loaded now
    ready.set()
    while True:
        step(ws, rng, ack)


def step(ws: Workspace, rng: random.Random, ack: Ack) -> None:
    """One step of a night, acknowledged when it returned."""
    kind = rng.choices(
        ["events", "facts", "calls", "status", "optimize", "seal", "undo", "recall", "reembed"],
        [8, 4, 5, 2, 2, 1, 1, 2, 1],
    )[0]
    if kind == "events":
        numbers = [rng.randrange(400) for _ in range(rng.choice((1, 3, 40)))]
        given = [event(number, occurrences=1 + rng.randrange(4)) for number in numbers]
        report = ws.memory.upsert(given, run_id="events")
        assert report.failed == report.blocked == 0
        ack.note(
            "events",
            rows=[[item.id, len(memory.evidence)] for item, memory in zip(report.items, given, strict=True)],
        )
    elif kind == "facts":
        slot, value = rng.randrange(5), rng.randrange(1_000_000)
        given_fact = fact(f"style {value}", f"turn-{value}", slot=f"fact:{slot}:style")
        report = ws.memory.upsert([given_fact], run_id="facts")
        ack.note("fact", id=report.items[0].id, slot=slot)
    elif kind == "calls":
        first = rng.randrange(2_000)
        numbers = list(range(first, first + rng.choice((1, 20, 200))))
        ws.telemetry.append("calls", [call(number) for number in numbers])
        ack.note("calls", first=first, count=len(numbers))
    elif kind == "status":
        memory = Memory(
            category="reflection",
            scope="global",
            text=f"lesson {rng.randrange(10**9)}",
            origin="reflected",
            evidence=("e",),
        )
        id = ws.memory.upsert([memory], run_id="lesson").items[0].id
        ws.memory.set_status([id], "retired", run_id="decay", reason="expired")
        ack.note("retired", id=id)
    elif kind == "optimize":
        ws.memory.optimize()
    elif kind == "seal":
        ws.telemetry.seal(before=ws.clock() + timedelta(days=2))
    elif kind == "undo":
        with ws.run("undone") as run:
            memory = Memory(
                category="reflection",
                scope="global",
                text=f"mistake {run.id}",
                origin="reflected",
                evidence=("e",),
            )
            id = ws.memory.upsert([memory], run_id=run.id).items[0].id
            ws.memory.undo(run.id, by_run="undoer")
        ack.note("undone", id=id)
    elif kind == "recall":
        snapshot = ws.memory.snapshot()
        ids = snapshot.ids[:3]
        ws.journal.append("recall", {"id": digest(rng.random()), "items": [{"memory_id": id} for id in ids]})
        ack.note("recall", ids=ids)
    elif kind == "reembed" and ws.memory.table.exists:
        ws.memory.reembed(HashingEmbedder(16))
        ws.memory.drop_old()


def acknowledged(path: str | Path) -> list[dict[str, Any]]:
    file = Path(path)
    return (
        [json.loads(line) for line in file.read_bytes().splitlines() if line.endswith(b"}")]
        if file.exists()
        else []
    )


def verify(path: str | Path, acks: str | Path) -> None:
    """Everything acknowledged is there, once, and the stores agree."""
    ws = open_ws(path)
    # A writer completes what the dead one had journaled; readers never see half of it.
    ws.memory.upsert([event(1_000_000)], run_id="after")
    rows = ws.memory.rows()
    by_id = {row.id: row for row in rows}
    assert len(by_id) == len(rows), "a memory stands in the table twice"
    counts: Counter[str] = Counter()
    facts: dict[int, str] = {}
    served: Counter[str] = Counter()
    calls: set[str] = set()
    for said in acknowledged(acks):
        if said["kind"] == "events":
            for id, count in said["rows"]:
                counts[id] = max(counts[id], count)
        elif said["kind"] == "fact":
            facts[said["slot"]] = said["id"]
            assert said["id"] in by_id
        elif said["kind"] in ("retired", "undone"):
            assert by_id[said["id"]].status == "retired"
        elif said["kind"] == "calls":
            calls.update(call(number)["id"] for number in range(said["first"], said["first"] + said["count"]))
        elif said["kind"] == "recall":
            served.update(said["ids"])
    for id, count in counts.items():
        assert by_id[id].seen_count >= count, "an acknowledged occurrence is lost"
        assert by_id[id].status == "active"
    slots = Counter(row.slot for row in rows if row.slot and row.status == "active")
    assert all(count == 1 for count in slots.values()), "two rows hold one slot"
    found = ws.telemetry.sql("select id from calls")["id"].to_list()
    assert len(found) == len(set(found)), "a call stands in telemetry twice"
    assert calls <= set(found), "an acknowledged call is lost"
    access = ws.journal.access()
    assert all(access[id][0] >= count for id, count in served.items()), "an acknowledged recall is lost"
    assert ws.memory.check() == []
    assert ws.journal.verify().ok
    snapshot = ws.memory.snapshot()
    assert sorted(snapshot.ids) == sorted(row.id for row in rows if row.status == "active")
    assert snapshot.has_vector.all()


def kill_again_and_again(folder: Path, rounds: int, *, seed: int = 7, longest_s: float = 0.6) -> int:
    """Start a worker, kill it at a random moment, look; gives how many steps were acknowledged in all."""
    rng = random.Random(seed)
    path, acks = folder / "ws", folder / "acks.jsonl"
    for number in range(rounds):
        ready = CONTEXT.Event()
        worker = CONTEXT.Process(target=work, args=(str(path), str(acks), seed * 1_000 + number, ready))
        worker.start()
        assert ready.wait(60), "the worker did not start"
        time.sleep(rng.random() * longest_s)
        worker.kill()
        worker.join()
        if number % 5 == 4 or number == rounds - 1:
            verify(path, acks)
    return len(acknowledged(acks))


# ---------------------------------------------------------------- many at once


def write_for(path: str, seed: int, seconds: float, answers: Any) -> None:
    """Write until the time is up; tells how much, and any error."""
    from sitoolkit.errors import StoreLocked

    rng = random.Random(seed)
    ws = open_ws(path)
    done = locked = 0
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            numbers = [rng.randrange(300) for _ in range(rng.choice((1, 10, 50)))]
            try:
                ws.memory.upsert(
                    [event(number, occurrences=1 + seed) for number in numbers], run_id=f"writer-{seed}"
                )
                ws.telemetry.append("calls", [call(number) for number in numbers])
                if rng.random() < 0.1:
                    ws.memory.optimize()
            except StoreLocked:
                locked += 1
            done += 1
        answers.put((done, locked, None))
    except BaseException as fault:  # noqa: BLE001 - told to the test, which fails with it
        answers.put((done, locked, f"{type(fault).__name__}: {fault}"))


def read_for(path: str, seed: int, seconds: float, answers: Any) -> None:
    """Read until the time is up; tells how often, the longest wait, and any error."""
    rng = random.Random(seed)
    ws = open_ws(path)
    done, longest = 0, 0.0
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            started = time.monotonic()
            snapshot = ws.memory.snapshot()
            assert len(set(snapshot.ids)) == len(snapshot)
            ws.journal.append(
                "recall",
                {"id": f"rec_{seed}_{done}", "items": [{"memory_id": id} for id in snapshot.ids[:3]]},
            )
            if rng.random() < 0.2:
                rows = ws.memory.rows(status="active")
                assert len({row.id for row in rows}) == len(rows)
            if rng.random() < 0.1:
                assert ws.telemetry.sql("select count(*) - count(distinct id) from calls").item() == 0
            longest = max(longest, time.monotonic() - started)
            done += 1
            time.sleep(0.005)
        answers.put((done, longest, None))
    except BaseException as fault:  # noqa: BLE001 - told to the test, which fails with it
        answers.put((done, longest, f"{type(fault).__name__}: {fault}"))


def many_at_once(folder: Path, *, writers: int, readers: int, seconds: float) -> tuple[list[Any], list[Any]]:
    """Writers and readers on one workspace; gives what each told."""
    path = folder / "ws"
    open_ws(path).memory.upsert([event(0)])
    told_by_writers, told_by_readers = CONTEXT.SimpleQueue(), CONTEXT.SimpleQueue()
    started = [
        CONTEXT.Process(target=write_for, args=(str(path), seed, seconds, told_by_writers))
        for seed in range(writers)
    ] + [
        CONTEXT.Process(target=read_for, args=(str(path), seed, seconds, told_by_readers))
        for seed in range(readers)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join()
    wrote = [told_by_writers.get() for _ in range(writers)]
    read = [told_by_readers.get() for _ in range(readers)]
    ws = open_ws(path)
    rows = ws.memory.rows()
    assert len({row.id for row in rows}) == len(rows), "a memory stands in the table twice"
    assert ws.memory.check() == []
    assert ws.telemetry.sql("select count(*) - count(distinct id) from calls").item() == 0
    assert all(row.seen_count == len(row.evidence) for row in rows), "an occurrence was counted twice"
    return wrote, read
