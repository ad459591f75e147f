"""The floors of message numbers only ever rise, also when old ones are folded into one floor for all topics."""

from __future__ import annotations

import logging
import uuid
from functools import partial
from typing import TYPE_CHECKING, cast

import pytest

from tests.support.zk_in_memory import ZkClientInMemory
from zk import paths
from zk.cluster import TopicPartition
from zk.errors import NoNode, VersionConflict
from zk.gateways import GatewayRegistry, PartitionList
from zk.nodes import Nodes
from zk.number_floors import FloorRegistry, NumberFloors

if TYPE_CHECKING:
    from collections.abc import Callable

    from zk.client import ZkClient

ID, OLDER = uuid.UUID(int=7), uuid.UUID(int=6)
PARTITIONS = (TopicPartition("views", 1, 0), TopicPartition("views", 0, 0))


@pytest.fixture
def memory() -> ZkClientInMemory:
    return ZkClientInMemory()


@pytest.fixture
def client(memory: ZkClientInMemory) -> ZkClient:
    return cast("ZkClient", memory)


@pytest.fixture
def registry(client: ZkClient) -> GatewayRegistry:
    made = GatewayRegistry(client)
    made.ensure_parents()
    return made


def anchor(reserved: int) -> bytes:
    return b'{"version": 1, "generation": 0, "reserved": %d, "tail": [0, 0, []], "places": []}' % reserved


def test_the_higher_floor_of_each_partition_counts() -> None:
    floors = NumberFloors((10, 20), 5, OLDER)
    assert [floors.of(partition) for partition in range(3)] == [10, 20, 5]
    assert floors.raised(NumberFloors((12, 3, 4, 9), 1, ID)) == NumberFloors((12, 20, 5, 9), 5, OLDER)
    assert floors.covers(NumberFloors((10, 19, 5)))
    assert not floors.covers(NumberFloors((0, 0, 6)))
    assert NumberFloors.of_document(floors.document) == floors


def test_floors_are_raised_and_never_lowered(client: ZkClient) -> None:
    floors = FloorRegistry(client)
    floors.raise_to("views", NumberFloors((10, 20)))
    floors.raise_to("views", NumberFloors((15, 3)))
    assert floors.floors(["views", "other"]) == {"views": NumberFloors((15, 20)), "other": NumberFloors()}


def test_two_that_raise_floors_at_once_lose_none(memory: ZkClientInMemory, client: ZkClient) -> None:
    floors = FloorRegistry(client)
    floors.raise_to("views", NumberFloors((1, 1)))

    def interfere(call: str, _path: str) -> None:
        if call == "commit":
            memory.before = lambda _call, _path: None
            FloorRegistry(client).raise_to("views", NumberFloors((9, 0)))

    memory.before = interfere
    floors.raise_to("views", NumberFloors((0, 8)))
    assert floors.floors(["views"])["views"].numbers == (9, 8)


def test_floors_beyond_the_limit_become_one_floor_for_all_other_topics(client: ZkClient) -> None:
    floors = FloorRegistry(client, most_topics=2)
    for floor, topic in ((10, "first"), (20, "second"), (30, "third"), (40, "fourth")):
        floors.raise_to(topic, NumberFloors((floor, 1)))
    floors.raise_to("second", NumberFloors((7,)))
    assert floors.count() == 2
    known = floors.floors(["first", "second", "third", "fourth", "new"])
    assert [known[topic].of(0) for topic in known] == [30, 20, 30, 40, 30]
    assert known["fourth"].of(1) == 10  # the floor of all others when it got its own


