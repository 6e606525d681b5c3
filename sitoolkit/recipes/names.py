"""The recipe for what is not there: names that failed and names that worked come in, an offer of near names goes out."""

from __future__ import annotations

import difflib
from typing import Any

from sitoolkit.recipes.cases import MOST_CASES, Made, Refusal, case, fails
from sitoolkit.recipes.evidence import Evidence, Failure
from sitoolkit.records import canonical_json
from sitoolkit.writes import is_write_call

__all__ = ["not_found"]

_NEAR = 0.6  # difflib's usual cut-off for names that are like each other


def not_found(evidence: Evidence) -> Made | Refusal:
    known: dict[str, set[str]] = {}
    for call in evidence.successes:
        if isinstance(call.args, dict):
            for name, value in call.args.items():
                if isinstance(value, str) and 0 < len(value) <= 200:
                    known.setdefault(name, set()).add(value)
    turned: list[tuple[Failure, str]] = []
    for failure in evidence.failures:
        after = failure.recovery.args if failure.recovery else None
        if not isinstance(failure.call.args, dict) or not isinstance(after, dict):
            continue
        for name, value in failure.call.args.items():
            meant = after.get(name)
            if (
                isinstance(value, str)
                and isinstance(meant, str)
                and value != meant
                and _is_near(value, meant, known.get(name, set()))
            ):
                turned.append((failure, meant))
                break
    if not turned:
        return Refusal(reason="no name that worked later is like the one that was not found")
    wanted = {
        name
        for failure, _ in turned
        for name in failure.call.args
        if isinstance(failure.call.args[name], str)
    }
    lister, listed = _lister(evidence, {meant for _, meant in turned})
    parameters = {
        "tool": evidence.tool,
        "known": {name: sorted(known.get(name, set()))[:200] for name in sorted(wanted)},
        "lister": lister,
        "check_first": bool(lister) and any(is_write_call(failure.call) for failure in evidence.failures),
    }
    cases = []
    for number, (failure, meant) in enumerate(turned[:MOST_CASES], 1):
        tools: dict[str, Any] = {
            evidence.tool: {
                "answers": [{"args": failure.call.args, "steps": [fails(failure.call, "NOTFOUND")]}]
            }
        }
        if lister:
            tools[lister] = {"otherwise": {"result": listed}}
        world = {"limit_s": 3600.0, "tools": tools}
        cases.append(
            case("failure", number, failure.call, world, status=["explained"], calls=1, mentions=[meant])
        )
    return "near_names", "or_near", {**parameters, "listed": listed} if lister else parameters, cases


def _is_near(value: str, meant: str, known: set[str]) -> bool:
    pool = sorted({item.lower() for item in known | {meant}})
    return meant.lower() in difflib.get_close_matches(value.lower(), pool, 5, _NEAR)


def _lister(evidence: Evidence, names: set[str]) -> tuple[str, Any]:
    """A read-only tool that is called without arguments and lists the names in question, with its last answer."""
    for call in reversed(evidence.others):
        if not call.args and call.result is not None and not is_write_call(call):
            text = canonical_json(call.result)
            if sum(name in text for name in names) * 2 >= len(names):
                return call.tool, call.result
    return "", None
