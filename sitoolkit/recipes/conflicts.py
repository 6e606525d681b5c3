"""The recipe for conflicts: what was read between a refused and a good write comes in, a second try with fresh state goes out."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from sitoolkit.recipes.cases import MOST_CASES, Made, Refusal, case, fails, works
from sitoolkit.recipes.evidence import Evidence, Failure
from sitoolkit.records import ToolInvocation, canonical_json
from sitoolkit.writes import is_write_call

__all__ = ["conflict"]


def conflict(evidence: Evidence) -> Made | Refusal:
    usable = [failure for failure in evidence.failures if failure.recovery is not None and failure.between]
    readers = Counter(call.tool for failure in usable for call in failure.between if not is_write_call(call))
    if not readers:
        return Refusal(reason="no session was seen to read the state again and then succeed")
    reader = min(readers, key=lambda tool: (-readers[tool], tool))
    plans: Counter[tuple[str, str]] = Counter()
    kept: list[tuple[Failure, ToolInvocation]] = []
    for failure in usable:
        plan = _refresh_plan(failure, reader)
        if plan is not None:
            plans[canonical_json(plan[0]), canonical_json(plan[1])] += 1
            kept.append((failure, plan[2]))
    if not plans:
        return Refusal(reason=f"what {reader} returned does not explain what the second try changed")
    arguments, refresh = max(plans, key=lambda plan: (plans[plan], plan))
    parameters = {
        "tool": evidence.tool,
        "reader": reader,
        "reader_arguments": json.loads(arguments),
        "refresh": json.loads(refresh),
    }
    cases = []
    for number, (failure, read) in enumerate(kept[:MOST_CASES], 1):
        assert failure.recovery is not None
        answers = [
            {"args": failure.call.args, "steps": [fails(failure.call, "CONFLICT")]},
            {"args": failure.recovery.args, "steps": [works(failure.recovery)]},
        ]
        if canonical_json(failure.call.args) == canonical_json(failure.recovery.args):
            answers = [
                {
                    "args": failure.call.args,
                    "steps": [fails(failure.call, "CONFLICT"), works(failure.recovery)],
                }
            ]
        tools = {
            evidence.tool: {"answers": answers, "otherwise": fails(failure.call, "CONFLICT")},
            reader: {
                "answers": [{"args": read.args, "steps": [works(read)]}],
                "otherwise": fails(failure.call, "NOTFOUND"),
            },
        }
        world = {"limit_s": 3600.0, "tools": tools}
        cases.append(
            case(
                "failure",
                number,
                failure.call,
                world,
                status=["done"],
                result=failure.recovery.result,
                called=True,
                calls=2,
            )
        )
    return "reread", "with_reread", parameters, cases


def _refresh_plan(
    failure: Failure, reader: str
) -> tuple[dict[str, str], dict[str, str], ToolInvocation] | None:
    """How the reader's arguments come from the call's, and which of its results the second try took over."""
    before, after = failure.call.args, failure.recovery.args if failure.recovery else None
    read = next((call for call in reversed(failure.between) if call.tool == reader), None)
    if (
        read is None
        or not isinstance(before, dict)
        or not isinstance(after, dict)
        or not isinstance(read.args, dict)
    ):
        return None
    arguments: dict[str, str] = {}
    for theirs, value in read.args.items():
        ours = next((name for name in sorted(before) if before[name] == value), None)
        if ours is None:
            return None
        arguments[theirs] = ours
    refresh: dict[str, str] = {}
    found = _pairs(read.result)
    for name in sorted(after):
        if before.get(name) != after[name]:
            key = next(
                (key for key, value in found if value == after[name] and not isinstance(value, bool)), None
            )
            if key is None:
                return None
            refresh[name] = key
    return arguments, refresh, read


def _pairs(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return []
    if isinstance(value, dict):
        return [(key, item) for key, item in value.items()] + [
            pair for item in value.values() if isinstance(item, dict | list) for pair in _pairs(item)
        ]
    if isinstance(value, list):
        return [pair for item in value for pair in _pairs(item)]
    return []
