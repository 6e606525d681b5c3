"""Where the files that come with sitoolkit lie: notebooks, guides and demo transcripts, in a wheel or in a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from sitoolkit.errors import NotFoundError

__all__ = ["demo_transcripts", "shipped"]


def shipped(kind: Literal["notebooks", "guides", "data"]) -> Path:
    """The folder of shipped files.

    >>> (shipped("notebooks") / "00_quickstart.ipynb").is_file()
    True

    Raises:
        NotFoundError: neither the installed package nor a checkout around it has the folder.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "_shipped" / kind, package.parent / kind):
        if folder.is_dir():
            return folder
    raise NotFoundError(
        f"no {kind} beside {package}; install sitoolkit again with `pip install --force-reinstall`"
    )


def demo_transcripts() -> Path:
    """The folder of the shipped demo transcripts: some sixty sessions in three formats, with planted conventions and failures."""
    return shipped("data") / "transcripts"
