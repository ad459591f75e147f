"""Members of other 0.7 implementations in the same group, as the znodes that they write and delete."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from integration.consumer.reading import Reader, everything, produce, repeats
from tests.support.waiting import eventually
from zk import paths
from zk.cluster import TopicPartition
from zk.nodes import Nodes
from zk.offsets import OffsetRegistry
from zk.owners import OwnerRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.consumer.connector import ConsumerConnector
    from kafka2011.local_cluster import LocalCluster
    from zk.client import ZkClient

    OpenMember = Callable[..., ConsumerConnector]
    ZkOf = Callable[[LocalCluster], ZkClient]


def read(member: ConsumerConnector, topic: str) -> Reader:
    [stream] = member.create_message_streams({topic: 1})[topic]
    return Reader(stream)


def test_an_owner_node_of_another_is_waited_for(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember, zk_of: ZkOf
) -> None:
    """The others are read meanwhile, and it as soon as the other gives it up, not after a backoff."""
    produce(shared_cluster.brokers[0], topic, range(10))
    nodes = Nodes(zk_of(shared_cluster))
    held = paths.owner(f"g-{topic}", TopicPartition(topic, 0, 2))
    nodes.create_with_parents(held, b"old_h-1-00000000-0", ephemeral=True)
    member = open_member(shared_cluster, topic, {"rebalance.backoff.ms": 30_000})
    reader = read(member, topic)
    eventually(lambda: set(reader.payloads) == everything(range(10), [0, 1, 3]))
    assert member.counts()["claim_conflicts"] == 1
    nodes.delete(held)
    eventually(lambda: set(reader.payloads) == everything(range(10)))


def test_a_member_of_07_gets_its_share(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember, zk_of: ZkOf
) -> None:
    """It registers and finds its partitions free within the time that it tries, with our offsets in them."""
    produce(shared_cluster.brokers[0], topic, range(10))
    client = zk_of(shared_cluster)
    member = open_member(shared_cluster, topic, {"consumerid": "m"})
    reader = read(member, topic)
    eventually(lambda: set(reader.payloads) == everything(range(10)))
    group, other = f"g-{topic}", f"g-{topic}_a"
    Nodes(client).create(paths.consumer(group, other), b'{ "%s": 1 }' % topic.encode(), ephemeral=True)
    owners = OwnerRegistry(client)
    eventually(lambda: [p.znode_name for p in owners.owners(group, topic)] == ["0-2", "0-3"], timeout_s=6)
    offsets = OffsetRegistry(client).offsets(group, topic)
    assert {offsets[TopicPartition(topic, 0, number)].offset for number in (0, 1)} == {10 * len("0:0") + 100}
    owners.claim(group, TopicPartition(topic, 0, 0), f"{other}-0")
    owners.claim(group, TopicPartition(topic, 0, 1), f"{other}-0")
    produce(shared_cluster.brokers[0], topic, range(10, 20))
    eventually(lambda: everything(range(10, 20), [2, 3]) <= set(reader.payloads))
    # It commits as 0.7 does, whatever is there, and leaves by deleting its nodes.
    OffsetRegistry(client).write(group, TopicPartition(topic, 0, 0), 270)
    owners.release(group, TopicPartition(topic, 0, 0))
    owners.release(group, TopicPartition(topic, 0, 1))
    Nodes(client).delete(paths.consumer(group, other))
    produce(shared_cluster.brokers[0], topic, range(20, 30))
    eventually(lambda: everything(range(20, 30)) | everything(range(10, 20), [1]) <= set(reader.payloads))
    assert repeats(reader.receipts) == []
    assert not everything(range(10, 20), [0]) & set(reader.payloads), "the other consumed these"


@pytest.mark.parametrize("data", [None, b"", b"{", b'{ "%s": 0 }', b"*1*("])
def test_a_malformed_member_disturbs_nobody(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember, zk_of: ZkOf, data: bytes | None
) -> None:
    """It would stall every 0.7 member."""
    group = f"g-{topic}"
    node = data % topic.encode() if data and b"%s" in data else data
    Nodes(zk_of(shared_cluster)).create_with_parents(paths.consumer(group, f"{group}_x"), node, ephemeral=True)
    produce(shared_cluster.brokers[0], topic, range(5))
    reader = read(open_member(shared_cluster, topic), topic)
    eventually(lambda: set(reader.payloads) == everything(range(5)))


def test_a_stale_commit_moves_nothing_for_long(
    shared_cluster: LocalCluster,
    topic: str,
    open_member: OpenMember,
    zk_of: ZkOf,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A revived 0.7 member writes old offsets before it owns anything; the owner's next commit puts that right."""
    broker, group = shared_cluster.brokers[0], f"g-{topic}"
    produce(broker, topic, range(10))
    offsets = OffsetRegistry(zk_of(shared_cluster))

    def committed() -> int | None:
        found = offsets.read(group, TopicPartition(topic, 0, 0))
        return None if found is None else found.offset

    member = open_member(shared_cluster, topic)
    reader = read(member, topic)
    eventually(lambda: committed() == 130)
    with caplog.at_level(logging.WARNING):
        offsets.write(group, TopicPartition(topic, 0, 0), 13)
        produce(broker, topic, range(10, 20))
        eventually(lambda: committed() == 270)
    assert "had moved the offset of" in caplog.text
    assert member.counts()["moved_offsets"] == 1
    assert set(reader.payloads) == everything(range(20))
    assert repeats(reader.receipts) == []


def test_an_owner_node_deleted_by_another_is_claimed_again(
    shared_cluster: LocalCluster,
    topic: str,
    open_member: OpenMember,
    zk_of: ZkOf,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """0.7 deletes by path, unchecked; the member notices by its watch and loses nothing."""
    monkeypatch.setattr("kafka2011.consumer.membership.AUDIT_INTERVAL_S", 1000)
    broker, group = shared_cluster.brokers[0], f"g-{topic}"
    produce(broker, topic, range(10))
    client = zk_of(shared_cluster)
    member = open_member(shared_cluster, topic)
    reader = read(member, topic)
    eventually(lambda: set(reader.payloads) == everything(range(10)))
    eventually(lambda: member.counts()["tries"] >= 2)
    owners = OwnerRegistry(client)
    Nodes(client).delete(paths.owner(group, TopicPartition(topic, 0, 0)))
    eventually(lambda: len(owners.owners(group, topic)) == 4 and member.counts()["rebalances"] == 2)
    produce(broker, topic, range(10, 20))
    eventually(lambda: set(reader.payloads) == everything(range(20)))
    assert repeats(reader.receipts) == []
