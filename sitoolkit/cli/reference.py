"""The reference pages: comes in the commands and settings themselves, goes out Markdown, kept true by `make docs` and a test."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import click
from pydantic import BaseModel

from sitoolkit.cli import COMMANDS, cli
from sitoolkit.settings import Settings

__all__ = ["reference", "settings_table"]


def reference() -> str:
    """The help of every command that is there, as Markdown."""
    top = click.Context(cli, info_name="sitoolkit", color=False, max_content_width=100, terminal_width=100)
    parts = ["\n"]
    for name in COMMANDS:
        try:
            command = cli.get_command(top, name)
        except click.UsageError:
            continue
        if command is not None:
            parts += _pages(command, top, f"sitoolkit {name}", name, 2)
    return "".join(parts)


def _pages(command: click.Command, parent: click.Context, title: str, name: str, level: int) -> Iterator[str]:
    context = click.Context(
        command, info_name=name, parent=parent, color=False, max_content_width=100, terminal_width=100
    )
    yield f"{'#' * level} {title}\n\n```text\n{command.get_help(context).rstrip()}\n```\n\n"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            inner = command.get_command(context, each)
            if inner is not None:
                yield from _pages(inner, context, f"{title} {each}", each, level + 1)


def settings_table() -> str:
    """Every setting with its default and the remark beside it in the code."""
    parts = [
        "\nWhere a default comes from: O and H are the two systems that sitoolkit grew from, M was measured for it.\n\n"
    ]
    for section, field in Settings.model_fields.items():
        kind = field.annotation
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            continue
        remarks = _remarks(kind)
        parts.append(f"## [{section}]\n\n| setting | default | what it is |\n|---|---|---|\n")
        for name, inner in kind.model_fields.items():
            default = inner.get_default(call_default_factory=True)
            parts.append(f"| `{name}` | {_default(default)} | {remarks.get(name, '')} |\n")
        parts.append("\n")
    return "".join(parts)


def _default(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(f"`{item}`" for item in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"`{name}` {item}" for name, item in value.items()) or "none"
    return "none" if value is None or value == "" else f"`{value}`"


def _remarks(section: type) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in inspect.getsource(section).splitlines():
        begun = re.match(r"    (\w+): ", line)
        name = begun[1] if begun else name
        remark = re.search(r"  # (?!noqa|type:|fmt:)(.+)$", line)
        if name and remark and name not in found:
            sources = ", ".join(mark for mark in ("O", "H", "M") if f"[{mark}]" in remark[1])
            words = re.sub(r"\s*\[[OHM]\]\s*", " ", remark[1]).strip().replace("|", "\\|")
            found[name] = f"{words} ({sources})".strip() if sources else words
    return found
