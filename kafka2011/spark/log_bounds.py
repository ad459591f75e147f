"""Where a partition's segments start and its log ends, as its broker says: boundaries that need no reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka2011.protocol import LATEST

if TYPE_CHECKING:
    from kafka2011.consumer.simple_consumer import SimpleConsumer
    from zk.cluster import TopicPartition

MAX_SEGMENTS = 1_000_000


class LogBounds(NamedTuple):
    """Where a partition's segments start, ascending, and its flushed end last. All of them are boundaries."""

    boundaries: tuple[int, ...]

    @property
    def earliest(self) -> int:
        """The first offset there is."""
        return self.boundaries[0]

    @property
    def latest(self) -> int:
        """The flushed end."""
        return self.boundaries[-1]


def log_bounds(consumer: SimpleConsumer, partition: TopicPartition) -> LogBounds:
    """Ask a broker where segments start and the log ends. Raises BrokerConnectionError."""
    newest_first = consumer.get_offsets_before(partition.topic, partition.partition, LATEST, MAX_SEGMENTS)
    return LogBounds(tuple(reversed(newest_first)) or (0,))
