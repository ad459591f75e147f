"""`kafka2011 groups`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafka2011.admin.groups import Groups
from kafka2011.cli.options import parse_time_ms, zookeeper_option
from kafka2011.cli.output import json_option, show_table
from kafka2011.cli.stopping import stop_signals
from kafka2011.errors import KafkaError
from zk.connecting import connect

if TYPE_CHECKING:
    from kafka2011.admin.groups import GroupPartition

WATCH_INTERVAL_S = 2.0


@click.group("groups", invoke_without_command=True)
@click.option("--group", help="One group only.")
@click.option("--verify", is_flag=True, help="Fail unless every partition has exactly one living owner.")
@click.option("--watch", is_flag=True, help="Show it again and again, until Ctrl-C.")
@zookeeper_option
@json_option
@click.pass_context
def command(
    context: click.Context, group: str | None, verify: bool, watch: bool, zk_connect: str, as_json: bool
) -> None:
    """Show consumer groups: owner, committed offset, end and lag of every partition.

    The lag is in bytes of the log, since offsets are byte positions.
    """
    if context.invoked_subcommand is not None:
        return
    with connect(zk_connect) as client, stop_signals() as stop:
        groups = Groups(client)
        while True:
            names = [group] if group is not None else groups.names()
            rows = [_row(name, partition) for name in names for partition in groups.describe(name)]
            if watch and not as_json:
                click.clear()
            show_table(("group", "partition", "owner", "committed", "end", "lag_bytes"), rows, as_json=as_json)
            if verify:
                _verify(groups, names)
            if not watch or stop.wait(WATCH_INTERVAL_S):
                return


def _row(group: str, found: GroupPartition) -> tuple[object, ...]:
    return (group, str(found.where), found.owner, found.committed, found.end, found.lag_bytes)


def _verify(groups: Groups, names: list[str]) -> None:
    problems = [problem for name in names for problem in groups.problems(name)]
    if problems:
        raise KafkaError(f"{len(problems)} problems: " + "; ".join(problems))


def _read_target(_context: click.Context, _parameter: click.Parameter, text: str) -> int | str:
    """Read where to go: earliest, latest, an offset, or a time as ISO 8601 writes it."""
    if text in {"earliest", "latest"}:
        return text
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return f"@{parse_time_ms(text)}"
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not earliest, latest, an offset or a time") from error


@command.command("reset")
@click.option("--group", required=True, help="The group to move.")
@click.option("--topic", required=True, help="The topic whose offsets to move.")
@click.option(
    "--to",
    "target",
    required=True,
    callback=_read_target,
    metavar="earliest|latest|TIME|OFFSET",
    help="Where to: the first or last offset, the newest segment from before a time (2011-06-12T10:00), or an offset.",
)
@zookeeper_option
@json_option
def reset(group: str, topic: str, target: int | str, zk_connect: str, as_json: bool) -> None:
    """Move a group's offsets of a topic.

    Refused while the group has members, which would write over it.
    """
    with connect(zk_connect) as client:
        moved = Groups(client).reset(group, topic, target)
    rows = [(topic, where.znode_name, offset) for where, offset in moved.items()]
    show_table(("topic", "partition", "offset"), rows, as_json=as_json)
