"""librdkafka's mock broker, which keeps messages in memory: what its client could reach, not what a server could."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from paper_benchmarks.measuring.worker import ROOT
from paper_benchmarks.systems.local_server import LocalServer, missing_modules, own_directory, running
from paper_benchmarks.systems.system import Flush, Kind, System

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TIMEOUT_S = 30.0
_SETTINGS = {
    "acks": "all, of one broker",
    "durability": "none: nothing is written, and a partition keeps its last 5 MiB in memory",
}


class MockBroker(LocalServer):
    """A mock broker in a process of its own. Each topic stands for several of its topics, of four partitions each."""

    def count(self, topic: str) -> int:
        """Ask each partition for its first and its last offset."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": f"{self.host}:{self.port}", "group.id": "count"})
        try:
            found = 0
            for name, described in consumer.list_topics(timeout=_TIMEOUT_S).topics.items():
                if name.startswith(f"{topic}-"):
                    for partition in described.partitions:
                        low, high = consumer.get_watermark_offsets(TopicPartition(name, partition), timeout=_TIMEOUT_S)
                        found += high - low
            return found
        finally:
            consumer.close()

    def stored_bytes(self) -> int | None:
        """Return nothing: it has no disk."""
        return None


@contextmanager
def _start(directory: Path, flush: Flush) -> Iterator[System]:  # noqa: ARG001 (nothing is flushed)
    import confluent_kafka

    library = confluent_kafka.libversion()[0]
    version = f"{confluent_kafka.__version__} (librdkafka {library})"
    with own_directory(directory) as data:
        file = data / "address"
        command = [sys.executable, "-m", "paper_benchmarks.systems.mock_cluster", str(file)]
        with running(command, data, {"PYTHONPATH": str(ROOT)}) as process:
            address = process.await_up(lambda: file.read_text(encoding="utf-8"))
            yield MockBroker("confluent", version, int(address.rpartition(":")[2]), process, data, _SETTINGS)


KIND = Kind(
    name="confluent",
    title="confluent-kafka on librdkafka's mock broker",
    produce=("produce",),
    consume=("consume",),
    start=_start,
    many=1_000_000,
    few=100_000,
    missing=lambda: missing_modules("confluent_kafka"),
)
