"""A cluster in memory, as Spark's planners look at one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.errors import BrokerConnectionError
from kafka2011.spark.cluster_lookup import Cluster
from kafka2011.spark.lookup import OffsetLookup
from tests.support.logs_in_memory import ConsumerInMemory
from zk.cluster import Broker
from zk.errors import GroupInUse, ZkUnavailable

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Mapping

    from kafka2011.consumer.simple_consumer import FetchedSet, SimpleConsumer
    from kafka2011.spark.options import ReadOptions
    from tests.support.logs_in_memory import LogInMemory
    from zk.cluster import TopicPartition


class HangingConsumer(ConsumerInMemory):
    """Does not answer before an event, if there is one."""

    def __init__(
        self,
        logs: Mapping[TopicPartition, LogInMemory],
        broker_id: int,
        answers: threading.Event | None,
        fails_fetches: set[int],
    ) -> None:
        super().__init__(logs, broker_id)
        self._answers = answers
        self._id = broker_id
        self._fails_fetches = fails_fetches

    def get_offsets_before(self, topic: str, partition: int, time_ms: int, max_count: int = 1) -> list[int]:
        if self._answers is not None:
            self._answers.wait(60)
        return super().get_offsets_before(topic, partition, time_ms, max_count)

    def multifetch(
        self, fetches: Iterable[tuple[str, int, int, int]], *, wait_ms: int = 0, min_bytes: int = 1
    ) -> list[FetchedSet]:
        if self._id in self._fails_fetches:
            raise BrokerConnectionError(f"broker {self._id} has closed the connection")
        return super().multifetch(fetches)


class ClusterInMemory:
    """A registry and its brokers. Brokers in `away` are not registered; a blind registry cannot be read.

    Brokers in `fails_fetches` answer where logs end, and nothing else.
    """

    def __init__(self, logs: Mapping[TopicPartition, LogInMemory]) -> None:
        self.logs = dict(logs)
        self.away: set[int] = set()
        self.offsets: dict[TopicPartition, int] = {}
        self.of_other_groups: set[TopicPartition] = set()
        self.members: list[str] = []
        self.blind = False
        self.hung: dict[int, threading.Event] = {}
        self.fails_fetches: set[int] = set()
        self.slept_s: list[float] = []
        self.on_sleep: Callable[[], object] = lambda: None

    def cluster(self, wants: Callable[[str], bool]) -> Cluster:
        if self.blind:
            raise ZkUnavailable("no ZooKeeper answered")
        alive = {each.broker_id for each in self.logs} - self.away
        found = sorted(each for each in self.logs if each.broker_id in alive and wants(each.topic))
        topics = frozenset(each.topic for each in self.logs)
        return Cluster({each: Broker(each, "127.0.0.1", 9000 + each) for each in alive}, tuple(found), topics)

    def committed(self, group: str, topics: Iterable[str]) -> dict[TopicPartition, int]:
        wanted = set(topics)
        return {each: offset for each, offset in self.offsets.items() if each.topic in wanted}

    def remembered(self, wants: Callable[[str], bool]) -> set[TopicPartition]:
        return {each for each in {*self.offsets, *self.of_other_groups} if wants(each.topic)}

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        if self.members:
            raise GroupInUse(group, self.members)
        self.offsets |= offsets

    def close(self) -> None:
        pass

    def lookup(self, options: ReadOptions, patience_s: float = 60.0) -> OffsetLookup:
        def connect(broker: Broker) -> SimpleConsumer:
            return HangingConsumer(self.logs, broker.id, self.hung.get(broker.id), self.fails_fetches)

        return OffsetLookup(options, self, connect, self._sleep, patience_s)

    def _sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.on_sleep()
