"""Cutting texts into terms: a column by polars and one text in Python give the same."""

from __future__ import annotations

import time
import unicodedata

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sitoolkit.lexical import build_index, carry_over, parse_query, split_terms, terms_of

SAMPLES = [
    "getUserName HTTPServer parseJSON2Xml v2.10.3 sha256 5xx E.164 LC_ALL=C.UTF-8",
    "/etc/nginx/conf.d/site.conf C:\\Users\\x\\a.txt a@b.com __init__ _x_ x__y",
    "重启服务之前先备份数据库 2024年 ver3を使う ひらがなカタカナ漢字 한국어를 ทดสอบภาษาไทย",
    "Übergröße CAFÉ naïve İstanbul ŒUVRE ﬁne ½ ² Ⅷ",
    "policies boxes classes running tried uses bus need e ies s",
    "a-b--c...d == x=1 :: ||",
    "",
]


def by_column(text: str) -> list[str]:
    return pl.DataFrame({"t": [text]}).select(terms_of(pl.col("t"))).to_series()[0].to_list()


@pytest.mark.parametrize("text", SAMPLES)
def test_one_text_is_cut_as_a_column_is(text: str) -> None:
    assert split_terms(text) == by_column(text)


# Letters that one of the two Unicode tables does not know yet, and lone surrogates, which no column holds.
_LETTERS = st.characters(exclude_categories=("Cs", "Cn", "Co"), max_codepoint=0xFFFF)


@given(st.text(st.one_of(st.sampled_from("aZ09_-./:=@ éÜß漢字かなカ한ก"), _LETTERS), max_size=40))
@settings(deadline=None, max_examples=150)
def test_any_text_is_cut_as_a_column_is(text: str) -> None:
    assume(all(unicodedata.category(c) != "Cn" for c in unicodedata.normalize("NFKC", text)))
    assert split_terms(text) == by_column(text)


def test_a_query_is_bounded_and_quick() -> None:
    start = time.perf_counter()
    query = parse_query(" ".join(f"word{n}" for n in range(5_000)))
    assert len(query.terms) == 200
    assert time.perf_counter() - start < 5


def test_an_empty_index_has_nothing() -> None:
    words, symbols = build_index(pl.Series([], dtype=pl.String)).coverage(parse_query("x 429"))
    assert words.tolist() == symbols.tolist() == []


@given(
    st.lists(
        st.tuples(st.sampled_from(["alpha 429", "beta_x", "gamma delta", "数据库"]), st.integers(0, 9)),
        max_size=12,
    ),
    st.data(),
)
@settings(deadline=None, max_examples=30)
def test_a_carried_over_index_is_the_index_made_anew(
    rows: list[tuple[str, int]], data: st.DataObject
) -> None:
    old = [f"{text} {n}" for text, n in rows]
    kept = data.draw(st.lists(st.sampled_from(range(len(old))), unique=True)) if old else []
    texts = [old[place] for place in kept] + ["a new text 77", "another_one"]
    places = np.array([*kept, -1, -1], dtype=np.int64)
    carried = carry_over(build_index(pl.Series(old, dtype=pl.String)), places, pl.Series(texts))
    fresh = build_index(pl.Series(texts))
    for name in ("hashes", "starts", "docs"):
        assert np.array_equal(getattr(carried, name), getattr(fresh, name)), name
