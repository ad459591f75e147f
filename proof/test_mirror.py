"""Mirrors that are killed again and again: the audit sees no gap between producers and the target."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from integration.test_mirror import CONSUMER_PROPERTIES
from kafka2011 import Admin, LocalCluster, Producer, SimpleConsumer
from kafka2011.audit.publishing import open_counter
from kafka2011.cli.app import main
from kafka2011.events.codec import EventEncoder
from kafka2011.events.publisher import EventPublisher
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.types import CLICK
from tests.support.waiting import eventually
from zk.child import ChildProcess
from zk.connecting import connect
from zk.local_zookeeper import LocalZooKeeper

if TYPE_CHECKING:
    from pathlib import Path

MINUTES = 2
KILL_EVERY_S = 10.0
TOPIC = "clicks"
GROUP = "mirrors"
PARTITIONS = 4
WAIT_S = 120

pytestmark = pytest.mark.timeout(MINUTES * 60 + 600)


class Published:
    """Publishes events into a cluster as the tier `producer`, one after the other, until it is stopped."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self.events = 0
        self.failures: list[BaseException] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        assert not self.failures

    def _run(self) -> None:
        try:
            self._publish()
        except BaseException as error:  # noqa: BLE001 (the test's own thread tells it)
            self.failures.append(error)

    def _publish(self) -> None:
        zk_connect = self._cluster.zk_connect
        settings = {"zk.connect": zk_connect, "producer.type": "async", "confirm": True, "queue.time": 50}
        with (
            connect(zk_connect) as client,
            open_counter("producer", zk_connect) as counter,
            Producer({**settings, "compression.codec": 1}) as gzip,
            Producer(settings) as plain,
        ):
            schemas = SchemaRegistry(client)
            schemas.register(TOPIC, CLICK)
            encoder = EventEncoder(schemas)
            publishers = [EventPublisher(producer, encoder, counter=counter) for producer in (gzip, plain)]
            while not self._stopping.wait(0.01):
                for publisher in publishers:
                    for _ in range(5):
                        publisher.publish(TOPIC, {"item": "a", "position": 1})
                        self.events += 1


def open_mirror(live: LocalCluster, offline: LocalCluster, log: Path) -> ChildProcess:
    command = [sys.executable, "-m", "kafka2011", "mirror", "--from", live.zk_connect, "--to", offline.zk_connect]
    command += ["--whitelist", f"{TOPIC}|audit", "--group", GROUP, "--audit", "mirror"]
    for text in CONSUMER_PROPERTIES:
        command += ["--consumer-property", text]
    return ChildProcess(command, log, stop_timeout_s=WAIT_S)


def distinct(cluster: LocalCluster) -> tuple[int, int]:
    """Return how many messages the topic has, and how many different ones."""
    every: list[bytes] = []
    broker = cluster.brokers[0]
    with SimpleConsumer(broker.host, broker.port) as consumer:
        for partition in range(PARTITIONS):
            offset = 0
            while messages := list(consumer.fetch(TOPIC, partition, offset)):
                every += [message.payload for message in messages]
                offset = messages[-1].next_offset
    return len(every), len(set(every))


def test_the_audit_sees_no_gap_though_mirrors_are_killed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Two share the work, and one of them is killed every few seconds; what is read again counts once."""
    properties = {"num.partitions": PARTITIONS, "log.flush.interval": 1, "zk.sessiontimeout.ms": 2000}
    with ExitStack() as stack:
        zookeeper = stack.enter_context(LocalZooKeeper())
        live, offline = (
            stack.enter_context(LocalCluster(1, zk_connect=f"{zookeeper.connect_string}/{name}", properties=properties))
            for name in ("live", "offline")
        )
        published = Published(live)
        stack.callback(published.stop)
        mirrors = [stack.enter_context(open_mirror(live, offline, tmp_path / f"mirror-{n}")) for n in range(2)]
        until_s = time.monotonic() + MINUTES * 60
        for victim in itertools.cycle(mirrors):
            time.sleep(KILL_EVERY_S)
            if time.monotonic() >= until_s:
                break
            victim.kill()
            victim.start()
        published.stop()
        eventually(lambda: distinct(offline)[1] == published.events, WAIT_S)
        with Admin(live.zk_connect) as admin:
            eventually(lambda: {each.lag_bytes for each in admin.describe_group(GROUP)} == {0}, WAIT_S)
        for mirror in mirrors:
            mirror.stop()
            assert mirror.poll() == 0
        total, different = distinct(offline)
        status = main(["audit", "--zookeeper", offline.zk_connect, "--tiers", "producer,mirror", "--grace", "0"])
        said = capfd.readouterr()
        assert status == 0, said.out + said.err
        sys.stdout.write(f"{said.out}\n{published.events} published, {total} in the target, {different} different\n")
