"""`kafka2011 perf`: how fast a cluster takes and gives messages, as 0.7's perf tools measure it."""

from __future__ import annotations

import math
import os
import secrets
import sys
import time
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import click

from kafka2011.cli.command_group import CommandGroup
from kafka2011.cli.local_brokers import LocalBrokers
from kafka2011.cli.members import ended_by, removed_at_the_end
from kafka2011.cli.options import examples, property_option, refuse_properties, zookeeper_option
from kafka2011.cli.output import counted, json_option, show_table
from kafka2011.cli.stopping import stop_signals
from kafka2011.config import ConsumerConfig, ProducerConfig
from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from threading import Event

    from kafka2011.consumer.stream import MessageStream
    from kafka2011.producer.batch import FailedBatch
    from kafka2011.producer.producer import Producer

_COLUMNS = ("messages", "seconds", "messages_per_s", "MB_per_s", "client_cpu_us", "broker_cpu_us")
_LOOK_MESSAGES = 1000
_LIST_MESSAGES = 250
_DEFAULT_MESSAGES = 1_000_000

_messages_option = click.option(
    "--messages", type=click.IntRange(1), help=f"How many messages: {_DEFAULT_MESSAGES}, or with --seconds no limit."
)
_seconds_option = click.option("--seconds", type=click.FloatRange(0, min_open=True), help="Stop after this time.")


class _Limit:
    """When to end: after a number of messages, or of seconds."""

    def __init__(self, messages: int | None, seconds: float | None) -> None:
        self.messages = messages or (_DEFAULT_MESSAGES if seconds is None else sys.maxsize)
        self._seconds = math.inf if seconds is None else seconds

    def left_messages(self, done: int, seconds: float) -> int:
        """Return how many messages are left after those that are done, which took some seconds."""
        return 0 if seconds >= self._seconds else self.messages - done


class _Meter:
    """Measures from when it is made: the clock, and the processor time of this process and of brokers."""

    def __init__(self, brokers: LocalBrokers) -> None:
        self._brokers = brokers
        self._begin_s, self._client_s, self._broker_s = time.perf_counter(), time.process_time(), brokers.cpu_s()

    @property
    def seconds(self) -> float:
        """How long it has been measuring."""
        return time.perf_counter() - self._begin_s

    def read(self, messages: int, size_bytes: int, waited_s: float = 0.0) -> _Measured:
        """Return what these messages took, but for a wait at the end."""
        seconds, client_s, broker_s = self.seconds - waited_s, time.process_time(), self._brokers.cpu_s()
        brokers_s = None if broker_s is None or self._broker_s is None else broker_s - self._broker_s
        return _Measured(messages, size_bytes, seconds, client_s - self._client_s, brokers_s)


class _Measured(NamedTuple):
    """What passed, in how much time, and at what cost of processor time; None where that of brokers is not known."""

    messages: int
    size_bytes: int
    seconds: float
    client_s: float
    broker_s: float | None

    def show(self, *, as_json: bool) -> None:
        """Print it."""
        row = (
            self.messages,
            round(self.seconds, 3),
            round(self.messages / self.seconds),
            round(self.size_bytes / self.seconds / 1e6, 2),
            round(self.client_s / self.messages * 1e6, 3),
            None if self.broker_s is None else round(self.broker_s / self.messages * 1e6, 3),
        )
        show_table(_COLUMNS, [row], as_json=as_json)


@click.group("perf", cls=CommandGroup)
def command() -> None:
    """Measure how fast a cluster appends and delivers messages.

    `client_cpu_us` and `broker_cpu_us` are processor time for each message: of this process, and of all registered
    brokers, whatever else they do meanwhile. The latter is known where all of them run on this machine.
    """


