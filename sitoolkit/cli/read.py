"""`sitoolkit read PATH…`: transcripts come in, a JSON object a session goes out, then a line with the report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from sitoolkit.cli.common import emit, emit_lines, json_option, paths_argument, progress, verb

if TYPE_CHECKING:
    from sitoolkit.records import Session


@verb(
    "read",
    examples="sitoolkit read ~/transcripts\nsitoolkit read run.jsonl --why\nsitoolkit read run.jsonl --format openai-chat\n"
    "sitoolkit read runs/ | jq 'select(.calls) | .calls[] | select(.outcome == \"failure\")'",
)
@paths_argument
@json_option
@click.option(
    "--why", is_flag=True, help="Say for each file which format it is read as, and why; read nothing."
)
@click.option("--format", "format_name", metavar="NAME", help="Read as this format; else the content tells.")
@click.option(
    "--rule-off", multiple=True, metavar="RULE", help="Judge outcomes without this rule (see --rules)."
)
@click.option("--rules", is_flag=True, is_eager=True, expose_value=False, callback=lambda ctx, param, on: _list_rules(ctx) if on else None, help="List the rules that judge outcomes, and stop.")  # fmt: skip
def read(
    paths: tuple[str, ...], as_json: bool, why: bool, format_name: str | None, rule_off: tuple[str, ...]
) -> None:
    """Show the sessions and calls of transcripts, a JSON object a line, and last what could not be read; stores nothing.

    Secrets are removed before anything is printed. Each call says its outcome, the rule that decided it, how it was paired
    with its result, and its file and line.
    """
    from sitoolkit.failures import rules_off
    from sitoolkit.redaction import redact
    from sitoolkit.transcripts import ReadReport, read_sessions

    if why:
        for line in _reasons(paths, format_name):
            emit(
                redact(line),
                as_json,
                lambda told: f"{told['file']}: {told['format'] or 'not read'} ({told['reason']})",
            )
        return
    report = ReadReport()
    with ExitStack() as stack:
        stack.enter_context(rules_off(*rule_off))
        sessions = progress(read_sessions(paths, format=format_name, report=report), "sessions")
        emit_lines(_shown(session) for session in sessions)
    emit_lines([{"report": redact(report.to_json())}])
    if not report.sessions and report.set_aside:
        raise click.exceptions.Exit(1)


def _list_rules(ctx: click.Context) -> None:
    from sitoolkit.failures import RULES

    for rule in RULES:
        click.echo(f"{rule.name:18} {rule.says}")
    ctx.exit()


def _reasons(paths: tuple[str, ...], format_name: str | None) -> Iterator[dict[str, Any]]:
    from sitoolkit.errors import TranscriptError
    from sitoolkit.transcripts.base import TranscriptFile
    from sitoolkit.transcripts.detect import choose, reader_named
    from sitoolkit.transcripts.read import found_in

    for path, folder_reader in found_in(paths):
        told: dict[str, Any] = {"file": str(path), "format": None, "reason": "", "sure": None}
        try:
            if format_name:
                told.update(format=reader_named(format_name).NAME, reason="named by --format")
            elif folder_reader is not None:
                reader, match = folder_reader
                told.update(format=reader.NAME, reason=match.reason, sure=match.score)
            else:
                reader, match = choose(TranscriptFile(path))
                told.update(format=reader.NAME, reason=match.reason, sure=match.score)
        except TranscriptError as fault:
            told["reason"] = fault.reason
        yield told


def _shown(session: Session) -> dict[str, Any]:
    """A session as it is printed: without secrets, its calls beside its turns."""
    from sitoolkit.redaction import redact, seal

    shown: dict[str, Any] = seal(session).session.model_dump(mode="json")
    calls = [call for turn in shown["turns"] for call in turn.pop("calls")]
    shown["calls"] = sorted(calls, key=lambda call: call["seq"])
    for key in ("id", "agent", "project", "model", "parent_id"):
        shown[key] = redact(shown[key])
    return shown
