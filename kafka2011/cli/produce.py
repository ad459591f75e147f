"""`kafka2011 produce`."""

from __future__ import annotations

import os
import re
from typing import BinaryIO

import click

from kafka2011.cli.lines import by_partition, line_sets
from kafka2011.cli.options import Address, broker_option
from kafka2011.cli.partitions import check_partition, count_partitions
from kafka2011.cli.progress import byte_progress
from kafka2011.config import SyncProducerConfig
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import BrokerConnectionError
from kafka2011.producer.sync_producer import SyncProducer
from kafka2011.protocol import ANY_PARTITION
from kafka2011.topic import validate_topic


def _read_pattern(_context: click.Context, _parameter: click.Parameter, text: str | None) -> re.Pattern[bytes] | None:
    try:
        return None if text is None else re.compile(text.encode())
    except re.error as error:
        raise click.BadParameter(f"{text!r} is not a regular expression: {error}") from error


@click.command("produce")
@click.argument("topic")
@broker_option
@click.option("--file", type=click.File("rb"), default="-", help="What to read lines from.  [default: standard input]")
@click.option(
    "--partition",
    type=click.IntRange(ANY_PARTITION),
    default=ANY_PARTITION,
    show_default=True,
    help="The partition; -1: a random one for every set of lines.",
)
@click.option(
    "--key-regex",
    "pattern",
    callback=_read_pattern,
    metavar="REGEX",
    help="What it finds in a line (its first group, if it has one) is the line's key: lines of one key go to one"
    " partition of the broker, in order. Lines in which it finds nothing go to random ones.",
)
def command(topic: str, broker: Address, file: BinaryIO, partition: int, pattern: re.Pattern[bytes] | None) -> None:
    """Publish lines, each as one message.

    Lines are sent as they arrive, those that arrive together as one set. Ends when the broker has handled all of them.
    A broker says nothing about a set that it refuses, but closes the connection: then this fails.
    """
    if pattern is not None and partition != ANY_PARTITION:
        raise click.UsageError("--key-regex chooses partitions, so --partition has nothing to say")
    validate_topic(topic)
    config = SyncProducerConfig.from_sources(environ=os.environ)
    partitions = _ask_partitions(broker, topic, partition, pattern)
    size = os.fstat(file.fileno()).st_size or None
    with byte_progress(f"to {topic}", size) as advance, SyncProducer(broker.host, broker.port, config) as producer:
        for lines in line_sets(file, config.max_message_size, advance):
            if pattern is None:
                producer.send(topic, lines, partition)
            else:
                sets = by_partition(lines, pattern, partitions)
                producer.multi_send((topic, number, chosen) for number, chosen in sets.items())
    if producer.broken_connections:
        raise BrokerConnectionError(
            f"broker {broker} closed the connection {producer.broken_connections} times: lines before that may be lost"
        )


def _ask_partitions(broker: Address, topic: str, partition: int, pattern: re.Pattern[bytes] | None) -> int:
    """Count the partitions that keys choose from; check one that is named, since the broker would refuse in silence."""
    with SimpleConsumer(broker.host, broker.port) as consumer:
        if pattern is not None:
            return count_partitions(consumer, topic)
        if partition != ANY_PARTITION:
            check_partition(consumer, topic, partition)
    return 0
