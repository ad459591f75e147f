"""`Admin`: topics and groups from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafka2011 import Admin, KafkaError, LocalCluster, SyncProducer, TopicPartition
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    properties = {"num.partitions": PARTITIONS, "log.flush.interval": 1, "log.file.size": 1000}
    with LocalCluster(brokers=2, properties=properties) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(cluster.zk_connect) as connected:
        yield connected


def test_topics(admin: Admin, cluster: LocalCluster) -> None:
    """Topics are made, listed and described, with a number of partitions in all or on each broker."""
    assert sorted(admin.brokers()) == [0, 1]
    assert sorted(made.partitions for made in admin.create_topic("odd", partitions=3)) == [1, 2]
    with pytest.raises(KafkaError, match="topic odd exists, with 3 partitions on broker 0, 1"):
        admin.create_topic("odd", partitions=4)
    assert [made.partitions for made in admin.create_topic("even", per_broker=3)] == [3, 3]
    with pytest.raises(ValueError, match="not both"):
        admin.create_topic("both", partitions=4, per_broker=2)
    assert [made.partitions for made in admin.create_topic("views", [1], partitions=PARTITIONS)] == [PARTITIONS]
    assert admin.topics()["views"] == [TopicPartition("views", 1, number) for number in range(PARTITIONS)]
    [first, _] = admin.describe_topic("views")
    assert (first.where, first.earliest, first.latest) == (TopicPartition("views", 1, 0), 0, 0)
    assert first.broker is not None
    assert first.broker.port == cluster.brokers[1].port
    with pytest.raises(KafkaError, match="topic nowhere is not registered"):
        admin.describe_topic("nowhere")


def test_groups(admin: Admin) -> None:
    """A group's offsets are moved, described, carried over and removed."""
    admin.create_topic("read")
    moved = admin.reset_group("readers", "read", "latest")
    assert moved == dict.fromkeys(admin.topics()["read"], 0)
    assert [(each.where, each.committed, each.lag_bytes) for each in admin.describe_group("readers")] == [
        (where, 0, 0) for where in moved
    ]
    assert admin.problems("readers") == ["group readers has no members"]
    assert admin.import_offsets("others", admin.export_offsets("readers")) == len(moved)
    assert {"readers", "others"} <= set(admin.groups())
    admin.delete_group("others")
    assert "others" not in admin.groups()
    with pytest.raises(KafkaError, match="'soon' is not earliest"):
        admin.reset_group("readers", "read", "soon")


def test_its_state_is_seen(admin: Admin, cluster: LocalCluster) -> None:
    """The repr says of what, and whether it is connected; it may be closed twice."""
    assert repr(admin) == f"<Admin of {cluster.zk_connect}, connected>"
    admin.close()
    admin.close()
    assert repr(admin) == f"<Admin of {cluster.zk_connect}, not connected>"


def test_what_is_no_address_is_a_type_error() -> None:
    """A dict of settings is what clients take; this wants the address alone."""
    with pytest.raises(TypeError, match="zk_connect is text, host:port,host:port/chroot, not dict"):
        Admin({"zk.connect": "localhost:2181"})  # type: ignore[arg-type]


def test_a_group_is_moved_by_messages_over_segments(admin: Admin, cluster: LocalCluster) -> None:
    """Back from the end, through segments of nine messages each, and no further than the log goes."""
    broker = cluster.brokers[0]
    where = TopicPartition("shifted", 0, 0)
    with SyncProducer(broker.host, broker.port) as producer:
        for _ in range(30):
            producer.send("shifted", [bytes(100)], partition=0)
    size = 110
    eventually(lambda: "shifted" in admin.topics())
    eventually(lambda: [each.latest for each in admin.describe_topic("shifted") if each.where == where] == [30 * size])
    admin.reset_group("shifters", "shifted", "latest", [where])
    for messages, at in ((-1, 29), (-8, 21), (-20, 1), (3, 4), (1000, 30), (-1000, 0)):
        assert admin.shift_group("shifters", "shifted", messages, dry_run=True) == {where: at * size}
        assert admin.shift_group("shifters", "shifted", messages) == {where: at * size}
