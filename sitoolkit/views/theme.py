"""One look for all charts: colours that colour-blind people can tell apart, light and dark, and SVG with a description.

Comes in: whether the page is dark. Goes out: an Altair theme, named colours, and SVG text.
"""

from __future__ import annotations

import html
from typing import Any

from sitoolkit.views.html import visible

__all__ = [
    "CATEGORIES",
    "OUTCOMES",
    "PALETTE",
    "STATUSES",
    "chart_svg",
    "enable_theme",
    "svg_bundle",
    "theme_config",
]

# Okabe and Ito, "Color Universal Design" (2008), darkened where a mark had less than 3:1 on white.
BLUE, SKY, GREEN, VERMILION, ORANGE, PURPLE, GREY = (
    "#0072b2", "#3a93c8", "#0b8f6a", "#d55e00", "#c98500", "#b0578f", "#7a8290",
)  # fmt: skip
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY)

OUTCOMES = {"success": GREEN, "failure": VERMILION, "timeout": ORANGE, "cancelled": PURPLE, "unknown": GREY}
CATEGORIES = {
    "operational_event": SKY,
    "expert_knowledge": BLUE,
    "usage_guide": GREEN,
    "reflection": VERMILION,
    "learned_fact": PURPLE,
}
STATUSES = {"active": BLUE, "candidate": SKY, "superseded": PURPLE, "retired": GREY, "quarantined": VERMILION}

_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
_LIGHT = {"ink": "#1f2733", "muted": "#5b6470", "grid": "#e3e7ec", "page": "#ffffff"}
_DARK = {"ink": "#e8ebef", "muted": "#a9b2bd", "grid": "#39414c", "page": "#111418"}
# Colours that no chart uses: the report replaces them by the page's own, so one SVG fits a light and a dark page.
_SENTINELS = {"ink": "#010203", "muted": "#040506", "grid": "#070809", "page": None}
_dark_now = False


def theme_config(*, dark: bool = False, colours: dict[str, Any] | None = None) -> dict[str, Any]:
    """The theme as a Vega-Lite config."""
    c = colours or (_DARK if dark else _LIGHT)
    return {
        "config": {
            "background": c["page"],
            "font": _FONT,
            "padding": 8,
            "view": {"continuousWidth": 560, "continuousHeight": 220, "stroke": None},
            "title": {
                "anchor": "start", "fontSize": 15, "fontWeight": 600, "color": c["ink"], "subtitleColor": c["muted"],
                "subtitleFontSize": 12, "offset": 12,
            },
            "axis": {
                "labelFontSize": 12, "titleFontSize": 12, "labelColor": c["muted"], "titleColor": c["muted"], "titleFontWeight": 400,
                "gridColor": c["grid"], "domainColor": c["grid"], "tickColor": c["grid"], "labelLimit": 260,
            },
            "axisX": {"grid": False},
            "legend": {
                "labelFontSize": 12, "titleFontSize": 12, "labelColor": c["ink"], "titleColor": c["muted"], "titleFontWeight": 400,
                "symbolType": "square", "labelLimit": 220,
            },
            "header": {"labelColor": c["ink"], "titleColor": c["muted"], "labelFontSize": 12},
            "text": {"color": c["ink"], "fontSize": 12},
            "rule": {"color": c["muted"]},
            "bar": {"color": BLUE, "cornerRadiusEnd": 2},
            "line": {"color": BLUE, "strokeWidth": 2.2},
            "point": {"color": BLUE, "filled": True, "size": 60},
            "area": {"color": BLUE, "opacity": 0.75},
            "range": {"category": list(PALETTE), "heatmap": ["#cfe3f1", "#0072b2"], "ramp": ["#cfe3f1", "#0072b2"]},
        }
    }  # fmt: skip


def enable_theme(*, dark: bool = False) -> None:
    """Use the theme for every chart that is drawn from now on."""
    import altair as alt

    global _dark_now
    _dark_now = dark
    if "sitoolkit" not in alt.theme.names():

        @alt.theme.register("sitoolkit", enable=False)
        def _sitoolkit() -> Any:
            return alt.theme.ThemeConfig(**theme_config(dark=_dark_now))  # type: ignore[typeddict-item]

    alt.theme.enable("sitoolkit")


def chart_svg(chart: Any, *, adaptive: bool = False) -> str:
    """A chart as SVG text that says what it shows; no browser and no network is needed.

    Args:
        chart: an `alt.Chart` or a spec.
        adaptive: take text and grid colours from the page (`currentColor`, `--grid`), for a page that is light or dark.
    """
    import vl_convert

    spec = dict(chart if isinstance(chart, dict) else chart.to_dict())
    if adaptive:
        spec["config"] = theme_config(colours=_SENTINELS)["config"]
    svg: str = vl_convert.vegalite_to_svg(_drawable(spec))
    if adaptive:
        svg = (
            svg.replace(_SENTINELS["ink"] or "", "currentColor")
            .replace(_SENTINELS["muted"] or "", "var(--muted)")
            .replace(_SENTINELS["grid"] or "", "var(--grid)")
        )
    label = html.escape(_describe(spec), quote=True)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def _drawable(node: Any) -> Any:
    """The spec with hidden characters written out: one that XML does not know ends the process that draws."""
    if isinstance(node, str):
        return visible(node)
    if isinstance(node, dict):
        return {visible(key): _drawable(value) for key, value in node.items()}
    return [_drawable(item) for item in node] if isinstance(node, list) else node


def svg_bundle(spec: dict[str, Any], **metadata: Any) -> dict[str, str]:
    """Altair renderer: the chart as SVG beside its description."""
    return {"image/svg+xml": chart_svg(spec), "text/plain": _describe(spec)}


def _describe(spec: dict[str, Any]) -> str:
    title = spec.get("title")
    words = title.get("text", "") if isinstance(title, dict) else title or ""
    more = title.get("subtitle", "") if isinstance(title, dict) else ""
    parts = [" ".join(part) if isinstance(part, list) else str(part) for part in (words, more)]
    return spec.get("description") or ". ".join(part for part in parts if part) or "chart"
