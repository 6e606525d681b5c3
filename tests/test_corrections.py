"""Corrections: what fires, what only looks like it, on what spans; and how well it does on labelled turns."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sitoolkit.errors import ConfigError
from sitoolkit.loops.correction_signals import turn_id
from sitoolkit.loops.corrections import detect_corrections
from sitoolkit.loops.phrases import load_phrases, phrase_table
from sitoolkit.loops.utterances import own_words
from sitoolkit.prompt_block import CLOSE, OPEN
from sitoolkit.records import CorrectionSignal, Session, Source, ToolInvocation, Turn
from sitoolkit.testing.demo import generate_demo
from tests.corrections_figures import PAGE, page_with_figures, rows, score, session_of

SOURCE = Source(file="x.jsonl", line=7, format="sitoolkit")


def signals(before: str, text: str, calls: tuple[ToolInvocation, ...] = ()) -> list[CorrectionSignal]:
    turns = (
        Turn(role="user", text="go", index=0),
        Turn(role="assistant", text=before, calls=calls, index=1),
        Turn(role="user", text=text, index=2, source=SOURCE),
    )
    return detect_corrections(Session(id="s", source=SOURCE, turns=turns, project="atlas"))


def kinds(before: str, text: str, *calls: ToolInvocation) -> list[str]:
    return [one.kind for one in signals(before, text, calls)]


def call(tool: str, **args: Any) -> ToolInvocation:
    return ToolInvocation(id="c1", session_id="s", seq=0, tool=tool, args=args, source=SOURCE)


# ---------------------------------------------------------------- negation


def test_a_negation_says_what_fired_where_and_what_is_wanted() -> None:
    text = "No, use tabs, not spaces."
    [signal] = signals("I used spaces.", text)
    assert (signal.kind, signal.confidence, signal.wanted, signal.unwanted) == (
        "negation",
        1.0,
        "tabs",
        "spaces",
    )
    assert signal.rule.startswith("en:")
    assert any("tabs, not spaces" in text[start:end] for start, end in signal.spans)
    assert signal.target == "I used spaces."
    assert (signal.source, signal.project, signal.turn) == (SOURCE, "atlas", 2)


@pytest.mark.parametrize(
    ("text", "wanted", "unwanted"),
    [
        ("use pnpm not npm", "pnpm", "npm"),
        ("Use httpx instead of requests", "httpx", "requests"),
        ("no, instead of requests use httpx", "httpx", "requests"),
        ("it should return 404, not 200", "404", "200"),
        ("put it in src/core.py, not src/util.py", "src/core.py", "src/util.py"),
        ("Nimm pnpm statt npm", "pnpm", "npm"),
        ("nicht npm, sondern pnpm", "pnpm", "npm"),
        ('use "pnpm", not "npm"', "pnpm", "npm"),
        ("use `pnpm`, not `npm`", "pnpm", "npm"),
    ],
)
def test_x_and_y_are_captured(text: str, wanted: str, unwanted: str) -> None:
    before = "I've used npm and requests; it returns 200 from src/util.py."
    assert [(one.wanted, one.unwanted) for one in signals(before, text)] == [(wanted, unwanted)]


@pytest.mark.parametrize(
    "text",
    [
        "stop", "Stop.", "actually", "No problem!", "no worries", "Don't worry about it", "instead of waiting, go on",
        "Instead of waiting for me, do the next one.", "Thanks, no further questions.", "No need to hurry.", "not bad", "Kein Problem.",
        "statt zu warten, mach weiter", 'The log says "no, use the other node".', "> no, use tabs\nwhat do you think?",
        "```\nno, use tabs\n```\nwhat does this do?", "2026-01-01 10:00:00 ERROR no, wrong key", "I was wrong.", "sorry, my mistake",
        "<system-reminder>no, that's wrong</system-reminder>", "[Request interrupted by user]", "/compact no, that's wrong", "", "   ",
    ],
)  # fmt: skip
def test_look_alikes_do_not_fire(text: str) -> None:
    assert kinds("I've changed the file.", text) == []


def test_a_first_message_cannot_correct() -> None:
    session = Session(id="s", source=SOURCE, turns=(Turn(role="user", text="No, use tabs, not spaces."),))
    assert detect_corrections(session) == []


def test_a_no_that_answers_a_question_is_an_answer() -> None:
    assert kinds("Do you want insurance?", "No, just one bag.") == []
    assert kinds("Do you want insurance?", "No, that's wrong, I said two bags.") == ["negation"]


def test_a_next_task_forbids_nothing_that_happened() -> None:
    assert kinds("I found the bug.", "Fix it, but don't change the tests.") == []
    assert kinds("I've changed the tests.", "Fix it, but don't change the tests.") == ["negation"]


def test_the_agent_must_have_acted_within_five_turns() -> None:
    turns = [Turn(role="user", text="hi", index=0), Turn(role="assistant", text="I used spaces.", index=1)]
    turns += [Turn(role="user", text=f"thought {number}", index=number + 2) for number in range(6)]
    turns.append(Turn(role="user", text="no, use tabs, not spaces", index=9))
    assert detect_corrections(Session(id="s", source=SOURCE, turns=tuple(turns))) == []


def test_recalled_text_is_nobodys_correction() -> None:
    block = f"{OPEN}\n<fact id='m'>No, use tabs, not spaces.</fact>\n{CLOSE}\n"
    assert kinds("I used spaces.", f"{block}thank you") == []


def test_a_turn_given_up_is_left_out() -> None:
    turns = (
        Turn(role="user", text="go", index=0),
        Turn(role="assistant", text="I used spaces.", index=1),
        Turn(role="user", text="no, use tabs", index=2, abandoned=True),
    )
    assert detect_corrections(Session(id="s", source=SOURCE, turns=turns)) == []


def test_own_words_keep_their_places() -> None:
    text = 'No, use "tabs" here.\n> quoted\n```\ncode\n```\nend'
    words = own_words(text)
    assert len(words) == len(text)
    assert words.index("tabs") == text.index("tabs")
    assert "quoted" not in words
    assert "code" not in words
    long = "no, use tabs\n```\n" + "x = 1\n" * 20_000 + "```\nand not spaces"
    assert len(own_words(long)) == len(long)
    assert own_words(long).split() == ["no,", "use", "tabs", "and", "not", "spaces"]


# ---------------------------------------------------------------- the structural triggers


def test_a_call_made_again_with_other_arguments_is_an_override() -> None:
    made = call("scale_service", service="db", replicas=3)
    [signal] = signals("Scaled.", 'scale_service(service="db", replicas=5)', (made,))
    assert (signal.kind, signal.confidence, signal.target) == ("tool_override", 0.9, "scale_service")
    assert (signal.wanted, signal.unwanted) == ("replicas=5", "replicas=3")
    assert signal.evidence[1:] == ("c1",)


@pytest.mark.parametrize(
    "text",
    [
        'scale_service(service="db", replicas=3)',  # the same
        'scale_service(service="web", replicas=5)',  # another target
        'other_tool(service="db", replicas=5)',
        "scale_service(db",
        "what does scale_service() do?",
    ],
)
def test_another_call_is_no_override(text: str) -> None:
    assert kinds("Scaled.", text, call("scale_service", service="db", replicas=3)) == []


def test_a_users_own_call_and_command_override() -> None:
    bash = call("Bash", command="pytest tests/test_a.py -q")
    assert kinds("Ran it.", "<bash-input>pytest tests/test_a.py -x --lf</bash-input>", bash) == [
        "tool_override"
    ]
    assert kinds("Ran it.", "! pytest tests/test_a.py -x", bash) == ["tool_override"]
    assert kinds("Ran it.", "! git status", bash) == []
    own = (
        Turn(role="user", text="go", index=0),
        Turn(role="assistant", calls=(call("deploy", host="a", port=1),), index=1),
        Turn(role="user", calls=(call("deploy", host="a", port=2),), index=2),
    )
    assert [one.kind for one in detect_corrections(Session(id="s", source=SOURCE, turns=own))] == [
        "tool_override"
    ]


def test_an_answer_sent_back_with_small_changes_is_an_edit() -> None:
    answer = "We restart the cache hosts between 02:00 and 03:00 and expect no downtime."
    [signal] = signals(answer, answer.replace("02:00", "04:00").replace("03:00", "05:00"))
    assert (signal.kind, signal.confidence) == ("edit", 0.7)
    assert kinds(answer, answer) == []  # sent back as it is
    assert kinds(answer, "Something else altogether, nothing to do with it.") == []
    assert kinds("", "hello there, what is this?") == []  # an empty answer divides nothing
    assert kinds("Done.", "Done!") == []


def test_code_rewritten_by_more_than_half_is_a_rewrite_and_by_less_an_edit() -> None:
    old = "def wait(host):\n    for attempt in range(5):\n        ping(host)\n        time.sleep(1)\n    return host\n"
    new = "def wait(host, limit=30.0):\n    deadline = clock() + limit\n    while clock() < deadline:\n        if ping(host):\n            return host\n    raise TimeoutError(host)\n"
    assert kinds(f"```python\n{old}```", f"```python\n{new}```") == ["rewrite"]
    assert kinds(f"```python\n{old}```", f"```python\n{old.replace('5', '9')}```") == ["edit"]
    assert kinds(f"```python\n{old}```", "```sql\nselect a,\n b,\n c from t\n```") == []
    assert kinds("Written.", f"```python\n{new}```", call("Write", path="w.py", content=old)) == ["rewrite"]


# ---------------------------------------------------------------- phrase tables


def test_a_package_adds_a_language() -> None:
    french = phrase_table(
        {
            "language": "fr",
            "rule": [{"name": "non", "at": "message", "pattern": r"non[, ]", "unless": ["question"]}],
        }
    )
    session = session_of("J'ai mis des espaces.", "non, des tabulations")
    assert detect_corrections(session, phrases=[french])[0].rule == "fr:non"
    assert [table.language for table in load_phrases()][:2] == ["de", "en"]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"language": "x", "rule": [{"name": "a", "pattern": "("}]},
        {"language": "x", "rule": [{"name": "a", "pattern": "a", "unless": ["rain"]}]},
        {"language": "x", "rule": [{"name": "a", "pattern": "a", "at": "somewhere"}]},
        {"language": "x", "rule": [{"pattern": "a"}]},
    ],
)
def test_a_table_that_is_not_valid_is_named(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="mine"):
        phrase_table(values, "mine")


# ---------------------------------------------------------------- on many turns


def test_the_demos_corrections_are_all_found_and_none_else() -> None:
    demo = generate_demo(7)
    found = {
        (signal.session_id, signal.text, signal.kind)
        for sessions in demo.sessions.values()
        for session in sessions
        for signal in detect_corrections(session)
    }
    texts = {(entry["text"], kind) for entry in demo.truth["corrections"] for kind in entry["kinds"]}
    assert {(text, kind) for _, text, kind in found} == texts
    assert len(found) == len(demo.truth["corrections"])


def test_there_are_enough_labelled_turns_and_no_turn_is_in_both_halves() -> None:
    tune, report = rows("tune"), rows("report")
    assert len(tune) + len(report) >= 300
    assert not {(row["before"], row["text"]) for row in tune} & {
        (row["before"], row["text"]) for row in report
    }


def test_precision_and_recall_on_the_half_that_was_not_tuned_on() -> None:
    got = score(rows("report"))
    assert got.precision >= 0.95
    assert got.recall >= 0.85


def test_the_figures_of_the_docs_are_those_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page_with_figures(page) == page, "run: python -m tests.corrections_figures"


def test_on_recordings_of_others_ordinary_turns_do_not_fire(traces: Path) -> None:
    from sitoolkit.transcripts import read_sessions

    turns = fired = 0
    for folder in ("tau-bench", "tau2-bench"):
        for session in read_sessions(str(traces / folder)):
            turns += sum(turn.role == "user" for turn in session.turns)
            fired += len(detect_corrections(session))
    assert turns > 200
    assert fired <= 2


# ---------------------------------------------------------------- properties and speed

PIECES = st.sampled_from(
    [
        "no, ",
        "use ",
        "tabs",
        " not ",
        " instead of ",
        "that's wrong",
        "```",
        "<a>",
        "</a>",
        "> ",
        '"',
        "\n",
        "f(a=1)",
        "! ls -l x",
        "\x00",
        "nein, ",
        "\ud800",
        "don't ",
    ]
)
MESSAGE = st.lists(PIECES | st.text(max_size=20), max_size=20).map("".join)


@given(
    MESSAGE, MESSAGE, st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9), max_size=3)
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_message_whatever_raises(before: str, text: str, args: dict[str, Any]) -> None:
    found = signals(before, text, (call("f", **{f"a{key}": value for key, value in args.items()}),))
    for signal in found:
        assert 0 < signal.confidence <= 1
        assert all(0 <= start <= end <= len(text) for start, end in signal.spans)
        json.dumps(signal.to_json())


@pytest.mark.parametrize(
    "text",
    [
        "I said that is wrong, use tabs and not spaces. " * 2_100,
        "```\n" + "x = f(a, b)\n" * 8_300 + "```\nno, use tabs",
        "2026-01-01 10:00:00 ERROR no, wrong\n" * 2_700,
        "a" * 100_000, "use a not b, " * 7_700, "<a>" * 33_000, '"' * 100_000, "f(a=1) " * 14_000, "\n" * 100_000, "`" * 100_000,
    ],
    ids=range(10),
)  # fmt: skip
def test_a_message_of_100_kb_costs_milliseconds(text: str) -> None:
    session = session_of("I've used spaces.\n```python\n" + "def f(x):\n    return x\n" * 500 + "```", text)
    detect_corrections(session)
    spent = []
    for _ in range(5):
        began = time.process_time()
        detect_corrections(session)
        spent.append(time.process_time() - began)
    assert min(spent) < 0.025, (
        f"{min(spent) * 1000:.1f} ms"
    )  # under 5 ms on an idle core; the rest is room for a busy machine


def test_a_turns_id_is_the_one_that_telemetry_keeps() -> None:
    session = session_of("I used spaces.", "no, use tabs")
    [signal] = detect_corrections(session)
    assert signal.evidence == (turn_id(session, session.turns[2]),)
