"""Following partitions: what comes is yielded, from brokers that wait and from those that do not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from kafka2011.admin import partition_cursor
from kafka2011.admin.partition_cursor import PartitionCursor, following
from kafka2011.consumer.simple_consumer import FetchedSet, SimpleConsumer
from kafka2011.message.message_set import MessageSet
from kafka2011.wire.protocol import FetchRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

ONE = bytes(MessageSet([b"one"]))


class GrowingLog(SimpleConsumer):
    """A broker of one partition, which gets a message whenever somebody waits for it."""

    def __init__(self, messages: int, *, waits: bool) -> None:
        super().__init__("127.0.0.1", 1)
        self._messages = messages
        self._waits = waits
        self.log = b""
        self.waits_ms: list[int] = []

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
        return FetchedSet(FetchRequest(topic, partition, offset, 1000), 0, self.log[offset:])

    def multifetch(
        self, fetches: Iterable[tuple[str, int, int, int]], *, wait_ms: int = 0, min_bytes: int = 1
    ) -> list[FetchedSet]:
        self.waits_ms.append(wait_ms)
        if len(self.log) < self._messages * len(ONE):
            self.log += ONE
        elif self._waits:
            time.sleep(wait_ms / 1000)
        return [
            FetchedSet(FetchRequest(*fetch), 0, self.log[fetch[2] :][:1] if self._waits else b"") for fetch in fetches
        ]


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("brokers", [1, 2])
def test_what_comes_is_yielded(monkeypatch: pytest.MonkeyPatch, brokers: int, *, waits: bool) -> None:
    """Until nothing has come for a while; no wait is longer than what is left of that."""
    monkeypatch.setattr(partition_cursor, "_IDLE_S", 0.02)
    consumers = [GrowingLog(3, waits=waits) for _ in range(brokers)]
    cursors = [PartitionCursor(consumer, "views", 0) for consumer in consumers]
    idle: list[None] = []
    found = list(following(cursors, lambda: idle.append(None), 100))
    assert [message.payload for message in found] == [b"one"] * 3 * brokers
    assert idle
    longest_ms = 100 if brokers == 1 else 10
    assert all(0 < wait_ms <= longest_ms for consumer in consumers for wait_ms in consumer.waits_ms)
