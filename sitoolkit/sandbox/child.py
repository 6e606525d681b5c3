"""Runs inside the confined process: confines itself, loads one tool file, calls its `run`, answers on the pipe.

Started as a script by `sitoolkit.sandbox.confined`, with nothing of sitoolkit imported: standard library only. Comes in
on standard input: one JSON line with the job, later one line for each answer of the host. Goes out on standard output:
one JSON line for each request to the host, and at the end one with the result or the error.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import struct
import sys
from typing import Any

# Refused after confinement: new processes and programs, sockets, signals to others, raised limits, and the doors that
# kernels have had to close most often. Numbers are the kernel's system call tables.
_SYSCALLS = {
    "x86_64": (
        0xC000003E,
        {
            "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "kill": 62, "clone3": 435, "execveat": 322, "socket": 41,
            "connect": 42, "socketpair": 53, "ptrace": 101, "tkill": 200, "tgkill": 234, "rt_sigqueueinfo": 129,
            "pidfd_send_signal": 424, "pidfd_open": 434, "setrlimit": 160, "prlimit64": 302, "mount": 165, "unshare": 272,
            "setns": 308, "chroot": 161, "bpf": 321, "io_uring_setup": 425, "process_vm_readv": 310,
            "process_vm_writev": 311, "perf_event_open": 298, "keyctl": 250, "add_key": 248, "userfaultfd": 323,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "clone": 220, "execve": 221, "kill": 129, "clone3": 435, "execveat": 281, "socket": 198, "connect": 203,
            "socketpair": 199, "ptrace": 117, "tkill": 130, "tgkill": 131, "rt_sigqueueinfo": 138,
            "pidfd_send_signal": 424, "pidfd_open": 434, "setrlimit": 164, "prlimit64": 261, "mount": 40, "unshare": 97,
            "setns": 268, "chroot": 51, "bpf": 280, "io_uring_setup": 425, "process_vm_readv": 270,
            "process_vm_writev": 271, "perf_event_open": 241, "keyctl": 219, "add_key": 217, "userfaultfd": 282,
        },
    ),
}  # fmt: skip
_LANDLOCK_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read file, read folder
_LANDLOCK_ALL = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_REFUSED_EVENTS = (
    "socket.",
    "subprocess.",
    "os.system",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.spawn",
    "ctypes.",
    "pty.",
)


def _limit(job: dict[str, Any]) -> str:
    try:
        import resource
    except ImportError:
        return "none: this system has no resource limits"
    megabytes = 1 << 20
    wanted = (
        (resource.RLIMIT_CPU, int(job["seconds"]) + 1),
        (resource.RLIMIT_AS, job["memory_mb"] * megabytes),
        (resource.RLIMIT_FSIZE, job["file_mb"] * megabytes),
        (resource.RLIMIT_NOFILE, 32),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    )
    for which, value in wanted:
        _, hard = resource.getrlimit(which)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))
    return "on"


def _landlock(libc: ctypes.CDLL, readable: list[str], writable: str) -> str:
    abi = libc.syscall(444, None, 0, 1)
    if abi < 1:
        return "none: the kernel has no Landlock"
    handled = _LANDLOCK_ALL.get(abi, (1 << 16) - 1)
    attribute = struct.pack("QQQ", handled, 0, 0)[: 8 if abi < 4 else 16 if abi < 6 else 24]
    rules = libc.syscall(444, attribute, len(attribute), 0)
    if rules < 0:
        return f"none: Landlock refused ({errno.errorcode.get(ctypes.get_errno(), '?')})"
    for path, access in [
        *((path, _LANDLOCK_READ) for path in readable),
        (writable, handled & ~1),
        ("/dev/null", 1 << 1 | 1 << 2),
    ]:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        if not os.path.isdir(path):  # noqa: PTH112 - pathlib would be imported for this alone
            access &= 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
        libc.syscall(445, rules, 1, struct.pack("=Qi", access & handled, place), 0)
        os.close(place)
    if libc.syscall(446, rules, 0) != 0:
        return f"none: Landlock refused ({errno.errorcode.get(ctypes.get_errno(), '?')})"
    os.close(rules)
    return "on"


def _seccomp(libc: ctypes.CDLL) -> str:
    arch, calls = _SYSCALLS.get(platform.machine(), (0, {}))
    if not calls:
        return f"none: no table for {platform.machine()}"
    load, equal, greater, answer = 0x20, 0x15, 0x35, 0x06
    refuse = struct.pack("HBBI", answer, 0, 0, 0x00050000 | errno.EPERM)
    program = [struct.pack("HBBI", load, 0, 0, 4), struct.pack("HBBI", equal, 1, 0, arch), refuse]
    program += [struct.pack("HBBI", load, 0, 0, 0), struct.pack("HBBI", greater, 0, 1, 0x40000000), refuse]
    for number in calls.values():
        program += [struct.pack("HBBI", equal, 0, 1, number), refuse]
    program.append(struct.pack("HBBI", answer, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(program))

    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_void_p))

    wrapped = Filter(len(program), ctypes.cast(code, ctypes.c_void_p))
    if libc.prctl(22, 2, ctypes.byref(wrapped), 0, 0) != 0:
        return f"none: seccomp refused ({errno.errorcode.get(ctypes.get_errno(), '?')})"
    return "on"


def _confine(job: dict[str, Any]) -> dict[str, str]:
    applied = {"limits": _limit(job), "files": "none: not Linux", "processes_and_network": "none: not Linux"}
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(38, 1, 0, 0, 0)  # no new privileges: what both of the following need
        applied["files"] = _landlock(libc, job["readable"], job["folder"])
        applied["processes_and_network"] = _seccomp(libc)

    def refuse(event: str, args: tuple[object, ...]) -> None:
        if event.startswith(_REFUSED_EVENTS):
            raise PermissionError(f"refused in a tool: {event}")

    sys.addaudithook(refuse)
    return applied


class Host:
    """What a tool may ask of the process that runs it."""

    def __init__(self, ask: Any) -> None:
        self._ask = ask

    def call(self, tool: str, args: Any, timeout_s: float | None = None) -> Any:
        """Call a tool of the agent and wait for its result; a failed call raises `CallFailed`."""
        return self._ask({"op": "call", "tool": tool, "args": args, "timeout_s": timeout_s})

    def start(self, tool: str, args: Any) -> str:
        """Start a call in the background; the handle outlives this run of the tool."""
        return str(self._ask({"op": "start", "tool": tool, "args": args}))

    def poll(self, handle: str, wait_s: float = 0.0) -> Any:
        """State of a background call: {"done": bool, "result": ...}; waits up to `wait_s` seconds for it."""
        return self._ask({"op": "poll", "handle": handle, "wait_s": wait_s})

    def sleep(self, seconds: float) -> None:
        """Wait, on the host's clock."""
        self._ask({"op": "sleep", "seconds": seconds})


