"""Build it now, end to end: friction events become tools that turn the recorded failures, or proposals that say why not."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from sitoolkit import review
from sitoolkit.cli import cli
from sitoolkit.errors import NotFoundError, ToolFailed, ToolRefused
from sitoolkit.loops.friction import scan_friction
from sitoolkit.loops.tool_metrics import tool_backlog, tool_metrics
from sitoolkit.loops.toolsmith import BuildRecord, build_tool, build_waiting, recover_builds
from sitoolkit.models.embedders import HashingEmbedder
from sitoolkit.records import BINEvent, Session, Source, ToolInvocation, Turn
from sitoolkit.redaction import seal
from sitoolkit.sandbox import HostFailure, Limits
from sitoolkit.settings import Settings
from sitoolkit.workspace import Workspace


class Recorder:
    """Writes sessions of recorded calls into a workspace's telemetry."""

    def __init__(self, ws: Workspace) -> None:
        self.ws = ws

    def session(self, name: str, *calls: dict) -> list[ToolInvocation]:
        made = [
            ToolInvocation(
                session_id=name, seq=seq, started_at=datetime(2026, 3, 1, 12, 0, seq, tzinfo=UTC), agent="ops",
                source=Source(file=f"{name}.jsonl", line=seq + 1, format="own"), **call,
            )
            for seq, call in enumerate(calls)
        ]  # fmt: skip
        session = Session(
            id=name, turns=(Turn(role="assistant", calls=tuple(made)),), source=Source(file=f"{name}.jsonl")
        )
        sealed = list(seal(session).session.calls)
        self.ws.telemetry.append("calls", [call.to_json() for call in sealed])
        return sealed


def good(tool, args, result, ms=100.0):
    return {"tool": tool, "args": args, "result": result, "outcome": "success", "duration_ms": ms}


def bad(tool, args, mode, error="failed", ms=100.0):
    outcome = "timeout" if mode == "TIMEOUT" else "failure"
    return {
        "tool": tool,
        "args": args,
        "outcome": outcome,
        "failure_mode": mode,
        "error": error,
        "duration_ms": ms,
    }


@pytest.fixture
def ws(tmp_path):
    return Workspace(tmp_path / "ws", embedder=HashingEmbedder())


def flaky(ws) -> BINEvent:
    record = Recorder(ws)
    for name in ("s1", "s2"):
        fails = [bad("fetch_page", {"url": "u1"}, "NETWORK", "connection reset") for _ in range(3)]
        calls = record.session(
            name,
            *fails,
            good("fetch_page", {"url": "u1"}, {"html": "x"}),
            good("fetch_page", {"url": "u2"}, {"html": "y"}),
        )
    return BINEvent(
        tool="fetch_page",
        failure_mode="NETWORK",
        session_id="s2",
        count=3,
        threshold=3,
        evidence=tuple(c.id for c in calls[:3]),
    )


def test_a_tool_is_built_tested_and_waits_for_a_person(ws):
    record = build_tool(ws, flaky(ws))
    assert (record.status, record.built, record.turned, record.unchanged) == (
        "proposed",
        "fetch_page_with_retry",
        2,
        1,
    )
    assert [stage.name for stage in record.stages] == [
        "checkpoint", "design", "build", "lint", "type-check", "test", "gate", "load", "resume",
    ]  # fmt: skip
    assert all(stage.passed for stage in record.stages)
    tool = ws.tools.get("fetch_page_with_retry")
    assert tool.status == "proposed"
    assert ws.tools.schemas() == []
    with pytest.raises(ToolRefused, match="is proposed"):
        ws.tools.run(tool.name, {"arguments": {"url": "u1"}})
    resolved = set(ws.telemetry.resolve(tool.evidence)["id"])
    assert resolved == set(tool.evidence) and resolved


