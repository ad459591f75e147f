"""Brokers that speak 0.7: one of ours, started for it, or another that is merely an address."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka2011 import __version__
from kafka2011.c_code import PURE_VARIABLE
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.local_cluster import LocalBroker, LocalCluster
from paper_benchmarks.measuring.accounting import NOTHING, Landed, scan_log
from paper_benchmarks.measuring.usage import with_children
from paper_benchmarks.systems.system import Kind, Line, System, Way

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

OWN = "kafka2011"
QUICK_COUNT = {"log.default.flush.scheduler.interval.ms": 100}
"""Counting waits until all can be read, and that should not be 3 s each time."""
ASYNCHRONOUS = {"log.flush.interval": 2**31 - 1, "log.default.flush.interval.ms": 1000, **QUICK_COUNT}
"""Flushed by time alone, as in the paper: nothing waits for the disk."""
AS_SHIPPED: Mapping[str, object] = {}
_FLUSHES = {"log.flush.interval": "500", "log.default.flush.interval.ms": "3000"}
"""What a broker does that is told nothing."""


class KafkaBroker(System):
    """A broker and its partition 0. Groups need `zk_connect`, figures of its process need `broker`: ours have both.

    `followers` are other processes of the same broker id. `zookeeper_pid` is the process that has the offsets of its
    consumers, where that was started for it.
    """

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        *,
        zk_connect: str | None = None,
        broker: LocalBroker | None = None,
        followers: Sequence[LocalBroker] = (),
        zookeeper_pid: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        version = "0.7" if broker is None else __version__
        super().__init__(name, version, host, port, settings or {}, None if broker is None else broker.log_dir)
        self.zk_connect = zk_connect
        self.broker = broker
        self.followers = followers
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


@contextmanager
def own_broker(
    log_base: Path,
    *,
    zk_connect: str | None = None,
    properties: Mapping[str, object] = QUICK_COUNT,
    pure: bool = False,
    replicas: int = 1,
) -> Iterator[KafkaBroker]:
    """Run one broker of ours with new logs, which go with it, beside a ZooKeeper of its own unless one is named.

    With `replicas` it is so many processes, of which the first one leads.
    """
    with tempfile.TemporaryDirectory(prefix="kafka2011-bench-", dir=log_base) as directory:
        with _environment(PURE_VARIABLE, "1" if pure else "0"):
            cluster = LocalCluster(
                1, zk_connect=zk_connect, directory=directory, properties=properties, replicas=replicas
            )
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
                followers=cluster.processes[1:],
                zookeeper_pid=None if cluster.zookeeper is None else cluster.zookeeper.pid,
                settings={**_FLUSHES, **{key: str(value) for key, value in properties.items()}},
            )
        finally:
            cluster.close()


@contextmanager
def _start(directory: Path, settings: Mapping[str, object] = AS_SHIPPED, *, pure: bool = False) -> Iterator[System]:
    with own_broker(directory, properties=settings, pure=pure) as broker:
        yield broker


KIND = Kind(
    name=OWN,
    title="kafka2011",
    driver="paper_benchmarks.clients.kafka2011",
    lines=(
        Line(Way.SEND_LISTS, "sync", 1_500_000, 50, "SyncProducer"),
        Line(Way.SEND_LISTS, "async", 1_500_000, 1000, "Producer, async"),
        Line(Way.CONFIRMED_LISTS, "async-confirmed", 1_000_000, 1000, "Producer, async, confirmed"),
        Line(Way.SEND_EACH, "sync", 100_000, 1, "SyncProducer"),
        Line(Way.SEND_EACH, "producer", 100_000, 1, "Producer, sync"),
        Line(Way.SEND_EACH, "async", 500_000, 1, "Producer, async"),
        Line(Way.CONFIRMED_EACH, "async-confirmed", 400_000, 1, "Producer, async, confirmed"),
        Line(Way.SEND_BYTES, "raw", 1_500_000, 50),
        Line(Way.READ_LISTS, "batches", 1_500_000, title="a stream, batches()"),
        Line(Way.READ_COLUMNS, "columns", 1_500_000, title="a stream, arrow()"),
        Line(Way.READ_COLUMNS, "simple-columns", 1_500_000, title="SimpleConsumer, arrow()"),
        Line(Way.READ_EACH, "stream", 1_500_000, title="a stream"),
        Line(Way.READ_EACH, "simple", 1_500_000, title="SimpleConsumer"),
        Line(Way.READ_BYTES, "raw", 1_500_000),
    ),
    start=_start,
    filler="sync",
)
PURE_KIND = replace(
    KIND,
    name=f"{OWN}-python",
    title="kafka2011 without C",
    lines=tuple(replace(line, messages=line.messages // 10) for line in KIND.lines),
    start=partial(_start, pure=True),
    pure=True,
    asked=True,
)


def kind_of(broker: KafkaBroker) -> Kind:
    """Return a kind for a broker that runs elsewhere: no groups, as nothing is known of a ZooKeeper of it."""
    lines = tuple(line for line in KIND.lines if line.client not in {"batches", "columns", "stream"})
    return replace(KIND, name=broker.name, title=broker.name, lines=lines, start=lambda *_: nullcontext(broker))


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