@command.command(
    "produce",
    epilog=examples(
        "kafka2011 perf produce clicks --messages 5000000 --size-bytes 200 --batch 50",
        "kafka2011 perf produce clicks --batch 1 --property producer.type=async --property confirm=true",
    ),
)
@click.argument("topic")
@zookeeper_option
@_messages_option
@_seconds_option
@click.option("--size-bytes", type=click.IntRange(1), default=200, show_default=True, help="The size of each payload.")
@click.option(
    "--batch",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Messages per call of the producer; with 1, each call sends one payload.",
)
@property_option
@json_option
def produce_command(
    topic: str,
    zk_connect: str,
    messages: int | None,
    seconds: float | None,
    size_bytes: int,
    batch: int,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Publish random bytes, and print the rate from the first call until the producer is closed.

    By then brokers have handled everything. That holds also for the paper's producer, producer.type=sync and
    confirm=false.
    """
    from kafka2011.producer.producer import Producer

    refuse_properties(properties, {"zk.connect": "--zookeeper"})
    config = ProducerConfig.from_sources(
        environ=os.environ, overrides=[*properties, f"zk.connect={zk_connect}", "broker.list="], option="--property"
    )
    failures: list[FailedBatch] = []
    payload = secrets.token_bytes(size_bytes)
    brokers = LocalBrokers(zk_connect)
    with stop_signals() as stop:
        producer = Producer(config, on_failure=failures.append)
        with producer:
            meter = _Meter(brokers)
            sent = _send(producer, topic, [payload] * batch, _Limit(messages, seconds), meter, stop)
        measured = meter.read(sent, sent * size_bytes)
    if failures:
        raise KafkaError(f"{counted(producer.counts.messages_failed, 'message')} not sent: {failures[0].error}")
    measured.show(as_json=as_json)


def _send(producer: Producer, topic: str, payloads: list[bytes], limit: _Limit, meter: _Meter, stop: Event) -> int:
    """Send lists, or one payload a call, up to the limit or until `stop`; return how many messages."""
    send, sent, batch = producer.send, 0, len(payloads)
    [payload] = payloads[:1]
    while (left := limit.left_messages(sent, meter.seconds)) > 0 and not stop.is_set():
        part = min(left, _LOOK_MESSAGES)
        if batch == 1:
            for _ in range(part):
                send(topic, payload)
        else:
            for start in range(0, part, batch):
                send(topic, payloads[: part - start])
        sent += part
    return sent


@command.command(
    "consume",
    epilog=examples("kafka2011 perf consume clicks --messages 5000000", "kafka2011 perf consume clicks --each"),
)
@click.argument("topic")
@zookeeper_option
@_messages_option
@_seconds_option
@click.option("--each", is_flag=True, help="Read messages one by one instead of in lists.")
@click.option(
    "--timeout-ms",
    type=click.IntRange(min=1),
    default=5000,
    show_default=True,
    help="Stop if no message arrives for this time; the time is not counted.",
)
@property_option
@json_option
def consume_command(
    topic: str,
    zk_connect: str,
    messages: int | None,
    seconds: float | None,
    each: bool,
    timeout_ms: int,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Read a topic from its beginning in a temporary group, and print the rate from the first message on."""
    from kafka2011.consumer.connector import ConsumerConnector

    group = f"perf-{secrets.token_hex(6)}"
    refuse_properties(properties, {"zk.connect": "--zookeeper", "consumer.timeout.ms": "--timeout-ms"})
    fixed = [f"zk.connect={zk_connect}", f"groupid={group}", "autooffset.reset=smallest", "autocommit.enable=false"]
    config = ConsumerConfig.from_sources(
        environ=os.environ,
        overrides=[*properties, *fixed, f"consumer.timeout.ms={timeout_ms}"],
        option="--property",
    )
    brokers = LocalBrokers(zk_connect)
    limit = _Limit(messages, seconds)
    with (
        stop_signals() as stop,
        removed_at_the_end(zk_connect, group),
        ConsumerConnector(config) as consumer,
        ended_by(stop, consumer),
    ):
        [stream] = consumer.create_message_streams({topic: 1})[topic]
        first = len(next(stream.batches(1 if each else _LIST_MESSAGES), ()))
        meter = _Meter(brokers)
        read = _read_each if each else _read_lists
        measured = read(stream, limit, first, meter, timeout_ms / 1000)
    measured.show(as_json=as_json)


def _read_lists(stream: MessageStream, limit: _Limit, first: int, meter: _Meter, timeout_s: float) -> _Measured:
    """Read lists up to the limit, or as long as they come. What is measured begins behind the first list."""
    read = size_bytes = 0
    for batch in stream.batches(_LIST_MESSAGES):
        read += len(batch)
        size_bytes += sum(len(message.payload) for message in batch)
        if limit.left_messages(first + read, meter.seconds) <= 0:
            return _result(meter, first, read, size_bytes, 0.0)
    return _result(meter, first, read, size_bytes, timeout_s)


def _read_each(stream: MessageStream, limit: _Limit, first: int, meter: _Meter, timeout_s: float) -> _Measured:
    """Do the same message by message, and look at the clock once in a while, which costs as much as a message."""
    read = size_bytes = 0
    while (left := limit.left_messages(first + read, meter.seconds)) > 0:
        part = min(left, _LOOK_MESSAGES)
        before = read
        for message in islice(stream, part):
            size_bytes += len(message.payload)
            read += 1
        if read - before < part:
            return _result(meter, first, read, size_bytes, timeout_s)
    return _result(meter, first, read, size_bytes, 0.0)


def _result(meter: _Meter, first: int, read: int, size_bytes: int, waited_s: float) -> _Measured:
    if not read:
        raise KafkaError(f"{counted(first, 'message')} came, at once: too few to measure anything")
    return meter.read(read, size_bytes, waited_s)
