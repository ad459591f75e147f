"""`kafka2011 topics`."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import click

from kafka2011.cli.options import zookeeper_option
from kafka2011.cli.output import json_option, show_table
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import KafkaError
from kafka2011.producer.sync_producer import SyncProducer
from kafka2011.protocol import EARLIEST, LATEST
from kafka2011.topic import validate_topic
from zk.brokers import BrokerRegistry
from zk.client import connect
from zk.cluster import Partition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zk.cluster import Broker

logger = logging.getLogger(__name__)

_REGISTER_TIMEOUT_S = 10.0
_POLL_S = 0.05
_ASK_TIMEOUT_MS = 5000


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
        (topic, Partition(broker_id, number).name, None if broker is None else f"{broker.host}:{broker.port}", *ends)
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
            with SimpleConsumer(broker.host, broker.port, {"socket.timeout.ms": _ASK_TIMEOUT_MS}) as consumer:
                for number in range(partitions):
                    earliest, latest = (
                        consumer.get_offsets_before(topic, number, end, 1)[0] for end in (EARLIEST, LATEST)
                    )
                    yield earliest, latest
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
    validate_topic(topic)
    with connect(zk_connect) as client:
        registry = BrokerRegistry(client)
        live = registry.brokers()
        missing = [number for number in ids or () if number not in live]
        if missing or not live:
            names = ", ".join(map(str, missing)) or "of any number"
            raise KafkaError(f"broker {names} is not registered at {zk_connect}")
        chosen = [live[number] for number in sorted(set(ids))] if ids else list(live.values())
        for broker in chosen:
            with SyncProducer(broker.host, broker.port) as producer:
                producer.send(topic, [])
        partitions = _await_registration(registry, topic, chosen)
    rows = [(topic, broker.id, f"{broker.host}:{broker.port}", partitions[broker.id]) for broker in chosen]
    show_table(("topic", "broker", "address", "partitions"), rows, as_json=as_json)


def _await_registration(registry: BrokerRegistry, topic: str, brokers: Sequence[Broker]) -> dict[int, int]:
    deadline_s = time.monotonic() + _REGISTER_TIMEOUT_S
    while True:
        partitions = registry.partitions_of(topic)
        missing = [str(broker.id) for broker in brokers if broker.id not in partitions]
        if not missing:
            return partitions
        if time.monotonic() > deadline_s:
            raise KafkaError(
                f"topic {topic} was not registered by broker {', '.join(missing)} within {_REGISTER_TIMEOUT_S:g} s"
            )
        time.sleep(_POLL_S)
