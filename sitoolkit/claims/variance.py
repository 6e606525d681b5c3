"""Where one habit would be expected and several are seen: hosts, types, units, naming, case; argument sets in, claims out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from sitoolkit.claims import shapes
from sitoolkit.claims.contents import Content
from sitoolkit.claims.making import code, listing, make_claim
from sitoolkit.records import Claim

__all__ = ["mixed_types", "variance"]

_PROSE = 60  # longer text is no identifier


def mixed_types(tool: str, name: str, holders: Sequence[Content]) -> list[Claim]:
    names = {
        bool: "true/false",
        int: "number",
        float: "number",
        str: "text",
        list: "list",
        dict: "object",
        type(None): "null",
    }
    return _mixture(tool, name, holders, "types", lambda value: names.get(type(value)))


def variance(tool: str, name: str, holders: Sequence[Content], values: Sequence[Any]) -> list[Claim]:
    if not any(isinstance(value, str) for value in values):
        return []
    hosts = {value: host for value in values if isinstance(value, str) and (host := shapes.host_of(value))}
    families = shapes.host_families(hosts.values())
    claims = _mixture(
        tool,
        name,
        holders,
        "hosts",
        lambda value: families.get(hosts.get(value, "")) if isinstance(value, str) else None,
    )
    claims += _mixture(
        tool, name, holders, "units", lambda value: shapes.unit_of(value) if isinstance(value, str) else None
    )
    claims += _mixture(
        tool,
        name,
        holders,
        "naming",
        lambda value: shapes.naming_style(value) if isinstance(value, str) else None,
    )
    cases: dict[str, set[str]] = defaultdict(set)
    for value in values:
        if isinstance(value, str) and len(value) <= _PROSE:
            cases[value.casefold()].add(value)
    doubled = sorted((forms for forms in cases.values() if len(forms) > 1), key=sorted)
    if doubled:
        forms = sorted(doubled[0])
        holds = [content for content in holders if content.args[name] in forms]
        text = f"{code(name)} is written in mixed case: {listing(forms)}."
        claims.append(
            make_claim(
                tool,
                "variance",
                text,
                holds,
                len(holders),
                {"arg": name, "of": "case", "forms": forms},
                ("case", name),
            )
        )
    return claims


def _mixture(
    tool: str, name: str, holders: Sequence[Content], of: str, classify: Callable[[Any], str | None]
) -> list[Claim]:
    """More than one family where one would be expected; stated as what was seen, so that chance plays no part."""
    groups: dict[str, list[Content]] = defaultdict(list)
    for content in holders:
        family = classify(content.args[name])
        if family:
            groups[family].append(content)
    if not 2 <= len(groups) <= 6:
        return []
    counts = dict(
        sorted(((family, len(group)) for family, group in groups.items()), key=lambda p: (-p[1], p[0]))
    )
    told = " and ".join(f"{number} × {code(family)}" for family, number in counts.items())
    holds = [content for content in holders if classify(content.args[name])]
    words = {
        "hosts": "has mixed hosts",
        "types": "has mixed types",
        "units": "has mixed units",
        "naming": "is named in mixed styles",
    }
    text = f"{code(name)} {words[of]}: {told}."
    data = {"arg": name, "of": of, "families": counts}
    return [make_claim(tool, "variance", text, holds, len(holders), data, (of, name))]
