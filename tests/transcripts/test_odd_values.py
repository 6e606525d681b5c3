"""A value of an odd kind anywhere in a transcript costs at most its record: no reader of a chat format gives up the file."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from sitoolkit.errors import TranscriptError
from sitoolkit.records import Session
from sitoolkit.transcripts import read_sessions
from tests.transcripts.writers import WRITERS, Call, Step

ODD: list[Any] = [None, "", 0, -1, 1.5, True, [], {}, "x", [None], {"type": 3}, [[]], {"a": {"b": None}}]
STORY = [
    Step("user", "go"),
    Step(
        "assistant",
        "I look.",
        [Call("ls", {"p": 1}, "a.txt", "c1"), Call("cat", {"p": "a"}, "Error: no such file", "c2")],
    ),
    Step("assistant", "", [Call("push", {}, None, "c3")]),
    Step("assistant", "done"),
]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        found += _places(value[key], (*path, key))
    return found


@pytest.mark.parametrize("name", WRITERS)
def test_an_odd_value_costs_at_most_its_record(name: str, tmp_path: Path) -> None:
    write, format = WRITERS[name]
    text = write(STORY)
    lines = text.count("\n") > 1 and not text.startswith("[") and text.count("\n{") + 1 == text.count("\n")
    rng = random.Random(name)
    path = tmp_path / "x.jsonl"
    for _ in range(150):
        documents = [json.loads(line) for line in text.splitlines()] if lines else [json.loads(text)]
        document = rng.choice(documents)
        place = rng.choice(_places(document))
        holder = document
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = rng.choice(ODD)
        path.write_text("\n".join(map(json.dumps, documents)))
        try:
            sessions = list(read_sessions(path, format=format))
        except TranscriptError as fault:
            assert "does not understand" not in str(fault), (place, fault.__cause__)
            continue
        for session in sessions:
            Session.model_validate(session.model_dump())
