"""Replays a recorded failure with and without a tool: a case and a tool's source come in, a verdict goes out.

A case holds a recorded world: what each call of the agent's tools answered, how long it took, and the fault that is
injected as it was recorded. Time is the world's own, so a replay of an hour's waiting takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sitoolkit.records import Record, canonical_json
from sitoolkit.sandbox import ConfinedRun, HostFailure, Limits, run_confined
from sitoolkit.schema import mismatch

__all__ = ["RecordedWorld", "Verdict", "replay_case", "replay_without"]

STUBBED = {"stubbed": True}


class Verdict(Record):
    """Whether a case came out as it must."""

    name: str
    passed: bool
    detail: str = ""
    value: Any = None
    run: ConfinedRun | None = None


class RecordedWorld:
    """The agent's tools as they were recorded, with a clock of its own.

    Args:
        world: {"limit_s": seconds a direct call may take, "tools": {name: {"answers": [{"args", "steps": [step]}],
            "accepts": schema or None, "rejects": step, "otherwise": step}}}. A step is {"result", "duration_s"} or
            {"fail": {"message", "mode", "result"}, "duration_s"}; steps of one entry are played in order, the last
            for ever.
    """

    def __init__(self, world: Mapping[str, Any]) -> None:
        self.now = 0.0
        self.calls: list[tuple[str, Any]] = []
        self._limit = float(world.get("limit_s", 30.0))
        self._tools: Mapping[str, Any] = world["tools"]
        self._played: dict[tuple[str, str], int] = {}
        self._running: dict[str, tuple[float, Mapping[str, Any]]] = {}

    def serve(self, request: Mapping[str, Any]) -> Any:
        """Answer a tool's request from the recording."""
        operation = request["op"]
        if operation == "sleep":
            self.now += max(0.0, float(request["seconds"]))
            return None
        if operation == "call":
            return self.call(request["tool"], request["args"], request.get("timeout_s"))
        if operation == "start":
            handle = f"h{len(self._running) + 1}"
            step = self._step(request["tool"], request["args"])
            self._running[handle] = (self.now + float(step.get("duration_s", 0.0)), step)
            return handle
        if operation == "poll":
            return self._poll(str(request["handle"]), float(request.get("wait_s") or 0.0))
        raise HostFailure(f"unknown request {operation!r}", "TOOL_GAP")

    def call(self, tool: str, args: Any, timeout_s: float | None = None) -> Any:
        """One direct call: waits on the world's clock, fails over the limit."""
        step = self._step(tool, args)
        limit = self._limit if timeout_s is None else min(timeout_s, self._limit)
        duration = float(step.get("duration_s", 0.0))
        if duration > limit:
            self.now += limit
            raise HostFailure(f"timed out after {limit:g} s", "TIMEOUT")
        self.now += duration
        return _settle(step)

    def _poll(self, handle: str, wait_s: float) -> dict[str, Any]:
        if handle not in self._running:
            raise HostFailure(f"no background call {handle!r}", "NOTFOUND")
        until, step = self._running[handle]
        wait = min(max(0.0, until - self.now), max(0.0, wait_s))
        self.now += wait
        if self.now < until:
            return {"done": False}
        try:
            return {"done": True, "result": _settle(step)}
        except HostFailure as fault:
            return {"done": True, "error": {"message": str(fault), "mode": fault.mode}}

    def _step(self, tool: str, args: Any) -> Mapping[str, Any]:
        self.calls.append((tool, args))
        record = self._tools.get(tool)
        if record is None:
            raise HostFailure(f"no tool {tool!r} in this recording", "TOOL_GAP")
        key = canonical_json(args)
        for entry in record.get("answers", []):
            if canonical_json(entry["args"]) == key:
                played = self._played.get((tool, key), 0)
                self._played[tool, key] = played + 1
                steps: Sequence[Mapping[str, Any]] = entry["steps"]
                return steps[min(played, len(steps) - 1)]
        if record.get("accepts") is not None and mismatch(args, record["accepts"]) is not None:
            rejected: Mapping[str, Any] = record["rejects"]
            return rejected
        otherwise: Mapping[str, Any] = record.get("otherwise", {"result": STUBBED})
        return otherwise


def _settle(step: Mapping[str, Any]) -> Any:
    if "fail" in step:
        fail = step["fail"]
        raise HostFailure(str(fail.get("message", "")), str(fail.get("mode", "RUNTIME")), fail.get("result"))
    return step.get("result")


def replay_without(case: Mapping[str, Any]) -> str | None:
    """Make the recorded call without the tool; the failure mode that comes back, or `None` where it works."""
    world = RecordedWorld(case["world"])
    try:
        world.call(case["tool"], case["arguments"])
    except HostFailure as fault:
        return fault.mode
    return None


def replay_case(
    source: str,
    case: Mapping[str, Any],
    *,
    limits: Limits | None = None,
    allowed_imports: tuple[str, ...] = (),
    output_schema: Mapping[str, Any] | None = None,
) -> Verdict:
    """Run a tool on a case in a confined process and judge the result against the recording.

    A case's `expect` may ask for: `status` (one of a list), `result` (equal to the recorded one), `mentions` (texts that
    the message or the offered names of an explanation must hold), `calls` (at most so many calls of the wrapped tool, and at least one
    where `called` is true), `asks_again` (call once more with the handle until done).
    """
    name = str(case["name"])
    world = RecordedWorld(case["world"])
    expect = case["expect"]
    args: dict[str, Any] = {"arguments": case["arguments"], **case.get("extra", {})}
    for _ in range(int(expect.get("asks_again", 0)) + 1):
        done = run_confined(source, args, host=world, limits=limits, allowed_imports=allowed_imports)
        if done.outcome != "ok":
            return Verdict(
                name=name, passed=False, detail=f"the tool ended as {done.outcome}: {done.detail}", run=done
            )
        value = done.value
        if not isinstance(value, dict) or value.get("status") != "running":
            break
        args = {**args, "handle": value.get("handle")}
    fault = _judge(value, expect, case, world)
    if fault is None and output_schema is not None:
        fault = mismatch(value, output_schema)
    return Verdict(name=name, passed=fault is None, detail=fault or "", value=value, run=done)


def _judge(
    value: Any, expect: Mapping[str, Any], case: Mapping[str, Any], world: RecordedWorld
) -> str | None:
    if not isinstance(value, dict):
        return "the result is not an object"
    if value.get("status") not in expect["status"]:
        return f"status {value.get('status')!r}, expected {' or '.join(expect['status'])}: {str(value.get('message', ''))[:200]}"
    if "result" in expect and canonical_json(value.get("result")) != canonical_json(expect["result"]):
        return "the result is not the recorded one"
    made = [args for tool, args in world.calls if tool == case["tool"]]
    if expect.get("called") and value["status"] == "done" and not made:
        return "the wrapped tool was never called"
    if "calls" in expect and len(made) > expect["calls"]:
        return f"{len(made)} calls of the wrapped tool, at most {expect['calls']} expected"
    if value.get("status") != "explained":
        return None
    said = canonical_json({key: value.get(key) for key in ("message", "near")}).lower()
    missing = [text for text in expect.get("mentions", []) if str(text).lower() not in said]
    return f"does not mention {missing[0]!r}" if missing else None
