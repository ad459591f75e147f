"""The znodes of a broker id's replicas on a real ZooKeeper."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import eventually
from zk import paths
from zk.brokers import BrokerRegistry
from zk.cluster import Broker
from zk.errors import NodeExists, NodeHeld, NotConnected, VersionConflict
from zk.nodes import Nodes
from zk.replicas import Member, ReplicaRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

    from zk.client import ZkClient

ID = 3
A, B = Member("host-a", 9001, "aa"), Member("host-b", 9002, "bb", by_tls=True)


def test_there_is_nothing_at_first(client: ZkClient) -> None:
    found = ReplicaRegistry(client, ID).read()
    assert (found.state, found.leader, found.is_mine, found.members) == (None, None, False, {})


def test_the_state_is_made_once_and_written_only_on_the_version_that_was_read(
    new_client: Callable[[], ZkClient],
) -> None:
    one, two = (ReplicaRegistry(new_client(), ID) for _ in range(2))
    one.begin("first")
    with pytest.raises(NodeExists):
        two.begin("another")
    version = two.read().version
    assert one.write("second", version) == version + 1
    with pytest.raises(VersionConflict):
        two.write("lost", version)
    found = two.read()
    assert (found.state, found.version) == ("second", version + 1)


def test_one_leads_and_the_state_says_so_in_the_same_step(new_client: Callable[[], ZkClient]) -> None:
    clients = [new_client(), new_client()]
    one, two = (ReplicaRegistry(client, ID) for client in clients)
    one.begin("first")
    version = one.lead("one leads", 0, "one")
    assert one.read()[:4] == ("one leads", version, "one", True)
    assert two.read()[:4] == ("one leads", version, "one", False)
    with pytest.raises(NodeExists):
        two.lead("two leads", version, "two")
    assert two.read().state == "one leads"
    clients[0].shutdown()
    with pytest.raises(VersionConflict):
        two.lead("two leads", version - 1, "two")
    assert two.read().leader is None
    two.lead("two leads", version, "two")
    assert two.read()[:4] == ("two leads", version + 1, "two", True)


def test_a_lead_that_was_taken_without_an_answer_is_taken_once_more(client: ZkClient) -> None:
    registry = ReplicaRegistry(client, ID)
    registry.begin("first")
    version = registry.lead("epoch 1", 0, "one")
    assert registry.lead("epoch 2", version, "one") == version + 1
    assert registry.read()[:4] == ("epoch 2", version + 1, "one", True)


def test_members_come_and_go_with_their_sessions(new_client: Callable[[], ZkClient]) -> None:
    ours, theirs = new_client(), new_client()
    registry = ReplicaRegistry(ours, ID)
    registry.join("a", A)
    ReplicaRegistry(theirs, ID).join("b", B)
    Nodes(ours).create(paths.replica_member(ID, "c"), b'{"host": "", "port": 1}')
    members = registry.read().members
    assert {name: replace(member, session=0) for name, member in members.items()} == {"a": A, "b": B}
    assert members["a"].session != members["b"].session
    theirs.shutdown()
    assert registry.read().members == {"a": members["a"]}
    with pytest.raises(NodeHeld):
        ReplicaRegistry(new_client(), ID).join("a", A, wait_ms=0)


def test_whoever_watches_is_told_of_every_change(new_client: Callable[[], ZkClient]) -> None:
    registry, other = (ReplicaRegistry(new_client(), ID) for _ in range(2))
    changes: list[object] = []

    def told(do: Callable[[], object]) -> None:
        registry.read(changes.append)
        changes.clear()
        do()
        eventually(lambda: bool(changes))

    other.begin("first")
    told(lambda: other.join("b", B))
    told(lambda: other.write("second", 0))
    told(lambda: other.lead("third", 1, "b"))
    told(lambda: other.write("fourth", 2))


def test_calls_are_of_one_session(client: ZkClient) -> None:
    with pytest.raises(NotConnected):
        ReplicaRegistry(client, ID, session_id=7).read()


def test_a_broker_registers_only_while_the_state_is_as_it_was(new_client: Callable[[], ZkClient]) -> None:
    """Another address of the same id takes its place when it has gone."""
    ours, theirs = new_client(), new_client()
    replicas = ReplicaRegistry(ours, ID)
    replicas.begin("first")
    broker, other = (Broker.created(ID, "127.0.0.1", port, 1) for port in (9001, 9002))
    BrokerRegistry(ours).register(broker, check=replicas.check(0))
    BrokerRegistry(ours).register(broker, check=replicas.check(0))
    with pytest.raises(NodeHeld):
        BrokerRegistry(theirs).register(other, check=replicas.check(0))
    version = replicas.write("second", 0)
    ours.shutdown()
    with pytest.raises(VersionConflict):
        BrokerRegistry(theirs).register(other, check=replicas.check(0))
    assert BrokerRegistry(theirs).brokers() == {}
    BrokerRegistry(theirs).register(other, check=replicas.check(version))
    assert BrokerRegistry(theirs).brokers()[ID].port == 9002


def test_the_floor_is_noted_while_the_state_is_the_one_that_was_read(client: ZkClient) -> None:
    registry = ReplicaRegistry(client, ID)
    registry.begin("first")
    version = registry.lead("one leads", 0, "one")
    assert registry.read().floor is None
    for floor in ("10 bytes", "20 bytes"):
        registry.note_floor(floor, version)
        assert registry.read().floor == floor
    registry.write("another", version)
    with pytest.raises(VersionConflict):
        registry.note_floor("30 bytes", version)
    assert registry.read().floor == "20 bytes"
