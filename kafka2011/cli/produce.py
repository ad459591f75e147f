"""`kafka2011 produce`."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
from typing import TYPE_CHECKING, BinaryIO

import click

from kafka2011.admin.partitions import check_partition, count_partitions
from kafka2011.cli.lines import by_partition, key_of, line_sets
from kafka2011.cli.options import (
    broker_option,
    broker_or_zookeeper,
    delimiter_option,
    examples,
    property_option,
    refuse_properties,
    zookeeper_option,
)
from kafka2011.cli.output import counted
from kafka2011.cli.progress import byte_progress
from kafka2011.config import ProducerConfig
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import REGEX_ERRORS, BrokerConnectionError, KafkaError, MessageSizeTooLargeError
from kafka2011.message.compression import Codec
from kafka2011.message.topic import validate_topic
from kafka2011.producer.errors import NoBrokersError
from kafka2011.wire.protocol import ANY_PARTITION
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011.producer.batch import FailedBatch
    from kafka2011.producer.producer import Producer
    from zk.cluster import Broker

    Send = Callable[[Producer, list[bytes]], object]

logger = logging.getLogger(__name__)

_QUEUE_TIME_MS = 20  # typed lines must not wait for others
_CODECS = {codec.name.lower(): codec for codec in Codec}
_OPTIONS_OF = {
    "zk.connect": "--zookeeper",
    "broker.list": "--broker",
    "compression.codec": "--compress",
}
_CHOSEN = ("confirm", "producer.type")
_STDIN_NAME = "<stdin>"
_ID = 0  # of the one --broker, whatever it is registered as


def _read_pattern(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(text.encode())
    except REGEX_ERRORS as error:
        raise click.BadParameter(f"{text!r} is not a regular expression: {error}") from error


@click.command(
    "produce",
    epilog=examples(
        "printf 'one\\ntwo\\n' | kafka2011 produce views",
        "kafka2011 produce access --file access.log --key-regex '^(\\S+)' --compress gzip",
        "kafka2011 produce views --broker localhost:6667 --partition 0 --property max.message.size=2000000",
    ),
)
@click.argument("topic")
@zookeeper_option
@broker_option
@click.option(
    "--file",
    type=click.File("rb"),
    default="-",
    help="The file to read lines from; a compressed one is unpacked.  [default: standard input]",
)
@delimiter_option
@click.option(
    "--partition",
    type=click.IntRange(ANY_PARTITION),
    default=ANY_PARTITION,
    show_default=True,
    help="The partition at --broker; -1: a random one for each set of lines.",
)
@click.option(
    "--key-regex",
    "pattern",
    type=_read_pattern,
    metavar="REGEX",
    help="The match in a line, or its first group, is the line's key. Lines of one key go to one partition, in"
    " order; lines without a match go to random partitions.",
)
@click.option("--compress", type=click.Choice(list(_CODECS)), help="The codec.  [default: compression.codec, none]")
@click.option("--skip-too-long", is_flag=True, help="Leave out lines longer than max.message.size, and report them.")
@property_option
@click.pass_context
def command(
    context: click.Context,
    topic: str,
    zk_connect: str,
    broker: Broker | None,
    file: BinaryIO,
    delimiter: bytes,
    partition: int,
    pattern: re.Pattern[bytes] | None,
    compress: str | None,
    skip_too_long: bool,
    properties: tuple[str, ...],
) -> None:
    """Publish lines, each as one message.

    Lines are sent as they arrive; lines that arrive together are one set. The command ends once all are confirmed, and
    fails otherwise, also if there are no lines and no broker answers. A message that is sent again can arrive twice. A
    0.7 broker confirms a set that is too large for it, and drops it.
    """
    broker_or_zookeeper(context)
    refuse_properties(properties, _OPTIONS_OF, fixed=_CHOSEN)
    if pattern is not None and partition != ANY_PARTITION:
        raise click.UsageError("--key-regex chooses partitions, so --partition cannot")
    if broker is None and partition != ANY_PARTITION:
        raise click.UsageError("--partition needs --broker")
    validate_topic(topic)
    fixed = [] if compress is None else [f"compression.codec={compress}"]

    def lines(config: ProducerConfig) -> Iterator[list[bytes]]:
        on_too_long = _Skipped(config.max_message_size) if skip_too_long else None
        with _text(file, delimiter) as text, show_progress(file, topic, is_changed=text is not file) as advance:
            yield from line_sets(text, config.max_message_size, advance, delimiter=delimiter, on_too_long=on_too_long)

    if broker is None:
        config = _config(properties, [f"zk.connect={zk_connect}", "broker.list=", *fixed])
        send = _to_cluster(topic, pattern)
    else:
        listed = f"broker.list={_ID}:{broker.host}:{broker.port}"
        config = _config(properties, ["zk.connect=", listed, "partitioner.class=", *fixed])
        send = _to_broker(broker, config, topic, partition, pattern)
    if not _publish(config, lines(config), send) and broker is None:
        _check_somebody_lives(config)


def _text(file: BinaryIO, delimiter: bytes) -> contextlib.AbstractContextManager[BinaryIO]:
    """Open what reads the text of a named file. Raises KafkaError if it cannot be unpacked, or has no text."""
    if file.name == _STDIN_NAME or not isinstance(file, io.BufferedReader):
        return contextlib.nullcontext(file)
    from kafka2011.collect.text_file import open_text

    return open_text(file, file.name, is_text=delimiter == b"\n")


def _config(properties: tuple[str, ...], fixed: list[str]) -> ProducerConfig:
    return ProducerConfig.from_sources(
        environ=os.environ,
        overrides=[*properties, "producer.type=async", "confirm=true", *fixed],
        defaults={"queue.time": _QUEUE_TIME_MS},
        option="--property",
    )


class _Skipped:
    """Says which lines are left out."""

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes

    def __call__(self, number: int) -> None:
        logger.warning("line %d is left out: it is longer than %d bytes", number, self._max_line_bytes)


def _publish(config: ProducerConfig, sets: Iterator[list[bytes]], send: Send) -> bool:
    """Send all lines and wait for the proof; False if there were none. Raises KafkaError for what could not be sent."""
    from kafka2011.producer.producer import Producer

    failures: list[FailedBatch] = []
    came = False
    with Producer(config, on_failure=failures.append) as producer:

        def finish() -> None:
            producer.flush()
            failed = producer.counts.messages_failed
            if failed:
                producer.close()  # by then every failure has been told
                raise KafkaError(f"{counted(failed, 'message')} not sent: {failures[0].error}")

        for lines in _up_to_a_fault(sets, finish):
            came = True
            if producer.counts.messages_failed:
                break
            send(producer, lines)
        finish()
    return came


def _to_cluster(topic: str, pattern: re.Pattern[bytes] | None) -> Send:
    """Return what sends lines to the partitions of their keys, wherever these are."""

    def send(producer: Producer, lines: list[bytes]) -> None:
        if pattern is None:
            producer.send(topic, lines)
        else:
            for line in lines:
                producer.send(topic, line, key_of(line, pattern))

    return send


def _to_broker(
    broker: Broker, config: ProducerConfig, topic: str, partition: int, pattern: re.Pattern[bytes] | None
) -> Send:
    """Return what sends lines to one broker, to the partition that is named or to those of their keys.

    Raises BrokerConnectionError when no broker answers there, and WrongPartitionError: it would refuse in silence.
    """
    partitions = 0
    with SimpleConsumer.of(broker, {"socket.timeout.ms": config.socket_timeout_ms}) as consumer:
        try:
            consumer.multifetch([])
        except KafkaError as error:
            raise BrokerConnectionError(f"{broker.address} does not answer as a broker does: {error}") from error
        if pattern is not None:
            partitions = count_partitions(consumer, topic)
        elif partition != ANY_PARTITION:
            check_partition(consumer, topic, partition)

    def send(producer: Producer, lines: list[bytes]) -> None:
        chosen = {partition: lines} if pattern is None else by_partition(lines, pattern, partitions)
        for number, its_lines in chosen.items():
            producer.send(topic, its_lines, partition=TopicPartition(topic, _ID, number))

    return send


def _check_somebody_lives(config: ProducerConfig) -> None:
    """Fail without brokers even when there was nothing to send: an empty pipe should report it too."""
    from zk.brokers import BrokerRegistry
    from zk.connecting import connect

    with connect(config.zk_connect, config.zk_sessiontimeout_ms, config.zk_connectiontimeout_ms) as client:
        if not BrokerRegistry(client).brokers():
            raise NoBrokersError(f"no broker is registered at {config.zk_connect}")


def _up_to_a_fault(sets: Iterator[list[bytes]], finish: Callable[[], object]) -> Iterator[list[bytes]]:
    """Yield sets; what was sent before a line that is too long is finished first, so that the error can say so."""
    sent = 0
    try:
        for lines in sets:
            yield lines
            sent += len(lines)
    except MessageSizeTooLargeError as error:
        finish()
        before = f"{counted(sent, 'line')} before it {'was' if sent == 1 else 'were'} sent"
        raise MessageSizeTooLargeError(f"{error}; {before} (--skip-too-long leaves such lines out)") from error


def show_progress(
    file: BinaryIO, topic: str, *, is_changed: bool = False
) -> contextlib.AbstractContextManager[Callable[[int], None]]:
    """Show a bar, unless lines are typed, which it would overwrite; without a share, if a file's bytes are changed."""
    if file.isatty():
        return contextlib.nullcontext(lambda _read_bytes: None)
    size_bytes = 0 if is_changed else os.fstat(file.fileno()).st_size
    return byte_progress(f"to {topic}", size_bytes or None)
