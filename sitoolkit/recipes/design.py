"""Designs a tool from evidence, with no model: what is recorded of one (tool, failure mode) comes in, a design or a refusal goes out.

Each recipe settles one failure mode, takes its parameters from the evidence, and brings the cases by which it is judged:
the recorded failures that it must turn and the recorded successes that it must not change. A recipe that the evidence
does not support is refused with the reason: not every failure is one that a wrapper settles.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

from pydantic import Field

from sitoolkit.naming import safe_name
from sitoolkit.recipes.cases import MOST_CASES, Made, Refusal, success_cases
from sitoolkit.recipes.conflicts import conflict
from sitoolkit.recipes.evidence import Evidence
from sitoolkit.recipes.names import not_found
from sitoolkit.recipes.permissions import permission
from sitoolkit.recipes.shapes import arguments
from sitoolkit.recipes.waiting import network, timeout
from sitoolkit.records import Record

__all__ = ["OUTPUT_SCHEMA", "RECIPES", "Design", "design_tool", "input_schema"]

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


RECIPES: dict[str, Callable[[Evidence], Made | Refusal]] = {
    "TIMEOUT": timeout,
    "NETWORK": network,
    "ARGS": arguments,
    "NOTFOUND": not_found,
    "CONFLICT": conflict,
    "PERM": permission,
}
