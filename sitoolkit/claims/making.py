"""How a claim is put together: values come in, a `Claim` with a stable id and quoted words goes out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sitoolkit.claims.contents import Content, evidence_of
from sitoolkit.records import Claim, canonical_json, digest

__all__ = ["code", "listing", "make_claim"]

_QUOTED_CHARS = 120


def make_claim(
    tool: str,
    kind: str,
    text: str,
    holds: Sequence[Content],
    of: int,
    data: dict[str, Any],
    key: object = None,
) -> Claim:
    """A claim with a stable id: the same fact of the same tool keeps its id when counts change."""
    return Claim(
        id="claim_" + digest(tool, kind, data if key is None else key)[:16],
        kind=kind,
        text=text,
        support=len(holds),
        of=of,
        evidence=evidence_of(holds),
        data=data,
    )


def code(value: object) -> str:
    """A value as it is quoted in a sentence: in backticks, cut, on one line."""
    text = value if isinstance(value, str) else canonical_json(value)
    text = " ".join(text.split()).replace("`", "'")
    return f"`{text if len(text) <= _QUOTED_CHARS else text[: _QUOTED_CHARS - 1] + '…'}`"


def listing(items: Iterable[object]) -> str:
    """`a`, `b` and `c`."""
    quoted = [code(item) for item in items]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
