"""Kills and crowds, in their short form; `make soak` runs the long one."""

from __future__ import annotations

from pathlib import Path

from tests.soak.crash import kill_again_and_again, many_at_once


def test_nothing_acknowledged_is_lost_and_nothing_stands_twice_when_writers_are_killed(
    tmp_path: Path,
) -> None:
    assert kill_again_and_again(tmp_path, 15) >= 15


def test_writers_and_readers_at_once_meet_no_error(tmp_path: Path) -> None:
    wrote, read = many_at_once(tmp_path, writers=2, readers=3, seconds=5)
    assert [told[2] for told in (*wrote, *read)] == [None] * 5
    assert all(done > 2 for done, _, _ in (*wrote, *read))
