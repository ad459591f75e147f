"""`kafka2011 topics`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafka2011.admin.topic_plans import plan_of_deletion, plan_of_growth
from kafka2011.admin.topics import create_topic, describe_topic
from kafka2011.cli.command_group import CommandGroup
from kafka2011.cli.options import examples, zookeeper_option
from kafka2011.cli.output import json_option, show_table
from kafka2011.cli.session import open_session
from kafka2011.message.topic import validate_topic
from zk.brokers import BrokerRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zk.client import ZkClient


@click.group("topics", cls=CommandGroup, default="list")
def command() -> None:
    """List, describe and create topics, and say how to grow and delete them.

    `kafka2011 topics` is short for `kafka2011 topics list`.
    """


@command.command("list", epilog=examples("kafka2011 topics list --json"))
@zookeeper_option
@json_option
def list_topics(zk_connect: str, as_json: bool) -> None:
    """List all topics that were ever registered.

    Brokers and partitions are the ones live now.
    """
    with open_session(zk_connect) as client:
        registry = BrokerRegistry(client)
        found = {topic: registry.partitions_of(topic) for topic in registry.topics()}
    rows = [(topic, len(partitions), sum(partitions.values())) for topic, partitions in found.items()]
    show_table(("topic", "brokers", "partitions"), rows, as_json=as_json)


@command.command("describe", epilog=examples("kafka2011 topics describe", "kafka2011 topics describe views --json"))
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@zookeeper_option
@json_option
def describe(topics: tuple[str, ...], zk_connect: str, as_json: bool) -> None:
    """Show the partitions of topics: broker, address, first offset and end.

    Without a topic it shows all. Offsets come from the broker; none are shown if it does not answer.
    """
    with open_session(zk_connect) as client:
        found = [each for topic in topics or BrokerRegistry(client).topics() for each in describe_topic(client, topic)]
    rows = [
        (
            where.topic,
            where.znode_name,
            where.broker_id,
            None if broker is None else broker.address,
            earliest,
            latest,
        )
        for where, broker, earliest, latest in found
    ]
    show_table(("topic", "partition", "broker", "address", "earliest", "latest"), rows, as_json=as_json)


def _read_ids(_context: click.Context, _parameter: click.Parameter, text: str | None) -> list[int] | None:
    try:
        return None if text is None else [int(number) for number in text.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a list of broker ids like 0,1,2") from error


@command.command(
    "create",
    epilog=examples("kafka2011 topics create views", "kafka2011 topics create views --brokers 0,2 --partitions 4"),
)
@click.argument("topic")
@zookeeper_option
@click.option(
    "--brokers", "ids", callback=_read_ids, metavar="ID,ID", help="Where to create it.  [default: on all live brokers]"
)
@click.option(
    "--partitions",
    type=click.IntRange(1),
    help="Fail, and create nothing, unless every broker's settings make this many.",
)
@json_option
def create(topic: str, zk_connect: str, ids: list[int] | None, partitions: int | None, as_json: bool) -> None:
    """Create a topic on brokers, or extend it to more of them.

    Sends each broker an empty set, which creates the topic there, even on brokers of 0.7, and waits until it is
    registered. The number of partitions is a setting of the broker, topic.partition.count.map=views:4 or
    num.partitions=4; no request can set it.
    """
    validate_topic(topic)  # before anything is asked
    with open_session(zk_connect) as client:
        created = create_topic(client, topic, ids, partitions=partitions)
    rows = [(topic, broker.id, broker.address, count) for broker, count in created]
    show_table(("topic", "broker", "address", "partitions"), rows, as_json=as_json)


@command.command("delete", epilog=examples("kafka2011 topics delete views"))
@click.argument("topic")
@zookeeper_option
def delete(topic: str, zk_connect: str) -> None:
    """Say how to delete a topic, and whom that affects; it changes nothing.

    Kafka 0.7 has no request for it: brokers keep what they have, and register it again when they start.
    """
    _show_plan(zk_connect, lambda client: plan_of_deletion(client, topic))


@command.command("grow", epilog=examples("kafka2011 topics grow views --partitions 8"))
@click.argument("topic")
@click.option("--partitions", type=click.IntRange(1), required=True, help="How many each broker is to have.")
@zookeeper_option
def grow(topic: str, partitions: int, zk_connect: str) -> None:
    """Say how to give a topic more partitions, and whom that affects; it changes nothing.

    Their number is a setting of each broker. `topics create` extends a topic to more brokers.
    """
    _show_plan(zk_connect, lambda client: plan_of_growth(client, topic, partitions))


def _show_plan(zk_connect: str, plan: Callable[[ZkClient], Iterable[str]]) -> None:
    with open_session(zk_connect) as client:
        steps = list(plan(client))
    for number, step in enumerate(steps, 1):
        click.echo(f"{number}. {step}")
    if not steps:
        click.echo("nothing to do")
