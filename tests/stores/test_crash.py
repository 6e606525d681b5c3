"""Kills and crowds, in their short form; `make soak` runs the long one."""

from __future__ import annotations

import resource
import signal
from pathlib import Path
from typing import Any

from sitoolkit.errors import StoreError
from tests.soak.crash import CONTEXT, kill_again_and_again, many_at_once, open_ws
from tests.stores.making import call, event


def test_nothing_acknowledged_is_lost_and_nothing_stands_twice_when_writers_are_killed(
    tmp_path: Path,
) -> None:
    assert kill_again_and_again(tmp_path, 15) >= 15


def test_writers_and_readers_at_once_meet_no_error(tmp_path: Path) -> None:
    wrote, read = many_at_once(tmp_path, writers=2, readers=3, seconds=5)
    assert [told[2] for told in (*wrote, *read)] == [None] * 5
    assert all(done > 2 for done, _, _ in (*wrote, *read))


def _fill_the_disk(path: str, answers: Any) -> None:
    """Write with less and less room, as a full disk gives it; tells which errors came."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    ws = open_ws(path)
    ws.memory.upsert([event(number) for number in range(50)])
    ws.telemetry.append("calls", [call(number) for number in range(50)])
    said: list[str] = []
    for room in (200_000, 60_000, 20_000, 6_000, 1_500, 300):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        for write in (
            lambda r=room: ws.memory.upsert([event(r + number) for number in range(300)]),
            lambda r=room: ws.telemetry.append("calls", [call(r + number) for number in range(300)]),
            ws.memory.optimize,
        ):
            try:
                write()
                said.append("")
            except StoreError as fault:
                said.append(str(fault))
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        answers.put(
            (
                room,
                said,
                ws.memory.check(),
                len(ws.memory.rows()),
                ws.telemetry.sql("select count(*) from calls").item(),
            )
        )
        said = []
    answers.put(None)


def test_a_full_disk_is_a_clear_error_and_every_write_whole_or_none(tmp_path: Path) -> None:
    answers = CONTEXT.SimpleQueue()
    writer = CONTEXT.Process(target=_fill_the_disk, args=(str(tmp_path / "ws"), answers))
    writer.start()
    told = []
    while (answer := answers.get()) is not None:
        told.append(answer)
    writer.join()
    assert writer.exitcode == 0
    for _, _, problems, memories, calls in told:
        assert problems == []
        assert (memories - 50) % 300 == 0
        assert (calls - 50) % 300 == 0
    errors = [text for _, said, *_ in told for text in said if text]
    assert errors, "the room was never too small"
    assert all("no space is left; nothing of this write was kept; free some space" in text for text in errors)
    ws = open_ws(tmp_path / "ws")
    assert ws.memory.upsert([event(900_000 + number) for number in range(300)]).written == 300
    assert ws.memory.check() == []
    assert ws.journal.verify().ok
