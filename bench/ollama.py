"""Embedding by a server: 10,000 texts through `OllamaEmbedder` beside bare batched requests, in one run.

The server is the one of the tests: it speaks Ollama's wire format on loopback and answers at once, so that what is measured
is what the client adds. Pairs alternate; the median ratio is printed. Run: python -m bench.ollama [--texts 10000]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

import ollama

from sitoolkit.models.ollama_embedder import OllamaEmbedder
from tests.ollama_server import fake_ollama

BATCH = 64


def bare(url: str, texts: list[str]) -> float:
    """Seconds for the same texts in bare requests of the same size."""
    begun = time.perf_counter()
    with ollama.Client(host=url) as client:
        for start in range(0, len(texts), BATCH):
            client.embed(model="embed:1b", input=texts[start : start + BATCH])
    return time.perf_counter() - begun


def ours(url: str, texts: list[str]) -> float:
    """Seconds through the embedder: unique texts, order, unit rows, checks."""
    embedder = OllamaEmbedder("embed:1b", host=url)
    begun = time.perf_counter()
    embedder.embed(texts)
    return time.perf_counter() - begun


def main() -> None:
    """Print the two times and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=3)
    wanted = parser.parse_args()
    texts = [
        f"memory number {number}: restart the worker of queue {number % 97}" for number in range(wanted.texts)
    ]
    with fake_ollama(dim=384) as server:
        ours(server.url, texts[:BATCH]), bare(server.url, texts[:BATCH])  # imports
        pairs = [(ours(server.url, texts), bare(server.url, texts)) for _ in range(wanted.pairs)]
    ratio = statistics.median(one / other for one, other in pairs)
    print(f"{wanted.texts:,} texts, 384 numbers each, batches of {BATCH}, load {os.getloadavg()[0]:.1f}")
    print(
        f"sitoolkit {min(one for one, _ in pairs):.2f} s, bare requests {min(other for _, other in pairs):.2f} s, median ratio {ratio:.2f}"
    )


if __name__ == "__main__":
    main()
