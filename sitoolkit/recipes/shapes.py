"""The recipe for wrong arguments: calls that worked and calls that were refused come in, a check of shapes goes out."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping
from typing import Any

from sitoolkit.recipes.cases import MOST_CASES, Made, Refusal, by_content, case, fails, works
from sitoolkit.recipes.evidence import Evidence
from sitoolkit.schema import mismatch

__all__ = ["arguments"]


_JSON_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "object"), (type(None), "null"),
)  # fmt: skip


def _json_type(value: object) -> str:
    return next((name for kind, name in _JSON_TYPES if isinstance(value, kind)), "string")


def arguments(evidence: Evidence) -> Made | Refusal:
    good = [call.args for call in by_content(evidence.successes) if isinstance(call.args, dict)]
    if len(good) < 3:
        return Refusal(
            reason=f"{len(good)} different successful calls of {evidence.tool} are too few to learn its arguments from"
        )
    names = sorted({name for args in good for name in args})
    kinds = {name: sorted({_json_type(args[name]) for args in good if name in args}) for name in names}
    required = [name for name in names if all(name in args for args in good)]
    choices = {name: found for name in names if (found := _closed(name, good))}
    examples = {name: next(args[name] for args in good if name in args) for name in names}
    accepts = {
        "type": "object",
        "required": required,
        "properties": {
            name: {"type": kinds[name], **({"enum": choices[name]} if name in choices else {})}
            for name in names
        },
        "additionalProperties": False,
    }
    explained = [
        failure
        for failure in evidence.failures
        if isinstance(failure.call.args, dict) and mismatch(failure.call.args, accepts) is not None
    ]
    if len(explained) * 2 <= len(evidence.failures):
        return Refusal(
            reason=f"{len(evidence.failures) - len(explained)} of {len(evidence.failures)} failed calls had arguments of the same shape as calls that worked"
        )
    parameters = {
        "tool": evidence.tool,
        "kinds": kinds,
        "required": required,
        "choices": choices,
        "examples": examples,
    }
    cases = []
    for number, failure in enumerate(explained[:MOST_CASES], 1):
        answers = [
            {"args": call.args, "steps": [works(call)]} for call in by_content(evidence.successes)[:20]
        ]
        world = {
            "limit_s": 3600.0,
            "tools": {
                evidence.tool: {
                    "answers": answers,
                    "accepts": accepts,
                    "rejects": fails(failure.call, "ARGS"),
                }
            },
        }
        lacking = [
            name
            for name in required
            if name not in failure.call.args and not _near_given(name, failure.call.args, names)
        ]
        cases.append(
            case(
                "failure",
                number,
                failure.call,
                world,
                status=["done", "explained"],
                calls=1,
                mentions=lacking,
            )
        )
    return "validate", "checked", parameters, cases


def _near_given(name: str, given: Mapping[str, Any], known: list[str]) -> bool:
    """Whether an unknown argument that was given can only be a misspelling of `name`."""
    return any(difflib.get_close_matches(other, [name], 1, 0.75) for other in given if other not in known)


def _closed(name: str, good: list[dict[str, Any]]) -> list[str]:
    """The values of an argument that takes a few texts again and again; empty where it does not."""
    values = Counter(args[name] for args in good if isinstance(args.get(name), str))
    if len(good) < 5 or not values or len(values) > 6 or min(values.values()) < 2 or sum(values.values()) < 5:
        return []
    return sorted(values)
