"""Runs a tool's code in a confined process: source and arguments come in, a result or a named refusal goes out.

What it protects from, on Linux: endless loops (wall clock and CPU limits), memory (address space limit), large files,
new processes and threads, programs, sockets, signals to others (seccomp), files outside of the temporary folder but for
Python's own (Landlock), the environment (empty), and floods of output (read up to a bound). What it does not protect
from: faults of the kernel or of Python itself, timing and cache side channels, reading what lies under Python's own
prefix, and a wrong but well-formed result. Where the kernel lacks a part, `Confinement` in the record says so.
"""

from __future__ import annotations

import ast
import json
import os
import selectors
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import Field

from sitoolkit.records import Record

__all__ = ["ConfinedRun", "HostFailure", "HostServices", "Limits", "NoHost", "check_source", "run_confined"]


class Limits(Record):
    """What a run may use: seconds of wall clock, megabytes of memory, megabytes a file, bytes of output."""

    seconds: float = 10.0
    memory_mb: int = 512
    file_mb: int = 8
    output_bytes: int = 1_000_000


class ConfinedRun(Record):
    """What came of a run. `confinement` tells, part by part, what the kernel enforced."""

    outcome: Literal["ok", "error", "timeout", "memory", "output", "refused", "killed", "invalid"]
    value: Any = None
    detail: str = ""
    error_type: str | None = None
    confinement: dict[str, str] = Field(default_factory=dict)
    seconds: float = 0.0
    host_seconds: float = 0.0  # of these, spent in calls that the host made
    calls: tuple[dict[str, Any], ...] = ()  # what the tool asked the host for


class HostServices(Protocol):
    """Answers what a tool asks for; raises `HostFailure` for a call that failed."""

    def serve(self, request: Mapping[str, Any]) -> Any:
        """Answer one request: {"op": "call" | "start" | "poll" | "sleep", ...}."""
        ...


class HostFailure(Exception):
    """A call that the host made has failed."""

    def __init__(self, message: str, mode: str, result: Any = None) -> None:
        super().__init__(message)
        self.mode, self.result = mode, result


class NoHost:
    """A host with no tools: every request fails."""

    def serve(self, request: Mapping[str, Any]) -> Any:
        """Refuse the request."""
        raise HostFailure("no tools are connected to this run", "TOOL_GAP")


# ---------------------------------------------------------------- before it runs

_REFUSED_MODULES = frozenset(
    [
        "_thread", "asyncio", "atexit", "builtins", "code", "codeop", "concurrent", "ctypes", "faulthandler", "fcntl", "gc",
        "importlib", "inspect", "marshal", "mmap", "multiprocessing", "os", "pdb", "pickle", "pkgutil", "posix", "pty", "resource",
        "runpy", "select", "selectors", "shelve", "shutil", "signal", "site", "socket", "socketserver", "ssl", "subprocess", "sys",
        "sysconfig", "tempfile", "threading", "trace", "tracemalloc", "webbrowser", "http", "ftplib", "smtplib", "xmlrpc",
    ]
)  # fmt: skip
_REFUSED_NAMES = frozenset(
    [
        "__import__",
        "eval",
        "exec",
        "compile",
        "globals",
        "locals",
        "vars",
        "breakpoint",
        "input",
        "getattr",
        "setattr",
        "delattr",
    ]
)


