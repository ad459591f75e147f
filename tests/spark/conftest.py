"""A partition's log in memory, which answers as a broker does."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Self, cast

import pytest

from kafka2011.consumer.simple_consumer import FetchedSet, SimpleConsumer
from kafka2011.errors import BrokerConnectionError, OffsetOutOfRangeError
from kafka2011.protocol import EARLIEST, LATEST, FetchRequest
from kafka2011.spark.offset_lookup import OffsetLookup
from kafka2011.spark.partition_lookup import Cluster
from zk.cluster import Broker, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafka2011.spark.options import ReadOptions

PARTITION = TopicPartition("views", 0, 1)


class LogInMemory:
    """Segments of bytes from an offset on; times are those of their last write."""

    def __init__(self, segments: Sequence[bytes], first_offset: int = 0, times_ms: Sequence[int] = ()) -> None:
        self.data = bytearray(b"".join(segments))
        self.first_offset = first_offset
        self.starts = [first_offset]
        for segment in segments[:-1]:
            self.starts.append(self.starts[-1] + len(segment))
        self.times_ms = list(times_ms) or [0] * len(segments)
        self.away = 0
        self.fetched_bytes = 0

    @property
    def end(self) -> int:
        return self.first_offset + len(self.data)

    @property
    def consumer(self) -> SimpleConsumer:
        return cast("SimpleConsumer", self)

    def _answer(self) -> None:
        if self.away:
            self.away -= 1
            raise BrokerConnectionError("connecting to broker 127.0.0.1:1 failed")

    def delete_until(self, offset: int) -> None:
        del self.data[: offset - self.first_offset]
        self.first_offset = offset
        self.starts = [start for start in self.starts if start >= offset]

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> FetchedSet:
        self._answer()
        if not self.first_offset <= offset <= self.end:
            raise OffsetOutOfRangeError(f"{offset}")
        index = bisect_right(self.starts, offset)
        segment_end = self.starts[index] if index < len(self.starts) else self.end
        stop = min(offset + max_bytes, segment_end)
        data = bytes(self.data[offset - self.first_offset : stop - self.first_offset])
        self.fetched_bytes += len(data)
        return FetchedSet(FetchRequest(topic, partition, offset, max_bytes), 0, data)

    def get_offsets_before(self, topic: str, partition: int, time_ms: int, max_count: int = 1) -> list[int]:
        self._answer()
        entries = list(self.starts)
        if self.end > entries[-1]:
            entries.append(self.end)
        if time_ms == EARLIEST:
            return entries[:1]
        if time_ms != LATEST:
            entries = [start for start, at in zip(self.starts, self.times_ms, strict=True) if at <= time_ms]
        return entries[::-1][:max_count]

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class BrokerInMemory:
    """One broker's logs; a consumer of it."""

    def __init__(self, logs: dict[TopicPartition, LogInMemory], broker_id: int) -> None:
        self._logs = logs
        self._broker_id = broker_id

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> FetchedSet:
        return self._log(topic, partition).fetch(topic, partition, offset, max_bytes)

    def get_offsets_before(self, topic: str, partition: int, time_ms: int, max_count: int = 1) -> list[int]:
        return self._log(topic, partition).get_offsets_before(topic, partition, time_ms, max_count)

    def _log(self, topic: str, partition: int) -> LogInMemory:
        return self._logs[TopicPartition(topic, self._broker_id, partition)]

    def close(self) -> None:
        pass


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

    def _sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.on_sleep()

    def lookup(self, options: ReadOptions) -> OffsetLookup:
        def connect(broker: Broker) -> SimpleConsumer:
            return cast("SimpleConsumer", BrokerInMemory(self.logs, broker.id))

        return OffsetLookup(options, self, connect, self._sleep)


@pytest.fixture(scope="session")
def cluster_in_memory() -> type[ClusterInMemory]:
    return ClusterInMemory


@pytest.fixture(scope="session")
def log_in_memory() -> type[LogInMemory]:
    return LogInMemory
