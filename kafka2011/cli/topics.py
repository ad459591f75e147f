"""`kafka2011 topics`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafka2011.admin.topic_changes import delete_topic
from kafka2011.admin.topic_growth import grow_topic
from kafka2011.admin.topics import create_topic, describe_topics
from kafka2011.cli.command_group import CommandGroup
from kafka2011.cli.options import examples, zookeeper_option
from kafka2011.cli.output import confirm, json_option, show_table
from kafka2011.cli.session import open_session
from kafka2011.errors import KafkaError
from kafka2011.message.topic import validate_topic
from zk.brokers import BrokerRegistry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka2011.admin.topic_changes import TopicDeletion
    from kafka2011.admin.topic_growth import BrokerChange


@click.group("topics", cls=CommandGroup, default="list")
def command() -> None:
    """List, describe, create, grow and delete topics.

    `kafka2011 topics` is short for `kafka2011 topics list`.
    """


@command.command("list", epilog=examples("kafka2011 topics list --json"))
@zookeeper_option
@json_option
def list_topics(zk_connect: str, as_json: bool) -> None:
    """List all topics that were ever registered.

    Brokers and partitions are those that are live now.
    """
    with open_session(zk_connect) as client:
        registry = BrokerRegistry(client)
        counts = registry.partitions_of_many(registry.topics())
    rows = [(topic, len(partitions), sum(partitions.values())) for topic, partitions in counts.items()]
    show_table(("topic", "brokers", "partitions"), rows, as_json=as_json)


@command.command("describe", epilog=examples("kafka2011 topics describe", "kafka2011 topics describe views --json"))
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@zookeeper_option
@json_option
def describe(topics: tuple[str, ...], zk_connect: str, as_json: bool) -> None:
    """Show the partitions of topics: broker, address, first offset and end.

    Without a topic it shows all. Offsets come from the broker; if it does not answer, none are shown.
    """
    with open_session(zk_connect) as client:
        partitions = describe_topics(client, topics)
    rows = [
        (
            where.topic,
            where.znode_name,
            where.broker_id,
            None if broker is None else broker.address,
            earliest,
            latest,
        )
        for where, broker, earliest, latest in partitions
    ]
    show_table(("topic", "partition", "broker", "address", "earliest", "latest"), rows, as_json=as_json)


def _read_ids(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a list of broker ids like 0,1,2") from error


_in_all_option = click.option(
    "--partitions", type=click.IntRange(1), help="The number of partitions in all, spread evenly over the brokers."
)
_per_broker_option = click.option(
    "--per-broker", type=click.IntRange(1), help="The number of partitions on each broker."
)
_ONE_NUMBER = "--partitions is the number in all, --per-broker the number on each broker: give one of them"


@command.command(
    "create",
    epilog=examples(
        "kafka2011 topics create views --partitions 4",
        "kafka2011 topics create views --brokers 0,2 --per-broker 4",
    ),
)
@click.argument("topic")
@zookeeper_option
@click.option(
    "--brokers", "ids", type=_read_ids, metavar="ID,ID", help="Where to create it.  [default: on all live brokers]"
)
@_in_all_option
@_per_broker_option
@json_option
def create(
    topic: str,
    zk_connect: str,
    ids: list[int] | None,
    partitions: int | None,
    per_broker: int | None,
    as_json: bool,
) -> None:
    """Create a topic on brokers, or extend it to more of them, and wait until it is registered.

    With --partitions or --per-broker it has exactly this number, or the command fails and leaves nothing behind. Kafka
    0.7 makes only the number of its settings (topic.partition.count.map=views:4 or num.partitions=4); such brokers take
    part if it is their share. Without either option, each broker makes the number of its settings.
    """
    validate_topic(topic)  # before anything is asked
    if partitions is not None and per_broker is not None:
        raise click.UsageError(_ONE_NUMBER)
    with open_session(zk_connect) as client:
        created = create_topic(client, topic, ids, partitions=partitions, per_broker=per_broker)
    rows = [(topic, broker.id, broker.address, count) for broker, count in created]
    show_table(("topic", "broker", "address", "partitions"), rows, as_json=as_json)


@command.command(
    "grow",
    epilog=examples(
        "kafka2011 topics grow views --partitions 8",
        "kafka2011 topics grow views --per-broker 4 --dry-run",
    ),
)
@click.argument("topic")
@_in_all_option
@_per_broker_option
@click.option(
    "--brokers",
    "ids",
    type=_read_ids,
    metavar="ID,ID",
    help="Which brokers may get new partitions, with --partitions.  [default: all live brokers]",
)
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@zookeeper_option
@json_option
def grow(
    topic: str,
    partitions: int | None,
    per_broker: int | None,
    ids: list[int] | None,
    dry_run: bool,
    zk_connect: str,
    as_json: bool,
) -> None:
    """Give a topic more partitions while it runs: --partitions in all, or --per-broker on each broker that has it.

    With --partitions, new partitions go to the brokers with the fewest, also to brokers without the topic. Partitions
    of brokers that are down count. The numbers survive restarts and override the brokers' settings. Keys then choose
    among more partitions, so some move; groups divide the new partitions without a restart. 0.7 brokers do not change.
    If such a broker would have to, with --per-broker, the exit status is 1.
    """
    if (partitions is None) == (per_broker is None):
        raise click.UsageError(_ONE_NUMBER)
    if ids and partitions is None:
        raise click.UsageError(
            "--brokers can be used with --partitions only: --per-broker changes all brokers that have the topic"
        )
    with open_session(zk_connect) as client:
        changes = grow_topic(client, topic, partitions, ids, per_broker=per_broker, dry_run=dry_run)
    if partitions is not None and len(changes) > 1:
        click.echo(
            f"--partitions {partitions} means {partitions} in all. Before this version it meant {partitions} on each"
            f" broker, which is --per-broker {partitions} now",
            err=True,
        )
    rows = [(change.broker_id, _address_of(change), change.partitions, change.outcome) for change in sorted(changes)]
    show_table(("broker", "address", "partitions", "outcome"), rows, as_json=as_json)
    _fail_unless_done(changes, f"topic {topic} has not grown")


@command.command(
    "delete",
    epilog=examples("kafka2011 topics delete views --dry-run", "kafka2011 topics delete views --yes"),
)
@click.argument("topic")
@click.option(
    "--offsets/--keep-offsets",
    default=True,
    show_default=True,
    help="Also remove the groups' offsets, once no member owns the partitions.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@zookeeper_option
@json_option
def delete(topic: str, offsets: bool, yes: bool, dry_run: bool, zk_connect: str, as_json: bool) -> None:
    """Delete a topic with all its messages, on all brokers, while they run.

    It shows who is affected, and asks for confirmation. A broker that is down deletes the topic when it starts. 0.7
    brokers keep it, and the exit status is then 1. First stop everything that publishes to the topic, mirrors included:
    a single message recreates it, at offset 0.
    """
    with open_session(zk_connect) as client:
        plan = delete_topic(client, topic, dry_run=True)
        if dry_run or not as_json:
            _show_deletion(plan, as_json=as_json)
            _warn_of_deletion(topic, plan, offsets=offsets)
        if dry_run:
            return
        if not yes:
            confirm(f"delete topic {topic}?", "deleted")
        done = delete_topic(client, topic, offsets=offsets)
    _show_deletion(done, as_json=as_json)
    if done.again:
        ids = ", ".join(map(str, done.again))
        raise KafkaError(f"topic {topic} was deleted, but broker {ids} has it again: something publishes to it")
    _fail_unless_done(done.brokers, f"topic {topic} is not deleted")


def _show_deletion(deletion: TopicDeletion, *, as_json: bool) -> None:
    rows = [
        (change.broker_id, _address_of(change), change.partitions, change.size_bytes, change.outcome)
        for change in deletion.brokers
    ]
    show_table(("broker", "address", "partitions", "bytes", "outcome"), rows, as_json=as_json)


def _warn_of_deletion(topic: str, plan: TopicDeletion, *, offsets: bool) -> None:
    """Say what becomes of those who use the topic."""
    click.echo(f"the next message to {topic} recreates it, at offset 0", err=True)
    for group in plan.readers:
        what = "are removed" if offsets else "stay; they are wrong for a new topic of that name"
        click.echo(f"group {group} loses what it has not consumed; its offsets {what}", err=True)


def _address_of(change: BrokerChange) -> str | None:
    return None if change.broker is None else change.broker.address


def _fail_unless_done(changes: Iterable[BrokerChange], what: str) -> None:
    left = [str(change.broker_id) for change in changes if not change.is_done]
    if left:
        raise KafkaError(f"{what} on broker {', '.join(left)}")
