"""The bench of build-it-now counts real builds: what the recipes and the replay say, and nothing else."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from sitoolkit.recipes import Trial

FILE = Path(__file__).parents[1] / "bench" / "build.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_build", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def two(bench, monkeypatch):
    """A pair that a retry settles and one that nothing does; no build is kept from before."""
    settled = bench.Pair("use_network_0", "NETWORK", 0)
    left = bench.Pair("use_runtime_0", "RUNTIME", 0)
    monkeypatch.setattr(bench, "pairs", lambda: [settled, left])
    monkeypatch.setattr(bench, "ACTIVE", 1.0)
    monkeypatch.setattr(bench, "TOOLS_A_TASK", 1)
    bench.build.cache_clear()
    return settled, left


def test_thirty_pairs_over_all_modes(bench):
    found = bench.pairs()
    assert len(set(found)) == 30
    assert {pair.mode for pair in found} == set(bench.STORIES)


def test_what_is_built_is_used_and_what_is_refused_stays_in_the_backlog(bench, two):
    settled, left = two
    assert (bench.build(settled).turned, bench.build(settled).use) == (1, "done")
    assert "no recipe settles RUNTIME" in bench.build(left).reason
    on = bench.run(0, True, sessions=12, at=(12,)).points[0]
    assert (on.seen, on.addressed, on.builds, on.refused, on.backlog) == (2, 1, 2, 1, 1)
    off = bench.run(0, False, sessions=12, at=(12,)).points[0]
    assert (off.addressed, off.builds, off.backlog, off.success) == (0, 0, 2, 0.0)
    assert 0.3 < on.success < 0.7  # every task uses one of the two


def test_a_tool_that_its_replay_refuses_is_not_counted(bench, two, monkeypatch):
    monkeypatch.setattr(bench, "try_design", lambda design: Trial(fault="failure 1: not turned"))
    on = bench.run(0, True, sessions=10, at=(10,)).points[0]
    assert (on.addressed, on.refused, on.success) == (0, 2, 0.0)
    bench.build.cache_clear()
