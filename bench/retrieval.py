"""How well the right memory is found: each installed embedder, its two legs and their fusion, on sets of queries with one right answer.

Run: `python bench/retrieval.py [FILE]`. FILE is JSON: a set's name to `documents`, `queries` and `gold` (the right document's
place for each query). Prints recall at 1 and 5 and the mean reciprocal rank, beside plain reciprocal rank fusion.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sitoolkit import ranking
from sitoolkit.lexical import build_index, parse_query
from sitoolkit.models.embedders import Embedder, MiniLMEmbedder, WordLlamaEmbedder, has_vector, open_embedder

DEFAULT = Path(__file__).resolve().parents[1].parent / "shared" / "retrieval" / "paraphrase.json"
Metrics = tuple[float, float, float]


def installed() -> list[str]:
    """Names of the embedders that are here, best first."""
    there = {
        "minilm": MiniLMEmbedder.installed(),
        "wordllama": WordLlamaEmbedder.installed(),
        "hashing": True,
    }
    return [name for name, found in there.items() if found]


def metrics(scores: NDArray[np.float32], gold: list[int]) -> Metrics:
    """Recall at 1, at 5 and mean reciprocal rank; a tie counts against the right answer."""
    right = scores[np.arange(len(gold)), gold][:, None]
    ranks = (scores >= right).sum(axis=1)
    return float((ranks == 1).mean()), float((ranks <= 5).mean()), float((1 / ranks).mean())


_EMBEDDED: dict[tuple[str, str], NDArray[np.float32]] = {}


def embed_once(embedder: Embedder, texts: list[str]) -> NDArray[np.float32]:
    """Vectors of the texts; the sets share most of their documents, which are embedded once."""
    new = [text for text in dict.fromkeys(texts) if (embedder.name, text) not in _EMBEDDED]
    for text, row in zip(new, embedder.embed(new), strict=True):
        _EMBEDDED[embedder.name, text] = row
    return np.stack([_EMBEDDED[embedder.name, text] for text in texts])


def legs(name: str, task: dict[str, Any]) -> dict[str, Metrics]:
    """Metrics of the vector leg, the full-text leg, their fusion as recall does it, and plain rank fusion."""
    embedder = open_embedder(name)
    documents, queries, gold = task["documents"], task["queries"], task["gold"]
    vectors, asked = embed_once(embedder, documents), embedder.embed(queries, kind="query")
    cosine = asked @ vectors.T
    index = build_index(pl.Series(documents))
    covered = [index.coverage(parse_query(query)) for query in queries]
    words = np.stack([pair[0] for pair in covered])
    fused = np.stack(
        [
            ranking.fuse(
                cosine[place],
                has_vector(vectors),
                covered[place][0],
                covered[place][1],
                lexical_weight=embedder.lexical_weight,
                trust=ranking.latin_share(queries[place]) if embedder.latin_only else 1.0,
            ).total
            for place in range(len(queries))
        ]
    )
    ranks = [(-leg).argsort(axis=1, kind="stable").argsort(axis=1) for leg in (cosine, words)]
    plain = 1 / (61 + ranks[0]) + 1 / (61 + ranks[1])
    return {
        "vector": metrics(cosine, gold),
        "full text": metrics(words, gold),
        "fusion": metrics(fused, gold),
        "plain RRF": metrics(plain, gold),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "file", nargs="?", type=Path, default=Path(os.environ.get("SITOOLKIT_RETRIEVAL") or DEFAULT)
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.file.is_file():
        print(f"no query sets at {options.file}; give a file", file=sys.stderr)
        return 2
    sets = json.loads(options.file.read_text(encoding="utf-8"))
    found = {name: {task: legs(name, sets[task]) for task in sets} for name in installed()}
    if options.json:
        print(json.dumps(found))
        return 0
    print("| embedder | set | leg | R@1 | R@5 | MRR |\n|---|---|---|---|---|---|")
    for name, tasks in found.items():
        for task, rows in tasks.items():
            for leg, (first, fifth, mean) in rows.items():
                print(f"| {name} | {task} | {leg} | {first:.3f} | {fifth:.3f} | {mean:.3f} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
