"""Hostile tools, each contained or refused, and named in the record."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from sitoolkit.sandbox import HostFailure, Limits, check_source, run_confined

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the kernel parts of the confinement are Linux's"
)
LIMITS = Limits(seconds=1.5)


def run(source: str, args: object = None, **more):
    """Run without the static check: the process itself must hold."""
    return run_confined(source, args, limits=LIMITS, check=False, **more)


def test_a_good_tool_returns_its_value_and_the_record_says_what_was_enforced():
    done = run("def run(args, host):\n    return {'sum': args['a'] + 1}", {"a": 1})
    assert (done.outcome, done.value) == ("ok", {"sum": 2})
    assert set(done.confinement) == {"limits", "files", "processes_and_network"}
    assert done.confinement["limits"] == "on"


HOSTILE = {
    "endless loop": ("def run(a, h):\n while True: pass", "timeout", "over 1.5 s"),
    "fork bomb": ("import os\ndef run(a, h):\n while True: os.fork()", "error", "fork"),
    "fork by the library": (
        "import ctypes\ndef run(a, h):\n return ctypes.CDLL(None).fork()",
        "error",
        "ctypes",
    ),
    "threads": (
        "import threading\ndef run(a, h):\n threading.Thread(target=print).start()",
        "error",
        "thread",
    ),
    "10 GB": ("def run(a, h):\n return len(bytearray(10 << 30))", "memory", "memory"),
    "slow growth": ("def run(a, h):\n x = []\n while True: x.append('y' * 1_000_000)", "memory", "memory"),
    "write outside": (
        "def run(a, h):\n open('/tmp/sitoolkit-evil', 'w').write('x')",
        "error",
        "Permission denied",
    ),
    "read outside": ("def run(a, h):\n return open('/etc/passwd').read()", "error", "Permission denied"),
    "large file": (
        "def run(a, h):\n f = open('x', 'wb')\n while True: f.write(b'0' * 1_000_000)",
        "error",
        "too large",
    ),
    "socket": (
        "import socket\ndef run(a, h):\n socket.create_connection(('127.0.0.1', 9))",
        "error",
        "socket",
    ),
    "program": (
        "import subprocess\ndef run(a, h):\n subprocess.run(['/bin/sh', '-c', 'id'])",
        "error",
        "subprocess",
    ),
    "kill the parent": ("import os\ndef run(a, h):\n os.kill(os.getppid(), 9)", "error", "not permitted"),
    "1 GB of result": ("def run(a, h):\n return 'x' * (1 << 30)", "memory", "memory"),
    "2 MB of result": ("def run(a, h):\n return 'x' * 2_000_000", "output", "bytes of output"),
    "not JSON": ("def run(a, h):\n return {1, 2}", "invalid", "JSON"),
    "not a number": ("def run(a, h):\n return float('nan')", "invalid", "JSON"),
    "leaves without a word": ("import os\ndef run(a, h):\n os._exit(0)", "killed", "without a result"),
    "garbage on the pipe": (
        "import os\ndef run(a, h):\n [os.write(n, b'junk\\n') for n in range(3, 9)]",
        "*",
        "",
    ),
    "exit": ("def run(a, h):\n raise SystemExit(0)", "error", "0"),
    "deep recursion": ("def run(a, h):\n return run(a, h)", "error", "recursion"),
    "does not parse": ("def run(a, h:\n", "error", "never closed"),
    "no run": ("x = 1", "error", "run"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_tool_is_contained_and_named(name):
    source, outcome, words = HOSTILE[name]
    begun = time.monotonic()
    done = run(source)
    assert time.monotonic() - begun < 8
    if outcome == "*":
        assert done.outcome in ("invalid", "error", "killed")
    else:
        assert (done.outcome, words.lower() in done.detail.lower()) == (outcome, True), done.detail
    assert not Path("/tmp/sitoolkit-evil").exists()


def test_the_environment_is_empty(monkeypatch):
    monkeypatch.setenv("SITOOLKIT_TEST_WORD", "visible")
    done = run("import os\ndef run(a, h):\n return dict(os.environ)")
    assert set(done.value) <= {"LC_CTYPE"}


def test_prints_do_not_reach_the_answer_however_many_they_are():
    done = run("def run(a, h):\n for _ in range(200): print('x' * 100_000)\n return 1")
    assert (done.outcome, done.value) == ("ok", 1)


def test_no_process_is_left_behind():
    before = {entry for entry in os.listdir("/proc") if entry.isdigit()}
    run("def run(a, h):\n while True: pass")
    left = [p for p in os.listdir("/proc") if p.isdigit() and p not in before and _is_child(p)]
    assert left == []


def _is_child(pid: str) -> bool:
    try:
        return b"sandbox/child.py" in Path(f"/proc/{pid}/cmdline").read_bytes() and (
            Path(f"/proc/{pid}/stat").read_text().split()[3] == str(os.getpid())
        )
    except OSError:
        return False


def test_a_tool_calls_the_agents_tools_through_its_host_alone():
    class Host:
        def serve(self, request):
            if request["op"] == "call" and request["args"].get("bad"):
                raise HostFailure("connection reset", "NETWORK", {"status": 503})
            return {"echo": request.get("args")}

    source = """
def run(args, host):
    try:
        host.call("fetch", {"bad": True})
    except CallFailed as fault:
        seen = [fault.mode, fault.result]
    return seen + [host.call("fetch", {"k": 2})]
"""
    done = run_confined(source, {}, host=Host(), limits=LIMITS)
    assert done.value == ["NETWORK", {"status": 503}, {"echo": {"k": 2}}]
    assert [call["args"] for call in done.calls] == [{"bad": True}, {"k": 2}]


@pytest.mark.parametrize(
    "source",
    [
        "import os\ndef run(a, h): return 1",
        "from subprocess import run as r\ndef run(a, h): return 1",
        "import numpy\ndef run(a, h): return 1",
        "def run(a, h): return ().__class__.__bases__",
        "def run(a, h): return eval('1')",
        "def run(a, h): return getattr(h, '_ask')",
        "def helper(): return 1",
        "from . import x\ndef run(a, h): return 1",
        "(" * 5_000,
    ],
)
def test_what_a_source_may_not_contain_is_refused_before_it_runs(source):
    assert check_source(source)
    assert run_confined(source, None).outcome == "refused"


def test_listed_packages_may_be_imported():
    assert check_source("import numpy\ndef run(a, h): return 1", ("numpy",)) == []
