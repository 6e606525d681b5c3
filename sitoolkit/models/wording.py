"""The one seam through which computed claims become sentences: claims come in, one text for each goes out, and who wrote it.

With no model, a claim's own text is its wording. With one, each wording cites one claim and is held to it by `grounding`;
what says more than the claim is dropped, counted, and replaced by the claim's own text.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sitoolkit.errors import ModelError, ModelUnavailable
from sitoolkit.models.grounding import MAX_WORDING_CHARS, check_wording
from sitoolkit.models.prompts import Prompt, load_prompt
from sitoolkit.records import Claim
from sitoolkit.tokens import estimate_tokens

if TYPE_CHECKING:
    from sitoolkit.models.chat import ChatModel

__all__ = ["TEMPLATE", "Dropped", "Wording", "word_claims"]

TEMPLATE = "template"
_MOST_A_PROMPT = 12  # facts in one prompt: small models lose their place in longer lists
_log = logging.getLogger("sitoolkit")


@dataclass(frozen=True)
class Dropped:
    """A wording that was not used: for which claim, what it said, and why not."""

    claim_id: str
    text: str
    reason: str


@dataclass(frozen=True)
class Wording:
    """One text for each claim, in their order. `by_model` counts the texts that a model wrote.

    `answered` is false where the model could not be reached: then it is worth asking again another night.
    """

    texts: tuple[str, ...]
    written_by: str = TEMPLATE
    dropped: tuple[Dropped, ...] = field(default=())
    by_model: int = 0
    answered: bool = True

    @property
    def by_template(self) -> int:
        """How many texts are the claims' own."""
        return len(self.texts) - self.by_model


def word_claims(
    chat: ChatModel | None,
    claims: Sequence[Claim],
    task: str,
    *,
    workspace: Path | None = None,
    prompt_tokens: int = 3_000,
    prompts: Mapping[str, str] | None = None,
) -> Wording:
    """Word computed claims for the prompt of an agent.

    >>> word_claims(None, claims, "conventions of register_service").written_by  # doctest: +SKIP
    'template'

    Args:
        chat: the model to word them, or None (or a model named `template`) for the claims' own texts.
        claims: what was computed; their ids tie wordings to them.
        task: what the claims are about, for the model's prompt.
        workspace: folder whose `prompts/word_claims.txt` replaces the shipped prompt.
        prompt_tokens: most tokens of one prompt; more claims take more prompts.
        prompts: prompt texts of plugins, by name.

    Returns:
        As many texts as claims, whatever the model does: one that does not answer, or answers out of the schema, costs
        nothing but its words.
    """
    own = tuple(claim.text for claim in claims)
    if chat is None or chat.name == TEMPLATE or not claims:
        return Wording(own)
    prompt = load_prompt("word_claims", workspace, prompts)
    texts = dict(zip((claim.id for claim in claims), own, strict=True))
    worded: set[str] = set()
    dropped: list[Dropped] = []
    answered = True
    for chunk in _chunks(claims, prompt, task, prompt_tokens):
        try:
            answer = chat.complete(_fill(prompt, chunk, task), _schema(chunk))
        except ModelUnavailable as fault:
            _log.warning("words come from templates: %s", fault)
            dropped += [
                Dropped(claim.id, "", f"model: {fault}") for claim in claims if claim.id not in worded
            ]
            answered = False
            break
        except ModelError as fault:
            dropped += [Dropped(claim.id, "", f"model: {fault}") for claim in chunk]
            continue
        _take(answer, chunk, texts, worded, dropped)
    return Wording(
        tuple(texts[claim.id] for claim in claims),
        chat.name if worded else TEMPLATE,
        tuple(dropped),
        len(worded),
        answered,
    )


def _take(
    answer: Mapping[str, Any],
    chunk: Sequence[Claim],
    texts: dict[str, str],
    worded: set[str],
    dropped: list[Dropped],
) -> None:
    """Keep the wordings that hold; the first that holds for a claim wins."""
    known = {claim.id: claim for claim in chunk}
    for entry in answer["wordings"]:
        claim_id, text = str(entry["id"]), entry["text"].strip() if isinstance(entry["text"], str) else ""
        claim = known.get(claim_id)
        if claim is None:
            dropped.append(Dropped(claim_id, text, "id: no such fact was given"))
            continue
        if claim_id in worded:
            continue
        reason = check_wording(text, claim)
        if reason is not None:
            dropped.append(Dropped(claim_id, text, reason))
            continue
        texts[claim_id] = text
        worded.add(claim_id)
    told = worded | {drop.claim_id for drop in dropped}
    dropped += [
        Dropped(claim.id, "", "missing: the model left it out") for claim in chunk if claim.id not in told
    ]


def _fact(claim: Claim) -> dict[str, Any]:
    return {"id": claim.id, "fact": claim.text, "holds_in": claim.support, "of": claim.of}


def _fill(prompt: Prompt, chunk: Sequence[Claim], task: str) -> str:
    facts = json.dumps([_fact(claim) for claim in chunk], ensure_ascii=False, indent=1)
    return prompt.fill(task=task, facts=facts)


def _chunks(claims: Sequence[Claim], prompt: Prompt, task: str, most_tokens: int) -> list[list[Claim]]:
    """Claims in their order, as many a prompt as fit; a claim that does not fit alone keeps its own text."""
    room = most_tokens - estimate_tokens(_fill(prompt, [], task))
    chunks: list[list[Claim]] = []
    left = 0
    for claim in claims:
        cost = estimate_tokens(json.dumps(_fact(claim), ensure_ascii=False, indent=1)) + 4
        if cost > room or len(claim.text) > MAX_WORDING_CHARS:
            continue
        if not chunks or cost > left or len(chunks[-1]) == _MOST_A_PROMPT:
            chunks.append([])
            left = room
        chunks[-1].append(claim)
        left -= cost
    return chunks


def _room(chunk: Sequence[Claim]) -> int:
    """Characters for one sentence: half as much again as the longest fact takes."""
    return min(MAX_WORDING_CHARS, 40 + max(len(claim.text) for claim in chunk) * 3 // 2)


def _schema(chunk: Sequence[Claim]) -> dict[str, Any]:
    """Flat, with an enum of the ids and bounded strings, so that constrained decoding cannot run away."""
    wording = {
        "type": "object",
        "required": ["id", "text"],
        "additionalProperties": False,
        "properties": {
            "id": {"type": "string", "enum": [claim.id for claim in chunk]},
            "text": {"type": "string", "minLength": 8, "maxLength": _room(chunk)},
        },
    }
    return {
        "type": "object",
        "required": ["wordings"],
        "additionalProperties": False,
        "properties": {"wordings": {"type": "array", "maxItems": len(chunk), "items": wording}},
    }
