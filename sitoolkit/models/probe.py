"""What the doctor asks of models: a workspace comes in; whether a server, its models and their answers are there goes out."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sitoolkit.errors import ModelError
from sitoolkit.models.chat import OllamaChat
from sitoolkit.records import Check

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["check_models"]

_SCHEMA = {
    "type": "object",
    "required": ["answer"],
    "additionalProperties": False,
    "properties": {"answer": {"type": "string", "enum": ["yes", "no"]}},
}


def check_models(ws: Workspace) -> Iterable[Check]:
    """Say whether what the settings ask of Ollama is there, and what to run where it is not.

    With no Ollama in the settings, one line says that none is needed. A server that is only hoped for (`auto`) and does
    not answer is no fault.
    """
    settings = ws.settings.models
    wants_chat, wants_vectors = settings.chat != "template", settings.embedder == "ollama"
    if not (wants_chat or wants_vectors):
        yield Check(
            name="models",
            ok=True,
            detail="words come from templates, vectors from the embedded model; no server is needed",
        )
        return
    chat = OllamaChat(
        settings.chat_model, host=settings.host, load_timeout_s=settings.load_timeout_s, answer_timeout_s=settings.answer_timeout_s,
        keep_alive=settings.keep_alive, thinking=settings.thinking, options=settings.options,
    )  # fmt: skip
    needed = settings.chat == "ollama" or wants_vectors
    try:
        names = chat.models()
    except ModelError as fault:
        yield Check(
            name="ollama", ok=not needed, detail=str(fault),
            fix="start it with `ollama serve`, or set OLLAMA_HOST" if needed else None,
        )  # fmt: skip
        return
    yield Check(name="ollama", ok=True, detail=f"answers, with {len(names)} models")
    wanted = [settings.chat_model] * wants_chat + [settings.embed_model] * wants_vectors
    missing = [
        name
        for name in wanted
        if name.removesuffix(":latest") not in {found.removesuffix(":latest") for found in names}
    ]
    for name in missing:
        yield Check(
            name=f"ollama.{name}",
            ok=not needed,
            detail=f"the server has no model {name!r}",
            fix=f"ollama pull {name}",
        )
    if wants_chat and settings.chat_model not in missing:
        yield from _answers(chat)
    if wants_vectors and settings.embed_model not in missing:
        yield _vectors(ws)


def _answers(chat: OllamaChat) -> Iterable[Check]:
    """Structured output with thinking on, off, and as the model likes; and how fast it was."""
    for thinking, words in ((chat.thinking, "as set"), (False, "off"), (True, "on")):
        if words != "as set" and thinking == chat.thinking:
            continue
        tried = OllamaChat(
            chat.model, host=chat.host, load_timeout_s=chat.load_timeout_s, answer_timeout_s=chat.answer_timeout_s,
            keep_alive=chat.keep_alive, thinking=thinking, options=chat.options,
        )  # fmt: skip
        begun = time.monotonic()
        try:
            tried.complete("Is seven a prime number? Answer yes or no.", _SCHEMA)
        except ModelError as fault:
            # A model that cannot think says so; only what the settings ask for is a fault.
            yield Check(
                name=f"ollama.answers, thinking {words}", ok=words != "as set", detail=str(fault)[:300],
                fix="choose another models.chat_model, or set models.thinking" if words == "as set" else None,
            )  # fmt: skip
            continue
        seconds = max(tried.counts.seconds, 1e-6)
        yield Check(
            name=f"ollama.answers, thinking {words}", ok=True,
            detail=f"fits the schema after {time.monotonic() - begun:.1f} s, {tried.counts.tokens / seconds:.0f} tokens a second",
        )  # fmt: skip


def _vectors(ws: Workspace) -> Check:
    try:
        embedder: Any = ws.embedder
        dim = embedder.dim
    except ModelError as fault:
        return Check(
            name="ollama.embeddings",
            ok=False,
            detail=str(fault),
            fix=f"ollama pull {ws.settings.models.embed_model}",
        )
    return Check(
        name="ollama.embeddings", ok=True, detail=f"{ws.settings.models.embed_model}: {dim} numbers a vector"
    )
