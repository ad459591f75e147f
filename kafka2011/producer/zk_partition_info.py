"""Brokers and partitions from ZooKeeper, followed as they change (paper, section 3.2)."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Self

from kafka2011.producer.errors import BrokersUnreadableError
from kafka2011.producer.partition_info import on_every_broker
from kafka2011.wire.protocol import ANY_PARTITION
from zk.brokers import BrokerRegistry
from zk.cluster import Broker, TopicPartition
from zk.connecting import connect
from zk.errors import ZkError, ZkUnavailable
from zk.known_nodes import KnownTopic
from zk.sessions import SessionEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafka2011.config import ProducerConfig
    from zk.client import ZkClient

logger = logging.getLogger(__name__)

_RETRY_S = 0.5


class ZkBrokerPartitionInfo:
    """The broker registry, read at first use of a topic and again whenever a watch says that it changed.

    A topic that no broker has yet is assumed to be on partition 0 of every live broker: the first message makes it.
    Brokers that have not registered it when another has are still assumed to have it (as in 0.7.2), or it would stay on
    the first one. While ZooKeeper is away, what was known last is used. Owns `client`, and a thread that reads.
    """

    def __init__(self, client: ZkClient) -> None:
        self._client = client
        self._registry = BrokerRegistry(client)
        self._events = SessionEvents(client)
        self._session_id = self._events.session_id
        self._brokers: dict[int, Broker] = {}
        self._last_known: dict[int, Broker] = {}  # those that have gone, too
        self._tell_moved: Callable[[int], object] | None = None
        self._registered: dict[str, tuple[TopicPartition, ...]] = {}  # by topic, those asked for so far
        self._counts: dict[str, Mapping[int, int]] = {}  # of the same, by topic and broker
        self._assumed: dict[str, frozenset[int]] = {}  # brokers by topic, assumed when no broker had it
        self._partitions: dict[str, tuple[TopicPartition, ...]] = {}  # by topic, registered and assumed
        self._reading = threading.Lock()  # a read that began earlier must not overwrite a later one
        self.changed = threading.Event()
        self._known: dict[str, KnownTopic] = {}
        self._stale_topics: set[str] = set()
        self.stale_brokers = False
        self._closing = threading.Event()
        try:
            self._read_brokers()
        except BaseException:
            self.close()
            raise
        self._events.wake(self.changed.set)
        self.changed.set()  # a watch or a change of session between the first read and now
        self.follower = threading.Thread(target=self._follow, name="kafka2011-producer-brokers", daemon=True)
        self.follower.start()

    @classmethod
    def connect(cls, config: ProducerConfig) -> Self:
        """Connect to ZooKeeper as the settings say. Raises ZkError, and ZkUnavailable when it does not answer."""
        return cls(connect(config.zk_connect, config.zk_sessiontimeout_ms, config.zk_connectiontimeout_ms))

    def partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return the topic's partitions, registered and assumed. Raises BrokersUnreadableError."""
        if topic not in self._partitions:
            try:
                self._read_topics([topic])
            except ZkUnavailable as error:
                raise BrokersUnreadableError(f"the partitions of topic {topic} cannot be read: {error}") from error
        return self._partitions[topic]

    choices = partitions

    def lacks(self, partition: TopicPartition) -> bool:
        """Say whether a partition's broker has registered the topic without it; False where that cannot be read."""
        if partition.partition == ANY_PARTITION:
            return False
        try:
            self.partitions(partition.topic)
        except BrokersUnreadableError:
            return False
        count = self._counts[partition.topic].get(partition.broker_id)
        return count is not None and not 0 <= partition.partition < count

    def broker(self, broker_id: int) -> Broker | None:
        """Return where a live broker listens."""
        return self._brokers.get(broker_id)

    def refresh(self) -> None:
        """Read everything again; when ZooKeeper is away, leave it as it is, and say so in the log."""
        try:
            self._read_all()
        except ZkError as error:
            logger.warning("brokers and partitions stay as last known: %s", error)

    def when_moved(self, tell: Callable[[int], object]) -> None:
        """Have `tell` called with a broker's id whenever it has another address than before."""
        self._tell_moved = tell

    def close(self) -> None:
        """End the session and the thread."""
        self._closing.set()
        self._events.close()
        self.changed.set()
        if hasattr(self, "follower") and self.follower is not threading.current_thread():
            self.follower.join()
        self._client.shutdown()

    def _follow(self) -> None:
        while True:
            self.changed.wait()
            self.changed.clear()
            if self._closing.is_set():
                return
            try:
                self._read_stale()
            except ZkError as error:
                logger.warning("brokers and partitions cannot be read, and stay as last known for now: %s", error)
            except Exception:
                # A bug, but never following a change again would be worse than a repeated report.
                logger.exception("brokers and partitions cannot be read, and stay as last known for now")
            else:
                continue
            # What was stale still is, and there may be no further event: perhaps just one answer was lost.
            self._closing.wait(_RETRY_S)
            self.changed.set()

    def _read_stale(self) -> None:
        session_id = self._events.session_id
        if session_id is None:
            return  # the next session, or the same one, wakes us again
        if session_id != self._session_id:  # watches went with the old session
            self._read_all()
            self._session_id = session_id
            return
        stale: list[str] = []
        while self._stale_topics:
            stale.append(self._stale_topics.pop())
        try:
            self._read_topics(stale)
        except BaseException:
            self._stale_topics.update(stale)
            raise
        if self.stale_brokers:
            self._read_brokers()

    def _read_all(self) -> None:
        self._read_brokers()
        for known in list(self._known.values()):
            known.forget_all()  # also when another session's watches would have told what has changed
        self._read_topics(list(self._registered))

    def _read_brokers(self) -> None:
        with self._reading:
            self.stale_brokers = False  # before the read: a watch that fires after it must not be forgotten
            try:
                brokers = self._registry.brokers(self._on_brokers)
            except BaseException:
                self.stale_brokers = True
                raise
            if brokers != self._brokers:
                logger.info("live brokers: %s", ", ".join(map(str, brokers)) or "none")
            self._brokers = brokers
            for topic in self._registered:
                self._merge(topic)
            moved = [
                broker.id
                for broker in brokers.values()
                if self._last_known.get(broker.id, broker).address != broker.address
            ]
            self._last_known.update(brokers)
        if self._tell_moved is not None:
            for broker_id in moved:
                self._tell_moved(broker_id)

    def _read_topics(self, topics: list[str]) -> None:
        """Read what has changed of topics, all of them together."""
        with self._reading:
            every = [
                self._known.setdefault(topic, KnownTopic(topic, partial(self.topic_changed, topic))) for topic in topics
            ]
            self._registry.follow(every)
            for known in every:
                self._counts[known.topic] = counts = self._registry.counts_of(known)
                self._registered[known.topic] = tuple(TopicPartition.all_of(known.topic, counts))
                self._merge(known.topic)

    def _merge(self, topic: str) -> tuple[TopicPartition, ...]:
        """Combine what is registered and what is assumed of live brokers."""
        registered = self._registered[topic]
        if registered:
            has_registered = {where.broker_id for where in registered}
            assumed = self._assumed.get(topic, frozenset()) & self._brokers.keys() - has_registered
        else:
            assumed = frozenset(self._brokers)
        self._assumed[topic] = assumed
        self._partitions[topic] = partitions = tuple(sorted([*registered, *on_every_broker(assumed, topic, 0)]))
        return partitions

    def _on_brokers(self, _event: object) -> None:
        self.stale_brokers = True
        self.changed.set()

    def topic_changed(self, topic: str) -> None:
        """Have the reading thread read a topic again."""
        self._stale_topics.add(topic)
        self.changed.set()
