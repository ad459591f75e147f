"""When rows became visible in the warehouse: commits are watched as they appear, and compared with their events."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.errors import KafkaError
from kafka2011.warehouse.table.topic_table import TopicTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from zk.cluster import TopicPartition

_LOOK_S = 0.1
_SAY_S = 5.0


class Latency(NamedTuple):
    """How long events were on their way, in seconds."""

    events: int
    mean_s: float
    median_s: float
    p95_s: float


def latency_of(delays_s: Sequence[float]) -> Latency | None:
    """Summarize delays; None without any."""
    if not delays_s:
        return None
    ordered = sorted(delays_s)
    last = len(ordered) - 1
    mean_s = sum(ordered) / len(ordered)
    return Latency(len(ordered), mean_s, ordered[len(ordered) // 2], ordered[min(last, len(ordered) * 95 // 100)])


class Arrivals:
    """Watches the tables of topics in a thread, from `start` to `close`, and notes when each commit was seen."""

    def __init__(self, warehouse: Path, topics: Sequence[str], say: Callable[[str], object]) -> None:
        self._warehouse = warehouse
        self._tables = {topic: TopicTable(warehouse, topic) for topic in topics}
        self._say = say
        self._seen_s: dict[tuple[str, int], float] = {}  # by topic and commit
        self._offsets: dict[str, Mapping[TopicPartition, int]] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="arrivals", daemon=True)
        self.rows = 0
        self.quarantined = 0

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def close(self) -> None:
        """Look once more, and end; may be called twice."""
        if not self._closing.is_set():
            self._closing.set()
            if self._thread.ident is not None:
                self._thread.join()
            self._look()

    def has_reached(self, topic: str, ends: Mapping[TopicPartition, int]) -> bool:
        """Say whether a topic's table has everything before these offsets."""
        offsets = self._offsets.get(topic, {})
        return all(offsets.get(where, 0) >= end for where, end in ends.items())

    def latency(self) -> Latency | None:
        """Return how long events took from their publication until their row was seen. Needs PyArrow."""
        from kafka2011.warehouse import open_table  # noqa: PLC0415

        delays_s: list[float] = []
        for topic in {topic for topic, _ in self._seen_s}:
            rows = open_table(self._warehouse, topic).to_table(columns=["published_at", "kafka2011_load_id"])
            published_us = rows["published_at"].cast("int64").to_pylist()
            for at_us, number in zip(published_us, rows["kafka2011_load_id"].to_pylist(), strict=True):
                delays_s.append(self._seen_s[topic, number] - at_us / 1_000_000)
        return latency_of(delays_s)

    def _run(self) -> None:
        say_at_s, said_rows = time.monotonic() + _SAY_S, 0
        while not self._closing.wait(_LOOK_S):
            self._look()
            if time.monotonic() >= say_at_s and self.rows != said_rows:
                say_at_s, said_rows = time.monotonic() + _SAY_S, self.rows
                self._say(f"in the warehouse: {self.rows:,} rows of {len(self._offsets)} topics")

    def _look(self) -> None:
        for topic, table in self._tables.items():
            last = max((number for seen_topic, number in self._seen_s if seen_topic == topic), default=0)
            try:
                commits = table.commits(last)
            except KafkaError:
                continue  # it is just being made
            for commit in commits:
                self._seen_s[topic, commit.number] = time.time()
                self._offsets[topic] = commit.offsets
                self.rows += commit.rows
                self.quarantined += commit.quarantined
