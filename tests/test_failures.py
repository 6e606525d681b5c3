"""One meaning of an outcome: what decides, in which order, and which mode a failure has."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitoolkit.errors import ParameterError
from sitoolkit.failures import RULES, Rule, add_rule, classify_failure, judge, rules_off
from sitoolkit.records import FailureMode, Outcome

S, F, T, C, U = Outcome.SUCCESS, Outcome.FAILURE, Outcome.TIMEOUT, Outcome.CANCELLED, Outcome.UNKNOWN


def test_order_flags_status_exit_code_typed_error_text() -> None:
    assert judge("all fine", is_error=True).rule == "flag"
    assert judge("all fine", is_error=True, status="success", exit_code=0).rule == "flag"
    assert judge("all fine", status="error", exit_code=0).rule == "status"
    assert judge("all fine", exit_code=2, typed_error="KeyError").rule == "exit-code"
    assert judge("all fine", typed_error="KeyError").rule == "typed-error"
    assert judge('{"success": false}', status="success").rule == "envelope"
    assert judge("Error: no such user").rule == "text-error"
    assert judge("all fine").rule == "result"
    assert judge(None).rule == "no-result"


def test_no_result_is_unknown_never_success() -> None:
    assert judge(None).outcome is U
    assert judge(None, answered=True).outcome is S
    assert judge("", answered=True).outcome is S


@pytest.mark.parametrize(
    ("told", "outcome", "mode"),
    [
        ({"exit_code": 0}, S, None),
        ({"exit_code": 1}, F, "RUNTIME"),
        ({"exit_code": 2}, F, "RUNTIME"),
        ({"exit_code": 124}, T, "TIMEOUT"),
        ({"exit_code": 126}, F, "PERM"),
        ({"exit_code": 127}, F, "TOOL_GAP"),
        ({"exit_code": 130}, C, None),
        ({"exit_code": -9}, F, "RUNTIME"),
        ({"status": "timeout"}, T, "TIMEOUT"),
        ({"status": "Timed Out"}, T, "TIMEOUT"),
        ({"status": "cancelled"}, C, None),
        ({"status": "interrupted"}, C, None),
        ({"status": "ERROR"}, F, "RUNTIME"),
        ({"status": "completed"}, S, None),
        ({"status": "in_progress"}, S, None),
        ({"typed_error": "TimeoutError"}, T, "TIMEOUT"),
        ({"typed_error": "file_not_found"}, F, "NOTFOUND"),
        ({"typed_error": "permission"}, F, "PERM"),
        ({"typed_error": "builtins.ValueError"}, F, "ARGS"),
        ({"typed_error": "ZeroDivisionError"}, F, "RUNTIME"),
        ({"error": {"type": "timeout", "message": "Command timed out before completing."}}, T, "TIMEOUT"),
        ({"error": ""}, S, None),
        ({"error": None, "status": "ok"}, S, None),
        ({"is_error": False}, S, None),
    ],
)
def test_what_the_harness_says(told: dict[str, object], outcome: Outcome, mode: str | None) -> None:
    verdict = judge("output", **told)  # type: ignore[arg-type]
    assert (verdict.outcome, verdict.failure_mode) == (outcome, mode)


ENVELOPES = [
    ({"success": False, "error": "no such user"}, F, "NOTFOUND"),
    ('{"success": 0, "error": "Malformed JSON arguments; the tool was not executed"}', F, "ARGS"),
    ({"ok": False}, F, "RUNTIME"),
    ({"ok": False, "error": "not_authed"}, F, "RUNTIME"),
    ({"status": "error"}, F, "RUNTIME"),
    ({"status": "error", "message": "Permission denied"}, F, "PERM"),
    ({"status": "failed", "error": "quota", "id": "j1"}, F, "RUNTIME"),
    ({"error": None}, S, None),
    ({"error": None, "data": [1]}, S, None),
    ({"error": "", "result": "x"}, S, None),
    ({"errors": []}, S, None),
    ({"error": False, "rows": 3}, S, None),
    ({"success": True, "error": "none of your business"}, S, None),
    ({"success": "false", "message": "File already exists"}, F, "CONFLICT"),
    ({"isError": True, "content": [{"type": "text", "text": "Rate limit exceeded"}]}, F, "NETWORK"),
    ({"isError": False, "content": [{"type": "text", "text": "Error: quoted"}]}, S, None),
    (
        {"exit_code": 1, "stdout": "", "stderr": "ls: cannot access 'x': No such file or directory"},
        F,
        "NOTFOUND",
    ),
    ({"exit_code": 0, "stdout": "Error: only printed", "stderr": ""}, S, None),
    ({"returncode": 124, "output": ""}, T, "TIMEOUT"),
    ({"error": {"code": "not_found", "message": "No such channel"}}, F, "NOTFOUND"),
    ({"error": {"type": "TimeoutError", "message": "30 s"}}, T, "TIMEOUT"),
    ({"status": 404, "message": "Not Found"}, F, "NOTFOUND"),
    ({"reservation_id": "Z7", "status": "cancelled"}, S, None),
    ({"job_id": "j9", "status": "failed", "queue": "b"}, S, None),
    ({"order": "#1", "status": "error", "lines": [1, 2], "owner": "a", "note": "printer"}, S, None),
    ({"data": {"user": None}, "errors": [{"message": "partial"}]}, S, None),
    ({"data": None, "errors": [{"message": "user not found"}]}, F, "NOTFOUND"),
    ({"results": [], "error_count": 0}, S, None),
    ([{"type": "text", "text": "fine"}], S, None),
    ('{"error": "no such user"}\n', F, "NOTFOUND"),
    ('\n [{"error": "Permission denied"}] ', F, "PERM"),
    ("{'success': False, 'error': 'Permission denied'}", F, "PERM"),
    ("{'error': None, 'rows': [1, 2]}", S, None),
    ("{'not': a literal}", S, None),
    (255.0, S, None),
    (False, S, None),
    ([], S, None),
]


@pytest.mark.parametrize(("result", "outcome", "mode"), ENVELOPES)
def test_failure_envelope_in_a_normal_result(result: object, outcome: Outcome, mode: str | None) -> None:
    verdict = judge(result, tool="call_api")
    assert (verdict.outcome, verdict.failure_mode) == (outcome, mode)


@pytest.mark.parametrize(
    ("text", "outcome", "mode"),
    [
        ("make: *** [all] Error 2\n[Command failed with exit code 2]", F, "RUNTIME"),
        ("x\n[The command completed with exit code 1.]", F, "RUNTIME"),
        ("x\n[The command completed with exit code 0.]", S, None),
        ("Error: odd\n[The command completed with exit code 0.]", S, None),
        ("Exit code 1\nFAILED tests/test_a.py - AssertionError: expected 5", F, "RUNTIME"),
        ("Process exited with code 127\nsh: foo: command not found", F, "TOOL_GAP"),
        ("<returncode>1</returncode>\n<output>\nboom\n</output>", F, "RUNTIME"),
        ("<returncode>0</returncode>\n<output>\nError: quoted\n</output>", S, None),
        ("Command 'x' returned non-zero exit status 3.", F, "RUNTIME"),
        ("exit code: 124\n", T, "TIMEOUT"),
        ("(exit status 1)", F, "RUNTIME"),
        ("The function returns exit code 2 when the file is missing, see docs.", S, None),
        ("12 passed, exit codes are documented in README", S, None),
    ],
)
def test_exit_markers(text: str, outcome: Outcome, mode: str | None) -> None:
    verdict = judge(text, tool="bash", status="success" if outcome is F else None)
    assert (verdict.outcome, verdict.failure_mode) == (outcome, mode)


def test_the_exit_marker_rule_can_be_switched_off() -> None:
    text = "make: *** [all] Error 2\n[Command failed with exit code 2]"
    assert judge(text, status="success").outcome is F
    with rules_off("exit-marker"):
        assert judge(text, status="success").outcome is S
    assert judge(text, status="success").outcome is F
    with pytest.raises(ParameterError), rules_off("no-such-rule"):
        pass


FAILS = [
    # text, mode
    ("Error: payment amount does not add up, total price is 305, but paid 255", "ARGS"),
    ("Error: payment method certificate_7504069 not found", "NOTFOUND"),
    ("Error: certificate cannot be used to update reservation", "ARGS"),
    ("Error: not enough seats on flight HAT229", "CONFLICT"),
    ("Error: gift card balance is not enough", "CONFLICT"),
    ("Error: User not found", "NOTFOUND"),
    ("Error: non-pending order cannot be cancelled", "CONFLICT"),
    ("Error: RuntimeError('boom')\n Please fix your mistakes.", "RUNTIME"),
    ("Error: KeyError('user_id')\n Please fix your mistakes.", "NOTFOUND"),
    ("Error executing tool read_file: [Errno 2] No such file or directory: '/x'", "NOTFOUND"),
    ("Error invoking tool 'x' with kwargs {} with error:\n x: Field required\n Please fix the error and try again.", "ARGS"),
    ("2 validation errors for get_weather\ncity\n  Field required", "ARGS"),
    ("Unknown tool: bash", "TOOL_GAP"),
    ("Error: deploy is not a valid tool, try one of [search].", "TOOL_GAP"),
    ("Tool 'foo' not found", "TOOL_GAP"),
    ("bash: foo: command not found", "TOOL_GAP"),
    ("/bin/sh: 1: jq: not found", "TOOL_GAP"),
    ("ls: cannot access '/nope': No such file or directory", "NOTFOUND"),
    ("cat: /etc/shadow: Permission denied", "PERM"),
    ("PermissionError: [Errno 13] Permission denied: '/root/x'", "PERM"),
    ("403 Forbidden", "PERM"),
    ("HTTP 404: Not Found", "NOTFOUND"),
    ("Request failed with status code 429", "NETWORK"),
    ("Error: 409 Conflict: branch already exists", "CONFLICT"),
    ("Failed to connect to localhost port 6379: Connection refused", "NETWORK"),
    ("ConnectionRefusedError: [Errno 111] Connection refused", "NETWORK"),
    ("requests.exceptions.ConnectionError: HTTPSConnectionPool(host='x', port=443): Max retries exceeded", "NETWORK"),
    ("curl: (6) Could not resolve host: nope.invalid", "NETWORK"),
    ("SyntaxError: invalid syntax (a.py, line 3)", "SYNTAX"),
    ("Your proposed edit has introduced new syntax error(s). Please read this error message carefully", "SYNTAX"),
    ("json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)", "SYNTAX"),
    ("Invalid arguments: missing required property 'path'", "ARGS"),
    ("TypeError: deploy() got an unexpected keyword argument 'force'", "ARGS"),
    ("<tool_use_error>String to replace not found in file.\nString: x</tool_use_error>", "NOTFOUND"),
    ("<tool_use_error>File has not been read yet. Read it first before writing to it.</tool_use_error>", "CONFLICT"),
    ("<tool_use_error>Found 3 matches of the string to replace, but replace_all is false.</tool_use_error>", "ARGS"),
    ("<tool_use_error>InputValidationError: Read failed due to the following issue:\nfile_path is required</tool_use_error>", "ARGS"),
    ("Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    1/0\nZeroDivisionError: division by zero", "RUNTIME"),
    ("Traceback (most recent call last):\n  File \"a.py\", line 1\nValueError: bad literal", "RUNTIME"),
    ("Traceback (most recent call last):\n  File \"a.py\", line 1\nModuleNotFoundError: No module named 'flask'", "NOTFOUND"),
    ("fatal: not a git repository (or any of the parent directories): .git", "RUNTIME"),
    ("Failed to parse the patch", "SYNTAX"),
    ("An error occurred while deploying: disk full", "RUNTIME"),
    ("The country is not supported. Use \"La France\" instead.\n\nFix the errors and try again.", "ARGS"),
    ("Tool execution failed: upstream returned 503 Service Unavailable", "NETWORK"),
    ("[ERROR] build failed", "RUNTIME"),
    ("not implemented: snapshots", "TOOL_GAP"),
    ("❌ Deployment failed: image not found", "NOTFOUND"),
    ("Killed", "RUNTIME"),
    ("psql: error: connection to server failed: Connection refused", "NETWORK"),
    ("ERROR: relation \"users\" does not exist", "NOTFOUND"),
    ("ERROR:  duplicate key value violates unique constraint \"users_pkey\"", "CONFLICT"),
    ("Invalid API key provided", "PERM"),
    ("Input validation error: 'x' is a required property", "ARGS"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "mode"), FAILS)
def test_text_alone_that_is_an_error(text: str, mode: str) -> None:
    verdict = judge(text, tool="do_it")
    assert verdict.outcome is F
    assert verdict.failure_mode == mode
    assert verdict.error and verdict.rule.startswith("text-")


TIMEOUTS = [
    "Error: Command timed out after 120 seconds",
    "TimeoutError: page did not load",
    "Command timed out",
    "Error: Request timed out.",
    "Error: deadline exceeded",
    "Timeout: no response from host",
    "[Error] ETIMEDOUT 10.0.0.1:443",
]


@pytest.mark.parametrize("text", TIMEOUTS)
def test_text_alone_that_says_time_ran_out(text: str) -> None:
    verdict = judge(text, tool="do_it")
    assert (verdict.outcome, verdict.failure_mode) == (T, "TIMEOUT")


STOPPED = [
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file).",
    "[Request interrupted by user for tool use]",
    "Cancelled by user",
    "User rejected the command",
    "Error: operation was cancelled",
    "Tool send_email execution skipped by user.",
    "aborted",
]  # fmt: skip


@pytest.mark.parametrize("text", STOPPED)
@pytest.mark.parametrize("flag", [True, None])
def test_cancelled_is_not_failed(text: str, flag: bool | None) -> None:
    assert judge(text, is_error=flag).outcome is C


QUOTES = [
    # tool, text: a result that only quotes an error
    ("grep", 'src/a.py:12:    raise ValueError("Error: bad")'),
    ("bash", 'src/a.py:12:    raise ValueError("Error: bad")\nsrc/b.py:3: print("failed")'),
    ("write_files", "Error: 404 page template restored\n3 files written"),
    ("read_file", "Error: this log\n2026-01-01 ERROR x failed\n2026-01-01 ERROR y failed\nTraceback (most recent call last):\nValueError: x\nend"),
    ("bash", "2026-01-01 INFO started\n2026-01-01 ERROR: request failed, retrying\n2026-01-01 INFO done"),
    ("pytest", "12 passed, 0 failed, 0 errors in 0.12s"),
    ("lint", "0 errors, 0 warnings"),
    ("lint", "Errors: 0"),
    ("status", "errors: none"),
    ("write_file", "Error handling added to src/app.py"),
    ("write_file", "Timeout set to 30 s"),
    ("search", "No results found."),
    ("think", "The call failed because the token expired; I should refresh it."),
    ("get_config", "timeout: 30\nretries: 3"),
    ("get_config", "timeout=30"),
    ("edit", "The file /srv/errors.py has been updated."),
    ("list_dir", "error.log\nfailures.txt\nnot_found.html"),
    ("web_fetch", "# Troubleshooting\n\nIf you see `Error: command not found`, install the tool."),
    ("db", "id | message\n1 | permission denied\n(1 row)"),
    ("run", "Failed tests were fixed. All 14 tests passed successfully."),
    ("deploy", "Deployment finished: 12 hosts updated, 0 failed"),
    ("check", "Build ok, no failed steps"),
    ("calc", "404"),
    ("calc", "500.0"),
    ("get", "HTTP/1.1 200 OK\n\nError rates are low"),
    ("Bash", "remote: \nremote: Create a pull request\nTo github.com:example/project.git\n   def5678..abc1234  main -> main"),
    ("say", "Invalidated the cache and unknownified nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "text"), QUOTES)
def test_a_success_that_merely_quotes_an_error(tool: str, text: str) -> None:
    assert judge(text, tool=tool).outcome is S


@pytest.mark.parametrize(("tool", "text"), QUOTES)
def test_an_explicit_good_status_beats_the_text(tool: str, text: str) -> None:
    for said in ({"is_error": False}, {"status": "success"}, {"exit_code": 0}):
        assert judge("Error: " + text, tool=tool, **said).outcome is S  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["Error: File does not exist: /a", "Error reading file: permission denied"])
def test_a_tool_that_shows_text_fails_with_a_short_message(text: str) -> None:
    assert judge(text, tool="read_file").outcome is F


def test_rules_are_listed_with_names_that_verdicts_use() -> None:
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names))
    for text, _mode in FAILS:
        assert judge(text).rule in names
    assert {rule.mode for rule in RULES if rule.mode} >= {mode.value for mode in FailureMode}


def test_a_plugin_adds_a_deeper_mode() -> None:
    add_rule(
        Rule("acme-quota", "mode", "the quota of Acme is used up", "NETWORK.QUOTA", re.compile("ACME-17"))
    )
    try:
        assert judge("Error: ACME-17").failure_mode == "NETWORK.QUOTA"
        with rules_off("acme-quota"):
            assert judge("Error: ACME-17").failure_mode == "RUNTIME"
    finally:
        from sitoolkit import failures

        failures._ADDED.clear()
    with pytest.raises(ParameterError):
        add_rule(Rule("bad", "mode", "unknown mode", "NO_SUCH", re.compile("x")))
    with pytest.raises(ParameterError):
        add_rule(Rule("bad", "mode", "nothing to test", "PERM"))


def test_a_long_error_is_cut_and_its_mode_found_at_either_end() -> None:
    text = "Error: " + "x" * 50_000 + "\nPermission denied"
    verdict = judge(text)
    assert verdict.failure_mode == "PERM"
    assert len(verdict.error or "") < 2100


@given(st.one_of(st.none(), st.text(), st.integers(), st.recursive(st.none() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x), max_leaves=8)), st.none() | st.booleans(), st.none() | st.text())  # fmt: skip
def test_no_input_raises_and_a_mode_means_a_failure(
    result: object, flag: bool | None, status: str | None
) -> None:
    verdict = judge(result, is_error=flag, status=status)
    assert (verdict.failure_mode is not None) == (verdict.outcome in (F, T))
    assert classify_failure(str(result)).partition(".")[0] in FailureMode.__members__


@given(st.text(alphabet="Error: failed\n[({<timed out exit code 1", max_size=3000))
def test_judging_a_text_takes_no_exponential_time(text: str) -> None:
    judge(text)


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("service not found", "NOTFOUND"),
        ("User jane_99 was not found.", "NOTFOUND"),
        ("Request timed out", "TIMEOUT"),
        ("The volume already exists.", "CONFLICT"),
        ("conflict: release gate is closed", "CONFLICT"),
    ],
)
def test_a_text_that_is_one_short_complaint_is_a_failure(text, mode):
    verdict = judge(text)
    assert verdict.outcome in ("failure", "timeout") and verdict.failure_mode == mode


@pytest.mark.parametrize(
    "text",
    [
        "No results found",
        "The file was not found in the archive, so I created it",
        "2 of 3 hosts answered; one timed out and was tried again with success",
        "not_found_handler registered",
        "conflict resolution finished",
    ],
)
def test_a_sentence_that_only_speaks_of_trouble_is_a_success(text):
    assert judge(text).outcome == "success"
