"""Generated runs written in wild formats and read back: the same calls, whatever is shuffled, repeated or lost."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.transcripts.wild import reading

_QUIET = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
_CALL = st.tuples(
    st.sampled_from(["read", "write", "run"]), st.integers(0, 3), st.text("abc", max_size=4), st.booleans()
)
_RUN = st.lists(st.lists(_CALL, min_size=1, max_size=3), min_size=1, max_size=4)  # batches of parallel calls


def _codex(batches: Any, order: Any, drop: set[int]) -> tuple[str, list[dict[str, Any]]]:
    lines: list[dict[str, Any]] = [{"type": "session_meta", "payload": {"id": "g"}}]
    number = 0
    for batch in batches:
        lines.append(
            {"type": "response_item", "payload": {"type": "message", "role": "assistant", "content": []}}
        )
        results = []
        for tool, arg, text, failed in batch:
            lines.append({"type": "response_item", "payload": {
                "type": "function_call", "name": tool, "call_id": f"k{number}", "arguments": json.dumps({"n": arg})}})  # fmt: skip
            if number not in drop:
                results.append({"type": "response_item", "payload": {
                    "type": "function_call_output", "call_id": f"k{number}", "output": {"content": text, "success": not failed}}})  # fmt: skip
            number += 1
        order.shuffle(results)
        lines.extend(results)
    return "run.jsonl", lines


def _pi(batches: Any, order: Any, drop: set[int]) -> tuple[str, list[dict[str, Any]]]:
    lines: list[dict[str, Any]] = [{"type": "session", "id": "g", "cwd": "/w"}]
    number = 0
    for batch in batches:
        asked, results = [], []
        for position, (tool, arg, text, failed) in enumerate(batch):
            asked.append(
                {"type": "toolCall", "id": f"t{position}", "name": tool, "arguments": {"n": arg}}
            )  # ids repeat
            if number not in drop:
                results.append({"type": "message", "message": {
                    "role": "toolResult", "toolCallId": f"t{position}", "toolName": tool, "isError": failed,
                    "content": [{"type": "text", "text": text}]}})  # fmt: skip
            number += 1
        order.shuffle(results)
        lines.append(
            {"type": "message", "message": {"role": "assistant", "content": asked, "stopReason": "toolUse"}}
        )
        lines.extend(results)
    return "run.jsonl", lines


def _spans(batches: Any, order: Any, drop: set[int]) -> tuple[str, list[dict[str, Any]]]:
    lines: list[dict[str, Any]] = []
    number = 0
    for clock, batch in enumerate(batches, 1):
        asked = []
        for tool, arg, text, failed in batch:
            asked.append({"type": "tool_call", "id": f"k{number}", "name": tool, "arguments": {"n": arg}})
            if number not in drop:
                lines.append({"name": tool, "trace_id": "g", "span_id": f"t{number}", "start_time": clock + 0.5, "end_time": clock + 0.6,
                              "status": {"code": 2 if failed else 1}, "attributes": {
                                  "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.call.id": f"k{number}",
                                  "gen_ai.tool.call.arguments": json.dumps({"n": arg}), "gen_ai.tool.call.result": text}})  # fmt: skip
            number += 1
        lines.append({"name": "chat", "trace_id": "g", "span_id": f"m{clock}", "start_time": clock, "end_time": clock + 0.4, "attributes": {
            "gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": asked}])}})  # fmt: skip
    order.shuffle(lines)
    return "run.jsonl", lines


@_QUIET
@given(
    _RUN,
    st.randoms(use_true_random=False),
    st.sets(st.integers(0, 11), max_size=3),
    st.sampled_from([_codex, _pi, _spans]),
)
def test_calls_keep_their_results(batches: Any, order: Any, drop: set[int], write: Any) -> None:
    name, lines = write(batches, order, drop)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        session = reading(path).only
    wanted = [call for batch in batches for call in batch]
    assert session.orphan_results == 0 and len(session.calls) == len(wanted)
    for number, (call, (tool, arg, text, failed)) in enumerate(zip(session.calls, wanted, strict=True)):
        assert (call.tool, call.args) == (tool, {"n": arg})
        if number in drop:
            assert not call.paired and call.outcome.value == "unknown"
        else:
            assert call.result == text and not call.guessed
            assert call.outcome.value == ("failure" if failed else "success")
