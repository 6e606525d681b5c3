"""SWE-agent, mini-swe-agent, OpenHands, ATIF, Inspect, ToolBench, Who&When, terminal-bench, BFCL and Reflexion."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sitoolkit.errors import TranscriptError
from tests.transcripts.wild import FIXTURES, reading, story


def test_swe_agent_text_generation_leaves_out_demonstrations() -> None:
    seen = reading("swe_agent_text.traj")
    session = seen.only
    assert seen.format == "swe-agent" and session.task == "Fix the bug"
    assert story(session) == [("bash", "success"), ("submit", "success")]
    assert (
        session.calls[0].result == "a.py" and session.calls[1].result == "diff"
    )  # the frame is off; the end is filled in


def test_swe_agent_function_generation_repeats_ids() -> None:
    session = reading("swe_agent_functions.traj").only
    assert story(session) == [("open", "success"), ("open", "failure/NOTFOUND")]
    assert [call.duration_ms for call in session.calls] == [250, 100] and session.outcome == "failure"


def test_swe_agent_log_restates_and_counts_once() -> None:
    session = reading("swe_agent_log.jsonl").only
    assert story(session) == [("bash", "success"), ("edit", "unknown")]
    assert session.calls[1].args_error and session.calls[1].args.startswith('{"path"')  # never {}
    assert session.usage is not None and session.usage.cost_usd == 0.3  # a running total


def test_mini_swe_agent_list_of_messages() -> None:
    session = reading("mini_swe_agent_list.traj.json").only
    assert story(session) == [("bash", "success"), ("bash", "failure/NOTFOUND"), ("bash", "timeout/TIMEOUT")]
    assert "Please give exactly ONE action" in [turn.text for turn in session.turns if turn.role == "user"]


def test_mini_swe_agent_2() -> None:
    session = reading("mini_swe_agent_2.traj.json").only
    assert (session.id, session.model) == ("inst-1", "m") and story(session) == [("bash", "success")] * 2


def test_openhands_v0() -> None:
    seen = reading("openhands_v0.json")
    assert seen.format == "openhands"
    assert story(seen.only) == [
        ("execute_bash", "success"),
        ("execute_bash", "failure/RUNTIME"),
        ("str_replace_editor", "failure/ARGS"),
        ("finish", "success"),
    ]


def test_openhands_evaluation_outputs_events_and_pairs() -> None:
    seen = reading("openhands_output.jsonl")
    assert [(s.id, s.outcome, s.reward, len(s.calls)) for s in seen.sessions] == [
        ("inst-1", "success", 1.0, 4),
        ("inst-2", "failure", 0.0, 1),
    ]


def test_openhands_v1_errors_rejections_and_unknown_kinds() -> None:
    seen = reading("openhands_v1.jsonl")
    assert story(seen.only) == [
        ("terminal", "success"),
        ("file_reader", "failure/NOTFOUND"),
        ("browser", "failure/TOOL_GAP"),
        ("terminal", "cancelled"),
    ]
    assert seen.only.calls[1].is_write is False and seen.report.unknown_types == {"NovelEvent": 1}


def test_openhands_folders() -> None:
    seen = reading("openhands_conversation")
    assert seen.only.id == "conv-1" and len(seen.only.calls) == 2
    assert seen.only.calls[0].source.file.endswith("event-00002-e2.json")
    logs = reading("openhands_logs")
    assert story(logs.only) == [("bash", "success")] and logs.only.usage is not None
    assert logs.only.usage.cost_usd == pytest.approx(0.3)


def test_atif_parallel_results_text_calls_and_refused_answers() -> None:
    seen = reading("atif.trajectory.json")
    assert story(seen.only) == [
        ("a", "success"),
        ("b", "failure/NOTFOUND"),
        ("run", "success"),
        ("bash_command", "unknown"),
        ("bash_command", "success"),
    ]
    assert seen.only.calls[4].guessed and seen.only.usage is not None and seen.only.usage.input_tokens == 50


@pytest.mark.parametrize("file", ["inspect_log.json", "inspect_log.eval"])
def test_inspect_typed_errors(file: str) -> None:
    seen = reading(file)
    session = seen.sessions[0]
    assert seen.format == "inspect" and (session.outcome, session.reward) == ("success", 1.0)
    assert story(session) == [
        ("bash", "timeout/TIMEOUT"),
        ("bash", "failure/SYNTAX"),
        ("python", "failure/PERM"),
    ]
    assert session.turns[0].text == "The system text" and session.calls[0].duration_ms == 1500
    assert session.orphan_results == 1 and not session.calls[2].paired


def test_a_damaged_member_of_an_archive_costs_one_sample() -> None:
    seen = reading("inspect_log.eval")
    assert [s.outcome for s in seen.sessions] == ["success", "failure"]
    assert len(seen.report.set_aside) == 1 and "3_epoch_1" in seen.report.set_aside[0].file


def test_toolbench_tree_marks_tries_that_were_given_up() -> None:
    assert story(reading("toolbench_answer.json").only) == [
        ("find", "failure/TOOL_GAP/abandoned"),
        ("get", "success"),
        ("Finish", "success"),
    ]
    assert story(reading("toolbench_rows.json").only) == [("get", "timeout/TIMEOUT"), ("Finish", "unknown")]


def test_who_and_when_code_is_the_call_of_its_author() -> None:
    session = reading("who_and_when.json").only
    assert story(session) == [("execute_code", "failure/RUNTIME")] and session.calls[0].agent == "Math_Expert"
    assert session.outcome == "failure" and any(
        note.startswith("at fault: Math_Expert") for note in session.notes
    )


def test_terminal_bench_failure_modes() -> None:
    sessions = reading("terminal_bench.results.json").sessions
    assert [(s.outcome, story(s)) for s in sessions] == [
        ("success", []),
        ("failure", [("run_agent", "timeout/TIMEOUT")]),
        ("failure", []),
    ]


def test_calls_as_text_have_no_outcome() -> None:
    seen = reading("bfcl.jsonl")
    assert seen.format == "bfcl" and len(seen.sessions) == 3
    assert [(c.tool, c.args, c.outcome.value) for s in seen.sessions for c in s.calls] == [
        ("calc.add", {"a": 1, "b": [2, 3]}, "unknown"),
        ("send", {"to": "x", "when": "now()"}, "unknown"),
    ]
    assert [call.tool for s in reading("bfcl_objects.jsonl").sessions for call in s.calls] == [
        "add",
        "ls",
        "cd",
    ]


def test_appworld_blocks() -> None:
    session = reading("appworld.jsonl").only
    assert story(session) == [("shop.search", "success"), ("execute_code", "failure/PERM")]
    assert session.calls[1].args["apis"] == ["shop.buy", "bank.pay"]


def test_reflexion_trials() -> None:
    sessions = reading("reflexion_trials.txt").sessions
    assert [(s.outcome, story(s)) for s in sessions] == [
        ("failure", [("Search", "failure/NOTFOUND"), ("Finish", "success")]),
        ("success", [("Finish", "success")]),
    ]


def test_logs_without_results_stay_unknown() -> None:
    assert [story(s) for s in reading("swarm.json").sessions] == [[("send_email", "cancelled")], []]
    assert story(reading("phoenix_runs.json").only) == [("find", "unknown")]


def test_who_and_when_hand_crafted_logs(tmp_path: Path) -> None:
    """Magentic-One names the agent in the role, and its terminal words the exit code in another way."""
    history = [
        {"role": "human", "content": "Q"},
        {"role": "Assistant", "content": "```sh\nls x\n```"},
        {"role": "ComputerTerminal", "content": "The script ran, then exited with Unix exit code: 2\nIts output was:\nls: x: No such file or directory"},
    ]  # fmt: skip
    path = tmp_path / "12.json"
    path.write_text(
        json.dumps({"question": "Q", "history": history, "mistake_agent": "Assistant", "mistake_step": 1})
    )
    session = reading(path).only
    assert story(session) == [("execute_code", "failure/NOTFOUND")] and session.calls[0].agent == "Assistant"


def test_a_damaged_event_of_a_folder_costs_that_event(tmp_path: Path) -> None:
    folder = tmp_path / "conversation"
    shutil.copytree(FIXTURES / "openhands_conversation", folder)
    (folder / "events" / "event-00003-e2b.json").write_bytes(b"")
    seen = reading(folder)
    assert [call.tool for call in seen.only.calls] == ["terminal"] and seen.only.orphan_results == 1
    assert [item.reason for item in seen.report.set_aside] == ["the file is empty"]


def test_a_folder_named_events_is_not_enough(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "1.json").write_text('{"weather": "fine"}')
    with pytest.raises(TranscriptError):
        reading(tmp_path)