class CallFailed(Exception):
    """A call that a tool asked for has failed; `mode` is its failure mode, `result` what came back."""

    def __init__(self, message: str, mode: str = "RUNTIME", result: Any = None) -> None:
        super().__init__(message)
        self.mode, self.result = mode, result


def main() -> None:
    """Read the job, confine this process, run the tool, answer."""
    answers = os.fdopen(os.dup(0), "rb", buffering=0)
    requests = os.dup(1)
    os.dup2(2, 1)  # what the tool prints is not an answer
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    reader = os.fdopen(answers.fileno(), "rb", closefd=False)

    def tell(message: dict[str, Any]) -> None:
        data = json.dumps(message, allow_nan=False).encode() + b"\n"
        while data:
            data = data[os.write(requests, data) :]

    def ask(message: dict[str, Any]) -> Any:
        tell(message)
        line = reader.readline()
        if not line:
            raise CallFailed("the host has gone")
        answer = json.loads(line)
        if "error" in answer:
            raise CallFailed(
                answer["error"].get("message", ""),
                answer["error"].get("mode", "RUNTIME"),
                answer["error"].get("result"),
            )
        return answer.get("value")

    job = json.loads(reader.readline())
    os.chdir(job["folder"])
    source = job["source"]
    confinement = _confine(job)
    tell({"op": "ready", "confinement": confinement})
    try:
        space: dict[str, Any] = {"__name__": "tool", "CallFailed": CallFailed, "Host": Host}
        exec(compile(source, "tool.py", "exec"), space)
        tell({"op": "result", "value": space["run"](job["args"], Host(ask))})
    except MemoryError:
        tell({"op": "error", "kind": "memory", "message": "out of memory"})
    except BaseException as fault:  # noqa: BLE001 - whatever a tool raises becomes its record
        tell({"op": "error", "kind": type(fault).__name__, "message": str(fault)[:2000]})


if __name__ == "__main__":
    main()
