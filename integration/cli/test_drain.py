"""Draining a broker before it is stopped."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from integration.cli.calling import output, run
from kafka2011 import LocalCluster, SyncProducer
from tests.support.waiting import eventually
from zk.brokers import BrokerRegistry
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def two_brokers(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(2, directory=tmp_path, properties={"log.flush.interval": 1}) as running:
        output("topics", "create", "views", "--zookeeper", running.zk_connect)
        yield running


def test_a_drained_broker_serves_on_without_being_registered(two_brokers: LocalCluster) -> None:
    """Clients see the other broker only; what is sent to it all the same is appended. It registers when it starts."""
    broker = two_brokers.brokers[0]
    where = ("--zookeeper", two_brokers.zk_connect)
    with connect(two_brokers.zk_connect) as client:
        registry = BrokerRegistry(client)
        told = output("drain", "0", "--quiet-seconds", "0.1", *where)
        assert "broker 0 with 1 topic is deregistered" in told
        assert ([*registry.brokers()], registry.partitions_of("views")) == ([1], {1: 1})
        output("produce", "views", "--broker", f"{broker.host}:{broker.port}", "--partition", "0", text="late\n")
        assert "broker 0 is not registered" in run("drain", "0", *where).stderr
        broker.stop()
        broker.start()
        assert registry.partitions_of("views") == {0: 1, 1: 1}
    fetched = output("fetch", "views", "--partition", "0-0", *where)
    assert fetched.splitlines() == ["late"]


def test_a_drain_tells_of_a_producer_that_does_not_leave(two_brokers: LocalCluster) -> None:
    """The command fails, names the topic, and leaves the broker deregistered and running."""
    broker = two_brokers.brokers[0]
    is_over = threading.Event()

    def send() -> None:
        with SyncProducer(broker.host, broker.port) as producer:
            while not is_over.wait(0.02):
                producer.send("views", b"more", 0)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        drained = run("drain", "0", "--timeout-seconds", "1", "--zookeeper", two_brokers.zk_connect)
    finally:
        is_over.set()
        sender.join()
    assert drained.returncode == 1
    assert "broker 0 is deregistered, but logs still grow after 1 s: views" in drained.stderr
    assert broker.running
    with connect(two_brokers.zk_connect) as client:
        eventually(lambda: BrokerRegistry(client).brokers().keys() == {1})
