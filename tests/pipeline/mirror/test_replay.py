"""Reading ranges of partitions for a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from kafka2011.consumer.simple_consumer import FetchedSet
from kafka2011.errors import InvalidMessageSizeError, KafkaError
from kafka2011.message import MessageSet
from kafka2011.pipeline.mirror.replay import Range, stored_sets
from kafka2011.protocol import FetchRequest
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from kafka2011.consumer.simple_consumer import SimpleConsumer

ONE = 11  # bytes of a message with one byte of payload


class ConsumerInMemory:
    def __init__(self, *logs: bytes) -> None:
        self.logs = logs

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> FetchedSet:
        data = self.logs[partition][offset : offset + max_bytes]
        return FetchedSet(FetchRequest(topic, partition, offset, max_bytes), 0, data)


def ranges(*payloads: bytes, end_offset: int | None = None, start: int = 0) -> list[Range]:
    """Return a range for each partition, whose messages are the single bytes of its payloads."""
    logs = [bytes(MessageSet([bytes([each]) for each in its])) for its in payloads]
    consumer = cast("SimpleConsumer", ConsumerInMemory(*logs))
    return [
        Range(TopicPartition("t", 0, number), consumer, start, len(log) if end_offset is None else end_offset)
        for number, log in enumerate(logs)
    ]


def payloads_of(sets: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    return [(number, b"".join(MessageSet.from_bytes(data))) for number, data in sets]


def read(its: list[Range], fetch_bytes: int = 1000, max_messages: int | None = None) -> list[tuple[int, bytes]]:
    return payloads_of([(each.partition, each.data) for each in stored_sets(its, fetch_bytes, max_messages)])


def test_partitions_take_turns_until_their_ends() -> None:
    """A set holds whole messages of one fetch."""
    assert read(ranges(b"abcd", b"", b"ef"), 2 * ONE + 5) == [(0, b"ab"), (2, b"ef"), (0, b"cd")]


def test_it_ends_where_the_range_does() -> None:
    """What came after that, perhaps by the replay itself, is not read."""
    assert read(ranges(b"abcd", start=ONE, end_offset=3 * ONE)) == [(0, b"bc")]


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5])
def test_at_most_so_many_messages(most: int) -> None:
    """In all partitions together."""
    taken = b"".join(payloads for _, payloads in read(ranges(b"abc", b"de"), 2 * ONE, most))
    assert taken == b"abdec"[:most]


def test_a_message_that_is_larger_than_the_fetch_is_an_error() -> None:
    """It names the place and the size."""
    with pytest.raises(InvalidMessageSizeError, match="t/0-0 at offset 0, which needs 11"):
        read(ranges(b"a"), 10)


def test_a_log_that_has_become_shorter_is_an_error() -> None:
    """A broker that lost its end must not make a replay wait for ever."""
    with pytest.raises(KafkaError, match="t/0-0 ends at offset 11, before 33"):
        read(ranges(b"a", end_offset=33))
