"""`sitoolkit demo`: shipped transcripts come in, what the loop learned from them goes out, and where the report lies."""

from __future__ import annotations

import time
from pathlib import Path

import click

from sitoolkit.cli.common import emit, json_option, note, verb


@verb("demo", examples="sitoolkit demo\nsitoolkit demo --workspace /tmp/demo --json")
@click.option(
    "--workspace",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where to learn; a new folder demo-workspace by default.",
)
@json_option
def demo(workspace: Path | None, as_json: bool) -> None:
    """Run the whole loop on the shipped transcripts: capture, distil, learn from failures and corrections, recall.

    No server and no network is needed. The workspace stays, so that everything can be looked at afterwards.
    """
    from sitoolkit.demo import demo_steps
    from sitoolkit.workspace import Workspace

    folder = workspace or _unused(Path("demo-workspace"))
    started = time.monotonic()
    ws = Workspace(folder)
    steps = []
    for step in demo_steps(ws):
        steps.append(step)
        if not as_json:
            click.secho(f"\n{step.title}", bold=True, nl=False)
            click.secho(f"  sitoolkit {step.verb}  ({step.seconds:.1f} s)", dim=True)
            emit(step, False, "\n".join(f"  {line}" if line else "" for line in step.lines))
    seconds = round(time.monotonic() - started, 1)
    if as_json:
        emit({"workspace": str(ws.path), "seconds": seconds, "steps": steps}, True)
        return
    report = next((step.result["path"] for step in steps if step.verb == "report"), None)
    click.echo(f"\nDone in {seconds} s. Workspace: {ws.path}")
    if report:
        click.echo(f"Report: {report}")
    note(
        f"Next: sitoolkit recall 'your question' --agent ops --workspace {folder}, or open the report in a browser."
    )


def _unused(folder: Path) -> Path:
    """The folder, or the same name with a number where it exists already."""
    number = 1
    chosen = folder
    while chosen.exists():
        number += 1
        chosen = folder.with_name(f"{folder.name}-{number}")
    return chosen
