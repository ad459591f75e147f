"""The command line: one command for each benchmark."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import click

from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "clients": "paper_benchmarks.clients.command",
    "events": "paper_benchmarks.events",
    "load": "paper_benchmarks.load",
    "mirror": "paper_benchmarks.mirror.command",
}
"""Where each command is, in a variable `command`."""

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
_OPTIONAL_PACKAGES = {"psutil"}


class BenchmarkGroup(click.Group):
    """Imports a benchmark when it is called: each may need packages that the others do without."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all benchmarks."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one; None when there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        try:
            command = importlib.import_module(COMMANDS[cmd_name]).command
        except ModuleNotFoundError as error:
            if error.name not in _OPTIONAL_PACKAGES:
                raise
            raise click.ClickException(f"{error.name} is missing: pip install -e '.[bench]'") from error
        assert isinstance(command, click.Command)
        return command


@click.group(cls=BenchmarkGroup, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Measure kafka2011."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark and return its exit status; what fails is one line on standard error."""
    try:
        result = cli.main(args=arguments, prog_name="paper_benchmarks", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    except (KafkaError, OSError) as error:
        click.echo(f"paper_benchmarks: error: {error}", err=True)
        return EXIT_FAILED
    return result if isinstance(result, int) else 0
