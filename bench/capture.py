"""Capture in batches against the seed's way: one embedding and one row a call. `python -m bench.capture`.

Both ways use the same embedder and the same calls: state-changing ones of the demo's world, in sessions of twenty. The seed's way
is timed on a sample of the calls, from an empty table, and scaled linearly, which flatters it: its rows get dearer with each fragment.
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
SAMPLE = 150  # calls that the seed's way is timed on
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


def seeds_way(events: list[Any], embedder: Any, folder: Path, *, idempotent: bool) -> float:
    """Seconds for one embedding and one LanceDB row a call; `idempotent` looks for the row first (merge_insert)."""
    import lancedb
    import pyarrow as pa

    schema = pa.schema(
        [
            ("id", pa.string()),
            ("text", pa.string()),
            ("tool", pa.string()),
            ("vector", pa.list_(pa.float32(), embedder.dim)),
        ]
    )
    table = lancedb.connect(folder).create_table("memory", schema=schema)
    embedder.embed(["warm"])
    started = time.perf_counter()
    for event in events:
        text = event_text(event)
        row = {
            "id": event.content_hash,
            "text": text,
            "tool": event.tool,
            "vector": embedder.embed([text])[0].tolist(),
        }
        if idempotent:
            table.merge_insert("id").when_not_matched_insert_all().execute([row])
        else:
            table.add([row])
    return time.perf_counter() - started


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Print the table; returns its figures."""
    from sitoolkit.workspace import Workspace

    from sitoolkit.models.embedders import open_embedder

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=CALLS)
    options.add_argument("--sample", type=int, default=SAMPLE)
    options.add_argument("--embedder", default="wordllama")
    chosen = options.parse_args(sys.argv[1:] if arguments is None else arguments)
    embedder = open_embedder(chosen.embedder)
    made = list(sessions(chosen.calls))
    events = find_events(made)
    unique = len({event.content_hash for event in events})
    with tempfile.TemporaryDirectory() as folder:
        sample = events[: chosen.sample]
        row = seeds_way(sample, embedder, Path(folder) / "a", idempotent=False) / len(sample)
        keyed = seeds_way(sample, embedder, Path(folder) / "b", idempotent=True) / len(sample)
        ws = Workspace(Path(folder) / "ws", embedder=embedder)
        capture_sessions(ws, list(sessions(40, seed=99)))
        started = time.perf_counter()
        report = capture_sessions(ws, made)
        batched = (time.perf_counter() - started) / report.writes
        started = time.perf_counter()
        again = capture_sessions(ws, made)
        repeat = (time.perf_counter() - started) / again.writes
        assert again.captured.written == 0
    figures = {
        "embedder": embedder.name, "calls": report.writes, "contents": unique, "sampled": len(sample),
        "one_row_ms": 1e3 * row, "one_keyed_row_ms": 1e3 * keyed, "batched_ms": 1e3 * batched, "again_ms": 1e3 * repeat,
    }  # fmt: skip
    print(
        f"capture of {report.writes:,} calls ({unique:,} contents), embedder {embedder.name}; the seed's way timed on {len(sample)}"
    )
    print(f"{'way':<58}{'ms a call':>12}{'10,000 calls':>16}{'speed-up':>10}")
    for name, each in (
        ("one embedding, one merge_insert a call (idempotent)", keyed),
        ("one embedding, one appended row a call (duplicates)", row),
        ("sitoolkit: redact, log, embed contents, upsert in batches", batched),
        ("sitoolkit: the same transcripts again", repeat),
    ):
        print(f"{name:<58}{1e3 * each:>12.3f}{10_000 * each:>14.1f} s{keyed / each:>9.0f}x")
    return figures


if __name__ == "__main__":
    main()
