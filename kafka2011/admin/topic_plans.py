"""What only an operator can do to a topic, since no request of Kafka 0.7 does: the steps, and whom they affect."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from kafka2011.admin.groups import Groups
from kafka2011.admin.partitions import asking, count_partitions
from kafka2011.admin.topics import describe_topic, living_partitions
from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zk.client import ZkClient
    from zk.cluster import Broker


def plan_of_deletion(client: ZkClient, topic: str) -> Iterator[str]:
    """Yield the steps that delete a topic with what it holds. Raises KafkaError: unknown."""
    held: defaultdict[str, int] = defaultdict(int)
    for where, broker, earliest, latest in describe_topic(client, topic):
        name = f"broker {where.broker_id}" + ("" if broker is None else f" ({broker.address})")
        held[name] += 0 if earliest is None or latest is None else latest - earliest
    yield f"stop what publishes to {topic}, mirrors included: a single message makes it anew"
    groups = Groups(client)
    readers = [group for group in groups.names() if topic in groups.topics(group)]
    if readers:
        yield f"stop the groups that read it, {', '.join(readers)}: what they have not consumed is gone"
    for name, size_bytes in held.items():
        yield f"on {name}: stop the broker, remove {topic}-* from its log.dir ({size_bytes:,} bytes), start it again"
    yield "the same on each broker that is away, before it starts: it would bring its part of the topic back"
    for group in readers:
        yield (
            f"should the topic come again, its offsets begin at 0: then kafka2011 groups reset --group {group}"
            f" --topic {topic} --to earliest, before the group reads"
        )


def plan_of_growth(client: ZkClient, topic: str, partitions: int) -> Iterator[str]:
    """Yield the steps that give a topic so many partitions on each broker that has it; none when it has them.

    Raises KafkaError: unknown, or a broker has more, since no log is taken away.
    """
    of_brokers: dict[int, Broker] = {where.broker_id: each for where, each in living_partitions(client, topic).items()}
    too_few: dict[Broker, int] = {}
    for broker in of_brokers.values():
        with asking(broker) as consumer:
            count = count_partitions(consumer, topic)
        if count > partitions:
            raise KafkaError(
                f"broker {broker.id} has {count} partitions of topic {topic}: fewer would hide logs that hold messages"
            )
        if count < partitions:
            too_few[broker] = count
    for broker, count in too_few.items():
        yield (
            f"on broker {broker.id} ({broker.address}), which has {count}: add {topic}:{partitions} to"
            " topic.partition.count.map, and start it again"
        )
    if too_few:
        yield (
            "keys then go to other partitions than before: their order holds within what was sent before, and within"
            " what is sent after"
        )
        yield (
            "groups divide the new partitions by themselves; with autooffset.newpartitions=smallest they miss nothing"
            " of what is sent before they notice, else autooffset.reset says where they begin"
        )
