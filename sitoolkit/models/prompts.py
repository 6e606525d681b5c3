"""Prompts as text files: a name comes in, the text with its version and where it was found goes out.

A file begins with `version: N`. A workspace overrides one by a file of the same name in its `prompts` folder, a plugin
by its `prompts` mapping; the workspace wins. `{word}` places are filled by name; other braces stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from sitoolkit.errors import ConfigError, NotFoundError
from sitoolkit.records import digest

__all__ = ["Prompt", "load_prompt", "prompt_names"]

_VERSION = re.compile(r"\Aversion: *(\d+) *\n")


@dataclass(frozen=True)
class Prompt:
    """A prompt's text, its version, and the file or plugin that it comes from."""

    name: str
    version: int
    text: str
    origin: str

    @property
    def sha256(self) -> str:
        """Digest of the text, kept beside what a model answered to it."""
        return digest(self.text)

    def fill(self, **values: str) -> str:
        """Put the values at their `{name}` places, all at once, so that a value can hold braces.

        Raises:
            ConfigError: a value has no place in the text, so the prompt would not carry it.
        """
        missing = [name for name in values if f"{{{name}}}" not in self.text]
        if missing:
            raise ConfigError(f"prompt {self.name!r} from {self.origin} has no place {{{missing[0]}}}")
        return re.sub(r"\{(\w+)\}", lambda place: values.get(place[1], place[0]), self.text)


def prompt_names() -> list[str]:
    """Names of the prompts in the package."""
    return sorted(
        entry.name.removesuffix(".txt") for entry in _folder().iterdir() if entry.name.endswith(".txt")
    )


def load_prompt(name: str, workspace: Path | None = None, plugins: Mapping[str, str] | None = None) -> Prompt:
    """Find a prompt: in the workspace, else among the plugins' texts, else in the package.

    Raises:
        NotFoundError: no prompt of that name ships with the package.
        ConfigError: the text does not begin with `version: N`.
    """
    if name not in prompt_names():
        raise NotFoundError(f"no prompt {name!r}; there are {', '.join(prompt_names())}")
    own = workspace / "prompts" / f"{name}.txt" if workspace else None
    if own is not None and own.is_file():
        return _parse(name, own.read_text(encoding="utf-8"), str(own))
    if plugins and name in plugins:
        return _parse(name, plugins[name], "plugin")
    return _parse(name, _folder().joinpath(f"{name}.txt").read_text(encoding="utf-8"), "package")


def _parse(name: str, text: str, origin: str) -> Prompt:
    head = _VERSION.match(text)
    if head is None:
        raise ConfigError(f"prompt {name!r} from {origin} must begin with a line 'version: N'")
    return Prompt(name, int(head[1]), text[head.end() :].strip() + "\n", origin)


def _folder() -> Traversable:
    return files("sitoolkit.models").joinpath("prompt_texts")
