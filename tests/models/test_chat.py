"""The chat seam against a real HTTP server that behaves as Ollama does, and has its faults."""

from __future__ import annotations

import json
import time

import pytest

from sitoolkit.errors import ModelOutputInvalid, ModelUnavailable
from sitoolkit.models.chat import Exchange, OllamaChat, TemplateModel, extract_json, open_chat
from sitoolkit.settings import ModelSettings
from tests.ollama_server import fake_ollama

SCHEMA = {
    "type": "object",
    "required": ["rules"],
    "properties": {"rules": {"type": "array", "items": {"type": "string", "maxLength": 60}, "maxItems": 4}},
}
GOOD = json.dumps({"rules": ["pass token_env"]})


def chat_of(server, **more) -> OllamaChat:
    return OllamaChat("tiny:1b", host=server.url, load_timeout_s=0.5, answer_timeout_s=2.0, **more)


def test_a_valid_answer_comes_back_as_an_object_and_the_schema_was_sent():
    with fake_ollama(answer=lambda _: GOOD) as server:
        assert chat_of(server).complete("list rules", SCHEMA) == {"rules": ["pass token_env"]}
        request = server.asked("/api/chat")[0]
        assert request["format"] == SCHEMA
        assert request["options"]["temperature"] == 0
        assert request["messages"] == [{"role": "user", "content": "list rules"}]


def test_the_model_is_loaded_once_and_apart_from_the_answer():
    with fake_ollama(answer=lambda _: GOOD) as server:
        chat = chat_of(server)
        chat.complete("a", SCHEMA)
        chat.complete("b", SCHEMA)
        assert len(server.asked("/api/generate")) == 1


def test_one_invalid_answer_is_repaired_with_the_error_shown_to_the_model():
    answers = iter(['{"rules": "not a list"}', GOOD])
    with fake_ollama(answer=lambda _: next(answers)) as server:
        chat = chat_of(server)
        assert chat.complete("list rules", SCHEMA)["rules"] == ["pass token_env"]
        assert chat.counts.repaired == 1
        second = server.asked("/api/chat")[1]["messages"]
        assert [message["role"] for message in second] == ["user", "assistant", "user"]
        assert "rules: 'not a list' is not of type 'array'" in second[2]["content"]


@pytest.mark.parametrize(
    "answer", ["no json at all", '{"rules": ["a"', '{"wrong": 1}', '{"rules": ["' + "x" * 100 + '"]}']
)
def test_two_invalid_answers_give_the_model_up(answer):
    with fake_ollama(answer=lambda _: answer) as server:
        chat = chat_of(server)
        with pytest.raises(ModelOutputInvalid):
            chat.complete("list rules", SCHEMA)
        assert (chat.counts.asked, chat.counts.repaired, chat.counts.invalid) == (2, 1, 1)


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ("slow_load", ModelUnavailable, "did not load within 0.5 s"),
        ("status_500", ModelUnavailable, "could not load"),
        ("disconnect", ModelUnavailable, "does not answer"),
        ("cut_stream", ModelUnavailable, "broke off"),
        ("not_json_line", ModelUnavailable, "broke off"),
        ("empty", ModelOutputInvalid, "the answer is empty"),
        ("too_long", ModelOutputInvalid, "cut after"),
    ],
)
def test_each_fault_of_a_server_is_an_error_that_says_so(fault, error, words):
    with fake_ollama(answer=lambda _: GOOD, fault=fault) as server, pytest.raises(error, match=words):
        chat_of(server).complete("list rules", SCHEMA)


def test_an_answer_that_takes_too_long_is_cut_off_by_the_answer_time_out_alone():
    with fake_ollama(answer=lambda _: GOOD + " " * 700, fault="slow_answer") as server:
        chat = OllamaChat("tiny:1b", host=server.url, load_timeout_s=5, answer_timeout_s=0.6)
        begun = time.monotonic()
        with pytest.raises(ModelUnavailable, match=r"did not answer within 0\.6 s"):
            chat.complete("list rules", SCHEMA)
        assert time.monotonic() - begun < 3


def test_an_answer_in_thinking_is_read_when_the_content_is_empty():
    with fake_ollama(answer=lambda _: GOOD, fault="in_thinking") as server:
        assert chat_of(server).complete("list rules", SCHEMA) == {"rules": ["pass token_env"]}


def test_a_model_that_the_server_has_not_names_the_pull_command():
    with fake_ollama() as server, pytest.raises(ModelUnavailable, match="ollama pull absent:1b"):
        OllamaChat("absent:1b", host=server.url).complete("x", SCHEMA)


def test_a_server_that_comes_back_is_used_again():
    with fake_ollama(answer=lambda _: GOOD, fault="disconnect") as server:
        chat = chat_of(server)
        with pytest.raises(ModelUnavailable):
            chat.complete("x", SCHEMA)
        server.fault = None
        assert chat.complete("x", SCHEMA)["rules"]


def test_every_exchange_is_told_with_the_digest_of_the_model():
    told: list[Exchange] = []
    with fake_ollama(answer=lambda _: GOOD) as server:
        chat_of(server, on_exchange=told.append).complete("list rules", SCHEMA, system="be brief")
    assert [(entry.valid, entry.answer) for entry in told] == [(True, GOOD)]
    assert told[0].prompt == "[system]\nbe brief\n\n[user]\nlist rules"
    assert len(told[0].digest) == 64


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('Based on {the notes}, here:\n```json\n{"rules":["a"]}\n```\nHope it helps!', ["a"]),
        ('<think>{x}</think>{"rules":[]}', []),
        ('thinking aloud {"rules": 3}</think> {"rules":["b"]}', ["b"]),
        ('{"note": 1} and then {"rules":["c"]}', ["c"]),
    ],
)
def test_the_object_is_found_in_what_models_write_around_it(answer, expected):
    assert extract_json(answer, SCHEMA)["rules"] == expected


@pytest.mark.parametrize(
    "answer", ["", "   ", "<think>only thoughts</think>", '{"rules": ["a"', "{" * 50_000, '[{"a":1}]']
)
def test_an_answer_without_a_whole_object_is_a_visible_failure(answer):
    begun = time.monotonic()
    with pytest.raises(ModelOutputInvalid):
        extract_json(answer, SCHEMA)
    assert time.monotonic() - begun < 2


def test_auto_falls_back_and_says_so_once_while_ollama_insists(caplog):
    nowhere = ModelSettings(chat="auto", host="http://127.0.0.1:9")
    assert isinstance(open_chat(nowhere), TemplateModel)
    assert len([record for record in caplog.records if "words come from templates" in record.message]) == 1
    with pytest.raises(ModelUnavailable) as caught:
        open_chat(ModelSettings(chat="ollama", host="http://user:secretword@127.0.0.1:9"))
    assert caught.value.exit_code == 4
    assert "secretword" not in str(caught.value)


def test_auto_takes_ollama_where_it_has_the_model():
    with fake_ollama() as server:
        assert open_chat(ModelSettings(chat="auto", chat_model="tiny:1b", host=server.url)).name == "tiny:1b"
        assert open_chat(ModelSettings(chat="auto", chat_model="other", host=server.url)).name == "template"


def test_no_model_means_that_the_caller_words_by_template():
    with pytest.raises(ModelUnavailable):
        TemplateModel().complete("x", SCHEMA)
