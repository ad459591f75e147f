"""LocalCluster: real brokers and ZooKeeper on this machine, which never outlive the process that started them."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.local_cluster import LocalCluster, LocalClusterError
from kafka2011.producer.sync_producer import SyncProducer
from tests.support.waiting import eventually
from zk.brokers import BrokerRegistry
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROPERTIES = {"log.flush.interval": 1, "zk.sessiontimeout.ms": 2000}


def registered(zk_connect: str) -> dict[int, int]:
    """Return the port of every registered broker."""
    with connect(zk_connect, 2000, connection_timeout_ms=20_000) as client:
        return {number: broker.port for number, broker in BrokerRegistry(client).brokers().items()}


def payloads(cluster: LocalCluster, number: int) -> list[bytes]:
    with SimpleConsumer("127.0.0.1", cluster.brokers[number].port) as consumer:
        return [message.payload for message in consumer.fetch("views", 0, 0)]


def await_payloads(cluster: LocalCluster, number: int, wanted: list[bytes]) -> None:
    eventually(lambda: payloads(cluster, number) == wanted)


def send(cluster: LocalCluster, number: int, payload: bytes) -> None:
    with SyncProducer("127.0.0.1", cluster.brokers[number].port) as producer:
        producer.send("views", payload)


def test_life_of_a_cluster() -> None:
    """Three brokers and their ZooKeeper come and go together; ports and logs stay over restarts of one and of all."""
    with LocalCluster(brokers=3, properties=PROPERTIES) as cluster:
        ports = {number: broker.port for number, broker in cluster.brokers.items()}
        assert len(set(ports.values())) == 3
        assert registered(cluster.zk_connect) == ports
        for number in ports:
            send(cluster, number, b"%d" % number)
        for number in ports:
            await_payloads(cluster, number, [b"%d" % number])

        cluster.brokers[0].kill()
        cluster.brokers[1].stop()
        assert not cluster.brokers[0].running
        assert 1 not in registered(cluster.zk_connect)
        cluster.start()  # brings back what does not run
        assert registered(cluster.zk_connect) == ports
        assert [payloads(cluster, number) for number in ports] == [[b"0"], [b"1"], [b"2"]]

        added = cluster.add_broker()
        assert added.broker_id == 3
        assert registered(cluster.zk_connect) == {**ports, 3: added.port}

        cluster.stop()
        assert cluster.zookeeper is not None
        assert not cluster.zookeeper.running
        cluster.start()
        assert registered(cluster.zk_connect) == {**ports, 3: added.port}
        assert payloads(cluster, 2) == [b"2"]
        pids = [broker.process.pid for broker in cluster.brokers.values()] + [cluster.zookeeper.pid]
        assert all(psutil.pid_exists(pid) for pid in pids)
        directory = cluster.directory
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert not directory.exists()
    cluster.close()


def test_given_zookeeper_and_directory(zk_connect: str, tmp_path: Path) -> None:
    """With zk_connect no ZooKeeper is started; logs in a given directory stay for another cluster."""
    with LocalCluster(1, zk_connect=zk_connect, directory=tmp_path, properties=PROPERTIES) as cluster:
        assert cluster.zookeeper is None
        assert cluster.zk_connect == zk_connect
        assert registered(zk_connect) == {0: cluster.brokers[0].port}
        send(cluster, 0, b"one")
    assert registered(zk_connect) == {}
    with LocalCluster(1, zk_connect=zk_connect, directory=tmp_path, properties=PROPERTIES) as cluster:
        assert payloads(cluster, 0) == [b"one"]


def test_a_broker_that_does_not_start(zk_connect: str, tmp_path: Path) -> None:
    """The error carries the broker's own words, and nothing that was started is left running."""
    properties = {**PROPERTIES, "topic.partition.count.map": "views:none"}
    before = {child.pid for child in psutil.Process().children()}
    with pytest.raises(LocalClusterError, match=r"broker 0 ended with status 2: (.|\n)*topic\.partition\.count\.map"):
        LocalCluster(2, zk_connect=zk_connect, directory=tmp_path, properties=properties).__enter__()
    assert {child.pid for child in psutil.Process().children()} == before


PARENT = """
import sys, time
from kafka2011.local_cluster import LocalCluster
with LocalCluster(brokers=2, zk_connect=sys.argv[1] or None, directory=sys.argv[2]) as cluster:
    pids = [broker.process.pid for broker in cluster.brokers.values()]
    if cluster.zookeeper is not None:
        pids.append(cluster.zookeeper.pid)
    print(*pids, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process that runs a cluster with a ZooKeeper of its own, and prints the process ids of both."""
    command = [sys.executable, "-c", PARENT, "", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_dies_with_its_parent(parent: subprocess.Popen[str]) -> None:
    """After kill -9 of the process that made it, no process of the cluster is left, even if one was paused."""
    assert parent.stdout is not None
    processes = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
    assert len(processes) == 3
    assert all(process.is_running() for process in processes)
    processes[0].suspend()
    parent.send_signal(signal.SIGKILL)
    parent.wait(20)
    gone, alive = psutil.wait_procs(processes, timeout=20)
    assert not alive
    assert len(gone) == 3
