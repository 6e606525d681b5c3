"""Claims: what is said of a group of calls holds in the calls it names, and is left out where chance explains it."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sitoolkit.claims import (
    compute_claims,
    flat,
    group_contents,
    occurrence,
    shapes,
    templates,
    timelines,
    wilson_lower,
    wilson_upper,
)
from sitoolkit.claims.sequences import before
from sitoolkit.records import Claim, Outcome, Source, ToolInvocation


def call(
    tool: str = "register_service", args: Any = None, seq: int = 0, session: str = "s", ok: bool = True
) -> ToolInvocation:
    return ToolInvocation(
        id=f"{session}-{seq}",
        session_id=session,
        seq=seq,
        tool=tool,
        args={} if args is None else args,
        outcome=Outcome.SUCCESS if ok else Outcome.FAILURE,
        source=Source(file="f"),
    )


SEED = [
    call(args={"name": name, "kind": kind, "endpoint": endpoint, "token_env": token}, seq=seq)
    for seq, (name, kind, endpoint, token) in enumerate(
        [
            ("redis_cache", "redis", "localhost:6379", "REDIS_TOKEN"),
            ("grafana_lab", "grafana", "192.168.100.10:3000", "GRAFANA_TOKEN"),
            ("netbox_main", "netbox", "192.168.100.11:8000", "NETBOX_TOKEN"),
            ("redis_queue", "redis", "localhost:6380", "REDIS_QUEUE_TOKEN"),
            ("gitlab_lab", "gitlab", "192.168.100.12:443", "GITLAB_TOKEN"),
            ("influx_metrics", "influx", "localhost:8086", "INFLUX_TOKEN"),
        ]
    )
]


def only(claims: list[Claim], kind: str, **data: Any) -> Claim:
    found = [
        c for c in claims if c.kind == kind and all(c.data.get(key) == value for key, value in data.items())
    ]
    assert len(found) == 1, [(c.kind, c.text) for c in claims]
    return found[0]


def test_six_register_service_events_yield_the_seeds_conventions() -> None:
    claims = compute_claims(SEED)
    four = only(claims, "always_given")
    assert four.data == {"args": ["name", "kind", "endpoint", "token_env"], "only": True}
    assert "`token_env`" in four.text and (four.support, four.of) == (6, 6)
    assert only(claims, "template", arg="name").data["template"] == "{kind}_{suffix}"
    assert only(claims, "shape", arg="token_env").data["shape"] == "ENV_NAME"
    hosts = only(claims, "variance", arg="endpoint")
    assert hosts.data["families"] == {"192.168.100.x": 3, "localhost": 3}
    assert "localhost" in hosts.text and "192.168.100.x" in hosts.text
    assert set(hosts.evidence) == {c.id for c in SEED}


def test_claims_do_not_depend_on_the_order_of_calls() -> None:
    shuffled = list(SEED)
    random.Random(3).shuffle(shuffled)
    assert compute_claims(shuffled) == compute_claims(SEED)


def test_five_identical_calls_are_one_content_and_teach_nothing() -> None:
    assert compute_claims([call(args={"a": 1}, seq=n) for n in range(5)]) == []
    assert len(group_contents([call(args={"a": 1}, seq=n) for n in range(5)])) == 1


def test_below_the_minimum_of_samples_nothing_is_claimed() -> None:
    assert compute_claims(SEED[:4]) == []
    assert compute_claims([]) == []


def test_calls_of_two_tools_are_refused() -> None:
    with pytest.raises(ValueError, match="one tool"):
        compute_claims([call("a_b"), call("c_d")])


def test_one_exception_turns_always_into_a_count() -> None:
    calls = [call(args={"format": "csv" if n else "pdf", "id": n}, seq=n) for n in range(20)]
    claims = compute_claims(calls)
    usual = only(claims, "usual_value", arg="format")
    assert (usual.support, usual.of) == (19, 20) and "always" not in usual.text
    assert calls[0].id not in usual.evidence
    assert not [c for c in claims if c.kind == "constant"]


def test_a_set_is_closed_only_when_an_unseen_value_would_have_shown_itself() -> None:
    few = [call(args={"mode": "ab"[n % 2], "n": n * 17}, seq=n) for n in range(6)]
    many = [call(args={"mode": "ab"[n % 2], "n": n * 17}, seq=n) for n in range(20)]
    assert not [c for c in compute_claims(few) if c.kind == "closed_set"]
    assert only(compute_claims(many), "closed_set").data["values"] == ["a", "b"]


def test_a_value_seen_once_keeps_the_set_open() -> None:
    calls = [call(args={"mode": "abc"[n % 3] if n < 30 else "z", "n": n}, seq=n) for n in range(31)]
    assert not [c for c in compute_claims(calls) if c.kind == "closed_set" and c.data["arg"] == "mode"]


def test_a_word_that_is_in_every_value_ties_no_argument() -> None:
    calls = [call(args={"kind": "svc", "name": f"svc_{n}", "n": n}, seq=n) for n in range(10)]
    assert not [c for c in compute_claims(calls) if c.kind == "template"]


@pytest.mark.parametrize(
    ("rows", "arg", "template"),
    [
        ([{"v": f"vol{n}", "label": f"vol{n}-2026-0{n}-11"} for n in range(1, 8)], "label", "{v}-{date}"),
        (
            [
                {"s": f"app{n}", "z": "xyz"[n % 3] + ".example", "r": f"app{n}.{'xyz'[n % 3]}.example"}
                for n in range(9)
            ],
            "r",
            "{s}.{z}",
        ),
        (
            [{"kind": k, "env": k.upper() + "_KEY"} for k in ("redis", "mysql", "etcd", "kafka", "minio")],
            "env",
            "{kind|upper}_KEY",
        ),
        ([{"a": f"one_{n}", "b": f"one-{n}"} for n in range(10, 16)], "b", "{a|kebab}"),
        ([{"n": n, "path": f"runs/{n}/out.json"} for n in range(100, 108)], "path", "runs/{n}/out.json"),
    ],
)
def test_templates(rows: list[dict[str, Any]], arg: str, template: str) -> None:
    assert templates.find_template(arg, rows) == (template, len(rows))
    assert all(templates.template_matches(template, row[arg], row) for row in rows)


def test_nested_arguments_are_named_by_their_path() -> None:
    assert flat({"to": {"host": {"deep": {"er": 1}}}}) == {"to.host.deep": {"er": 1}}
    calls = [call(args={"to": {"host": f"h{n}", "port": 22}}, seq=n) for n in range(6)]
    assert only(compute_claims(calls), "constant", arg="to.port").data["value"] == 22


def test_arguments_that_are_text_or_lists_cost_nothing() -> None:
    assert compute_claims([call(args=f"raw {n}", seq=n) for n in range(6)]) == []
    claims = compute_claims([call(args={"ids": [n, n + 1]}, seq=n) for n in range(6)])
    assert [c.kind for c in claims] == ["always_given"]


def test_mixed_case_units_types_and_naming_are_flagged() -> None:
    rows = [
        {"host": h, "size": s, "port": p, "label": label, "n": n}
        for n, (h, s, p, label) in enumerate(
            [
                ("Web", "1GB", 80, "a_b"),
                ("web", "512MB", "80", "a-b"),
                ("db", "2GB", 81, "c_d"),
                ("dc", "3GB", 82, "e-f"),
                ("x", "4GB", 83, "g_h"),
            ]
        )
    ]
    claims = compute_claims([call(args=row, seq=n) for n, row in enumerate(rows)])
    assert {c.data["of"] for c in claims if c.kind == "variance"} == {"case", "units", "types", "naming"}


def test_optional_alternative_and_joint_arguments() -> None:
    one = [{"id": n, **({"url": f"u{n}"} if n % 2 else {"file": f"f{n}"})} for n in range(12)]
    assert only(compute_claims([call(args=row, seq=n) for n, row in enumerate(one)]), "either_or").data[
        "args"
    ] == ["file", "url"]
    two = [{"id": n, **({"user": f"u{n}", "team": f"t{n}"} if n % 2 else {})} for n in range(12)]
    assert only(compute_claims([call(args=row, seq=n) for n, row in enumerate(two)]), "together").support == 6
    three = [{"id": n, **({"dry": True} if n % 2 else {})} for n in range(12)]
    assert (
        "6 of 12"
        in only(compute_claims([call(args=row, seq=n) for n, row in enumerate(three)]), "optional").text
    )


def test_what_comes_before_needs_more_than_the_usual_company() -> None:
    deploys, all_calls = [], []
    for n in range(8):
        line = ["list", "test", "deploy", "list", "read", "list", "read", "list", "read", "list"]
        session = [
            call(tool, {"n": n * 10 + seq} if tool == "deploy" else {}, seq, f"s{n}")
            for seq, tool in enumerate(line)
        ]
        all_calls += session
        deploys += [c for c in session if c.tool == "deploy"]
    found = [c for c in compute_claims(deploys, timelines(all_calls)) if c.kind == "preceded_by"]
    assert [c.data["before"] for c in found] == ["test"]  # `list` comes before everything


def test_a_failed_call_before_is_no_precondition() -> None:
    line = [(0, "test", False), (1, "deploy", True)]
    assert before(line, 1, "deploy") == frozenset()


def test_evidence_is_bounded_and_spread() -> None:
    claims = compute_claims([call(args={"x": n}, seq=n) for n in range(1000)])
    evidence = only(claims, "range").evidence
    assert len(evidence) == 24 and evidence[0] == "s-0" and evidence[-1] == "s-999"


def test_wilson_bounds() -> None:
    assert wilson_lower(0, 0) == 0.0 and wilson_upper(0, 0) == 1.0
    assert wilson_lower(5, 5) == pytest.approx(0.5655, abs=1e-4)
    assert wilson_lower(90, 100) == pytest.approx(0.8256, abs=1e-4) and wilson_upper(
        90, 100
    ) == pytest.approx(0.9448, abs=1e-4)


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        ("GITHUB_TOKEN", "ENV_NAME"), ("TOKEN", None), ("https://a.example/x", "url"), ("/srv/x", "path"), ("2026-02-03", "date"),
        ("v1.2.3", "version"), ("10.0.0.1", "ip"), ("localhost:80", "host:port"), ("INC-0042", "id"), ("redis_cache", "snake_case"),
        ("my-app", "kebab-case"), ("a@b.example", "email"), ("hello", None), ("", None), ("#ops", "channel"), ("42", "digits"),
        ("api.lab.example", "domain"), ("2026-05-04T10:00:00Z", "datetime"), ("report.csv", "file name"),
    ],
)  # fmt: skip
def test_shapes(value: str, shape: str | None) -> None:
    assert shapes.shape_of(value) == shape


@pytest.mark.parametrize(
    ("value", "family"),
    [
        ("http://127.0.0.1:8080", "localhost"), ("localhost", "localhost"), ("192.168.100.7", "192.168.100.x"), ("10.1.2.3:22", "10.1.2.x"),
        ("8.8.8.8", "public addresses"), ("postgres://u@db.lab.example/x", "lab.example"), ("[::1]:80", "localhost"),
    ],
)  # fmt: skip
def test_host_families(value: str, family: str) -> None:
    host = shapes.host_of(value)
    assert host is not None and shapes.host_family(host) == family


# ---------------------------------------------------------------- every claim holds on its evidence

_words = st.sampled_from(
    [
        "redis",
        "api",
        "Web",
        "web",
        "prod_db",
        "prod-db",
        "X_TOKEN",
        "10.0.0.1:80",
        "localhost:1",
        "5m",
        "3 h",
        "a b",
        "",
    ]
)
_value = st.one_of(
    _words,
    st.integers(-3, 40),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
)
_row = st.dictionaries(st.sampled_from("abcdef"), _value, max_size=5)


def holds(claim: Claim, args: dict[str, Any]) -> bool:
    """The claim read naively, on one argument set."""
    data, value = claim.data, args.get(claim.data.get("arg", ""))
    match claim.kind:
        case "always_given":
            return set(data["args"]) <= set(args) and (not data["only"] or set(data["args"]) == set(args))
        case "constant" | "usual_value":
            return bool(value == data["value"])
        case "closed_set":
            return value in data["values"]
        case "range":
            return bool(data["low"] <= value <= data["high"])
        case "template":
            return templates.template_matches(data["template"], value, args)
        case "shape" if data["shape"] == "affix":
            return bool(value.startswith(data["prefix"]) and value.endswith(data["suffix"]))
        case "shape":
            return re.fullmatch(data["pattern"], value) is not None and value.startswith(
                data.get("prefix", "")
            )
        case "either_or":
            return (data["args"][0] in args) != (data["args"][1] in args)
        case "together":
            return set(data["args"]) <= set(args)
        case "optional" | "variance":
            return data["arg"] in args
    raise AssertionError(claim.kind)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_row, min_size=5, max_size=40))
def test_every_claim_holds_on_its_evidence_and_as_often_as_it_says(rows: list[dict[str, Any]]) -> None:
    calls = [call(args=row, seq=n) for n, row in enumerate(rows)]
    by_id = {occurrence(c): c for c in calls}
    contents = group_contents(calls)
    for claim in compute_claims(calls):
        assert claim.evidence and len(claim.evidence) == min(claim.support, 24), claim
        assert all(holds(claim, dict(by_id[i].args)) for i in claim.evidence), claim
        naive = [
            content
            for content in contents
            if ("arg" not in claim.data or claim.data["arg"] in content.args) and holds(claim, content.args)
        ]
        if claim.kind not in ("variance",):
            assert len(naive) == claim.support <= claim.of, claim
        if "always" in claim.text:
            assert claim.support == claim.of, claim


def test_many_networks_and_domains_are_told_by_kind() -> None:
    rows = (
        [f"192.168.{n}.5:80" for n in range(8)]
        + ["localhost:80"]
        + [f"api.team{n}.example:80" for n in range(5)]
    )
    claims = compute_claims([call(args={"to": to, "n": n}, seq=n) for n, to in enumerate(rows)])
    assert only(claims, "variance", arg="to").data["families"] == {
        "192.168.x.x": 8,
        "domain names": 5,
        "localhost": 1,
    }
