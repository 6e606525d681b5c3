"""What came before: calls of one tool and the sessions around them come in, `preceded_by` claims go out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sitoolkit.claims.contents import Content
from sitoolkit.claims.making import code, make_claim
from sitoolkit.claims.stats import wilson_lower
from sitoolkit.records import Claim, Outcome, ToolInvocation

__all__ = ["Timeline", "preceded_by", "timelines"]

WINDOW = 6  # how many calls back a preceding call may lie
_BASE_SESSIONS = 1_000  # a rate over so many sessions is sure enough
_EXCEPTIONS_Z = 3.0  # many tools are tried, so one with exceptions must stand out further
LIFT = 0.1  # how far above the tool's usual share the lower bound must lie

Timeline = Sequence[tuple[int, str, bool]]  # (seq, tool, succeeded) of one session, by seq


def timelines(calls: Iterable[ToolInvocation]) -> dict[str, list[tuple[int, str, bool]]]:
    """The calls of each session in order, as far as claims need them."""
    out: dict[str, list[tuple[int, str, bool]]] = {}
    for call in calls:
        out.setdefault(call.session_id, []).append((call.seq, call.tool, call.outcome is Outcome.SUCCESS))
    for line in out.values():
        line.sort()
    return out


def before(line: Timeline, seq: int, tool: str) -> frozenset[str]:
    """Other tools that succeeded in the last few calls before `seq`, back to the previous success of the same tool.

    >>> sorted(before([(0, "test", True), (1, "list", True), (2, "deploy", True)], 2, "deploy"))
    ['list', 'test']
    """
    found: set[str] = set()
    steps = 0
    for place, name, succeeded in reversed(line):
        if place >= seq:
            continue
        if name == tool and succeeded:
            break
        steps += 1
        if steps > WINDOW:
            break
        if succeeded and name != tool:
            found.add(name)
    return frozenset(found)


def preceded_by(
    tool: str,
    contents: Sequence[Content],
    lines: Mapping[str, Timeline],
    min_samples: int,
    min_support: float,
) -> list[Claim]:
    """Calls that came before every call of the tool, and more often than before other tools in the same sessions."""
    earlier = {
        (call.session_id, call.seq): before(lines.get(call.session_id, ()), call.seq, tool)
        for content in contents
        for call in content.calls
    }
    of = len(contents)
    if of < min_samples:
        return []
    common = [
        frozenset.intersection(*(earlier[call.session_id, call.seq] for call in content.calls))
        for content in contents
    ]
    candidates = {
        name: support
        for name, support in Counter(name for names in common for name in names).items()
        if support / of >= min_support
    }
    if not candidates:
        return []
    base = _base_rates(tool, lines, {session for session, _ in earlier}, set(candidates))
    claims = []
    for name, support in sorted(candidates.items(), key=lambda pair: (-pair[1], pair[0])):
        bound = wilson_lower(support, of) if support == of else wilson_lower(support, of, z=_EXCEPTIONS_Z)
        holds = [content for content, names in zip(contents, common, strict=True) if name in names]
        if (
            bound < 0.5
            or bound <= base[name] + LIFT
            or len({content.calls[0].session_id for content in holds}) < 2
        ):
            continue
        data = {"before": name, "window": WINDOW, "base_rate": round(base[name], 3)}
        often = "always comes" if support == of else f"comes in {support} of {of} distinct calls"
        text = f"A successful {code(name)} {often} before {code(tool)}."
        claims.append(make_claim(tool, "preceded_by", text, holds, of, data, ("preceded_by", name)))
    return claims


def _base_rates(
    tool: str, lines: Mapping[str, Timeline], sessions: set[str], names: set[str]
) -> dict[str, float]:
    """For each candidate: in which share of the calls of other tools it lies in the same window before.

    Calls that follow the tool are left out, since they inherit what came before it; one success and one miss are added,
    so that a handful of calls proves no rarity (Laplace).
    """
    seen: Counter[str] = Counter()
    total: Counter[str] = Counter()
    chosen = sorted(sessions)
    for session in chosen[:: max(1, len(chosen) // _BASE_SESSIONS)]:
        line = lines.get(session, ())
        for at, (_, name, _) in enumerate(line):
            recent = line[max(0, at - WINDOW) : at]
            if name == tool or any(n == tool for _, n, _ in recent):
                continue
            succeeded = {n for _, n, ok in recent if ok}
            for candidate in names:
                if candidate != name:
                    total[candidate] += 1
                    seen[candidate] += candidate in succeeded
    return {name: (seen[name] + 1) / (total[name] + 2) for name in names}
