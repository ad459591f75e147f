"""What gateways keep of groups in ZooKeeper: which members are today's clients, and notes of commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from zk import paths
from zk.cluster import TopicPartition
from zk.commit_notes import CommitNotes, GroupCommit
from zk.consumers import ConsumerRegistry
from zk.errors import NodeHeld
from zk.gateway_members import GatewayMember, GatewayMemberRegistry
from zk.nodes import Nodes
from zk.offsets import OffsetRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

    from zk.client import ZkClient

MEMBER = GatewayMember("rdkafka-1234", "rdkafka", "127.0.0.1")


def test_a_member_is_known_as_long_as_its_gateway_says_so(client: ZkClient, new_client: Callable[[], ZkClient]) -> None:
    """Beside others of other gateways, and whatever stands there that cannot be read."""
    registry = GatewayMemberRegistry(client)
    assert registry.read("readers") == {}
    static = MEMBER._replace(instance_id="one", host="größe")
    registry.register("readers", "g_a", MEMBER)
    registry.register("readers", "g_a", static)
    Nodes(client).create(paths.gateway_member("readers", "g_b"), b'{"host": []}')
    other = new_client()
    GatewayMemberRegistry(other).register("readers", "g_c", MEMBER)
    with pytest.raises(NodeHeld):
        registry.register("readers", "g_c", MEMBER)
    assert registry.read("readers") == {"g_a": static, "g_c": MEMBER}
    assert registry.malformed.count == 1

    other.shutdown()
    assert registry.deregister("readers", "g_a")
    assert not registry.deregister("readers", "g_a")
    assert registry.read("readers") == {}


def test_a_note_holds_until_the_offset_is_written_again(client: ZkClient) -> None:
    """On a real ZooKeeper, whose numbers of writes decide."""
    notes, offsets = CommitNotes(client), OffsetRegistry(client)
    many = [TopicPartition("views", 0, number) for number in range(40)]
    commits = {where: GroupCommit(700, where.partition, "text") for where in many}
    for version in range(2):
        assert set(notes.write_many("readers", commits).values()) == {version}
        read = notes.read_many("readers", many)
        assert {where: commit[:3] for where, commit in read.items() if isinstance(commit, GroupCommit)} == {
            where: commit[:3] for where, commit in commits.items()
        }
    one = many[7]
    offsets.write("readers", one, 700)
    assert notes.read_many("readers", [one]) == {one: GroupCommit(700, 0, "", 2, offsets_at(offsets, one))}
    offsets.forget("readers", [one])
    offsets.write("readers", one, 700)
    offsets.write("readers", one, 700)
    offsets.write("readers", one, 700)
    assert notes.read_many("readers", [one]) == {one: GroupCommit(700, 0, "", 2, offsets_at(offsets, one))}
    ConsumerRegistry(client).delete_group("readers")
    assert Nodes(client).children(paths.GATEWAY_COMMITS) == []


def offsets_at(offsets: OffsetRegistry, where: TopicPartition) -> int:
    committed = offsets.read("readers", where)
    assert committed is not None
    return committed.at_ms
