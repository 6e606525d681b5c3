"""What the failed calls of a tool have in common that its good calls have not: both come in, one rule with counts goes out.

Candidates are conditions that a reader can check before a call: an argument that is missing, has a value, a type, a shape,
a size, or a call that did not come before. A rule stands when it holds for most of the failures, when those it holds for
fail beyond what chance explains, and when the lower Wilson bound of that share is high enough. No contrast, no rule.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sitoolkit.claims.contents import flat, occurrence
from sitoolkit.claims.stats import wilson_lower
from sitoolkit.records import ToolInvocation, canonical_json

__all__ = ["Condition", "Rule", "Unit", "find_rule", "units_of"]

CHANCE = 0.01  # of a table as lopsided as the rule's, over all candidates tried (Bonferroni)
COVER = 0.6  # share of the failures that the rule must hold for
_KINDS = (  # of rules with the same counts, the one that says most to the next caller
    "missing_argument", "argument_type", "value", "above", "below", "contains", "prefix", "empty", "longer", "new_value",
    "unknown_argument", "missing_preceding", "repeated",
)  # fmt: skip


@dataclass(frozen=True)
class Condition:
    """A condition on a call: its kind, the argument or tool it is about, and what it compares with."""

    kind: str
    about: str
    value: Any = None

    @property
    def slot(self) -> str:
        """The same for the same cause, whatever bound this window's counts give it."""
        compared = self.value if self.kind in ("value", "prefix", "contains", "argument_type") else None
        return canonical_json([self.kind, self.about, compared])

    @property
    def text(self) -> str:
        """The condition in words that continue "Do not call X …"."""
        about, value = f"`{self.about}`", self.value
        said = {
            "missing_argument": f"without {about}",
            "unknown_argument": f"with {about}",
            "argument_type": f"with {about} given as {value}",
            "value": f"with {about} set to {_quoted(value)}",
            "above": f"with {about} above {value}",
            "below": f"with {about} below {value}",
            "prefix": f"with {about} beginning with {_quoted(value)}",
            "contains": f"with {_NAMES.get(str(value), str(value))} in {about}",
            "empty": f"with {about} empty",
            "longer": f"with {about} longer than {value} characters",
            "new_value": f"with a value of {about} that no good call had",
            "missing_preceding": f"before {about} has succeeded in the session",
            "repeated": "again with the same arguments after it has failed",
        }
        return said[self.kind]


_NAMES = {
    "-": "a hyphen (`-`)", " ": "a space", "_": "an underscore (`_`)", "/": "a slash (`/`)", "\\": "a backslash",
    ".": "a dot", ":": "a colon", "@": "an at sign (`@`)", "*": "an asterisk", "..": "`..`", "~": "a tilde (`~`)",
    "upper": "an upper-case letter", "digit": "a digit", "non-ascii": "a non-ASCII character", "quote": "a quotation mark",
}  # fmt: skip


def _quoted(value: Any) -> str:
    return f"`{canonical_json(value)}`"


@dataclass
class Unit:
    """One distinct call of a session: the same arguments tried again in one session are one unit."""

    session: str
    args: dict[str, Any]
    before: frozenset[str]
    repeats_failure: bool
    calls: list[ToolInvocation] = field(default_factory=list)


@dataclass(frozen=True)
class Rule:
    """A condition with its counts: `failed` of `matching` units failed, `other_failed` of `others` outside it."""

    condition: Condition
    failed: int
    matching: int
    other_failed: int
    others: int
    chance: float
    evidence: tuple[str, ...]
    against: tuple[str, ...]  # good calls outside the condition
    fails_from: float | None = None

    @property
    def confidence(self) -> float:
        """Lower Wilson bound (95 %) of the share of matching calls that failed."""
        return wilson_lower(self.failed, self.matching)


def units_of(calls: Iterable[ToolInvocation], timeline: Mapping[str, Sequence[ToolInvocation]]) -> list[Unit]:
    """Distinct calls by session and arguments, in a stable order.

    Args:
        calls: of one tool, all failed or all good.
        timeline: all calls of each session by position, to know what came before.
    """
    found: dict[tuple[str, str], Unit] = {}
    for call in sorted(calls, key=lambda call: (call.session_id, call.seq, call.id)):
        key = (call.session_id, canonical_json(call.args))
        unit = found.get(key)
        if unit is None:
            earlier = [one for one in timeline.get(call.session_id, ()) if one.seq < call.seq]
            unit = found[key] = Unit(
                call.session_id,
                flat(call.args),
                frozenset(one.tool for one in earlier if one.outcome == "success" and one.tool != call.tool),
                any(
                    one.failed and one.tool == call.tool and canonical_json(one.args) == key[1]
                    for one in earlier
                ),
            )
        unit.calls.append(call)
    return list(found.values())