def test_an_approved_tool_runs_becomes_stable_and_an_undo_puts_it_back(ws):
    record = build_tool(ws, flaky(ws))
    card = review.show(ws, record.proposal_id)
    assert "host.call" in card.text
    review.approve(ws, record.proposal_id, by="ana", seen_hash=card.hash)
    assert ws.tools.get(record.built).status == "probationary"
    assert [entry["function"]["name"] for entry in ws.tools.schemas()] == [record.built]

    class Host:
        def __init__(self):
            self.calls = 0

        def serve(self, request):
            if request["op"] == "sleep":
                return None
            self.calls += 1
            if self.calls == 1:
                raise HostFailure("reset", "NETWORK")
            return {"html": "fresh"}

    for _ in range(2):
        done = ws.tools.run(record.built, {"arguments": {"url": "u9"}}, host=Host())
        assert done == {"status": "done", "result": {"html": "fresh"}, "attempts": 2}
    assert ws.tools.get(record.built).status == "stable"
    assert [entry["status"] for entry in ws.tools.history(record.built)] == [
        "proposed",
        "probationary",
        "stable",
    ]
    assert [use.outcome for use in ws.tools.uses(record.built)] == ["ok", "ok"]


def test_the_same_event_is_built_once(ws):
    event = flaky(ws)
    first = build_tool(ws, event)
    assert build_tool(ws, event).id == first.id
    assert len(list(ws.journal.events("build_started"))) == 1
    assert ws.tools.get(first.built).version == 1


def test_auto_probation_loads_recipes_at_once(tmp_path):
    settings = Settings.model_validate({"tools": {"auto_probation": True}})
    ws = Workspace(tmp_path / "ws", settings=settings, embedder=HashingEmbedder())
    record = build_tool(ws, flaky(ws))
    assert (record.status, ws.tools.get(record.built).status) == ("loaded", "probationary")
    assert ws.proposals.list() == ()


def test_what_no_wrapper_settles_becomes_a_proposal_with_the_reason(ws):
    calls = Recorder(ws).session("s1", *[bad("plan", {"n": n}, "RUNTIME", "KeyError: 'x'") for n in range(3)])
    record = build_tool(
        ws,
        BINEvent(
            tool="plan",
            failure_mode="RUNTIME",
            session_id="s1",
            count=3,
            threshold=3,
            evidence=(calls[0].id,),
        ),
    )
    assert record.status == "refused"
    assert "no recipe settles RUNTIME" in record.reason
    proposal = ws.proposals.get(record.proposal_id)
    assert proposal.type == "code-fix" and record.reason in proposal.description
    assert ws.tools.list() == []


class Writer:
    """A chat model that answers with one design."""

    name = "writer:1b"

    def __init__(self, source, verb="guarded"):
        self.answer = {
            "verb": verb,
            "description": "Guards the plan tool against bad numbers.",
            "source": source,
        }

    def complete(self, prompt, schema, *, system=""):
        return self.answer


GOOD_SOURCE = """
def run(args: dict, host: Host) -> dict:
    if args["arguments"].get("n", 0) < 0:
        return {"status": "explained", "message": "n must not be negative"}
    return {"status": "done", "result": host.call("plan", args["arguments"])}
"""


def planned(tmp_path, chat):
    ws = Workspace(tmp_path / "ws", embedder=HashingEmbedder(), chat=chat)
    calls = Recorder(ws).session(
        "s1",
        *[bad("plan", {"n": -n}, "RUNTIME", "ValueError") for n in (1, 2, 3)],
        *[good("plan", {"n": n}, {"steps": n}) for n in (1, 2)],
    )
    return ws, BINEvent(
        tool="plan", failure_mode="RUNTIME", session_id="s1", count=3, threshold=3, evidence=(calls[0].id,)
    )


def test_a_model_may_design_what_no_recipe_settles_and_a_person_decides(tmp_path):
    ws, event = planned(tmp_path, Writer(GOOD_SOURCE))
    record = build_tool(ws, event)
    assert (record.status, record.author, record.turned, record.unchanged) == (
        "proposed",
        "model:writer:1b",
        3,
        2,
    )
    assert ws.proposals.get(record.proposal_id).risk == "high"


