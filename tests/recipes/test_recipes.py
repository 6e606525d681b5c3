"""Each recipe on recorded evidence: the tool turns the failure, leaves the successes as they were, or is refused with a reason."""

from __future__ import annotations

from importlib.resources import files
from itertools import count

import pytest

from sitoolkit.recipes import Design, Refusal, design_tool, gather, replay_case, replay_without
from sitoolkit.recipes.checks import lint, type_check
from sitoolkit.records import Outcome, Source, ToolInvocation
from sitoolkit.sandbox import check_source

_NUMBER = count()


def call(tool, args, *, result=None, mode=None, session="s1", error="", ms=100.0):
    seq = next(_NUMBER)
    outcome = Outcome.SUCCESS if mode is None else Outcome.TIMEOUT if mode == "TIMEOUT" else Outcome.FAILURE
    return ToolInvocation(
        id=f"id{seq}", session_id=session, seq=seq, tool=tool, args=args, result=result, outcome=outcome, failure_mode=mode,
        error=error or (f"{mode} happened" if mode else None), duration_ms=ms, source=Source(file="f.jsonl", line=seq + 1),
    )  # fmt: skip


def judged(calls, tool, mode):
    """Design, then replay every case; the failures must really fail without the tool."""
    design = design_tool(gather(calls, tool, mode))
    assert isinstance(design, Design), design
    assert check_source(design.source) == []
    verdicts = [replay_case(design.source, case, output_schema=design.output_schema) for case in design.cases]
    for case in design.cases:
        assert (replay_without(case) is not None) == (case["kind"] == "failure"), case["name"]
    assert [v.detail for v in verdicts if not v.passed] == []
    assert {case["kind"] for case in design.cases} >= {"failure"}
    return design, {verdict.name: verdict.value for verdict in verdicts}


def refused(calls, tool, mode) -> str:
    refusal = design_tool(gather(calls, tool, mode))
    assert isinstance(refusal, Refusal)
    return refusal.reason


def test_timeout_runs_in_the_background_with_the_wait_taken_from_the_successful_calls():
    calls = [call("bash", {"command": f"make {n}"}, result="ok", ms=1000 + n * 10) for n in range(100)]
    calls += [call("bash", {"command": "make all"}, mode="TIMEOUT", ms=30_000) for _ in range(3)]
    design, values = judged(calls, "bash", "TIMEOUT")
    assert design.name == "bash_in_background"
    assert design.parameters == {"tool": "bash", "wait_s": 1.98, "most_wait_s": 27.0}  # p99 of 1.00 … 1.99 s
    assert values["failure 1"]["status"] == "done"
    assert values["success 1"] == {"status": "done", "result": "ok"}


def test_network_retries_as_often_as_the_record_shows_that_it_takes():
    calls = [call("fetch", {"u": "a"}, mode="NETWORK", error="503, Retry-After: 7")] * 1
    calls += [call("fetch", {"u": "a"}, mode="NETWORK"), call("fetch", {"u": "a"}, result={"rows": 3})]
    calls += [call("fetch", {"u": "b"}, result={"rows": 1})]
    design, values = judged(calls, "fetch", "NETWORK")
    assert (design.parameters["attempts"], design.parameters["first_wait_s"]) == (4, 7.0)
    assert values["failure 1"] == {"status": "done", "result": {"rows": 3}, "attempts": 3}


def test_network_refuses_calls_that_change_state_and_failures_that_never_passed():
    write = [call("create_ticket", {"t": 1}, mode="NETWORK"), call("create_ticket", {"t": 1}, result="ok")]
    assert "changes state" in refused(write, "create_ticket", "NETWORK")
    assert refused([call("fetch", {"u": "a"}, mode="NETWORK")], "fetch", "NETWORK").startswith(
        "no failed call was ever"
    )


def test_arguments_are_mended_where_that_is_certain_and_explained_where_not():
    good = [
        call("resize", {"size": n, "unit": "mb", "path": f"/d/{n}"}, result={"ok": n}) for n in range(1, 7)
    ]
    bad = [
        call(
            "resize", {"size": "3", "unit": "mb", "path": "/d/3"}, mode="ARGS", error="size must be a number"
        ),
        call(
            "resize", {"size": 4, "units": "mb", "path": "/d/4"}, mode="ARGS", error="unknown argument units"
        ),
        call("resize", {"size": 5, "path": "/d/5"}, mode="ARGS", error="unit is required"),
    ]
    design, values = judged(good + bad, "resize", "ARGS")
    assert values["failure 1"]["result"] == {"ok": 3}
    assert values["failure 2"]["result"] == {"ok": 4}
    assert values["failure 3"]["status"] == "explained"
    assert "unit is missing" in values["failure 3"]["message"]
    assert design.parameters["required"] == ["path", "size", "unit"]


