"""`kafka2011 fetch`."""

from __future__ import annotations

import base64
import os
import sys
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from kafka2011.cli.options import broker_option
from kafka2011.cli.output import json_option, show_json_list
from kafka2011.cli.partitions import check_partition
from kafka2011.config import SimpleConsumerConfig
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.protocol import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.message import Message
    from zk.cluster import Broker

_WORDS = {"latest": LATEST, "earliest": EARLIEST}
_IDLE_INTERVAL_S = 0.2


def _read_offset(_context: click.Context, _parameter: click.Parameter, text: str) -> int | str:
    if text in _WORDS:
        return text
    if text.isascii() and text.isdigit():
        return int(text)
    raise click.BadParameter(f"{text!r} is neither a number, earliest nor latest")


@click.command("fetch")
@click.argument("topic")
@broker_option
@click.option("--partition", type=click.IntRange(0), default=0, show_default=True, help="The partition.")
@click.option(
    "--offset",
    callback=_read_offset,
    default="earliest",
    show_default=True,
    help="Where to start: earliest, latest, or where a message starts.",
)
@click.option("--max-messages", type=click.IntRange(1), help="End after so many messages.")
@click.option("--fetch-size", type=click.IntRange(1), help="Bytes to ask for at once.  [default: 1 MiB]")
@click.option("--follow", is_flag=True, help="At the end wait for more, until Ctrl-C.")
@json_option
def command(
    topic: str,
    broker: Broker,
    partition: int,
    offset: int | str,
    max_messages: int | None,
    fetch_size: int | None,
    follow: bool,
    as_json: bool,
) -> None:
    """Read one partition of one broker from an offset on.

    Prints each payload and a line feed. With --json a list of objects: topic, partition, offset, next_offset,
    index_in_set, and payload, or payload_base64 where it is not UTF-8.
    """
    if follow and as_json:
        raise click.UsageError("--follow has no end, so it cannot print one JSON document")
    config = SimpleConsumerConfig.from_sources(environ=os.environ)
    with SimpleConsumer.of(broker, config) as consumer:
        if isinstance(offset, str):
            check_partition(consumer, topic, partition)
            offset = consumer.get_offsets_before(topic, partition, _WORDS[offset], 1)[0]
        messages = islice(_messages(consumer, topic, partition, offset, fetch_size, follow), max_messages)
        if as_json:
            show_json_list(_as_object(message) for message in messages)
            return
        write = sys.stdout.buffer.write
        for message in messages:
            write(message.payload + b"\n")


def _messages(
    consumer: SimpleConsumer, topic: str, partition: int, offset: int, fetch_size: int | None, follow: bool
) -> Iterator[Message]:
    while True:
        start = offset
        for message in consumer.fetch(topic, partition, offset, fetch_size):
            yield message
            offset = message.next_offset
        if offset == start:
            if not follow:
                return
            sys.stdout.flush()
            time.sleep(_IDLE_INTERVAL_S)


def _as_object(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "next_offset": message.next_offset,
        "index_in_set": message.index_in_set,
    }
    try:
        found["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        found["payload_base64"] = base64.b64encode(message.payload).decode()
    return found
