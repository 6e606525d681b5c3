"""The stores beside bare LanceDB (and mem0, where it is installed), in one run, interleaved.

Run: `python -m bench.stores [--rows 10000] [--calls 200000] [--nights 30] [--mem0]`. All use the same vectors. What is
measured: single and batched writes, bytes on disk, opening in a new process, refreshing after a write, search after many
nights beside a fresh table, and telemetry (import, import again, seal, load, query).
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sitoolkit.models.embedders import open_embedder
from sitoolkit.records import Memory, ToolInvocation, digest
from sitoolkit.stores.telemetry import Telemetry
from sitoolkit.testing import FixedClock
from sitoolkit.workspace import Workspace

WORDS = [
    "register",
    "deploy",
    "queue",
    "bucket",
    "dashboard",
    "webhook",
    "timeout",
    "retry",
    "token",
    "subnet",
    "router",
    "backup",
    "snapshot",
    "refund",
    "invoice",
    "alert",
    "cert",
    "schema",
    "index",
    "migrate",
    "rollback",
    "canary",
    "quorum",
    "redact",
    "summary",
    "locale",
    "parquet",
    "ingest",
    "audit",
    "reviewer",
    "scene",
]


def text(number: int) -> str:
    rng = random.Random(number)
    return f"{rng.choice(WORDS)}_{rng.choice(WORDS)}(name=svc-{number}): {' '.join(rng.choices(WORDS, k=10))}"


def memory(number: int, evidence: int = 0) -> Memory:
    return Memory(
        category="operational_event", scope=f"agent:a{number % 10}", text=text(number), origin="observed",
        payload={"tool": "deploy", "args": {"name": f"svc-{number}"}}, evidence=(digest(number, evidence),),
    )  # fmt: skip


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def show(name: str, ours: float, bare: float | None, unit: str, more: str = "") -> dict[str, Any]:
    ratio = f"{ours / bare:>8.2f}x" if bare else " " * 9
    print(
        f"{name:<52}{ours:>12.2f}{bare if bare is None else round(bare, 2)!s:>12} {unit:<5}{ratio}  {more}",
        flush=True,
    )
    return {"name": name, "ours": ours, "bare": bare, "unit": unit}


class Bare:
    """LanceDB as its documentation shows it: a keyed table, merge_insert, optimize."""

    def __init__(self, folder: Path, embedder: Any) -> None:
        import lancedb

        self.embedder = embedder
        self.schema = pa.schema(
            [
                pa.field("id", pa.string(), nullable=False), ("scope", pa.string()), ("text", pa.string()),
                ("payload", pa.string()), ("vector", pa.list_(pa.float32(), embedder.dim)),
            ]
        )  # fmt: skip
        self.table = lancedb.connect(str(folder)).create_table("memories", schema=self.schema)
        self.table.set_unenforced_primary_key("id")

    def write(self, memories: list[Memory]) -> None:
        vectors = self.embedder.embed([one.text for one in memories])
        rows = pa.table(
            {
                "id": [digest(one.scope, one.text)[:24] for one in memories],
                "scope": [str(one.scope) for one in memories],
                "text": [one.text for one in memories],
                "payload": [json.dumps(one.payload) for one in memories],
                "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), self.embedder.dim),
            },
            schema=self.schema,
        )
        self.table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)

    def search(self, vector: Any, scope: str) -> list[str]:
        found = self.table.search(vector).distance_type("cosine").where(f"scope = '{scope}'", prefilter=True)
        return found.select(["id", "_distance"]).limit(10).to_arrow()["id"].to_pylist()


def writes(folder: Path, embedder: Any, rows: int) -> list[dict[str, Any]]:
    """Single writes interleaved, then batches interleaved."""
    ws, bare = Workspace(folder / "ours", embedder=embedder), Bare(folder / "bare", embedder)
    ours_ms, bare_ms = [], []
    for number in range(300):
        ours_ms.append(1e3 * timed(lambda n=number: ws.memory.upsert([memory(n)])))
        bare_ms.append(1e3 * timed(lambda n=number: bare.write([memory(n)])))
    found = [
        show(
            "single write, first 50 (journaled, idempotent)",
            float(np.median(ours_ms[:50])),
            float(np.median(bare_ms[:50])),
            "ms",
        ),
        show(
            "single write, last 50 of 300",
            float(np.median(ours_ms[-50:])),
            float(np.median(bare_ms[-50:])),
            "ms",
        ),
    ]
    payload = sum(len(memory(n).model_dump_json()) + 4 * embedder.dim for n in range(300))
    found.append(
        show(
            "300 single writes on disk, before compaction",
            size(folder / "ours") / payload,
            size(folder / "bare") / payload,
            "x",
            "of payload",
        )
    )
    ws.memory.optimize()
    bare.table.optimize(cleanup_older_than=timedelta(milliseconds=1), delete_unverified=True)
    table = size(folder / "ours" / "memory") / payload
    found.append(
        show(
            "the same after the job's compaction: table",
            table,
            size(folder / "bare") / payload,
            "x",
            "of payload",
        )
    )
    found.append(
        show(
            "the same, with the journal that undoes and rebuilds",
            size(folder / "ours") / payload,
            None,
            "x",
            "of payload",
        )
    )
    seconds = [0.0, 0.0]
    for start in range(1_000, rows, 1_000):
        batch = [memory(number) for number in range(start, min(start + 1_000, rows))]
        seconds[0] += timed(lambda b=batch: ws.memory.upsert(b))
        seconds[1] += timed(lambda b=batch: bare.write(b))
    per_row = 1e3 / max(rows - 1_000, 1)
    found.append(
        show(f"batches of 1,000 up to {rows:,} rows, a row", seconds[0] * per_row, seconds[1] * per_row, "ms")
    )
    again = [memory(number) for number in range(1_000, 2_000)]
    found.append(
        show(
            "1,000 known contents again",
            1e3 * timed(lambda: ws.memory.upsert(again)),
            1e3 * timed(lambda: bare.write(again)),
            "ms",
            "ours writes nothing",
        )
    )
    ws.memory.optimize()
    bare.table.optimize(cleanup_older_than=timedelta(milliseconds=1), delete_unverified=True)
    found += opening(folder / "ours", rows)
    ws.memory.snapshot()
    refresh = []
    for number in range(20):
        ws.memory.upsert([memory(10**7 + number)])
        refresh.append(1e3 * timed(ws.memory.snapshot))
    found.append(show("snapshot after one more write", float(np.median(refresh)), None, "ms"))
    found.append(
        show(
            "snapshot unchanged",
            1e3 * timed(lambda: [ws.memory.snapshot() for _ in range(1_000)]) / 1_000,
            None,
            "ms",
        )
    )
    return found


_OPEN = """
import sys, time
import lancedb, polars, numpy, pyarrow, duckdb
import sitoolkit.stores.memory
from sitoolkit.workspace import Workspace
from sitoolkit.testing import HashingEmbedder
started = time.perf_counter()
ws = Workspace(sys.argv[1], embedder=HashingEmbedder(8))
rows = len(ws.memory.snapshot())
print(time.perf_counter() - started, rows)
"""


def opening(folder: Path, rows: int) -> list[dict[str, Any]]:
    """Open and read everything in a new process, beyond its imports."""
    times = []
    for _ in range(3):
        out = subprocess.run(
            [sys.executable, "-c", _OPEN, str(folder)], check=True, capture_output=True, text=True
        ).stdout
        times.append(1e3 * float(out.split()[0]))
    return [
        show(
            f"first snapshot in a new process, {rows:,} rows",
            min(times),
            None,
            "ms",
            "aim: recall under 1,000",
        )
    ]


def nights(folder: Path, embedder: Any, count: int) -> list[dict[str, Any]]:
    """Nights of 200 events beside a fresh table of the same rows; the searches interleaved."""
    clock = FixedClock("2026-01-01T02:00:00Z")
    old = Workspace(folder / "old", clock=clock, embedder=embedder)
    for night in range(count):
        numbers = [*range(night * 120, night * 120 + 120), *range(80)]
        with old.run("capture") as run:
            old.memory.upsert([memory(number, night) for number in numbers], run_id=run.id)
            old.memory.optimize()
        clock.advance(days=1)
    fresh = Workspace(folder / "fresh", clock=clock, embedder=embedder)
    fresh.memory.upsert(old.memory.rows(status="active"))
    fresh.memory.optimize()
    ours: list[float] = []
    new: list[float] = []
    vectors = embedder.embed([text(number * 31) for number in range(60)])
    for ws in (old, fresh):
        ws.memory.search_vectors(vectors[0], ["agent:a1"], 10)
    for number, vector in enumerate(vectors):
        scope = f"agent:a{number % 10}"
        ours.append(1e3 * timed(lambda v=vector, s=scope: old.memory.search_vectors(v, [s], 10)))
        new.append(1e3 * timed(lambda v=vector, s=scope: fresh.memory.search_vectors(v, [s], 10)))
    return [
        show(f"vector search p95 after {count} nights, beside fresh", float(np.percentile(ours, 95)), float(np.percentile(new, 95)), "ms", "aim: at most 1.5x"),
        show(f"table on disk after {count} nights, beside fresh", size(folder / "old" / "memory") / 1e6, size(folder / "fresh" / "memory") / 1e6, "MB", f"{old.memory.table.versions_on_disk()} versions"),
    ]  # fmt: skip


def invocation(number: int) -> dict[str, Any]:
    return ToolInvocation(
        id=digest("call", number), content_hash=digest("content", number % 5_000), session_id=f"session-{number // 20}", seq=number % 20,
        tool=f"tool_{number % 40}", args={"name": f"svc-{number}", "region": WORDS[number % 30]}, result={"status": "ok", "id": number},
        outcome="failure" if number % 9 == 0 else "success", failure_mode="TIMEOUT" if number % 9 == 0 else None,
        started_at=f"2026-05-{1 + number % 28:02d}T10:{number % 60:02d}:00Z", agent="ops",
        source={"file": "a.jsonl", "line": number + 1, "format": "openai"},
    ).to_json()  # fmt: skip


def telemetry(folder: Path, calls: int) -> list[dict[str, Any]]:
    """Import, import again, load, query, seal."""
    clock = FixedClock("2026-06-01T02:00:00Z")
    store = Telemetry(folder / "telemetry", clock=clock)
    seconds, bare = 0.0, 0.0
    lines = (folder / "bare.jsonl").open("wb")
    for start in range(0, calls, 10_000):
        batch = [invocation(number) for number in range(start, min(start + 10_000, calls))]
        seconds += timed(lambda b=batch: store.append("calls", b))
        bare += timed(lambda b=batch: lines.writelines(json.dumps(one).encode() + b"\n" for one in b))
    lines.close()
    again = [invocation(number) for number in range(10_000)]
    found = [
        show(
            f"import of {calls:,} calls, a call (beside json.dumps)",
            1e6 * seconds / calls,
            1e6 * bare / calls,
            "us",
            "known ids are found out",
        ),
        show(
            "10,000 known calls again, a call",
            1e6 * timed(lambda: store.append("calls", again)) / 10_000,
            None,
            "us",
        ),
        show(
            "a new process learns what is known",
            1e3 * timed(lambda: Telemetry(folder / "telemetry", clock=clock).append("calls", again[:1])),
            None,
            "ms",
        ),
    ]
    query = "select tool, failure_mode, session_id, count(*) from calls where failed group by all having count(*) >= 3"
    for when in ("JSONL", "Parquet"):
        found.append(
            show(
                f"load all calls into DuckDB from {when}",
                1e3 * timed(lambda: store.connection(load=True, tables=["calls"]).close()),
                None,
                "ms",
            )
        )
        found.append(
            show(f"group failures straight from {when}", 1e3 * timed(lambda: store.sql(query)), None, "ms")
        )
        if when == "JSONL":
            clock.advance(days=3)
            found.append(show("seal that day", 1e3 * timed(store.seal), None, "ms"))
    with store.connection(load=True, tables=["calls"]) as con:
        times = [1e3 * timed(lambda: con.execute(query).fetchall()) for _ in range(7)]
    found.append(show("group failures after loading", float(np.median(times)), None, "ms"))
    found.append(
        show(
            "read all calls as records, a call",
            1e6 * timed(lambda: sum(1 for _ in store.invocations())) / calls,
            None,
            "us",
        )
    )
    return found


def mem0(folder: Path, embedder: Any, rows: int) -> list[dict[str, Any]]:
    """mem0 with a local store and the same vectors, no model; interleaved with ours."""
    import os
    import types

    os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=str(folder / "mem0"), HF_HUB_OFFLINE="1")
    from mem0 import Memory as Peer
    from mem0.embeddings.base import EmbeddingBase
    from mem0.utils.factory import EmbedderFactory

    class Same(EmbeddingBase):
        def embed(self, text: str, memory_action: str | None = None) -> list[float]:
            return embedder.embed([text])[0].tolist()

    module = types.ModuleType("bench_same_embedder")
    module.Same = Same  # type: ignore[attr-defined]
    sys.modules["bench_same_embedder"] = module
    EmbedderFactory.provider_to_class["fastembed"] = (
        "bench_same_embedder.Same"  # the check takes known names alone
    )
    store = {
        "path": str(folder / "q"),
        "on_disk": True,
        "collection_name": "m",
        "embedding_model_dims": embedder.dim,
    }
    peer = Peer.from_config(
        {
            "vector_store": {"provider": "qdrant", "config": store},
            "embedder": {"provider": "fastembed", "config": {"model": "same"}},
            "llm": {"provider": "ollama", "config": {"model": "none"}},
            "history_db_path": str(folder / "history.db"),
        }
    )
    ws = Workspace(folder / "ws", embedder=embedder)
    ours, theirs = [], []
    for number in range(rows):
        one = memory(number)
        ours.append(1e3 * timed(lambda m=one: ws.memory.upsert([m])))
        theirs.append(
            1e3
            * timed(
                lambda m=one: peer.add(
                    [{"role": "user", "content": m.text}], user_id=str(m.scope), infer=False
                )
            )
        )
    ws.memory.optimize()
    found = [
        show(
            f"single write, {rows} rows, beside mem0 + qdrant local",
            float(np.median(ours)),
            float(np.median(theirs)),
            "ms",
        )
    ]
    ours, theirs = [], []
    for number in range(60):
        query, scope = text(number * 7 % rows).split(": ")[1], f"agent:a{number * 7 % rows % 10}"
        ours.append(
            1e3 * timed(lambda q=query, s=scope: ws.memory.search_vectors(embedder.embed([q])[0], [s], 10))
        )
        theirs.append(1e3 * timed(lambda q=query, s=scope: peer.search(q, filters={"user_id": s}, top_k=10)))
    found.append(
        show(
            "search of 10, with embedding, beside mem0",
            float(np.median(ours)),
            float(np.median(theirs)),
            "ms",
        )
    )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--embedder", default="wordllama")
    parser.add_argument("--mem0", action="store_true", help="also mem0, which must be installed")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    embedder = open_embedder(options.embedder)
    embedder.embed(["load it"])
    found: list[dict[str, Any]] = []
    print(f"{'':<52}{'ours':>12}{'bare':>12}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found += writes(folder / "writes", embedder, options.rows)
        found += nights(folder / "nights", embedder, options.nights)
        (folder / "t").mkdir()
        found += telemetry(folder / "t", options.calls)
        if options.mem0:
            found += mem0(folder / "mem0", embedder, 500)
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