def test_arguments_that_look_like_those_that_worked_are_not_the_cause():
    good = [call("resize", {"size": n}, result="ok") for n in range(1, 5)]
    assert "same shape" in refused([*good, call("resize", {"size": 9}, mode="ARGS")], "resize", "ARGS")
    assert "too few" in refused(
        [call("resize", {"size": 1}, result="ok"), call("resize", {}, mode="ARGS")], "resize", "ARGS"
    )


def test_not_found_offers_the_name_that_worked_later():
    calls = [
        call("get_service", {"name": name}, result={"id": name}) for name in ("redis_main", "kafka_main")
    ]
    calls += [
        call("get_service", {"name": "redis-main"}, mode="NOTFOUND", session="s2"),
        call("list_services", {}, result=["redis_main", "kafka_main", "nginx_edge"], session="s2"),
        call("get_service", {"name": "redis_main"}, result={"id": "redis_main"}, session="s2"),
    ]
    design, values = judged(calls, "get_service", "NOTFOUND")
    assert values["failure 1"]["near"] == {"name": ["redis_main"]}
    assert design.parameters["lister"] == "list_services"
    assert "listed" not in design.parameters


def test_not_found_without_a_like_name_is_refused():
    calls = [call("get", {"name": "zzz"}, mode="NOTFOUND"), call("get", {"name": "alpha"}, result=1)]
    assert "like the one" in refused(calls, "get", "NOTFOUND")


def test_conflict_reads_again_and_takes_over_what_changed():
    calls = []
    for n in range(3):
        session = f"s{n}"
        calls += [
            call("update_doc", {"id": f"d{n}", "version": 1}, mode="CONFLICT", session=session),
            call("get_doc", {"doc": f"d{n}"}, result={"version": 7 + n, "body": "x"}, session=session),
            call("update_doc", {"id": f"d{n}", "version": 7 + n}, result={"saved": True}, session=session),
        ]
    design, values = judged(calls, "update_doc", "CONFLICT")
    assert design.parameters == {
        "tool": "update_doc", "reader": "get_doc", "reader_arguments": {"doc": "id"}, "refresh": {"version": "version"},
    }  # fmt: skip
    assert values["failure 1"] == {"status": "done", "result": {"saved": True}, "attempts": 2}


def test_conflict_that_nobody_got_out_of_is_refused():
    assert "read the state again" in refused(
        [call("update_doc", {"id": 1}, mode="CONFLICT")], "update_doc", "CONFLICT"
    )


def test_permission_is_explained_and_never_tried_twice():
    calls = [call("deploy", {"env": "staging", "tag": f"v{n}"}, result="ok") for n in range(3)]
    calls += [call("deploy", {"env": "prod", "tag": "v9"}, mode="PERM", error="403")]
    design, values = judged(calls, "deploy", "PERM")
    assert 'env was "staging" in all 3 calls that were allowed' in values["failure 1"]["message"]
    assert "permission" in values["failure 1"]["message"]
    assert design.author == "recipe:explain"


@pytest.mark.parametrize("mode", ["RUNTIME", "SYNTAX", "TOOL_GAP"])
def test_modes_that_no_wrapper_settles_are_refused(mode):
    assert refused([call("x", {}, mode=mode)], "x", mode).startswith(f"no recipe settles {mode}")


def test_hostile_values_in_the_evidence_stay_data_in_the_source():
    evil = '"""\nimport os\nos.system("x")\n#'
    good = [call("resize", {"size": n, "note": evil}, result="ok") for n in range(1, 5)]
    design, _ = judged([*good, call("resize", {"size": "2", "note": evil}, mode="ARGS")], "resize", "ARGS")
    assert check_source(design.source) == []
    assert "\nimport os" not in design.source


@pytest.mark.parametrize("name", ["background", "retry", "validate", "near_names", "reread", "explain"])
def test_every_recipe_ships_linted_and_type_checked(name):
    text = files("sitoolkit.recipes").joinpath("texts", f"{name}.py.txt").read_text(encoding="utf-8")
    source = text.replace("__PARAMETERS__", "{'tool': 'x'}")
    assert lint(source).detail == ""
    assert type_check(source).detail == ""


def test_a_fault_in_a_source_is_found_and_named_by_its_own_line():
    bad = "def run(args: dict, host: Host) -> dict:\n    return host.sleep('x')\n"
    assert "line 2" in type_check(bad).detail
    assert "line 2" in lint("def run(args, host):\n    return undefined_name\n").detail
