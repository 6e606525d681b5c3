"""`sitoolkit distill`: captured events come in, patterns with their claims go out."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from sitoolkit.cli.common import SCOPE, TIME, emit, json_option, verb, with_workspace

if TYPE_CHECKING:
    from sitoolkit.loops.distill import DistillReport
    from sitoolkit.workspace import Workspace


@verb(
    "distill",
    examples="sitoolkit distill\nsitoolkit distill --scope agent:ops --min-samples 8\nsitoolkit distill --dry-run --json",
)
@with_workspace
@json_option
@click.option("--scope", type=SCOPE, help="Only events of this scope.")
@click.option("--min-samples", type=click.IntRange(min=2), help="Distinct calls a tool needs; 5 by default.")
@click.option(
    "--window-days",
    type=click.FloatRange(min=0, min_open=True),
    help="How far the window reaches back; 30 by default.",
)
@click.option("--as-of", type=TIME, help="End of the window; else the newest event of each scope.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
def distill(
    ws: Workspace,
    as_json: bool,
    scope: str | None,
    min_samples: int | None,
    window_days: float | None,
    as_of: datetime | None,
    dry_run: bool,
) -> None:
    """Find what captured events have in common, and keep it as patterns with the evidence beside each claim."""
    from sitoolkit.loops.distill import distill_patterns

    report = distill_patterns(
        ws, scope=scope, min_samples=min_samples, window_days=window_days, as_of=as_of, dry_run=dry_run
    )
    emit(report, as_json, _told)


def _told(report: DistillReport) -> str:
    lines = []
    for pattern in report.patterns:
        lines.append(
            f"{pattern.tool}  [{pattern.scope}]  confidence {pattern.confidence:.2f}  {pattern.result}"
        )
        lines.append(f"  {pattern.note}")
        lines += [f"  - {claim.text}  ({claim.support} of {claim.of})" for claim in pattern.claims]
        lines.append("")
    lines += [f"note: {note}" for note in report.notes]
    lines.append(
        f"{report.groups_seen} groups, {report.groups_processed} with enough calls ({report.skipped_low_samples} without); "
        f"patterns: {report.patterns_written} written, {report.patterns_superseded} replaced, {report.patterns_unchanged} unchanged"
        + (" (dry run: nothing written)" if report.dry_run else "")
    )
    return "\n".join(lines)
