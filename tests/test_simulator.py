"""The simulator is seeded, and its truth is what was injected."""

from __future__ import annotations

from sitoolkit.testing.simulator import Rates, score_events, simulate_friction


def test_same_seed_same_sessions():
    one, two = simulate_friction(4, sessions=15), simulate_friction(4, sessions=15)
    assert [c.to_json() for c in one.calls()] == [c.to_json() for c in two.calls()]
    assert one.truth == two.truth != simulate_friction(5, sessions=15).truth


def test_truth_is_the_injected_pairs_and_not_the_count():
    made = simulate_friction(1)
    assert len(made.injected) == 50
    assert {(tool, mode) for _, tool, mode in made.truth} <= made.injected
    often = {key for key, n in made.failures.items() if n >= 3}
    assert often - made.truth, "bursts and flaky tools reach three without being injected"
    assert made.truth - often, "injected pairs may stay below three"


def test_counts_are_those_of_the_calls():
    made = simulate_friction(2, sessions=10)
    calls = list(made.calls())
    assert sum(made.uses.values()) == len(calls)
    assert sum(made.failures.values()) == sum(call.failed for call in calls)


def test_nothing_injected_nothing_true():
    made = simulate_friction(
        1, sessions=10, pairs=0, rates=Rates(burst=0.0, quiet_noise=0.0, flaky_tools=0.0)
    )
    assert not made.truth and not made.failures


def test_score():
    made = simulate_friction(1, sessions=10)
    perfect = score_events(made.truth, made)
    assert (perfect.precision, perfect.recall, perfect.f1) == (1.0, 1.0, 1.0)
    assert score_events([], made).precision == 0.0
