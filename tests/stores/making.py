"""Short ways to make the records that the store tests write."""

from __future__ import annotations

from typing import Any

from sitoolkit.records import Memory, Source, ToolInvocation, digest


def event(number: int, occurrences: int = 1, scope: str = "agent:ops", **fields: Any) -> Memory:
    """A precedent with so many occurrences."""
    return Memory(
        **{
            "category": "operational_event",
            "scope": scope,
            "text": f"deploy(service=svc-{number}) succeeded in region {number % 7}",
            "origin": "observed",
            "evidence": tuple(digest("event", number, one) for one in range(occurrences)),
            **fields,
        }
    )


def fact(value: str, evidence: str | tuple[str, ...] = "turn-1", **fields: Any) -> Memory:
    """A fact on one slot."""
    return Memory(
        **{
            "category": "learned_fact",
            "scope": "project:shop",
            "text": f"the project indents with {value}",
            "origin": "user-stated",
            "slot": "fact:indentation:style",
            "evidence": (evidence,) if isinstance(evidence, str) else evidence,
            **fields,
        }
    )


def lesson(text: str, **fields: Any) -> Memory:
    """A lesson without a slot."""
    return Memory(
        **{"category": "reflection", "scope": "global", "text": text, "origin": "reflected", **fields}
    )


def call(number: int, **fields: Any) -> dict[str, Any]:
    """A call as telemetry takes it."""
    given = {
        "id": digest("call", number),
        "content_hash": digest("content", number % 50),
        "session_id": f"session-{number // 20}",
        "seq": number % 20,
        "tool": f"tool_{number % 7}",
        "args": {"name": f"svc-{number}", "count": number},
        "result": {"status": "ok", "number": number},
        "outcome": "failure" if number % 9 == 0 else "success",
        "failure_mode": "TIMEOUT" if number % 9 == 0 else None,
        "agent": "ops",
        "started_at": f"2026-05-0{1 + number % 3}T10:{number % 60:02d}:00Z",
        "source": Source(file="a.jsonl", line=number + 1, format="openai"),
        **fields,
    }
    return ToolInvocation(**given).to_json()
