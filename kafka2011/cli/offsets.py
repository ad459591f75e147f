"""`kafka2011 offsets`."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, TextIO

import click

from kafka2011.admin.groups import Groups
from kafka2011.admin.partition_cursor import open_cursors
from kafka2011.cli.command_group import CommandGroup
from kafka2011.cli.options import broker_option, broker_or_zookeeper, examples, read_time_ms, zookeeper_option
from kafka2011.cli.output import counted, json_option, show_table
from kafka2011.cli.partitions import find_partitions, misplaced_shown, partitions_option
from kafka2011.cli.session import open_session
from kafka2011.config import SimpleConsumerConfig
from kafka2011.errors import KafkaError
from kafka2011.wire.protocol import EARLIEST, LATEST

if TYPE_CHECKING:
    from kafka2011.cli.partitions import Wanted
    from zk.cluster import Broker

_WORDS = {"latest": LATEST, "earliest": EARLIEST}


def _read_time(text: str) -> int:
    if text in _WORDS:
        return _WORDS[text]
    if text.isascii() and text.isdigit():
        return int(text)
    return read_time_ms(text, "is neither latest, earliest, milliseconds nor a time")


class _ShowByDefault(CommandGroup):
    """A group whose command `show` need not be named, though it begins with a topic."""

    def is_default(self, ctx: click.Context, args: list[str]) -> bool:
        """Whether arguments begin with no command of the group."""
        return bool(args) and args[0] not in self.commands and args[0] not in ctx.help_option_names


@click.group("offsets", cls=_ShowByDefault, default="show")
def command() -> None:
    """Show where a partition begins and ends; save and restore a group's offsets.

    `kafka2011 offsets TOPIC` is short for `kafka2011 offsets show TOPIC`.
    """


@command.command(
    "show",
    epilog=examples(
        "kafka2011 offsets views",
        "kafka2011 offsets views --partition 0-1 --time 2011-06-12T10:00Z --max-count 10",
    ),
)
@click.argument("topic")
@zookeeper_option
@broker_option
@partitions_option
@click.option(
    "--time",
    "time_ms",
    type=_read_time,
    default="latest",
    show_default=True,
    metavar="TIME",
    help="latest, earliest, milliseconds since 1970, or a time such as -1h, yesterday or ISO 8601 (local without"
    " a zone): offsets from before it.",
)
@click.option(
    "--max-count", type=click.IntRange(1), default=1, show_default=True, help="How many offsets, newest first."
)
@json_option
@click.pass_context
def show(
    context: click.Context,
    topic: str,
    zk_connect: str,
    broker: Broker | None,
    partitions: tuple[Wanted, ...],
    time_ms: int,
    max_count: int,
    as_json: bool,
) -> None:
    """Show the end or the beginning of partitions, or their offset at a time.

    For a time, a broker knows only the starts of segments and when each segment was last written.
    """
    broker_or_zookeeper(context)
    config = SimpleConsumerConfig.from_sources(environ=os.environ)
    chosen = find_partitions(topic, broker, zk_connect, partitions)
    with ExitStack() as stack:
        rows = [
            (topic, place.consumer.broker_id, place.partition, offset)
            for place in open_cursors(stack, topic, chosen, config)
            for offset in place.consumer.get_offsets_before(topic, place.partition, time_ms, max_count)
        ]
    show_table(("topic", "broker", "partition", "offset"), rows, as_json=as_json, noun="offset")


@command.command("export", epilog=examples("kafka2011 offsets export --group reports --file offsets.json"))
@click.option("--group", required=True, help="The group whose offsets to save.")
@click.option("--file", type=click.File("w"), default="-", help="The file to write.  [default: standard output]")
@zookeeper_option
def export_offsets(group: str, file: TextIO, zk_connect: str) -> None:
    """Save a group's offsets as JSON: topic to partition to offset."""
    with open_session(zk_connect) as client:
        offsets = Groups(client).export_offsets(group)
    json.dump(offsets, file, indent=2)
    file.write("\n")


@command.command("import", epilog=examples("kafka2011 offsets import --group audit --file offsets.json --dry-run"))
@click.option("--group", required=True, help="The group whose offsets to write.")
@click.option("--file", type=click.File("r"), default="-", help="The file to read. [default: standard input]")
@click.option("--force", is_flag=True, help="Also write offsets that are in no partition of a live broker.")
@click.option("--dry-run", is_flag=True, help="Check the offsets, and write nothing.")
@zookeeper_option
def import_offsets(group: str, file: TextIO, force: bool, dry_run: bool, zk_connect: str) -> None:
    """Write a group's offsets as `export` saved them.

    Offsets of other partitions stay. Refused while the group has members, which would overwrite the offsets, and for a
    partition that no live broker has or whose log does not hold the offset.
    """
    try:
        offsets = json.load(file)
    except ValueError as error:
        raise KafkaError(f"{file.name} is not JSON: {error}") from error
    with open_session(zk_connect) as client, misplaced_shown():
        count = Groups(client).import_offsets(group, offsets, check=not force, dry_run=dry_run)
    would_be = "would be " if dry_run else ""
    click.echo(f"{counted(count, 'offset')} {would_be}written for group {group}")
