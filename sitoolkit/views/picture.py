"""The loop in one picture: comes in which step is meant, goes out SVG text for the notebooks, the README and the docs."""

from __future__ import annotations

from pathlib import Path

from sitoolkit.views.theme import BLUE

__all__ = ["STEPS", "loop_svg", "write_pictures"]

# step -> (title, what happens, x, y)
STEPS: dict[str, tuple[str, str, int, int]] = {
    "capture": ("Capture", "calls, without secrets", 150, 96),
    "learn": ("Learn", "patterns, lessons, facts", 334, 96),
    "memory": ("Memory", "with evidence, versioned", 518, 96),
    "recall": ("Recall", "what this reader may see", 702, 96),
    "decide": ("You decide", "guides, tools, wider scope", 426, 10),
}
_W, _H = 152, 56
_INK, _MUTED, _LINE, _FILL = "#1f2733", "#5b6470", "#9aa4b0", "#eef3f7"
_FONT = "font-family=\"system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif\""


def loop_svg(highlight: str = "") -> str:
    """The loop, with one step filled.

    >>> loop_svg("capture").startswith("<svg")
    True

    Args:
        highlight: one of `STEPS`, or nothing.
    """
    where = f"; this is the step {STEPS[highlight][0]}" if highlight else ""
    said = (
        "The loop: transcripts of an agent's tool calls are captured, what they have in common is learned and kept in memory, "
        f"and recalled into the prompt of the next run, whose transcript is captured again{where}."
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 980 220" width="980" height="220" role="img" aria-label="{said}">',
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{_LINE}"/></marker></defs>',
        '<rect width="980" height="220" rx="12" fill="#fff"/>',
    ]
    arrow = f'fill="none" stroke="{_LINE}" stroke-width="1.8" marker-end="url(#a)"'
    middle = 96 + _H // 2
    for start in (118, 302, 486, 670, 854):
        parts.append(f'<path d="M{start} {middle}H{start + 30}" {arrow}/>')
    parts.append(f'<path d="M456 96V68" {arrow}/>')
    parts.append(f'<path d="M548 66V94" {arrow}/>')
    parts.append(f'<path d="M926 150V176Q926 188 914 188H84Q72 188 72 176V152" {arrow}/>')
    for x, text, more in ((72, "transcripts", "of tool calls"), (926, "next run", "a better prompt")):
        parts.append(_text(x, middle - 3, text, 14, _INK, 600) + _text(x, middle + 14, more, 11, _MUTED))
    for name, (title, what, x, y) in STEPS.items():
        on = name == highlight
        dash = ' stroke-dasharray="5 4"' if name == "decide" and not on else ""
        parts.append(
            f'<rect x="{x}" y="{y}" width="{_W}" height="{_H}" rx="10" fill="{BLUE if on else _FILL}" stroke="{BLUE}" stroke-width="1.4"{dash}/>'
            + _text(x + _W // 2, y + 25, title, 15, "#fff" if on else _INK, 600)
            + _text(x + _W // 2, y + 43, what, 11, "#e6f1f8" if on else _MUTED)
        )
    parts.append(
        _text(
            498, 206, "the loop closes: what is written is recalled, and a nightly check says so", 11, _MUTED
        )
    )
    return "".join(parts) + "</svg>\n"


def _text(x: int, y: int, text: str, size: int, colour: str, weight: int = 400) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="middle" {_FONT} font-size="{size}" font-weight="{weight}" fill="{colour}">{text}</text>'


def write_pictures(folder: Path) -> list[Path]:
    """Write the pictures that the notebooks show; files that are the same already stay untouched."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in ("", *STEPS):
        path = folder / (f"loop-{name}.svg" if name else "loop.svg")
        text = loop_svg(name)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
        written.append(path)
    return written
