"""Embeddings from a server with Ollama's wire format: prefixes, batches, cache, and what goes wrong."""

from __future__ import annotations

import numpy as np
import pytest

from sitoolkit.errors import ModelError, ModelUnavailable
from sitoolkit.models.embedders import open_embedder
from sitoolkit.models.ollama_embedder import OllamaEmbedder
from sitoolkit.settings import ModelSettings, Settings
from tests.ollama_server import fake_ollama


def test_texts_come_back_as_unit_rows_in_their_order_and_equal_ones_are_asked_once():
    with fake_ollama() as server:
        rows = OllamaEmbedder("embed:1b", host=server.url).embed(["b", "a", "b", ""])
        asked = [text for request in server.asked("/api/embed") for text in request["input"]]
    assert rows.shape == (4, 8)
    np.testing.assert_allclose(np.linalg.norm(rows[:3], axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(rows[0], rows[2])
    assert not rows[3].any()
    assert sorted(asked) == ["a", "b"]


def test_many_texts_travel_in_batches():
    with fake_ollama() as server:
        OllamaEmbedder("embed:1b", host=server.url).embed([f"text {n}" for n in range(200)])
        sizes = [len(request["input"]) for request in server.asked("/api/embed")]
    assert sizes == [64, 64, 64, 8]


def test_each_model_gets_the_prefix_that_it_was_trained_with():
    with fake_ollama(models=("nomic-embed-text:latest",)) as server:
        embedder = OllamaEmbedder("nomic-embed-text:latest", host=server.url)
        embedder.embed(["a"], kind="query")
        embedder.embed(["a"])
        assert [request["input"] for request in server.asked("/api/embed")] == [
            ["search_query: a"],
            ["search_document: a"],
        ]


def test_vectors_are_kept_on_disk_by_model_and_text(tmp_path):
    cache = tmp_path / "cache" / "vectors.sqlite"
    with fake_ollama() as server:
        first = OllamaEmbedder("embed:1b", host=server.url, cache=cache).embed(["a", "b"])
        again = OllamaEmbedder("embed:1b", host=server.url, cache=cache).embed(["b", "a", "c"])
        asked = [request["input"] for request in server.asked("/api/embed")]
    np.testing.assert_array_equal(first, again[[1, 0]])
    assert asked == [["a", "b"], ["c"]]


def test_the_dimension_is_asked_once():
    with fake_ollama(dim=16) as server:
        embedder = OllamaEmbedder("embed:1b", host=server.url)
        assert (embedder.dim, embedder.dim) == (16, 16)
        assert len(server.asked("/api/embed")) == 1


def test_another_length_in_the_middle_is_an_error_and_no_vector_is_invented():
    with fake_ollama() as server:
        embedder = OllamaEmbedder("embed:1b", host=server.url)
        embedder.embed(["a"])
        server.dim = 9
        with pytest.raises(ModelError, match=r"different lengths: \[8, 9\]"):
            embedder.embed(["b"])


@pytest.mark.parametrize("fault", ["status_500", "disconnect"])
def test_a_server_that_fails_is_unavailable(fault):
    with fake_ollama(fault=fault) as server, pytest.raises(ModelUnavailable):
        OllamaEmbedder("embed:1b", host=server.url).embed(["a"])


def test_an_absent_model_names_the_pull_command():
    with fake_ollama() as server:
        settings = Settings(models=ModelSettings(embedder="ollama", embed_model="absent", host=server.url))
        with pytest.raises(ModelUnavailable, match="ollama pull absent"):
            open_embedder("ollama", settings)


def test_an_absent_server_is_unavailable_with_exit_code_4():
    settings = Settings(models=ModelSettings(host="http://127.0.0.1:9"))
    with pytest.raises(ModelUnavailable) as caught:
        open_embedder("ollama", settings)
    assert caught.value.exit_code == 4
