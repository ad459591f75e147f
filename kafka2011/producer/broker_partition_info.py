"""Where a topic's partitions are, as a producer needs it: what both sources of it have in common.

The list of partitions is sorted by broker and partition number, as numbers. Keys are divided over it, so its order is
part of what producers of all languages agree on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafka2011.protocol import ANY_PARTITION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka2011.config import BrokerAddress


class BrokerPartition(NamedTuple):
    """One partition of some topic; ANY_PARTITION leaves the choice to the broker. Sorts as numbers."""

    broker_id: int
    partition: int


class BrokerPartitionInfo(Protocol):
    """Knows brokers and partitions. Thread-safe; a context manager is not needed, `close` may be called twice."""

    def partitions(self, topic: str) -> tuple[BrokerPartition, ...]:
        """Return the partitions that keys are divided over, sorted; empty when no broker is known."""

    def choices(self, topic: str) -> tuple[BrokerPartition, ...]:
        """Return what a message without a key may go to, any of them as well as the others."""

    def address(self, broker_id: int) -> BrokerAddress | None:
        """Return where a broker listens, or None when it is not alive."""

    def refresh(self) -> None:
        """Read all of it again, in case that what is known is stale."""

    def close(self) -> None:
        """Follow changes no more."""


class ListedBrokers:
    """The brokers of broker.list, always the same ones.

    Nothing is known of their partitions. So a message without a key goes to any partition that the broker picks, as
    in 0.7; one with a key goes to partition 0, which every broker has, of the broker that the key belongs to (0.7
    ignores the key).
    """

    def __init__(self, brokers: Iterable[BrokerAddress]) -> None:
        self._addresses = {broker.id: broker for broker in brokers}
        ids = sorted(self._addresses)
        self._partitions = tuple(BrokerPartition(broker_id, 0) for broker_id in ids)
        self._choices = tuple(BrokerPartition(broker_id, ANY_PARTITION) for broker_id in ids)

    def partitions(self, topic: str) -> tuple[BrokerPartition, ...]:  # noqa: ARG002 (the same for all)
        """Return partition 0 of every broker."""
        return self._partitions

    def choices(self, topic: str) -> tuple[BrokerPartition, ...]:  # noqa: ARG002 (the same for all)
        """Return every broker, with the partition left to it."""
        return self._choices

    def address(self, broker_id: int) -> BrokerAddress | None:
        """Return a broker's entry."""
        return self._addresses.get(broker_id)

    def refresh(self) -> None:
        """Do nothing: the list does not change."""

    def close(self) -> None:
        """Do nothing: there is nothing open."""
