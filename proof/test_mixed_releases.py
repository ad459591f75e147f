"""Brokers of 0.2.0 and of this release beside each other, and replicas of one broker id that are rolled forth and back.

Nothing confirmed is lost, and topics keep their numbers of partitions as far as 0.2.0 knows them.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from integration.broker.test_replicas import Sending, numbers, read
from kafka2011.admin.exact_creation import PartitionCountError
from kafka2011.admin.topic_changes import delete_topic
from kafka2011.admin.topic_growth import grow_topic
from kafka2011.admin.topics import create_topic
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.local_cluster import LocalBroker
from kafka2011.producer.sync_producer import SyncProducer
from kafka2011.replica.known_file import KnownFile
from kafka2011.replica.state import ReplicaState
from tests.support.waiting import eventually
from zk.brokers import BrokerRegistry
from zk.connecting import connect
from zk.local_zookeeper import LocalZooKeeper
from zk.ports import free_port
from zk.replicas import ReplicaRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parent.parent
RELEASE, COMMIT = "0.2.0", "c0a9a56"
ID = 3
_NEW = (sys.executable, "-m", "kafka2011")

pytestmark = pytest.mark.timeout(600)


class Rolled(NamedTuple):
    """One replica as either release runs it, on one disk at one port."""

    old: LocalBroker
    new: LocalBroker

    @property
    def running(self) -> LocalBroker:
        return self.old if self.old.running else self.new


@pytest.fixture(scope="module")
def old_program(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Return what runs the command line of the former release."""
    tree = tmp_path_factory.mktemp(RELEASE)
    archive = subprocess.run(["git", "archive", COMMIT], cwd=ROOT, check=False, capture_output=True)
    if archive.returncode:
        pytest.skip(f"there is no commit {COMMIT} of {RELEASE} here: {archive.stderr.decode()}")
    subprocess.run(["tar", "x", "-C", str(tree)], input=archive.stdout, check=True)
    environment = ("env", "PYTHONSAFEPATH=1", f"PYTHONPATH={tree}")
    where = [*environment, sys.executable, "-c", "import kafka2011, zk; print(kafka2011.__file__, zk.__file__)"]
    said = subprocess.run(where, check=True, capture_output=True, text=True).stdout
    assert all(path.startswith(f"{tree}{os.sep}") for path in said.split()), said
    return (*environment, sys.executable, "-m", "kafka2011")


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_nothing_is_lost_while_replicas_are_rolled(
    old_program: tuple[str, ...], tmp_path: Path, order: str, end: str
) -> None:
    """Each is ended and started as the other release, until all are new, and then until all are old again."""
    with LocalZooKeeper(data_dir=tmp_path / "zookeeper") as zookeeper, connect(zookeeper.connect_string) as client:
        settings = {
            "zk.connect": zookeeper.connect_string,
            "zk.sessiontimeout.ms": "2000",
            "replica.lag.time.max.ms": "1000",
            "replica.address.gap.ms": "100",
            "log.file.size": "200000",
        }
        replicas: dict[str, Rolled] = {}
        for name in "ab":
            own = {**settings, "replica.name": name, "port": str(free_port())}
            replicas[name] = Rolled(*(LocalBroker(ID, tmp_path / name, own, it) for it in (old_program, _NEW)))
        registry = ReplicaRegistry(client, ID)
        replicas["a"].old.log_dir.mkdir(parents=True)
        begun = KnownFile(replicas["a"].old.log_dir).load_or_begin("a").replica
        registry.begin(ReplicaState.first(begun).text)

        def state() -> ReplicaState:
            text = registry.read().state
            assert text is not None
            return ReplicaState.of(text, "the test's")

        def await_well() -> None:
            eventually(lambda: {it.name for it in state().in_sync} == {"a", "b"}, what="both in sync")
            eventually(lambda: ID in BrokerRegistry(client).brokers(), what="a registered leader")

        try:
            for each in replicas.values():
                each.old.launch()
            await_well()
            with Sending(zookeeper.connect_string) as sending:
                for release, name in itertools.product(("new", "old"), order):
                    sending.await_more()
                    ended = replicas[name].running
                    if end == "kill":
                        ended.kill()
                    else:
                        ended.stop()
                    getattr(replicas[name], release).launch()
                    await_well()
                    sending.await_more()
            _compare(replicas, lambda: BrokerRegistry(client).brokers()[ID].port, sending.confirmed)
        finally:
            for each in replicas.values():
                for process in each:
                    process.stop()


