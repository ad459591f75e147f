"""Chooses the partition of a batch: by its messages' key, or the next one in turn (paper, section 3.2)."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

from kafka2011.producer.errors import InvalidPartitionError, NoBrokersError
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from kafka2011.producer.partition_info import BrokerPartitionInfo
    from kafka2011.producer.partitioner import Partitioner
    from zk.clock import Clock

_MAX_TURNS = 10_000
"""How many topics' turns are remembered."""
_ROUNDS = 8
"""How often one order is used: to shuffle costs as much as a send."""


class Router:
    """Knows which brokers cannot be reached, so that messages without a key go elsewhere. Thread-safe."""

    def __init__(self, info: BrokerPartitionInfo, partitioner: Partitioner, read_retries: int, clock: Clock) -> None:
        self.info = info
        self._partitioner = partitioner
        self._read_retries = read_retries
        self._clock = clock
        self._down_until_s: dict[int, float] = {}
        self.turns: dict[str, _Turns] = {}
        self._lock = threading.Lock()  # of the turns

    def mark_down(self, broker_id: int, until_s: float) -> None:
        """Send nothing without a key to a broker while there are others, until this time or `mark_up`."""
        self._down_until_s[broker_id] = until_s

    def mark_up(self, broker_id: int) -> None:
        """Consider a broker reachable again."""
        self._down_until_s.pop(broker_id, None)

    def by_key(self, topic: str, key: object) -> TopicPartition:
        """Return the partition that a key belongs to.

        Brokers and partitions are read again up to zk.read.num.retries times while the known ones will not do. Raises
        NoBrokersError after that, and InvalidPartitionError when the partitioner returns nonsense.
        """
        for attempt in range(self._read_retries + 1):
            if attempt:
                self.info.refresh()
            partitions = self.info.partitions(topic)
            if not partitions:
                continue
            index = self._partitioner.partition(key, len(partitions))
            if not 0 <= index < len(partitions):
                raise InvalidPartitionError(
                    f"the partitioner returned {index} for a key of topic {topic},"
                    f" which has {len(partitions)} partitions"
                )
            chosen = partitions[index]
            if self.info.broker(chosen.broker_id) is not None:
                return chosen
        if not partitions:
            raise NoBrokersError(f"no live broker is known for topic {topic}")
        raise NoBrokersError(f"broker {chosen.broker_id}, which has {chosen}, is not alive")

    def named(self, topic: str, partition: TopicPartition) -> TopicPartition:
        """Return a partition that an application names, if its broker lives and is not known to lack it.

        Raises as `by_key`, InvalidPartitionError, and TypeError for what names no partition.
        """
        if not isinstance(partition, TopicPartition):
            kind = type(partition).__name__
            raise TypeError(f"a partition is a TopicPartition(topic, broker_id, partition), not {kind}")
        if partition.topic != topic:
            raise InvalidPartitionError(f"{partition} is not a partition of topic {topic}")
        is_lacking = False
        for attempt in range(self._read_retries + 1):
            if attempt:
                self.info.refresh()
            if self.info.broker(partition.broker_id) is None:
                continue
            is_lacking = self.info.lacks(partition)
            if not is_lacking:
                return partition
        if is_lacking:
            count = sum(each.broker_id == partition.broker_id for each in self.info.partitions(topic))
            raise InvalidPartitionError(
                f"there is no {partition}: broker {partition.broker_id} has {count} partitions of topic {topic},"
                " numbered from 0"
            )
        raise NoBrokersError(f"broker {partition.broker_id}, which has {partition}, is not alive")

    def next(self, topic: str) -> TopicPartition:
        """Return the partition whose turn it is, at a broker that can be reached if any can. Raises as `by_key`."""
        turns = self.turns.get(topic)
        if turns is not None and turns.choices and not self._down_until_s and turns.choices is self.info.choices(topic):
            candidate = turns.next()  # most often nothing has changed
            if self.info.broker(candidate.broker_id) is not None:
                return candidate
        for attempt in range(self._read_retries + 1):
            if attempt:
                self.info.refresh()
            chosen = self._in_turn(topic, self.info.choices(topic))
            if chosen is not None:
                return chosen
        raise NoBrokersError(f"no live broker is known for topic {topic}")

    def elsewhere(self, topic: str, broker_id: int) -> TopicPartition | None:
        """Return a partition at another broker that can be reached; None if there is none."""
        others = tuple(
            choice
            for choice in self.info.choices(topic)
            if choice.broker_id != broker_id and self._is_reachable(choice)
        )
        return random.choice(others) if others else None  # noqa: S311 (spreads load, hides nothing)

    def _in_turn(self, topic: str, choices: tuple[TopicPartition, ...]) -> TopicPartition | None:
        with self._lock:
            turns = self.turns.get(topic)
            if turns is None or turns.choices != choices:
                if len(self.turns) >= _MAX_TURNS:
                    self.turns.clear()
                turns = self.turns[topic] = _Turns(choices)
            turns.choices = choices  # equal ones need not be looked at again
            alive: TopicPartition | None = None
            for _ in range(2 * len(choices)):  # so that all of them come, wherever the cycle stands
                candidate = turns.next()
                if self._is_reachable(candidate):
                    return candidate
                if self.info.broker(candidate.broker_id) is not None:
                    alive = candidate
            return alive

    def _is_reachable(self, candidate: TopicPartition) -> bool:
        if self.info.broker(candidate.broker_id) is None:
            return False
        until_s = self._down_until_s.get(candidate.broker_id)
        return until_s is None or self._clock.monotonic_s() >= until_s


class _Turns:
    """All partitions of a topic in a shuffled order, over and over, reshuffled now and then. Thread-safe."""

    def __init__(self, choices: tuple[TopicPartition, ...]) -> None:
        self.choices = choices
        self._rest: list[TopicPartition] = []

    def next(self) -> TopicPartition:
        try:
            return self._rest.pop()
        except IndexError:  # the first, or the last one was taken
            rest = random.sample(self.choices, len(self.choices)) * _ROUNDS
            candidate = rest.pop()
            self._rest = rest
            return candidate
