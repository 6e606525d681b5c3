"""Which bytes of which log files are to be read: comes in paths and earlier places, goes out lines with their numbers."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sitoolkit.stores.scans import Place, file_head

__all__ = ["LogPart", "find_logs", "open_part"]

UNKNOWN_LINE = -(1 << 40)  # lines before a tail are not counted; numbers after it stay below zero
_LOG_NAMES = ("*.log", "*.log.[0-9]*", "*.err", "*.out")


@dataclass(frozen=True)
class LogPart:
    """The part of a file that one scan reads."""

    path: Path
    lines: list[str]
    first_line: (
        int  # number of the first of them, as far as it is known: 1 when the file was read from its start
    )
    place: Place  # where the next scan goes on
    skipped_bytes: int  # before the tail, never read


def find_logs(
    paths: Iterable[str | Path], leave_out: Path | None = None
) -> tuple[list[Path], list[tuple[str, str]]]:
    """Files behind paths, folders and globs, sorted; and what is left out with the reason.

    Args:
        paths: files are taken as they are; a folder gives its `*.log`, `*.err`, `*.out` and numbered logs, at any depth.
        leave_out: the workspace: the toolkit's own files would feed a scan back to itself.
    """
    found: set[Path] = set()
    aside: list[tuple[str, str]] = []
    for given in paths:
        text = str(given)
        path = Path(given)
        if path.is_dir():
            found.update(file for pattern in _LOG_NAMES for file in path.rglob(pattern) if file.is_file())
        elif path.exists():
            found.add(path)
        elif any(mark in text for mark in "*?["):
            matched = [Path(name) for name in glob.glob(text, recursive=True)]  # noqa: PTH207 - Path.glob refuses absolute patterns
            found.update(file for file in matched if file.is_file())
            if not matched:
                aside.append((text, "no file matches"))
        else:
            aside.append((text, "no such file"))
    own = leave_out.resolve() if leave_out else None
    kept = {}
    for file in found:
        whole = file.resolve()
        if own is not None and whole.is_relative_to(own):
            aside.append((str(file), "the toolkit's own file"))
        else:
            kept[whole] = file
    return [kept[whole].absolute() for whole in sorted(kept)], sorted(aside)


def open_part(path: Path, place: Place | None, tail_bytes: int) -> LogPart | None:
    """Read what is new in a file since `place`, at most its last `tail_bytes`; None when nothing is.

    Raises:
        OSError: the file cannot be read.
    """
    state = path.stat()
    size = state.st_size
    if size == 0:
        return None
    start, line, open_line = 0, 0, False
    if place is not None and place.inode == state.st_ino and size >= place.offset:
        head, _ = file_head(path, place.head_bytes)
        if head == place.head:
            if size == place.size:
                return None
            start, line, open_line = place.offset, place.line, place.open_line
    skipped = 0
    with path.open("rb") as file:
        if size - start > tail_bytes:
            skipped = size - tail_bytes - start
            file.seek(size - tail_bytes - 1)
            before = file.read(1)
            data = file.read(tail_bytes)
            begin = size - len(data)
            if before != b"\n":
                cut = data.find(b"\n") + 1
                data, begin = data[cut:], begin + cut
            line, open_line = UNKNOWN_LINE, False
        else:
            file.seek(start)
            data = file.read(size - start)
            begin = start
    end = begin + len(data)
    whole = data.rfind(b"\n") + 1
    texts = data.decode("utf-8", "replace").split("\n")
    if texts and not texts[-1]:
        texts.pop()
    if open_line and texts:  # counted by the scan before, when it was not complete
        texts[0] = ""
    unfinished = whole < len(data)
    head, head_bytes = file_head(path, size)
    lines = line + data.count(b"\n")
    next_place = Place(
        offset=begin + whole if unfinished else end,
        line=lines,
        inode=state.st_ino,
        head=head,
        head_bytes=head_bytes,
        size=end,
        open_line=unfinished,
    )
    return LogPart(path, texts, line + 1, next_place, skipped)


def whole_lines(path: Path) -> Iterator[str]:
    """Every line of a file, in bounded memory."""
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        yield from file
