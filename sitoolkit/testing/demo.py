"""Makes the demo's sixty sessions with their truth: comes in a seed, goes out sessions and what can be learned from them.

Keys of the truth (also in `data/truth.json`):

* `seed`, `sessions[{id, format, file, agent, project, calls}]`: `id` is the one that the file carries (for Claude Code its UUID; a
  LangChain list carries none, so the file's stem).
* `tools{tool: {crew, writes, preceded_by?, args{arg: {kind, …}}}}`: what arguments may be. A claim that says more than this is
  contradicted: `kind` is constant (value), set (values), range (low, high), template, shape or free.
* `conventions[{id, tool, kind, arg?, args?, value?, values?, template?, before?, families?, samples}]`: what distilling must find, `kind` in the
  words of the claims: always_given, constant, closed_set, shape, template, range, preceded_by, variance.
* `failures[{id, tool, mode, cause{kind, …}, error, count, sessions[…]}]`: planted failures. Cause kinds: missing_argument (arg),
  missing_preceding (tool), value_range and large_input (arg, op, bound), value (arg, value), value_shape (arg, contains or prefix),
  argument_type (arg, type, wanted).
* `friction[{tool, failure_mode, session, count}]`: pairs that failed three times or more in one session; `not_friction`: those that did not.
* `noise_failures[{tool, mode, count}]`: failures without a cause; a lesson about them is wrong.
* `corrections[{session, project, text, kinds[…], fact{subject, aspect, value, unwanted}|null}]`, `look_alikes[{session, text}]`: user turns.
* `facts[{project, subject, aspect, value, unwanted, count}]`: what is believed at the end; `superseded_facts`: what was believed before.
  Subjects and aspects are our names for them: compare values, and that both rows of a contradiction share one slot.
* `secrets[{kind, value, session, place}]`: must survive nowhere; `not_secrets[…]`: must survive.
* `calls`, `outcomes{…}`, `writes{tool: n}`: successful state-changing calls by tool, shell commands left out.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sitoolkit.records import Outcome, Session, parse_time
from sitoolkit.testing.formats import session_uuid
from sitoolkit.testing.scene import Scene
from sitoolkit.testing.world import PLANTS, TOOLS, World

__all__ = ["Demo", "generate_demo"]

START = parse_time("2026-05-04T07:30:00Z")
CREWS = {  # crew: (format, agent, project, sessions)
    "ops": ("sitoolkit", "ops", "platform", 26),
    "atlas": ("claude-code", "", "atlas", 18),
    "data": ("langchain", "data", None, 18),
}
# How often each tool is called as it should be, beside the calls that mend a failure.
GOOD = {
    "ops": {
        "register_service": 16, "deploy_service": 14, "scale_service": 18, "rotate_credentials": 12, "create_snapshot": 8,
        "update_dns_record": 16, "restart_service": 18,
    },
    "atlas": {
        "mcp__tracker__create_ticket": 18, "mcp__chat__send_message": 15, "mcp__artifacts__fetch_artifact": 16, "Write": 16,
    },
    "data": {"ingest_batch": 16, "exportReport": 18, "query_metrics": 18},
}  # fmt: skip
ONCE_A_SESSION = {
    "deploy_service",
    "rotate_credentials",
}  # a fault of order is told by what the session did before
SINGLE_FAILURES = 3  # sessions with one failure of a plant, beside the one with three

# (crew, text, kinds that may fire, fact); a later entry of the same subject with another value supersedes.
CORRECTIONS: tuple[tuple[str, str, tuple[str, ...], dict[str, Any] | None], ...] = (
    ("ops", "No, use tabs, not spaces, in the compose files.", ("negation",), {"subject": "indentation", "aspect": "style", "value": "tabs", "unwanted": "spaces"}),
    ("ops", "no, use tabs not spaces", ("negation",), {"subject": "indentation", "aspect": "style", "value": "tabs", "unwanted": "spaces"}),
    ("ops", "Use podman instead of docker on the lab hosts.", ("negation",), {"subject": "container runtime", "aspect": "tool", "value": "podman", "unwanted": "docker"}),
    ("ops", "No, use port 8443, not port 8080, for the gateway.", ("negation",), {"subject": "gateway", "aspect": "port", "value": "8443", "unwanted": "8080"}),
    ("ops", "Nein, nimm chrony, nicht ntpd.", ("negation",), {"subject": "time service", "aspect": "tool", "value": "chrony", "unwanted": "ntpd"}),
    ("ops", "That's wrong, write the times in UTC, not in local time.", ("negation",), {"subject": "times", "aspect": "zone", "value": "UTC", "unwanted": "local time"}),
    ("atlas", "No, use pnpm, not npm.", ("negation",), {"subject": "package manager", "aspect": "tool", "value": "pnpm", "unwanted": "npm"}),
    ("atlas", "no, use pytest, not unittest", ("negation",), {"subject": "test runner", "aspect": "tool", "value": "pytest", "unwanted": "unittest"}),
    ("atlas", "Use httpie instead of curl in the runbooks.", ("negation",), {"subject": "http client", "aspect": "tool", "value": "httpie", "unwanted": "curl"}),
    ("atlas", "No, use yarn, not pnpm.", ("negation",), {"subject": "package manager", "aspect": "tool", "value": "yarn", "unwanted": "pnpm"}),
    ("atlas", "No, use ruff, not flake8, please.", ("negation",), {"subject": "linter", "aspect": "tool", "value": "ruff", "unwanted": "flake8"}),
)  # fmt: skip
REWRITES = (
    (
        "atlas",
        "def wait(host):\n    for attempt in range(5):\n        ping(host)\n        time.sleep(1)\n    return host",
        "def wait(host, limit=30.0):\n    deadline = clock() + limit\n    while clock() < deadline:\n        if ping(host):\n            return host\n    raise TimeoutError(host)",
        "rewrite",
    ),
    (
        "ops",
        "Subject: maintenance on Sunday. We restart the cache hosts between 02:00 and 03:00 and expect no downtime.",
        "Subject: maintenance on Sunday. We restart the cache hosts between 04:00 and 05:00 and expect no downtime.",
        "edit",
    ),
)
LOOK_ALIKES = (
    "No problem, take your time.",
    "Don't worry about the delay.",
    "stop",
    "Actually, thanks, that is all for today.",
    "Instead of waiting for me, go on with the next one.",
    "Not bad!",
    'The log says "no, use the other node" - is that ours?',
    "Can you also check the health, not only the status?",
    "There is no need to hurry.",
    "Great, thank you.",
)
OPENERS = {
    "ops": ("Please bring {what} up to date.", "Morning. Work through the queue for {what}.", "Set up what is missing for {what}."),
    "atlas": ("Look after the {what} alerts and file what is needed.", "Update the runbooks for {what}.", "Prepare the handover of {what}."),
    "data": ("Load the new {what} data and send the reports.", "Refresh the {what} figures.", "Check {what} and export last month."),
}  # fmt: skip
# Secrets are put together here so that no scanner of the source takes them for real ones.
SECRETS = (
    ("github_pat_classic", "gh" + "p_" + "FAKEdemo" * 4 + "FAKE", "args"),
    ("aws_access_key_id", "AK" + "IA" + "FAKEDEMOFAKE2345", "result"),
    ("postgres_url", "postgres://ops:" + "FAKEdemoPass77" + "@db.lab.example:5432/ops", "args"),
    ("bearer_header", "Authorization: Bear" + "er FAKEdemo0123456789FAKEdemo0123456789", "user"),
    ("gitlab_pat", "gl" + "pat-FAKEdemo0123456789FA", "user"),
    ("password_key", "FAKEdemo-hunter22", "args"),
    ("slack_bot_token", "xo" + "xb-123456789012-123456789012-FAKEdemoFAKEdemoFAKEdemo", "result"),
)
NOT_SECRETS = (
    "GRAFANA_TOKEN",
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "550e8400-e29b-41d4-a716-446655440000",
)


@dataclass
class Demo:
    """Sixty sessions by crew, and what is true of them."""

    sessions: dict[str, list[Session]] = field(default_factory=dict)
    truth: dict[str, Any] = field(default_factory=dict)


def generate_demo(seed: int = 7) -> Demo:
    """The demo's sessions and their truth; the same seed gives the same bytes on every machine.

    >>> demo = generate_demo(seed=7)
    >>> sum(len(sessions) for sessions in demo.sessions.values())
    62

    Args:
        seed: of `random.Random`; 7 is what `data/` ships.
    """
    demo = Demo()
    plants: Counter[tuple[str, str]] = Counter()
    corrections: list[dict[str, Any]] = []
    look_alikes: list[dict[str, Any]] = []
    secrets: list[dict[str, Any]] = []
    for crew in CREWS:
        demo.sessions[crew] = _crew(
            crew, random.Random(f"{seed}:{crew}"), plants, corrections, look_alikes, secrets
        )
    demo.truth = {
        "seed": seed,
        "sessions": [
            _listed(crew, session) for crew, sessions in demo.sessions.items() for session in sessions
        ],
        "tools": TOOLS,
        "conventions": _conventions(demo),
        "failures": [
            {
                "id": plant,
                **spec,
                "count": sum(n for (name, _), n in plants.items() if name == plant),
                "sessions": sorted(session for name, session in plants if name == plant),
            }
            for plant, spec in PLANTS.items()
        ],
        **_friction(demo),
        "corrections": corrections,
        "look_alikes": look_alikes,
        **_facts(corrections),
        "secrets": secrets,
        "not_secrets": list(NOT_SECRETS),
        **_counts(demo),
    }
    return demo


def _crew(
    crew: str,
    rng: random.Random,
    plants: Counter[tuple[str, str]],
    corrections: list[dict[str, Any]],
    look_alikes: list[dict[str, Any]],
    secrets: list[dict[str, Any]],
) -> list[Session]:
    form, agent, project, count = CREWS[crew]
    assert START is not None
    world = World(rng)
    tasks = _plan(crew, rng, count)
    sessions = []
    mine = [entry for entry in CORRECTIONS if entry[0] == crew]
    rewrites = [entry for entry in REWRITES if entry[0] == crew]
    offset = {"ops": 0, "atlas": 3, "data": 5}[crew]
    for index in range(count):
        at = START + timedelta(hours=11 * index + offset, minutes=rng.randint(0, 50))
        scene = Scene(f"{crew}-{index + 1:03d}", rng, at, format=form, agent=agent, project=project)
        known = _id(crew, scene)
        what = rng.choice(("the lab", "billing", "search", "the edge nodes", "metrics"))
        scene.user(rng.choice(OPENERS[crew]).format(what=what))
        for tool, plant, repeats in tasks[index]:
            world.glance(scene, chance=0.4)
            if plant:
                for _ in range(repeats):
                    world.bad(scene, plant)
                    plants[plant, known] += 1
                scene.say("That did not work; I change the call.")
                world.glance(scene, chance=0.4)
            world.good(scene, tool)
        _noise(crew, index, scene, world)
        for kind, value, place in SECRETS:
            if _secret_goes_to(kind) == (crew, index):
                _plant_secret(scene, kind, value, place)
                secrets.append({"kind": kind, "value": value, "session": known, "place": place})
        if index % 2 == 1 and mine:
            _, text, kinds, fact = mine.pop(0)
            scene.say(_before_correction(fact))
            scene.user(text)
            corrections.append(
                {"session": known, "project": project, "text": text, "kinds": list(kinds), "fact": fact}
            )
            scene.say("Understood, I change that.")
        elif index == 12 and rewrites:
            _, draft, revised, kind = rewrites.pop(0)
            scene.say(f"```python\n{draft}\n```" if kind == "rewrite" else draft)
            text = f"```python\n{revised}\n```" if kind == "rewrite" else revised
            scene.user(text)
            corrections.append(
                {"session": known, "project": project, "text": text, "kinds": [kind], "fact": None}
            )
            scene.say("Thank you, I take your version.")
        elif (crew, index) == ("ops", 22):
            made = scene.call("scale_service", world.args("scale_service", scene), world.volatile())
            text = (
                f'scale_service(service="{made.args["service"]}", replicas={made.args["replicas"] % 10 + 1})'
            )
            scene.user(text)
            corrections.append(
                {"session": known, "project": project, "text": text, "kinds": ["tool_override"], "fact": None}
            )
            scene.say("I scale it as you say.")
        elif index % 3 == 0:
            text = LOOK_ALIKES[(index // 3 + offset) % len(LOOK_ALIKES)]
            scene.say("The next step takes a while.")
            scene.user(text)
            look_alikes.append({"session": known, "text": text})
        scene.say("Done." if index % 4 else "All done; nothing is left open.")
        sessions.append(scene.session())
    return sessions


def _before_correction(fact: dict[str, Any] | None) -> str:
    return f"I went with {fact['unwanted']} for the {fact['subject']}." if fact else "Here is the draft."


def _plan(crew: str, rng: random.Random, count: int) -> list[list[tuple[str, str | None, int]]]:
    """Which tasks go to which session: (tool, plant or None, failures of the plant)."""
    plan: list[list[tuple[str, str | None, int]]] = [[] for _ in range(count)]
    mine = [(plant, spec["tool"]) for plant, spec in PLANTS.items() if TOOLS[spec["tool"]]["crew"] == crew]
    for number, (plant, tool) in enumerate(mine):
        start = (number * 3 + 1) % count
        step = max(1, count // (SINGLE_FAILURES + 1))
        for turn in range(SINGLE_FAILURES + 1):
            plan[(start + turn * step) % count].insert(0, (tool, plant, 3 if turn == 0 else 1))
    for tool, times in GOOD[crew].items():
        free = [index for index in range(count) if not any(task[0] == tool for task in plan[index])]
        order = rng.sample(free, len(free)) if tool in ONCE_A_SESSION else rng.sample(range(count), count)
        if tool == "create_snapshot":  # kept out of sessions where a missing snapshot is the fault
            order = [
                index
                for index in order
                if not any(task[1] == "rotate-without-snapshot" for task in plan[index])
            ]
        for turn in range(times):
            if tool in ONCE_A_SESSION and turn >= len(order):
                break
            plan[order[turn % len(order)]].append((tool, None, 0))
    for tasks in plan:  # so that no tool comes before another by the order of the tables above
        rng.shuffle(tasks)
    return plan


def _noise(crew: str, index: int, scene: Scene, world: World) -> None:
    """Failures without a cause, calls that were stopped, and calls whose result never came."""
    if crew == "ops" and index % 6 == 2:
        for _ in range(2):  # twice in a session: under the threshold
            scene.call(
                "check_health",
                world.args("check_health", scene),
                mode="NETWORK",
                error="Error: connection reset by peer",
                outcome=Outcome.FAILURE,
            )
    if crew == "atlas" and index % 5 == 1:
        scene.call(
            "Bash",
            {"command": "pytest -q"},
            mode="RUNTIME",
            error="Exit code 1\n2 failed, 31 passed",
            outcome=Outcome.FAILURE,
        )
    if crew == "data" and index % 7 == 3:
        scene.call(
            "exportReport",
            world.args("exportReport", scene),
            outcome=Outcome.CANCELLED,
            error="Cancelled by user",
        )
    if crew == "ops" and index in (9, 20):
        scene.call("restart_service", world.args("restart_service", scene), outcome=Outcome.UNKNOWN)
    if crew == "data" and index % 6 == 1:  # names that only look like writes
        scene.call("list_created_reports", {}, world.volatile(items=["churn", "usage"]))


def _secret_goes_to(kind: str) -> tuple[str, int]:
    names = [name for name, _, _ in SECRETS]
    at = names.index(kind)
    return (("ops", "atlas", "data")[at % 3], 2 + 2 * at)


def _plant_secret(scene: Scene, kind: str, value: str, place: str) -> None:
    if place == "user":
        scene.user(f"In case you need it: {value}")
        scene.say("I do not store that.")
    elif place == "result":
        scene.call(
            "read_config",
            {"path": "deploy/values.yaml"},
            f"owner: ops\nkey: {value}\nrevision: {NOT_SECRETS[1]}\n",
        )
    else:
        key = "password" if kind == "password_key" else "remote"
        scene.call(
            "configure_remote", {"name": "origin", key: value, "token_env": NOT_SECRETS[0]}, "configured"
        )


def _id(crew: str, scene: Scene) -> str:
    return session_uuid(scene.id) if CREWS[crew][0] == "claude-code" else scene.id


def _listed(crew: str, session: Session) -> dict[str, Any]:
    form, agent, project, _ = CREWS[crew]
    file = {"sitoolkit": "transcripts/ops.jsonl"}.get(
        form, f"transcripts/{crew}/{session.id}.{'jsonl' if form == 'claude-code' else 'json'}"
    )
    known = session_uuid(session.id) if form == "claude-code" else session.id
    return {
        "id": known,
        "format": form,
        "file": file,
        "agent": agent,
        "project": project,
        "calls": len(session.calls),
    }


def _conventions(demo: Demo) -> list[dict[str, Any]]:
    samples = Counter(
        call.tool
        for sessions in demo.sessions.values()
        for s in sessions
        for call in s.calls
        if call.outcome is Outcome.SUCCESS
    )
    found: list[dict[str, Any]] = []
    for tool, spec in TOOLS.items():
        if not spec["writes"]:
            continue
        base = {"tool": tool, "samples": samples[tool]}
        found.append({"id": f"{tool}:args", **base, "kind": "always_given", "args": sorted(spec["args"])})
        if spec.get("preceded_by"):
            found.append(
                {"id": f"{tool}:before", **base, "kind": "preceded_by", "before": spec["preceded_by"]}
            )
        for arg, rule in spec["args"].items():
            entry = {"id": f"{tool}:{arg}", **base, "arg": arg}
            match rule["kind"]:
                case "constant":
                    found.append({**entry, "kind": "constant", "value": rule["value"]})
                case "set":
                    found.append({**entry, "kind": "closed_set", "values": rule["values"]})
                case "range":
                    found.append({**entry, "kind": "range", "low": rule["low"], "high": rule["high"]})
                case "template":
                    found.append({**entry, "kind": "template", "template": rule["template"]})
                case "shape":
                    found.append({**entry, "kind": "shape", "shape": rule["shape"]})
            if "hosts" in rule:
                found.append(
                    {**entry, "id": f"{tool}:{arg}:hosts", "kind": "variance", "families": rule["hosts"]}
                )
    return found


def _friction(demo: Demo) -> dict[str, Any]:
    pairs: Counter[tuple[str, str, str]] = Counter()
    planted = {(spec["tool"], spec["mode"]) for spec in PLANTS.values()}
    noise: Counter[tuple[str, str]] = Counter()
    for crew, sessions in demo.sessions.items():
        for session in sessions:
            known = session_uuid(session.id) if CREWS[crew][0] == "claude-code" else session.id
            for call in session.calls:
                if call.failed and call.failure_mode:
                    pairs[call.tool, call.failure_mode, known] += 1
                    if (call.tool, call.failure_mode) not in planted:
                        noise[call.tool, call.failure_mode] += 1
    rows: list[dict[str, Any]] = [
        {"tool": tool, "failure_mode": mode, "session": session, "count": count}
        for (tool, mode, session), count in sorted(pairs.items())
    ]
    return {
        "friction": [row for row in rows if row["count"] >= 3],
        "not_friction": [row for row in rows if row["count"] < 3],
        "noise_failures": [
            {"tool": tool, "mode": mode, "count": count} for (tool, mode), count in sorted(noise.items())
        ],
    }


def _facts(corrections: list[dict[str, Any]]) -> dict[str, Any]:
    current: dict[tuple[str, str], dict[str, Any]] = {}
    old: list[dict[str, Any]] = []
    for entry in corrections:
        fact = entry["fact"]
        if not fact:
            continue
        key = (entry["project"], fact["subject"])
        held = current.get(key)
        if held and held["value"] == fact["value"]:
            held["count"] += 1
            continue
        if held:
            old.append(held)
        current[key] = {"project": entry["project"], **fact, "count": 1}
    return {"facts": list(current.values()), "superseded_facts": old}


def _counts(demo: Demo) -> dict[str, Any]:
    calls = [call for sessions in demo.sessions.values() for session in sessions for call in session.calls]
    writes = Counter(
        call.tool
        for call in calls
        if call.outcome is Outcome.SUCCESS
        and (TOOLS.get(call.tool, {}).get("writes") or call.tool == "configure_remote")
    )
    return {
        "calls": len(calls),
        "outcomes": {str(outcome): sum(call.outcome is outcome for call in calls) for outcome in Outcome},
        "writes": dict(sorted(writes.items())),
    }


def demo_start() -> datetime:
    """When the demo's first session begins."""
    assert START is not None
    return START
