"""What every command shares: options, opened workspaces, output, and the way from an error to an exit code.

Comes in: the words of the command line. Goes out: one JSON value or plain text on standard output, the rest on standard
error. A command module holds no logic. The recipe, in a file `cli/<area>.py` that `cli.COMMANDS` names:

    import click
    from sitoolkit.cli.common import emit, json_option, verb, with_workspace

    @verb("distill", examples="sitoolkit distill --scope agent:ops\\nsitoolkit distill --dry-run --json")
    @with_workspace                                  # adds --workspace; the function gets an opened `ws`
    @json_option                                     # adds --json; the function gets `as_json`
    @click.option("--scope", type=SCOPE, help="Only this scope.")
    def distill(ws, as_json, scope):
        '''Find what the captured events have in common.'''
        from sitoolkit.loops.distill import distill_patterns      # heavy imports stand inside

        report = distill_patterns(ws, scope=scope)
        emit(report, as_json, lambda r: f"{r.patterns_written} patterns written")

A command with sub-commands: `guides = group("guides", help=…)`, then `@guides.command("list", examples=…)`. Readers: `@reader_options`
gives `reader`. Types: SCOPE, TIME, JSON, NAME_VALUE. One object a line: `emit_lines`. Progress: `for x in progress(xs, "reading")`; a remark:
`note("…")`. Raise a SitoolkitError and the command ends with its exit code and message; raise nothing else on purpose. Return nothing.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sitoolkit.errors import ScopeError, SitoolkitError, TimeError
from sitoolkit.plain import as_plain
from sitoolkit.records import Reader, Scope, parse_time

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = [
    "JSON",
    "NAME_VALUE",
    "SCOPE",
    "TIME",
    "Verb",
    "VerbGroup",
    "as_plain",
    "emit",
    "emit_lines",
    "fail",
    "group",
    "json_option",
    "json_text",
    "note",
    "paths_argument",
    "progress",
    "reader_options",
    "verb",
    "with_workspace",
]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

# ---------------------------------------------------------------- commands whose help shows examples


def _write_examples(formatter: click.HelpFormatter, examples: str) -> None:
    lines = [line.strip() for line in examples.strip().splitlines() if line.strip()]
    if lines:
        with formatter.section("Examples"):
            for line in lines:
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class Verb(click.Command):
    """A command whose help ends with examples that can be pasted."""

    examples: str = ""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(formatter, self.examples)
        super().format_epilog(ctx, formatter)


class VerbGroup(click.Group):
    """A command with sub-commands, each of them a `Verb`."""

    command_class = Verb
    group_class = type
    examples: str = ""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(formatter, self.examples)
        super().format_epilog(ctx, formatter)

    def command(  # type: ignore[override]
        self, *args: Any, examples: str = "", **kwargs: Any
    ) -> Callable[[Callable[..., Any]], click.Command]:
        """As `click.Group.command`, with examples for the help."""
        decorate = super().command(*args, **kwargs)

        def with_examples(function: Callable[..., Any]) -> click.Command:
            made: click.Command = decorate(function)
            if isinstance(made, Verb):
                made.examples = examples
            return made

        return with_examples


def verb(name: str, *, examples: str = "", **kwargs: Any) -> Callable[[Callable[..., Any]], Verb]:
    """Make a function a command; `examples` are lines shown at the end of its help."""

    def decorate(function: Callable[..., Any]) -> Verb:
        made = click.command(name, cls=Verb, **kwargs)(function)
        made.examples = examples
        return made

    return decorate


def group(name: str, *, help: str, examples: str = "", **kwargs: Any) -> VerbGroup:
    """A command that only holds sub-commands."""
    made = VerbGroup(name, help=help, no_args_is_help=True, **kwargs)
    made.examples = examples
    return made


# ---------------------------------------------------------------- options


def with_workspace(function: F) -> F:
    """Add `--workspace`; the function gets `ws`, opened (and made at first use) after all other options were read."""

    @click.option(
        "--workspace",
        type=click.Path(file_okay=False),
        default=None,
        metavar="DIR",
        help="The workspace folder; else SITOOLKIT_HOME, else .sitoolkit here.",
    )
    @functools.wraps(function)
    def wrapped(*args: Any, workspace: str | None, **kwargs: Any) -> Any:
        from sitoolkit.workspace import Workspace

        ws: Workspace = Workspace(workspace)
        try:
            return function(*args, ws=ws, **kwargs)
        finally:
            close = getattr(ws, "close", None)
            if callable(close):
                close()

    return wrapped  # type: ignore[return-value]


def json_option(function: F) -> F:
    """Add `--json`; the function gets `as_json`."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON value on standard output and nothing else."
    )(function)


