"""`kafka2011 topics`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import click

from kafka2011.admin.topics import asking, create_topic, ends_of
from kafka2011.cli.options import zookeeper_option
from kafka2011.cli.output import json_option, show_table
from kafka2011.errors import KafkaError
from kafka2011.topic import validate_topic
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zk.cluster import Broker

logger = logging.getLogger(__name__)


@click.group("topics")
def command() -> None:
    """List, describe and create topics."""


@command.command("list")
@zookeeper_option
@json_option
def list_topics(zk_connect: str, as_json: bool) -> None:
    """List all topics that were ever registered.

    Brokers and partitions are those that live now.
    """
    with connect(zk_connect) as client:
        registry = BrokerRegistry(client)
        found = {topic: registry.partitions_of(topic) for topic in registry.topics()}
    rows = [(topic, len(partitions), sum(partitions.values())) for topic, partitions in found.items()]
    show_table(("topic", "brokers", "partitions"), rows, as_json=as_json)


@command.command("describe")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@zookeeper_option
@json_option
def describe(topics: tuple[str, ...], zk_connect: str, as_json: bool) -> None:
    """Show the partitions of topics: broker, address, first offset and end.

    Without a topic it shows all. Offsets are what the broker answers; none are shown where it does not.
    """
    with connect(zk_connect) as client:
        registry = BrokerRegistry(client)
        brokers = registry.brokers()
        known = registry.topics()
        for topic in topics:
            if topic not in known:
                raise KafkaError(f"topic {topic} is not registered at {zk_connect}")
        found = {topic: registry.partitions_of(topic) for topic in topics or known}
    rows = [
        (topic, TopicPartition(topic, broker_id, number).znode_name, None if broker is None else broker.address, *ends)
        for topic, counts in found.items()
        for broker_id, count in counts.items()
        for broker in (brokers.get(broker_id),)
        for number, ends in enumerate(_ends(topic, broker, count))
    ]
    show_table(("topic", "partition", "broker", "earliest", "latest"), rows, as_json=as_json)


def _ends(topic: str, broker: Broker | None, partitions: int) -> Iterator[tuple[int | None, int | None]]:
    """Ask a broker for the first offset and the end of each partition."""
    answered = 0
    if broker is not None:
        try:
            with asking(broker) as consumer:
                for number in range(partitions):
                    yield ends_of(consumer, topic, number)
                    answered += 1
        except KafkaError as error:
            logger.warning("broker %d does not tell the offsets of %s: %s", broker.id, topic, error)
    for _ in range(answered, partitions):
        yield None, None


def _read_ids(_context: click.Context, _parameter: click.Parameter, text: str | None) -> list[int] | None:
    try:
        return None if text is None else [int(number) for number in text.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a list of broker ids like 0,1,2") from error


@command.command("create")
@click.argument("topic")
@zookeeper_option
@click.option(
    "--brokers", "ids", callback=_read_ids, metavar="ID,ID", help="Where to create it.  [default: on all live brokers]"
)
@json_option
def create(topic: str, zk_connect: str, ids: list[int] | None, as_json: bool) -> None:
    """Create a topic on brokers, or extend it to more of them.

    Sends each broker an empty set, which makes the topic there with as many partitions as the broker's settings say,
    on brokers of 0.7 too, and waits until it is registered.
    """
    validate_topic(topic)  # before anything is asked
    with connect(zk_connect) as client:
        created = create_topic(client, topic, ids)
    rows = [(topic, broker.id, broker.address, partitions) for broker, partitions in created]
    show_table(("topic", "broker", "address", "partitions"), rows, as_json=as_json)
