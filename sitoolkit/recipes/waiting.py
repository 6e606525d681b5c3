"""Recipes that wait: evidence of time-outs and of a failing network comes in, a background call or a retry goes out."""

from __future__ import annotations

import math
import re
from collections import Counter

from sitoolkit.recipes.cases import DEFAULT_LIMIT_S, MOST_CASES, Made, Refusal, case, fails, works
from sitoolkit.recipes.evidence import Evidence, Failure
from sitoolkit.recipes.replay import STUBBED
from sitoolkit.records import canonical_json
from sitoolkit.writes import is_write_call

__all__ = ["network", "timeout"]


def timeout(evidence: Evidence) -> Made | Refusal:
    took = sorted((call.duration_ms or 0) / 1000 for call in evidence.successes if call.duration_ms)
    over = [
        (failure.call.duration_ms or 0) / 1000 for failure in evidence.failures if failure.call.duration_ms
    ]
    limit = min(over) if over else DEFAULT_LIMIT_S
    if limit <= 0:
        return Refusal(reason="the recorded time-outs have no duration above zero")
    usual = took[min(len(took) - 1, math.ceil(0.99 * len(took)) - 1)] if took else limit / 2
    most_wait = round(limit * 0.9, 3)  # the tool's own answer must come before the agent's limit
    wait = round(min(max(usual, 0.5), most_wait), 3)
    cases = []
    for number, failure in enumerate(evidence.failures[:MOST_CASES], 1):
        recovery = failure.recovery
        slow = (
            (recovery.duration_ms or 0) / 1000
            if recovery and canonical_json(recovery.args) == canonical_json(failure.call.args)
            else 0
        )
        duration = slow if slow > limit else limit * 2
        result = recovery.result if recovery and slow else STUBBED
        world = {
            "limit_s": limit,
            "tools": {
                evidence.tool: {
                    "answers": [
                        {"args": failure.call.args, "steps": [{"result": result, "duration_s": duration}]}
                    ]
                }
            },
        }
        asks = math.ceil(duration / most_wait) + 1
        made = case(
            "failure", number, failure.call, world, status=["done"], result=result, called=True, calls=1, asks_again=asks
        )  # fmt: skip
        cases.append(
            {**made, "extra": {"wait_s": most_wait}}
        )  # the longest wait that the tool allows: fewer replies
    parameters = {"tool": evidence.tool, "wait_s": wait, "most_wait_s": most_wait}
    return "background", "in_background", parameters, cases


_RETRY_AFTER = re.compile(
    r"retry[- _]?after\D{0,12}(\d+(?:\.\d+)?)|try again in (\d+(?:\.\d+)?) ?s", re.IGNORECASE
)


def network(evidence: Evidence) -> Made | Refusal:
    if any(is_write_call(failure.call) for failure in evidence.failures):
        return Refusal(
            reason=f"{evidence.tool} changes state: repeating it could do the work twice, so a person must decide"
        )
    helped = [
        failure
        for failure in evidence.failures
        if failure.recovery is not None
        and canonical_json(failure.recovery.args) == canonical_json(failure.call.args)
    ]
    if not helped:
        return Refusal(
            reason="no failed call was ever seen to work when it was repeated with the same arguments"
        )
    streaks = Counter((failure.call.session_id, canonical_json(failure.call.args)) for failure in helped)
    streak = max(streaks.values())
    asked = [
        float(match[1] or match[2])
        for failure in evidence.failures
        if (match := _RETRY_AFTER.search(f"{failure.call.error or ''} {canonical_json(failure.call.result)}"))
    ]
    parameters = {
        "tool": evidence.tool,
        "mode": "NETWORK",
        "attempts": min(streak + 2, 6),
        "first_wait_s": min(max([1.0, *asked]), 120.0),
        "most_wait_s": 120.0,
    }
    cases = []
    for number, failure in enumerate(_first_of_streaks(helped), 1):
        times = streaks[failure.call.session_id, canonical_json(failure.call.args)]
        assert failure.recovery is not None
        steps = [fails(failure.call, "NETWORK")] * times + [works(failure.recovery)]
        world = {
            "limit_s": 3600.0,
            "tools": {evidence.tool: {"answers": [{"args": failure.call.args, "steps": steps}]}},
        }
        cases.append(
            case(
                "failure",
                number,
                failure.call,
                world,
                status=["done"],
                result=failure.recovery.result,
                called=True,
                calls=times + 1,
            )
        )
    return "retry", "with_retry", parameters, cases


def _first_of_streaks(failures: list[Failure]) -> list[Failure]:
    seen: dict[tuple[str, str], Failure] = {}
    for failure in failures:
        seen.setdefault((failure.call.session_id, canonical_json(failure.call.args)), failure)
    return list(seen.values())
