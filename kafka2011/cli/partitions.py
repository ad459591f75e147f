"""Which partitions a broker has for a topic, asked of the broker itself.

No request of the protocol asks for that, but a fetch of no bytes says whether one partition is wrong, on brokers of 0.7
too, and whether the topic is known to the broker or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.errors import OffsetOutOfRangeError, WrongPartitionError

if TYPE_CHECKING:
    from kafka2011.consumer.simple_consumer import SimpleConsumer

_MOST_PARTITIONS = 2**20


def check_partition(consumer: SimpleConsumer, topic: str, partition: int) -> None:
    """Raise WrongPartitionError unless the broker has this partition, or would have it.

    Worth asking before an offsets request, which a broker answers for a wrong partition by closing the connection.
    """
    try:
        consumer.fetch(topic, partition, 0, 0)
    except WrongPartitionError:
        raise WrongPartitionError(f"the broker has no partition {partition} of topic {topic}") from None
    except OffsetOutOfRangeError:
        return  # its first segments are gone, so it is there


def count_partitions(consumer: SimpleConsumer, topic: str) -> int:
    """Find the number of partitions that the broker has, or would have, for a topic."""
    there, wrong = -1, 0
    while wrong < _MOST_PARTITIONS and _has_partition(consumer, topic, wrong):
        there, wrong = wrong, 2 * wrong + 1
    while wrong - there > 1:
        middle = (there + wrong) // 2
        if _has_partition(consumer, topic, middle):
            there = middle
        else:
            wrong = middle
    return there + 1


def _has_partition(consumer: SimpleConsumer, topic: str, partition: int) -> bool:
    try:
        check_partition(consumer, topic, partition)
    except WrongPartitionError:
        return False
    return True
