"""Scores, gates, near-duplicates and places: the pure part of recall."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitoolkit.lexical import build_index, parse_query
from sitoolkit.ranking import (
    SLOT_ORDER,
    collapse,
    decay_factor,
    decay_factors,
    fuse,
    gate,
    latin_share,
    says_the_same,
    take_places,
)
from sitoolkit.records import Category

DIRECTIVE, LESSON, FACT, PATTERN, PRECEDENT = SLOT_ORDER


def best(texts: list[str], query: str) -> int:
    words, symbols = build_index(pl.Series(texts)).coverage(parse_query(query))
    assert words.max() > 0
    return int(np.argmax(words + symbols))


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        (
            "rollback_migration",
            ["roll back the migration later", "rollback_migration(step=1) restores the table"],
        ),
        ("getUserName", ["call get_user_name or getUserName", "get a name from the user"]),
        ("HTTP 429", ["HTTP 503 means wait", "HTTP 429 from list_issues: honour Retry-After"]),
        ("/etc/nginx/conf.d/site.conf", ["reload nginx", "edit /etc/nginx/conf.d/site.conf, then reload"]),
        ("192.168.100.7", ["host 192.168.100.71 is the switch", "host 192.168.100.7 is the router"]),
        ("ERR_CONN_4021", ["ERR_CONN_4022: listener down", "ERR_CONN_4021: certificate expired"]),
        ("数据库备份", ["日志文件保存在共享目录中", "重启服务之前先备份数据库"]),
        ("バックアップ", ["サービスを再起動する", "データベースをバックアップしてください"]),
        ("резервная копия", ["журналы хранятся в папке", "резервная копия базы каждую ночь"]),
        ("Café MÜNCHEN", ["cafe in Berlin", "das Café in München"]),
        ("migrations", ["a network plan", "each migration needs a dump"]),
        ("sha256", ["sha512 sums", "the sha256 of the payload"]),
    ],
)
def test_words_names_codes_and_other_scripts_are_found(query: str, texts: list[str]) -> None:
    assert best(texts, query) == best([t + " x" for t in texts], query)
    expected = 0 if query == "getUserName" else 1
    assert best(texts, query) == expected


def test_a_query_of_stop_words_alone_still_has_terms() -> None:
    assert parse_query("what is it").terms
    assert parse_query("").terms == ()
    assert parse_query("!!! ???").terms == ()


def test_rarity_is_counted_over_the_visible_rows_alone() -> None:
    texts = pl.Series(["alpha beta", "alpha", "beta gamma"] + ["alpha secret"] * 50)
    visible = np.array([True] * 3 + [False] * 50)
    alone = build_index(texts[:3]).coverage(parse_query("alpha beta"))[0]
    together = build_index(texts).coverage(parse_query("alpha beta"), visible)[0]
    assert np.allclose(together[:3], alone)
    assert not together[3:].any()


def f32(*numbers: float) -> np.ndarray:
    return np.array(numbers, dtype=np.float32)


def test_neither_leg_is_thrown_away() -> None:
    there = np.array([True, True, True])
    relevance = fuse(f32(0.5, 0.1, 0.3), there, f32(0, 1, 0.3), f32(0, 0, 0), lexical_weight=0.15).total
    assert relevance[0] > relevance[2]  # the vector leg leads
    without = fuse(f32(0.5, 0.1, 0.3), there, f32(0, 0, 0.3), f32(0, 0, 0), lexical_weight=0.15).total
    assert relevance[1] > without[1]
    named = fuse(f32(0.5, 0.3, 0.3), there, f32(0, 0.5, 0), f32(0, 1, 0), lexical_weight=0.15).total
    assert named[1] > named[0]  # a row that has the exact name beats a nearer one that has not


def test_a_row_without_a_vector_is_found_by_its_words() -> None:
    relevance = fuse(f32(0.4, 0), np.array([True, False]), f32(0.1, 1), f32(0, 0), lexical_weight=0.15)
    assert relevance.total[1] > relevance.total[0]
    passes, _ = gate(relevance, floor=0.24)
    assert passes.tolist() == [True, True]


def test_in_a_script_that_the_embedder_does_not_know_the_words_decide() -> None:
    relevance = fuse(
        f32(0.6, 0.5),
        np.array([True, True]),
        f32(0, 0.8),
        f32(0, 0.8),
        lexical_weight=0.15,
        trust=latin_share("数据库"),
    )
    assert relevance.total[1] > relevance.total[0]
    assert gate(relevance, floor=0.24)[0].tolist() == [False, True]
    assert latin_share("429") == 1.0


def test_below_the_floor_nothing_passes_and_the_reason_says_so() -> None:
    passes, reason = gate(
        fuse(f32(0.2, 0.1), np.array([True, True]), f32(0.2, 0), f32(0, 0), lexical_weight=0.15), floor=0.24
    )
    assert not passes.any()
    assert reason == "nothing related: best cosine 0.20, floor 0.24; best word coverage 0.20, floor 0.50"


def test_a_passing_query_brings_rows_down_to_a_share_of_floor_and_best() -> None:
    there = np.ones(4, bool)
    relevance = fuse(
        f32(0.9, 0.31, 0.29, 0.1), there, f32(0, 0, 0, 0.6), f32(0, 0, 0, 0), lexical_weight=0.15
    )
    assert gate(relevance, floor=0.24)[0].tolist() == [True, True, False, True]


def test_decay_is_a_half_life_with_a_floor_that_is_reached() -> None:
    half = {"operational_event": 60.0}
    assert [round(decay_factor("operational_event", "observed", d, half, 0.1), 3) for d in (0, 60, 120, 200, 9999)] == [
        1.0, 0.5, 0.25, 0.1, 0.1,
    ]  # fmt: skip
    assert decay_factor("operational_event", "observed", -5, half, 0.1) == 1.0
    assert decay_factor("usage_guide", "directive", 999, {"usage_guide": 1.0}, 0.1) == 1.0
    assert decay_factor("learned_fact", "user-stated", 999, {"learned_fact": 1.0}, 0.1) == 1.0


@given(st.lists(st.tuples(st.floats(0, 5000), st.integers(0, 4), st.booleans()), min_size=1, max_size=20))
def test_many_rows_decay_as_single_ones(rows: list[tuple[float, int, bool]]) -> None:
    half = {"operational_event": 60.0, "reflection": 30.0}
    ages, slots, exempt = (np.array(column) for column in zip(*rows, strict=True))
    many = decay_factors(ages, slots, exempt, half, 0.1)
    one = [
        decay_factor(SLOT_ORDER[slot], "directive" if lasting else "observed", age, half, 0.1)
        for age, slot, lasting in rows
    ]
    assert np.allclose(many, one, atol=1e-6)


def unit(*rows: tuple[float, float]) -> np.ndarray:
    matrix = np.array(rows, dtype=np.float32)
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


def test_near_duplicates_stand_for_each_other_unless_a_number_a_name_or_a_denial_differs() -> None:
    vectors = unit((1, 0), (1, 0.01), (1, 0.02), (1, 0.03), (1, 0.04), (0, 1))
    there = np.ones(6, bool)
    texts = [
        "retry after a pause",
        "pause, then retry",
        "retry after 5 s",
        "never retry",
        "retry via task_queue",
        "dump first",
    ]
    same = [str(LESSON)] * 6
    assert collapse(vectors, there, texts, same, 0.9) == {1: 0}
    assert collapse(vectors, there, texts, [str(LESSON), str(FACT), *same[2:]], 0.9) == {}
    assert collapse(vectors, np.zeros(6, bool), texts, same, 0.9) == {}
    assert collapse(vectors[:2], there[:2], ["Retry  now", "retry now"], [str(LESSON), str(FACT)], 2.0) == {
        1: 0
    }


ALL = [(slot, n) for n in range(3) for slot in reversed(SLOT_ORDER)]


@pytest.mark.parametrize(
    ("k", "slots"),
    [
        (1, [PRECEDENT]),
        (2, [PRECEDENT, DIRECTIVE]),
        (3, [PRECEDENT, DIRECTIVE, LESSON]),
        (5, [PRECEDENT, DIRECTIVE, LESSON, FACT, PATTERN]),
        (13, [PRECEDENT, DIRECTIVE, LESSON, FACT, PATTERN, DIRECTIVE, LESSON, FACT, PATTERN, PRECEDENT]),
    ],
)
def test_what_k_places_get_when_a_precedent_is_the_most_relevant(k: int, slots: list[Category]) -> None:
    categories = [slot for slot, _ in ALL]
    relevance = [0.9 if place == 0 else 0.5 for place in range(len(ALL))]
    score = [0.1 + 0.01 * place for place in range(len(ALL))]
    taken = [categories[place] for place, _ in take_places(categories, relevance, score, k)]
    assert taken[: len(slots)] == slots
    assert len(taken) == k
    if k == 13:
        assert [how for _, how in take_places(categories, relevance, score, k)][10:] == ["by score"] * 3


def test_the_first_place_goes_to_the_most_relevant_and_among_equals_to_the_best_score() -> None:
    assert take_places([LESSON, DIRECTIVE], [0.9, 0.5], [0.4, 0.9], 1)[0][0] == 0
    assert take_places([LESSON, DIRECTIVE], [0.9, 0.88], [0.4, 0.9], 1)[0][0] == 1


def test_a_slot_without_candidates_gives_its_place_on() -> None:
    taken = take_places([LESSON, LESSON, PATTERN], [0.5, 0.9, 0.4], [0.5, 0.9, 0.4], 3)
    assert taken == [(1, "most relevant"), (2, "pattern place 1"), (0, "lesson place 2")]


@given(
    st.lists(st.tuples(st.sampled_from(SLOT_ORDER), st.floats(0, 1), st.floats(0, 2)), max_size=30),
    st.integers(1, 13),
)
def test_k_places_are_the_beginning_of_more_places(rows: list[tuple[Category, float, float]], k: int) -> None:
    columns = ([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])
    fewer, more = take_places(*columns, k), take_places(*columns, k + 1)
    assert more[:k] == fewer
    assert len(fewer) == min(k, len(rows))
    assert len({place for place, _ in fewer}) == len(fewer)


@pytest.mark.parametrize(
    ("kept", "dropped", "same"),
    [
        (
            "take a dump before you roll back a migration",
            "before rolling back the migration, take a dump",
            True,
        ),
        (
            "Use retries with backoff when list_issues returns 429",
            "When list_issues returns 429, retry with backoff",
            True,
        ),
        ("restart the worker twice", "restart the worker", True),
        ("restart the worker", "restart the worker twice", False),
        ("rotate the keys of staging", "rotate the keys of production", False),
        ("always retry", "never retry", False),
        ("do not retry uploads", "never retry uploads", True),
        ("port 80 is open", "port 81 is open", False),
        ("call get_user first", "call get_users first", False),
        ("read /etc/a.conf", "read /etc/b.conf", False),
    ],
)
def test_what_can_stand_for_what(kept: str, dropped: str, same: bool) -> None:
    assert says_the_same(kept, dropped) is same
