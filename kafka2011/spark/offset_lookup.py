"""What brokers say of offsets: where segments start, where logs end, where messages start inside a segment.

Runs on the driver: one connection to each broker, kept open.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from typing import TYPE_CHECKING, Self, TypeVar

from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import BrokerConnectionError
from kafka2011.protocol import EARLIEST, LATEST
from kafka2011.spark.boundaries import Walk, walk
from kafka2011.spark.errors import BrokerAwayError
from kafka2011.spark.log_bounds import LogBounds, log_bounds
from kafka2011.spark.partition_lookup import Cluster, PartitionLookup, open_lookup
from zk.errors import ZkUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from kafka2011.spark.options import ReadOptions
    from zk.cluster import Broker, TopicPartition

logger = logging.getLogger(__name__)

T = TypeVar("T")


class OffsetLookup:
    """Asks ZooKeeper and brokers, and asks again while they are away; a context manager.

    Waiting is bounded by fetchOffset.numRetries times fetchOffset.retryIntervalMs, then BrokerAwayError says for whom.
    """

    def __init__(
        self,
        options: ReadOptions,
        partitions: PartitionLookup | None = None,
        connect: Callable[[Broker], SimpleConsumer] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self._partitions = open_lookup(options) if partitions is None else partitions
        self._connect = self._new_consumer if connect is None else connect
        self._sleep = sleep
        self._consumers: dict[int, tuple[Broker, SimpleConsumer]] = {}
        self._cluster: Cluster | None = None

    def cluster(self) -> Cluster:
        """Return the brokers and wanted partitions of now."""
        self._cluster = self._persist(lambda: self._partitions.cluster(self._options.wants), ZkUnavailable)
        return self._cluster

    def committed(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Return what the group of the options has committed of some topics."""
        names = list(topics)
        return self._persist(lambda: self._partitions.committed(self._options.groupid, names), ZkUnavailable)

    def broker(self, partition: TopicPartition) -> Broker:
        """Return where a partition's broker listens; waits for one that is away."""
        return self._persist(lambda: self._live_broker(partition), BrokerConnectionError)

    def bounds(self, partition: TopicPartition) -> LogBounds:
        """Return where segments start and the log ends; waits for a broker that is away."""
        return self._ask(partition, lambda consumer: log_bounds(consumer, partition))

    def latest(self, partition: TopicPartition) -> int:
        """Return the flushed end. Does not wait: raises BrokerConnectionError for a broker that is away."""
        consumer = self._consumer(partition)
        return consumer.get_offsets_before(partition.topic, partition.partition, LATEST, 1)[0]

    def earliest(self, partition: TopicPartition) -> int:
        """Return the first offset there is. Does not wait: raises BrokerConnectionError for a broker that is away."""
        consumer = self._consumer(partition)
        return consumer.get_offsets_before(partition.topic, partition.partition, EARLIEST, 1)[0]

    def segment_at(self, partition: TopicPartition, bounds: LogBounds, time_ms: int) -> tuple[int, int]:
        """Return start and end of the first segment that was still written at or after a time.

        Start and end are both the end of the log when nothing was. The broker knows when a segment was last written,
        nothing finer. Every message from that time on lies at or behind the start; every one before it, before the end.
        """
        before = self._ask(
            partition,
            lambda consumer: consumer.get_offsets_before(partition.topic, partition.partition, time_ms - 1, 1),
        )
        edges = bounds.boundaries
        index = bisect_right(edges, before[0]) if before else 0
        start = edges[min(index, len(edges) - 1)]
        end = edges[min(index + 1, len(edges) - 1)]
        return start, end

    def walk(self, partition: TopicPartition, start: int, target: int) -> Walk:
        """Go from the boundary `start` to the last one at or before `target`, by fetching what lies between."""

        def fetch(offset: int, max_bytes: int) -> bytes:
            return self._ask(
                partition, lambda consumer: consumer.fetch(partition.topic, partition.partition, offset, max_bytes).data
            )

        return walk(fetch, start, target, self._options.fetch_size)

    def persist(self, ask: Callable[[], T]) -> T:
        """Ask until no BrokerConnectionError comes, reading the registry again each time. Raises BrokerAwayError."""
        return self._persist(ask, BrokerConnectionError)

    def close(self) -> None:
        """Close all connections; may be called twice."""
        for _, consumer in self._consumers.values():
            consumer.close()
        self._consumers.clear()
        self._partitions.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, partition: TopicPartition, question: Callable[[SimpleConsumer], T]) -> T:
        return self._persist(lambda: question(self._consumer(partition)), BrokerConnectionError)

    def _persist(self, ask: Callable[[], T], away: type[Exception]) -> T:
        """Ask until there is an answer, as often as the options allow."""
        interval_ms, retries = self._options.retry_interval_ms, self._options.retries
        for attempt in range(retries + 1):
            try:
                return ask()
            except away as error:
                if attempt == retries:
                    raise BrokerAwayError(
                        f"gave up after {retries} retries, {interval_ms} ms apart"
                        f" (fetchOffset.numRetries, fetchOffset.retryIntervalMs): {error}"
                    ) from error
                if not attempt:
                    logger.warning("asking again for %d ms: %s", interval_ms * retries, error)
            self._sleep(interval_ms / 1000)
            if away is BrokerConnectionError:
                self.cluster()  # it may come back elsewhere
        raise AssertionError("the last attempt returns or raises")

    def _live_broker(self, partition: TopicPartition) -> Broker:
        brokers = (self._cluster or self.cluster()).brokers
        broker = brokers.get(partition.broker_id)
        if broker is None:
            raise BrokerConnectionError(f"broker {partition.broker_id}, which has {partition}, is not alive")
        return broker

    def _consumer(self, partition: TopicPartition) -> SimpleConsumer:
        broker = self._live_broker(partition)
        known = self._consumers.get(partition.broker_id)
        if known is not None:
            if known[0] == broker:
                return known[1]
            known[1].close()
        consumer = self._connect(broker)
        self._consumers[partition.broker_id] = (broker, consumer)
        return consumer

    def _new_consumer(self, broker: Broker) -> SimpleConsumer:
        return SimpleConsumer.of(broker, {"socket.timeout.ms": self._options.socket_timeout_ms})
