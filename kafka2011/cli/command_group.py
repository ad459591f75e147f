"""Groups of commands: which one is meant where none is named, misspelt, or stands after an option of its own."""

from __future__ import annotations

import difflib
from typing import Any

import click

_ZOOKEEPER = "--zookeeper"


class CommandGroup(click.Group):
    """A group that suggests what a misspelt command may mean, and passes --zookeeper on to the command after it.

    `default` is the command that is meant where the arguments begin with an option, or where there are none.
    """

    def __init__(self, *args: Any, default: str | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put options where they are read, and the default command where none is named."""
        names = self.list_commands(ctx)
        args = _zookeeper_after(names, list(args))
        if self.default is not None and self.is_default(ctx, args):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def is_default(self, ctx: click.Context, args: list[str]) -> bool:
        """Whether the default command is meant."""
        return not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Raises UsageError, with the name that was meant perhaps."""
        names = self.list_commands(ctx)
        if not ctx.resilient_parsing and args[0] not in names and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], names, n=1, cutoff=0.5)
            hint = f": did you mean '{near[0]}'?" if near else ""
            raise click.UsageError(f"No such command '{args[0]}'{hint}", ctx)
        return super().resolve_command(ctx, args)


def _zookeeper_after(names: list[str], args: list[str]) -> list[str]:
    """Move --zookeeper from before a command to after its name."""
    moved: list[str] = []
    kept: list[str] = []
    rest = args
    while rest and rest[0].startswith("-"):
        option, equals, _ = rest[0].partition("=")
        size = 1 if equals or option != _ZOOKEEPER else 2
        (moved if option == _ZOOKEEPER else kept).extend(rest[:size])
        rest = rest[size:]
    if not moved or not rest or rest[0] not in names:
        return args
    return [*kept, rest[0], *moved, *rest[1:]]
