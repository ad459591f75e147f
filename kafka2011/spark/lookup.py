"""What ZooKeeper and brokers say: which partitions there are and where, where segments start and logs end.

Runs on the driver only: one session, and one connection to each broker, kept open.
"""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_right
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias, TypeVar

from kafka2011.admin.groups import Groups
from kafka2011.config.kinds import MAX_INT32
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import BrokerConnectionError, KafkaError, WrongPartitionError
from kafka2011.protocol import LATEST
from kafka2011.spark.errors import BrokerAwayError
from kafka2011.spark.offsets import LogBounds, Walk, log_bounds, nest, walk
from kafka2011.topic import InvalidTopicError, validate_topic
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition
from zk.connecting import connect
from zk.consumers import ConsumerRegistry
from zk.errors import ZkUnavailable
from zk.offsets import OffsetRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import TracebackType

    from kafka2011.spark.offsets import Offsets
    from kafka2011.spark.options import ReadOptions
    from zk.client import ZkClient
    from zk.cluster import Broker

logger = logging.getLogger(__name__)

T = TypeVar("T")

Answers: TypeAlias = "dict[TopicPartition, int | BrokerConnectionError]"

PATIENCE_S = 1.0
"""A broker that has not answered so soon is away for now."""
_PROBE_PARTITIONS = 64


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is there at one time: live brokers, their partitions of the wanted topics, and all topics ever registered.

    A broker that is away is missing here with all its partitions.
    """

    brokers: Mapping[int, Broker]
    partitions: tuple[TopicPartition, ...]
    topics: frozenset[str]


class PartitionLookup(Protocol):
    """Finds brokers and partitions."""

    def cluster(self, wants: Callable[[str], bool]) -> Cluster:
        """Return what is there now of the topics that are wanted. Raises KafkaError."""

    def committed(self, group: str, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Return what a group has committed of some topics."""

    def remembered(self, wants: Callable[[str], bool]) -> set[TopicPartition]:
        """Return the partitions of wanted topics that any group has ever committed; they may be gone."""

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Write where a group goes on. Raises GroupInUse, ZkError."""

    def close(self) -> None:
        """Free what is open; may be called twice."""


class RegistryLookup:
    """Reads the registries in ZooKeeper. Owns `client`."""

    def __init__(self, client: ZkClient) -> None:
        self._client = client
        self._brokers = BrokerRegistry(client)
        self._offsets = OffsetRegistry(client)

    @classmethod
    def connect(cls, options: ReadOptions) -> Self:
        """Open a session. Raises ZkError, naming zk.connect, when nobody answers."""
        return cls(connect(options.zk_connect, options.zk_sessiontimeout_ms, options.zk_connectiontimeout_ms))

    def cluster(self, wants: Callable[[str], bool]) -> Cluster:
        """Read the broker registry. Raises ZkUnavailable."""
        topics = self._brokers.topics()
        brokers = self._brokers.brokers()
        found = [partition for topic in topics if wants(topic) for partition in self._partitions(topic, brokers)]
        return Cluster(brokers, tuple(sorted(found)), frozenset(topics))

    def committed(self, group: str, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Read the offset registry. Raises ZkUnavailable."""
        return {
            partition: committed.offset
            for topic in topics
            for partition, committed in self._offsets.offsets(group, topic).items()
        }

    def remembered(self, wants: Callable[[str], bool]) -> set[TopicPartition]:
        """Read the names of the offsets of all groups. Raises ZkUnavailable."""
        return {
            partition
            for group in ConsumerRegistry(self._client).groups()
            for topic in self._offsets.topics(group)
            if wants(topic)
            for partition in self._offsets.offsets(group, topic)
        }

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Write to the offset registry. Raises GroupInUse, ZkUnavailable."""
        Groups(self._client).import_offsets(group, nest(offsets))

    def close(self) -> None:
        """End the session."""
        self._client.shutdown()

    def _partitions(self, topic: str, brokers: Mapping[int, Broker]) -> Iterator[TopicPartition]:
        try:
            validate_topic(topic)
        except InvalidTopicError as error:  # a 0.7 broker's, which allows more
            logger.warning("left out: %s", error)
            return
        every = TopicPartition.all_of(topic, self._brokers.partitions_of(topic))
        yield from (partition for partition in every if partition.broker_id in brokers)


class ListedLookup:
    """Asks the brokers of broker.list for the topics that are subscribed to by name.

    A broker answers a fetch of a partition that it does not have with an error of its own, also for a topic that it
    has nothing of yet; so the partitions are counted.
    """

    def __init__(self, brokers: Iterable[Broker], topics: Iterable[str], socket_timeout_ms: int) -> None:
        self._brokers = {broker.id: broker for broker in brokers}
        self._topics = tuple(topics)
        self._timeout = {"socket.timeout.ms": socket_timeout_ms}

    def cluster(self, wants: Callable[[str], bool]) -> Cluster:
        """Ask every broker; those that cannot be reached are left out, with a warning."""
        found: list[TopicPartition] = []
        alive: dict[int, Broker] = {}
        for broker_id, broker in self._brokers.items():
            try:
                with SimpleConsumer.of(broker, self._timeout) as consumer:
                    for topic in filter(wants, self._topics):
                        count = _count_partitions(consumer, topic)
                        found += (TopicPartition(topic, broker_id, number) for number in range(count))
            except BrokerConnectionError as error:
                logger.warning("broker %d is left out: %s", broker_id, error)
            else:
                alive[broker_id] = broker
        return Cluster(alive, tuple(sorted(found)), frozenset(self._topics))

    def committed(self, group: str, topics: Iterable[str]) -> dict[TopicPartition, int]:  # noqa: ARG002 (of the protocol)
        """Raise KafkaError: groups are in ZooKeeper."""
        raise KafkaError(f"the offsets of group {group} are in ZooKeeper: give zk.connect")

    def remembered(self, wants: Callable[[str], bool]) -> set[TopicPartition]:  # noqa: ARG002
        """Return nothing: there is nobody to remember."""
        return set()

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:  # noqa: ARG002
        """Raise KafkaError: groups are in ZooKeeper."""
        raise KafkaError(f"group {group} is in ZooKeeper: give zk.connect")

    def close(self) -> None:
        """Do nothing: there is nothing open."""


def open_lookup(options: ReadOptions) -> PartitionLookup:
    """Return the lookup that the options ask for. Raises ZkError."""
    if options.zk_connect:
        return RegistryLookup.connect(options)
    return ListedLookup(options.broker_list, options.subscribe, options.socket_timeout_ms)


def _count_partitions(consumer: SimpleConsumer, topic: str) -> int:
    for first in range(0, MAX_INT32, _PROBE_PARTITIONS):
        sets = consumer.multifetch((topic, first + number, 0, 0) for number in range(_PROBE_PARTITIONS))
        for number, fetched in enumerate(sets):
            if isinstance(fetched.error, WrongPartitionError):
                return first + number
    return MAX_INT32


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
        self._asked: dict[int, Future[Answers]] = {}  # what a broker was asked and has not answered

    def cluster(self) -> Cluster:
        """Return the brokers and wanted partitions of now."""
        self._cluster = self._persist(lambda: self._partitions.cluster(self._options.wants), ZkUnavailable)
        return self._cluster

    def committed(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Return what the group of the options has committed of some topics."""
        names = list(topics)
        return self._persist(lambda: self._partitions.committed(self._options.groupid, names), ZkUnavailable)

    def remembered(self) -> set[TopicPartition]:
        """Return the wanted partitions that any group has ever committed; they may be gone."""
        return self._persist(lambda: self._partitions.remembered(self._options.wants), ZkUnavailable)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets to the group of the options. Does not wait: raises GroupInUse, ZkError."""
        self._partitions.commit(self._options.groupid, offsets)

    def refresh(self) -> Cluster:
        """Return the brokers and wanted partitions of now. Does not wait: raises ZkUnavailable."""
        self._cluster = self._partitions.cluster(self._options.wants)
        return self._cluster

    def last_cluster(self) -> Cluster:
        """Return the brokers and wanted partitions of now, or the last known ones while ZooKeeper does not answer.

        Like brokers it is asked by a thread of its own, and for no longer than a second.
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
                    logger.warning(
                        "going on with the brokers that are known, as the registry cannot be read: %s", error
                    )
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
        """Wait until the brokers of all partitions say where logs end; return that, and who is still away and why."""
        return self._await_all(partitions, self.ends)

    def bounds(self, partition: TopicPartition) -> LogBounds:
        """Return where segments start and the log ends; waits for a broker that is away."""
        return self._ask(partition, lambda consumer: log_bounds(consumer, partition))

    def ends(self, partitions: Iterable[TopicPartition]) -> Answers:
        """Return the flushed end of each partition, or the BrokerConnectionError that came in its place.

        Each broker is asked by a thread of its own, and who has not answered within a second is away for now: one that
        hangs holds up nobody else. It is not asked again before that question ended.
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
            answers.update({each: slow for each in its if each not in answers})
        return answers

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
        nothing finer. Every message from that time on lies at or behind the start; every one before it, before the end.
        """
        return self._ask(partition, lambda consumer: _segment_at(consumer, partition, bounds, time_ms))

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
            in_thread(consumer.close)  # it waits for a question that hangs
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
                self._refresh_quietly()  # it may come back elsewhere
        raise AssertionError("the last attempt returns or raises")

    def _await_all(
        self, partitions: Iterable[TopicPartition], ask: Callable[[list[TopicPartition]], Answers]
    ) -> tuple[Offsets, dict[TopicPartition, BrokerAwayError]]:
        """Ask for all until all have answered, as often as the options allow: once for all, not one after another."""
        missing = sorted(partitions)
        found: Offsets = {}
        errors: dict[TopicPartition, BrokerConnectionError] = {}

        def ask_missing() -> None:
            errors.clear()
            for partition, answer in ask(missing).items():
                if isinstance(answer, BrokerConnectionError):
                    errors[partition] = answer
                else:
                    found[partition] = answer
            missing[:] = sorted(errors)
            if errors:
                raise errors[missing[0]]

        try:
            self._persist(ask_missing, BrokerConnectionError)
        except BrokerAwayError as away:
            return found, dict.fromkeys(errors, away)
        return found, {}

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


def in_thread(ask: Callable[[], T]) -> Future[T]:
    """Ask in a thread of its own, for which the end of the process does not wait."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(ask())
        except BaseException as error:  # noqa: BLE001 (whoever takes the result gets it)
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def _ends(consumer: SimpleConsumer, partitions: Iterable[TopicPartition]) -> Answers:
    """Ask one broker for the ends of its partitions; after a failure there is nothing more to ask it."""
    answers: Answers = {}
    for partition in partitions:
        try:
            answers[partition] = consumer.get_offsets_before(partition.topic, partition.partition, LATEST, 1)[0]
        except BrokerConnectionError as error:
            return answers | {each: error for each in partitions if each not in answers}
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