@pytest.mark.parametrize(
    ("source", "stage", "words"),
    [
        (
            "import os\ndef run(args: dict, host: Host) -> dict:\n    return {'status': os.name}\n",
            "build",
            "import of os",
        ),
        ("def run(args: dict, host: Host) -> dict:\n    return {'status': undefined}\n", "lint", "undefined"),
        (
            "def run(args: dict, host: Host) -> dict:\n    return host.call(1, 2)\n",
            "type-check",
            "incompatible type",
        ),
        (
            "def run(args: dict, host: Host) -> dict:\n    return {'status': 'done', 'result': {'steps': 1}}\n",
            "test",
            "never called",
        ),
        (
            "def run(args: dict, host: Host) -> dict:\n    return {'status': 'explained', 'message': 'no'}\n",
            "test",
            "expected done",
        ),
        (
            "def run(args: dict, host: Host) -> dict:\n    while True:\n        args['x'] = 1\n",
            "test",
            "timeout",
        ),
    ],
)
def test_a_model_whose_code_does_not_hold_leaves_the_library_as_it_was(tmp_path, source, stage, words):
    ws, event = planned(tmp_path, Writer(source))
    ws.settings = Settings.model_validate({"tools": {"seconds": 1.0}})
    record = build_tool(ws, event)
    assert record.status == "rolled_back"
    assert (record.stages[-1].name, record.stages[-1].passed) == (stage, False)
    assert words in record.reason
    assert ws.tools.list() == []


def test_a_tool_changed_on_disk_does_not_run(ws):
    record = build_tool(ws, flaky(ws))
    ws.tools.set_status(record.built, "probationary", by="ana", reason="test")
    file = ws.tools.root / record.built / "v1" / "tool.py"
    file.write_text(file.read_text() + "\n# changed\n")
    with pytest.raises(ToolRefused, match="changed on disk"):
        ws.tools.run(record.built, {"arguments": {"url": "u"}})


def test_arguments_and_results_are_checked_against_the_schemas(ws):
    record = build_tool(ws, flaky(ws))
    ws.tools.set_status(record.built, "probationary", by="ana", reason="test")
    with pytest.raises(ToolRefused, match="Additional properties"):
        ws.tools.run(record.built, {"arguments": {}, "url": "u"})
    ws.tools.add(
        ws.tools.get(record.built).model_copy(update={"name": "odd"}),
        "def run(args, host):\n    return 7\n",
        [],
        by="ana",
        reason="test",
    )
    with pytest.raises(ToolFailed, match="7 is not of type 'object'"):
        ws.tools.run("odd", {"arguments": {}})
    assert [use.outcome for use in ws.tools.uses("odd")] == ["invalid"]


def test_retired_tools_stay_readable_and_do_not_run(ws):
    record = build_tool(ws, flaky(ws))
    ws.tools.set_status(record.built, "retired", by="ana", reason="unused")
    assert "def run" in ws.tools.source(record.built)
    with pytest.raises(ToolRefused, match="is retired"):
        ws.tools.run(record.built, {"arguments": {}})
    with pytest.raises(NotFoundError):
        ws.tools.get("../etc")


KILLER = """
import os, sys
from sitoolkit.loops import toolsmith
from sitoolkit.models.embedders import HashingEmbedder
from sitoolkit.recipes.checks import Check
from sitoolkit.records import BINEvent
from sitoolkit.workspace import Workspace

# What ruff and mypy say of this source is the same at every step, writes nothing, and is tested above.
toolsmith.lint = toolsmith.type_check = lambda source: Check(name="checked above", passed=True)
left = int(sys.argv[3])


def count(event, args):
    global left
    if not args or sys.argv[1] not in str(args[0]):
        return
    if event in ("os.rename", "os.mkdir") or (event == "open" and isinstance(args[2], int) and args[2] & 3):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)


ws = Workspace(sys.argv[1], embedder=HashingEmbedder())
sys.addaudithook(count)
toolsmith.build_tool(ws, BINEvent.model_validate_json(sys.argv[2]))
"""


