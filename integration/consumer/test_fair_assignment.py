"""Members that say `partition.assignment=fair` divide many small topics evenly, as long as all members say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafka2011.admin import Admin
from kafka2011.consumer.topic_filter import Whitelist
from tests.support.waiting import eventually
from zk import paths
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.consumer.connector import ConsumerConnector
    from kafka2011.local_cluster import LocalCluster
    from zk.client import ZkClient

    NewCluster = Callable[..., LocalCluster]
    OpenMember = Callable[..., ConsumerConnector]
    ZkOf = Callable[[LocalCluster], ZkClient]

FAIR = {"partition.assignment": "fair", "rebalance.backoff.ms": 200}
TOPICS = 24


@pytest.fixture
def cluster(new_cluster: NewCluster, topic: str) -> LocalCluster:
    """Start a broker with many topics of one partition."""
    started = new_cluster(1, {"num.partitions": 1})
    with Admin(started.zk_connect) as admin:
        for number in range(TOPICS):
            admin.create_topic(f"{topic}-{number:02}")
    return started


def test_members_share_many_topics_of_one_partition(
    cluster: LocalCluster, topic: str, open_member: OpenMember, zk_of: ZkOf
) -> None:
    """Four have six each; with a fifth that divides as 0.7 does, the first has all; without it they share again."""
    members = []
    for number in range(4):
        members.append(open_member(cluster, topic, {**FAIR, "consumerid": f"m{number}"}))
        members[-1].create_message_streams_by_filter(Whitelist(f"{topic}-.*"))

    def shares() -> list[int]:
        return [len(member.owned_partitions()) for member in members]

    eventually(lambda: shares() == [6, 6, 6, 6])
    owned = {where for member in members for where in member.owned_partitions()}
    assert len(owned) == TOPICS
    nodes = Nodes(zk_of(cluster))
    said = paths.assignments(f"g-{topic}")
    assert {name: node.data for name, node in nodes.read_children(said).items()} == {
        member.consumer_id: b"fair" for member in members
    }
    fifth = open_member(cluster, topic, {"consumerid": "m9", "rebalance.backoff.ms": 200})
    fifth.create_message_streams_by_filter(Whitelist(f"{topic}-.*"))
    eventually(lambda: shares() == [TOPICS, 0, 0, 0])
    fifth.shutdown()
    eventually(lambda: shares() == [6, 6, 6, 6])
    members.pop().shutdown()
    eventually(lambda: shares() == [8, 8, 8])
    assert nodes.children(said) == [member.consumer_id for member in members]


def test_a_word_that_is_deleted_is_said_again(
    cluster: LocalCluster, topic: str, open_member: OpenMember, zk_of: ZkOf
) -> None:
    """Anybody can delete any znode; the group divides fairly again as soon as its member has seen that."""
    members = [open_member(cluster, topic, {**FAIR, "consumerid": f"m{number}"}) for number in range(2)]
    for member in members:
        member.create_message_streams_by_filter(Whitelist(f"{topic}-.*"))
    eventually(lambda: [len(member.owned_partitions()) for member in members] == [12, 12])
    nodes = Nodes(zk_of(cluster))
    nodes.delete(paths.assignment(f"g-{topic}", members[1].consumer_id))
    eventually(lambda: nodes.exists(paths.assignment(f"g-{topic}", members[1].consumer_id)))
    eventually(lambda: [len(member.owned_partitions()) for member in members] == [12, 12])


def test_members_of_07_rules_leave_no_trace(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember, zk_of: ZkOf
) -> None:
    """A group of which nobody asks for it has the znodes of 0.7 and no other."""
    member = open_member(shared_cluster, topic)
    member.create_message_streams({topic: 1})
    children = Nodes(zk_of(shared_cluster)).children(paths.group(f"g-{topic}"))
    assert children == ["ids", "offsets", "owners"]
