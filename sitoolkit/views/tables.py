"""Tables that read alike in a notebook, in an HTML report and in a terminal: rows in, one object out that shows itself in each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sitoolkit.plain import as_plain
from sitoolkit.views.html import fragment, html_table, visible

__all__ = ["Table", "table"]

_COLUMN = 60  # characters of a cell in a terminal


@dataclass(frozen=True)
class Table:
    """Rows with the columns that are shown."""

    rows: tuple[Mapping[str, Any], ...]
    columns: tuple[str, ...]
    caption: str = ""
    limit: int = 20

    def _repr_html_(self) -> str:
        return fragment(self.html())

    def html(self) -> str:
        """The table alone, for a page that has its own style."""
        return html_table(self.rows, self.columns, caption=self.caption, limit=self.limit) or "<p>nothing</p>"

    def __str__(self) -> str:
        shown = self.rows[: self.limit]
        cells = [[_text(row.get(name)) for name in self.columns] for row in shown]
        heads = [name.replace("_", " ") for name in self.columns]
        widths = [max([len(head), *(len(row[index]) for row in cells)]) for index, head in enumerate(heads)]
        lines = [self.caption] if self.caption else []
        lines.append("  ".join(head.ljust(width) for head, width in zip(heads, widths, strict=True)).rstrip())
        lines += [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in cells
        ]
        if not shown:
            lines.append("nothing")
        if len(self.rows) > len(shown):
            lines.append(f"and {len(self.rows) - len(shown):,} more")
        return "\n".join(lines)

    __repr__ = __str__


def table(rows: Any, columns: Sequence[str] | None = None, *, caption: str = "", limit: int = 20) -> Table:
    """Records, dicts or a frame as a table.

    >>> print(table([{"tool": "deploy", "calls": 3}]))
    tool    calls
    deploy  3

    Args:
        rows: what to show.
        columns: which, in order; all of the first row's by default.
        caption: what the table shows.
        limit: at most so many rows; what is cut is said.
    """
    plain: Iterable[Any] = as_plain(rows if hasattr(rows, "to_dicts") else list(rows))
    kept = tuple(row for row in plain if isinstance(row, Mapping))
    names = (
        tuple(columns)
        if columns is not None
        else tuple(dict.fromkeys(name for row in kept[:limit] for name in row))
    )
    return Table(kept, names, caption, limit)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    if isinstance(value, list | tuple):
        value = f"{len(value)} items" if len(value) > 3 else ", ".join(map(str, value))
    text = " ".join(visible("" if value is None else value).split())
    return text if len(text) <= _COLUMN else text[: _COLUMN - 1] + "…"