def check_source(source: str, allowed_imports: tuple[str, ...] = ()) -> list[str]:
    """List what a tool's source may not contain; an empty list means that it may be built.

    Imports are limited to the standard library less the modules that reach outside, and to `allowed_imports`. The check
    is the first fence, not the last: the process that runs the code is confined whatever this finds.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
        return [f"does not parse: {fault}"]
    faults: list[str] = []
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            )
            for name in names:
                root = name.partition(".")[0]
                if root in allowed_imports:
                    continue
                if (
                    root in _REFUSED_MODULES
                    or root not in sys.stdlib_module_names
                    or (isinstance(node, ast.ImportFrom) and node.level)
                ):
                    faults.append(f"line {line}: import of {name or '.'} is not allowed")
        elif isinstance(node, ast.Name) and node.id in _REFUSED_NAMES:
            faults.append(f"line {line}: {node.id} is not allowed")
        elif (
            isinstance(node, ast.Attribute)
            and node.attr.startswith("__")
            and node.attr not in ("__name__", "__doc__")
        ):
            faults.append(f"line {line}: attribute {node.attr} is not allowed")
    if not any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body):
        faults.append("defines no function run(args, host)")
    return faults


# ---------------------------------------------------------------- the run

_CHILD = Path(__file__).with_name("child.py")


def _readable() -> list[str]:
    """What the confined process may read: Python's own files and the system's shared libraries."""
    own = {sys.base_prefix, sys.prefix, sysconfig.get_paths()["stdlib"], str(_CHILD)}
    system = {
        "/lib",
        "/lib64",
        "/usr/lib",
        "/usr/lib64",
        "/etc/ld.so.cache",
        "/dev/urandom",
        "/usr/share/zoneinfo",
    }
    return sorted(own | system)


def run_confined(
    source: str,
    args: Any,
    *,
    host: HostServices | None = None,
    limits: Limits | None = None,
    allowed_imports: tuple[str, ...] = (),
    check: bool = True,
) -> ConfinedRun:
    """Run `run(args, host)` of a tool's source in a fresh confined process.

    >>> run_confined("def run(args, host):\\n    return args['a'] + 1", {"a": 1}).value
    2

    Args:
        source: text of the tool file.
        args: JSON value handed to `run`.
        host: answers the tool's requests; none by default.
        limits: time, memory, file size, output.
        allowed_imports: top-level packages beside the standard library.
        check: refuse what `check_source` finds; turned off by tests of the confinement itself.
    """
    limits = limits or Limits()
    host = host or NoHost()
    if check:
        faults = check_source(source, allowed_imports)
        if faults:
            return ConfinedRun(outcome="refused", detail="; ".join(faults[:5]))
    with tempfile.TemporaryDirectory(prefix="sitoolkit-tool-") as folder:
        job = {
            "source": source, "args": args, "folder": folder, "readable": _readable(), "seconds": limits.seconds,
            "memory_mb": limits.memory_mb, "file_mb": limits.file_mb,
        }  # fmt: skip
        flags = ["-I", "-B", *([] if allowed_imports else ["-S"])]
        process = subprocess.Popen(
            [sys.executable, *flags, str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd=folder,
            start_new_session=True,
        )
        try:
            return _converse(process, job, host, limits)
        finally:
            _end(process)


def _converse(
    process: subprocess.Popen[bytes], job: dict[str, Any], host: HostServices, limits: Limits
) -> ConfinedRun:
    assert process.stdin is not None and process.stdout is not None
    begun = time.monotonic()
    in_host = 0.0
    confinement: dict[str, str] = {}
    calls: list[dict[str, Any]] = []

    def ended(
        outcome: Any, detail: str = "", value: Any = None, error_type: str | None = None
    ) -> ConfinedRun:
        return ConfinedRun(
            outcome=outcome, value=value, detail=detail, error_type=error_type, confinement=confinement,
            seconds=time.monotonic() - begun, host_seconds=in_host, calls=tuple(calls),
        )  # fmt: skip

    if not _send(process, job):
        return ended("killed", "the process ended before it took its job")
    lines = _Lines(process.stdout.fileno(), limits.output_bytes)
    while True:
        try:
            line = lines.next(begun + limits.seconds + in_host)
        except TimeoutError:
            return ended("timeout", f"over {limits.seconds:g} s")
        except OverflowError:
            return ended("output", f"over {limits.output_bytes:,} bytes of output")
        if line is None:
            process.wait(5)
            killed = -process.returncode if process.returncode and process.returncode < 0 else 0
            if killed == getattr(signal, "SIGXCPU", -1):
                return ended("timeout", f"over {limits.seconds:g} s of processor time")
            name = signal.Signals(killed).name if killed else f"exit {process.returncode}"
            return ended("killed", f"the process ended without a result ({name})")
        try:
            message = json.loads(line)
            operation = message["op"]
        except (ValueError, KeyError, TypeError):
            return ended("invalid", "the process wrote something that is not of the protocol")
        if operation == "ready" and not confinement:
            confinement.update({str(key): str(value) for key, value in dict(message["confinement"]).items()})
        elif operation == "result":
            return ended("ok", value=message.get("value"))
        elif operation == "error":
            kind = str(message.get("kind"))
            outcome = (
                "memory"
                if kind == "memory"
                else "invalid"
                if "JSON" in str(message.get("message"))
                else "error"
            )
            return ended(outcome, str(message.get("message"))[:2000], error_type=kind)
        else:
            since = time.monotonic()
            calls.append(
                {
                    key: value
                    for key, value in message.items()
                    if key in ("op", "tool", "args", "handle", "seconds", "wait_s")
                }
            )
            try:
                answer: dict[str, Any] = {"value": host.serve(message)}
            except HostFailure as fault:
                answer = {"error": {"message": str(fault), "mode": fault.mode, "result": fault.result}}
            in_host += time.monotonic() - since
            if not _send(process, answer):
                return ended("killed", "the process ended while it waited for an answer")


def _send(process: subprocess.Popen[bytes], message: dict[str, Any]) -> bool:
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(message, default=str).encode() + b"\n")
        process.stdin.flush()
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


class _Lines:
    """Lines from a pipe, with a deadline and a bound on all bytes together."""

    def __init__(self, pipe: int, most: int) -> None:
        self._pipe, self._left = pipe, most
        self._buffer = bytearray()
        self._closed = False

    def next(self, until: float) -> bytes | None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_READ)
            while True:
                end = self._buffer.find(b"\n")
                if end >= 0:
                    line = bytes(self._buffer[:end])
                    del self._buffer[: end + 1]
                    return line
                if self._closed:
                    return None
                left = until - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise TimeoutError
                chunk = os.read(self._pipe, 65_536)
                self._closed = not chunk
                self._left -= len(chunk)
                if self._left < 0:
                    raise OverflowError
                self._buffer += chunk


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole process group and wait, so that nothing is left behind."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.poll()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                continue  # what was still to be written has no reader any more
    process.wait()
