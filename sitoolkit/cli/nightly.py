"""`sitoolkit nightly`: comes in transcripts and the workspace's settings, goes out the night's manifest and its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sitoolkit.cli.common import NAME_VALUE, json_option, verb, with_workspace
from sitoolkit.cli.run import end_with

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["nightly"]


@verb(
    "nightly",
    examples="""
    sitoolkit nightly ~/transcripts
    sitoolkit nightly --deadline 3600 --json
    sitoolkit nightly -p min_samples=3 --notebook 01_capture_replay --notebook 02_pattern_distillation
    sitoolkit schedule print --kind cron
    """,
)
@click.argument("sources", nargs=-1, metavar="[PATH]...")
@with_workspace
@click.option(
    "--notebook", "notebooks", multiple=True, help="Only these, in this order; else those of the settings."
)
@click.option(
    "-p",
    "given",
    type=NAME_VALUE,
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter, for each notebook that knows it.",
)
@click.option(
    "--deadline",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop the night after this; else the setting.",
)
@click.option(
    "--force", is_flag=True, help="Run notebooks even when nothing has changed since they last ended well."
)
@json_option
def nightly(
    sources: tuple[str, ...],
    ws: Workspace,
    notebooks: tuple[str, ...],
    given: tuple[tuple[str, str], ...],
    deadline: float | None,
    force: bool,
    as_json: bool,
) -> None:
    """Take in, learn, plan decay, check that what was written is recalled, and write the report.

    PATHs are transcripts; without any, those of `[nightly] sources` in sitoolkit.toml. A second night on the same inputs changes nothing.
    """
    from sitoolkit.nightly import run_nightly

    end_with(
        run_nightly(
            ws, sources, notebooks=notebooks, parameters=dict(given), deadline_s=deadline, force=force
        ),
        as_json,
    )
