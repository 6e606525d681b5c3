"""The frame of the HTML report: sections in, one page out that needs no network, no script, and reads in light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sitoolkit.views.html import escape

__all__ = ["Section", "page", "plain_page"]


class Section(NamedTuple):
    """A part of the page; `body` is HTML that is already escaped."""

    id: str
    title: str
    body: str
    lead: str = ""


_CSS = """
:root{color-scheme:light dark;--ink:#1f2733;--muted:#5b6470;--grid:#e3e7ec;--page:#fff;--card:#f5f7f9;--accent:#005a8f;
--good:#07694e;--bad:#a23c00;--warn:#7a5200;--good-bg:#e3f3ee;--bad-bg:#fbe9df;--warn-bg:#fbf1da}
@media(prefers-color-scheme:dark){:root{--ink:#e8ebef;--muted:#a9b2bd;--grid:#39414c;--page:#111418;--card:#1a1f26;--accent:#6fb7e3;
--good:#5fd0ac;--bad:#ff9d66;--warn:#f0c060;--good-bg:#10322a;--bad-bg:#3b2013;--warn-bg:#352a10}}
*{box-sizing:border-box}html{scroll-behavior:auto}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif}
a{color:var(--accent)}a:focus-visible,summary:focus-visible{outline:3px solid var(--accent);outline-offset:2px;border-radius:3px}
.skip{position:absolute;left:-9999px}.skip:focus{left:16px;top:8px;background:var(--page);padding:8px;z-index:2}
header,main,footer{max-width:1020px;margin:0 auto;padding:0 24px}
header{padding-top:36px}h1{font-size:28px;line-height:1.2;margin:0 0 6px;font-weight:650;letter-spacing:-.01em}
h2{font-size:20px;margin:0 0 4px;font-weight:620}h3{font-size:16px;margin:20px 0 4px;font-weight:600}
.quiet{color:var(--muted)}p{margin:6px 0}.lead{color:var(--muted);margin:0 0 14px;max-width:46em}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;padding:0;margin:18px 0 0;font-size:14px}
section{border-top:1px solid var(--grid);padding:26px 0;scroll-margin-top:8px}main{margin-top:26px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:22px 0 0;padding:0;list-style:none}
.tiles li{background:var(--card);border-radius:8px;padding:12px 14px}.tiles b{display:block;font-size:24px;font-weight:620;line-height:1.2;font-variant-numeric:tabular-nums}
.tiles span{font-size:13px;color:var(--muted)}
.badge{display:inline-block;border-radius:12px;padding:1px 10px;font-size:13px;font-weight:600;background:var(--card);color:var(--muted)}
.badge.ok,.finding.ok{background:var(--good-bg);color:var(--good)}.badge.bad{background:var(--bad-bg);color:var(--bad)}.badge.warn{background:var(--warn-bg);color:var(--warn)}
.findings{list-style:none;padding:0;margin:0;display:grid;gap:8px}
.finding{border-radius:8px;padding:10px 14px;background:var(--warn-bg)}.finding.bad{background:var(--bad-bg)}
.finding strong{display:inline-block;min-width:5.5em}.finding.bad strong{color:var(--bad)}.finding.warn strong{color:var(--warn)}.finding code{font-size:13px}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:14px;margin:8px 0;min-width:50%}
caption{text-align:left;font-weight:600;padding:4px 0}th,td{text-align:left;vertical-align:top;padding:5px 18px 5px 0;border-bottom:1px solid var(--grid);overflow-wrap:anywhere}
th{font-weight:500;color:var(--muted);white-space:nowrap}td.sit-n{text-align:right;font-variant-numeric:tabular-nums}
code,pre{font:13px/1.5 ui-monospace,"SFMono-Regular","DejaVu Sans Mono",monospace}pre{white-space:pre-wrap;background:var(--card);padding:12px 14px;border-radius:8px;overflow-wrap:anywhere;margin:8px 0}
details{margin:6px 0}summary{cursor:pointer;color:var(--accent);font-size:14px;width:max-content;max-width:100%}
.card{background:var(--card);border-radius:8px;padding:14px 16px;margin:12px 0}.card h3{margin:0 0 2px}.card ul{margin:8px 0;padding-left:20px}.card li{margin:3px 0}
.of{color:var(--muted);font-size:13px;white-space:nowrap}
.chart{margin:14px 0;overflow-x:auto}.chart svg{max-width:100%;height:auto;display:block}.sit-quiet{color:var(--muted);font-size:14px}
footer{color:var(--muted);font-size:13px;padding-top:8px;padding-bottom:40px;border-top:1px solid var(--grid)}
@media print{nav,.skip{display:none}details{display:block}section{break-inside:avoid}}
"""


def page(
    title: str,
    badge: tuple[str, str],
    intro: str,
    tiles: Sequence[tuple[str, str]],
    sections: Sequence[Section],
    footer: str,
) -> str:
    """Put the page together.

    Args:
        title: of the page.
        badge: class (`ok`, `warn`, `bad` or empty) and word.
        intro: one sentence below the title, already escaped.
        tiles: the numbers at the top, as (number, what it counts).
        sections: the parts, in order.
        footer: already escaped.
    """
    links = "".join(f'<li><a href="#{escape(part.id)}">{escape(part.title)}</a></li>' for part in sections)
    numbers = "".join(
        f"<li><b>{escape(number)}</b><span>{escape(what)}</span></li>" for number, what in tiles
    )
    body = "".join(
        f'<section id="{escape(part.id)}" aria-labelledby="{escape(part.id)}-h"><h2 id="{escape(part.id)}-h">{escape(part.title)}</h2>'
        + (f'<p class="lead">{escape(part.lead)}</p>' if part.lead else "")
        + f"{part.body}</section>"
        for part in sections
    )
    kind, word = badge
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{escape(title)}</title><style>{_CSS}</style></head>
<body><a class="skip" href="#main">To the report</a>
<header><h1>{escape(title)}</h1><p><span class="badge {escape(kind)}">{escape(word)}</span> {intro}</p>
<ul class="tiles" aria-label="In numbers">{numbers}</ul>
<nav aria-label="Sections"><ul>{links}</ul></nav></header>
<main id="main" tabindex="-1">{body}</main>
<footer><p>{footer}</p></footer></body></html>
"""


_CELLS = """
main{padding-top:28px;padding-bottom:40px}main img{max-width:100%;height:auto;border-radius:12px}
.jp-RenderedSVG svg,.output_svg svg,.output_area>svg,main svg{max-width:100%;height:auto;border-radius:8px}
.sit h4{margin:14px 0 4px;font-size:16px}.jp-OutputArea-output,.output_area{margin:10px 0;overflow-x:auto}
.jp-RenderedText pre,.output_text pre{background:var(--card)}[data-mime-type*="stderr"] pre,.output_stderr pre{color:var(--warn)}
"""


def plain_page(title: str, body: str) -> str:
    """A page around HTML that is whole already: an executed notebook.

    Args:
        title: of the page.
        body: HTML; it may bring styles, but no script of it runs.
    """
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{escape(title)}</title><style>{_CSS}{_CELLS}</style></head>
<body><main id="main">{body}</main></body></html>
"""
