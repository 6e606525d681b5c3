"""Error texts that the recordings of other harnesses showed, beside texts that look like them and are none."""

from __future__ import annotations

import pytest

from sitoolkit.failures import judge
from sitoolkit.records import Outcome


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("Ran into [Errno 2] No such file or directory: '/srv/a.py' while trying to write", "NOTFOUND"),
        ("Invalid `path` parameter: a.py. The path should be absolute.", "ARGS"),
        (
            "Your proposed edit has introduced new syntax error(s). Please read this error message carefully",
            "SYNTAX",
        ),
        ('{"status": "401", "msg": "Authentication required"}', "PERM"),
        ('{"statusCode": 404, "message": "no such order"}', "NOTFOUND"),
        (
            "collected 4 items\n\nE   assert 1 == 2\n========= 1 failed, 3 passed in 0.12s =========",
            "RUNTIME",
        ),
        ("E   ModuleNotFoundError: No module named 'acme'", "NOTFOUND"),
    ],
)
def test_text_of_a_failure(text: str, mode: str) -> None:
    tool = "bash" if "E   " in text else "str_replace_editor"  # a program's own words name fewer modes
    verdict = judge(text, tool=tool, answered=True)
    assert (verdict.outcome, verdict.failure_mode) == (Outcome.FAILURE, mode)


@pytest.mark.parametrize(
    "text",
    [
        "ran into the office, found nothing invalid",
        "======== 12 passed in 3.40s ========",
        "0 failed and 3 passed; the log says: 1 failed in the morning",
        '{"status": 200, "message": "saved"}',
        '{"status": "404 pages restored", "message": "done"}',
        '{"status": 404, "message": "kept", "data": [1]}',
    ],
)
def test_text_that_only_looks_like_one(text: str) -> None:
    assert judge(text, tool="bash", answered=True).outcome is Outcome.SUCCESS


def test_a_log_reader_may_show_a_failed_test_run() -> None:
    text = "session starts\n" * 8 + "==== 1 failed, 3 passed in 0.12s ===="
    assert judge(text, tool="read_file", answered=True).outcome is Outcome.SUCCESS
