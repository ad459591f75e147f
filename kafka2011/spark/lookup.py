"""Looks offsets up at brokers: where segments start and logs end, and which brokers do not answer.

Runs on the driver only: one session, and one connection to each broker, kept open.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.consumer.threads import in_thread
from kafka2011.errors import BrokerConnectionError, OffsetOutOfRangeError
from kafka2011.spark.cluster_lookup import open_lookup
from kafka2011.spark.end_watch import EndWatch
from kafka2011.spark.errors import BrokerAwayError
from kafka2011.spark.offset_ranges import LogBounds, MessageWalk, log_bounds, walk
from kafka2011.wire.protocol import LATEST
from zk.closing import Closing
from zk.errors import ZkUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafka2011.consumer.simple_consumer import FetchedSet
    from kafka2011.spark.cluster_lookup import Cluster, PartitionLookup
    from kafka2011.spark.offset_ranges import Offsets
    from kafka2011.spark.options import ReadOptions
    from zk.cluster import Broker, TopicPartition

logger = logging.getLogger(__name__)

T = TypeVar("T")

Answers: TypeAlias = "dict[TopicPartition, int | BrokerConnectionError]"

_TOGETHER = 1000
"""So many parts of logs are fetched in one request."""
PATIENCE_S = 1.0
"""A broker that has not answered within this time counts as away for now."""


class OffsetLookup(Closing):
    """Asks ZooKeeper and brokers, and asks again while they are away; a context manager.

    Waiting is bounded by fetchOffset.numRetries times fetchOffset.retryIntervalMs; then BrokerAwayError names it.
    """

    def __init__(
        self,
        options: ReadOptions,
        partitions: PartitionLookup | None = None,
        connect: Callable[[Broker], SimpleConsumer] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._options = options
        self._partitions = open_lookup(options) if partitions is None else partitions
        self._connect = self._new_consumer if connect is None else connect
        self._sleep = sleep
        self._consumers: dict[int, tuple[Broker, SimpleConsumer]] = {}
        self._patience_s = patience_s
        self._cluster: Cluster | None = None
        self._refreshing: Future[Cluster] | None = None
        self._blind = False  # whether the registry could not be read when last tried
        self._end_watch = EndWatch(self._connect)
        self._asked: dict[int, Future[Answers]] = {}  # requests that a broker has not answered yet

    def cluster(self) -> Cluster:
        """Return the present brokers and wanted partitions."""
        self._cluster = self._persist(self._read_cluster, ZkUnavailable)
        return self._cluster

    def committed(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Return what the group of the options has committed of some topics."""
        names = list(topics)
        committed = self._persist(lambda: self._partitions.committed(self._options.groupid, names), ZkUnavailable)
        return {partition: offset for partition, offset in committed.items() if self._options.reads(partition)}

    def remembered(self) -> set[TopicPartition]:
        """Return the wanted partitions that any group has ever committed; they may be gone."""
        remembered = self._persist(lambda: self._partitions.remembered(self._options.wants), ZkUnavailable)
        return set(filter(self._options.reads, remembered))

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets to the group of the options. Does not wait: raises GroupInUse, ZkError."""
        self._partitions.commit(self._options.groupid, offsets)

    def refresh(self) -> Cluster:
        """Return the present brokers and wanted partitions. Does not wait: raises ZkUnavailable."""
        self._cluster = self._read_cluster()
        return self._cluster

    def _read_cluster(self) -> Cluster:
        cluster = self._partitions.cluster(self._options.wants)
        return replace(cluster, partitions=tuple(filter(self._options.reads, cluster.partitions)))

    def last_cluster(self) -> Cluster:
        """Return the present brokers and wanted partitions, or the last known ones while ZooKeeper does not answer.

        Like brokers, ZooKeeper is asked in a separate thread, for no longer than a second.
        """
        if self._cluster is None:
            return self.cluster()
        if self._refreshing is None:
            self._refreshing = in_thread(self.refresh)
            wait([self._refreshing], self._patience_s)
        if self._refreshing.done():
            done, self._refreshing = self._refreshing, None
            try:
                done.result()
                self._blind = False
            except ZkUnavailable as error:
                if not self._blind:
                    logger.warning("continuing with the known brokers, since the registry cannot be read: %s", error)
                self._blind = True
        return self._cluster

    def broker(self, partition: TopicPartition) -> Broker:
        """Return where a partition's broker listens. Does not wait: raises BrokerConnectionError when it is away."""
        brokers = (self._cluster or self.cluster()).brokers
        broker = brokers.get(partition.broker_id)
        if broker is None:
            raise BrokerConnectionError(f"broker {partition.broker_id}, which has {partition}, is not alive")
        return broker

    def await_brokers(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, BrokerAwayError]:
        """Wait until the brokers of all partitions are registered; return those that are still away, and why."""
        return self._await_all(partitions, self._registered)[1]

    def await_ends(self, partitions: Iterable[TopicPartition]) -> tuple[Offsets, dict[TopicPartition, BrokerAwayError]]:
        """Wait until the brokers of all partitions say where logs end; return that, and which are away and why."""
        return self._await_all(partitions, self.ends)

    def bounds(self, partition: TopicPartition) -> LogBounds:
        """Return where segments start and the log ends; waits for a broker that is away."""
        return self._ask(partition, lambda consumer: log_bounds(consumer, partition))

    def ends(self, partitions: Iterable[TopicPartition]) -> Answers:
        """Return the flushed end of each partition, or the BrokerConnectionError that came in its place.

        Each broker is asked in a separate thread, and counts as away if it has not answered within a second: one that
        hangs delays no other. It is not asked again until that request has ended.
        """
        answers: Answers = {}
        asked: list[Future[Answers]] = []
        by_broker: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            by_broker.setdefault(partition.broker_id, []).append(partition)
        for broker_id, its in by_broker.items():
            try:
                consumer = self._consumer(its[0])
            except BrokerConnectionError as error:
                answers.update(dict.fromkeys(its, error))
                continue
            if broker_id not in self._asked:
                self._asked[broker_id] = in_thread(partial(_ends, consumer, its))
                asked.append(self._asked[broker_id])
        wait(asked, self._patience_s)
        for broker_id, its in by_broker.items():
            question = self._asked.get(broker_id)
            if question is not None and question.done():
                del self._asked[broker_id]
                answers.update(question.result())
            slow = BrokerConnectionError(f"broker {broker_id} does not answer")
            answers.update({partition: slow for partition in its if partition not in answers})
        return answers

    def watch(self, ends: Offsets) -> None:
        """Have `has_news` say when there is more than this."""
        if self._cluster is not None:
            self._end_watch.watch(ends, self._cluster.brokers)

    def has_news(self) -> bool:
        """Say whether there is more than what `watch` was given; False where brokers do not say."""
        return self._end_watch.has_news()

    def is_watching(self, partitions: Iterable[TopicPartition]) -> bool:
        """Say whether brokers will say when there is more of any of these."""
        return self._end_watch.covers(partitions)

    def birth(self, partition: TopicPartition, since_ms: int | None) -> int:
        """Return where to begin with a partition that has appeared: at its first message, or by a time.

        With a time that is the first segment that was still written then. Does not wait: raises BrokerConnectionError.
        """
        consumer = self._consumer(partition)
        bounds = log_bounds(consumer, partition)
        return bounds.earliest if since_ms is None else _segment_at(consumer, partition, bounds, since_ms)[0]

    def segment_at(self, partition: TopicPartition, bounds: LogBounds, time_ms: int) -> tuple[int, int]:
        """Return start and end of the first segment that was still written at or after a time.

        Start and end are both the end of the log when nothing was. The broker knows when a segment was last written,
        nothing finer. Every message from that time on is at or after the start; every earlier one is before the end.
        """
        return self._ask(partition, lambda consumer: _segment_at(consumer, partition, bounds, time_ms))

    def walk(self, partition: TopicPartition, start: int, target: int) -> MessageWalk:
        """Go from the boundary `start` to the last one at or before `target`, by fetching what lies between."""

        def fetch(offset: int, max_bytes: int) -> bytes:
            return self.fetch(partition, offset, max_bytes)

        return walk(fetch, start, target, self._options.fetch_size)

    def fetch(self, partition: TopicPartition, offset: int, max_bytes: int) -> bytes:
        """Fetch bytes of a log; waits for a broker that is away. Raises OffsetOutOfRangeError."""
        return self._ask(
            partition, lambda consumer: consumer.fetch(partition.topic, partition.partition, offset, max_bytes).data
        )

    def fetch_together(
        self, wanted: Iterable[tuple[TopicPartition, int, int]], *, is_patient: bool = True
    ) -> list[bytes | BrokerConnectionError | None]:
        """Fetch bytes of several logs, for each its partition, offset and number of bytes, with few requests.

        None where a log does not have the offset. Waits for brokers that are down, and raises BrokerAwayError in the
        end; with `is_patient` False there is an error in place of what such a broker has. Raises BrokerError.
        """
        requested = list(wanted)
        payloads: list[bytes | BrokerConnectionError | None] = [None] * len(requested)
        by_broker: dict[int, list[int]] = {}
        for number, (partition, _, _) in enumerate(requested):
            by_broker.setdefault(partition.broker_id, []).append(number)
        for numbers in by_broker.values():
            for first in range(0, len(numbers), _TOGETHER):
                some = numbers[first : first + _TOGETHER]
                try:
                    parts = self._multifetch([requested[index] for index in some], is_patient=is_patient)
                except BrokerConnectionError as error:
                    for number in some:
                        payloads[number] = error
                    continue
                for number, part in zip(some, parts, strict=True):
                    if part.error is None:
                        payloads[number] = part.data
                    elif not isinstance(part.error, OffsetOutOfRangeError):
                        raise part.error
        return payloads

    def _multifetch(self, parts: list[tuple[TopicPartition, int, int]], *, is_patient: bool) -> list[FetchedSet]:
        fetches = [(where.topic, where.partition, offset, max_bytes) for where, offset, max_bytes in parts]
        if not is_patient:
            return self._consumer(parts[0][0]).multifetch(fetches)
        return self._ask(parts[0][0], lambda consumer: consumer.multifetch(fetches))

    def persist(self, ask: Callable[[], T]) -> T:
        """Ask until no BrokerConnectionError comes, reading the registry again each time. Raises BrokerAwayError."""
        return self._persist(ask, BrokerConnectionError)

    def close(self) -> None:
        """Close all connections; may be called twice."""
        self._end_watch.close()
        for _, consumer in self._consumers.values():
            in_thread(consumer.close)  # it waits for a question that hangs
        self._consumers.clear()
        self._partitions.close()

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
                    logger.warning("retrying for %d ms: %s", interval_ms * retries, error)
            self._sleep(interval_ms / 1000)
            if away is BrokerConnectionError:
                self._refresh_quietly()  # it may come back elsewhere
        raise AssertionError("the last attempt returns or raises")

    def _await_all(
        self, partitions: Iterable[TopicPartition], ask: Callable[[list[TopicPartition]], Answers]
    ) -> tuple[Offsets, dict[TopicPartition, BrokerAwayError]]:
        """Ask for all until all have answered, as often as the options allow: once for all, not one after another."""
        missing = sorted(partitions)
        answered: Offsets = {}
        errors: dict[TopicPartition, BrokerConnectionError] = {}

        def ask_missing() -> None:
            errors.clear()
            for partition, answer in ask(missing).items():
                if isinstance(answer, BrokerConnectionError):
                    errors[partition] = answer
                else:
                    answered[partition] = answer
            missing[:] = sorted(errors)
            if errors:
                raise errors[missing[0]]

        try:
            self._persist(ask_missing, BrokerConnectionError)
        except BrokerAwayError as away:
            return answered, dict.fromkeys(errors, away)
        return answered, {}

    def _registered(self, partitions: list[TopicPartition]) -> Answers:
        answers: Answers = {}
        for partition in partitions:
            try:
                self.broker(partition)
                answers[partition] = 0
            except BrokerConnectionError as error:
                answers[partition] = error
        return answers

    def _refresh_quietly(self) -> None:
        """Read the registry again, if it can be read; the wait is for a broker, and the known ones may do."""
        try:
            self.refresh()
        except ZkUnavailable as error:
            logger.warning("the registry cannot be read: %s", error)

    def _consumer(self, partition: TopicPartition) -> SimpleConsumer:
        broker = self.broker(partition)
        known = self._consumers.get(partition.broker_id)
        if known is not None:
            if known[0] == broker:
                return known[1]
            in_thread(known[1].close)  # it waits for a question that hangs
            self._asked.pop(partition.broker_id, None)
        consumer = self._connect(broker)
        self._consumers[partition.broker_id] = (broker, consumer)
        return consumer

    def _new_consumer(self, broker: Broker) -> SimpleConsumer:
        return SimpleConsumer.of(broker, {"socket.timeout.ms": self._options.socket_timeout_ms})


def _ends(consumer: SimpleConsumer, partitions: Iterable[TopicPartition]) -> Answers:
    """Ask one broker for the ends of its partitions; after a failure there is nothing more to ask it."""
    answers: Answers = {}
    for partition in partitions:
        try:
            answers[partition] = consumer.get_offsets_before(partition.topic, partition.partition, LATEST, 1)[0]
        except BrokerConnectionError as error:
            return answers | {unanswered: error for unanswered in partitions if unanswered not in answers}
    return answers


def _segment_at(
    consumer: SimpleConsumer, partition: TopicPartition, bounds: LogBounds, time_ms: int
) -> tuple[int, int]:
    before: list[int] = []
    if time_ms > 0:  # a question for -1 is one for the latest offset
        before = consumer.get_offsets_before(partition.topic, partition.partition, time_ms - 1, 1)
    edges = bounds.boundaries
    index = bisect_right(edges, before[0]) if before else 0
    return edges[min(index, len(edges) - 1)], edges[min(index + 1, len(edges) - 1)]
