"""`kafka2011 perf`: how fast a cluster takes and gives messages, as 0.7's perf tools measure it."""

from __future__ import annotations

import os
import secrets
import time
from typing import TYPE_CHECKING, NamedTuple

import click

from kafka2011.cli.command_group import CommandGroup
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

_COLUMNS = ("messages", "seconds", "messages_per_s", "MB_per_s", "client_cpu_us")
_LOOK_MESSAGES = 1000
_LIST_MESSAGES = 250

_messages_option = click.option(
    "--messages", type=click.IntRange(1), default=1_000_000, show_default=True, help="How many messages."
)


class _Measured(NamedTuple):
    """What passed, in how much time, and at what cost of this process's processor time."""

    messages: int
    size_bytes: int
    seconds: float
    cpu_s: float

    def show(self, *, as_json: bool) -> None:
        """Print it."""
        row = (
            self.messages,
            round(self.seconds, 3),
            round(self.messages / self.seconds),
            round(self.size_bytes / self.seconds / 1e6, 2),
            round(self.cpu_s / self.messages * 1e6, 3),
        )
        show_table(_COLUMNS, [row], as_json=as_json)


@click.group("perf", cls=CommandGroup)
def command() -> None:
    """Measure how fast a cluster takes and gives messages."""


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
@click.option("--size-bytes", type=click.IntRange(1), default=200, show_default=True, help="Of each payload.")
@click.option(
    "--batch",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Messages that are given to the producer in one call; with 1, one payload a call.",
)
@property_option
@json_option
def produce_command(
    topic: str,
    zk_connect: str,
    messages: int,
    size_bytes: int,
    batch: int,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Publish random bytes, and say how fast they were taken: from the first call until the producer is closed.

    By then brokers have handled everything. With producer.type=sync and confirm=false, the paper's producer, as well.
    """
    from kafka2011.producer.producer import Producer

    refuse_properties(properties, {"zk.connect": "--zookeeper"})
    config = ProducerConfig.from_sources(
        environ=os.environ, overrides=[*properties, f"zk.connect={zk_connect}", "broker.list="], option="--property"
    )
    failures: list[FailedBatch] = []
    payload = secrets.token_bytes(size_bytes)
    with stop_signals() as stop:
        producer = Producer(config, on_failure=failures.append)
        with producer:
            begin_s, cpu_s = time.perf_counter(), time.process_time()
            sent = _send(producer, topic, payload, messages, batch, stop)
        seconds, cpu_s = time.perf_counter() - begin_s, time.process_time() - cpu_s
    if failures:
        raise KafkaError(f"{counted(producer.counts.messages_failed, 'message')} not sent: {failures[0].error}")
    _Measured(sent, sent * size_bytes, seconds, cpu_s).show(as_json=as_json)


def _send(producer: Producer, topic: str, payload: bytes, messages: int, batch: int, stop: Event) -> int:
    """Send so many messages, or those until `stop`; return how many."""
    send, left = producer.send, messages
    if batch == 1:
        while left and not stop.is_set():
            part = min(left, _LOOK_MESSAGES)
            for _ in range(part):
                send(topic, payload)
            left -= part
    else:
        payloads = [payload] * batch
        while left and not stop.is_set():
            part = min(left, batch)
            send(topic, payloads[:part])
            left -= part
    return messages - left


@command.command(
    "consume",
    epilog=examples("kafka2011 perf consume clicks --messages 5000000", "kafka2011 perf consume clicks --each"),
)
@click.argument("topic")
@zookeeper_option
@_messages_option
@click.option("--each", is_flag=True, help="Take messages one by one in place of lists.")
@click.option(
    "--timeout-ms",
    type=click.IntRange(min=1),
    default=5000,
    show_default=True,
    help="Stop when no message has come for this long, which does not count.",
)
@property_option
@json_option
def consume_command(
    topic: str,
    zk_connect: str,
    messages: int,
    each: bool,
    timeout_ms: int,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Read a topic from its beginning in a group of its own, and say how fast messages came, from the first on."""
    from kafka2011.consumer.connector import ConsumerConnector

    group = f"perf-{secrets.token_hex(6)}"
    refuse_properties(properties, {"zk.connect": "--zookeeper", "consumer.timeout.ms": "--timeout-ms"})
    fixed = [f"zk.connect={zk_connect}", f"groupid={group}", "autooffset.reset=smallest", "autocommit.enable=false"]
    config = ConsumerConfig.from_sources(
        environ=os.environ,
        overrides=[*properties, *fixed, f"consumer.timeout.ms={timeout_ms}"],
        option="--property",
    )
    with (
        stop_signals() as stop,
        removed_at_the_end(zk_connect, group),
        ConsumerConnector(config) as consumer,
        ended_by(stop, consumer),
    ):
        [stream] = consumer.create_message_streams({topic: 1})[topic]
        measured = _read(stream, messages, 1 if each else _LIST_MESSAGES)
    measured.show(as_json=as_json)


def _read(stream: MessageStream, messages: int, list_messages: int) -> _Measured:
    """Read so many messages, or those that come in time. What is measured begins behind the first list."""
    read = counted_messages = size_bytes = 0
    begin_s = end_s = begin_cpu_s = end_cpu_s = 0.0
    lists = ([message] for message in stream) if list_messages == 1 else stream.batches(list_messages)
    for batch in lists:
        end_s, end_cpu_s = time.perf_counter(), time.process_time()
        if not read:
            begin_s, begin_cpu_s = end_s, end_cpu_s
        else:
            counted_messages += len(batch)
            size_bytes += sum(len(message.payload) for message in batch)
        read += len(batch)
        if read >= messages:
            break
    if not counted_messages:
        raise KafkaError(f"{counted(read, 'message')} came, at once: too few to measure anything")
    return _Measured(counted_messages, size_bytes, end_s - begin_s, end_cpu_s - begin_cpu_s)
