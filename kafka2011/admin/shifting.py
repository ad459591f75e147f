"""Where a partition's messages start, some before or after one of them.

Forward is easy: each tells where the next one starts. Nothing tells where the one before starts, so that takes a walk
from the beginning of a segment. A compressed set is one message here: there are no offsets inside it.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from kafka2011.admin.partitions import ends_of
from kafka2011.message.message_set import decode_shallow
from kafka2011.wire.protocol import LATEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.consumer.simple_consumer import SimpleConsumer
    from zk.cluster import TopicPartition

_MANY_SEGMENTS = 1_000_000


def shifted(consumer: SimpleConsumer, where: TopicPartition, offset: int, messages: int) -> int:
    """Return the offset so many messages after another, or before it if negative, as far as the partition goes.

    Raises KafkaError when the broker does not answer, and at a message that cannot be read.
    """
    earliest, latest = ends_of(consumer, where.topic, where.partition)
    offset = min(max(offset, earliest), latest)
    if messages >= 0:
        return next(islice(_starts(consumer, where, offset, latest), messages, None), latest)
    left, end = -messages, offset
    segments = consumer.get_offsets_before(where.topic, where.partition, LATEST, _MANY_SEGMENTS)
    for start in sorted({begin for begin in (*segments, earliest) if begin < offset}, reverse=True):
        last = deque(_starts(consumer, where, start, end), maxlen=left)
        if len(last) == left:
            return last[0]
        left -= len(last)
        end = start
    return earliest


def _starts(consumer: SimpleConsumer, where: TopicPartition, offset: int, end: int) -> Iterator[int]:
    """Yield where messages start, from one up to an offset that is not included."""
    while offset < end:
        before = offset
        fetched = consumer.fetch(where.topic, where.partition, offset)
        for message in decode_shallow(fetched.data, *where, offset):
            if message.offset >= end:
                return
            yield message.offset
            offset = message.next_offset
        if offset == before:
            next(iter(fetched), None)  # raises where not one whole message was fetched
            return
