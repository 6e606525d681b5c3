"""Griffe extension for the docs: examples that stand in a docstring as `>>> …` are shown as code, not read as Markdown."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"(?:^|(?<=\n\n))((?:>>> .*\n?)(?:(?!\n).+\n?)*)", re.MULTILINE)


class FencedExamples(Extension):
    """Put a fence around each block that begins with `>>>` and ends at an empty line."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        if obj.docstring is not None and ">>>" in obj.docstring.value:
            obj.docstring.value = _EXAMPLE.sub(lambda found: f"```pycon\n{found[1].rstrip()}\n```\n", obj.docstring.value)
