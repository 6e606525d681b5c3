"""Text of any origin as HTML that stays text: one escape helper, small tables, and how records show themselves in a notebook.

Comes in: records, reports, a workspace. Goes out: HTML fragments in which everything that was captured is escaped, and plain text for a
terminal. Nothing here sends text of others through Markdown or into an attribute unescaped.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sitoolkit.plain import as_plain

__all__ = [
    "escape",
    "fragment",
    "html_table",
    "inline",
    "prose",
    "register_displays",
    "terminal_text",
    "to_html",
    "visible",
]

# Signs that change the direction of text or have no width: they can make a reviewer read something else than what is applied.
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
ROWS = 20
_SKIP = {"vector", "notes", "run_id", "hash", "memory_version"}

_STYLE = """<style>
.sit{font-family:var(--jp-ui-font-family,system-ui,sans-serif);font-size:13px;line-height:1.45;color:var(--jp-ui-font-color1,inherit)}
.sit h4{margin:0 0 4px;font-size:14px;font-weight:600}.sit p{margin:2px 0}
.sit .sit-quiet{color:var(--jp-ui-font-color2,var(--muted,#5b6470))}
.sit table{border-collapse:collapse;margin:6px 0;width:auto;table-layout:auto}
.sit caption{text-align:left;font-weight:600;padding:2px 0;color:inherit}
.sit table tr,.sit table tr:nth-child(even){background:transparent}
.sit table th,.sit table td{text-align:left;vertical-align:top;padding:3px 14px 3px 0;border:0;
border-bottom:1px solid var(--jp-border-color2,var(--grid,#e3e7ec));background:transparent;white-space:normal;max-width:46em;overflow-wrap:break-word}
.sit table th{font-weight:500;white-space:nowrap;color:var(--jp-ui-font-color2,var(--muted,#5b6470))}
.sit table td.sit-n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.sit pre{white-space:pre-wrap;margin:4px 0;padding:8px;background:var(--jp-layout-color2,var(--card,#f4f6f8));border-radius:4px;font-size:12px}
.sit summary{cursor:pointer}
</style>"""


def visible(text: Any) -> str:
    """Text with its hidden characters written out, as `\\u202e`; line ends and tabs stay."""
    words = "" if text is None else str(text)
    if words.isascii() and words.isprintable():
        return words
    return "".join(
        character
        if character in "\n\t" or unicodedata.category(character) not in _HIDDEN
        else f"\\u{ord(character):04x}"
        for character in words
    )


def escape(text: Any) -> str:
    """Text of any origin for the inside of an element or a quoted attribute; hidden characters are shown.

    >>> escape('<img src=x onerror="alert(1)">')
    '&lt;img src=x onerror=&quot;alert(1)&quot;&gt;'
    """
    return html.escape(visible(text), quote=True)


def inline(value: Any, limit: int = 160) -> str:
    """A value as one escaped line of at most `limit` characters."""
    import json

    text = (
        value
        if isinstance(value, str)
        else ""
        if value is None
        else json.dumps(value, ensure_ascii=False, default=str)
    )
    flat = " ".join(text.split())
    return escape(flat if len(flat) <= limit else flat[: limit - 1] + "…")


def prose(text: Any, limit: int = 400) -> str:
    """A sentence of ours as escaped HTML in which what stands in backticks is set as code."""
    import re

    return re.sub(r"`([^`]{1,120})`", r"<code>\1</code>", inline(text, limit))


def html_table(
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[str] | None = None,
    *,
    caption: str = "",
    limit: int = ROWS,
) -> str:
    """Rows as a table with header cells that a screen reader names; what is cut is said.

    >>> html_table([{"tool": "deploy", "calls": 3}]).count("<tr>")
    2

    Args:
        rows: mappings; values are escaped.
        columns: which, in order; those of the first rows by default.
        caption: what the table shows.
        limit: at most so many rows.
    """
    everything = list(rows)
    shown = everything[:limit]
    names = (
        list(columns) if columns is not None else list(dict.fromkeys(name for row in shown for name in row))
    )
    if not names:
        return ""
    head = "".join(
        f'<th scope="col" style="text-align:left">{escape(name.replace("_", " "))}</th>' for name in names
    )
    body = "".join("<tr>" + "".join(_cell(row.get(name)) for name in names) + "</tr>" for row in shown)
    more = len(everything) - len(shown)
    foot = f'<p class="sit-quiet">and {more:,} more</p>' if more else ""
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{foot}"


# Written on each cell: JupyterLab's own style sets numbers and text alike to the right.
_TD = '<td style="text-align:left">'


def _cell(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return f"{_TD}{'' if value is None else 'yes' if value else 'no'}</td>"
    if isinstance(value, int | float):
        return f'<td class="sit-n" style="text-align:right">{_number(value)}</td>'
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return f"{_TD}{inline(', '.join(value[:3]) + (f' and {len(value) - 3} more' if len(value) > 3 else ''))}</td>"
    return f"{_TD}{inline(value, 240)}</td>"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}".rstrip("0").rstrip(".")


def fragment(body: str) -> str:
    """A fragment with its style, for one output cell."""
    return f'{_STYLE}<div class="sit">{body}</div>'


# ---------------------------------------------------------------- records


def to_html(value: Any) -> str:
    """A record, report, plan, recall or workspace as a small escaped fragment."""
    special = _SPECIAL.get(type(value).__name__)
    return fragment(special(value) if special else _report(value))


def _report(value: Any) -> str:
    plain = as_plain(value)
    name = _words(type(value).__name__)
    scalars = [
        {"what": key.replace("_", " "), "value": item}
        for key, item in plain.items()
        if not isinstance(item, list | dict) and item not in (None, "") and key not in _SKIP
    ]
    counts = [
        {"what": key.replace("_", " "), "value": ", ".join(f"{k} {_flat(v)}" for k, v in item.items())}
        for key, item in plain.items()
        if isinstance(item, dict)
        and item
        and len(item) <= 12
        and all(not isinstance(v, list | dict) for v in item.values())
    ]
    lists = "".join(
        html_table([_narrow(row) for row in item], caption=f"{key.replace('_', ' ')} ({len(item)})", limit=8)
        for key, item in plain.items()
        if isinstance(item, list) and item and isinstance(item[0], dict)
    )
    notes = "".join(
        f'<p class="sit-quiet">{inline(note, 300)}</p>'
        for note in plain.get("notes") or ()
        if isinstance(note, str)
    )
    return f"<h4>{escape(name)}</h4>{html_table([*scalars, *counts], limit=40)}{lists}{notes}"


def _flat(value: Any) -> str:
    return _number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _narrow(row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that a person reads first; lists as their length."""
    kept = {
        key: len(item) if isinstance(item, list | dict) else item
        for key, item in row.items()
        if item not in (None, "", [], {})
    }
    return dict(list(kept.items())[:8])


def _words(name: str) -> str:
    parts = "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()
    return parts[:1].upper() + parts[1:]


def _recall(value: Any) -> str:
    plain = as_plain(value)
    head = f"<h4>Recall: {inline(plain['query'], 120)}</h4>"
    if plain.get("abstained") or not plain["items"]:
        return f'{head}<p>Nothing was near enough to be worth the tokens.</p><p class="sit-quiet">{escape(plain["id"])}</p>'
    rows = [
        {
            "rank": item["rank"], "as": item["slot"], "memory": " ".join(item["text"].split())[:200], "scope": item["scope"],
            "score": item["score"], "why": item["why"], "evidence": len(item["evidence"]),
        }
        for item in plain["items"]
    ]  # fmt: skip
    block = f"<details><summary>the block as the prompt gets it ({plain['tokens']} tokens)</summary><pre>{escape(plain['text'])}</pre></details>"
    return f'{head}{html_table(rows)}{block}<p class="sit-quiet">{escape(plain["id"])}: sitoolkit explain shows every score part</p>'


def _memory(value: Any) -> str:
    plain = as_plain(value)
    facts = [
        {"what": name.replace("_", " "), "value": plain[name]}
        for name in (
            "scope",
            "status",
            "origin",
            "confidence",
            "seen_count",
            "last_seen",
            "expires_at",
            "written_by",
            "supersedes",
        )
        if plain.get(name) not in (None, "")
    ]
    evidence = (
        f'<p class="sit-quiet">rests on {len(plain["evidence"])} calls</p>' if plain.get("evidence") else ""
    )
    return f"<h4>{escape(plain['category'])} {escape(plain['id'])}</h4><pre>{escape(plain['text'])}</pre>{html_table(facts)}{evidence}"


def _pattern(value: Any) -> str:
    plain = as_plain(value)
    rows = [
        {"claim": claim["text"], "holds": f"{claim['support']} of {claim['of']}", "kind": claim["kind"]}
        for claim in plain["claims"]
    ]
    about = f"{plain['scope']}, {plain['sample_count']} samples, confidence {plain['confidence']:.2f}"
    return f'<h4>{escape(plain["tool"])}</h4><p class="sit-quiet">{escape(about)}</p>{html_table(rows, limit=40)}'


def _proposal(value: Any) -> str:
    plain = as_plain(value)
    about = f"{plain['type']}, {plain['state']}, risk {plain['risk']}, confidence {plain['confidence']}, {len(plain['evidence'])} pieces of evidence"
    return (
        f'<h4>{escape(plain["title"])}</h4><p class="sit-quiet">{escape(about)}</p><pre>{escape(plain["description"])}</pre>'
        f'<p class="sit-quiet">{escape(plain["id"])}: decide in notebook 05 or with sitoolkit review show</p>'
    )


def _manifest(value: Any) -> str:
    plain = as_plain(value)
    rows = [
        {"what": "status", "value": plain["status"]},
        {"what": "seconds", "value": plain.get("duration_s")},
    ]
    rows += [
        {"what": name.replace("_", " "), "value": inline_value}
        for name, inline_value in plain["counts"].items()
    ]
    files = "".join(f"<li>{escape(artefact['path'])}</li>" for artefact in plain["artefacts"])
    return f"<h4>Run {escape(plain['run_id'])}</h4>{html_table(rows)}<ul>{files}</ul>"


def _decay_plan(value: Any) -> str:
    plain = as_plain(value)
    names = ("expired", "retired", "demoted", "kept", "promoted", "proposed")
    counts = [{"what": name, "memories": len(plain.get(name) or ())} for name in names]
    rows = [
        {
            "action": row["action"],
            "memory": row["text"] or row["memory_id"],
            "scope": row["scope"],
            "why": row["reason"],
        }
        for name in names
        for row in plain.get(name) or ()
    ]
    return f"<h4>Decay plan</h4>{html_table(counts)}{html_table(rows, caption='what would happen, and why')}"


def _workspace(value: Any) -> str:
    return f"<h4>Workspace</h4><p>{escape(value.path)}</p>{html_table(workspace_rows(value))}"


def workspace_rows(ws: Any) -> list[dict[str, Any]]:
    """What a workspace holds, in counts."""
    rows: list[dict[str, Any]] = []
    calls = ws.telemetry.sql(
        "select count(*) as calls, count(distinct session_id) as sessions from calls"
    ).to_dicts()[0]
    rows.append({"holds": "sessions", "count": calls["sessions"], "": f"{calls['calls']:,} calls"})
    frame = ws.memory.frame(status="active")
    for category, count in sorted(frame["category"].value_counts().iter_rows()):
        rows.append({"holds": category, "count": count, "": "active memories"})
    pending = len(list(ws.proposals.list(state="pending")))
    rows.append({"holds": "proposals", "count": pending, "": "await a decision"})
    return rows


_SPECIAL: dict[str, Callable[[Any], str]] = {
    "Recall": _recall,
    "Memory": _memory,
    "Pattern": _pattern,
    "Proposal": _proposal,
    "RunManifest": _manifest,
    "DecayPlan": _decay_plan,
    "Workspace": _workspace,
}


def terminal_text(value: Any) -> str:
    """The same, as text for a terminal: one line a fact, control characters written out."""
    name = type(value).__name__
    if name == "Recall" and value.text:
        return visible(value.text)
    if name == "Workspace":
        lines = [f"{row['count']:>8,}  {row['holds']} {row['']}" for row in workspace_rows(value)]
        return "\n".join([f"Workspace {value.path}", *lines])
    return visible(str(value))


# ---------------------------------------------------------------- IPython


def register_displays(shell: Any) -> None:
    """Let IPython show records by this module; nothing of sitoolkit is imported before one is shown."""
    formatters = shell.display_formatter.formatters
    for module, name in (("sitoolkit.records", "Record"), ("sitoolkit.workspace", "Workspace")):
        formatters["text/html"].for_type_by_name(module, name, to_html)
        formatters["text/plain"].for_type_by_name(
            module, name, lambda value, printer, cycle: printer.text(terminal_text(value))
        )
