"""Asks brokers where partitions begin and end, over connections that are kept until they are closed."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from kafka2011.admin.partitions import ASK_TIMEOUT_MS, asking, ends_of_many
from kafka2011.admin.snapshot.cluster_snapshot import LogOffsets
from kafka2011.errors import KafkaError
from kafka2011.message.topic import InvalidTopicError, validate_topic
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafka2011.admin.snapshot.cluster_snapshot import BrokerInfo, ClusterSnapshot
    from kafka2011.consumer.simple_consumer import SimpleConsumer
    from zk.clock import Clock
    from zk.cluster import Broker, TopicPartition

logger = logging.getLogger(__name__)

_RETRY_S = 10.0
"""A broker that has not answered is left alone for so long."""


def with_log_offsets(snapshot: ClusterSnapshot, *, with_idle: bool = False) -> ClusterSnapshot:
    """Return a snapshot with the offsets of its partitions, and why brokers do not answer.

    Each broker that has some is asked over one connection; `with_idle` the others are asked for a sign of life too.
    """
    with closing(LogOffsetsReader(ASK_TIMEOUT_MS)) as reader:
        offsets = reader.read(snapshot.brokers, snapshot.partitions(), with_idle=with_idle)
        return replace(snapshot, log_offsets=offsets, brokers=reader.noted(snapshot.brokers))


def warn_of_brokers(snapshot: ClusterSnapshot) -> None:
    """Log which brokers do not answer: what only they know is missing."""
    for number, info in snapshot.brokers.items():
        if info.error:
            logger.warning("broker %d does not answer for the offsets of its logs: %s", number, info.error)


class LogOffsetsReader:
    """For one thread. `errors` says of each broker that does not answer why."""

    def __init__(self, timeout_ms: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._consumers: dict[Broker, SimpleConsumer] = {}
        self._retry_at_s: dict[Broker, float] = {}
        self.errors: dict[int, str] = {}

    def read(
        self, brokers: Mapping[int, BrokerInfo], wanted: Iterable[TopicPartition], *, with_idle: bool = False
    ) -> dict[TopicPartition, LogOffsets]:
        """Return the offsets of those partitions whose brokers answer.

        A topic whose name can be none, as in a znode that somebody else has made, is left out: a broker would end the
        connection, and all others on it would have no answer.
        """
        self._forget_others(brokers)
        by_broker: dict[Broker, list[TopicPartition]] = {}
        if with_idle:
            by_broker = {info.broker: [] for info in brokers.values()}
        for where in wanted:
            if where.broker_id in brokers and _is_name(where.topic):
                by_broker.setdefault(brokers[where.broker_id].broker, []).append(where)
        offsets: dict[TopicPartition, LogOffsets] = {}
        for broker, partitions in by_broker.items():
            if self._clock.monotonic_s() >= self._retry_at_s.get(broker, 0.0):
                self._read_from(broker, partitions, offsets)
        return offsets

    def noted(self, brokers: Mapping[int, BrokerInfo]) -> dict[int, BrokerInfo]:
        """Return brokers, each with why it does not answer."""
        return {number: replace(info, error=self.errors.get(number, "")) for number, info in brokers.items()}

    def close(self) -> None:
        """Close the connections; the next reading opens them again."""
        while self._consumers:
            self._consumers.popitem()[1].close()

    def _forget_others(self, brokers: Mapping[int, BrokerInfo]) -> None:
        living = {info.broker for info in brokers.values()}
        for gone in self._consumers.keys() - living:
            self._consumers.pop(gone).close()
        self._retry_at_s = {broker: at_s for broker, at_s in self._retry_at_s.items() if broker in living}
        self.errors = {number: text for number, text in self.errors.items() if number in brokers}

    def _read_from(
        self, broker: Broker, partitions: Collection[TopicPartition], offsets: dict[TopicPartition, LogOffsets]
    ) -> None:
        """Add the offsets of a broker's partitions, as far as it answers."""
        if broker not in self._consumers:
            self._consumers[broker] = asking(broker, self._timeout_ms)
        consumer = self._consumers[broker]
        try:
            if not partitions:
                consumer.multifetch([])
            ends = ends_of_many(consumer, [(where.topic, where.partition) for where in partitions])
            offsets.update(zip(partitions, (LogOffsets(*end) for end in ends), strict=True))
        except KafkaError as error:
            self._consumers.pop(broker).close()
            self._retry_at_s[broker] = self._clock.monotonic_s() + _RETRY_S
            self.errors[broker.id] = str(error)
        else:
            self._retry_at_s.pop(broker, None)
            self.errors.pop(broker.id, None)


def _is_name(topic: str) -> bool:
    try:
        validate_topic(topic)
    except InvalidTopicError:
        return False
    return True
