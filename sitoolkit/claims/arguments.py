"""What holds of single arguments: argument sets of one tool come in, claims on them go out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from sitoolkit.claims import shapes
from sitoolkit.claims.contents import Content
from sitoolkit.claims.making import code, listing, make_claim
from sitoolkit.claims.stats import unseen_value_chance, wilson_lower
from sitoolkit.claims.templates import find_template, is_open, template_matches
from sitoolkit.claims.variance import mixed_types, variance
from sitoolkit.records import Claim, canonical_json

__all__ = ["always_given", "argument_claims", "argument_order", "presence"]

UNSEEN_CHANCE = (
    0.1  # a set is closed only if one more equally likely value would have shown itself, 9 times in 10
)
MAX_SET = 12
MIN_WILSON = 0.5  # lower bound that a claim with exceptions must reach
_PROSE = 60  # mean length above which text is prose, not a value
_SURE = 0.7  # lower Wilson bound from which a constant is called "always": nine calls and more
_TELLING = frozenset(
    {"ENV_NAME", "url", "path", "email", "host:port"}
)  # said even where a set or template is known


def argument_order(contents: Sequence[Content]) -> list[str]:
    """Argument names by their mean place in the calls, then by name."""
    places: dict[str, list[int]] = defaultdict(list)
    for content in contents:
        for place, name in enumerate(content.args):
            places[name].append(place)
    return sorted(places, key=lambda name: (sum(places[name]) / len(places[name]), name))


def always_given(tool: str, contents: Sequence[Content]) -> list[Claim]:
    """Which arguments come in every call."""
    names = [name for name in argument_order(contents) if all(name in content.args for content in contents)]
    if not names:
        return []
    only = all(len(content.args) == len(names) for content in contents)
    what = "argument" if len(names) == 1 else "arguments"
    text = f"{code(tool)} is always called with the {what} {listing(names)}" + (
        ", and no other." if only else "."
    )
    return [
        make_claim(
            tool, "always_given", text, contents, len(contents), {"args": names, "only": only}, "always_given"
        )
    ]


def presence(tool: str, contents: Sequence[Content], min_samples: int) -> list[Claim]:
    """Arguments that are given now and then, and pairs of which exactly one is given."""
    count = len(contents)
    given = {
        name: frozenset(i for i, content in enumerate(contents) if name in content.args)
        for name in argument_order(contents)
    }
    some = [name for name, where in given.items() if min_samples <= len(where) <= count - min_samples]
    claims: list[Claim] = []
    paired: set[str] = set()
    for index, one in enumerate(some):
        for other in some[index + 1 :]:
            if one in paired or other in paired:
                continue
            if not given[one] & given[other] and len(given[one] | given[other]) == count:
                text = f"Either {code(one)} or {code(other)} is given, never both."
                claims.append(make_claim(tool, "either_or", text, contents, count, {"args": [one, other]}))
                paired |= {one, other}
            elif given[one] == given[other]:
                holds = [contents[i] for i in sorted(given[one])]
                text = f"{code(one)} and {code(other)} are given together, or not at all."
                claims.append(make_claim(tool, "together", text, holds, len(holds), {"args": [one, other]}))
                paired |= {one, other}
    for name in some:
        if name not in paired:
            holds = [contents[i] for i in sorted(given[name])]
            text = f"{code(name)} is optional: given in {len(holds)} of {count} distinct calls."
            claims.append(make_claim(tool, "optional", text, holds, count, {"arg": name}, ("optional", name)))
    return claims


def argument_claims(
    tool: str, contents: Sequence[Content], *, min_samples: int, min_support: float
) -> list[Claim]:
    """Constants, closed sets, templates, shapes, ranges and variance of each argument."""
    claims: list[Claim] = []
    for name in argument_order(contents):
        holders = [content for content in contents if name in content.args]
        if len(holders) >= min_samples:
            claims += _one_argument(
                tool, name, holders, whole=len(holders) == len(contents), min_support=min_support
            )
    return claims


def _one_argument(
    tool: str, name: str, holders: Sequence[Content], *, whole: bool, min_support: float
) -> list[Claim]:
    values = [content.args[name] for content in holders]
    when = "" if whole else ", when given,"
    claims: list[Claim] = []
    counts = Counter(canonical_json(value) for value in values)
    top, top_count = min(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    count = len(values)
    if len(counts) == 1:
        if len(top) <= 400:
            if wilson_lower(count, count) < _SURE:
                text = f"{code(name)}{when} was {code(values[0])} in all {count} distinct calls."
            else:
                text = f"{code(name)}{when} is always {code(values[0])}."
            claims.append(
                make_claim(tool, "constant", text, holders, count, {"arg": name, "value": values[0]})
            )
        return [*claims, *variance(tool, name, holders, values)]
    if top_count / count >= min_support and wilson_lower(top_count, count) >= MIN_WILSON and len(top) <= 400:
        usual = [content for content in holders if canonical_json(content.args[name]) == top]
        value = usual[0].args[name]
        text = f"{code(name)}{when} is mostly {code(value)}: in {top_count} of {count} distinct calls."
        claims.append(make_claim(tool, "usual_value", text, usual, count, {"arg": name, "value": value}))
    strings = [value for value in values if isinstance(value, str)]
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(strings) == count:
        claims += _text_claims(tool, name, holders, strings, counts, when, min_support)
    elif len(numbers) == count:
        claims += _number_claims(tool, name, holders, numbers, counts, when)
    elif len({type(value) for value in values}) > 1:
        claims += mixed_types(tool, name, holders)
    return [*claims, *variance(tool, name, holders, values)]


def _closed(counts: Counter[str], count: int, most: int) -> bool:
    """Every value more than once, and no room for an unseen one to hide in so many calls."""
    return (
        2 <= len(counts) <= most
        and min(counts.values()) >= 2
        and unseen_value_chance(len(counts), count) <= UNSEEN_CHANCE
    )


def _text_claims(
    tool: str,
    name: str,
    holders: Sequence[Content],
    values: Sequence[str],
    counts: Counter[str],
    when: str,
    min_support: float,
) -> list[Claim]:
    count = len(values)
    claims: list[Claim] = []
    prose = sum(map(len, values)) / count > _PROSE or any("\n" in value for value in values)
    found = None if prose else find_template(name, [content.args for content in holders], min_support)
    if found and (found[1] == count or wilson_lower(found[1], count) >= MIN_WILSON):
        claims.append(_template(tool, name, found[0], holders, when))
    # what a template settles without a free part needs no list of its values
    settled = bool(claims) and found is not None and found[1] == count and not is_open(found[0])
    if _closed(counts, count, MAX_SET) and not prose and not settled:
        members = sorted(set(values))
        text = f"{code(name)}{when} is one of {listing(members)}."
        claims.append(make_claim(tool, "closed_set", text, holders, count, {"arg": name, "values": members}))
    if prose or any(" " in value for value in values):
        return claims
    return claims + _shape(tool, name, holders, values, when, tied=bool(claims), min_support=min_support)


def _template(tool: str, name: str, template: str, holders: Sequence[Content], when: str) -> Claim:
    holds = [content for content in holders if template_matches(template, content.args[name], content.args)]
    data = {"arg": name, "template": template}
    if len(holds) == len(holders):
        text = f"{code(name)}{when} follows {code(template)}."
    else:
        text = (
            f"{code(name)}{when} follows {code(template)} in {len(holds)} of {len(holders)} distinct calls."
        )
    return make_claim(tool, "template", text, holds, len(holders), data)


def _shape(
    tool: str,
    name: str,
    holders: Sequence[Content],
    values: Sequence[str],
    when: str,
    *,
    tied: bool,
    min_support: float,
) -> list[Claim]:
    distinct = sorted(set(values))
    count = len(values)
    if len(distinct) < 2:
        return []
    front, back = shapes.common_ends(distinct)
    shape = shapes.common_shape(distinct)
    data: dict[str, Any] = {"arg": name, "example": distinct[0]}
    if shape and tied and shape not in _TELLING:
        return []
    if shape:
        data |= {"shape": shape, "pattern": shapes.SHAPES[shape][0].pattern}
        text = f"{code(name)}{when} is {shapes.SHAPES[shape][1]}"
        if shape in ("path", "url", "relative path") and len(front) > 1:
            data["prefix"] = front[: front.rindex("/") + 1] if "/" in front else front
            text += f", and begins with {code(data['prefix'])}"
        return [make_claim(tool, "shape", text + ".", holders, count, data, ("shape", name))]
    if tied or sum(map(len, distinct)) / len(distinct) > _PROSE:
        return []
    pattern = shapes.induced_pattern(distinct)
    if pattern:
        data |= {"shape": "pattern", "pattern": pattern}
        text = f"{code(name)}{when} is built like {code(pattern)}, such as {code(distinct[0])}."
        return [make_claim(tool, "shape", text, holders, count, data, ("shape", name))]
    if len(front) >= 3 or len(back) >= 3:
        ends = [f"begins with {code(front)}"] * (len(front) >= 3) + [f"ends with {code(back)}"] * (
            len(back) >= 3
        )
        data |= {
            "shape": "affix",
            "prefix": front if len(front) >= 3 else "",
            "suffix": back if len(back) >= 3 else "",
        }
        return [
            make_claim(
                tool,
                "shape",
                f"{code(name)}{when} {' and '.join(ends)}.",
                holders,
                count,
                data,
                ("shape", name),
            )
        ]
    return _mostly_shaped(tool, name, holders, when, min_support)


def _mostly_shaped(
    tool: str, name: str, holders: Sequence[Content], when: str, min_support: float
) -> list[Claim]:
    found = Counter(shape for content in holders if (shape := shapes.shape_of(content.args[name])))
    if not found:
        return []
    shape, held = min(found.items(), key=lambda pair: (-pair[1], pair[0]))
    count = len(holders)
    if held / count < min_support or wilson_lower(held, count) < MIN_WILSON:
        return []
    holds = [content for content in holders if shapes.shape_of(content.args[name]) == shape]
    text = f"{code(name)}{when} is {shapes.SHAPES[shape][1]} in {held} of {count} distinct calls."
    data = {"arg": name, "shape": shape, "pattern": shapes.SHAPES[shape][0].pattern}
    return [make_claim(tool, "shape", text, holds, count, data, ("shape", name))]


def _number_claims(
    tool: str, name: str, holders: Sequence[Content], values: Sequence[float], counts: Counter[str], when: str
) -> list[Claim]:
    count = len(values)
    if _closed(counts, count, 3):
        members = sorted(set(values))
        text = f"{code(name)}{when} is one of {listing(members)}."
        return [make_claim(tool, "closed_set", text, holders, count, {"arg": name, "values": members})]
    if len(counts) < 3:
        return []
    low, high = min(values), max(values)
    text = f"{code(name)}{when} lies between {code(low)} and {code(high)}."
    return [
        make_claim(
            tool, "range", text, holders, count, {"arg": name, "low": low, "high": high}, ("range", name)
        )
    ]
