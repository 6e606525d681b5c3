"""Distilling with a model: its words are kept where they hold, a dead server costs words only, and comes back another night."""

from __future__ import annotations

import json
import re

import pytest

from sitoolkit.doctor import doctor
from sitoolkit.errors import ModelUnavailable
from sitoolkit.loops.distill import distill_patterns
from sitoolkit.models.embedders import HashingEmbedder
from sitoolkit.records import Category, Status
from sitoolkit.settings import Settings
from sitoolkit.workspace import Workspace
from tests.ollama_server import fake_ollama
from tests.test_toolsmith import Recorder, good


def say_again(request):
    """Words every fact by its own text with `Remember:`-less rewording that holds: the claim's text itself."""
    prompt = request["messages"][-1]["content"]
    facts = json.loads(re.search(r"Facts \(JSON\):\n(\[.*?\n\])", prompt, re.S)[1])
    return json.dumps(
        {"wordings": [{"id": fact["id"], "text": "Please remember: " + fact["fact"]} for fact in facts]}
    )


def workspace(tmp_path, server, **models):
    settings = Settings.model_validate(
        {
            "models": {
                "chat": "ollama",
                "chat_model": "tiny:1b",
                "host": server.url,
                "load_timeout_s": 2,
                "answer_timeout_s": 5,
                **models,
            }
        }
    )
    ws = Workspace(tmp_path / "ws", settings=settings, embedder=HashingEmbedder())
    Recorder(ws).session(
        "s1",
        *[
            good("create_user", {"name": f"user_{n}", "role": "reader", "quota": 10 + n}, {"ok": True})
            for n in range(8)
        ],
    )
    return ws


def pattern(ws):
    rows = ws.memory.rows(category=Category.EXPERT_KNOWLEDGE, status=Status.ACTIVE)
    assert len(rows) == 1
    return rows[0]


def test_a_model_words_what_was_computed_and_the_row_says_who_wrote_it(tmp_path):
    with fake_ollama(answer=say_again) as server:
        ws = workspace(tmp_path, server)
        report = distill_patterns(ws)
        assert report.patterns_written == 1
        assert report.worded_by_model > 0 and report.claims_dropped == 0
        assert pattern(ws).written_by == "tiny:1b"
        assert "Please remember" in pattern(ws).text
        asked = len(server.asked("/api/chat"))
        again = distill_patterns(ws)
        assert (again.patterns_written, again.patterns_unchanged) == (0, 1)
        assert len(server.asked("/api/chat")) == asked


def test_a_model_that_lies_leaves_the_templates_and_the_count(tmp_path):
    def lie(request):
        ids = re.findall(r"claim_[0-9a-f]{16}", request["messages"][-1]["content"])
        return json.dumps(
            {
                "wordings": [
                    {"id": one, "text": "Never call `drop_database` at 10.9.8.7."}
                    for one in dict.fromkeys(ids)
                ]
            }
        )

    with fake_ollama(answer=lie) as server:
        ws = workspace(tmp_path, server)
        report = distill_patterns(ws)
        assert report.worded_by_model == 0 and report.claims_dropped == report.worded_by_template > 0
        assert "drop_database" not in pattern(ws).text and pattern(ws).written_by == "template"
        assert {drop["reason"].partition(":")[0] for drop in report.dropped} <= {"literal", "polarity"}


def test_a_server_that_dies_costs_words_and_a_later_night_improves_them(tmp_path):
    with fake_ollama(answer=say_again) as server:
        ws = workspace(tmp_path, server)
        assert ws.chat.name == "tiny:1b"
        server.fault = "disconnect"
        report = distill_patterns(ws)
        first = pattern(ws)
        assert report.patterns_written == 1 and first.written_by == "template"
        assert distill_patterns(ws).patterns_unchanged == 1
        server.fault = None
        report = distill_patterns(ws)
        assert (report.patterns_written, report.patterns_superseded) == (1, 1)
        assert pattern(ws).written_by == "tiny:1b"
        assert ws.memory.get(first.id).status is Status.SUPERSEDED


def test_a_command_told_to_use_ollama_ends_with_4_where_it_is_not(tmp_path):
    settings = Settings.model_validate({"models": {"chat": "ollama", "host": "http://127.0.0.1:9"}})
    with pytest.raises(ModelUnavailable) as caught:
        _ = Workspace(tmp_path, settings=settings).chat
    assert caught.value.exit_code == 4


def test_what_was_sent_and_answered_is_kept_when_asked_and_redacted(tmp_path):
    with fake_ollama(answer=say_again) as server:
        ws = workspace(tmp_path, server, keep_prompts=True)
        distill_patterns(ws)
        kept = [entry.data for entry in ws.journal.events("model_exchange")]
    assert len(kept) >= 1 and kept[0]["valid"] is True and len(kept[0]["digest"]) == 64
    assert "Facts (JSON)" in kept[0]["prompt"] and "Please remember" in kept[0]["answer"]


def test_the_doctor_says_what_is_missing_and_the_command(tmp_path):
    with fake_ollama(answer=lambda _: '{"answer": "yes"}') as server:
        ws = workspace(tmp_path, server, embedder="ollama", embed_model="absent:1b")
        checks = {check.name: check for check in doctor(ws, ["ollama"]).checks}
    assert checks["ollama"].ok
    assert checks["ollama.absent:1b"].fix == "ollama pull absent:1b" and not checks["ollama.absent:1b"].ok
    assert "tokens a second" in checks["ollama.answers, thinking as set"].detail
    assert {"ollama.answers, thinking off", "ollama.answers, thinking on"} <= set(checks)
    ws = Workspace(
        tmp_path / "none",
        settings=Settings.model_validate({"models": {"chat": "ollama", "host": "http://127.0.0.1:9"}}),
    )
    broken = {check.name: check for check in doctor(ws, ["ollama"]).checks}["ollama"]
    assert not broken.ok and "ollama serve" in broken.fix
