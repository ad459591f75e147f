"""Asking a broker about one partition: whether it is there, where it begins and ends, where messages start.

No request of the protocol asks a broker for its partitions, but a fetch of no bytes says whether one is wrong, on
brokers of 0.7 too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import InvalidMessageError, InvalidMessageSizeError, OffsetOutOfRangeError, WrongPartitionError
from kafka2011.message.topic import partition_text
from kafka2011.wire.protocol import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zk.cluster import Broker

ASK_TIMEOUT_MS = 5000
_ASKED_AT_ONCE = 64
_MOST_PARTITIONS = 2**20
_AFTER_EVERYTHING_MS = 2**62
_MESSAGE_FETCH_BYTES = 64 * 1024


def asking(broker: Broker, timeout_ms: int = ASK_TIMEOUT_MS) -> SimpleConsumer:
    """Return a consumer for asking a broker, which may be away: it does not wait long."""
    return SimpleConsumer.of(broker, {"socket.timeout.ms": timeout_ms})


def ends_of(consumer: SimpleConsumer, topic: str, partition: int) -> tuple[int, int]:
    """Ask a broker for the first offset and the flushed end of a partition."""
    earliest, latest = (consumer.get_offsets_before(topic, partition, end, 1)[0] for end in (EARLIEST, LATEST))
    return earliest, latest


def ends_of_many(consumer: SimpleConsumer, partitions: Sequence[tuple[str, int]]) -> Iterator[tuple[int, int]]:
    """Ask the same for many partitions, in order, so many at a time."""
    for start in range(0, len(partitions), _ASKED_AT_ONCE):
        its = partitions[start : start + _ASKED_AT_ONCE]
        answers = consumer.get_many_offsets_before((*where, end, 1) for where in its for end in (EARLIEST, LATEST))
        offsets = [answer[0] for answer in answers]
        yield from zip(offsets[::2], offsets[1::2], strict=True)


def offset_before(consumer: SimpleConsumer, topic: str, partition: int, time_ms: int) -> int:
    """Ask where the newest segment from before a time starts; a time before everything means the beginning."""
    offsets = consumer.get_offsets_before(topic, partition, time_ms, 1)
    return offsets[0] if offsets else ends_of(consumer, topic, partition)[0]


def fault_of_offset(consumer: SimpleConsumer, topic: str, partition: int, offset: int) -> str | None:
    """Say what keeps a consumer from going on at an offset; None if it can."""
    where = partition_text(topic, consumer.broker_id, partition)
    earliest, latest = ends_of(consumer, topic, partition)
    if not earliest <= offset <= latest:
        return f"offset {offset} is not in {where}, which holds {earliest} to {latest}"
    try:
        next(iter(consumer.fetch(topic, partition, offset, _MESSAGE_FETCH_BYTES)), None)
    except InvalidMessageError:
        return f"no message of {where} starts at offset {offset}"
    except InvalidMessageSizeError:
        pass  # it may be a message that is larger than what was fetched of it
    return None


def has_log(consumer: SimpleConsumer, topic: str, partition: int) -> bool:
    """Say whether anything was ever sent to a partition: a broker knows no topic before that."""
    return bool(consumer.get_offsets_before(topic, partition, _AFTER_EVERYTHING_MS, 1))


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


def count_on(broker: Broker, topic: str) -> int:
    """Find the same of a broker that is not connected."""
    with asking(broker) as consumer:
        return count_partitions(consumer, topic)


def _has_partition(consumer: SimpleConsumer, topic: str, partition: int) -> bool:
    try:
        check_partition(consumer, topic, partition)
    except WrongPartitionError:
        return False
    return True