def find_rule(failed: Sequence[Unit], good: Sequence[Unit], min_confidence: float = 0.5) -> Rule | None:
    """The rule that tells the failed from the good best; None when nothing does.

    Args:
        failed: units that failed in one way.
        good: units of the same tool that succeeded.
        min_confidence: least lower Wilson bound of the share of matching units that failed.
    """
    if len(failed) < 2 or not good:
        return None
    candidates = list(_candidates(failed, good))
    best: Rule | None = None
    best_rank: tuple[Any, ...] = ()
    for condition, holds, fails_from in candidates:
        hit = [unit for unit in failed if holds(unit)]
        if len(hit) < COVER * len(failed) or len(hit) < 2:
            continue
        missed = [unit for unit in good if holds(unit)]
        matching = len(hit) + len(missed)
        rule_confidence = wilson_lower(len(hit), matching)
        if rule_confidence < min_confidence:
            continue
        chance = _fisher(len(hit), len(failed), len(missed), len(good)) * len(candidates)
        if chance > CHANCE:
            continue
        rank = (
            -round(rule_confidence, 6), -len(hit), _KINDS.index(condition.kind), condition.about, canonical_json(condition.value),
        )  # fmt: skip
        if best is None or rank < best_rank:
            outside = [unit for unit in good if not holds(unit)]
            best_rank = rank
            best = Rule(
                condition, len(hit), matching, len(failed) - len(hit), len(failed) - len(hit) + len(outside), chance,
                tuple(occurrence(call) for unit in hit for call in unit.calls),
                tuple(occurrence(unit.calls[0]) for unit in outside), fails_from,
            )  # fmt: skip
    return best


Holds = Callable[[Unit], bool]


def _candidates(
    failed: Sequence[Unit], good: Sequence[Unit]
) -> Iterator[tuple[Condition, Holds, float | None]]:
    names = Counter(name for unit in failed for name in unit.args)
    for name in sorted(_usual(good)):
        if name not in names or names[name] < len(failed):
            yield Condition("missing_argument", name), _absent(name), None
    for name in sorted(names):
        seen = [unit.args[name] for unit in failed if name in unit.args]
        known = [unit.args[name] for unit in good if name in unit.args]
        if not known:
            yield Condition("unknown_argument", name), _given(name), None
            continue
        yield from _of_values(name, seen, known)
    before = Counter(tool for unit in good for tool in unit.before)
    for tool, count in sorted(before.items()):
        if count >= 0.8 * len(good):
            yield Condition("missing_preceding", tool), _not_before(tool), None
    yield Condition("repeated", ""), lambda unit: unit.repeats_failure, None


def _usual(good: Sequence[Unit]) -> set[str]:
    counts = Counter(name for unit in good for name in unit.args)
    return {name for name, count in counts.items() if count >= 0.8 * len(good)}


def _of_values(
    name: str, seen: list[Any], known: list[Any]
) -> Iterator[tuple[Condition, Holds, float | None]]:
    types = Counter(_type(value) for value in seen)
    usual_type = Counter(_type(value) for value in known).most_common(1)[0][0]
    for kind in sorted(types):
        if kind != usual_type:
            yield (
                Condition("argument_type", name, kind),
                _matches(name, _typed(kind)),
                None,
            )
    numbers, good_numbers = _numbers(seen), _numbers(known)
    # A number beyond all good ones is told as a bound: the next one beyond it would fail as well.
    low, high = (min(good_numbers), max(good_numbers)) if good_numbers else (-math.inf, math.inf)
    simple = [
        value
        for value in seen
        if value is None
        or isinstance(value, str | bool)
        or (isinstance(value, int | float) and low <= value <= high)
    ]
    for text, count in sorted(Counter(canonical_json(value) for value in simple).items()):
        if count >= COVER * len(seen):
            value = next(value for value in simple if canonical_json(value) == text)
            yield (
                Condition("value", name, value),
                _matches(name, _equal(text)),
                None,
            )
    if numbers and good_numbers:
        over = sorted(number for number in numbers if number > high)
        under = sorted(number for number in numbers if number < low)
        if over:
            yield (
                Condition("above", name, high),
                _matches(name, lambda v: _is_number(v) and v > high),
                over[0],
            )
        if under:
            yield (
                Condition("below", name, low),
                _matches(name, lambda v: _is_number(v) and v < low),
                under[-1],
            )
    texts = [value for value in seen if isinstance(value, str)]
    good_texts = [value for value in known if isinstance(value, str)]
    if texts and good_texts:
        yield from _of_texts(name, texts, good_texts)


