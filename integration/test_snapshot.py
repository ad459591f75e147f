"""A snapshot of a cluster's registries: read once, and kept current by watches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration.ui.test_serving import received
from kafka2011.admin.snapshot.cluster_reader import ClusterReader
from kafka2011.admin.snapshot.log_offsets import with_log_offsets
from kafka2011.consumer.known import nobody
from tests.support.waiting import eventually
from zk.connecting import connect
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zk.client import ZkClient
    from zk.local_zookeeper import LocalZooKeeper

EPHEMERAL = {
    "/brokers/ids/0": b"h-1:127.0.0.1:1",
    "/brokers/topics/views/0": b"2",
    "/brokers/topics/clicks/0": b"1",
    "/brokers/topics/unread/0": b"3",
    "/consumers/g/ids/g_a": b'{ "views": 1 }',
    "/consumers/g/owners/views/0-0": b"g_a-0",
    "/consumers/h/ids/h_a": b"*1*cl.*",
}
CLIENT = b'{"member_id": "kcat-1", "client_id": "kcat", "host": "10.0.0.1", "instance_id": null}'
OFFSETS = {"/consumers/g/offsets/views/0-0": b"100", "/consumers/h/offsets/clicks/0-0": b"7"}


@pytest.fixture
def client(own_zookeeper: LocalZooKeeper) -> Iterator[ZkClient]:
    with connect(own_zookeeper.connect_string) as connected:
        nodes = Nodes(connected)
        for path, data in EPHEMERAL.items():
            nodes.create_with_parents(path, data, ephemeral=True)
        for path, data in OFFSETS.items():
            nodes.upsert(path, data)
        yield connected


def test_a_kept_snapshot_is_what_a_new_reading_says(client: ZkClient, own_zookeeper: LocalZooKeeper) -> None:
    """After every kind of change; while nothing changes it costs no request."""
    nodes, kept = Nodes(client), ClusterReader(client, nobody)
    assert kept.read() == ClusterReader(client).read()
    before = received(own_zookeeper)
    assert kept.read().groups["g"].offsets
    assert received(own_zookeeper) - before <= 2  # what asks for the number, and a ping
    changes: list[Callable[[], object]] = [
        lambda: nodes.set("/consumers/g/offsets/views/0-0", b"200"),
        lambda: nodes.upsert("/consumers/g/offsets/views/0-1", b"5"),
        lambda: nodes.delete("/consumers/g/owners/views/0-0"),
        lambda: nodes.create("/consumers/g/owners/views/0-1", b"g_a-0", ephemeral=True),
        lambda: nodes.create("/consumers/g/ids/g_b", b"odd", ephemeral=True),
        lambda: nodes.create_with_parents("/gateway/members/g/g_a", CLIENT, ephemeral=True),
        lambda: nodes.set("/gateway/members/g/g_a", CLIENT.replace(b"kcat", b"other")),
        lambda: nodes.delete("/consumers/g/ids/g_a"),
        lambda: nodes.replace_ephemeral("/brokers/topics/views/0", b"4"),
        lambda: nodes.create_with_parents("/brokers/topics/new/0", b"1", ephemeral=True),
        lambda: nodes.upsert("/consumers/new/offsets/views/0-0", b"1"),
        lambda: nodes.delete_tree("/consumers/h"),
        lambda: nodes.delete("/brokers/ids/0"),
    ]
    snapshot = kept.read()
    for change in changes:
        change()
        eventually(lambda: kept.read() == ClusterReader(client).read(), what="the change in the kept snapshot")
        assert kept.read() != snapshot
        snapshot = kept.read()
    assert (list(snapshot.brokers), list(snapshot.groups)) == ([], ["g", "new"])


def test_some_groups_are_read_with_their_topics_alone(client: ZkClient) -> None:
    """Those that they subscribe to, own or have offsets of; an unknown group is left out."""
    every = ClusterReader(client).read()
    of_g = ClusterReader(client).read_groups(["g", "nosuch"])
    assert (of_g.groups, list(of_g.topics)) == ({"g": every.groups["g"]}, ["views"])
    of_all = ClusterReader(client).read_groups()
    assert (of_all.groups, list(of_all.topics)) == (every.groups, ["clicks", "views"])
    assert not ClusterReader(client).read_groups(["g"], with_offsets=False).groups["g"].offsets
    assert ClusterReader(client).read_topics(["unread", "absent"]).topics == {"unread": {0: 3}, "absent": {}}


def test_a_broker_that_does_not_answer_is_named(client: ZkClient) -> None:
    """Its partitions have no offsets, and all else is there; one without partitions is asked only if that is wanted."""
    snapshot = with_log_offsets(ClusterReader(client).read())
    assert snapshot.log_offsets == {}
    assert "127.0.0.1:1" in snapshot.brokers[0].error
    idle = ClusterReader(client).read_topics([])
    assert with_log_offsets(idle).brokers[0].error == ""
    assert "127.0.0.1:1" in with_log_offsets(idle, with_idle=True).brokers[0].error


def test_offsets_that_are_not_wanted_stay_as_they_were(client: ZkClient) -> None:
    """Until they are."""
    kept = ClusterReader(client, nobody)
    before = kept.read()
    Nodes(client).set("/consumers/g/offsets/views/0-0", b"300")
    assert kept.read(lambda group: group != "g") == before
    eventually(lambda: [committed.offset for committed in kept.read().groups["g"].offsets.values()] == [300])
    assert kept.count_offsets() == 2
