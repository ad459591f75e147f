"""`kafka2011 fetch`."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING

import click

from kafka2011.admin.partition_cursor import following, open_cursors, to_the_end
from kafka2011.cli.formats import as_object, format_option, named
from kafka2011.cli.options import broker_option, broker_or_zookeeper, delimiter_option, examples, zookeeper_option
from kafka2011.cli.output import json_option, show_json_list
from kafka2011.cli.partitions import find_partitions, partitions_option
from kafka2011.config import SimpleConsumerConfig

if TYPE_CHECKING:
    from kafka2011.cli.formats import Format
    from kafka2011.cli.partitions import Wanted
    from zk.cluster import Broker


def _read_offset(text: str) -> int | str:
    if text in {"earliest", "latest"}:
        return text
    if text.isascii() and text.isdigit():
        return int(text)
    raise click.BadParameter(f"{text!r} is neither a number, earliest nor latest")


@click.command(
    "fetch",
    epilog=examples(
        "kafka2011 fetch views",
        "kafka2011 fetch views --partition 0-1 --offset 4711 -f '%o %s\\n'",
        "kafka2011 fetch views --broker localhost:6667 --partition 1 --follow",
    ),
)
@click.argument("topic")
@zookeeper_option
@broker_option
@partitions_option
@click.option(
    "--offset",
    type=_read_offset,
    metavar="TEXT",
    default="earliest",
    show_default=True,
    help="Where to start: earliest, latest, or, with one --partition, the offset of a message.",
)
@click.option("--max-messages", type=click.IntRange(1), help="Stop after this many messages.")
@click.option("--fetch-size", type=click.IntRange(1), help="Bytes per fetch.  [default: fetch.size, 1 MiB]")
@click.option("--follow", is_flag=True, help="At the end, wait for more messages until Ctrl-C.")
@format_option
@delimiter_option
@json_option
@click.pass_context
def command(
    context: click.Context,
    topic: str,
    zk_connect: str,
    broker: Broker | None,
    partitions: tuple[Wanted, ...],
    offset: int | str,
    max_messages: int | None,
    fetch_size: int | None,
    follow: bool,
    given_format: Format | None,
    delimiter: bytes,
    as_json: bool,
) -> None:
    """Read partitions from an offset, without a group.

    Prints each payload and a line feed, one partition after another; with --follow, as messages arrive. With --json it
    prints a list of objects: topic, broker_id, partition, offset, next_offset, index_in_set, and payload, or
    payload_base64 where it is not UTF-8.
    """
    broker_or_zookeeper(context)
    if as_json and (follow or given_format is not None):
        why = "--follow has no end, so it" if follow else "--format"
        raise click.UsageError(f"{why} cannot print one JSON document")
    fixed = [] if fetch_size is None else [f"fetch.size={fetch_size}"]
    config = SimpleConsumerConfig.from_sources(environ=os.environ, overrides=fixed)
    chosen = find_partitions(topic, broker, zk_connect, partitions)
    if isinstance(offset, int) and len(chosen) != 1:
        raise click.UsageError(f"--offset {offset} belongs to one partition: name it with --partition")
    with ExitStack() as stack:
        places = open_cursors(stack, topic, chosen, config)
        for place in places:
            place.go_to(offset)
        output = sys.stdout.buffer
        messages = islice(following(places, output.flush) if follow else to_the_end(places), max_messages)
        if as_json:
            show_json_list(as_object(message) for message in messages)
            return
        to_bytes = given_format or named("payload", delimiter)
        output.writelines(map(to_bytes, messages))
