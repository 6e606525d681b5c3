"""Capture in batches against the seed's way: one embedding and one row a call. `python -m bench.capture`.

Both ways use the same embedder and the same calls: state-changing ones of the demo's world, in sessions of twenty. The seed's way
is timed on some calls at four sizes of its table, for its rows get dearer with each commit, and summed up over all calls; beyond the
largest size its cost is taken to grow no further, which flatters it.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from sitoolkit.loops.capture import capture_sessions, event_text, find_events
from sitoolkit.records import Session, parse_time
from sitoolkit.testing.scene import Scene
from sitoolkit.testing.world import TOOLS, World

CALLS = 10_000
SAMPLE = 20  # calls that the seed's way is timed on, at each stage
TUNED = 50  # calls between two compactions, where the seed's way is given them
STAGES = (0, 500, 1_000, 2_000)  # rows in its table
WRITERS = tuple(tool for tool, spec in TOOLS.items() if spec["writes"])


def sessions(calls: int, seed: int = 5, each: int = 20) -> Iterator[Session]:
    """Sessions whose every call changes something."""
    rng = random.Random(seed)
    world = World(rng)
    start = parse_time("2026-05-04T08:00:00Z")
    assert start is not None
    for number in range(calls // each):
        scene = Scene(f"bench-{number:05d}", rng, start + timedelta(minutes=7 * number), agent="ops")
        scene.user("go on")
        for _ in range(each):
            tool = rng.choice(WRITERS)
            args = world.args(tool, scene)
            scene.call(tool, args, world.result(tool, args))
        yield scene.session()


def seeds_way(
    events: list[Any], embedder: Any, folder: Path, *, keyed: bool, tuned: bool = False
) -> list[tuple[int, float]]:
    """(rows in the table, seconds a call) of one embedding and one LanceDB row a call, at each of `STAGES`.

    Args:
        keyed: look for the row first (`merge_insert` on the content hash), as the seed's "re-running does not duplicate" asks; else
            append, which duplicates.
        tuned: compact the table every `TUNED` calls, which the seed does not say.
    """
    import lancedb
    import pyarrow as pa

    vector = pa.list_(pa.float32(), embedder.dim)
    schema = pa.schema(
        [("id", pa.string()), ("text", pa.string()), ("tool", pa.string()), ("vector", vector)]
    )
    table = lancedb.connect(folder).create_table("memory", schema=schema)
    embedder.embed(["warm"])
    measured = []
    rows = 0

    def row(event: Any, name: str) -> dict[str, Any]:
        text = event_text(event)
        return {"id": name, "text": text, "tool": event.tool, "vector": embedder.embed([text])[0].tolist()}

    for stage in STAGES:
        if tuned and rows < stage:
            table.add([row(events[at % len(events)], f"row {at}") for at in range(rows, stage)])
            table.optimize()
            rows = stage
        while rows < stage:  # a row a commit, as such a table grows
            table.add([row(events[rows % len(events)], f"row {rows}")])
            rows += 1
        sample = TUNED if tuned else SAMPLE
        started = time.perf_counter()
        for event in events[:sample]:
            if keyed:
                made = row(event, f"{stage} {event.id}")
                table.merge_insert("id").when_not_matched_insert_all().execute([made])
            else:
                table.add([row(event, event.id)])
            rows += 1
        if tuned:
            table.optimize()
        measured.append((stage, (time.perf_counter() - started) / sample))
    return measured


def total(measured: list[tuple[int, float]], calls: int, rows: int) -> float:
    """Seconds for `calls` calls while the table grows to `rows`: linear between the stages, and no dearer after the last."""
    import numpy as np

    at = np.linspace(0, rows, calls)
    return float(np.interp(at, [stage for stage, _ in measured], [cost for _, cost in measured]).sum())


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Print the table; returns its figures."""
    from sitoolkit.models.embedders import open_embedder
    from sitoolkit.workspace import Workspace

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=CALLS)
    options.add_argument("--embedder", default="wordllama")
    chosen = options.parse_args(sys.argv[1:] if arguments is None else arguments)
    embedder = open_embedder(chosen.embedder)
    made = list(sessions(chosen.calls))
    events = find_events(made)
    unique = len({event.content_hash for event in events})
    with tempfile.TemporaryDirectory() as folder:
        appended = seeds_way(events, embedder, Path(folder) / "a", keyed=False)
        keyed = seeds_way(events, embedder, Path(folder) / "b", keyed=True)
        tuned = seeds_way(events, embedder, Path(folder) / "c", keyed=True, tuned=True)
        ws = Workspace(Path(folder) / "ws", embedder=embedder)
        capture_sessions(ws, list(sessions(40, seed=99)))
        started = time.perf_counter()
        report = capture_sessions(ws, made)
        batched = time.perf_counter() - started
        started = time.perf_counter()
        again = capture_sessions(ws, made)
        repeat = time.perf_counter() - started
        assert again.captured.written == 0
    calls = report.writes
    ways = {
        "one embedding, one keyed row a call (the seed's way)": total(keyed, calls, unique),
        f"the same, compacted every {TUNED} calls by hand": total(tuned, calls, unique),
        "one embedding, one appended row a call (duplicates)": total(appended, calls, calls),
        "sitoolkit: redact, log, embed contents, upsert in batches": batched,
        "sitoolkit: the same transcripts again": repeat,
    }
    seed = next(iter(ways.values()))
    print(f"capture of {calls:,} calls ({unique:,} contents), embedder {embedder.name}")
    print(f"{'way':<60}{'seconds':>10}{'ms a call':>12}{'speed-up':>10}")
    for name, seconds in ways.items():
        print(f"{name:<60}{seconds:>10.1f}{1e3 * seconds / calls:>12.3f}{seed / seconds:>9.0f}x")
    told = ", ".join(f"{1e3 * cost:.1f} at {stage:,}" for stage, cost in keyed)
    print(
        f"the seed's way was timed on {SAMPLE} calls at each of {len(STAGES)} sizes (ms a call at rows: {told}) and summed over all"
    )
    return {
        "embedder": embedder.name,
        "calls": calls,
        "contents": unique,
        "seconds": ways,
        "keyed": keyed,
        "appended": appended,
    }


if __name__ == "__main__":
    main()
