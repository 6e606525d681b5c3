"""Charts are judged by their data, not by pixels: for nothing, for one row, and for a million rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest

from sitoolkit.views import charts
from sitoolkit.views.charts._base import as_frame, label
from sitoolkit.views.theme import CATEGORIES, OUTCOMES, PALETTE, chart_svg, enable_theme

T0 = datetime(2026, 5, 4, tzinfo=UTC)
HOSTILE = '<img src=x onerror="alert(1)">\u202e\u0007 javascript:alert(1)'
CALL = {
    "tool": "deploy", "outcome": "failure", "failure_mode": "ARGS", "session_id": "s1", "started_at": T0, "seq": 0, "duration_ms": 5.0,
    "error": "boom",
}  # fmt: skip
MEMORY = {
    "id": "mem_1", "category": "reflection", "scope": "global", "text": "t", "seen_count": 1, "status": "active", "created_at": T0,
    "ended_at": None, "access_count": 0,
}  # fmt: skip
SIGNATURE = {"signature": "E <n>", "count": 3, "severity": "error", "first_seen": T0, "last_seen": T0}
LESSON = {"lesson": "l", "failures_before": 5, "calls_before": 10, "failures_after": 1, "calls_after": 10}
PATTERN = {
    "tool": "deploy",
    "sample_count": 5,
    "claims": [{"text": "c", "kind": "constant", "support": 5, "of": 5}],
}
RECALL = {"at": T0, "tokens": 120, "abstained": False, "items": [{"slot": "lesson"}]}
DRAWN: list[tuple[str, Callable[[Any], Any], Any]] = [
    ("activity", charts.activity, CALL),
    ("session_timeline", charts.session_timeline, CALL),
    ("friction_heatmap", charts.friction_heatmap, CALL),
    ("signature_pareto", charts.signature_pareto, SIGNATURE),
    ("lesson_effect", charts.lesson_effect, LESSON),
    ("memory_growth", charts.memory_growth, MEMORY),
    ("survival", charts.survival, MEMORY),
    ("never_recalled", charts.never_recalled, MEMORY),
    ("recall_overview", charts.recall_overview, RECALL),
    ("proposals_funnel", charts.proposals_funnel, {"type": "new-tool", "state": "pending"}),
    ("reviewer_throughput", charts.reviewer_throughput, {"at": T0, "by": "Ada", "verdict": "approve"}),
    ("tool_backlog", charts.tool_backlog, {"session": 1, "backlog": 3, "builds": 0}),
]
NAMES = [name for name, _, _ in DRAWN]


def rows_in(chart: Any) -> list[dict[str, Any]]:
    """Every row that a chart carries, in all of its layers."""
    found: list[dict[str, Any]] = []

    def look(node: Any) -> None:
        if isinstance(node, dict):
            for rows in [node.get("values"), *(node.get("datasets") or {}).values()]:
                found.extend(row for row in rows or [] if isinstance(row, dict))
            for item in node.values():
                look(item)
        elif isinstance(node, list):
            for item in node:
                look(item)

    look(chart.to_dict())
    return found


def million() -> pl.DataFrame:
    n = 1_000_000
    numbers = np.arange(n)
    return pl.DataFrame(
        {
            "tool": pl.Series(numbers % 300).cast(pl.String),
            "outcome": pl.Series(np.array(list(OUTCOMES))[numbers % 5]),
            "failure_mode": pl.Series(np.array(["ARGS", "PERM", "TIMEOUT"])[numbers % 3]),
            "session_id": pl.Series(numbers % 20_000).cast(pl.String),
            "category": pl.Series(np.array(list(CATEGORIES))[numbers % 5]),
            "status": pl.Series(np.array(["active", "retired"])[numbers % 2]),
            "type": pl.Series(np.array(["new-tool", "code-fix"])[numbers % 2]),
            "state": pl.Series(np.array(["pending", "rejected"])[numbers % 2]),
            "by": pl.Series(np.array(["Ada", "Grace"])[numbers % 2]),
            "verdict": pl.Series(np.array(["approve", "reject"])[numbers % 2]),
            "signature": pl.Series(numbers % 500).cast(pl.String),
            "lesson": pl.Series(numbers).cast(pl.String),
            "count": numbers % 7,
            "seq": numbers,
            "session": numbers,
            "backlog": numbers % 50,
            "builds": numbers % 60,
            "access_count": numbers % 2,
            "calls_before": numbers % 20 + 1,
            "failures_before": numbers % 20,
            "calls_after": numbers % 20 + 1,
            "failures_after": numbers % 5,
        }
    ).with_columns(
        (pl.lit(T0) + pl.duration(minutes=pl.int_range(n))).alias("started_at"),
        (pl.lit(T0) + pl.duration(minutes=pl.int_range(n))).alias("created_at"),
        (pl.lit(T0) + pl.duration(minutes=pl.int_range(n) + 999)).alias("ended_at"),
        (pl.lit(T0) + pl.duration(minutes=pl.int_range(n))).alias("at"),
    )


@pytest.fixture(scope="module")
def many() -> pl.DataFrame:
    return million()


@pytest.mark.parametrize("name,draw,row", DRAWN, ids=NAMES)
def test_nothing_draws_a_chart_that_says_what_would_fill_it(name: str, draw: Any, row: Any) -> None:
    for empty in ([], pl.DataFrame(), pl.DataFrame({key: [] for key in row})):
        spec = draw(empty).to_dict()
        assert "nothing yet" in json.dumps(spec), name
        assert len(spec["description"]) > 20


@pytest.mark.parametrize("name,draw,row", DRAWN, ids=NAMES)
def test_one_row_is_drawn(name: str, draw: Any, row: Any) -> None:
    chart = draw([row])
    assert "nothing yet" not in json.dumps(chart.to_dict())
    assert rows_in(chart)
    svg = chart_svg(chart)
    assert svg.startswith("<svg") and 'aria-label="' in svg


@pytest.mark.parametrize(
    "name,draw,row",
    [one for one in DRAWN if one[0] != "recall_overview"],
    ids=[n for n in NAMES if n != "recall_overview"],
)
def test_a_million_rows_are_counted_before_they_are_drawn(
    name: str, draw: Any, row: Any, many: pl.DataFrame
) -> None:
    rows = rows_in(draw(many))
    assert 0 < len(rows) <= 5_000, f"{name} carries {len(rows)} rows"


def test_many_recalls_are_counted_before_they_are_drawn() -> None:
    rows = [
        {
            "at": T0 + timedelta(hours=n),
            "tokens": n % 900,
            "abstained": n % 9 == 0,
            "slots": ["lesson", "pattern"],
        }
        for n in range(50_000)
    ]
    assert 0 < len(rows_in(charts.recall_overview(rows))) <= 5_000


def test_counts_are_the_counts_of_the_input() -> None:
    calls = [
        dict(CALL, outcome=outcome, started_at=T0 + timedelta(days=day))
        for day in range(3)
        for outcome in ("success", "failure", "failure")
    ]
    rows = rows_in(charts.activity(calls))
    assert sum(row["calls"] for row in rows) == 9
    assert sum(row["calls"] for row in rows if row["outcome"] == "failure") == 6
    assert {row["on"] for row in rows} == {"2026-05-04", "2026-05-05", "2026-05-06"}


def test_calls_without_a_time_are_counted_and_said() -> None:
    spec = charts.activity([CALL, dict(CALL, started_at=None)]).to_dict()
    assert "1 without a time" in json.dumps(spec)
    assert sum(row["calls"] for row in rows_in(charts.activity([CALL, dict(CALL, started_at=None)]))) == 2


def test_rare_tools_become_one_row_and_no_call_is_lost() -> None:
    calls = [dict(CALL, tool=f"tool{n:03}") for n in range(100)]
    rows = rows_in(charts.activity(calls, tools=10))
    assert len({row["tool"] for row in rows}) == 11
    assert sum(row["calls"] for row in rows) == 100


def test_pattern_card_marks_what_varies() -> None:
    claims = [
        {"text": "`host` is always `a`", "kind": "constant", "support": 5, "of": 5},
        {"text": "`host` varies", "kind": "variance", "support": 3, "of": 5},
    ]
    rows = rows_in(charts.pattern_card({"tool": "t", "sample_count": 5, "claims": claims}))
    assert [row["meaning"] for row in rows] == ["holds", "varies"]
    assert [row["share"] for row in rows] == [1.0, 0.6]
    assert "nothing yet" in json.dumps(charts.pattern_card(None).to_dict())


def test_survival_counts_those_still_active_as_long_as_they_were_seen() -> None:
    rows = [
        dict(MEMORY, created_at=T0, ended_at=T0 + timedelta(days=10)),
        dict(MEMORY, created_at=T0, ended_at=None),
        dict(MEMORY, created_at=T0, ended_at=T0 + timedelta(days=20)),
        dict(MEMORY, created_at=T0, ended_at=None),
    ]
    drawn = rows_in(charts.survival(rows, now=T0 + timedelta(days=30)))
    assert [round(row["share"], 3) for row in drawn] == [1.0, 0.75, 0.5, 0.5]


def test_decay_halves_after_its_half_life_and_stops_at_the_floor() -> None:
    rows = {
        row["days"]: row["weight"]
        for row in rows_in(charts.decay_curves({"reflection": 30.0}, 0.1, days=120))
        if row.get("category") == "reflection"
    }
    assert rows[30] == pytest.approx(0.5)
    assert min(rows.values()) == pytest.approx(0.1)


def test_memory_map_leaves_out_rows_without_a_vector_and_is_the_same_twice() -> None:
    generator = np.random.default_rng(3)
    matrix = generator.normal(size=(50, 16)).astype("float32")
    matrix[7] = 0
    memories = [dict(MEMORY, id=f"mem_{n}", text=HOSTILE) for n in range(50)]
    first, second = charts.memory_map(memories, matrix), charts.memory_map(memories, matrix)
    assert first.to_dict() == second.to_dict()
    assert len(rows_in(first)) == 49
    assert len(rows_in(charts.memory_map([MEMORY], matrix[:1]))) == 1
    assert "nothing yet" in json.dumps(charts.memory_map([], np.zeros((0, 16))).to_dict())
    big = np.tile(matrix, (100, 1))
    assert len(rows_in(charts.memory_map(memories * 100, big, limit=500))) <= 500


def test_the_zone_of_the_host_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    specs = []
    for zone in ("UTC", "Pacific/Auckland", "America/St_Johns"):
        monkeypatch.setenv("TZ", zone)
        specs.append(json.dumps(charts.activity([CALL]).to_dict(), sort_keys=True))
    assert len(set(specs)) == 1


@pytest.mark.parametrize("name,draw,row", DRAWN, ids=NAMES)
def test_hostile_text_stays_text(name: str, draw: Any, row: Any) -> None:
    hostile = {
        key: HOSTILE if isinstance(value, str) and key not in ("outcome", "state", "status") else value
        for key, value in row.items()
    }
    svg = chart_svg(draw([hostile]))
    assert "<img" not in svg and "\u202e" not in svg and "<script" not in svg


def test_labels_show_hidden_characters_and_are_bounded() -> None:
    assert label("a\u202eb\u0000c") == "a\\u202eb\\u0000c"
    assert len(label("x" * 500)) == 48


def test_frames_of_any_origin_have_the_columns_that_were_asked_for() -> None:
    wanted = {"tool": "str", "count": "int", "at": "datetime"}
    for rows in (
        [{"tool": "a", "count": "3", "at": "2026-05-04T00:00:00Z"}],
        pl.DataFrame({"tool": ["a"], "count": [3.0], "at": [T0.replace(tzinfo=None)]}),
    ):
        frame = as_frame(rows, wanted)
        assert frame.row(0) == ("a", 3, T0)
    assert as_frame(None, wanted).columns == list(wanted)


def test_the_adaptive_svg_takes_its_colours_from_the_page() -> None:
    enable_theme(dark=False)
    svg = chart_svg(charts.activity([CALL]), adaptive=True)
    assert "currentColor" in svg and "var(--muted)" in svg and "#010203" not in svg


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colour", PALETTE)
def test_marks_stand_out_from_a_light_and_a_dark_page(colour: str) -> None:
    """WCAG 2.2, 1.4.11: graphical objects have a contrast of 3:1."""
    for page in ("#ffffff", "#111418"):
        light, dark = sorted((luminance(colour), luminance(page)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 2.9, (colour, page)