def test_a_kill_in_any_stage_leaves_library_and_queue_consistent(tmp_path):
    script = tmp_path / "killer.py"
    script.write_text(KILLER)
    statuses = set()
    for step in range(0, 120, 7):
        ws = Workspace(tmp_path / f"ws{step}", embedder=HashingEmbedder())
        event = flaky(ws)
        done = subprocess.run(
            [sys.executable, str(script), str(ws.path), event.model_dump_json(), str(step)],
            capture_output=True,
            timeout=60,
            check=False,
        )
        recover_builds(ws)
        assert recover_builds(ws) == []
        ended = [BuildRecord.model_validate(entry.data) for entry in ws.journal.events("build_ended")]
        started = list(ws.journal.events("build_started"))
        assert len(ended) == len(started) <= 1
        names = [tool.name for tool in ws.tools.list()]
        proposals = [proposal.payload["tool"] for proposal in ws.proposals.list()]
        if ended and ended[0].status == "proposed":
            assert names == proposals == ["fetch_page_with_retry"]
            assert "def run" in ws.tools.source(names[0])
        else:
            assert names == proposals == []
        statuses.add(ended[0].status if ended else "nothing")
        if done.returncode == 0:
            break
    else:
        pytest.fail("the last run must come through")
    assert statuses >= {"rolled_back", "proposed"}


def fired(ws) -> None:
    """Sessions of three tools: one a retry settles, one that no wrapper settles, one without trouble."""
    flaky(ws)
    record = Recorder(ws)
    record.session("s3", *[bad("plan", {"n": n}, "RUNTIME", "KeyError: 'x'") for n in range(3)])
    record.session("s4", *[good("list", {"n": n}, [n]) for n in range(3)])
    scan_friction(ws)


def test_fired_friction_is_built_once_and_says_what_was_proposed_or_refused(ws):
    fired(ws)
    report = build_waiting(ws)
    assert [(build.tool, build.status) for build in report.builds] == [
        ("fetch_page", "proposed"),
        ("plan", "refused"),
    ]
    again = build_waiting(ws)
    assert (again.builds, again.with_tool, again.tried) == ((), 1, 1)
    # The pair that was refused is tried again when it strikes elsewhere.
    Recorder(ws).session("s5", *[bad("plan", {"n": n}, "RUNTIME", "KeyError: 'x'") for n in range(3)])
    scan_friction(ws)
    assert [(build.tool, build.session_id) for build in build_waiting(ws).builds] == [("plan", "s5")]


def test_metrics_count_builds_reasons_uses_regressions_and_what_is_left(ws):
    fired(ws)
    assert tool_backlog(ws)["backlog"].to_list() == [1, 1, 2]
    report = build_waiting(ws)
    assert tool_backlog(ws)["backlog"].to_list() == [
        1,
        1,
        2,
    ]  # a tool that waits for a person settles nothing
    name = report.builds[0].built
    card = review.show(ws, report.builds[0].proposal_id)
    review.approve(ws, report.builds[0].proposal_id, by="ana", seen_hash=card.hash)

    class Works:
        def serve(self, request):
            return {"html": "fresh"}

    for _ in range(2):
        ws.tools.run(name, {"arguments": {"url": "u9"}}, host=Works())
    with pytest.raises(ToolFailed):
        ws.tools.run(name, {"arguments": {"url": "u9"}}, limits=Limits(seconds=0.001))
    fetch, plan = tool_metrics(ws).to_dicts()
    assert (fetch["built"], fetch["status"], fetch["settled"], fetch["turned"]) == (name, "stable", True, 2)
    assert (fetch["builds"], fetch["uses"], fetch["good_uses"], fetch["regressions"]) == (1, 3, 2, 1)
    assert (plan["refused"], plan["settled"]) == (1, False) and "no recipe settles RUNTIME" in plan["reason"]
    assert tool_backlog(ws).select("backlog", "builds").rows() == [(1, 0), (0, 1), (1, 1)]


def test_friction_builds_on_the_command_line(ws):
    fired(ws)
    home = {"SITOOLKIT_HOME": str(ws.path), "SITOOLKIT_MODELS_EMBEDDER": "hashing"}
    shown = CliRunner().invoke(cli, ["friction", "--build", "--json"], env=home)
    assert shown.exit_code == 0, shown.output
    assert {build["status"] for build in json.loads(shown.output)["build"]["builds"]} == {
        "proposed",
        "refused",
    }
    metrics = CliRunner().invoke(cli, ["tools", "metrics"], env=home)
    assert "no recipe settles RUNTIME" in metrics.output
    assert CliRunner().invoke(cli, ["friction", "x.jsonl", "--build"], env=home).exit_code == 2
