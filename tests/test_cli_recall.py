"""`recall`, `explain`, `who-saw`, `guides` and `decay` on the command line: JSON on standard output, remarks on standard error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sitoolkit.cli import cli

SHIPPED = Path(__file__).resolve().parents[1] / "guides"


@pytest.fixture
def run(tmp_path: Path) -> Any:
    env = {"SITOOLKIT_HOME": str(tmp_path / "ws"), "SITOOLKIT_MODELS_EMBEDDER": "wordllama"}

    def call(*words: str, code: int = 0) -> Result:
        result = CliRunner().invoke(cli, list(words), env=env)
        assert result.exit_code == code, result.output
        return result

    call("guides", "import", str(SHIPPED))
    return call


def test_recall_prints_the_block_and_says_what_it_searched(run: Any) -> None:
    result = run("recall", "how do I hand over a token", "--agent", "ops", "-k", "1")
    assert result.stdout.startswith("<recalled-memories")
    assert "searched agent:ops, global; 1 memories" in result.stderr
    quiet = run("recall", "a poem about the sea")
    assert quiet.stdout == ""
    assert "nothing recalled: nothing related" in quiet.stderr


def test_recall_as_json_has_the_keys_of_the_contract_and_is_explained(run: Any) -> None:
    found = json.loads(run("recall", "how do I hand over a token", "--json", "--explain").stdout)
    assert {"id", "text", "tokens", "abstained", "items", "passed_over"} <= set(found)
    item = found["items"][0]
    assert {
        "memory_id", "category", "slot", "rank", "score", "parts", "scope", "origin", "confidence", "text", "evidence", "why",
    } <= set(item)  # fmt: skip
    assert json.loads(run("explain", found["id"], "--json").stdout)["query"] == "how do I hand over a token"
    seen = json.loads(run("who-saw", item["memory_id"], "--json").stdout)
    assert [one["recall_id"] for one in seen] == [found["id"]]
    assert "relevance" in run("recall", "how do I hand over a token", "--explain").stdout
    assert "query     how do I hand over a token" in run("explain", found["id"]).stdout
    assert found["id"] in run("who-saw", item["memory_id"]).stdout


def test_wrong_words_are_usage_errors_and_unknown_ids_failures(run: Any) -> None:
    run("recall", "x", "-k", "0", code=2)
    run("recall", "x", "--as-of", "yesterday", code=2)
    run("explain", "nope", code=1)
    run("who-saw", "mem_000000000000000000000000", code=1)
    run("guides", "show", "nothing", code=1)
    run("guides", "import", "/nowhere/at/all", code=2)


def test_guides_are_imported_listed_shown_and_removed(run: Any) -> None:
    again = json.loads(run("guides", "import", str(SHIPPED), "--json").stdout)
    assert {k: again[k] for k in ("imported", "unchanged", "superseded", "removed", "invalid")} == {
        "imported": 0, "unchanged": 5, "superseded": 0, "removed": 0, "invalid": [],
    }  # fmt: skip
    listed = json.loads(run("guides", "list", "--tier", "platform", "--json").stdout)
    assert [row["intent"] for row in listed] == ["act_not_narrate", "secrets_by_env"]
    assert "Pass a secret by the name" in run("guides", "show", "secrets_by_env").stdout
    run("guides", "remove", "secrets_by_env", code=2)
    assert "retired" in run("guides", "remove", "secrets_by_env", "--reason", "moved").stdout
    assert "secrets_by_env" not in run("guides", "list").stdout


def test_decay_shows_a_plan_and_applies_it(run: Any) -> None:
    plan = json.loads(run("decay", "--dry-run", "--json").stdout)
    assert {"seen", "kept", "demoted", "expired", "retired", "promoted"} <= set(plan)
    assert (plan["seen"], plan["applied"]) == (5, None)
    run("recall", "how do I hand over a token")
    text = run("decay", "--dry-run").stdout
    assert "recalled 1 times" in text
    assert text.endswith("5 memories seen, 4 untouched; planned, nothing changed\n")
    assert json.loads(run("decay", "--json").stdout)["applied"]["kept"] == 1
