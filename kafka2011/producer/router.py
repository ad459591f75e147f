"""Chooses the partition for a send: by its key, or any (paper, section 3.2)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kafka2011.producer.errors import InvalidPartitionError, NoBrokersError
from kafka2011.topic import validate_topic

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kafka2011.producer.broker_partition_info import BrokerPartitionInfo
    from kafka2011.producer.partitioner import Partitioner
    from zk.cluster import TopicPartition

MAX_KNOWN_TOPICS = 100_000


class Router:
    """Knows which brokers cannot be reached, so that what has no key goes elsewhere. Thread-safe."""

    def __init__(self, info: BrokerPartitionInfo, partitioner: Partitioner, read_retries: int) -> None:
        self.info = info
        self.down: frozenset[int] = frozenset()
        self._partitioner = partitioner
        self._read_retries = read_retries
        self._random = random.Random().random  # noqa: S311 (spreads load, hides nothing)
        self._valid_topics: set[str] = set()

    def mark_down(self, broker_id: int) -> None:
        """Send nothing without a key to a broker while there are others."""
        self.down |= {broker_id}

    def mark_up(self, broker_id: int) -> None:
        """Take a broker for reachable again."""
        if broker_id in self.down:
            self.down -= {broker_id}

    def check_topic(self, topic: str) -> None:
        """Raise InvalidTopicError unless the topic may be used."""
        if topic not in self._valid_topics:
            validate_topic(topic)
            if len(self._valid_topics) < MAX_KNOWN_TOPICS:
                self._valid_topics.add(topic)

    def choose(self, topic: str, key: object, avoid: Collection[int] = ()) -> TopicPartition:
        """Return the partition for a key; for None any, at a broker that is not down or in `avoid`, if there is one.

        Brokers and partitions are read again up to zk.read.num.retries times while what is known does not do. Raises
        NoBrokersError then, and InvalidPartitionError when the partitioner returns nonsense.
        """
        for attempt in range(self._read_retries + 1):
            if attempt:
                self.info.refresh()
            chosen = self._choose_any(topic, avoid) if key is None else self._choose_by_key(topic, key)
            if chosen is not None and self.info.broker(chosen.broker_id) is not None:
                return chosen
        raise NoBrokersError(
            f"no live broker is known for topic {topic}"
            if chosen is None
            else f"broker {chosen.broker_id}, which has partition {chosen.partition} of topic {topic}, is not alive"
        )

    def choose_elsewhere(
        self, topic: str, broker_id: int, taken: Collection[TopicPartition] = ()
    ) -> TopicPartition | None:
        """Return a partition at another broker that can be reached, but none of those `taken`; None without one."""
        unwanted = self.down | {broker_id}
        return self._any(
            [
                choice
                for choice in self.info.choices(topic)
                if choice.broker_id not in unwanted
                and choice not in taken
                and self.info.broker(choice.broker_id) is not None
            ]
        )

    def _any(self, choices: Sequence[TopicPartition]) -> TopicPartition | None:
        return choices[int(self._random() * len(choices))] if choices else None

    def _choose_any(self, topic: str, avoid: Collection[int]) -> TopicPartition | None:
        choices = self.info.choices(topic)
        if self.down or avoid:
            choices = self._reachable(choices, avoid)
        return self._any(choices)

    def _reachable(self, choices: tuple[TopicPartition, ...], avoid: Collection[int]) -> tuple[TopicPartition, ...]:
        alive = tuple(choice for choice in choices if self.info.broker(choice.broker_id) is not None)
        for unwanted in ({*self.down, *avoid}, avoid):
            wanted = tuple(choice for choice in alive if choice.broker_id not in unwanted)
            if wanted:
                return wanted
        return alive or choices

    def _choose_by_key(self, topic: str, key: object) -> TopicPartition | None:
        partitions = self.info.partitions(topic)
        if not partitions:
            return None
        index = self._partitioner.partition(key, len(partitions))
        if not 0 <= index < len(partitions):
            raise InvalidPartitionError(
                f"the partitioner returned {index} for a key of topic {topic}, which has {len(partitions)} partitions"
            )
        return partitions[index]
