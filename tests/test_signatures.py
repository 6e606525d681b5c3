"""Scanning: what counts as an error, what merges, what is read again, and what is shown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from sitoolkit.logs.events import read_events
from sitoolkit.logs.lines import level_of, parse_line
from sitoolkit.loops.signatures import scan_error_signatures, signature_mapping
from sitoolkit.records import Outcome, Source, ToolInvocation
from sitoolkit.stores.scans import ScanLog
from sitoolkit.workspace import Workspace

NOW = datetime(2026, 1, 2, 4, tzinfo=UTC)


@pytest.fixture
def ws(tmp_path):
    return Workspace(tmp_path / "ws", clock=lambda: NOW)


def call(seq, error, at=NOW - timedelta(hours=1), outcome=Outcome.FAILURE, agent="ops", tool="fetch"):
    return ToolInvocation(
        id=f"call-{seq}", session_id="s", seq=seq, tool=tool, error=error, outcome=outcome, started_at=at, agent=agent,
        failure_mode="NETWORK", source=Source(file="t.jsonl", line=seq + 1),
    )  # fmt: skip


def write(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


# ------------------------------------------------------------ lines


@pytest.mark.parametrize(
    ("line", "level", "message"),
    [
        ("2026-01-02 03:04:05,678 ERROR app.db: lost it", "error", "lost it"),
        ("2026-01-02 03:04:05,678 - app.db - ERROR - lost it", "error", "lost it"),
        ("2026-01-02T03:04:05Z ERROR [main] c.e.App - lost it", "error", "lost it"),
        ("2026-01-02 03:04:05 | ERROR    | app.db:run:12 - lost it", "error", "lost it"),
        ("2026-01-02 03:04:05 [ERROR] app.db: lost it", "error", "lost it"),
        ('time="2026-01-02T03:04:05Z" level=error msg="lost it"', "error", "lost it"),
        ('{"level":50,"time":1767323045000,"msg":"lost it"}', "critical", "lost it"),
        (
            '{"asctime": "2026-01-02 03:04:05,1", "levelname": "ERROR", "message": "lost it"}',
            "error",
            "lost it",
        ),
        ("2026/01/02 03:04:05 [error] 123#0: *1 lost it", "error", "lost it"),
        ("Jan  2 03:04:05 host app[12]: lost it", "", "lost it"),
        ("01-02 03:04:05.678  1702  2395 E Tag: lost it", "error", "lost it"),
        ("E0102 03:04:05.000000 1234 file.go:12] lost it", "error", "lost it"),
        ("[Fri Jan 02 03:04:05 2026] [error] lost it", "error", "lost it"),
        ("ERROR:root:lost it", "error", "lost it"),
        ("ERROR    app.core:core.py:12 lost it", "error", "lost it"),
        ("\x1b[31mERROR\x1b[0m lost it", "error", "lost it"),
        ("INFO     Failed to do nothing", "info", "Failed to do nothing"),
        ("just text", "", "just text"),
    ],
)
def test_the_message_is_cut_out_of_any_head(line, level, message):
    parsed = parse_line(line, NOW)
    assert (parsed.level, parsed.message) == (level, message)


@pytest.mark.parametrize(
    "line",
    ["2026-01-02 03:04:05 ERROR x: y", "Jan  2 03:04:05 host app[12]: y", "01-02 03:04:05.000  1 2 E T: y", "E0102 03:04:05.0 1 f.go:1] y",
     "[Fri Jan 02 03:04:05 2026] [error] y", "2026/01/02 03:04:05 [error] y", "2026-01-02T04:04:05+01:00 ERROR y"],
)  # fmt: skip
def test_line_times_are_read(line):
    assert parse_line(line, NOW).time == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_time_that_cannot_be_read_is_unknown_and_never_now():
    assert parse_line("2026-13-45 99:99:99 ERROR x: y", NOW).time is None


def test_levels():
    assert [level_of(word) for word in ("WARN", "E", 40, 50, "SEVERE", "notice", None, "x")] == [
        "warning", "error", "error", "critical", "error", "info", "", "",
    ]  # fmt: skip


def test_a_traceback_is_one_event_signed_by_type_and_innermost_own_frame():
    lines = [
        "2026-01-02 03:04:05 ERROR app: job 17 failed",
        "Traceback (most recent call last):",
        '  File "/srv/app/jobs.py", line 10, in run',
        "    load(x)",
        '  File "/usr/lib/python3.11/site-packages/lib/y.py", line 3, in get',
        "    return d[k]",
        "    ~^^^",
        "KeyError: 'x'",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        '  File "/srv/app/main.py", line 2, in main',
        "    run()",
        '  File "/usr/lib/python3.11/json/decoder.py", line 9, in decode',
        "    raise",
        "app.errors.JobError: no",
        "2026-01-02 03:04:06 INFO app: next",
        "java.lang.IllegalStateException: bad",
        "\tat org.springframework.x.Y.z(Y.java:1)",
        "Caused by: java.io.IOException: disk",
        "\tat com.me.Disk.read(Disk.java:1)",
        "\t... 3 more",
        "TypeError: Cannot read properties of undefined",
        "    at load (/srv/app/a.js:1:2)",
        "    at node:internal/x:3:4",
    ]
    events = [event for event in read_events(lines) if event.level == "error"]
    assert [(event.exception, event.frame) for event in events] == [
        ("app.errors.JobError", "main:main"),
        ("java.io.IOException", "com.me.Disk:read"),
        ("TypeError", "a.js:load"),
    ]
    assert events[0].message == "job 17 failed"


# ------------------------------------------------------------ scans


def test_info_lines_are_no_errors_for_containing_failed(ws, tmp_path):
    log = write(
        tmp_path / "a.log",
        "2026-01-02 03:04:05 INFO app: Failed to find nothing",
        "2026-01-02 03:04:05 WARNING app: Error: soon",
    )
    assert scan_error_signatures(ws, logs=[log]).total_events == 0


def test_one_error_merges_across_sources_and_counts_once_when_both_saw_it(ws, tmp_path):
    at = datetime(2026, 1, 2, 3, 0, tzinfo=UTC)
    log = write(
        tmp_path / "a.log",
        "2026-01-02 03:00:01 ERROR app.net: lost connection to 10.0.0.7:5432 after 12ms",
        "2026-01-02 03:30:00 ERROR app.net: lost connection to 10.0.0.9:5432 after 1.2s",
    )
    scan = scan_error_signatures(
        ws, logs=[log], calls=[call(0, "Error: lost connection to 10.0.0.7:5432 after 13ms", at)]
    )
    (found,) = scan.signatures
    assert found.signature == "lost connection to <*> after <*>"
    assert found.sources == (str(log), "telemetry")
    assert found.count == 2
    assert found.agents == ("ops",)
    assert "call-0" in found.evidence
    assert f"log:{log}:1" in found.evidence


def test_old_lines_do_not_recur(ws, tmp_path):
    log = write(
        tmp_path / "a.log", "2025-12-01 03:04:05 ERROR app: old", "2026-01-02 03:04:05 ERROR app: new"
    )
    for _ in range(2):
        assert [one.signature for one in scan_error_signatures(ws, logs=[log], hours=24).signatures] == [
            "new"
        ]


def test_the_next_scan_reads_only_what_is_new(ws, tmp_path):
    log = write(tmp_path / "a.log", "2026-01-02 03:04:05 ERROR app: one")
    assert scan_error_signatures(ws, logs=[log]).total_events == 1
    assert scan_error_signatures(ws, logs=[log]).total_events == 1
    with log.open("a") as file:
        file.write("2026-01-02 03:05:05 ERROR app: one\n2026-01-02 03:05:06 ERROR app: half")
    assert scan_error_signatures(ws, logs=[log]).total_events == 3
    with log.open("a") as file:
        file.write(" a line\n2026-01-02 03:06:05 ERROR app: last\n")
    assert scan_error_signatures(ws, logs=[log]).total_events == 4


def test_a_rotated_log_is_read_anew(ws, tmp_path):
    log = write(tmp_path / "a.log", *["2026-01-02 03:04:05 ERROR app: one"] * 5)
    scan_error_signatures(ws, logs=[log])
    log.unlink()
    write(log, "2026-01-02 03:10:05 ERROR app: two")
    assert {one.signature: one.count for one in scan_error_signatures(ws, logs=[log]).signatures} == {
        "one": 5,
        "two": 1,
    }


def test_only_the_tail_of_a_large_log_is_read(ws, tmp_path):
    log = write(tmp_path / "a.log", "2026-01-02 03:04:05 ERROR app: early", *["2026-01-02 03:04:05 INFO app: x"] * 2_000,
                "2026-01-02 03:04:05 ERROR app: late")  # fmt: skip
    scan = scan_error_signatures(ws, logs=[log], tail_bytes=10_000)
    assert [one.signature for one in scan.signatures] == ["late"]
    assert scan.signatures[0].evidence == (f"log:{log}",)


def test_own_logs_and_missing_files_are_left_out_with_a_reason(ws, tmp_path):
    (ws.path / "logs").mkdir(parents=True)
    write(ws.path / "logs" / "own.log", "2026-01-02 03:04:05 ERROR x: y")
    log = write(
        tmp_path / "a.log",
        "2026-01-02 03:04:05 ERROR sitoolkit.nightly: fed back",
        "2026-01-02 03:04:05 ERROR app: real",
    )
    scan = scan_error_signatures(ws, logs=[tmp_path, tmp_path / "gone.log"])
    assert [one.signature for one in scan.signatures] == ["real"]
    assert {one.reason for one in scan.set_aside} == {"the toolkit's own file", "no such file"}
    assert log.exists()


def test_examples_are_redacted_and_cut_and_the_whole_stays_under_its_budget(ws, tmp_path):
    secret = "ghp_" + "FAKEsigs" * 4 + "FAKE"
    log = write(tmp_path / "a.log", f"2026-01-02 03:04:05 ERROR app: push with {secret} refused " + "long " * 500,
                *[f"2026-01-02 03:04:05 ERROR app{n}: kind {'x' * n} broke {'y' * n} again" for n in range(1, 40)])  # fmt: skip
    scan = scan_error_signatures(ws, logs=[log], total_chars=3_000)
    assert scan.truncated
    assert (scan.shown, scan.distinct_signatures) == (15, 40)
    assert secret not in scan.model_dump_json()
    assert sum(len(one.signature) + len(one.example) for one in scan.signatures) <= 3_000
    assert not any(secret in file.read_text() for file in (ws.path / "signatures").iterdir())


@pytest.mark.parametrize(("tier", "most"), [("small", 15), ("medium", 30), ("large", 60)])
def test_tiers(tmp_path, tier, most):
    words = [
        f"{a}{b}" for a in "bcdfghjk" for b in ("ar", "en", "il", "or", "un", "ax", "ep", "im", "ol", "us")
    ]
    log = write(
        tmp_path / "a.log", *[f"2026-01-02 03:04:05 ERROR {word} broke {word} again" for word in words]
    )
    scan = scan_error_signatures(logs=[log], now=NOW, tier=tier)
    assert (scan.shown, scan.truncated) == (most, True)


def test_a_rare_critical_error_outranks_a_frequent_one(ws, tmp_path):
    log = write(
        tmp_path / "a.log",
        *["2026-01-02 03:04:05 ERROR app: noise"] * 50,
        "2026-01-02 03:04:05 CRITICAL app: disk full",
    )
    assert [one.signature for one in scan_error_signatures(ws, logs=[log]).signatures] == [
        "disk full",
        "noise",
    ]


def test_what_was_never_seen_before_ranks_higher(ws, tmp_path):
    log = write(tmp_path / "a.log", *["2026-01-02 03:04:05 ERROR app: known"] * 4)
    scan_error_signatures(ws, logs=[log])
    with log.open("a") as file:
        file.write("2026-01-02 03:05:05 ERROR app: fresh\n")
    scan = scan_error_signatures(ws, logs=[log])
    assert [one.signature for one in scan.signatures] == ["fresh", "known"]
    assert [scan.details[one.id]["novel"] for one in scan.signatures] == [True, False]


def test_a_signature_that_widens_gets_a_new_version_and_a_mapping(ws, tmp_path):
    log = write(tmp_path / "a.log", "2026-01-02 03:04:05 ERROR app: link eth0 is down")
    (old,) = scan_error_signatures(ws, logs=[log]).signatures
    with log.open("a") as file:
        file.write("2026-01-02 03:05:05 ERROR app: link eth1 is down\n")
    scan = scan_error_signatures(ws, logs=[log])
    (new,) = scan.signatures
    assert new.id != old.id
    assert scan.details[new.id]["version"] == 2
    assert scan.replaced == {old.id: new.id} == signature_mapping(ws)


def test_cancelled_calls_and_old_calls_are_no_errors(ws):
    calls = [
        call(0, "x", outcome=Outcome.CANCELLED),
        call(1, "y", at=NOW - timedelta(days=3)),
        call(2, "z", outcome=Outcome.TIMEOUT),
    ]
    assert [one.signature for one in scan_error_signatures(ws, calls=calls).signatures] == ["z"]


def test_binary_and_empty_files_and_long_lines_do_no_harm(ws, tmp_path):
    (tmp_path / "empty.log").touch()
    (tmp_path / "binary.log").write_bytes(bytes(range(256)) * 200)
    write(tmp_path / "long.log", "2026-01-02 03:04:05 ERROR app: " + "x" * 300_000)
    assert scan_error_signatures(ws, logs=[tmp_path]).total_events == 1


def test_the_full_scan_counts_what_reading_every_line_counts(tmp_path):
    lines = []
    for n in range(3_000):
        lines.append(
            f"2026-01-01 0{n % 10}:00:{n % 60:02} {('INFO', 'ERROR', 'WARNING')[n % 3]} app.db: took {n}ms on python{2 + n % 2}"
        )
        if n % 50 == 1:
            lines += [
                "Traceback (most recent call last):",
                f'  File "/srv/a.py", line {n}, in run',
                "    go()",
                f"ValueError: bad {n}",
            ]
    log = write(tmp_path / "a.log", *lines)
    whole = scan_error_signatures(logs=[log], now=NOW, hours=100, full=True)
    read = scan_error_signatures(logs=[log], now=NOW, hours=100, tail_bytes=10**9)
    assert {one.signature: one.count for one in whole.signatures} == {
        one.signature: one.count for one in read.signatures
    }
    assert whole.total_events == 1_020  # a traceback behind an INFO line is an error of its own


def test_a_scan_that_is_killed_is_completed_by_the_next(ws, tmp_path):
    logs = [write(tmp_path / f"{n}.log", *["2026-01-02 03:04:05 ERROR app: boom"] * 20_000) for n in range(6)]
    code = (
        "import sys; from datetime import datetime, UTC; from sitoolkit.workspace import Workspace; "
        "from sitoolkit.loops.signatures import scan_error_signatures as scan; now = datetime(2026, 1, 2, 4, tzinfo=UTC); "
        "print('go', flush=True); scan(Workspace(sys.argv[1], clock=lambda: now), logs=sys.argv[2:])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(ws.path), *map(str, logs)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    deadline = time.monotonic() + 20
    while (
        not ScanLog(ws.path / "signatures").places()
        and time.monotonic() < deadline
        and process.poll() is None
    ):
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert scan_error_signatures(ws, logs=logs).total_events == 120_000


def test_tau_bench_errors_become_the_signatures_that_a_reader_would_name(traces, ws):
    from sitoolkit.transcripts import read_sessions

    folder = traces / "tau-bench"
    calls = [call for session in read_sessions(folder) for call in session.calls]
    scan = scan_error_signatures(calls=calls, hours=24, now=NOW, tier="large")
    named = {one.signature: one.count for one in scan.signatures}
    print(named)
    assert any("not found" in one for one in named)
    assert sum(named.values()) == sum(call.failed for call in calls)
