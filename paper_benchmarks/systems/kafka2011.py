"""Brokers that speak 0.7: one of ours, started for it, or another that is merely an address."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka2011 import __version__
from kafka2011.c_code import PURE_VARIABLE
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.local_cluster import LocalBroker, LocalCluster
from paper_benchmarks.measuring.accounting import NOTHING, Landed, scan_log
from paper_benchmarks.measuring.usage import room_of, with_children
from paper_benchmarks.systems.system import Flush, Kind, System

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

OWN = "kafka2011"
QUICK_COUNT = {"log.default.flush.scheduler.interval.ms": 100}
"""Counting waits until all can be read, and that should not be 3 s each time."""
FLUSH_SETTINGS = {
    Flush.ASYNCHRONOUS: {"log.flush.interval": 2**31 - 1, "log.default.flush.interval.ms": 1000, **QUICK_COUNT},
    Flush.SHIPPED: QUICK_COUNT,
}


class KafkaBroker(System):
    """A broker and its partition 0. Groups need `zk_connect`, figures of its process need `broker`: ours have both.

    `zookeeper_pid` is the process that has the offsets of its consumers, where that was started for it.
    """

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        *,
        zk_connect: str | None = None,
        broker: LocalBroker | None = None,
        zookeeper_pid: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        version = "0.7" if broker is None else __version__
        super().__init__(name, version, host, port, settings or {}, None if broker is None else broker.log_dir)
        self.zk_connect = zk_connect
        self.broker = broker
        self.zookeeper_pid = zookeeper_pid
        self._counted: dict[str, Landed] = {}

    def server(self) -> dict[str, Any]:
        """Return address, and ZooKeeper where it is known."""
        return {**super().server(), "zk_connect": self.zk_connect}

    def count(self, topic: str) -> int:
        """Read the log, from where it ended the last time, and check every message in it."""
        with SimpleConsumer(self.host, self.port) as consumer:
            counted = self._counted[topic] = scan_log(consumer, topic, self._counted.get(topic, NOTHING))
        return counted.messages

    def pids(self) -> list[int]:
        """Return the broker's process."""
        return [] if self.broker is None else with_children(self.broker.process.pid)

    def stored_bytes(self) -> int | None:
        """Return the room of all its logs."""
        return None if self.broker is None else room_of(self.broker.log_dir)


@contextmanager
def own_broker(
    log_base: Path,
    *,
    zk_connect: str | None = None,
    properties: Mapping[str, object] = QUICK_COUNT,
    pure: bool = False,
) -> Iterator[KafkaBroker]:
    """Run one broker of ours with new logs, which go with it, beside a ZooKeeper of its own unless one is named."""
    with tempfile.TemporaryDirectory(prefix="kafka2011-bench-", dir=log_base) as directory:
        with _environment(PURE_VARIABLE, "1" if pure else "0"):
            cluster = LocalCluster(1, zk_connect=zk_connect, directory=directory, properties=properties)
            try:
                cluster.start()
            except BaseException:
                cluster.close()
                raise
        try:
            broker = cluster.brokers[0]
            yield KafkaBroker(
                OWN,
                broker.host,
                broker.port,
                zk_connect=cluster.zk_connect,
                broker=broker,
                zookeeper_pid=None if cluster.zookeeper is None else cluster.zookeeper.pid,
                settings={key: str(value) for key, value in properties.items()},
            )
        finally:
            cluster.close()


@contextmanager
def _start(directory: Path, flush: Flush) -> Iterator[System]:
    with own_broker(directory, properties=FLUSH_SETTINGS[flush]) as broker:
        yield broker


KIND = Kind(
    name=OWN,
    title="kafka2011",
    produce=("sync", "sync-magic-0", "async", "async-confirmed", "waited", "raw"),
    consume=("batches", "stream", "simple", "raw"),
    start=_start,
    many=1_000_000,
    few=200_000,
)


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
