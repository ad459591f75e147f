"""Reads the demo's lines back from a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.demo.records import ReceivedLine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.consumer.simple_consumer import SimpleConsumer


def read_partition(consumer: SimpleConsumer, topic: str, partition: int) -> Iterator[ReceivedLine]:
    """Yield every line in a partition, in the order of the log."""
    offset = 0
    while (fetched := consumer.fetch(topic, partition, offset)).data:
        yield from map(ReceivedLine.of, fetched)
        offset = fetched.next_offset
