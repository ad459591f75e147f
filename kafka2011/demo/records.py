"""The demo's records: the numbered lines it sends, and the receipts that its members note for each delivery."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafka2011.message.message_set import Message


def numbered(number: int, line: bytes) -> bytes:
    """Return the payload of a line: its number, the time of sending in ms, and the line, with tabs between."""
    return b"%d\t%d\t%s" % (number, time.time() * 1000, line)


def number_and_time(payload: bytes) -> tuple[int, int]:
    """Return line number and time of sending in ms of a payload."""
    number, sent_ms, _ = payload.split(b"\t", 2)
    return int(number), int(sent_ms)


class Place(NamedTuple):
    """Where a delivered message came from; names the message."""

    partition: TopicPartition
    offset: int
    index_in_set: int

    @classmethod
    def of(cls, message: Message) -> Place:
        """Return a message's place."""
        assert message.broker_id is not None
        return cls(
            TopicPartition(message.topic, message.broker_id, message.partition), message.offset, message.index_in_set
        )


class Receipt(NamedTuple):
    """One delivery, as a member noted it before it asked for the next message."""

    received_ms: int
    place: Place
    number: int
    sent_ms: int
    member: str

    @classmethod
    def of(cls, message: Message, member: str) -> Receipt:
        """Make the receipt of a message that was just handed out."""
        return cls(int(time.time() * 1000), Place.of(message), *number_and_time(message.payload), member)

    def to_line(self) -> bytes:
        """Return the receipt as a line of a file."""
        partition, offset, index = self.place
        numbers = (partition.broker_id, partition.partition, offset, index, self.number, self.sent_ms)
        return b"%d %s %d %d %d %d %d %d\n" % (self.received_ms, partition.topic.encode(), *numbers)


def read_receipts(path: Path) -> Iterator[Receipt]:
    """Yield the receipts in a member's file, which is named after it; a line torn by kill -9 is left out."""
    if not path.exists():
        return
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            received_ms, topic, *rest = line.split()
            broker_id, partition, offset, index, number, sent_ms = map(int, rest)
            place = Place(TopicPartition(topic.decode(), broker_id, partition), offset, index)
            yield Receipt(int(received_ms), place, number, sent_ms, path.stem)
