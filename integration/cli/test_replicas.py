"""`replicas`, on a broker that gets replicas, loses one, and is given up in part."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from integration.cli.calling import output, run
from kafka2011 import LocalCluster, SimpleConsumer, SyncProducer
from kafka2011.local_cluster import LocalBroker
from tests.support.waiting import eventually
from zk.brokers import BrokerRegistry
from zk.connecting import connect
from zk.replicas import ReplicaRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROPERTIES = {
    "log.flush.interval": 1,
    "zk.sessiontimeout.ms": 2000,
    "replica.lag.time.max.ms": 1000,
    "replica.address.gap.ms": 100,
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """One broker with two replicas, a and b."""
    with LocalCluster(1, directory=tmp_path / "cluster", properties=PROPERTIES, replicas=2) as running:
        yield running


def standings(zk_connect: str) -> dict[object, dict[str, object]]:
    """Return what is listed, also when a leader is registered that does not answer any more."""
    done = run("replicas", "--json", "--zookeeper", zk_connect)
    assert done.returncode == 0, done.stderr
    return {row["replica"]: row for row in json.loads(done.stdout)}


def are_in_sync(cluster: LocalCluster, names: set[str]) -> bool:
    return {name for name, row in standings(cluster.zk_connect).items() if row["in_sync"]} == names


def send(broker: LocalBroker, *payloads: bytes) -> None:
    with SyncProducer(broker.host, broker.port) as producer:
        producer.send("views", list(payloads))


def read(broker: LocalBroker) -> list[bytes]:
    with SimpleConsumer(broker.host, broker.port) as consumer:
        return [message.payload for message in consumer.fetch("views", 0, 0)]


def await_registered(cluster: LocalCluster, broker: LocalBroker) -> None:
    with connect(cluster.zk_connect) as client:
        registry = BrokerRegistry(client)
        eventually(lambda: 0 in (found := registry.brokers()) and found[0].port == broker.port)


def test_replicas_are_listed_and_elected(cluster: LocalCluster) -> None:
    """What only one had is lost when another is elected, and it is kept beside its log; `doctor` says what is wrong."""
    a, b = cluster.processes
    zookeeper = ("--zookeeper", cluster.zk_connect)
    eventually(lambda: are_in_sync(cluster, {"a", "b"}), what="both in sync")
    send(a, b"both have it")
    eventually(lambda: standings(cluster.zk_connect)["b"]["bytes_behind"] == 0)
    found = standings(cluster.zk_connect)
    assert [(row["role"], row["address"]) for row in found.values()] == [
        ("leader", f"{a.host}:{a.port}"),
        ("follower", f"{b.host}:{b.port}"),
    ]
    assert found["a"]["epoch"] == found["b"]["epoch"] == 1
    assert float(str(found["b"]["seconds_behind"])) < 5
    assert "leader" in output("replicas", *zookeeper)
    assert output("doctor", "--seconds", 0, *zookeeper).startswith("No problems found")

    b.stop()
    eventually(lambda: are_in_sync(cluster, {"a"}), what="a alone in sync")
    assert "only a is in sync" in run("doctor", "--seconds", 0, *zookeeper).stdout
    send(a, b"a alone has it")
    eventually(lambda: read(a) == [b"both have it", b"a alone has it"])
    done = run("replicas", "elect", 0, "b", "--accept-loss", *zookeeper)
    assert (done.returncode, "leads broker 0: no election is needed" in done.stderr) == (1, True)

    a.kill()
    b.launch()
    eventually(lambda: standings(cluster.zk_connect).get("b", {}).get("role") == "waiting", what="b waits")
    eventually(lambda: standings(cluster.zk_connect)["a"]["role"] == "away", what="a's session has ended")
    assert "no replica leads: in sync are a, and alive b" in run("doctor", "--seconds", 0, *zookeeper).stdout
    refused = run("replicas", "elect", 0, "b", *zookeeper)
    assert (refused.returncode, "--accept-loss" in refused.stderr) == (2, True)
    nobody = run("replicas", "elect", 0, "c", "--accept-loss", *zookeeper)
    assert "replica c of broker 0 is not alive: start it; alive are b" in nobody.stderr
    elected = json.loads(output("replicas", "elect", 0, "b", "--accept-loss", "--json", *zookeeper))
    assert (elected["broker"], elected["elected"]) == (0, "b")
    b.wait_ready()
    await_registered(cluster, b)
    assert read(b) == [b"both have it"]

    a.launch()
    eventually(lambda: are_in_sync(cluster, {"a", "b"}), what="a follows")
    [kept] = a.log_dir.glob("*/*.cut")
    assert b"a alone has it" in kept.read_bytes()


def test_a_broker_gets_replicas_and_gives_them_up(tmp_path: Path) -> None:
    """What it had before them, and while it had them, is there afterwards."""
    with LocalCluster(1, directory=tmp_path, properties=PROPERTIES) as cluster:
        plain = cluster.brokers[0]
        zookeeper = ("--zookeeper", cluster.zk_connect)
        assert output("replicas", *zookeeper) == "no replicas\n"
        send(plain, b"before")
        running = run("replicas", "init", 0, "a", plain.log_dir, *zookeeper)
        assert "broker 0 is running: stop it first" in running.stderr
        plain.stop()
        empty = tmp_path / "empty"
        assert "is not a directory" in run("replicas", "init", 0, "a", empty, *zookeeper).stderr
        empty.mkdir()
        assert "has no logs" in run("replicas", "init", 0, "a", empty, *zookeeper).stderr
        wrong = run("replicas", "init", 7, "a", plain.log_dir, *zookeeper)
        assert "is the log.dir of broker 0, not of 7" in wrong.stderr
        with connect(cluster.zk_connect) as client:
            client.create("/consumers/reports/offsets/views/0-0", b"1000", makepath=True)
            behind = run("replicas", "init", 0, "a", plain.log_dir, *zookeeper)
            assert "group reports has consumed views/0-0 up to offset 1000" in behind.stderr
            client.delete("/consumers/reports/offsets/views/0-0")
        begun = json.loads(output("replicas", "init", 0, "a", plain.log_dir, "--json", *zookeeper))
        assert (begun["broker"], begun["replica"]) == (0, "a")
        again = run("replicas", "init", 0, "b", plain.log_dir, *zookeeper)
        assert "broker 0 has replicas already" in again.stderr

        settings = {"zk.connect": cluster.zk_connect, "replica.name": "a", **PROPERTIES}
        replica = LocalBroker(0, plain.log_dir.parent, {name: str(value) for name, value in settings.items()})
        replica.start()
        await_registered(cluster, replica)
        alive = run("replicas", "remove", 0, "--yes", *zookeeper)
        assert "stop a first" in alive.stderr
        send(replica, b"meanwhile")
        replica.stop()
        assert run("replicas", "remove", 0, *zookeeper).returncode == 1, "nobody said yes"
        assert output("replicas", "remove", 0, "--yes", *zookeeper).endswith("in the log.dir of a\n")
        plain.start()
        eventually(lambda: read(plain) == [b"before", b"meanwhile"])
        plain.stop()
        before = run("replicas", "init", 0, "b", plain.log_dir, *zookeeper)
        assert "was a replica's in epoch 1" in before.stderr
        output("replicas", "init", 0, "b", plain.log_dir, "--accept-loss", *zookeeper)  # once more: its epochs go on
        assert standings(cluster.zk_connect)["b"]["epoch"] == 2


def test_a_state_that_cannot_be_read_hides_no_other_broker(cluster: LocalCluster) -> None:
    """It is named with an exit status of 1."""
    with connect(cluster.zk_connect) as client:
        ReplicaRegistry(client, 7).begin("damaged")
    done = run("replicas", "--json", "--zookeeper", cluster.zk_connect)
    assert done.returncode == 1
    assert {row["replica"] for row in json.loads(done.stdout)} == {"a", "b"}
    assert "/replicas/7/state" in done.stderr
