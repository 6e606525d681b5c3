"""One writer at a time: a folder comes in, the right to write to it is held for the length of a `with`.

The lock is the operating system's (released when a process dies); a small file beside it says who holds it and since when.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from sitoolkit.errors import StoreLocked
from sitoolkit.records import iso, parse_time, utc_now
from sitoolkit.stores.log import decode, encode, explain_disk

__all__ = ["lock_holder", "writer_lock"]

LOCK_NAME = "writer.lock"
_HOLDER_NAME = "writer.json"
_held = threading.local()  # folder -> depth, for this thread


@contextmanager
def writer_lock(
    folder: str | os.PathLike[str], timeout_s: float = 30.0, *, doing: str = "write"
) -> Iterator[None]:
    """Hold the folder's writer lock; re-entrant within a thread, exclusive between threads and processes.

    >>> with writer_lock("/tmp/example-workspace", timeout_s=5, doing="distill"):
    ...     pass

    Args:
        folder: the workspace (or the store) that is written; made if it is missing.
        timeout_s: seconds to wait for another writer.
        doing: said to those who wait.

    Raises:
        StoreLocked: another writer still holds it after `timeout_s`; says who and since when.
        StoreError: the folder cannot be written.
    """
    key = os.path.realpath(folder)
    depths: dict[str, int] = _held.__dict__.setdefault("depths", {})
    if depths.get(key):
        depths[key] += 1
        try:
            yield
        finally:
            depths[key] -= 1
        return
    from filelock import FileLock, Timeout

    path = Path(key)
    with explain_disk(path):
        path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path / LOCK_NAME, thread_local=False)
        try:
            lock.acquire(timeout=timeout_s, poll_interval=0.01)
        except Timeout as fault:
            raise StoreLocked(_who(path, timeout_s)) from fault
    try:
        # Whoever waits reads this; it is never the lock itself, so a stale one does no harm.
        _say(path / _HOLDER_NAME, doing)
        depths[key] = 1
        yield
    finally:
        depths.pop(key, None)
        lock.release()


def lock_holder(folder: str | os.PathLike[str]) -> dict[str, Any] | None:
    """What the last holder of the lock said of itself: pid, host, since, doing; `None` if nobody ever held it."""
    try:
        said = decode((Path(folder) / _HOLDER_NAME).read_bytes())
    except (OSError, ValueError):
        return None
    return said if isinstance(said, dict) else None


def _say(file: Path, doing: str) -> None:
    text = encode({"pid": os.getpid(), "host": socket.gethostname(), "since": iso(utc_now()), "doing": doing})
    with explain_disk(file):
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            os.write(descriptor, text)
        finally:
            os.close(descriptor)


def _who(folder: Path, timeout_s: float) -> str:
    holder = lock_holder(folder) or {}
    since = parse_time(holder.get("since"))
    held = timedelta(seconds=round((utc_now() - since).total_seconds())) if since else None
    who = f"process {holder['pid']} on {holder.get('host')}" if holder.get("pid") else "another process"
    when = f" since {holder['since']} ({held}), to {holder.get('doing')}" if held is not None else ""
    return (
        f"{who} has been writing to {folder}{when}; waited {timeout_s:g} s. Run again when it is done, "
        "or raise store.lock_timeout_s (SITOOLKIT_STORE_LOCK_TIMEOUT_S)"
    )