def test_floors_that_cannot_be_read_are_named(
    client: ZkClient, registry: GatewayRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    Nodes(client).create_with_parents(paths.gateway_floors("views"), b'{"version": 2}')
    Nodes(client).create_with_parents(paths.GATEWAY_FLOORS_BASE, b"x")
    with caplog.at_level(logging.WARNING):
        assert registry.floors.floors(["views"]) == {"views": NumberFloors()}
    assert [paths.gateway_floors("views") in caplog.text, paths.GATEWAY_FLOORS_BASE in caplog.text] == [True, True]


def test_a_deletion_turns_anchors_into_floors_in_one_step(registry: GatewayRegistry, client: ZkClient) -> None:
    known = registry.store_list(PartitionList("views", ID, PARTITIONS))
    registry.store_anchor(ID, PARTITIONS[1], anchor(1000), None)
    registry.forget("views")
    assert registry.lists(["views"]) == {"views": known._replace(is_deleted=True, version=1)}
    assert Nodes(client).children(paths.GATEWAY_ANCHORS) == []
    assert registry.floors.floors(["views"])["views"] == NumberFloors((0, 1000), 0, ID)

    again = uuid.UUID(int=8)
    registry.store_list(PartitionList("views", again, PARTITIONS[:1], 1))
    registry.store_anchor(again, PARTITIONS[0], anchor(30), None)
    registry.forget("views")
    registry.forget("views")
    assert registry.floors.floors(["views"])["views"] == NumberFloors((30, 1000), 0, ID)


def test_an_anchor_that_is_written_during_a_deletion_counts(
    registry: GatewayRegistry, memory: ZkClientInMemory, client: ZkClient
) -> None:
    """A gateway writes or creates anchors right before the first two tries of the transaction."""
    registry.store_list(PartitionList("views", ID, PARTITIONS))
    version = registry.store_anchor(ID, PARTITIONS[0], anchor(1), None)
    nodes, first, second = Nodes(client), *(paths.gateway_anchor(ID.hex, where) for where in PARTITIONS)
    writes: list[Callable[[], object]] = [
        partial(nodes.set, first, anchor(50), version),
        partial(nodes.create, second, anchor(70)),
    ]

    def interfere(call: str, _path: str) -> None:
        if call == "commit" and writes:
            writes.pop(0)()

    memory.before = interfere
    registry.forget("views")
    assert registry.floors.floors(["views"])["views"].numbers == (50, 70)


def test_a_deletion_in_a_cluster_without_gateways_leaves_nothing(client: ZkClient) -> None:
    GatewayRegistry(client).forget("views")
    assert not Nodes(client).exists("/gateway")


def test_a_deletion_ends_though_anchors_change_all_the_time(
    registry: GatewayRegistry, memory: ZkClientInMemory, client: ZkClient
) -> None:
    known = registry.store_list(PartitionList("views", ID, PARTITIONS))
    registry.store_anchor(ID, PARTITIONS[0], anchor(1), None)

    def interfere(call: str, _path: str) -> None:
        if call == "commit":
            Nodes(client).set(paths.gateway_anchor(ID.hex, PARTITIONS[0]), anchor(2))

    memory.before = interfere
    with pytest.raises(VersionConflict):
        registry.forget("views")
    assert registry.lists(["views"]) == {"views": known}


def test_no_anchor_is_created_for_a_topic_that_was_deleted(registry: GatewayRegistry, client: ZkClient) -> None:
    registry.store_list(PartitionList("views", ID, PARTITIONS))
    registry.forget("views")
    with pytest.raises(NoNode):
        registry.store_anchor(ID, PARTITIONS[0], anchor(1), None)
    with pytest.raises(NoNode):
        registry.store_anchor(OLDER, PARTITIONS[0], anchor(1), None)
    assert Nodes(client).children(paths.GATEWAY_ANCHORS) == []


def test_no_anchor_is_created_while_a_topic_is_deleted(registry: GatewayRegistry, memory: ZkClientInMemory) -> None:
    """The deletion comes after the list was read, and before the anchor is written."""
    registry.store_list(PartitionList("views", ID, PARTITIONS))

    def interfere(call: str, _path: str) -> None:
        if call == "commit":
            memory.before = lambda _call, _path: None
            registry.forget("views")

    memory.before = interfere
    with pytest.raises(VersionConflict):
        registry.store_anchor(ID, PARTITIONS[0], anchor(1), None)
