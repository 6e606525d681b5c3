"""Damaged records: whatever is dropped, swapped, cut or nested, only a TranscriptError leaves a reader, and the same input reads alike."""

from __future__ import annotations

import copy
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sitoolkit.errors import TranscriptError
from sitoolkit.transcripts.detect import readers
from sitoolkit.transcripts.dialects import find_messages, read_message, usage_of
from sitoolkit.transcripts.otel_attributes import flat_attributes, span_of
from sitoolkit.transcripts.read import read_sessions
from sitoolkit.transcripts.source import ReadReport, TranscriptFile
from tests.transcripts.wild import FIXTURES

_FILES = sorted(
    path
    for path in FIXTURES.rglob("*")
    if path.suffix in (".json", ".jsonl", ".traj") and "openhands_conv" not in str(path)
)
_ODD = (
    None,
    [],
    {},
    "",
    0,
    -1,
    True,
    1e300,
    "x",
    [[[]]],
    {"a": {"b": None}},
    ["x", None, {}],
    "\ud83d",
    "9" * 400,
    [1, "a", {"type": "text"}],
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for key, inner in value.items():
            found.extend(_places(inner, (*path, key)))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found.extend(_places(inner, (*path, index)))
    return found


def _damaged(value: Any, dice: random.Random) -> Any:
    value = copy.deepcopy(value)
    for _ in range(dice.randint(1, 4)):
        places = _places(value)
        if not places:
            break
        path = dice.choice(places)
        holder = value
        try:
            for step in path[:-1]:
                holder = holder[step]
            if dice.random() < 0.4 and isinstance(holder, dict):
                del holder[path[-1]]
            elif dice.random() < 0.2 and isinstance(holder, list):
                holder.insert(0, copy.deepcopy(dice.choice(_ODD)))
            else:
                holder[path[-1]] = copy.deepcopy(dice.choice(_ODD))
        except (KeyError, IndexError, TypeError):
            continue
    return value


def _read_all(path: Path, name: str | None) -> list[str]:
    report = ReadReport()
    try:
        return [session.model_dump_json() for session in read_sessions(path, format=name, report=report)]
    except TranscriptError as fault:
        assert fault.__cause__ is None or not isinstance(
            fault.__cause__, TypeError | AttributeError | KeyError | IndexError
        )
        return ["refused"]


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.name)
def test_damaged_fixtures_never_break_a_reader(path: Path, tmp_path: Path) -> None:
    own = next(
        r.NAME for r in readers() if (m := r.sniff(TranscriptFile(path).head)) is not None and m.score >= 0.8
    )
    text = path.read_text()
    lines = path.suffix == ".jsonl"
    values = [json.loads(line) for line in text.splitlines()] if lines else [json.loads(text)]
    for seed in range(int(os.environ.get("SITOOLKIT_FUZZ", "12"))):
        dice = random.Random(seed)
        broken = [_damaged(value, dice) if not lines or dice.random() < 0.4 else value for value in values]
        target = tmp_path / f"{seed}{path.suffix}"
        dumped = [json.dumps(value) for value in broken]
        out = "\n".join(dumped) if lines else dumped[0]
        if dice.random() < 0.2:
            out = out[: dice.randint(0, len(out))]
        target.write_text(out)
        for name in (own, None):
            assert _read_all(target, name) == _read_all(target, name)


@pytest.mark.parametrize("reader", readers(), ids=lambda reader: reader.NAME)
def test_a_reader_that_is_forced_on_the_files_of_others(reader: Any) -> None:
    for path in _FILES:
        _read_all(path, reader.NAME)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["role", "content", "type", "parts", "tool_calls", "function", "name", "arguments", "id", "message", "data", "lc", "kwargs",
             "messages", "input", "output", "text", "choices", "toolName", "toolCallId", "attributes", "key", "value", "gen_ai.prompt"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_JSON)
def test_plain_forms_take_any_json(value: Any) -> None:
    read_message(value)
    find_messages(value)
    usage_of(value)
    span_of(flat_attributes(value), events=value if isinstance(value, list) else ())
    if isinstance(value, dict):
        span_of(value, name="x")


@pytest.mark.parametrize(
    "path", [p for p in sorted(FIXTURES.rglob("*")) if p.is_file()], ids=lambda path: path.name
)
def test_damaged_bytes_never_break_a_reader(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    for seed in range(int(os.environ.get("SITOOLKIT_FUZZ", "8"))):
        dice = random.Random(seed)
        broken = bytearray(data)
        for _ in range(dice.randint(1, 6)):
            at = dice.randrange(len(broken))
            match dice.randrange(4):
                case 0:
                    broken[at] = dice.randrange(256)
                case 1:
                    del broken[at : at + dice.randint(1, 40)]
                case 2:
                    broken[at:at] = dice.choice(
                        [
                            b"\x00",
                            b"\n",
                            b"{",
                            b"\xff\xfe",
                            "\u2028".encode(),
                            b"# aider chat started at 2026-13-45 99:99:99\n",
                        ]
                    )
                case 3:
                    del broken[at:]
            if not broken:
                break
        target = tmp_path / f"{seed}{path.suffix}"
        target.write_bytes(bytes(broken))
        _read_all(target, None)
