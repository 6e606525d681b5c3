"""Sessions with known trouble: comes in a seed and rates, goes out tool calls and the truth about them.

The truth is what was injected, not what was counted: a (tool, failure mode) pair is true in a session if the simulator made
it active there, however often it then failed. Beside it stand background noise, of which each tool has its own rate, and
one-off bursts (an outage that strikes once), so that a detector can be wrong in both directions.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sitoolkit.records import FailureMode, Outcome, Source, ToolInvocation, digest, parse_time

__all__ = ["Rates", "Score", "Simulation", "score_events", "simulate_friction"]

_START = parse_time("2026-01-05T08:00:00Z")


@dataclass(frozen=True)
class Rates:
    """Under which rates the sessions are made; probabilities unless it says otherwise."""

    tools: int = 40
    tools_in_session: tuple[int, int] = (6, 12)
    calls_of_tool: tuple[int, int] = (2, 8)  # without trouble
    active: float = 0.025  # that an injected pair is active in a session: 1.25 of 50 pairs
    fails: tuple[float, float] = (0.5, 0.95)  # that a call fails while its pair is active; drawn a pair
    retries: tuple[int, int] = (0, 3)  # extra calls that trouble causes
    quiet_noise: float = 0.01  # that any other call of an ordinary tool fails
    flaky_tools: float = 0.15  # share of tools that are flaky
    flaky_noise: tuple[float, float] = (0.1, 0.3)  # that a call of a flaky tool fails, mostly in one mode
    burst: float = 0.06  # that a session has a one-off burst
    burst_failures: tuple[int, int] = (2, 5)


@dataclass
class Simulation:
    """What was made: counts and truth at once, the calls themselves on demand."""

    seed: int
    rates: Rates
    sessions: list[str]
    injected: set[tuple[str, str]]  # pairs of tool and mode
    truth: set[tuple[str, str, str]]  # session, tool, mode: where an injected pair was active
    failures: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    uses: Counter[tuple[str, str]] = field(default_factory=Counter)
    outcomes: list[list[tuple[str, str | None]]] = field(
        default_factory=list
    )  # (tool, mode or None), a list a session

    def calls(self) -> Iterator[ToolInvocation]:
        """The sessions' calls in order of time."""
        for index, (session, steps) in enumerate(zip(self.sessions, self.outcomes, strict=True)):
            began = _at(index)
            for seq, (tool, mode) in enumerate(steps):
                yield ToolInvocation(
                    id=digest("simulated", self.seed, session, seq),
                    session_id=session,
                    seq=seq,
                    tool=tool,
                    args={"n": seq},
                    outcome=Outcome.SUCCESS
                    if mode is None
                    else Outcome.TIMEOUT
                    if mode == "TIMEOUT"
                    else Outcome.FAILURE,
                    failure_mode=mode,
                    error=f"{mode} in {tool}" if mode else None,
                    started_at=began + timedelta(seconds=7 * seq),
                    agent="simulated",
                    paired=True,
                    source=Source(file=f"simulated-{self.seed}.jsonl", line=index + 1, format="sitoolkit"),
                )


@dataclass(frozen=True)
class Score:
    """How well firings meet the truth, counted a session and pair."""

    precision: float
    recall: float
    f1: float
    builds_per_session: float


def _at(index: int) -> datetime:
    assert _START is not None
    return _START + timedelta(hours=index)


def simulate_friction(
    seed: int = 0, sessions: int = 500, pairs: int = 50, rates: Rates | None = None
) -> Simulation:
    """Make sessions with injected pairs.

    >>> made = simulate_friction(seed=1, sessions=20, pairs=5)
    >>> {(tool, mode) for _, tool, mode in made.truth} <= made.injected
    True

    Args:
        seed: the same seed gives the same sessions on every machine.
        sessions: how many.
        pairs: (tool, mode) pairs that are injected.
        rates: see `Rates`.
    """
    rates = rates or Rates()
    rng = random.Random(f"friction-{seed}")
    tools = [f"tool_{number:02}" for number in range(rates.tools)]
    modes = [mode.value for mode in FailureMode]
    everything = [(tool, mode) for tool in tools for mode in modes]
    chosen = rng.sample(everything, pairs)
    injected = set(chosen)
    others = sorted(set(everything) - injected)
    fails = {pair: rng.uniform(*rates.fails) for pair in chosen}
    noise = {tool: (rates.quiet_noise, rng.choice(modes)) for tool in tools}
    for tool in rng.sample(tools, round(rates.flaky_tools * rates.tools)):
        noise[tool] = (rng.uniform(*rates.flaky_noise), rng.choice([m for t, m in others if t == tool]))
    made = Simulation(seed, rates, [f"sim-{seed}-{index:05}" for index in range(sessions)], injected, set())
    for session in made.sessions:
        used = {
            tool: rng.randint(*rates.calls_of_tool)
            for tool in rng.sample(tools, rng.randint(*rates.tools_in_session))
        }
        active: dict[str, str] = {}
        for tool, mode in chosen:
            if rng.random() < rates.active and tool not in active:
                active[tool] = mode
                used[tool] = used.get(tool, rng.randint(*rates.calls_of_tool)) + rng.randint(*rates.retries)
        steps: list[tuple[str, str | None]] = []
        for tool, count in used.items():
            for _ in range(count):
                steps.append((tool, _outcome(rng, tool, active.get(tool), fails, noise[tool], modes)))
        if rng.random() < rates.burst:
            tool, mode = rng.choice(others)
            steps += [(tool, mode)] * rng.randint(*rates.burst_failures)
            steps += [(tool, None)] * rng.randint(0, 4)
        rng.shuffle(steps)
        made.outcomes.append(steps)
        made.truth.update((session, tool, mode) for tool, mode in active.items())
        for tool, failed in steps:
            made.uses[session, tool] += 1
            if failed:
                made.failures[session, tool, failed] += 1
    return made


def _outcome(
    rng: random.Random,
    tool: str,
    active: str | None,
    fails: dict[tuple[str, str], float],
    noise: tuple[float, str],
    modes: list[str],
) -> str | None:
    if active is not None and rng.random() < fails[tool, active]:
        return active
    rate, usual = noise
    if rng.random() < rate:
        return usual if rng.random() < 0.8 else rng.choice(modes)
    return None


def score_events(fired: Iterable[tuple[str, str, str]], made: Simulation) -> Score:
    """Compare firings, as (session, tool, mode), with the truth."""
    keys = set(fired)
    hits = len(keys & made.truth)
    precision = hits / len(keys) if keys else 0.0
    recall = hits / len(made.truth) if made.truth else 0.0
    return Score(
        precision,
        recall,
        2 * precision * recall / (precision + recall) if precision + recall else 0.0,
        len(keys) / len(made.sessions),
    )
