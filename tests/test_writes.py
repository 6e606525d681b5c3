"""Which calls change state: lists and annotations are believed, arguments tell, verbs are read as heads of names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitoolkit.records import Source, ToolInvocation
from sitoolkit.settings import CaptureSettings, Settings
from sitoolkit.writes import SEED_VERBS, is_write_call, name_words, why_write
from sitoolkit.writes.shell import shell_writes


def call(tool: str, args: Any = None, is_write: bool | None = None) -> ToolInvocation:
    return ToolInvocation(
        session_id="s",
        seq=0,
        tool=tool,
        args={} if args is None else args,
        is_write=is_write,
        source=Source(file="f"),
    )


@pytest.mark.parametrize("verb", sorted(SEED_VERBS))
@pytest.mark.parametrize(
    "name", ["{v}_service", "{v}", "{v}-item", "svc.{v}", "mcp__srv__{v}_it", "{v}Service", "my/{v}/thing"]
)
def test_the_seeds_fifteen_verbs_are_the_floor(verb: str, name: str) -> None:
    assert is_write_call(call(name.format(v=verb)))


@pytest.mark.parametrize(
    "tool",
    [
        "book_reservation",
        "cancel_reservation",
        "send_certificate",
        "update_reservation_flights",
        "setStatus",
        "addUser",
        "insert-row",
        "put_object",
        "apply_patch",
        "uploadFile",
        "commit_changes",
        "move_file",
        "remove_item",
        "dns.update-record",
        "github.create_issue",
        "service_register",
        "user.create",
        "TodoWrite",
        "NotebookEdit",
        "Edit",
        "MultiEdit",
        "str_replace_editor",
        "mcp__tracker__create_ticket",
        "modify_pending_order_items",
        "exchange_delivered_order_items",
        "return_delivered_order_items",
        "slack_post_message",
        "calendar_create_event",
        "get_or_create_user",
        "find_and_replace",
        "order_pizza",
        "restartService",
        "pay_invoice",
        "HTMLRenderAndSave",
        "createAPIKey",
        "scale_service",
        "rotate_credentials",
        "api_v1_delete",
    ],
)
def test_names_of_tools_that_write(tool: str) -> None:
    assert is_write_call(call(tool)), why_write(call(tool))


@pytest.mark.parametrize(
    "tool",
    [
        "get_update_status",
        "list_created",
        "search_onestop_flight",
        "search_direct_flight",
        "calculate",
        "think",
        "transfer_to_human_agents",
        "get_user_details",
        "list_all_products",
        "find_user_id_by_email",
        "Read",
        "Grep",
        "Glob",
        "getDeployments",
        "describe-save-points",
        "service.list",
        "last_update_time",
        "user_get",
        "order_status",
        "post_search",
        "commit_history",
        "fetch_artifact",
        "validate_schema",
        "query_metrics",
        "mcp__create__list_items",
        "read_file",
        "check_exec_rights",
        "slack_get_update_status",
        "order_details",
        "web_search",
        "created",
        "updated_items",
        "preview_deploy",
        "hand_off_to_billing",
    ],
)
def test_names_of_tools_that_read(tool: str) -> None:
    assert not is_write_call(call(tool)), why_write(call(tool))


@pytest.mark.parametrize(
    ("tool", "args", "writes"),
    [
        ("bash", {"command": "rm -rf build"}, True),
        ("bash", {"command": "ls -la && cat x | grep y 2>/dev/null"}, False),
        ("Bash", {"command": "git log --oneline -5"}, False),
        ("Bash", {"command": "cd /srv && git commit -m 'rm all'"}, True),
        ("Bash", {"command": "echo 'rm -rf /'"}, False),
        ("shell", {"command": ["bash", "-lc", "mkdir -p out"]}, True),
        ("shell", {"command": ["git", "status"]}, False),
        ("terminal", {"command": "echo hi > notes.txt"}, True),
        ("execute_sql", {"query": "SELECT * FROM t -- insert into x"}, False),
        ("execute_sql", {"query": "INSERT INTO t VALUES (1)"}, True),
        ("run_query", {"sql": "select 'delete from x'; delete from y"}, True),
        ("db", {"sql": "WITH a AS (SELECT 1 FROM b) SELECT * FROM a"}, False),
        ("db", {"sql": "with a as (select 1 from b) insert into c select * from a"}, True),
        ("http_request", {"method": "POST", "url": "https://x.example"}, True),
        ("http_request", {"method": "get", "url": "https://x.example"}, False),
        ("api", {"method": "DELETE", "path": "/v1/x"}, True),
        ("statistics", {"method": "PUT-CALL"}, False),
        ("str_replace_editor", {"command": "view", "path": "/a"}, False),
        ("str_replace_editor", {"command": "create", "path": "/a"}, True),
        ("browser", {"action": "click"}, True),
        ("browser", {"action": "scroll"}, False),
        ("graphql", {"query": "mutation AddUser($x: Int) { add(x: $x) }"}, True),
        ("graphql", {"query": "query { users }"}, False),
        ("web_search", {"query": "how to delete from a table"}, False),
        ("bash", "touch x", True),
        ("bash", {"cmd": "kubectl get pods"}, False),
        ("bash", {"cmd": "kubectl rollout status deploy/x"}, False),
        ("bash", {"cmd": "kubectl -n prod delete pod x"}, True),
    ],
)
def test_arguments_tell(tool: str, args: Any, writes: bool) -> None:
    assert is_write_call(call(tool, args)) is writes, why_write(call(tool, args))


@pytest.mark.parametrize(
    ("command", "writes"),
    [
        ("git branch", False), ("git checkout -b x", True), ("sed -n 1,5p f", False), ("sed -i s/a/b/ f", True), ("curl https://x", False),
        ("curl -X POST https://x", True), ("curl -d a=b https://x", True), ("python -c 'print(1)' 2>&1", False), ("docker ps", False),
        ("docker compose up -d", True), ("sudo systemctl restart nginx", True), ("systemctl status nginx", False), ("pip install x", True),
        ("pip list", False), ("find . -name '*.py'", False), ("find . -delete", True), ("aws s3 ls", False), ("aws s3 rm s3://x", True),
        ("cat > f <<EOF\nx\nEOF", True), ("diff <(ls a) <(ls b)", False), ("test 3 -gt 2", False), ("FOO=1 make install", True), ("", False),
        ("psql -c \"delete from t\"", True), ("psql -c 'select 1'", False), ("echo \"unbalanced", False), ("git stash list", False),
        ("if [ 1 -lt 2 ]; then rm x; fi", True), ("ls; tar tzf a.tgz", False), ("tar xzf a.tgz", True),
    ],
)  # fmt: skip
def test_shell_commands(command: str, writes: bool) -> None:
    assert shell_writes(command) is writes


def test_lists_win_over_the_annotation_and_the_annotation_over_the_name() -> None:
    settings = Settings(
        capture=CaptureSettings(write_tools=("get_it", "mcp__db__*"), read_tools=("create_view",))
    )
    assert is_write_call(call("get_it", is_write=False), settings) and is_write_call(
        call("mcp__db__query"), settings
    )
    assert not is_write_call(call("create_view", is_write=True), settings)
    assert is_write_call(call("get_thing", is_write=True)) and not is_write_call(
        call("create_thing", is_write=False)
    )


def test_words_of_names() -> None:
    assert name_words("HTTPServerCreate") == ("http", "server", "create")
    assert name_words("a.b-c/d:e_f") == ("a", "b", "c", "d", "e", "f")


@given(
    st.text(max_size=40),
    st.one_of(
        st.none(),
        st.text(max_size=60),
        st.dictionaries(
            st.sampled_from(["command", "sql", "method", "url", "action"]),
            st.one_of(st.text(max_size=80), st.lists(st.text(max_size=5)), st.integers()),
        ),
    ),
)
def test_no_call_whatever_raises(tool: str, args: Any) -> None:
    assert is_write_call(call(tool, args)) in (True, False)


def test_airline_calls_of_tau_bench(traces: Path) -> None:
    """At least 95 % of the state-changing calls, and none of the reading ones."""
    tasks = json.loads((traces / "tau-bench" / "gpt-4o-airline.tasks00-09.json").read_text())
    found: dict[str, bool] = {}
    changing = hit = 0
    for task in tasks:
        for message in task["traj"]:
            for made in message.get("tool_calls") or []:
                name = made["function"]["name"]
                found[name] = is_write_call(call(name, json.loads(made["function"]["arguments"])))
                if name.split("_")[0] in ("book", "cancel", "send", "update"):
                    changing += 1
                    hit += found[name]
    assert changing > 60 and hit / changing >= 0.95
    assert not [
        name
        for name, writes in found.items()
        if writes and name.split("_")[0] not in ("book", "cancel", "send", "update")
    ]
