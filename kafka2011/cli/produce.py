"""`kafka2011 produce`."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, BinaryIO

import click
from click.core import ParameterSource

from kafka2011.cli.lines import by_partition, key_of, line_sets
from kafka2011.cli.options import broker_option, read_zk_connect
from kafka2011.cli.partitions import check_partition, count_partitions
from kafka2011.cli.progress import byte_progress
from kafka2011.compression import Codec
from kafka2011.config import ProducerConfig, SyncProducerConfig
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import BrokerConnectionError, KafkaError
from kafka2011.message import MessageSet
from kafka2011.producer.sync_producer import SyncProducer
from kafka2011.protocol import ANY_PARTITION
from kafka2011.topic import validate_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.producer.parcel import FailedSend
    from zk.cluster import Broker

_QUEUE_TIME_MS = 20  # lines that are typed shall not wait for others
_CODECS = {codec.name.lower(): codec for codec in Codec}


def _read_pattern(_context: click.Context, _parameter: click.Parameter, text: str | None) -> re.Pattern[bytes] | None:
    try:
        return None if text is None else re.compile(text.encode())
    except re.error as error:
        raise click.BadParameter(f"{text!r} is not a regular expression: {error}") from error


@click.command("produce")
@click.argument("topic")
@broker_option
@click.option(
    "--zookeeper",
    "zk_connect",
    callback=read_zk_connect,
    metavar="HOST:PORT",
    envvar="KAFKA2011_ZK_CONNECT",
    show_envvar=True,
    help="Publish to all brokers registered at these ZooKeeper servers, instead of to one broker.",
)
@click.option("--file", type=click.File("rb"), default="-", help="What to read lines from.  [default: standard input]")
@click.option(
    "--partition",
    type=click.IntRange(ANY_PARTITION),
    default=ANY_PARTITION,
    show_default=True,
    help="The partition of the one broker; -1: a random one for every set of lines.",
)
@click.option(
    "--key-regex",
    "pattern",
    callback=_read_pattern,
    metavar="REGEX",
    help="What it finds in a line (its first group, if it has one) is the line's key: lines of one key go to one"
    " partition, in order. Lines in which it finds nothing go to random ones.",
)
@click.option(
    "--confirm", is_flag=True, help="With ZooKeeper: have every set proven to be in its log, and sent again if not."
)
@click.option("--compress", type=click.Choice(list(_CODECS)), default="none", show_default=True, help="The codec.")
@click.pass_context
def command(
    context: click.Context,
    topic: str,
    broker: Broker,
    zk_connect: str | None,
    file: BinaryIO,
    partition: int,
    pattern: re.Pattern[bytes] | None,
    confirm: bool,
    compress: str,
) -> None:
    """Publish lines, each as one message.

    Lines are sent as they arrive, those that arrive together as one set. Ends when the broker has handled all of them.
    A broker says nothing about a set that it refuses, but closes the connection: then this fails.
    """
    if pattern is not None and partition != ANY_PARTITION:
        raise click.UsageError("--key-regex chooses partitions, so --partition has nothing to say")
    validate_topic(topic)
    codec = _CODECS[compress]
    if zk_connect is not None and context.get_parameter_source("broker") is not ParameterSource.COMMANDLINE:
        if partition != ANY_PARTITION:
            raise click.UsageError("--partition is one of a broker's: name it with --broker")
        _to_cluster(zk_connect, topic, file, pattern, codec, confirm=confirm)
        return
    if confirm:
        raise click.UsageError("--confirm needs --zookeeper")
    _to_broker(broker, topic, file, partition, pattern, codec)


def _to_cluster(
    zk_connect: str, topic: str, file: BinaryIO, pattern: re.Pattern[bytes] | None, codec: Codec, *, confirm: bool
) -> None:
    from kafka2011.producer.async_producer import AsyncProducer

    config = ProducerConfig.from_sources(
        environ=os.environ,
        overrides=[
            f"zk.connect={zk_connect}",
            f"confirm={str(confirm).lower()}",
            f"compression.codec={int(codec)}",
            f"queue.time={_QUEUE_TIME_MS}",
        ],
    )
    failures: list[FailedSend] = []
    with AsyncProducer(config, on_failure=failures.append) as producer:
        for lines in _lines(file, topic, config.max_message_size):
            if failures:
                break
            if pattern is None:
                producer.send(topic, lines)
            else:
                for line in lines:
                    producer.send(topic, line, key_of(line, pattern))
    if failures:
        raise KafkaError(f"{producer.counts.messages_failed} messages were not sent: {failures[0].error}")


def _to_broker(
    broker: Broker,
    topic: str,
    file: BinaryIO,
    partition: int,
    pattern: re.Pattern[bytes] | None,
    codec: Codec,
) -> None:
    config = SyncProducerConfig.from_sources(environ=os.environ)
    partitions = _ask_partitions(broker, topic, partition, pattern)
    with SyncProducer(broker.host, broker.port, config) as producer:
        for lines in _lines(file, topic, config.max_message_size):
            sets = {partition: lines} if pattern is None else by_partition(lines, pattern, partitions)
            producer.multi_send((topic, number, MessageSet(chosen, codec)) for number, chosen in sets.items())
    if producer.broken_connections:
        raise BrokerConnectionError(
            f"broker {broker.address} closed the connection {producer.broken_connections} times:"
            " lines before that may be lost"
        )


def _lines(file: BinaryIO, topic: str, max_line_bytes: int) -> Iterator[list[bytes]]:
    with byte_progress(f"to {topic}", os.fstat(file.fileno()).st_size or None) as advance:
        yield from line_sets(file, max_line_bytes, advance)


def _ask_partitions(broker: Broker, topic: str, partition: int, pattern: re.Pattern[bytes] | None) -> int:
    """Count the partitions that keys choose from; check one that is named, since the broker would refuse in silence."""
    with SimpleConsumer.of(broker) as consumer:
        if pattern is not None:
            return count_partitions(consumer, topic)
        if partition != ANY_PARTITION:
            check_partition(consumer, topic, partition)
    return 0
