"""`kafka2011 completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from kafka2011.cli.options import examples

_VARIABLE = "_KAFKA2011_COMPLETE"


@click.command(
    "completion",
    epilog=examples(
        "kafka2011 completion bash >> ~/.bashrc",
        "kafka2011 completion zsh > ~/.zfunc/_kafka2011",
        "kafka2011 completion fish > ~/.config/fish/completions/kafka2011.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a script that completes commands and options in your shell.

    Add it to ~/.bashrc for bash; save it as a completion file for zsh and fish.
    """
    completion = get_completion_class(shell)
    assert completion is not None
    root = context.find_root()
    click.echo(completion(root.command, {}, root.info_name or "", _VARIABLE).source())
