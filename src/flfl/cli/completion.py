"""``flfl completion``: what a shell needs to complete verbs, options and methods."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete verbs, options and methods.

    \b
    Example:
      flfl completion bash > ~/.flfl-completion.bash
      echo 'source ~/.flfl-completion.bash' >> ~/.bashrc
      flfl completion fish > ~/.config/fish/completions/flfl.fish
    """
    script = get_completion_class(shell)
    assert script is not None, "click knows these three shells"
    click.echo(script(ctx.find_root().command, {}, "flfl", "_FLFL_COMPLETE").source())
