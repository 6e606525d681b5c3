"""Prints how well friction is found on simulated sessions, beside the paper's table, and the speed over a million calls.

Run: `python bench/friction.py`. The rate test is tuned on seeds 0 to 4 and reported on seeds 100 to 109 that it never saw.
"""

from __future__ import annotations

import time

from sitoolkit.learning.rates import RECURRENCE_WEIGHT, rate_test
from sitoolkit.loops.friction import detect_friction, find_friction
from sitoolkit.testing.simulator import Score, Simulation, score_events, simulate_friction

PAPER = {
    2: (0.81, 0.95, 0.87, 2.3),
    3: (0.94, 0.89, 0.91, 1.1),
    4: (0.97, 0.72, 0.83, 0.6),
    5: (0.99, 0.58, 0.73, 0.3),
}
TUNE, HELD = range(5), range(100, 110)
SESSIONS, PAIRS, CALLS = 500, 50, 1_000_000


def fixed(made: Simulation, threshold: int) -> set[tuple[str, str, str]]:
    return {key for key, count in made.failures.items() if count >= threshold}


def by_rate(made: Simulation, alpha: float, recurrence: float) -> set[tuple[str, str, str]]:
    return rate_test(made.sessions, made.failures, made.uses, alpha=alpha, recurrence=recurrence)


def mean(scores: list[Score]) -> tuple[float, float, float, float]:
    n = len(scores)
    return (
        sum(s.precision for s in scores) / n,
        sum(s.recall for s in scores) / n,
        sum(s.f1 for s in scores) / n,
        sum(s.builds_per_session for s in scores) / n,
    )


def alpha_for(builds: float, made: list[Simulation]) -> float:
    """The tail probability at which the rate test builds as often as asked, on the tuning seeds."""
    low, high = -30.0, -1.0  # log10
    for _ in range(14):
        middle = (low + high) / 2
        got = mean([score_events(by_rate(m, 10**middle, RECURRENCE_WEIGHT), m) for m in made])[3]
        low, high = (low, middle) if got > builds else (middle, high)
    return float(10**low)


def quality() -> None:
    tune = [simulate_friction(seed, SESSIONS, PAIRS) for seed in TUNE]
    held = [simulate_friction(seed, SESSIONS, PAIRS) for seed in HELD]
    print(
        f"{SESSIONS} sessions, {PAIRS} injected pairs, mean of {len(held)} held seeds; rates: {held[0].rates}"
    )
    print("truth: the pairs that were injected and active in a session, however often they failed\n")
    print(f"{'':34}precision  recall    F1  builds/session")
    for threshold in (2, 3, 4, 5):
        p, r, f, b = PAPER[threshold]
        print(f"theta {threshold}  paper (truth = the count itself) {p:8.2f} {r:7.2f} {f:5.2f} {b:8.1f}")
        counted = mean([score_events(fixed(m, threshold), m) for m in held])
        print(
            f"         fixed count               {counted[0]:8.2f} {counted[1]:7.2f} {counted[2]:5.2f} {counted[3]:8.2f}"
        )
        builds = mean([score_events(fixed(m, threshold), m) for m in tune])[3]
        alpha = alpha_for(builds, tune)
        scores = [score_events(by_rate(m, alpha, RECURRENCE_WEIGHT), m) for m in held]
        rated = mean(scores)
        wins = sum(s.f1 > score_events(fixed(m, threshold), m).f1 for s, m in zip(scores, held, strict=True))
        print(
            f"         rate test, same builds    {rated[0]:8.2f} {rated[1]:7.2f} {rated[2]:5.2f} {rated[3]:8.2f}"
            f"   alpha {alpha:.0e}, better F1 on {wins} of {len(held)} held seeds"
        )
    sample = held[0]
    calls = list(sample.calls())
    began = time.perf_counter()
    events = detect_friction(calls)
    spent = time.perf_counter() - began
    print(
        f"\ndetect_friction: {len(calls):,} calls, {len(events)} events, {spent * 1e6 / len(calls):.1f} us a call"
    )


def speed() -> None:
    import duckdb

    with duckdb.connect() as con:
        con.execute(
            f"""create table calls as select *, outcome in ('failure', 'timeout') as failed from (
              select sha256(i::varchar) as id, 'session-' || (i // 50) as session_id, (i % 50)::integer as seq,
              case when hash(i // 50) % 20 = 0 and i % 50 < 4 then 'tool_1' else 'tool_' || (hash(i) % 40) end as tool,
              case when hash(i // 50) % 20 = 0 and i % 50 < 4 or hash(i, 7) % 100 < 8 then 'failure'
                   when hash(i, 7) % 100 < 10 then 'timeout' else 'success' end as outcome,
              case when hash(i // 50) % 20 = 0 and i % 50 < 4 then 'PERM' when hash(i, 7) % 100 < 8
                   then ['PERM', 'NOTFOUND', 'ARGS', 'RUNTIME'][(hash(i, 3) % 4 + 1)::integer] end as failure_mode,
              'ops' as agent, timestamptz '2026-01-01 00:00:00Z' + interval (i) second as started_at,
              'error ' || (hash(i, 5) % 100) as error, '{{"n": 1}}' as args
              from range({CALLS}) t(i))"""
        )
        spent, used = [], []
        for _ in range(9):
            began, cpu = time.perf_counter(), time.process_time()
            found = find_friction(con)
            spent.append(time.perf_counter() - began)
            used.append(time.process_time() - cpu)
        print(
            f"find_friction over {CALLS:,} recorded calls, evidence included: {len(found)} events, "
            f"best {min(spent) * 1e3:.0f} ms, median {sorted(spent)[4] * 1e3:.0f} ms, {min(used) * 1e3:.0f} ms of processor time"
        )


if __name__ == "__main__":
    quality()
    speed()