def test_topics_have_exact_numbers_beside_a_broker_of_the_former_release(
    old_program: tuple[str, ...], tmp_path: Path
) -> None:
    """It makes the number of its settings only. It takes part where that is its share, and grows as it is requested."""
    with LocalZooKeeper(data_dir=tmp_path / "zookeeper") as zookeeper, connect(zookeeper.connect_string) as client:
        settings = {"zk.connect": zookeeper.connect_string, "num.partitions": "4"}
        old = LocalBroker(0, tmp_path / "old", settings, old_program)
        new = LocalBroker(1, tmp_path / "new", settings, _NEW)
        registry = BrokerRegistry(client)
        try:
            old.start()
            new.start()
            for topic, partitions, expected in (("three", 3, {1: 3}), ("eight", 8, {0: 4, 1: 4})):
                create_topic(client, topic, partitions=partitions)
                assert registry.partitions_of(topic) == expected
            for brokers in ([0], [0, 1]):
                with pytest.raises(PartitionCountError, match="broker 0 can only make 4 partitions of topic refused"):
                    create_topic(client, "refused", brokers, partitions=3)
            assert sorted(registry.topics()) == ["eight", "three"]
            assert all(change.is_done for change in grow_topic(client, "eight", 11))
            assert sorted(registry.partitions_of("eight").values()) == [5, 6]
            assert all(change.is_done for change in delete_topic(client, "eight").brokers)
            assert registry.topics() == ["three"]
        finally:
            old.stop()
            new.stop()


def test_topics_with_an_exact_number_lose_nothing_when_a_broker_is_rolled_back(
    old_program: tuple[str, ...], tmp_path: Path
) -> None:
    """The former release serves more partitions than the exact number, never less, and its messages stay."""
    with LocalZooKeeper(data_dir=tmp_path / "zookeeper") as zookeeper, connect(zookeeper.connect_string) as client:
        settings = {"zk.connect": zookeeper.connect_string, "num.partitions": "4", "zk.sessiontimeout.ms": "2000"}
        old, new = (LocalBroker(0, tmp_path, settings, program) for program in (old_program, _NEW))
        registry = BrokerRegistry(client)
        try:
            new.start()
            create_topic(client, "two", partitions=2)
            create_topic(client, "seven", partitions=7)
            _send(new, "seven", 6)
            new.stop()
            old.start()
            assert registry.partitions_of_many(["seven", "two"]) == {"seven": {0: 7}, "two": {0: 4}}
            with pytest.raises(PartitionCountError, match="broker 0 can only make 4 partitions"):
                create_topic(client, "one", partitions=1)
            _send(old, "two", 3)
            old.stop()
            new.start()
            assert registry.partitions_of_many(["seven", "two"]) == {"seven": {0: 7}, "two": {0: 4}}
            with SimpleConsumer(new.host, new.port) as consumer:
                for topic, partition in (("seven", 6), ("two", 3)):
                    assert [message.payload for message in consumer.fetch(topic, partition, 0)] == [b"kept"]
            create_topic(client, "one", partitions=1)
            assert registry.partitions_of("one") == {0: 1}
        finally:
            old.stop()
            new.stop()


def _send(broker: LocalBroker, topic: str, partition: int) -> None:
    with SyncProducer(broker.host, broker.port) as producer:
        producer.send(topic, [b"kept"], partition)


def _compare(replicas: dict[str, Rolled], leader_port: Callable[[], int], confirmed: list[int]) -> None:
    """See that all that was confirmed is there, and that both have the same bytes."""
    port = leader_port()
    leader = next(each.running for each in replicas.values() if each.running.port == port)
    assert set(confirmed) <= set(numbers(read(leader)))

    def logs(name: str) -> dict[str, bytes]:
        directory = replicas[name].running.log_dir
        return {str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.glob("*/*.kafka"))}

    eventually(lambda: logs("a") == logs("b"), what="the same bytes at both")
