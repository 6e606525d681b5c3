"""The recipe for missing permission: calls that were allowed and refused come in, an explanation goes out, never a way round."""

from __future__ import annotations

import json

from sitoolkit.recipes.cases import MOST_CASES, Made, Refusal, case, fails
from sitoolkit.recipes.evidence import Evidence
from sitoolkit.records import canonical_json

__all__ = ["permission"]


def permission(evidence: Evidence) -> Made | Refusal:
    allowed = [call.args for call in evidence.successes if isinstance(call.args, dict)]
    refused = [failure.call.args for failure in evidence.failures if isinstance(failure.call.args, dict)]
    told = [
        f"{name} was {json.dumps(values[0])} in all {len(allowed)} calls that were allowed"
        for name in sorted({name for args in allowed for name in args})
        if allowed
        and len(values := list({canonical_json(args.get(name)): args.get(name) for args in allowed}.values()))
        == 1
        and all(args.get(name) != values[0] for args in refused)
    ]
    what = (
        "; ".join(told)
        if told
        else f"{len(allowed)} calls were allowed, and nothing in their arguments tells them apart"
        if allowed
        else "no call was ever allowed"
    )
    explanation = f"{evidence.tool} refuses this for want of permission. {what}. Ask a person for the permission; do not try another way."
    cases = [
        case(
            "failure", number, failure.call,
            {"limit_s": 3600.0, "tools": {evidence.tool: {"otherwise": fails(failure.call, "PERM")}}},
            status=["explained"], called=True, calls=1, mentions=["permission"],
        )
        for number, failure in enumerate(evidence.failures[:MOST_CASES], 1)
    ]  # fmt: skip
    return "explain", "or_explain", {"tool": evidence.tool, "explanation": explanation}, cases
