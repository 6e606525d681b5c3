"""The demo's world: what its tools accept, where they fail and why; goes out as functions that make one call each.

Each convention is stated twice: as code that makes arguments, and as the specification (`TOOLS`) that the truth file carries.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from sitoolkit.records import Outcome
from sitoolkit.testing.scene import Scene

__all__ = ["PLANTS", "TOOLS", "World"]

KINDS = {"redis": 6379, "postgres": 5432, "grafana": 3000, "rabbitmq": 5672}
SUFFIXES = ("cache", "orders", "billing", "search", "audit", "metrics", "staging", "edge", "mail", "reports")
SERVICES = tuple(f"{kind}_{suffix}" for kind in KINDS for suffix in SUFFIXES[:4])
HOSTS = ("localhost", "192.168.100.11", "192.168.100.12", "192.168.100.27")
ZONES = ("lab.example", "prod.example")

# What each argument may be. kind: constant | set | range | template | shape | free. A claim that says more is contradicted.
TOOLS: dict[str, dict[str, Any]] = {
    "register_service": {
        "crew": "ops",
        "writes": True,
        "args": {
            "name": {"kind": "template", "template": "{kind}_{suffix}"},
            "kind": {"kind": "set", "values": sorted(KINDS)},
            "endpoint": {"kind": "shape", "shape": "host:port", "hosts": ["localhost", "192.168.x"]},
            "token_env": {"kind": "template", "template": "{kind|upper}_TOKEN", "shape": "ENV_NAME"},
        },
    },
    "deploy_service": {
        "crew": "ops",
        "writes": True,
        "preceded_by": "run_tests",
        "args": {
            "service": {"kind": "shape", "shape": "snake_case"},
            "version": {"kind": "shape", "shape": "version"},
            "environment": {"kind": "set", "values": ["production", "staging"]},
            "strategy": {"kind": "constant", "value": "rolling"},
            "replicas": {"kind": "range", "low": 2, "high": 6},
        },
    },
    "scale_service": {
        "crew": "ops",
        "writes": True,
        "args": {
            "service": {"kind": "shape", "shape": "snake_case"},
            "replicas": {"kind": "range", "low": 1, "high": 10},
        },
    },
    "rotate_credentials": {
        "crew": "ops",
        "writes": True,
        "preceded_by": "create_snapshot",
        "args": {
            "service": {"kind": "shape", "shape": "snake_case"},
            "store": {"kind": "constant", "value": "vault"},
            "grace_minutes": {"kind": "constant", "value": 15},
        },
    },
    "create_snapshot": {
        "crew": "ops",
        "writes": True,
        "args": {
            "volume": {"kind": "shape", "shape": "id"},
            "label": {"kind": "template", "template": "{volume}-{date}"},
            "retention_days": {"kind": "constant", "value": 14},
        },
    },
    "update_dns_record": {
        "crew": "ops",
        "writes": True,
        "args": {
            "service": {"kind": "shape", "shape": "kebab-case"},
            "zone": {"kind": "set", "values": sorted(ZONES)},
            "record": {"kind": "template", "template": "{service}.{zone}"},
            "ttl": {"kind": "constant", "value": 300},
        },
    },
    "restart_service": {
        "crew": "ops",
        "writes": True,
        "args": {"name": {"kind": "shape", "shape": "snake_case"}},
    },
    "run_tests": {
        "crew": "ops",
        "writes": False,
        "args": {"service": {"kind": "free"}, "suite": {"kind": "constant", "value": "smoke"}},
    },
    "list_services": {"crew": "ops", "writes": False, "args": {}},
    "check_health": {"crew": "ops", "writes": False, "args": {"service": {"kind": "free"}}},
    "get_update_status": {"crew": "ops", "writes": False, "args": {"service": {"kind": "free"}}},
    "mcp__tracker__create_ticket": {
        "crew": "atlas",
        "writes": True,
        "args": {
            "queue": {"kind": "constant", "value": "OPS"},
            "title": {"kind": "template", "template": "{prefix} {component} {suffix}"},
            "severity": {"kind": "set", "values": ["high", "low", "medium"]},
            "component": {"kind": "set", "values": ["api", "web", "worker"]},
        },
    },
    "mcp__chat__send_message": {
        "crew": "atlas",
        "writes": True,
        "args": {
            "channel": {"kind": "set", "values": ["#ops-alerts", "#ops-daily", "#ops-deploys"]},
            "text": {"kind": "free"},
        },
    },
    "mcp__artifacts__fetch_artifact": {
        "crew": "atlas",
        "writes": False,
        "args": {"name": {"kind": "free"}, "region": {"kind": "set", "values": ["eu-central", "us-east"]}},
    },
    "Write": {
        "crew": "atlas",
        "writes": True,
        "args": {
            "file_path": {"kind": "shape", "shape": "path", "prefix": "/srv/atlas/"},
            "content": {"kind": "free"},
        },
    },
    "Read": {
        "crew": "atlas",
        "writes": False,
        "args": {"file_path": {"kind": "shape", "shape": "path", "prefix": "/srv/atlas/"}},
    },
    "Bash": {"crew": "atlas", "writes": None, "args": {"command": {"kind": "free"}}},
    "ingest_batch": {
        "crew": "data",
        "writes": True,
        "preceded_by": "validate_schema",
        "args": {
            "source": {"kind": "set", "values": ["billing", "clicks", "sensors"]},
            "rows": {"kind": "range", "low": 200, "high": 5000},
            "batch_size": {"kind": "range", "low": 100, "high": 500},
        },
    },
    "exportReport": {
        "crew": "data",
        "writes": True,
        "args": {
            "name": {"kind": "set", "values": ["churn", "costs", "latency", "usage"]},
            "date": {"kind": "shape", "shape": "date"},
            "path": {"kind": "template", "template": "reports/{date}/{name}.csv"},
            "format": {"kind": "constant", "value": "csv"},
        },
    },
    "query_metrics": {
        "crew": "data",
        "writes": False,
        "args": {
            "metric": {"kind": "set", "values": ["cpu", "disk", "latency", "memory"]},
            "hours": {"kind": "range", "low": 1, "high": 48},
        },
    },
    "validate_schema": {
        "crew": "data",
        "writes": False,
        "args": {"source": {"kind": "set", "values": ["billing", "clicks", "sensors"]}},
    },
}

# Planted failures: under which condition a tool fails, and how. `cause` is what a lesson must name.
PLANTS: dict[str, dict[str, Any]] = {
    "register-without-token": {
        "tool": "register_service",
        "mode": "ARGS",
        "cause": {"kind": "missing_argument", "arg": "token_env"},
        "error": "missing required argument: token_env",
    },
    "deploy-untested": {
        "tool": "deploy_service",
        "mode": "CONFLICT",
        "cause": {"kind": "missing_preceding", "tool": "run_tests"},
        "error": "Error: conflict: release gate is closed for this build",
    },
    "scale-too-far": {
        "tool": "scale_service",
        "mode": "RUNTIME",
        "cause": {"kind": "value_range", "arg": "replicas", "op": ">", "bound": 10, "fails_from": 12},
        "error": "RuntimeError: scheduler gave up placing replicas",
    },
    "rotate-without-snapshot": {
        "tool": "rotate_credentials",
        "mode": "PERM",
        "cause": {"kind": "missing_preceding", "tool": "create_snapshot"},
        "error": "Error: permission denied: rotation is locked",
    },
    "ttl-as-text": {
        "tool": "update_dns_record",
        "mode": "SYNTAX",
        "cause": {"kind": "argument_type", "arg": "ttl", "type": "string", "wanted": "number"},
        "error": "SyntaxError: cannot parse record",
    },
    "name-with-hyphen": {
        "tool": "restart_service",
        "mode": "NOTFOUND",
        "cause": {"kind": "value_shape", "arg": "name", "contains": "-"},
        "error": "Error: service not found",
    },
    "severity-urgent": {
        "tool": "mcp__tracker__create_ticket",
        "mode": "ARGS",
        "cause": {"kind": "value", "arg": "severity", "value": "urgent"},
        "error": "Error: invalid argument: request body failed validation",
    },
    "region-unreachable": {
        "tool": "mcp__artifacts__fetch_artifact",
        "mode": "NETWORK",
        "cause": {"kind": "value", "arg": "region", "value": "eu-west-9"},
        "error": "Error: network: could not resolve host",
    },
    "write-outside": {
        "tool": "Write",
        "mode": "PERM",
        "cause": {"kind": "value_shape", "arg": "file_path", "prefix": "/etc/"},
        "error": "Error: EACCES: permission denied",
    },
    "batch-too-big": {
        "tool": "ingest_batch",
        "mode": "RUNTIME",
        "cause": {"kind": "value_range", "arg": "batch_size", "op": ">", "bound": 500, "fails_from": 2000},
        "error": "Error: MemoryError: worker ran out of memory",
    },
    "window-too-long": {
        "tool": "query_metrics",
        "mode": "TIMEOUT",
        "cause": {"kind": "large_input", "arg": "hours", "op": ">", "bound": 48, "fails_from": 168},
        "error": "Error: query timed out after 30 s",
    },
    "format-xlsx": {
        "tool": "exportReport",
        "mode": "TOOL_GAP",
        "cause": {"kind": "value", "arg": "format", "value": "xlsx"},
        "error": "Error: not implemented: no exporter for this request",
    },
}


class World:
    """Makes calls in a scene: each method one task that follows the conventions, or, given a plant, breaks one of them."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._pairs = [(kind, suffix) for suffix in SUFFIXES for kind in KINDS]
        rng.shuffle(self._pairs)
        self._turn: dict[str, int] = {}

    def next(self, name: str, values: tuple[Any, ...]) -> Any:
        """Values in rotation, so that no argument leans to one side by chance."""
        at = self._turn.get(name, 0)
        self._turn[name] = at + 1
        return values[at % len(values)]

    def volatile(self, **fields: Any) -> dict[str, Any]:
        """A result with the parts that differ from run to run."""
        return {"status": "ok", **fields, "request_id": f"req-{self.rng.getrandbits(32):08x}"}

    def date(self, scene: Scene) -> str:
        return scene.at.strftime("%Y-%m-%d")

    # -- arguments of one call that succeeds

    def args(self, tool: str, scene: Scene) -> dict[str, Any]:
        """Arguments by the tool's conventions."""
        maker: Callable[[Scene], dict[str, Any]] = getattr(self, f"_{tool.split('__')[-1].lower()}")
        return maker(scene)

    def _register_service(self, scene: Scene) -> dict[str, Any]:
        kind, suffix = self.next("pair", tuple(self._pairs))
        return {
            "name": f"{kind}_{suffix}",
            "kind": kind,
            "endpoint": f"{self.rng.choice(HOSTS)}:{KINDS[kind]}",
            "token_env": f"{kind.upper()}_TOKEN",
        }

    def _deploy_service(self, scene: Scene) -> dict[str, Any]:
        return {
            "service": self.rng.choice(SERVICES),
            "version": f"v{self.rng.randint(1, 3)}.{self.rng.randint(0, 19)}.{self.rng.randint(0, 9)}",
            "environment": self.next("environment", ("staging", "production")),
            "strategy": "rolling",
            "replicas": self.rng.randint(2, 6),
        }

    def _scale_service(self, scene: Scene) -> dict[str, Any]:
        return {"service": self.rng.choice(SERVICES), "replicas": self.rng.randint(1, 10)}

    def _rotate_credentials(self, scene: Scene) -> dict[str, Any]:
        return {"service": self.rng.choice(SERVICES), "store": "vault", "grace_minutes": 15}

    def _create_snapshot(self, scene: Scene) -> dict[str, Any]:
        volume = f"vol{self.rng.randint(10, 99)}"
        return {"volume": volume, "label": f"{volume}-{self.date(scene)}", "retention_days": 14}

    def _update_dns_record(self, scene: Scene) -> dict[str, Any]:
        service, zone = self.rng.choice(SERVICES).replace("_", "-"), self.next("zone", ZONES)
        return {"service": service, "zone": zone, "record": f"{service}.{zone}", "ttl": 300}

    def _restart_service(self, scene: Scene) -> dict[str, Any]:
        return {"name": self.rng.choice(SERVICES)}

    def _run_tests(self, scene: Scene) -> dict[str, Any]:
        return {"service": self.rng.choice(SERVICES), "suite": "smoke"}

    def _list_services(self, scene: Scene) -> dict[str, Any]:
        return {}

    def _check_health(self, scene: Scene) -> dict[str, Any]:
        return {"service": self.rng.choice(SERVICES)}

    _get_update_status = _check_health

    def _create_ticket(self, scene: Scene) -> dict[str, Any]:
        what = self.rng.choice(
            ("slow answer", "disk nearly full", "certificate expires", "queue grows", "login loops")
        )
        component = self.next("component", ("api", "web", "worker"))
        return {
            "queue": "OPS",
            "title": f"{what} on {component} {self.rng.randint(1, 40)}",
            "severity": self.next("severity", ("low", "medium", "high", "medium")),
            "component": component,
        }

    def _send_message(self, scene: Scene) -> dict[str, Any]:
        text = self.rng.choice(
            ("Deploy is out", "Nightly checks are green", "Looking at the alert", "Handover is done")
        )
        return {
            "channel": self.next("channel", ("#ops-alerts", "#ops-daily", "#ops-deploys")),
            "text": f"{text} ({self.rng.randint(1, 60)} min)",
        }

    def _fetch_artifact(self, scene: Scene) -> dict[str, Any]:
        return {
            "name": f"atlas-{self.rng.randint(100, 999)}.tar.zst",
            "region": self.next("region", ("eu-central", "us-east")),
        }

    def _write(self, scene: Scene) -> dict[str, Any]:
        topic = self.rng.choice(("restore", "handover", "alerts", "on-call", "upgrade"))
        return {
            "file_path": f"/srv/atlas/runbooks/{self.date(scene)}-{topic}-{self.rng.randint(1, 9)}.md",
            "content": f"# {topic.title()}\n\n1. Read the alert.\n2. Follow step {self.rng.randint(2, 9)}.\n",
        }

    def _read(self, scene: Scene) -> dict[str, Any]:
        return {
            "file_path": f"/srv/atlas/{self.rng.choice(('README.md', 'app/main.py', 'deploy/values.yaml'))}"
        }

    def _bash(self, scene: Scene) -> dict[str, Any]:
        return {
            "command": self.rng.choice(
                ("git status --short", "ls deploy", "git log --oneline -5", "pytest -q")
            )
        }

    def _ingest_batch(self, scene: Scene) -> dict[str, Any]:
        return {
            "source": self.next("source", ("billing", "clicks", "sensors")),
            "rows": self.rng.randint(20, 500) * 10,
            "batch_size": self.next("batch", (100, 200, 250, 400, 500)),
        }

    def _exportreport(self, scene: Scene) -> dict[str, Any]:
        name = self.next("report", ("churn", "costs", "latency", "usage"))
        day = f"2026-{self.rng.randint(1, 5):02d}-{self.rng.randint(1, 28):02d}"
        return {"name": name, "date": day, "path": f"reports/{day}/{name}.csv", "format": "csv"}

    def _query_metrics(self, scene: Scene) -> dict[str, Any]:
        return {
            "metric": self.next("metric", ("cpu", "disk", "latency", "memory")),
            "hours": self.rng.choice((1, 2, 6, 12, 24, 48)),
        }

    def _validate_schema(self, scene: Scene) -> dict[str, Any]:
        return {"source": self.next("schema", ("billing", "clicks", "sensors"))}

    # -- the same arguments with a planted fault

    def spoil(self, plant: str, args: dict[str, Any]) -> dict[str, Any]:
        """The arguments with the plant's fault in them; a fault of order (`missing_preceding`) leaves them alone."""
        cause = PLANTS[plant]["cause"]
        spoiled = dict(args)
        if cause["kind"] == "missing_argument":
            del spoiled[cause["arg"]]
        elif cause["kind"] in ("value_range", "large_input"):
            spoiled[cause["arg"]] = cause["fails_from"] + self.rng.randint(0, 40) * (
                10 if cause["bound"] > 100 else 1
            )
        elif cause["kind"] == "value":
            spoiled[cause["arg"]] = cause["value"]
        elif plant == "ttl-as-text":
            spoiled["ttl"] = self.rng.choice(("5m", "300s", "1h"))
        elif plant == "name-with-hyphen":
            spoiled["name"] = args["name"].replace("_", "-")
        elif plant == "write-outside":
            spoiled["file_path"] = args["file_path"].replace("/srv/atlas/runbooks/", "/etc/atlas/")
        return spoiled

    def good(self, scene: Scene, tool: str, **changes: Any) -> None:
        """One call that succeeds, with whatever the tool needs before it."""
        args = {**self.args(tool, scene), **changes}
        before = TOOLS[tool].get("preceded_by")
        if before:
            same: dict[str, Any] = {
                key: args[key]
                for key in ("service", "source")
                if key in args and key in TOOLS[before]["args"]
            }
            scene.call(before, {**self.args(before, scene), **same}, self.volatile(passed=True))
            self.glance(scene, chance=0.25)
        scene.call(tool, args, self.result(tool, args))

    def bad(self, scene: Scene, plant: str) -> None:
        """One call that fails for the planted cause."""
        spec = PLANTS[plant]
        args = self.spoil(plant, self.args(spec["tool"], scene))
        timeout = spec["mode"] == "TIMEOUT"
        scene.call(
            spec["tool"],
            args,
            outcome=Outcome.TIMEOUT if timeout else Outcome.FAILURE,
            mode=spec["mode"],
            error=spec["error"],
            duration_ms=30_000.0 if timeout else None,
        )

    def glance(self, scene: Scene, chance: float = 0.5) -> None:
        """A look around that changes nothing, as noise between the calls that matter."""
        if self.rng.random() >= chance:
            return
        crew = {"ops": ("list_services", "check_health", "get_update_status"), "atlas": ("Read", "Bash")}
        tools = crew.get(scene.agent or scene.project or "", ("list_pipelines",))
        tool = self.rng.choice(tools)
        args = self.args(tool, scene) if tool in TOOLS else {}
        scene.call(tool, args, self.result(tool, args))

    def result(self, tool: str, args: dict[str, Any]) -> Any:
        """What the tool answers when it succeeds."""
        if tool in ("list_services", "list_pipelines"):
            return self.volatile(items=list(SERVICES[:3]))
        if tool == "check_health":
            # a success that quotes an error: not a failure
            return self.volatile(health="green", last_error="connection reset by peer (recovered)")
        if tool == "Bash":
            return "nothing to commit, working tree clean" if "status" in args["command"] else "done"
        if tool == "Read":
            return "1\t# Atlas\n2\t\n3\tSee runbooks/."
        if tool == "Write":
            return f"File created successfully at: {args['file_path']}"
        return self.volatile(took_ms=self.rng.randint(20, 800))
