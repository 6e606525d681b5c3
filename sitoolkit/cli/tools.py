"""`tools list|show|run|history|build|metrics`: the library of tools that were built from failures."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from sitoolkit.cli.common import JSON, emit, group, json_option, with_workspace
from sitoolkit.sandbox import HostFailure

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["tools"]

tools = group(
    "tools",
    help="Tools that were built from recorded failures: what they do, whether they may run, how they did.",
    examples="sitoolkit tools list\nsitoolkit tools show bash_in_background\nsitoolkit tools history bash_in_background",
)


@tools.command("list", examples="sitoolkit tools list\nsitoolkit tools list --json")
@with_workspace
@json_option
def list_tools(ws: Workspace, as_json: bool) -> None:
    """List the tools with their status."""
    found = [{**tool.to_json(), "uses": len(ws.tools.uses(tool.name))} for tool in ws.tools.list()]
    lines = [
        f"{tool['name']:<32} {tool['status']:<13} v{tool['version']}  {tool['uses']} uses  {tool['description']}"
        for tool in found
    ]
    emit(
        found,
        as_json,
        "\n".join(lines) or "no tools yet; `sitoolkit friction --build` builds some from recorded failures",
    )


@tools.command("show", examples="sitoolkit tools show bash_in_background --json")
@with_workspace
@json_option
@click.argument("name")
def show_tool(ws: Workspace, as_json: bool, name: str) -> None:
    """Show a tool: manifest, code, acceptance tests."""
    tool = ws.tools.get(name)
    value = {**tool.to_json(), "source": ws.tools.source(name), "tests": ws.tools.tests(name)}
    text = (
        f"{tool.name} v{tool.version} ({tool.status}) by {tool.author}\n{tool.description}\n"
        f"stands in front of {tool.wraps or '-'}, for {tool.failure_mode or '-'}; {len(value['tests'])} acceptance tests\n\n{value['source']}"
    )
    emit(value, as_json, text)


@tools.command("history", examples="sitoolkit tools history bash_in_background")
@with_workspace
@json_option
@click.argument("name")
def tool_history(ws: Workspace, as_json: bool, name: str) -> None:
    """Show every change of a tool's status, and how its uses ended."""
    value = {"history": ws.tools.history(name), "uses": [use.to_json() for use in ws.tools.uses(name)]}
    lines = [
        f"{entry['at']}  v{entry['version']} {entry['status']:<13} by {entry['by']}: {entry['reason']}"
        for entry in value["history"]
    ]
    lines += [
        f"{use['at']}  v{use['version']} used: {use['outcome']} {use['detail']}".rstrip()
        for use in value["uses"]
    ]
    emit(value, as_json, "\n".join(lines))


@tools.command(
    "run",
    examples='sitoolkit tools run bash_in_background --args \'{"arguments": {"command": "make"}}\' --call-with ./my-tool-server',
)
@with_workspace
@json_option
@click.argument("name")
@click.option(
    "--args",
    "arguments",
    type=JSON,
    default="{}",
    metavar="JSON",
    help="The tool's arguments, a JSON object.",
)
@click.option(
    "--call-with",
    metavar="COMMAND",
    help='A program that makes the calls the tool asks for: it gets {"tool", "args"} as JSON on standard input and prints the result as JSON; '
    "an exit code above 0 is a failed call.",
)
def run_tool(ws: Workspace, as_json: bool, name: str, arguments: Any, call_with: str | None) -> None:
    """Run a tool once, in a fresh confined process; its use is written down."""
    value = ws.tools.run(name, arguments, host=CommandHost(call_with) if call_with else None)
    emit(value, as_json, json.dumps(value, indent=2, ensure_ascii=False))


@tools.command("build", examples="sitoolkit tools build\nsitoolkit tools build --most 3 --json")
@with_workspace
@json_option
@click.option("--most", type=click.IntRange(1), default=20, show_default=True, help="Builds in this run.")
def build_tools(ws: Workspace, as_json: bool, most: int) -> None:
    """Build for the friction that was fired and has no tool yet."""
    from sitoolkit.cli.friction import builds_text
    from sitoolkit.loops.toolsmith import build_waiting

    emit(build_waiting(ws, most=most), as_json, builds_text)


@tools.command("metrics", examples="sitoolkit tools metrics --json")
@with_workspace
@json_option
def show_metrics(ws: Workspace, as_json: bool) -> None:
    """Show builds, refusals with reasons, uses and regressions by tool and failure mode."""
    from sitoolkit.loops.tool_metrics import tool_metrics

    rows = tool_metrics(ws).to_dicts()
    lines = [
        f"{row['tool']}  {row['failure_mode']}  fired in {row['sessions']} sessions, {row['builds']} builds: "
        + (
            f"{row['built']} ({row['status']}), {row['uses']} uses, {row['regressions']} regressions"
            if row["built"]
            else f"{row['reason'] or 'not tried yet'}"
        )
        for row in rows
    ]
    emit(rows, as_json, "\n".join(lines) or "no friction was fired yet; `sitoolkit friction` looks for some")


class CommandHost:
    """Makes a tool's calls by a program; background calls are made at once and kept."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._done: dict[str, Any] = {}

    def serve(self, request: Mapping[str, Any]) -> Any:
        """Answer one request of a tool."""
        operation = request["op"]
        if operation == "sleep":
            import time

            time.sleep(min(float(request["seconds"]), 60.0))
            return None
        if operation == "call":
            return self._call(request)
        if operation == "start":
            handle = f"h{len(self._done) + 1}"
            try:
                self._done[handle] = {"done": True, "result": self._call(request)}
            except HostFailure as fault:
                self._done[handle] = {"done": True, "error": {"message": str(fault), "mode": fault.mode}}
            return handle
        return self._done.get(
            str(request.get("handle")),
            {"done": True, "error": {"message": "no such call", "mode": "NOTFOUND"}},
        )

    def _call(self, request: Mapping[str, Any]) -> Any:
        sent = json.dumps({"tool": request["tool"], "args": request["args"]})
        done = subprocess.run(
            self._command, shell=True, input=sent, capture_output=True, text=True, check=False
        )
        try:
            result = json.loads(done.stdout) if done.stdout.strip() else None
        except ValueError:
            result = done.stdout
        if done.returncode != 0:
            from sitoolkit.failures import classify_failure

            text = done.stderr or done.stdout
            raise HostFailure(text[:500], str(classify_failure(text) or "RUNTIME"), result)
        return result
