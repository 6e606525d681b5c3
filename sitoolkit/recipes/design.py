"""Designs a tool from evidence, with no model: what is recorded of one (tool, failure mode) comes in, a design or a refusal goes out.

Each recipe settles one failure mode, takes its parameters from the evidence, and brings the cases by which it is judged:
the recorded failures that it must turn and the recorded successes that it must not change. A recipe that the evidence
does not support is refused with the reason: not every failure is one that a wrapper settles.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from importlib.resources import files
from typing import Any

from pydantic import Field

from sitoolkit.naming import safe_name
from sitoolkit.recipes.evidence import Evidence, Failure
from sitoolkit.recipes.replay import STUBBED
from sitoolkit.records import Record, ToolInvocation, canonical_json
from sitoolkit.schema import mismatch
from sitoolkit.writes import is_write_call

__all__ = ["OUTPUT_SCHEMA", "RECIPES", "Design", "Refusal", "design_tool"]

MOST_CASES = 5  # of each kind: enough to see differences, few enough to replay in a second
_DEFAULT_LIMIT_S = 30.0  # the seed's example: commands exceeding the 30 s default timeout
_NEAR = 0.6  # difflib's usual cut-off for names that are like each other

OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["status"],
    "properties": {
        "status": {"enum": ["done", "running", "failed", "explained"]},
        "message": {"type": "string"},
        "mode": {"type": "string"},
        "handle": {"type": "string"},
        "attempts": {"type": "integer"},
        "near": {"type": "object"},
    },
}


class Design(Record):
    """Everything that a tool is made of, before it is built."""

    name: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] = Field(default_factory=lambda: dict(OUTPUT_SCHEMA))
    source: str
    author: str
    recipe: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    cases: tuple[dict[str, Any], ...] = ()
    evidence: tuple[str, ...] = ()
    wraps: str = ""
    failure_mode: str = ""


class Refusal(Record):
    """Why no tool is built from this evidence."""

    reason: str


def design_tool(evidence: Evidence) -> Design | Refusal:
    """Design a wrapper for a tool that keeps failing in one mode.

    Args:
        evidence: from `gather`.
    """
    mode = evidence.failure_mode.partition(".")[0]
    recipe = RECIPES.get(mode)
    if recipe is None:
        return Refusal(
            reason=f"no recipe settles {mode}: what went wrong lies inside {evidence.tool}, not in how it is called"
        )
    if not evidence.failures:
        return Refusal(reason="no recorded failure to build from")
    made = recipe(evidence)
    if isinstance(made, Refusal):
        return made
    recipe_name, verb, parameters, failure_cases = made
    cases = [*failure_cases[:MOST_CASES], *success_cases(evidence, parameters)]
    parameters = {
        key: value for key, value in parameters.items() if key != "listed"
    }  # of the recording, not of the tool
    text = files("sitoolkit.recipes").joinpath("texts", f"{recipe_name}.py.txt").read_text(encoding="utf-8")
    return Design(
        name=safe_name(f"{evidence.tool}_{verb}"),
        description=_DESCRIPTIONS[recipe_name].format(tool=evidence.tool),
        input_schema=input_schema(recipe_name),
        source=text.replace("__PARAMETERS__", _literal(parameters)),
        author=f"recipe:{recipe_name}",
        recipe=recipe_name,
        parameters=parameters,
        cases=tuple(cases),
        evidence=tuple(failure.call.id for failure in evidence.failures[:MOST_CASES]),
        wraps=evidence.tool,
        failure_mode=mode,
    )


_DESCRIPTIONS = {
    "background": "Run {tool} in the background: starts it, waits a little, returns the result or a handle to ask again with.",
    "retry": "Call {tool} and repeat it with longer waits when the network or a rate limit fails it.",
    "validate": "Check and mend the arguments of {tool} before calling it; says what is missing.",
    "near_names": "Call {tool}; when what it names is not there, offer the names that are like it.",
    "reread": "Call {tool}; on a conflict read the current state and try once more.",
    "explain": "Call {tool} once; when permission is missing, say what allowed calls had. Never tries another way.",
}

_Made = tuple[str, str, dict[str, Any], list[dict[str, Any]]]


def _literal(parameters: Mapping[str, Any]) -> str:
    """The parameters as a Python literal: JSON differs from it in three words alone, so it goes through `repr`."""
    return repr(json.loads(json.dumps(parameters)))


def input_schema(recipe: str = "") -> dict[str, Any]:
    properties: dict[str, Any] = {
        "arguments": {"type": "object", "description": "the wrapped tool's own arguments"}
    }
    if recipe == "background":
        properties["handle"] = {"type": "string", "description": "of a call that is still running"}
        properties["wait_s"] = {
            "type": "number",
            "minimum": 0,
            "description": "seconds to wait for the result",
        }
    return {
        "type": "object",
        "required": ["arguments"],
        "properties": properties,
        "additionalProperties": False,
    }


# ---------------------------------------------------------------- recorded worlds


def _fail(call: ToolInvocation, mode: str) -> dict[str, Any]:
    return {"fail": {"message": (call.error or "")[:500], "mode": mode, "result": call.result}}


def _works(call: ToolInvocation) -> dict[str, Any]:
    step: dict[str, Any] = {"result": call.result}
    if call.duration_ms:
        step["duration_s"] = round(call.duration_ms / 1000, 3)
    return step


def _case(
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
    steps = [_fail(call, (call.failure_mode or "RUNTIME").partition(".")[0])]
    answers = [{"args": call.args, "steps": steps}]
    if recovery is not None and canonical_json(recovery.args) == canonical_json(call.args):
        steps.append(_works(recovery))
    elif recovery is not None:
        answers.append({"args": recovery.args, "steps": [_works(recovery)]})
    world = {"limit_s": 3600.0, "tools": {call.tool: {"answers": answers, "otherwise": steps[0]}}}
    return _case(
        "failure", number, call, world, status=["done", "explained"], calls=6, called=recovery is not None
    )


def _by_content(calls: Iterable[ToolInvocation]) -> list[ToolInvocation]:
    """One call for each arguments, in order of first appearance."""
    return list({canonical_json(call.args): call for call in reversed(list(calls))}.values())[::-1]


def success_cases(evidence: Evidence, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    failed = {canonical_json(failure.call.args) for failure in evidence.failures}
    calls = [
        call
        for call in _by_content(evidence.successes)
        if canonical_json(call.args) not in failed and isinstance(call.args, dict)
    ]
    cases = []
    for number, call in enumerate(calls[:MOST_CASES], 1):
        tools: dict[str, Any] = {call.tool: {"answers": [{"args": call.args, "steps": [_works(call)]}]}}
        if parameters.get("lister"):
            tools[parameters["lister"]] = {"otherwise": {"result": parameters.get("listed", [])}}
        limit = max(_DEFAULT_LIMIT_S, (call.duration_ms or 0) / 1000 + 1)
        world = {"limit_s": limit, "tools": tools}
        cases.append(
            _case(
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


# ---------------------------------------------------------------- recipes


def _timeout(evidence: Evidence) -> _Made | Refusal:
    took = sorted((call.duration_ms or 0) / 1000 for call in evidence.successes if call.duration_ms)
    over = [
        (failure.call.duration_ms or 0) / 1000 for failure in evidence.failures if failure.call.duration_ms
    ]
    limit = min(over) if over else _DEFAULT_LIMIT_S
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
        asks = math.ceil(duration / wait) + 1
        cases.append(
            _case(
                "failure",
                number,
                failure.call,
                world,
                status=["done"],
                result=result,
                called=True,
                calls=1,
                asks_again=asks,
            )
        )
    parameters = {"tool": evidence.tool, "wait_s": wait, "most_wait_s": most_wait}
    return "background", "in_background", parameters, cases


_RETRY_AFTER = re.compile(
    r"retry[- _]?after\D{0,12}(\d+(?:\.\d+)?)|try again in (\d+(?:\.\d+)?) ?s", re.IGNORECASE
)


def _network(evidence: Evidence) -> _Made | Refusal:
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
        steps = [_fail(failure.call, "NETWORK")] * times + [_works(failure.recovery)]
        world = {
            "limit_s": 3600.0,
            "tools": {evidence.tool: {"answers": [{"args": failure.call.args, "steps": steps}]}},
        }
        cases.append(
            _case(
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


_JSON_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "object"), (type(None), "null"),
)  # fmt: skip


def _json_type(value: object) -> str:
    return next((name for kind, name in _JSON_TYPES if isinstance(value, kind)), "string")


def _arguments(evidence: Evidence) -> _Made | Refusal:
    good = [call.args for call in _by_content(evidence.successes) if isinstance(call.args, dict)]
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
            {"args": call.args, "steps": [_works(call)]} for call in _by_content(evidence.successes)[:20]
        ]
        world = {
            "limit_s": 3600.0,
            "tools": {
                evidence.tool: {
                    "answers": answers,
                    "accepts": accepts,
                    "rejects": _fail(failure.call, "ARGS"),
                }
            },
        }
        lacking = [
            name
            for name in required
            if name not in failure.call.args and not _near_given(name, failure.call.args, names)
        ]
        cases.append(
            _case(
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


def _not_found(evidence: Evidence) -> _Made | Refusal:
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
                "answers": [{"args": failure.call.args, "steps": [_fail(failure.call, "NOTFOUND")]}]
            }
        }
        if lister:
            tools[lister] = {"otherwise": {"result": listed}}
        world = {"limit_s": 3600.0, "tools": tools}
        cases.append(
            _case("failure", number, failure.call, world, status=["explained"], calls=1, mentions=[meant])
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


def _conflict(evidence: Evidence) -> _Made | Refusal:
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
            {"args": failure.call.args, "steps": [_fail(failure.call, "CONFLICT")]},
            {"args": failure.recovery.args, "steps": [_works(failure.recovery)]},
        ]
        if canonical_json(failure.call.args) == canonical_json(failure.recovery.args):
            answers = [
                {
                    "args": failure.call.args,
                    "steps": [_fail(failure.call, "CONFLICT"), _works(failure.recovery)],
                }
            ]
        tools = {
            evidence.tool: {"answers": answers, "otherwise": _fail(failure.call, "CONFLICT")},
            reader: {
                "answers": [{"args": read.args, "steps": [_works(read)]}],
                "otherwise": _fail(failure.call, "NOTFOUND"),
            },
        }
        world = {"limit_s": 3600.0, "tools": tools}
        cases.append(
            _case(
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


def _permission(evidence: Evidence) -> _Made | Refusal:
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
        _case(
            "failure", number, failure.call,
            {"limit_s": 3600.0, "tools": {evidence.tool: {"otherwise": _fail(failure.call, "PERM")}}},
            status=["explained"], called=True, calls=1, mentions=["permission"],
        )
        for number, failure in enumerate(evidence.failures[:MOST_CASES], 1)
    ]  # fmt: skip
    return "explain", "or_explain", {"tool": evidence.tool, "explanation": explanation}, cases


RECIPES: dict[str, Callable[[Evidence], _Made | Refusal]] = {
    "TIMEOUT": _timeout,
    "NETWORK": _network,
    "ARGS": _arguments,
    "NOTFOUND": _not_found,
    "CONFLICT": _conflict,
    "PERM": _permission,
}
