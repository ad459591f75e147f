"""What gateways keep in ZooKeeper: lists of partitions that only grow, claims that go with a session, anchors."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from zk import paths
from zk.cluster import TopicPartition
from zk.connecting import connect
from zk.errors import NodeExists, NodeHeld, NoNode, VersionConflict
from zk.gateways import GatewayAddress, GatewayRegistry, PartitionList
from zk.nodes import Nodes
from zk.number_floors import NumberFloors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zk.client import ZkClient

HERE = GatewayAddress(0, "127.0.0.1", 9092)


@pytest.fixture
def client(zk_connect: str) -> Iterator[ZkClient]:
    with connect(zk_connect) as connected:
        yield connected


@pytest.fixture
def registry(client: ZkClient) -> GatewayRegistry:
    made = GatewayRegistry(client)
    made.ensure_parents()
    return made


def where(broker_id: int, partition: int) -> TopicPartition:
    return TopicPartition("views", broker_id, partition)


def test_a_list_is_written_over_its_version_only(registry: GatewayRegistry) -> None:
    assert registry.lists(["views"]) == {}
    new = PartitionList("views", uuid.uuid4(), (where(1, 0), where(0, 0)))
    known = registry.store_list(new)
    assert registry.lists(["views"]) == {"views": known}

    grown = registry.store_list(known._replace(partitions=(*known.partitions, where(0, 1))))
    assert registry.lists(["views"]) == {"views": grown}
    with pytest.raises(VersionConflict):
        registry.store_list(known)
    with pytest.raises(NodeExists):
        registry.store_list(new)


def test_a_deleted_topic_is_forgotten_with_its_anchors(registry: GatewayRegistry, client: ZkClient) -> None:
    known = registry.store_list(PartitionList("views", uuid.uuid4(), (where(0, 0),)))
    registry.store_anchor(known.topic_id, where(0, 0), b'{"reserved": 7}', None)

    registry.forget("views")
    registry.forget("views")
    registry.forget("other")
    deleted = known._replace(is_deleted=True, version=1)
    assert registry.lists(["views", "other"]) == {"views": deleted}
    assert Nodes(client).children(paths.GATEWAY_ANCHORS) == []
    assert registry.floors.floors(["views"]) == {"views": NumberFloors((7,), 0, known.topic_id)}
    with pytest.raises(NoNode):
        registry.store_anchor(known.topic_id, where(0, 0), b"{}", None)


@pytest.mark.parametrize("text", [b"", b"[]", b'{"id": "x"}', b'{"id": "0", "partitions": ["0-0"]}', b"\xff"])
def test_a_list_that_cannot_be_read_is_told_apart_from_none(
    registry: GatewayRegistry, client: ZkClient, text: bytes
) -> None:
    Nodes(client).create_with_parents(paths.gateway_topic("views"), text)
    assert registry.lists(["views", "other"]) == {"views": None}
    assert registry.malformed.count == 1


def test_one_gateway_claims_a_broker_until_its_session_ends(registry: GatewayRegistry, zk_connect: str) -> None:
    with connect(zk_connect) as other:
        GatewayRegistry(other).claim(1, HERE._replace(node_id=1, port=9093))
        with pytest.raises(NodeHeld):
            registry.claim(1, HERE)
        registry.claim(2, HERE)
        assert registry.claims() == {1: HERE._replace(node_id=1, port=9093), 2: HERE}
    registry.claim(1, HERE)
    registry.release(2)
    assert registry.claims() == {1: HERE}


def test_a_gateway_keeps_its_number(registry: GatewayRegistry) -> None:
    assert registry.node_id("a", 9092) == 0
    assert registry.node_id("b", 9092) == 1
    assert registry.node_id("a", 9092) == 0


def test_anchors_are_written_over_what_was_read_only(registry: GatewayRegistry) -> None:
    topic_id = registry.store_list(PartitionList("views", uuid.uuid4(), (where(0, 0),))).topic_id
    assert registry.anchor(topic_id, where(0, 0)) is None
    version = registry.store_anchor(topic_id, where(0, 0), b"1", None)
    assert registry.anchor(topic_id, where(0, 0)) == (b"1", version)
    registry.store_anchor(topic_id, where(0, 0), b"2", version)
    with pytest.raises(VersionConflict):
        registry.store_anchor(topic_id, where(0, 0), b"3", version)
    with pytest.raises(NodeExists):
        registry.store_anchor(topic_id, where(0, 0), b"3", None)


def test_the_id_of_the_cluster_is_made_once(registry: GatewayRegistry) -> None:
    assert registry.cluster_id() == registry.cluster_id()
    assert len(registry.cluster_id()) == 22
