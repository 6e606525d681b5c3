"""Paths become sessions: in come files, folders and globs, out comes one session after another, and a filled report."""

from __future__ import annotations

import glob
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from sitoolkit.errors import ParameterError, TranscriptError
from sitoolkit.records import Session, digest
from sitoolkit.transcripts.base import ReadReport, TranscriptFile
from sitoolkit.transcripts.detect import choose, choose_folder, reader_named

__all__ = ["find_transcripts", "found_in", "read_sessions"]

_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", ".git", ".venv", "venv", ".ipynb_checkpoints"})
Paths = str | os.PathLike[str] | IO[bytes] | IO[str] | Iterable[str | os.PathLike[str] | IO[bytes] | IO[str]]


def read_sessions(
    paths: Paths, format: str | None = None, report: ReadReport | None = None
) -> Iterator[Session]:
    """Read transcripts of any known format, one session at a time, as they are: callers redact (`redaction.seal`).

    >>> for session in read_sessions("runs/", report=(report := ReadReport())):
    ...     print(session.id, len(session.calls))

    Args:
        paths: a file, a folder (read in order of path, with its subfolders), a glob, `-` for standard input, an open file,
            or several of them.
        format: name of the format; by default each file's content tells.
        report: filled with counts and with everything that was set aside.

    Raises:
        TranscriptError: the one file that was asked for is empty, unknown or unreadable, or nothing was found. Where
            several files are read, such a file is set aside in the report and the others go on.
        ParameterError: no reader has the name `format`, or a path is empty.
    """
    report = ReadReport() if report is None else report
    reader = reader_named(format) if format else None
    asked = [paths] if isinstance(paths, str | os.PathLike) or hasattr(paths, "read") else list(paths)
    if "" in asked:  # an unset variable; to pathlib it is the current folder, all of which would be taken in
        raise ParameterError("a path is empty; the current folder is written `.`")
    with ExitStack() as until_read:
        yield from _read_all([_on_disk(item, until_read) for item in asked], reader, report)


def _on_disk(item: Any, until_read: ExitStack) -> str | os.PathLike[str]:
    """A path; what is no path (`-` for standard input, or an open file) is copied to a temporary one first."""
    if item == "-":
        item = sys.stdin.buffer
    elif not hasattr(item, "read"):
        return item  # type: ignore[no-any-return]
    folder = until_read.enter_context(tempfile.TemporaryDirectory(prefix="sitoolkit-read-"))
    name = getattr(item, "name", "")
    path = Path(folder) / (Path(name).name.strip("<>") if isinstance(name, str) and name else "stream")
    begin = b""
    with path.open("wb") as copy:
        while part := item.read(1 << 20):
            data = part.encode("utf-8") if isinstance(part, str) else part
            begin = begin or data[:4096]
            copy.write(data)
    if path.name in (
        "stdin",
        "stream",
    ):  # no name tells two of them apart, and none makes the same one again the same
        path = path.rename(path.with_name(f"{path.name}-{digest(begin.decode('utf-8', 'replace'))[:8]}"))
    return path


def _read_all(asked: list[str | os.PathLike[str]], reader: Any, report: ReadReport) -> Iterator[Session]:
    found = list(found_in(asked))
    if not found:
        names = ", ".join(str(path) for path in asked) or "no path"
        raise TranscriptError(f"{names}: nothing found to read", file=names, reason="nothing found to read")
    alone = len(found) == 1 and found[0][0] == Path(asked[0])
    for path, folder_reader in found:
        report.files += 1
        try:
            if folder_reader is not None:
                sessions = folder_reader[0].read_folder(path, report)
                report.formats[folder_reader[0].NAME] += 1
            else:
                source = TranscriptFile(path)
                chosen = reader or choose(source)[0]
                _ = source.head  # an empty file is told here, whoever reads it
                sessions = chosen.read(source, report)
                report.formats[chosen.NAME] += 1
            for session in sessions:
                report.saw(session)
                yield session
        except TranscriptError as fault:
            if alone:
                raise
            report.put_aside(fault.file or str(path), fault.line, fault.reason.removeprefix(f"{path}: "))
        except Exception as fault:
            # A reader, perhaps a plugin's, met a shape that it did not think of: the file is named, the others are read.
            reason = f"the reader does not understand it ({type(fault).__name__}: {str(fault)[:200]})"
            if alone:
                raise TranscriptError(f"{path}: {reason}", file=str(path), reason=reason) from fault
            report.put_aside(str(path), None, reason)


def found_in(asked: Iterable[str | os.PathLike[str]]) -> Iterator[tuple[Path, Any]]:
    """Each file once, and each folder that is a transcript as a whole with its reader and match."""
    seen: set[Path] = set()
    for name in asked:
        path = Path(name)
        if path.exists():
            places = find_transcripts(path)
        elif glob.has_magic(str(path)):
            matches = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
            places = (place for match in matches for place in find_transcripts(Path(match)))
        else:
            raise TranscriptError(
                f"{path}: no such file or folder", file=str(path), reason="no such file or folder"
            )
        for place, reader in places:
            key = place.resolve()
            if key not in seen:
                seen.add(key)
                yield place, reader


def find_transcripts(path: Path) -> Iterator[tuple[Path, Any]]:
    """The files to read under a path, in order of name, and the folders that one reader takes as a whole.

    Hidden files and folders of tools are passed over.
    """
    if not path.is_dir():
        yield path, None
        return
    whole = choose_folder(path)
    if whole is not None:
        yield path, whole
        return
    for inner in sorted(path.iterdir(), key=lambda item: item.name):
        if inner.name.startswith(".") or inner.name in _SKIPPED_FOLDERS:
            continue
        if inner.is_dir() or inner.is_file():
            yield from find_transcripts(inner)
