"""How one argument is made from others: argument sets come in, templates such as `{kind}_{suffix}` go out.

A template is text with `{arg}`, `{arg|upper}`, `{arg|lower}`, `{arg|kebab}`, `{arg|snake}` for the values of other arguments,
`{date}` for a date, and `{prefix}`, `{middle}`, `{suffix}` for a part that is free.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sitoolkit.claims.shapes import SHAPES
from sitoolkit.claims.stats import wilson_lower

__all__ = ["find_template", "is_open", "template_args", "template_matches"]

Args = Mapping[str, Any]
_TRANSFORMS: dict[str, Callable[[str], str]] = {
    "": str,
    "lower": str.lower,
    "upper": str.upper,
    "kebab": lambda text: text.replace("_", "-"),
    "snake": lambda text: text.replace("-", "_"),
}
_FREE = ("prefix", "middle", "suffix")
_SAMPLE = 400  # argument sets that a template is sought in; it is checked on all
_PLACE = re.compile(r"\{([^{}]+)\}")


def _as_text(value: Any) -> str | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return str(value) if abs(value) >= 10 else None
    return value if isinstance(value, str) and 2 <= len(value) <= 200 else None


def _holds(text: str, part: str) -> int:
    """Where `part` stands in `text` as whole words; -1 if nowhere."""
    at = text.find(part)
    while at >= 0:
        end = at + len(part)
        if (at == 0 or not (text[at - 1].isalnum() and part[0].isalnum())) and (
            end == len(text) or not (text[end].isalnum() and part[-1].isalnum())
        ):
            return at
        at = text.find(part, at + 1)
    return -1


def find_template(arg: str, rows: Sequence[Args], min_support: float = 0.8) -> tuple[str, int] | None:
    """The template that ties `arg` to other arguments, and in how many rows it holds; None where chance explains it.

    >>> rows = [{"name": f"{k}_{i}", "kind": k} for k in ("redis", "mysql") for i in ("a", "b", "c")]
    >>> find_template("name", rows)
    ('{kind}_{suffix}', 6)

    Args:
        arg: name of the argument, text in all rows.
        rows: distinct argument sets.
        min_support: share of rows in which the template must hold.
    """
    sample = rows[:: max(1, len(rows) // _SAMPLE)][:_SAMPLE]
    texts = [row.get(arg) for row in sample]
    if len(sample) < 2 or any(not isinstance(text, str) or not text or len(text) > 300 for text in texts):
        return None
    values = [str(text) for text in texts]
    if len(set(values)) < 2:
        return None
    parts: list[tuple[str, str]] = []
    for other in sorted({name for row in sample for name in row} - {arg}):
        transform = _tie(values, [_as_text(row.get(other)) for row in sample], min_support)
        if transform is not None:
            parts.append((other, transform))
    if not parts:
        return None
    skeletons = Counter(_skeleton(text, row, parts) for text, row in zip(values, sample, strict=True))
    places = Counter[tuple[str, ...]]()
    for skeleton, count in skeletons.items():
        places[tuple(piece for piece in skeleton if piece.startswith("\0"))] += count
    order = min(places, key=lambda key: (-places[key], key))
    if not order:
        return None
    alike = [skeleton for skeleton in skeletons if tuple(p for p in skeleton if p.startswith("\0")) == order]
    template = _merge(order, alike)
    support = sum(template_matches(template, str(row.get(arg, "")), row) for row in rows)
    return (template, support) if support / len(rows) >= min_support else None


def _tie(values: Sequence[str], others: Sequence[str | None], min_support: float) -> str | None:
    """Which transform of the other argument stands in the values more often than another row's would."""
    present = [other for other in others if other is not None]
    if len(present) < min_support * len(values) or len(set(present)) < 2:
        return None
    for name, transform in _TRANSFORMS.items():
        held = sum(
            other is not None and _holds(value, transform(other)) >= 0
            for value, other in zip(values, others, strict=True)
        )
        if held < min_support * len(values):
            continue
        crossed = tried = 0
        for shift in range(1, min(8, len(values))):  # another row's value, as chance would deal it
            for index, value in enumerate(values):
                other = others[(index + shift) % len(values)]
                if other is not None:
                    tried += 1
                    crossed += _holds(value, transform(other)) >= 0
        if wilson_lower(held, len(values)) > (crossed / tried if tried else 1.0):
            return name
    return None


