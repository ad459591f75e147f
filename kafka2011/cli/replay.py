"""`kafka2011 replay`."""

from __future__ import annotations

import os
from contextlib import ExitStack

import click

from kafka2011.admin.partition_cursor import PartitionCursor, open_cursors
from kafka2011.admin.partitions import ends_of
from kafka2011.cli.mirror import MB, copied
from kafka2011.cli.options import (
    consumer_property_option,
    examples,
    producer_property_option,
    read_target,
    read_zk_connect,
    refuse_properties,
    skip_refused_option,
    zookeeper_option,
)
from kafka2011.cli.partitions import Wanted, find_partitions, partitions_option
from kafka2011.cli.progress import told_progress
from kafka2011.cli.session import open_session
from kafka2011.cli.stopping import stop_signals
from kafka2011.config import SimpleConsumerConfig
from kafka2011.message.topic import validate_topic
from kafka2011.mirror.replay import ReplayRange, replay
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition


@click.command(
    "replay",
    epilog=examples(
        "kafka2011 replay views --to-topic views-again",
        "kafka2011 replay views --from -2d --until yesterday --to staging:2181 --delay-ms 100",
        "kafka2011 replay views --partition 0-1 --from 4711 --max-messages 1000 --to-topic views",
    ),
)
@click.argument("topic")
@zookeeper_option
@partitions_option
@click.option(
    "--from",
    "start",
    type=read_target,
    default="earliest",
    show_default=True,
    metavar="earliest|TIME|OFFSET",
    help="Where to begin. A time means the newest segment from before it; an offset needs one --partition.",
)
@click.option(
    "--until",
    "end",
    type=read_target,
    default="latest",
    show_default=True,
    metavar="latest|TIME|OFFSET",
    help="Where to end. A value means the same place as with --from.",
)
@click.option("--to-topic", metavar="TOPIC", help="The topic to publish to.  [default: the same name, with --to]")
@click.option(
    "--to",
    "target",
    type=read_zk_connect,
    metavar="HOST:PORT",
    help="ZooKeeper's servers of the cluster to publish into.  [default: the same, with --to-topic]",
)
@click.option(
    "--max-messages", type=click.IntRange(min=1), help="Stop after this many messages; a compressed set counts as one."
)
@click.option(
    "--delay-ms",
    type=click.IntRange(0, 3_600_000),
    default=0,
    show_default=True,
    help="A pause after each set of up to fetch.size bytes.",
)
@skip_refused_option
@consumer_property_option
@producer_property_option
def command(
    topic: str,
    zk_connect: str,
    partitions: tuple[Wanted, ...],
    start: int | str,
    end: int | str,
    to_topic: str | None,
    target: str | None,
    max_messages: int | None,
    delay_ms: int,
    skip_refused: bool,
    consumer_properties: tuple[str, ...],
    producer_properties: tuple[str, ...],
) -> None:
    """Publish a topic's stored messages again, into another topic or cluster.

    The replay stops at --until, or where each partition ended when it began, once everything is confirmed. To replay a
    topic into itself, name it with --to-topic. Compressed sets pass unopened. Progress is not saved.
    """
    if to_topic is None and target is None:
        raise click.UsageError("give --to-topic, which may be the same topic, or --to")
    for option, place in (("--from", start), ("--until", end)):
        if isinstance(place, int) and len(partitions) != 1:
            raise click.UsageError(f"{option} {place}: an offset belongs to one partition: name it with --partition")
    validate_topic(to_topic or topic)
    from kafka2011.mirror.forwarder import Forwarder
    from kafka2011.mirror.target import CHOSEN, Target, target_config

    refuse_properties(producer_properties, {"zk.connect": "--to"}, fixed=CHOSEN)
    config = SimpleConsumerConfig.from_sources(
        environ=os.environ, overrides=consumer_properties, option="--consumer-property"
    )
    errors: list[Exception] = []
    with stop_signals() as stop, ExitStack() as stack:

        def fail(_: TopicPartition, error: Exception) -> None:
            errors.append(error)
            stop.set()

        registered = _registered(topic, zk_connect)
        cursors = open_cursors(stack, topic, find_partitions(topic, None, zk_connect, partitions), config)
        ranges = [_range(cursor, start, end) for cursor in cursors]
        into = target_config(target or zk_connect, producer_properties, os.environ)
        forwarder = Forwarder(
            stack.enter_context(Target(into, stop=stop)),
            lambda _: registered,
            stop=stop,
            failed=fail,
            to_topic=to_topic,
            skip_refused=skip_refused,
        )
        of_mb = sum(planned.end_offset - planned.offset for planned in ranges) / MB
        stack.enter_context(
            told_progress(lambda: f"replayed {copied(forwarder.counts.as_dict())}, of {of_mb:,.1f} MB of the log")
        )
        replay(
            ranges, forwarder, fetch_bytes=config.fetch_size, stop=stop, max_messages=max_messages, delay_ms=delay_ms
        )
        if errors:
            raise errors[0]
        early = ", and was stopped before the end" if stop.is_set() else ""
        click.echo(f"replayed {copied(forwarder.counts.as_dict())} from {topic} into {to_topic or topic}{early}")


def _registered(topic: str, zk_connect: str) -> list[TopicPartition]:
    with open_session(zk_connect) as client:
        return TopicPartition.all_of(topic, BrokerRegistry(client).partitions_of(topic))


def _range(cursor: PartitionCursor, start: int | str, end: int | str) -> ReplayRange:
    """Return what a partition holds now between two places. Raises KafkaError for an offset that is not there."""
    consumer = cursor.consumer
    assert consumer.broker_id is not None
    where = TopicPartition(cursor.topic, consumer.broker_id, cursor.partition)
    _, end_offset = ends_of(consumer, cursor.topic, cursor.partition)
    cursor.go_to(end)
    end_offset = min(end_offset, cursor.offset)
    cursor.go_to(start)
    return ReplayRange(where, consumer, cursor.offset, end_offset)
