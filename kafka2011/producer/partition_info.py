"""Where a topic's partitions are, as a producer needs it: what both sources of it have in common.

The list of partitions is sorted by broker and partition number, as numbers. Keys are divided over it, so its order is
part of what producers of all languages agree on.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kafka2011.wire.protocol import ANY_PARTITION
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zk.cluster import Broker

MAX_REMEMBERED = 1000
"""How many topics' answers are kept."""


class BrokerPartitionInfo(Protocol):
    """Knows brokers and partitions; a partition ANY_PARTITION leaves the choice to the broker.

    Thread-safe; a context manager is not needed, `close` may be called twice.
    """

    def partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return the partitions that keys are divided over, sorted; empty when no broker is known."""

    def choices(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return the partitions that a message without a key may go to."""

    def lacks(self, partition: TopicPartition, /) -> bool:
        """Say whether a partition's broker is known to have the topic without it."""

    def broker(self, broker_id: int) -> Broker | None:
        """Return where a broker listens, or None when it is not alive."""

    def refresh(self) -> None:
        """Read all of it again, in case what is known is stale."""

    def close(self) -> None:
        """Stop following changes."""


@runtime_checkable
class FollowsAddresses(Protocol):
    """One that learns by itself when a broker listens somewhere else."""

    def when_moved(self, tell: Callable[[int], object]) -> None:
        """Have `tell` called with a broker's id, by any thread, whenever it has another address than before."""


def on_every_broker(broker_ids: Iterable[int], topic: str, partition: int) -> tuple[TopicPartition, ...]:
    """Return the partition of that number at each broker, sorted."""
    return tuple(TopicPartition(topic, broker_id, partition) for broker_id in sorted(broker_ids))


class ListedBrokers:
    """The brokers of broker.list, always the same ones.

    Nothing is known of their partitions. So a message without a key goes to any partition that the broker picks, as
    in 0.7; one with a key goes to partition 0, which every broker has, of the broker that the key belongs to (0.7
    ignores the key).
    """

    def __init__(self, brokers: Iterable[Broker]) -> None:
        self._brokers = {broker.id: broker for broker in brokers}
        self._everywhere = lru_cache(MAX_REMEMBERED)(partial(on_every_broker, self._brokers))

    def partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return partition 0 of every broker."""
        return self._everywhere(topic, 0)

    def choices(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return every broker, with the partition left to it."""
        return self._everywhere(topic, ANY_PARTITION)

    def lacks(self, _partition: TopicPartition) -> bool:
        """Return False: only the broker knows."""
        return False

    def broker(self, broker_id: int) -> Broker | None:
        """Return a broker's entry."""
        return self._brokers.get(broker_id)

    def refresh(self) -> None:
        """Do nothing: the list does not change."""

    def close(self) -> None:
        """Do nothing: there is nothing open."""
