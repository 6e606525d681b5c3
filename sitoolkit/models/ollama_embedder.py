"""Embeddings by an Ollama server: texts come in, unit vectors go out, each text asked for once per model.

Texts travel in batches with the prefix that the model was trained with; answers are kept on disk by (model digest, text
hash), so that a rebuilt table costs no second round of requests.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sitoolkit.errors import ModelError, ModelUnavailable
from sitoolkit.models.chat import OllamaChat
from sitoolkit.models.embedders import Kind, UnitEmbedder

if TYPE_CHECKING:
    import numpy as np
    import ollama
    from numpy.typing import NDArray

__all__ = ["OllamaEmbedder"]

# What each family was trained with, as its authors publish it: (before a query, before a passage).
_PREFIXES = {
    "nomic-embed-text": ("search_query: ", "search_document: "),
    "mxbai-embed-large": ("Represent this sentence for searching relevant passages: ", ""),
    "snowflake-arctic-embed": ("Represent this sentence for searching relevant passages: ", ""),
    "embeddinggemma": ("task: search result | query: ", "title: none | text: "),
    "qwen3-embedding": ("Instruct: Given a task, find the notes that help with it\nQuery: ", ""),
    "multilingual-e5": ("query: ", "passage: "),
}
# (floor, near-duplicate). all-minilm is the embedded model and has its calibration; the rest is not measured: the floor is
# kept low, so that nothing is lost, and the near-duplicate cosine high, so that nothing is merged by mistake.
_COSINES = {"all-minilm": (0.24, 0.755)}
_NOT_MEASURED = (0.30, 0.92)


class OllamaEmbedder(UnitEmbedder):
    """An embedding model behind the Ollama HTTP API.

    >>> OllamaEmbedder("nomic-embed-text").embed(["restart the worker"]).shape  # doctest: +SKIP
    (1, 768)

    Args:
        model: a model that the server knows.
        host: address of the server; empty: `OLLAMA_HOST`, else the client's default.
        load_timeout_s: how long the first request may take, in seconds, since it loads the model.
        answer_timeout_s: how long any later request may take, in seconds.
        cache: an SQLite file for vectors, shared by processes; `None`: none are kept.
    """

    batch = 64

    def __init__(
        self,
        model: str,
        *,
        host: str = "",
        load_timeout_s: float = 120.0,
        answer_timeout_s: float = 60.0,
        keep_alive: str = "5m",
        cache: Path | None = None,
    ) -> None:
        self.model = model
        self.name = f"ollama:{model}"
        self._server = OllamaChat(
            model,
            host=host,
            load_timeout_s=load_timeout_s,
            answer_timeout_s=answer_timeout_s,
            keep_alive=keep_alive,
        )
        self._cache = cache
        self._dim: int | None = None
        self._asked = False
        self._client: ollama.Client | None = (
            None  # open while `embed` runs: setting up TLS costs more than a batch
        )
        family = model.partition(":")[0].rpartition("/")[2]
        self._prefix = next((pair for known, pair in _PREFIXES.items() if family.startswith(known)), ("", ""))
        self.floor_cosine, self.near_duplicate_cosine = next(
            (pair for known, pair in _COSINES.items() if family.startswith(known)), _NOT_MEASURED
        )
        self.latin_only = family.startswith("all-minilm")

    @property
    def sha(self) -> str:
        """The server's digest of the model.

        Raises:
            ModelUnavailable: the server does not answer.
        """
        return self._server.digest

    @property
    def dim(self) -> int:  # type: ignore[override]
        """Length of a vector; asked of the server once.

        Raises:
            ModelUnavailable: the server does not answer, or has no such model.
        """
        if self._dim is None:
            self._dim = len(self._ask(["dimension"])[0])
        return self._dim

    def embed(self, texts: Sequence[str], kind: Kind = "passage") -> NDArray[np.float32]:
        """Vectors of the texts, in their order; one connection serves all batches."""
        timeout = self._server.answer_timeout_s if self._asked else self._server.load_timeout_s
        with self._server.client(timeout) as client:
            self._client = client
            try:
                return super().embed(texts, kind)
            finally:
                self._client = None

    def _rows(self, texts: list[str], kind: Kind) -> NDArray[np.float32]:
        import numpy as np

        prefix = self._prefix[0] if kind == "query" else self._prefix[1]
        sent = [prefix + text for text in texts]
        known = self._kept(sent)
        missing = [text for text in sent if text not in known]
        if missing:
            fresh = dict(zip(missing, self._ask(missing), strict=True))
            self._keep(fresh)
            known.update(fresh)
        return np.array([known[text] for text in sent], dtype=np.float32)

    def _ask(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        import httpx
        import numpy as np
        import ollama

        timeout = self._server.answer_timeout_s if self._asked else self._server.load_timeout_s
        try:
            with nullcontext(self._client) if self._client else self._server.client(timeout) as client:
                answer = client.embed(model=self.model, input=list(texts), keep_alive=self._server.keep_alive)
        except ollama.ResponseError as fault:
            if fault.status_code == 404:
                raise ModelUnavailable(
                    f"Ollama has no model {self.model!r}; run: ollama pull {self.model}"
                ) from fault
            raise ModelUnavailable(
                f"Ollama could not embed: {str(fault)[:160]}; `sitoolkit doctor` says more"
            ) from fault
        except httpx.TimeoutException as fault:
            raise ModelUnavailable(f"Ollama did not embed {len(texts)} texts within {timeout:g} s") from fault
        except (ConnectionError, httpx.HTTPError, ValueError) as fault:
            raise ModelUnavailable(
                f"Ollama does not answer ({type(fault).__name__}); `sitoolkit doctor` says more"
            ) from fault
        self._asked = True
        rows = [np.asarray(row, dtype=np.float32) for row in answer.embeddings]
        if len(rows) != len(texts):
            raise ModelError(f"{self.model} gave {len(rows)} vectors for {len(texts)} texts")
        sizes = {len(row) for row in rows} | ({self._dim} if self._dim else set())
        if len(sizes) != 1:
            raise ModelError(f"{self.model} gave vectors of different lengths: {sorted(sizes)}")
        self._dim = len(rows[0])
        return rows

    # ------------------------------------------------------------ cache

    @contextmanager
    def _open_cache(self) -> Iterator[Any]:
        assert self._cache is not None
        self._cache.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self._cache, timeout=10)) as base, base:
            base.execute("PRAGMA journal_mode=WAL")
            base.execute(
                "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
            )
            yield base

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(f"{self.model}\0{self.sha}\0{text}".encode()).digest()

    def _kept(self, texts: Sequence[str]) -> dict[str, Any]:
        if self._cache is None or not self._cache.is_file():
            return {}
        import numpy as np

        keys = {self._key(text): text for text in texts}
        marks = ",".join("?" * len(keys))
        with self._open_cache() as base:
            rows = base.execute(
                f"SELECT key, vector FROM vectors WHERE key IN ({marks})", list(keys)
            ).fetchall()
        return {keys[bytes(key)]: np.frombuffer(vector, dtype="<f4") for key, vector in rows}

    def _keep(self, fresh: dict[str, Any]) -> None:
        if self._cache is None:
            return
        rows = [(self._key(text), vector.astype("<f4").tobytes()) for text, vector in fresh.items()]
        with self._open_cache() as base:
            base.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
