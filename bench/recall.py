"""Recall's latency beside a bare LanceDB vector query on the same table, interleaved, at 1k, 10k, 100k and more rows.

Run: `python bench/recall.py [--rows 1000 10000 100000] [--queries 60] [--embedder wordllama]`. A recall is the public call with
scope filter, slots, collapse of near-duplicates, explanation and the journal's fsync; the bare query is handed its vector and
asks for ten ids in the same scopes. Each query is new, so no cache of query vectors helps. Cold is the first recall after the store
was opened in this process.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sitoolkit.models.embedders import open_embedder
from sitoolkit.recall import explain, recall
from sitoolkit.records import Category, Origin, Reader, digest
from sitoolkit.stores.memory_schema import arrow_schema, key_of, scope_key
from sitoolkit.workspace import Workspace

SEED = 7
NOW = datetime(2026, 6, 1, tzinfo=UTC)
EMBEDDED_ROWS = (
    100_000  # further rows get vectors near those of others: embedding a million texts is not what is timed
)
VERBS = [
    "register",
    "deploy",
    "restart",
    "rotate",
    "snapshot",
    "validate",
    "ingest",
    "approve",
    "refund",
    "export",
    "index",
    "drain",
    "scale",
    "notify",
    "archive",
]
THINGS = [
    "service",
    "release",
    "worker",
    "credential",
    "volume",
    "schema",
    "batch",
    "change",
    "order",
    "report",
    "document",
    "endpoint",
    "cluster",
    "channel",
    "bucket",
]
RULES = [
    "needs a dump first, because dropped columns are lost",
    "fails with HTTP 429 above 100 calls a minute; honour Retry-After",
    "takes token_env, never an inline token",
    "is idempotent when the key is given",
    "must run in the maintenance window of the site",
    "returns UTC; convert before rendering",
    "wants at least two reviewers in production",
    "times out after 30 seconds on the old gateway",
]
ORIGINS = {
    Category.USAGE_GUIDE: Origin.DIRECTIVE,
    Category.REFLECTION: Origin.REFLECTED,
    Category.LEARNED_FACT: Origin.INFERRED,
    Category.EXPERT_KNOWLEDGE: Origin.DISTILLED,
    Category.OPERATIONAL_EVENT: Origin.OBSERVED,
}


def texts(count: int, rng: random.Random) -> list[str]:
    """Memory texts of an operations agent, all different."""
    return [
        f"{rng.choice(VERBS)}_{rng.choice(THINGS)} on {rng.choice(THINGS)}-{place:06d} ({rng.choice(VERBS)} {rng.choice(THINGS)}) "
        f"{rng.choice(RULES)}"
        for place in range(count)
    ]


def fill(ws: Workspace, count: int) -> None:
    """Put rows into the table of a new workspace in one commit; scopes, categories and ages as in a busy workspace."""
    rng = random.Random(SEED)
    wording = texts(count, rng)
    categories = rng.choices(list(ORIGINS), weights=[1, 6, 8, 5, 80], k=count)
    scopes = rng.choices(
        ["global", "agent:ops", "project:web", *(f"agent:a{n}" for n in range(40))],
        [20, 15, 10, *[1.4] * 40],
        k=count,
    )
    seen = [NOW - timedelta(days=rng.random() * 300) for _ in range(count)]
    vectors = _vectors(ws, wording)
    dim = vectors.shape[1]
    hashes = [digest(text) for text in wording]
    columns: dict[str, Any] = {
        "id": [f"mem_{one[:24]}" for one in hashes],
        "category": [str(c) for c in categories],
        "scope": scopes,
        "text": wording,
        "payload": ["{}"] * count,
        "origin": [str(ORIGINS[c]) for c in categories],
        "status": ["active"] * count,
        "content_hash": hashes,
        "tags": [[VERBS[0]]] * count,
        "evidence": [[one] for one in hashes],
        "confidence": [0.8] * count,
        "base_weight": [0.5] * count,
        "seen_count": [1] * count,
        "has_vector": [True] * count,
        "rev": [1] * count,
        "seen": [b""] * count,
        "scope_key": [scope_key(scope) for scope in scopes],
        "slot_key": [key_of("bench", one) for one in hashes],
        "first_seen": seen,
        "last_seen": seen,
        "created_at": seen,
    }
    schema = arrow_schema(dim)
    arrays = []
    for field in schema:
        if field.name == "vector":
            arrays.append(pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), dim))
        elif field.name in columns:
            arrays.append(pa.array(columns[field.name], type=field.type))
        else:
            arrays.append(pa.nulls(count, field.type))
    table = ws.memory.table
    table.point_to(table.make(embedder=ws.embedder.name, dim=dim, sha=ws.embedder.sha))
    table.open().add(pa.Table.from_arrays(arrays, schema=schema))


def _vectors(ws: Workspace, wording: list[str]) -> NDArray[np.float32]:
    base = ws.embedder.embed(wording[:EMBEDDED_ROWS])
    if len(wording) <= len(base):
        return base
    noise = np.random.default_rng(SEED)
    more = [base]
    for start in range(len(base), len(wording), len(base)):
        size = min(len(base), len(wording) - start)
        near = base[:size] + noise.normal(0, 0.03, (size, base.shape[1])).astype(np.float32)
        more.append((near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float32))
    return np.concatenate(more)


def percentiles(seconds: list[float]) -> tuple[float, float]:
    """p50 and p95 in milliseconds."""
    return float(np.quantile(seconds, 0.5) * 1e3), float(np.quantile(seconds, 0.95) * 1e3)


def measure(rows: int, queries: int, embedder: str) -> dict[str, Any]:
    """Latencies of recall, of its query embedding alone, and of the bare query, interleaved."""
    with tempfile.TemporaryDirectory() as folder:
        ws = Workspace(Path(folder), embedder=open_embedder(embedder), clock=lambda: NOW)
        fill(ws, rows)
        ws.embedder.embed(["warm the model up"])
        reader = Reader(agent="ops", project="web")
        rng = random.Random(SEED + 1)
        start = time.perf_counter()
        first = recall(ws, "how do I rotate a credential", reader)
        cold = time.perf_counter() - start
        assert first.items and explain(ws, first.id)["items"]
        table = ws.memory.table.open()
        where = f"status = 'active' and scope_key in ({', '.join(repr(scope_key(s)) for s in sorted(reader.scopes))})"
        ours: list[float] = []
        embedding: list[float] = []
        bare: list[float] = []
        for place in range(queries + 5):
            query = f"{rng.choice(VERBS)} the {rng.choice(THINGS)} {place}: {rng.choice(RULES)}"
            start = time.perf_counter()
            recall(ws, query, reader)
            took = time.perf_counter() - start
            start = time.perf_counter()
            vector = ws.embedder.embed([query], kind="query")[0]
            embedded = time.perf_counter() - start
            start = time.perf_counter()
            table.search(vector).distance_type("cosine").where(where, prefilter=True).select(
                ["id", "_distance"]
            ).limit(10).to_arrow()
            flat = time.perf_counter() - start
            if place >= 5:  # the first ones warm both sides up
                ours.append(took)
                embedding.append(embedded)
                bare.append(flat)
        everyone = Reader(agent="ops", project="web")
        assert recall(ws, "rotate a credential", everyone).tokens <= ws.settings.recall.budget_tokens
    return {
        "rows": rows,
        "embedder": embedder,
        "recall": percentiles(ours),
        "embedding": percentiles(embedding),
        "bare": percentiles(bare),
        "cold_ms": cold * 1e3,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--embedder", nargs="+", default=["wordllama"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = [measure(rows, options.queries, name) for name in options.embedder for rows in options.rows]
    if options.json:
        print(json.dumps(found))
        return 0
    print(
        "| rows | embedder | recall p50 / p95 ms | of it embedding | bare LanceDB p50 / p95 ms | first recall ms |\n|---|---|---|---|---|---|"
    )
    for one in found:
        print(
            f"| {one['rows']} | {one['embedder']} | {one['recall'][0]:.1f} / {one['recall'][1]:.1f} | {one['embedding'][0]:.1f} | "
            f"{one['bare'][0]:.1f} / {one['bare'][1]:.1f} | {one['cold_ms']:.0f} |"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