def _of_texts(
    name: str, texts: list[str], good: list[str]
) -> Iterator[tuple[Condition, Holds, float | None]]:
    if any(not text.strip() for text in texts):
        yield Condition("empty", name), _matches(name, lambda v: isinstance(v, str) and not v.strip()), None
    for mark in _marks(texts, good):
        yield (
            Condition("contains", name, mark),
            _matches(name, _holding(mark)),
            None,
        )
    for prefix in _prefixes(texts, good):
        yield (
            Condition("prefix", name, prefix),
            _matches(name, _beginning(prefix)),
            None,
        )
    longest = max(len(text) for text in good)
    over = sorted(len(text) for text in texts if len(text) > longest * 1.5)
    if over and longest >= 8:
        yield (
            Condition("longer", name, longest),
            _matches(name, lambda v: isinstance(v, str) and len(v) > longest),
            over[0],
        )


def _has(text: str, mark: str) -> bool:
    if mark == "upper":
        return any(letter.isupper() for letter in text)
    if mark == "digit":
        return any(letter.isdigit() for letter in text)
    if mark == "non-ascii":
        return not text.isascii()
    if mark == "quote":
        return "'" in text or '"' in text
    return mark in text


def _marks(texts: list[str], good: list[str]) -> list[str]:
    return [
        mark
        for mark in _NAMES
        if sum(_has(text, mark) for text in texts) >= COVER * len(texts)
        and sum(_has(text, mark) for text in good) < 0.5 * len(good)
    ]


def _prefixes(texts: list[str], good: list[str]) -> list[str]:
    """Beginnings that end at a joint, shared by most failures and by few good calls; the longest shared one."""
    counts: Counter[str] = Counter()
    for text in set(texts):
        for joint in re.finditer(r"[/:._\\-]+", text[:200]):
            counts[text[: joint.end()]] += texts.count(text)
    shared = [prefix for prefix, count in counts.items() if count >= COVER * len(texts) and len(prefix) > 1]
    shared = [prefix for prefix in shared if sum(text.startswith(prefix) for text in good) < 0.5 * len(good)]
    # The shortest that no good call has: `/etc/` says more than `/etc/app/`, which is only this window's share of it.
    shared.sort(key=lambda prefix: (sum(text.startswith(prefix) for text in good), len(prefix), prefix))
    return shared[:3]


def _matches(name: str, test: Callable[[Any], bool]) -> Holds:
    return lambda unit: name in unit.args and test(unit.args[name])


def _typed(kind: str) -> Callable[[Any], bool]:
    return lambda value: _type(value) == kind


def _equal(text: str) -> Callable[[Any], bool]:
    return lambda value: canonical_json(value) == text


def _holding(mark: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and _has(value, mark)


def _beginning(prefix: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value.startswith(prefix)


def _absent(name: str) -> Holds:
    return lambda unit: name not in unit.args


def _given(name: str) -> Holds:
    return lambda unit: name in unit.args


def _not_before(tool: str) -> Holds:
    return lambda unit: tool not in unit.before


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(values: Iterable[Any]) -> list[float]:
    return [value for value in values if _is_number(value) and value == value]


def _type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    return {"str": "a string", "list": "a list", "dict": "an object"}.get(type(value).__name__, "text")


def _fisher(hit: int, failed: int, missed: int, good: int) -> float:
    """One-sided chance (Fisher's exact test) of so many failures among the matching units."""
    matching, everything = hit + missed, failed + good
    total = 0.0
    for k in range(hit, min(matching, failed) + 1):
        if matching - k <= good:
            total += math.exp(
                _log_choose(failed, k) + _log_choose(good, matching - k) - _log_choose(everything, matching)
            )
    return min(1.0, total)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def timeline_of(calls: Iterable[ToolInvocation]) -> dict[str, list[ToolInvocation]]:
    """All calls of each session by position."""
    found: defaultdict[str, list[ToolInvocation]] = defaultdict(list)
    for call in calls:
        found[call.session_id].append(call)
    return {session: sorted(line, key=lambda call: (call.seq, call.id)) for session, line in found.items()}