def reader_options(function: F) -> F:
    """Add `--agent --project --team --org`; the function gets `reader`, which sees `global` and what was named."""

    @click.option("--agent", metavar="NAME", help="Read as this agent.")
    @click.option("--project", metavar="NAME", help="Read as a member of this project.")
    @click.option("--team", metavar="NAME", help="Read as a member of this team.")
    @click.option("--org", metavar="NAME", help="Read as a member of this organisation.")
    @functools.wraps(function)
    def wrapped(
        *args: Any, agent: str | None, project: str | None, team: str | None, org: str | None, **kwargs: Any
    ) -> Any:
        return function(*args, reader=Reader(agent=agent, project=project, team=team, org=org), **kwargs)

    return wrapped  # type: ignore[return-value]


def paths_argument(function: F) -> F:
    """Add `PATH…` (files, folders, globs); the function gets `paths`, a tuple of texts."""
    return click.argument("paths", nargs=-1, required=True, metavar="PATH...")(function)


if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # generic since click 8.2 alone


class _Converted(_ParamType):
    """A type of a word of the command line, read by a function that raises ValueError."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except (ScopeError, TimeError, ValueError) as fault:
            self.fail(str(fault), param, ctx)


def _name_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value


def _time(text: str) -> Any:
    # A date alone means its first instant in UTC: the command line says so in the help of each option.
    return parse_time(text, naive_is_utc=len(text.strip()) == 10)


SCOPE = _Converted("scope", Scope)
TIME = _Converted("time", _time)
JSON = _Converted("json", json.loads)
NAME_VALUE = _Converted("name=value", _name_value)

# ---------------------------------------------------------------- output


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON for standard output: readable where the terminal takes UTF-8, ASCII escapes where it does not."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    text = json.dumps(
        as_plain(value), ensure_ascii=encoding != "utf8", indent=indent, allow_nan=False, default=str
    )
    # A lone surrogate has no UTF-8 bytes; its JSON escape keeps it.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def emit(value: Any, as_json: bool, human: Callable[[Any], str] | str | None = None) -> None:
    """Print a result: with `as_json` one JSON value, else the text that `human` makes of it."""
    if as_json:
        click.echo(json_text(value, indent=2))
        return
    text = human(value) if callable(human) else human if human is not None else str(value)
    if text:
        click.echo(_printable(text))


def emit_lines(values: Iterable[Any]) -> None:
    """Print one JSON object a line, as they come."""
    for value in values:
        click.echo(json_text(value))


def _printable(text: str) -> str:
    """Text of transcripts may carry control characters that drive a terminal; they are shown, not sent."""
    if text.isprintable():
        return text
    return "".join(
        character if character in "\n\t" or character.isprintable() else _escape(character)
        for character in text
    )


def _escape(character: str) -> str:
    return f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{ord(character):04x}"


def note(text: str) -> None:
    """A remark for the person, on standard error."""
    click.echo(_printable(text), err=True)


def fail(message: str, *, exit_code: int = 1) -> None:
    """End the command with a message and an exit code that no SitoolkitError carries."""
    note(f"sitoolkit: {message}")
    raise click.exceptions.Exit(exit_code)


def progress(items: Iterable[T], label: str, *, total: int | None = None) -> Iterator[T]:
    """Pass the items on; a bar on standard error while a person watches, nothing otherwise."""
    if not sys.stderr.isatty() or os.environ.get("NO_COLOR") is not None or os.environ.get("TERM") == "dumb":
        yield from items
        return
    from tqdm import tqdm

    yield from tqdm(items, desc=label, total=total, file=sys.stderr, leave=False, mininterval=0.2)


def _is_interrupt(error: BaseException) -> bool:
    """Ctrl+C, also where native code caught it and raised its own: DuckDB says `Query interrupted`."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, KeyboardInterrupt) or str(seen) == "Query interrupted":
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def explain_error(error: BaseException) -> tuple[str, int]:
    """What to print for an error, and the exit code that the contract gives it."""
    if _is_interrupt(error):
        return "stopped by Ctrl+C; what was acknowledged is kept, run the same command again to go on", 130
    if isinstance(error, SitoolkitError):
        return str(error), error.exit_code
    if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
        where = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror or error}{where}; free space or rights there, or pass --workspace DIR", 1
    return (
        f"unexpected {type(error).__name__}: {error}; this is a fault of sitoolkit, "
        "run again as `sitoolkit --debug …` for the trace",
        1,
    )