def _skeleton(text: str, row: Args, parts: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The text cut at the other arguments' values: literal pieces, and `\\0name|transform` for a value."""
    known = []
    for name, transform in parts:
        value = _as_text(row.get(name))
        if value is not None:
            known.append(
                (_TRANSFORMS[transform](value), f"\0{name}|{transform}" if transform else f"\0{name}")
            )
    pieces: list[str] = [text]
    for value, mark in sorted(known, key=lambda pair: (-len(pair[0]), pair[1])):
        for index, piece in enumerate(pieces):
            at = _holds(piece, value) if not piece.startswith("\0") else -1
            if at >= 0:
                pieces[index : index + 1] = [piece[:at], mark, piece[at + len(value) :]]
                break
    return tuple(piece for piece in pieces if piece)


def _merge(order: Sequence[str], skeletons: Sequence[tuple[str, ...]]) -> str:
    """One template for skeletons with the same places: equal literals stay, others become free parts."""
    gaps: list[list[str]] = [[] for _ in range(len(order) + 1)]
    for skeleton in skeletons:
        texts = [""]
        for piece in skeleton:
            if piece.startswith("\0"):
                texts.append("")
            else:
                texts[-1] = piece
        for index, text in enumerate(texts):
            gaps[index].append(text)
    out: list[str] = []
    for index, texts in enumerate(gaps):
        where = _FREE[0] if index == 0 else _FREE[2] if index == len(order) else _FREE[1]
        out.append(_gap(texts, where))
        if index < len(order):
            out.append("{" + order[index][1:] + "}")
    return "".join(out)


def _gap(texts: Sequence[str], where: str) -> str:
    if len(set(texts)) == 1:
        return _escape(texts[0])
    front = re.match(r"[^A-Za-z0-9]*", texts[0])
    back = re.search(r"[^A-Za-z0-9]*$", texts[0])
    lead, tail = front.group() if front else "", back.group() if back else ""
    while lead and not all(text.startswith(lead) for text in texts):
        lead = lead[:-1]
    while tail and not all(text.endswith(tail) and len(text) >= len(lead) + len(tail) for text in texts):
        tail = tail[1:]
    middles = [text[len(lead) : len(text) - len(tail)] for text in texts]
    date = SHAPES["date"][0]
    free = "{date}" if all(date.fullmatch(middle) for middle in middles) else "{" + where + "}"
    return _escape(lead) + free + _escape(tail)


def _escape(literal: str) -> str:
    return literal.replace("{", "(").replace("}", ")") if "{" in literal or "}" in literal else literal


def template_args(template: str) -> list[str]:
    """Names of the arguments that a template is made from, in order.

    >>> template_args("{service}.{zone}")
    ['service', 'zone']
    """
    names = (found.split("|")[0] for found in _PLACE.findall(template))
    return [name for name in names if name not in (*_FREE, "date")]


def is_open(template: str) -> bool:
    """Whether a part of the template is free, so that other arguments do not settle the value."""
    return any(place in (*_FREE, "date") for place in _PLACE.findall(template))


def template_matches(template: str, value: str, row: Args) -> bool:
    """Whether `value` is what the template says for this row.

    >>> template_matches("{kind|upper}_TOKEN", "REDIS_TOKEN", {"kind": "redis"})
    True
    """
    pattern: list[str] = []
    at = 0
    for found in _PLACE.finditer(template):
        pattern.append(re.escape(template[at : found.start()]))
        at = found.end()
        name, _, transform = found.group(1).partition("|")
        if name == "date" and "date" not in row:
            pattern.append(SHAPES["date"][0].pattern)
        elif name in _FREE and name not in row:
            pattern.append(".+" if name != "middle" else ".*")
        else:
            text = _as_text(row.get(name))
            if text is None:
                return False
            pattern.append(re.escape(_TRANSFORMS[transform](text)))
    pattern.append(re.escape(template[at:]))
    return re.fullmatch("".join(pattern), value, re.DOTALL) is not None
