"""Which partitions are in service, and who still appends to those that are not."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any

import gevent
import pytest

from kafka2011.config import GatewayConfig
from kafka2011.gateway.appends import Append
from kafka2011.gateway.numbering.partition_index import PartitionIndex
from kafka2011.gateway.partitions import Partitions, Served
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.records.found import Origin
from tests.models.gateway.toys import Steps, ToyAnchors, ToyFile
from tests.planted.patches import Defect, read_defects
from tests.support.noticing import assert_noticed
from zk.cluster import Broker, TopicPartition
from zk.gateways import PartitionList
from zk.number_floors import NumberFloors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafka2011.gateway.partition_log import PartitionLog

DEADLINE_S = 20.0
WHERE = TopicPartition("views", 0, 0)


class Cluster:
    """What partitions ask of the catalogue and of claims: one topic with one partition."""

    def __init__(self) -> None:
        self.lists = {"views": PartitionList("views", uuid.UUID(int=7), (WHERE,), 0)}
        self.brokers = {0: Broker(0, "127.0.0.1", 1)}
        self.is_claimed = True
        self.is_registered = True
        self.raised: list[tuple[str, int, int]] = []

    def floors(self, _topic: str) -> NumberFloors:
        return NumberFloors((20,), 0, uuid.UUID(int=5))

    def raise_floor(self, topic: str, partition: int, number: int) -> None:
        self.raised.append((topic, partition, number))

    def partition(self, topic: str, number: int) -> TopicPartition | None:
        return WHERE if (topic, number) == ("views", 0) else None

    def is_live(self, where: TopicPartition) -> bool:
        return where.broker_id in self.brokers and self.is_registered

    def holds(self, _broker_id: int) -> bool:
        return self.is_claimed


class Index(PartitionIndex):
    """An index that is open without a broker."""

    def open(self) -> None:
        pass


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def partitions(cluster: Cluster, tmp_path: Path) -> Iterator[Partitions]:
    def new_index(log: PartitionLog) -> PartitionIndex:
        return Index(log, log.find_pieces, ToyFile(Steps()), ToyAnchors(Steps()))

    known: Any = cluster
    config = GatewayConfig(zk_connect="127.0.0.1:1", directory=tmp_path, request_timeout_ms=300)
    made = Partitions(config, known, known, new_index)
    yield made
    made.stop()


def found(partitions: Partitions) -> Served:
    served = partitions.find("views", 0)
    assert isinstance(served, Served)
    return served


def test_a_partition_is_in_service_while_its_broker_is_there_and_claimed(
    partitions: Partitions, cluster: Cluster
) -> None:
    assert found(partitions) is found(partitions)
    assert partitions.find("views", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.is_claimed = False
    assert partitions.find("views", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.brokers.clear()
    assert partitions.find("views", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("change", ["claim lost and won again", "broker moved", "topic made again"])
def test_what_is_out_of_service_appends_no_more(partitions: Partitions, cluster: Cluster, change: str) -> None:
    """Another log of the same partition is in service by then."""
    old = found(partitions)
    if change == "claim lost and won again":
        partitions.drop(0)
    elif change == "broker moved":
        cluster.brokers[0] = Broker(0, "127.0.0.1", 2)
        partitions.drop_changed()
    else:
        cluster.lists["views"] = cluster.lists["views"]._replace(topic_id=uuid.UUID(int=8))
    assert found(partitions) is not old

    old.log.note_current()
    append = Append([(b"", Origin(-1, -1, -1, 1, os.urandom(8)))])
    old.appender.append(append)
    assert append.done.wait(DEADLINE_S)
    assert append.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_log_of_a_topic_that_was_created_again_goes_on_above_the_old_one(
    partitions: Partitions, cluster: Cluster
) -> None:
    old = found(partitions).log
    assert (old.floor, old.wrapper_id, old.topic_id) == (20, uuid.UUID(int=5), uuid.UUID(int=7))
    reserved = old.index().reserved
    cluster.lists["views"] = cluster.lists["views"]._replace(topic_id=uuid.UUID(int=8))
    partitions.drop_changed()
    assert partitions.logs == []
    new = found(partitions).log
    assert (new.wrapper_id, new.topic_id) == (uuid.UUID(int=5), uuid.UUID(int=8))
    assert cluster.raised == [("views", 0, reserved)]

    del cluster.lists["views"]  # its brokers are away for now: it may be the same topic
    partitions.drop_changed()
    assert partitions.logs == []
    assert len(cluster.raised) == 1


def test_a_topic_whose_broker_has_it_no_more_releases_its_numbers(partitions: Partitions, cluster: Cluster) -> None:
    """The topic is being deleted. A topic whose broker is unavailable keeps its numbers."""
    log, calls = found(partitions).log, list[str]()
    log.release = lambda: calls.append("released")  # type: ignore[method-assign]
    cluster.is_registered = False
    partitions.drop_changed()
    gevent.idle()
    assert calls == ["released"]
    cluster.brokers.clear()
    partitions.drop_changed()
    gevent.idle()
    assert calls == ["released"]


DEFECTS = [
    defect for defect in read_defects("gateway_server").values() if defect.shows.get("file") == "test_partitions"
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test that it names fails with it."""
    monkeypatch.setitem(globals(), "DEADLINE_S", 0.7)
    assert_noticed(defect, globals()[defect.shows["noticed_by"]], request)
