"""Whether a count of failures is more than chance: counts by session, tool and mode come in, those that strike go out.

A tool that fails now and then will reach any fixed count in a long session. Here a count is compared with the base rate of
its own tool, and a pair that struck in earlier sessions needs less.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

__all__ = ["MIN_RATE_COUNT", "RATE_ALPHA", "RECURRENCE_WEIGHT", "log_tail", "rate_test"]

MIN_RATE_COUNT = 2  # one failure is no pattern, however rare it is
RATE_ALPHA = 1e-5  # chance of the count under the tool's own base rate; tuned on seeds 0-4 to the builds of a count of 3
RECURRENCE_WEIGHT = (
    1.5  # how much (in nats) each doubling of earlier striking sessions counts; tuned on the same seeds
)


def rate_test(
    sessions: Iterable[str],
    counts: Mapping[tuple[str, str, str], int],
    uses: Mapping[tuple[str, str], int],
    *,
    alpha: float = RATE_ALPHA,
    recurrence: float = RECURRENCE_WEIGHT,
) -> set[tuple[str, str, str]]:
    """Which (session, tool, mode) strike beyond the base rate of their tool, reading sessions in order.

    The base rate of a pair is learned from the sessions before, leaving out those in which it struck, and starts from the
    rate of all pairs. A count strikes when its binomial tail is improbable; a pair that struck before needs less.

    Args:
        sessions: session ids, oldest first.
        counts: failures of each (session, tool, mode).
        uses: calls of each (session, tool).
        alpha: tail probability at which a pair without a history fires.
        recurrence: nats by which each doubling of earlier striking sessions lowers the bar.
    """
    by_session: defaultdict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for key in counts:
        by_session[key[0]].append(key)
    tools_in: defaultdict[str, list[str]] = defaultdict(list)
    for session, tool in uses:
        tools_in[session].append(tool)
    calls: defaultdict[str, int] = defaultdict(int)  # of a tool, in the sessions so far
    quiet_failures: defaultdict[tuple[str, str], int] = defaultdict(int)
    struck_calls: defaultdict[tuple[str, str], int] = defaultdict(int)
    strikes: defaultdict[tuple[str, str], int] = defaultdict(int)
    bar = -math.log(alpha)
    fired: set[tuple[str, str, str]] = set()
    for session in sessions:
        for key in sorted(by_session.get(session, ())):
            _, tool, mode = key
            pair, count, used = (tool, mode), counts[key], uses[session, tool]
            seen = calls[tool] - struck_calls[pair]
            rate = (quiet_failures[pair] + PRIOR_FAILURES) / (seen + PRIOR_CALLS)
            score = -log_tail(count, used, min(rate, 0.5))
            if count >= MIN_RATE_COUNT and score + recurrence * math.log2(1 + strikes[pair]) >= bar:
                fired.add(key)
            if count >= MIN_RATE_COUNT and score >= -math.log(STRIKING):
                strikes[pair] += 1
                struck_calls[pair] += used
            else:
                quiet_failures[pair] += count
        for tool in tools_in.get(session, ()):
            calls[tool] += uses[session, tool]
    return fired


PRIOR_FAILURES, PRIOR_CALLS = 0.4, 20.0  # a pair not seen before is taken to fail in 2 % of the calls
STRIKING = 0.01  # tail probability at which a session counts for a pair's history


def log_tail(count: int, calls: int, rate: float) -> float:
    """Natural logarithm of the chance of `count` or more failures in `calls` calls at `rate`.

    >>> round(log_tail(1, 1, 0.5), 3)
    -0.693
    """
    calls = max(calls, count)
    terms = [
        math.lgamma(calls + 1)
        - math.lgamma(k + 1)
        - math.lgamma(calls - k + 1)
        + k * math.log(rate)
        + (calls - k) * math.log1p(-rate)
        for k in range(count, min(calls, count + 60) + 1)
    ]
    top = max(terms)
    return min(0.0, top + math.log(sum(math.exp(term - top) for term in terms)))
