"""Logs of partitions in memory, and a consumer that finds them there instead of asking a broker."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kafka2011.consumer.simple_consumer import FetchedSet, SimpleConsumer
from kafka2011.errors import BrokerConnectionError, OffsetOutOfRangeError
from kafka2011.wire.protocol import EARLIEST, LATEST, FetchRequest
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class LogInMemory:
    """Segments of bytes from an offset on; times are those of their last write.

    The next `away` questions find no broker.
    """

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

    def delete_until(self, offset: int) -> None:
        del self.data[: offset - self.first_offset]
        self.first_offset = offset
        self.starts = [start for start in self.starts if start >= offset]

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return bytes from an offset on, of one segment at most, as a fetch does."""
        self._answer()
        if not self.first_offset <= offset <= self.end:
            raise OffsetOutOfRangeError(f"{offset}")
        index = bisect_right(self.starts, offset)
        segment_end = self.starts[index] if index < len(self.starts) else self.end
        stop = min(offset + max_bytes, segment_end)
        data = bytes(self.data[offset - self.first_offset : stop - self.first_offset])
        self.fetched_bytes += len(data)
        return data

    def offsets_before(self, time_ms: int, max_count: int) -> list[int]:
        """Answer an offsets request."""
        self._answer()
        entries = list(self.starts)
        if self.end > entries[-1]:
            entries.append(self.end)
        if time_ms == EARLIEST:
            return entries[:1]
        if time_ms != LATEST:
            entries = [start for start, at in zip(self.starts, self.times_ms, strict=True) if at <= time_ms]
        return entries[::-1][:max_count]

    def _answer(self) -> None:
        if self.away:
            self.away -= 1
            raise BrokerConnectionError("connecting to broker 127.0.0.1:1 failed")


class ConsumerInMemory(SimpleConsumer):
    """A consumer of one broker, whose logs are in memory."""

    def __init__(self, logs: Mapping[TopicPartition, LogInMemory], broker_id: int = 0) -> None:
        super().__init__("127.0.0.1", 1, broker_id=broker_id)
        self._logs = logs
        self._broker_id = broker_id

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        max_bytes: int | None = None,
        *,
        wait_ms: int = 0,
        min_bytes: int = 1,
    ) -> FetchedSet:
        size = self._config.fetch_size if max_bytes is None else max_bytes
        data = self._log(topic, partition).read(offset, size)
        return FetchedSet(FetchRequest(topic, partition, offset, size), self.broker_id, data)

    def multifetch(
        self, fetches: Iterable[tuple[str, int, int, int]], *, wait_ms: int = 0, min_bytes: int = 1
    ) -> list[FetchedSet]:
        return [self._part(FetchRequest(*each)) for each in fetches]

    def _part(self, request: FetchRequest) -> FetchedSet:
        try:
            return self.fetch(request.topic, request.partition, request.offset, request.max_bytes)
        except OffsetOutOfRangeError as error:
            return FetchedSet(request, self.broker_id, b"", error)

    def get_offsets_before(self, topic: str, partition: int, time_ms: int, max_count: int = 1) -> list[int]:
        return self._log(topic, partition).offsets_before(time_ms, max_count)

    def _log(self, topic: str, partition: int) -> LogInMemory:
        return self._logs[TopicPartition(topic, self._broker_id, partition)]
