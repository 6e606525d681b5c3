"""The one gate: what a reviewer sees of a proposal, what they decide, and what that decision does."""

from sitoolkit.review.card import Card, DiffPart, EvidenceLine, make_card, reveal_hidden, word_diff
from sitoolkit.review.effects import Step
from sitoolkit.review.gate import (
    OPEN_STATES,
    BulkOutcome,
    Outcome,
    approve,
    approve_many,
    defer,
    escalate,
    list_proposals,
    recover,
    reject,
    reject_many,
    reopen,
    set_risk,
    show,
    undo,
    undo_group,
)

__all__ = [
    "OPEN_STATES",
    "BulkOutcome",
    "Card",
    "DiffPart",
    "EvidenceLine",
    "Outcome",
    "Step",
    "approve",
    "approve_many",
    "defer",
    "escalate",
    "list_proposals",
    "make_card",
    "recover",
    "reject",
    "reject_many",
    "reopen",
    "reveal_hidden",
    "set_risk",
    "show",
    "undo",
    "undo_group",
    "word_diff",
]
