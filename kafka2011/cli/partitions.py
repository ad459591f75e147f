"""Finds the partitions that a command means: those registered in ZooKeeper, or those of the broker it names."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import click

from kafka2011.admin.groups import MisplacedOffsetsError
from kafka2011.admin.topics import living_partitions
from kafka2011.cli.output import show_table
from kafka2011.cli.session import open_session
from kafka2011.errors import WrongPartitionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zk.cluster import Broker, TopicPartition

_PARTITION = re.compile(r"(?:([0-9]{1,10})-)?([0-9]{1,10})")


class Wanted(NamedTuple):
    """A partition as one calls it: 0-1 with its broker, or 1 where that is clear."""

    broker_id: int | None
    number: int

    def __str__(self) -> str:
        return str(self.number) if self.broker_id is None else f"{self.broker_id}-{self.number}"


def _read_partition(text: str) -> Wanted:
    match = _PARTITION.fullmatch(text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not a partition: write 0-1 (broker and number), or 1")
    return Wanted(None if match[1] is None else int(match[1]), int(match[2]))


partitions_option = click.option(
    "--partition",
    "partitions",
    multiple=True,
    type=_read_partition,
    metavar="[BROKER-]NUMBER",
    help="The partition, as 0-1 for number 1 of broker 0; may be given many times."
    "  [default: all of them; with --broker 0]",
)


def find_partitions(
    topic: str, broker: Broker | None, zk_connect: str, wanted: tuple[Wanted, ...]
) -> list[tuple[Broker, int]]:
    """Return the partitions that are wanted, all without any, with their brokers. Raises KafkaError."""
    if broker is None:
        return _registered(topic, zk_connect, wanted)
    named = [str(partition) for partition in wanted if partition.broker_id is not None]
    if named:
        raise click.UsageError(f"--partition {named[0]} names a broker as --broker does: give its number alone")
    return [(broker, number) for number in sorted({partition.number for partition in wanted} or {0})]


def _registered(topic: str, zk_connect: str, wanted: tuple[Wanted, ...]) -> list[tuple[Broker, int]]:
    with open_session(zk_connect) as client:
        living = living_partitions(client, topic)
    partitions = list(living)
    chosen = (
        [where for partition in wanted for where in _matching(topic, partition, partitions)] if wanted else partitions
    )
    return [(living[where], where.partition) for where in sorted(set(chosen))]


def _matching(topic: str, wanted: Wanted, partitions: list[TopicPartition]) -> list[TopicPartition]:
    matching = [
        where
        for where in partitions
        if where.partition == wanted.number and wanted.broker_id in {None, where.broker_id}
    ]
    if not matching:
        names = ", ".join(where.znode_name for where in partitions)
        raise WrongPartitionError(f"topic {topic} has no partition {wanted}; there are {names}")
    if len(matching) > 1:
        names = ", ".join(where.znode_name for where in matching)
        raise WrongPartitionError(f"topic {topic} has more than one partition {wanted}: give one of {names}")
    return matching


@contextmanager
def misplaced_shown(*, as_json: bool = False) -> Iterator[None]:
    """Show which offsets do not belong where they should go, if there are several; the error names the first."""
    try:
        yield
    except MisplacedOffsetsError as error:
        if len(error.faults) > 1:
            rows = [(str(where), fault) for where, fault in error.faults.items()]
            show_table(("partition", "fault"), rows, as_json=as_json)
        raise
