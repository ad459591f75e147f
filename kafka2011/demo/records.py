"""The demo's records: the numbered lines that it sends, and where they were found."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from kafka2011.message.message_set import Message


def numbered(number: int, line: bytes) -> bytes:
    """Return the payload of a line: its number and the line, with a tab between."""
    return b"%d\t%s" % (number, line)


class MessagePlace(NamedTuple):
    """Where a delivered message came from; names the message."""

    partition: TopicPartition
    offset: int
    index_in_set: int


class ReceivedLine(NamedTuple):
    """The number of a line, and where a copy of it lies."""

    place: MessagePlace
    number: int

    @classmethod
    def of(cls, message: Message) -> Self:
        """Return what a message is, whose payload `numbered` has made."""
        assert message.broker_id is not None
        partition = TopicPartition(message.topic, message.broker_id, message.partition)
        number, _ = message.payload.split(b"\t", 1)
        return cls(MessagePlace(partition, message.offset, message.index_in_set), int(number))
