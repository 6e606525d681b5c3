"""`sitoolkit triage`: the signatures of a window come in; lessons, guide drafts and code findings go out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sitoolkit.cli.common import emit, json_option, verb, with_workspace

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["triage"]


@verb(
    "triage",
    examples="sitoolkit triage\nsitoolkit triage --logs /var/log/app --hours 24 --json\nsitoolkit triage --dry-run",
)
@with_workspace
@json_option
@click.option("--logs", multiple=True, metavar="PATH", help="A log file, folder or glob; may be given again.")
@click.option("--hours", type=click.FloatRange(0, min_open=True), help="Length of the window (24).")
@click.option(
    "--tier", type=click.Choice(["small", "medium", "large"]), help="Look at 15, 30 or 60 signatures."
)
@click.option("--dry-run", is_flag=True, help="Say which lane each would go to; write and propose nothing.")
def triage(
    ws: Workspace, as_json: bool, logs: tuple[str, ...], hours: float | None, tier: str | None, dry_run: bool
) -> None:
    """Sort error signatures into guide drafts and code findings.

    Each signature goes to one lane: a lesson that a contrast explains, a guide draft for a person, or a finding for who
    owns the code. What a living lesson or guide covers is marked. Nothing is edited and nothing is run.
    """
    from sitoolkit.loops.triage import triage_signatures

    emit(triage_signatures(ws, logs=list(logs), hours=hours, tier=tier, dry_run=dry_run), as_json, _text)


def _text(report: Any) -> str:
    lines = []
    for name, lane in (
        ("lesson", report.kb_lane),
        ("guide draft", report.guide_drafts),
        ("code", report.code_lane),
    ):
        lines += [f"{name:<12} {one.count:>6}  {one.title}\n{'':21}{one.text}" for one in lane]
    lines += [
        f"{'covered':<12} {one.count:>6}  {one.signature[:120]}  by {one.covered_by}"
        for one in report.covered_by
    ]
    return "\n".join(
        [
            *lines,
            f"{report.shown} signatures: {report.covered} covered, {len(report.kb_lane)} lessons, "
            f"{len(report.guide_drafts)} guide drafts, {len(report.code_lane)} code findings",
        ]
    )
