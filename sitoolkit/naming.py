"""Makes names that are safe everywhere: any text comes in, a short lower-case name goes out."""

from __future__ import annotations

import re

__all__ = ["safe_name"]


def safe_name(text: str, *, most: int = 50) -> str:
    """A name of lower-case letters, digits and `_`, beginning with a letter: safe on every file system and as an identifier.

    >>> safe_name("../Bash: run it")
    'bash_run_it'

    Args:
        text: whatever the name should remind of.
        most: longest length in characters.
    """
    words = re.findall(r"[a-z0-9]+", re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text).lower())
    name = "_".join(words)[:most].strip("_") or "unnamed"
    return name if name[0].isalpha() else f"n_{name}"[:most]
