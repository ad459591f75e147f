"""`kafka2011 offsets`."""

from __future__ import annotations

import os
from datetime import datetime

import click

from kafka2011.cli.options import Address, broker_option
from kafka2011.cli.output import json_option, show_table
from kafka2011.cli.partitions import check_partition
from kafka2011.config import SimpleConsumerConfig
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.protocol import EARLIEST, LATEST

_WORDS = {"latest": LATEST, "earliest": EARLIEST}


def _read_time(_context: click.Context, _parameter: click.Parameter, text: str) -> int:
    if text in _WORDS:
        return _WORDS[text]
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is neither latest, earliest, milliseconds nor an ISO 8601 time") from error


@click.command("offsets")
@click.argument("topic")
@broker_option
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    default=(0,),
    show_default=True,
    help="The partition; may be given many times.",
)
@click.option(
    "--time",
    "time_ms",
    callback=_read_time,
    default="latest",
    show_default=True,
    metavar="TIME",
    help="latest, earliest, milliseconds since 1970 or an ISO 8601 time: offsets from before it.",
)
@click.option(
    "--max-count", type=click.IntRange(1), default=1, show_default=True, help="How many offsets, newest first."
)
@json_option
def command(
    topic: str, broker: Address, partitions: tuple[int, ...], time_ms: int, max_count: int, as_json: bool
) -> None:
    """Show where a partition ends, begins, or stood at some time.

    Between its end and its beginning a broker knows the offsets at which segments start, and when these were last
    written to: nothing finer.
    """
    config = SimpleConsumerConfig.from_sources(environ=os.environ)
    with SimpleConsumer(broker.host, broker.port, config) as consumer:
        rows: list[tuple[str, int, int]] = []
        for partition in partitions:
            check_partition(consumer, topic, partition)
            offsets = consumer.get_offsets_before(topic, partition, time_ms, max_count)
            rows += ((topic, partition, offset) for offset in offsets)
    show_table(("topic", "partition", "offset"), rows, as_json=as_json)
