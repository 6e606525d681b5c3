"""Bad input costs one record: what is damaged is repaired where that is certain, else set aside with file, line and reason."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import zstandard

from sitoolkit.errors import ParameterError, TranscriptError
from sitoolkit.transcripts import ReadReport, TranscriptFile, detect_format, read_sessions
from sitoolkit.transcripts.source import parse_args


def _line(text: str) -> str:
    return json.dumps({"role": "user", "content": text})


def _texts(path: Path, report: ReadReport | None = None, **more: Any) -> list[str]:
    return [turn.text for session in read_sessions(path, report=report, **more) for turn in session.turns]


def _write(tmp_path: Path, data: bytes | str, name: str = "a.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)
    return path


@pytest.mark.parametrize("data", [b"", b"\n\n  \n", b"\x00" * 100, b"\xef\xbb\xbf"])
def test_an_empty_file_is_a_clear_error(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(TranscriptError, match="is empty"):
        list(read_sessions(_write(tmp_path, data)))


@pytest.mark.parametrize(
    "data", [bytes(range(256)) * 20, b"\x7fELF" + os.urandom(4000), b"\x89PNG\r\n\x1a\n" + os.urandom(500)]
)
def test_a_binary_file_is_a_clear_error(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(TranscriptError, match="no reader knows"):
        list(read_sessions(_write(tmp_path, data)))


@pytest.mark.parametrize(
    "text",
    ["just prose\n", '{"weather": "fine"}\n', "[1, 2, 3]", "name,age\nx,3\n", "null", '"text"', "{not json"],
)
def test_an_unknown_file_is_a_clear_error_that_names_the_formats(tmp_path: Path, text: str) -> None:
    with pytest.raises(TranscriptError, match=r"--format.*openai-chat") as caught:
        list(read_sessions(_write(tmp_path, text)))
    assert caught.value.file.endswith("a.jsonl") and caught.value.reason


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TranscriptError, match="no such file"):
        list(read_sessions(tmp_path / "none.jsonl"))
    with pytest.raises(TranscriptError, match="nothing found"):
        list(read_sessions(tmp_path))
    with pytest.raises(TranscriptError, match="nothing found"):
        list(read_sessions(str(tmp_path / "*.jsonl")))


def test_an_unknown_format_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="did you mean 'openai-chat'"):
        list(read_sessions(_write(tmp_path, _line("a")), format="openai-chatt"))


@pytest.mark.parametrize(
    ("data", "texts", "repaired", "aside"),
    [
        ("\ufeff" + _line("bom") + "\n", ["bom"], {}, []),
        (_line("crlf") + "\r\n" + _line("b") + "\r\n", ["crlf", "b"], {}, []),
        (_line("a") + _line("b") + "\n" + _line("c"), ["a", "b", "c"], {"two records on one line": 1}, []),
        (_line("a") + "\n/speci" + _line("b") + "\n", ["a", "b"], {"stray leading text": 1}, []),
        (_line("a") + "\n" + _line("b") + "\x00" * 40 + "\n", ["a", "b"], {}, []),
        (_line("a") + "\n" + "\x00" * 64 + "\n" + _line("b"), ["a", "b"], {}, [2]),
        (_line("a") + "\n\n   \n" + _line("b"), ["a", "b"], {}, []),
        (_line("a") + "\n" + _line("b")[:-9], ["a"], {}, [2]),
        (
            _line("a") + "\n" + _line("cut")[:-5] + _line("b") + "\n",
            ["a", "b"],
            {"next record after a cut one": 1},
            [2],
        ),
        (_line("a") + "\n" + _line("b") + '{"role": "us\n', ["a", "b"], {}, [2]),
        (_line("a") + "\n{'role': 'user', 'content': 'repr'}\n" + _line("b"), ["a", "b"], {}, [2]),
        ("\x1e" + _line("a") + "\n\x1e" + _line("b") + "\n", ["a", "b"], {}, []),
        (_line("a") + '\n{"role": "user", "content": "tab\tinside"}\n', ["a", "tab\tinside"], {}, []),
        (_line("a") + '\n{"role": "user", "content": "lone \\ud83d"}\n', ["a", "lone \ufffd"], {}, []),
        (_line("a") + '\n{"role": "user", "content": "b", "cost": NaN}\n', ["a", "b"], {}, []),
    ],
)
def test_damaged_lines(
    tmp_path: Path, data: str, texts: list[str], repaired: dict[str, int], aside: list[int]
) -> None:
    report = ReadReport()
    assert _texts(_write(tmp_path, data), report) == texts
    assert dict(report.repaired) == repaired
    assert [item.line for item in report.set_aside] == aside
    assert all(item.reason and item.file.endswith("a.jsonl") for item in report.set_aside)


def test_a_record_inside_a_cut_record_is_not_taken_for_one(tmp_path: Path) -> None:
    report = ReadReport()
    cut = '"user", "inner": ' + _line("not a record")
    assert _texts(_write(tmp_path, _line("a") + "\n" + cut + "\n" + _line("b")), report) == ["a", "b"]
    assert [item.line for item in report.set_aside] == [2]


def test_bytes_that_are_not_utf8_are_replaced_and_counted(tmp_path: Path) -> None:
    report = ReadReport()
    data = _line("a").encode() + b"\n" + b'{"role": "user", "content": "caf\xe9"}\n'
    assert _texts(_write(tmp_path, data), report) == ["a", "caf\ufffd"]
    assert report.repaired == {"bytes that are not UTF-8": 1}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_as_windows_shells_write_it(tmp_path: Path, encoding: str) -> None:
    mark = {"utf-16": b"", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}[encoding]
    data = mark + (_line("a") + "\r\n" + _line("\u00fc") + "\r\n").encode(encoding)
    assert _texts(_write(tmp_path, data)) == ["a", "\u00fc"]


def test_line_numbers_are_those_of_wc(tmp_path: Path) -> None:
    data = "\n".join([_line("a"), "", _line("b\u2028c"), "{broken", _line("d\x85")]) + "\n"
    (session,) = read_sessions(_write(tmp_path, data))
    assert [turn.source.line for turn in session.turns if turn.source] == [1, 3, 5]


def test_deep_nesting_costs_one_record(tmp_path: Path) -> None:
    report = ReadReport()
    deep = '{"role": "user", "content": ' + "[" * 100_000 + "]" * 100_000 + "}"
    assert _texts(_write(tmp_path, "\n".join([_line("a"), deep, _line("b")])), report) == ["a", "b"]
    assert [item.line for item in report.set_aside] == [2]


def test_a_line_of_50_megabytes_costs_little_more_than_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with path.open("w") as out:
        out.write(_line("a") + "\n" + _line("x" * 50_000_000) + "\n" + _line("b") + "\n")
    script = (
        "import re, sys\nfrom pathlib import Path\nfrom sitoolkit.transcripts import read_sessions\n"
        "print([len(turn.text) for session in read_sessions(sys.argv[1]) for turn in session.turns])\n"
        # not `ru_maxrss`: that begins with the size of the process that started this one
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]) // 1024)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    lengths, peak = told.stdout.splitlines()
    assert lengths == "[1, 50000000, 1]"
    assert int(peak) < 300  # MB of the whole process


def test_conversations_a_line_are_read_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    message = {"role": "user", "content": "x" * 100_000}
    with path.open("w") as out:
        for _ in range(200):
            out.write(json.dumps({"messages": [message]}) + "\n")
    tracemalloc.start()
    assert sum(1 for _ in read_sessions(path)) == 200
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12_000_000


def test_a_long_array_is_read_one_element_at_a_time_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    runs = [
        {
            "task_id": n,
            "reward": 0.0,
            "trial": 0,
            "info": {},
            "traj": [{"role": "user", "content": "x" * 300_000}],
        }
        for n in range(120)
    ]
    path.write_text(json.dumps(runs, indent=1))
    tracemalloc.start()
    lines = [session.source.line for session in read_sessions(path)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert lines == [2 + 12 * n for n in range(120)]
    assert peak < 30_000_000


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_compressed_files_are_told_by_their_bytes(tmp_path: Path, pack: Any) -> None:
    data = pack((_line("a") + "\n" + _line("b") + "\n").encode())
    assert _texts(_write(tmp_path, data, "no-ending")) == ["a", "b"]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_a_compressed_file_that_breaks_off_gives_what_it_has(tmp_path: Path, pack: Any) -> None:
    lines = [_line(f"{n} {os.urandom(200).hex()}") for n in range(3000)]
    data = pack("\n".join(lines).encode())
    report = ReadReport()
    texts = _texts(_write(tmp_path, data[: len(data) * 2 // 3], "a.jsonl.gz"), report)
    assert 0 < len(texts) < 3000
    assert any("breaks off" in item.reason for item in report.set_aside)


def test_a_folder_of_mixed_formats_and_junk(tmp_path: Path) -> None:
    _write(tmp_path, _line("chat"), "a.jsonl")
    _write(
        tmp_path,
        '{"type": "user", "sessionId": "s", "uuid": "u", "message": {"role": "user", "content": "claude"}}',
        "b.jsonl",
    )
    _write(tmp_path, '[{"type": "human", "data": {"content": "chain"}}]', "c.json")
    _write(tmp_path, "# notes", "README.md")
    _write(tmp_path, b"", "empty.jsonl")
    _write(tmp_path, os.urandom(3000), "binary")
    inner = tmp_path / "inner"
    inner.mkdir()
    _write(inner, gzip.compress(_line("zipped").encode()), "d.jsonl.gz")
    _write(tmp_path, _line("hidden"), ".hidden.jsonl")
    report = ReadReport()
    assert _texts(tmp_path, report) == ["chat", "claude", "chain", "zipped"]
    assert dict(report.formats) == {"openai-chat": 2, "claude-code": 1, "langchain": 1}
    assert sorted(Path(item.file).name for item in report.set_aside) == ["README.md", "binary", "empty.jsonl"]
    assert report.files == 7


def test_globs_lists_and_doubles(tmp_path: Path) -> None:
    for name in "abc":
        _write(tmp_path, _line(name), f"{name}.jsonl")
    assert _texts(tmp_path / "[ab].jsonl") == ["a", "b"]
    assert _texts([tmp_path / "c.jsonl", tmp_path, str(tmp_path / "*.jsonl")]) == ["c", "a", "b"]  # type: ignore[arg-type]


def test_one_bad_file_of_several_does_not_stop_the_others(tmp_path: Path) -> None:
    report = ReadReport()
    paths = [_write(tmp_path, "junk", "a.jsonl"), _write(tmp_path, _line("b"), "b.jsonl")]
    assert _texts(paths, report) == ["b"]  # type: ignore[arg-type]
    assert len(report.set_aside) == 1


def test_an_unreadable_file_is_set_aside(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    path = _write(tmp_path, _line("a"))
    path.chmod(0)
    with pytest.raises(TranscriptError, match="Permission"):
        list(read_sessions(path))


def test_a_document_cut_short_gives_its_whole_elements(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": f"m{n}"} for n in range(10)]
    report = ReadReport()
    assert _texts(_write(tmp_path, json.dumps(messages, indent=1)[:-20]), report) == [
        f"m{n}" for n in range(9)
    ]
    assert len(report.set_aside) == 1


def test_documents_one_after_another(tmp_path: Path) -> None:
    data = "\n".join(
        json.dumps({"messages": [{"role": "user", "content": f"m{n}"}]}, indent=2) for n in range(3)
    )
    sessions = list(read_sessions(_write(tmp_path, data)))
    assert [session.source.line for session in sessions] == [1, 9, 17]


def test_the_same_file_gives_the_same_ids_wherever_it_lies_and_when_it_grows(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    first = _write(
        tmp_path, json.dumps({"messages": [{"role": "user", "content": "a"}]}) + "\n", "runs.jsonl"
    )
    grown = _write(tmp_path / "x", first.read_text() + first.read_text(), "runs.jsonl")
    ids = [session.id for session in read_sessions(grown)]
    assert ids[0] == next(read_sessions(first)).id
    assert len(set(ids)) == 2


def test_detection_goes_by_content_never_by_name(tmp_path: Path) -> None:
    path = _write(tmp_path, _line("a"), "claude-code.langchain.tau-bench.json")
    assert detect_format(path) == ("openai-chat", "a message with a role on each line")


def test_format_overrules_detection(tmp_path: Path) -> None:
    path = _write(tmp_path, json.dumps([{"role": "user", "content": [{"type": "text", "text": "a"}]}]))
    assert next(read_sessions(path)).format == "openai-chat"
    assert next(read_sessions(path, format="anthropic")).format == "anthropic"


@pytest.mark.parametrize(
    ("text", "args", "error"),
    [
        ("", {}, False),
        ("{}", {}, False),
        ('{"a": 1}', {"a": 1}, False),
        ('"{\\"a\\": 1}"', {"a": 1}, False),
        ('{"id": 12345678901234567890123}', {"id": 12345678901234567890123}, False),
        ("[1, 2]", [1, 2], False),
        ('{"a": ', '{"a": ', True),
        ("ls -la", "ls -la", True),
        (None, {}, False),
        ({"a": 1}, {"a": 1}, False),
    ],
)
def test_arguments_as_they_come(text: object, args: object, error: bool) -> None:
    got, problem = parse_args(text)
    assert got == args
    assert bool(problem) == error


def test_the_stem_says_the_folder_where_the_name_says_nothing() -> None:
    assert TranscriptFile("/x/run7/messages.jsonl.gz").stem == "run7/messages"
    assert TranscriptFile("/x/run7/ses_9.json").stem == "ses_9"


def test_a_million_bad_lines_keep_ten_thousand_reasons_and_the_count() -> None:
    report = ReadReport()
    for number in range(20_000):
        report.put_aside("a", number, "bad")
        report.unknown(f"type {number}")
    assert (len(report.set_aside), report.set_aside_count) == (10_000, 20_000)
    assert len(report.unknown_types) == 1_001 and sum(report.unknown_types.values()) == 20_000


def test_a_reader_that_fails_costs_its_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sitoolkit.transcripts import openai

    def broken(*_: object) -> Any:
        raise RuntimeError("odd")

    paths = [
        _write(tmp_path, _line("a"), "a.jsonl"),
        _write(tmp_path, '[{"type": "human", "data": {"content": "chain"}}]', "b.json"),
    ]
    monkeypatch.setattr(openai, "read", broken)
    report = ReadReport()
    assert _texts(paths, report) == ["chain"]  # type: ignore[arg-type]
    assert [item.reason for item in report.set_aside] == [
        "the reader does not understand it (RuntimeError: odd)"
    ]
    with pytest.raises(TranscriptError, match="does not understand it"):
        list(read_sessions(paths[0]))


def test_open_files_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    path = _write(tmp_path, gzip.compress(_line("a").encode()), "x.gz")
    with path.open("rb") as handle:
        (session,) = read_sessions(handle)  # type: ignore[arg-type]
    assert [turn.text for turn in session.turns] == ["a"] and session.id == "x"
    (session,) = read_sessions(io.StringIO(_line("b") + "\n"))  # type: ignore[arg-type]
    assert [turn.text for turn in session.turns] == ["b"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(_line("c").encode())))
    assert _texts("-") == ["c"]  # type: ignore[arg-type]
