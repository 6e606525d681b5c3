"""`corrections`: transcripts come in, the turns in which a user corrected the agent go out, and with `--learn` the facts they state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sitoolkit.cli.common import emit_lines, json_option, note, verb, with_workspace

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["corrections"]


@verb(
    "corrections",
    examples="""
    sitoolkit corrections transcripts/
    sitoolkit corrections transcripts/ --learn
    sitoolkit corrections
    """,
)
@with_workspace
@json_option
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--format", "format", metavar="NAME", help="Read every file as this format.")
@click.option("--learn", is_flag=True, help="Keep the signals, and write the facts they state.")
def corrections(
    ws: Workspace, as_json: bool, paths: tuple[str, ...], format: str | None, learn: bool
) -> None:
    """Find the turns in which a user corrects the agent, one JSON object a line.

    Without PATH, shows those that the workspace holds. What is printed is redacted.
    """
    del as_json  # lines of JSON are what this command prints either way
    if not paths:
        emit_lines(
            ws.sql(
                "select id, session_id, turn, kind, confidence, text, target, evidence, wanted, unwanted, rule, source_file, source_line "
                "from signals order by happened_at nulls last, session_id, turn, kind"
            ).to_dicts()
        )
        return
    from sitoolkit.loops.correction_signals import without_recalled
    from sitoolkit.loops.corrections import detect_corrections, learn_facts
    from sitoolkit.redaction import seal
    from sitoolkit.transcripts import read_sessions

    if learn:
        report = learn_facts(ws, read_sessions(list(paths), format=format))
        facts = report.facts
        note(
            f"{report.signals} corrections in {report.sessions} sessions; facts: {facts['written']} written, {facts['repeated']} again, "
            f"{facts['superseded']} superseded, {len(report.proposals)} pairs for a person"
        )
    for session in read_sessions(list(paths), format=format):
        sealed = seal(without_recalled(session), ws.redactor).session
        emit_lines(signal.to_json() for signal in detect_corrections(sealed))
