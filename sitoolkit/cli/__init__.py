"""The command line: `sitoolkit VERB …`; each verb's module is loaded when it is called.

Comes in: `sys.argv`. Goes out: text or JSON on standard output and an exit code of the contract.
"""

from __future__ import annotations

import difflib
import os
import signal
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import click

from sitoolkit._version import __version__
from sitoolkit.cli.common import explain_error, note

__all__ = ["COMMANDS", "cli", "main"]

# verb -> (module below sitoolkit.cli that holds the click command of that name, what `sitoolkit --help` says, stage)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "read": ("read", "Show the sessions and calls of transcripts; stores nothing.", "in"),
    "capture": ("capture", "Take transcripts in: telemetry, and a memory for each call that changed something.", "in"),
    "guides": ("guides", "Directives from *.guide.yaml: import, list, show, remove.", "in"),
    "distill": ("distill", "Find what captured events have in common.", "learn"),
    "friction": ("friction", "Find tools that fail again and again within a session.", "learn"),
    "signatures": ("signatures", "Group error messages of telemetry and logs, and count them.", "learn"),
    "lessons": ("lessons", "Turn failures into lessons that expire.", "learn"),
    "reflect": ("reflect", "Say what worked and failed in sessions, each statement with its evidence.", "learn"),
    "triage": ("triage", "Sort error signatures into guide drafts and code findings.", "learn"),
    "corrections": ("corrections", "Find the turns in which a user corrects the agent.", "learn"),
    "decay": ("decay", "Plan and apply what is demoted, expired, retired or promoted.", "learn"),
    "recall": ("recall", "What a reader's prompt gets for a question.", "out"),
    "explain": ("recall", "Why a recall gave what it gave.", "out"),
    "who-saw": ("recall", "Which recalls served a memory.", "out"),
    "maintenance": ("maintenance", "Propose changes from repeated failures, and review them one by one.", "decide"),
    "review": ("review", "List, show, approve, reject, defer and undo proposals.", "decide"),
    "tools": ("tools", "The tool library: list, show, run, history.", "decide"),
    "memory": ("memory", "Look at memories, compare runs, undo one, export, re-embed.", "keep"),
    "sql": ("sql", "Query calls, sessions, memories, recalls, decisions and runs.", "keep"),
    "doctor": ("doctor", "Check the workspace, its stores and models.", "keep"),
    "run": ("run", "Run one notebook headless, with checked parameters.", "night"),
    "nightly": ("nightly", "Run the loop's notebooks in order and write the report.", "night"),
    "runs": ("run", "List, show, prune and check runs.", "night"),
    "schedule": ("schedule", "Print a cron line, a systemd timer or an Airflow task; installs nothing.", "night"),
    "demo": ("demo", "The whole loop on the shipped transcripts, in a new workspace.", "start"),
    "notebooks": ("notebooks", "Copy the notebooks to a folder of yours.", "start"),
    "completion": ("completion", "Print the completion script of a shell.", "start"),
}  # fmt: skip

_STAGES = {
    "start": "Start here",
    "in": "Take in",
    "learn": "Learn",
    "out": "Recall",
    "decide": "Decide",
    "keep": "Keep",
    "night": "Run at night",
}

_EPILOG = """\
Examples:
  sitoolkit demo                                  the whole loop on shipped transcripts
  sitoolkit capture ~/transcripts                 your own; the format is detected
  sitoolkit distill                               what the events have in common
  sitoolkit recall "how do I register a service" --agent ops
  sitoolkit nightly                               all of it, headless, with a report

Every list or report takes --json. Exit codes: 0 done, 1 failed, 2 usage, 3 locked, 4 no model server, 124 deadline,
130 and 143 stopped.
"""


class Toolkit(click.Group):
    """The top group: knows its verbs without loading them, and turns errors into exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            near = difflib.get_close_matches(cmd_name, COMMANDS, 1)
            hint = f" Did you mean `sitoolkit {near[0]}`?" if near else " `sitoolkit --help` lists them."
            raise click.UsageError(f"no command {cmd_name!r}.{hint}", ctx)
        module_name = f"sitoolkit.cli.{entry[0]}"
        if find_spec(module_name) is None:
            raise click.UsageError(f"`sitoolkit {cmd_name}` is not in this version.", ctx)
        return _command_in(import_module(module_name), cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for stage, title in _STAGES.items():
            rows = [(verb, text) for verb, (_, text, where) in COMMANDS.items() if where == stage]
            with formatter.section(title):
                formatter.write_dl(rows, col_max=14)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write("\n" + _EPILOG)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            _leave_quietly()
            raise click.exceptions.Exit(0) from None
        except (Exception, KeyboardInterrupt) as error:
            if ctx.params.get("debug"):
                raise
            text, code = explain_error(error)
            note(f"sitoolkit {ctx.invoked_subcommand or ''}: {text}")
            raise click.exceptions.Exit(code) from error


def _command_in(module: Any, name: str) -> click.Command:
    for value in vars(module).values():
        if isinstance(value, click.Command) and value.name == name:
            return value
    raise click.UsageError(f"`sitoolkit {name}` is not in this version.")


@click.command(
    cls=Toolkit, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, prog_name="sitoolkit")
@click.option("-v", "--verbose", is_flag=True, help="Say on standard error what is being done.")
@click.option("--debug", is_flag=True, help="Show the trace of an unexpected error.")
@click.pass_context
def cli(ctx: click.Context, verbose: bool, debug: bool) -> None:
    """Notes for agents, kept from their own transcripts, with the evidence beside every claim.

    Transcripts of an agent's tool calls go in; memories that steer the next run come out; you see the evidence and decide.
    """
    import logging

    if "NO_COLOR" in os.environ:
        ctx.color = False
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if verbose else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("sitoolkit").setLevel(logging.INFO if verbose else logging.WARNING)


def _terminated(signum: int, frame: object) -> NoReturn:
    note("sitoolkit: stopped by SIGTERM; what was acknowledged is kept, run the same command again to go on")
    raise SystemExit(143)


def _open_closed_streams() -> None:
    """A standard stream that the caller closed is `None` in Python; what goes there goes nowhere, what comes is empty."""
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - lives as long as the process
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - lives as long as the process
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - lives as long as the process


def _leave_quietly() -> None:
    """The reader (`| head`) has what it wanted; Python would complain again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> NoReturn:
    """Entry point of the `sitoolkit` script."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")  # a terminal without UTF-8 gets escapes, not a crash
    signal.signal(signal.SIGTERM, _terminated)
    try:
        code = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        note("sitoolkit: stopped by Ctrl+C")
        code = 130
    except BrokenPipeError:
        _leave_quietly()
        code = 0
    raise SystemExit(code if isinstance(code, int) else 0)
