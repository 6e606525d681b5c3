"""What a recipe hands over, and the recorded worlds in it: a recorded call comes in, a case for the replay goes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sitoolkit.recipes.evidence import Evidence, Failure
from sitoolkit.records import Record, ToolInvocation, canonical_json

__all__ = [
    "DEFAULT_LIMIT_S",
    "MOST_CASES",
    "Made",
    "Refusal",
    "by_content",
    "case",
    "fails",
    "failure_case",
    "success_cases",
    "works",
]

MOST_CASES = 5  # of each kind: enough to see differences, few enough to replay in a second
DEFAULT_LIMIT_S = 30.0  # the seed's example: commands exceeding the 30 s default timeout

# What a recipe returns: its name, the verb in the tool's name, its parameters, and the cases of recorded failures.
Made = tuple[str, str, dict[str, Any], list[dict[str, Any]]]


class Refusal(Record):
    """Why no tool is built from this evidence."""

    reason: str


def fails(call: ToolInvocation, mode: str) -> dict[str, Any]:
    return {"fail": {"message": (call.error or "")[:500], "mode": mode, "result": call.result}}


def works(call: ToolInvocation) -> dict[str, Any]:
    step: dict[str, Any] = {"result": call.result}
    if call.duration_ms:
        step["duration_s"] = round(call.duration_ms / 1000, 3)
    return step


def case(
    kind: str, number: int, call: ToolInvocation, world: dict[str, Any], **expect: Any
) -> dict[str, Any]:
    return {
        "name": f"{kind} {number}",
        "kind": kind,
        "tool": call.tool,
        "arguments": call.args,
        "source": call.id,
        "world": world,
        "expect": expect,
    }


def failure_case(number: int, failure: Failure) -> dict[str, Any]:
    """A recorded failure for code of any author: it fails as recorded, and works where a repeat was seen to work."""
    call, recovery = failure.call, failure.recovery
    steps = [fails(call, (call.failure_mode or "RUNTIME").partition(".")[0])]
    answers = [{"args": call.args, "steps": steps}]
    if recovery is not None and canonical_json(recovery.args) == canonical_json(call.args):
        steps.append(works(recovery))
    elif recovery is not None:
        answers.append({"args": recovery.args, "steps": [works(recovery)]})
    world = {"limit_s": 3600.0, "tools": {call.tool: {"answers": answers, "otherwise": steps[0]}}}
    return case(
        "failure", number, call, world, status=["done", "explained"], calls=6, called=recovery is not None
    )


def by_content(calls: Iterable[ToolInvocation]) -> list[ToolInvocation]:
    """One call for each arguments, in order of first appearance."""
    return list({canonical_json(call.args): call for call in reversed(list(calls))}.values())[::-1]


def success_cases(evidence: Evidence, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    failed = {canonical_json(failure.call.args) for failure in evidence.failures}
    calls = [
        call
        for call in by_content(evidence.successes)
        if canonical_json(call.args) not in failed and isinstance(call.args, dict)
    ]
    cases = []
    for number, call in enumerate(calls[:MOST_CASES], 1):
        tools: dict[str, Any] = {call.tool: {"answers": [{"args": call.args, "steps": [works(call)]}]}}
        if parameters.get("lister"):
            tools[parameters["lister"]] = {"otherwise": {"result": parameters.get("listed", [])}}
        limit = max(DEFAULT_LIMIT_S, (call.duration_ms or 0) / 1000 + 1)
        world = {"limit_s": limit, "tools": tools}
        cases.append(
            case(
                "success",
                number,
                call,
                world,
                status=["done"],
                result=call.result,
                called=True,
                calls=1,
                asks_again=20,
            )
        )
    return cases
