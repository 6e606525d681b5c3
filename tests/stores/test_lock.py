"""The writer lock: one writer at a time, who waits learns for whom."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from pathlib import Path

from sitoolkit.errors import StoreLocked
from sitoolkit.stores.lock import lock_holder, writer_lock


def test_it_is_reentrant_within_a_thread(tmp_path: Path) -> None:
    with writer_lock(tmp_path), writer_lock(tmp_path, 0):
        pass
    with writer_lock(tmp_path, 0):
        pass


def test_another_thread_waits_and_is_told_who_and_since_when(tmp_path: Path) -> None:
    told: list[str] = []

    def try_it() -> None:
        try:
            with writer_lock(tmp_path, 0.05):
                told.append("entered")
        except StoreLocked as fault:
            told.append(str(fault))

    with writer_lock(tmp_path, doing="distill"):
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
    assert f"process {os.getpid()}" in told[0]
    assert "to distill" in told[0]
    assert "since 20" in told[0]
    assert StoreLocked.exit_code == 3


def _hold(folder: str, ready: object, seconds: float) -> None:
    with writer_lock(folder, doing="capture"):
        ready.set()  # type: ignore[attr-defined]
        time.sleep(seconds)


def test_another_process_waits_its_turn(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    ready = context.Event()
    holder = context.Process(target=_hold, args=(str(tmp_path), ready, 0.3))
    holder.start()
    assert ready.wait(10)
    started = time.monotonic()
    with writer_lock(tmp_path, 10):
        assert time.monotonic() - started > 0.1
    holder.join()


def test_a_killed_holder_leaves_the_lock_free(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    ready = context.Event()
    holder = context.Process(target=_hold, args=(str(tmp_path), ready, 60))
    holder.start()
    assert ready.wait(10)
    holder.kill()
    holder.join()
    with writer_lock(tmp_path, 1):
        said = lock_holder(tmp_path)
        assert said is not None
        assert said["pid"] == os.getpid()


def test_nobody_ever_held_it(tmp_path: Path) -> None:
    assert lock_holder(tmp_path) is None
