"""`sitoolkit completion SHELL`: goes out the script that completes verbs and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from sitoolkit.cli.common import verb

__all__ = ["completion"]


@verb(
    "completion",
    examples="""
    sitoolkit completion bash > ~/.local/share/bash-completion/completions/sitoolkit
    sitoolkit completion zsh > "${fpath[1]}/_sitoolkit"
    sitoolkit completion fish > ~/.config/fish/completions/sitoolkit.fish
    """,
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL."""
    from sitoolkit.cli import cli

    kind = get_completion_class(shell)
    if kind is None:  # pragma: no cover - click knows these three
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(cli, {}, "sitoolkit", "_SITOOLKIT_COMPLETE").source())
