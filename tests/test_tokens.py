"""The token estimate: never far below a fine tokenizer, and cuts that hold it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitoolkit.tokens import _PIECE, _cost, _sum, cut_to_tokens, estimate_tokens

TEXTS = [
    "register_service: mark the endpoint draining via update_service(status='draining') before maintenance",
    '{"name": "redis_main", "host": "192.168.100.7", "port": 6379, "token_env": "REDIS_TOKEN"}',
    "2026-01-02T03:04:05.678Z ERROR worker[412]: connection refused on 10.0.0.1:5432",
    "/etc/nginx/sites-enabled/default.conf line 42: unknown directive",
    "Vor dem Neustart die Datenbank sichern und Zugangsdaten nur als Umgebungsvariable übergeben",
    "重启服务之前先备份数据库,日志文件保存在共享目录中",
    "サービスを再起動する前にデータベースをバックアップしてください",
    "перед перезапуском сервиса сделайте резервную копию базы",
    "done ✅ 🚀",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c0b0f00a08",
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_estimate_is_not_below_the_32k_vocabulary_of_llama_2(text: str) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    from sitoolkit.models.embedders import _wordllama_folder

    files = sorted((_wordllama_folder() / "tokenizers").glob("*.json"))
    counted = tokenizers.Tokenizer.from_file(str(files[0]))
    counted.no_truncation()
    counted.no_padding()
    real = len(counted.encode(text, add_special_tokens=False).ids)
    assert 0.93 * real <= estimate_tokens(text) <= 3 * real + 2


def test_nothing_is_nothing() -> None:
    assert estimate_tokens("") == 0
    assert cut_to_tokens("", 5) == ""


@given(st.text(max_size=300), st.integers(0, 60))
def test_a_cut_text_fits_and_begins_like_the_text(text: str, tokens: int) -> None:
    cut = cut_to_tokens(text, tokens)
    assert estimate_tokens(cut) <= tokens
    assert text.startswith(cut.removesuffix(" …").rstrip()) or cut == text


def test_a_text_is_cut_between_words() -> None:
    assert cut_to_tokens("alpha beta gamma delta epsilon", 4).removesuffix(" …") in (
        "alpha beta",
        "alpha beta gamma",
    )


@given(st.text(st.one_of(st.sampled_from("aB9 \t\n\r_-{\x00\x0b\x7f"), st.characters()), max_size=80))
def test_the_quick_sum_is_the_sum_over_pieces(text: str) -> None:
    assert _sum(text) == pytest.approx(sum(_cost(match) for match in _PIECE.finditer(text)))
