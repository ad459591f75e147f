"""A cluster in memory, as Spark's planners look at one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.spark.lookup import Cluster, OffsetLookup
from tests.support.logs_in_memory import ConsumerInMemory
from zk.cluster import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafka2011.spark.options import ReadOptions
    from tests.support.logs_in_memory import LogInMemory
    from zk.cluster import TopicPartition


class ClusterInMemory:
    """A registry and its brokers. Brokers in `away` are not registered."""

    def __init__(self, logs: Mapping[TopicPartition, LogInMemory]) -> None:
        self.logs = dict(logs)
        self.away: set[int] = set()
        self.offsets: dict[TopicPartition, int] = {}
        self.slept_s: list[float] = []
        self.on_sleep: Callable[[], object] = lambda: None

    def cluster(self, wants: Callable[[str], bool]) -> Cluster:
        alive = {each.broker_id for each in self.logs} - self.away
        found = sorted(each for each in self.logs if each.broker_id in alive and wants(each.topic))
        topics = frozenset(each.topic for each in self.logs)
        return Cluster({each: Broker(each, "127.0.0.1", 9000 + each) for each in alive}, tuple(found), topics)

    def committed(self, group: str, topics: Iterable[str]) -> dict[TopicPartition, int]:
        wanted = set(topics)
        return {each: offset for each, offset in self.offsets.items() if each.topic in wanted}

    def close(self) -> None:
        pass

    def lookup(self, options: ReadOptions) -> OffsetLookup:
        return OffsetLookup(options, self, lambda broker: ConsumerInMemory(self.logs, broker.id), self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.on_sleep()
