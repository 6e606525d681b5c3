"""Facts computed from groups of calls: successful calls of one tool come in, claims with support and evidence go out.

No model takes part. A claim says what held in the calls it names, in so many of so many distinct argument sets, and is
left out where chance explains it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sitoolkit.claims.arguments import always_given, argument_claims, presence
from sitoolkit.claims.contents import Content, evidence_of, flat, group_contents, occurrence
from sitoolkit.claims.sequences import Timeline, preceded_by, timelines
from sitoolkit.claims.stats import unseen_value_chance, wilson_lower, wilson_upper
from sitoolkit.records import Claim, ToolInvocation

__all__ = [
    "CLAIM_ORDER",
    "Content",
    "Timeline",
    "claims_of",
    "compute_claims",
    "evidence_of",
    "flat",
    "group_contents",
    "occurrence",
    "timelines",
    "unseen_value_chance",
    "wilson_lower",
    "wilson_upper",
]

CLAIM_ORDER = (  # what steers the next call most comes first, and survives `max_claims`
    "always_given", "preceded_by", "template", "constant", "closed_set", "variance", "shape", "range", "usual_value",
    "either_or", "together", "optional",
)  # fmt: skip


def compute_claims(
    calls: Iterable[ToolInvocation],
    lines: Mapping[str, Timeline] | None = None,
    *,
    min_samples: int = 5,
    min_support: float = 0.8,
    max_claims: int = 24,
) -> list[Claim]:
    """What holds of the calls of one tool.

    >>> for claim in compute_claims(calls):  # six `register_service` calls
    ...     print(claim.text, claim.support, claim.of)
    `register_service` is always called with the arguments `name`, `kind`, `endpoint` and `token_env`, and no other. 6 6

    Args:
        calls: calls of a single tool that are to be learned from (as a rule: successful ones), in any order.
        lines: the sessions around them, from `timelines`; without them nothing is said of what came before.
        min_samples: distinct argument sets below which nothing is claimed; 5 is the seed's figure.
        min_support: share of the sets in which a claim with exceptions must hold; such a claim says "in k of n calls".
        max_claims: the most useful so many are kept.

    Returns:
        Claims in the order of `CLAIM_ORDER`; `support` and `of` count distinct argument sets.

    Raises:
        ValueError: the calls are of more than one tool.
    """
    group = list(calls)
    tools = {call.tool for call in group}
    if len(tools) > 1:
        raise ValueError(f"claims are about one tool; these calls are of {', '.join(sorted(tools)[:5])}")
    if not tools:
        return []
    return claims_of(
        tools.pop(),
        group_contents(group),
        lines,
        min_samples=min_samples,
        min_support=min_support,
        max_claims=max_claims,
    )


def claims_of(
    tool: str,
    contents: Sequence[Content],
    lines: Mapping[str, Timeline] | None = None,
    *,
    min_samples: int = 5,
    min_support: float = 0.8,
    max_claims: int = 24,
) -> list[Claim]:
    """The same for calls that `group_contents` has grouped already."""
    if len(contents) < min_samples:
        return []
    claims = always_given(tool, contents)
    claims += argument_claims(tool, contents, min_samples=min_samples, min_support=min_support)
    claims += presence(tool, contents, min_samples)
    if lines is not None:
        claims += preceded_by(tool, contents, lines, min_samples, min_support)
    claims.sort(
        key=lambda claim: CLAIM_ORDER.index(claim.kind)
    )  # stable: by place of the argument within a kind
    return claims[:max_claims]
