"""The consumer, owner and offset registries on a real ZooKeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.sessions import expire_session
from zk import paths
from zk.cluster import TopicPartition
from zk.consumers import ConsumerRegistry
from zk.errors import GroupInUse, MalformedNode, NodeHeld, NotConnected, VersionConflict
from zk.nodes import Nodes
from zk.offsets import CommittedOffset, OffsetCommit, OffsetRegistry
from zk.owners import Owner, OwnerRegistry
from zk.sessions import SessionEvents

if TYPE_CHECKING:
    from collections.abc import Callable

    from zk.client import ZkClient

P0, P2, P10 = (TopicPartition("t", 0, number) for number in (0, 2, 10))


def await_new_session(client: ZkClient, old: int) -> int:
    events = SessionEvents(client)
    while True:
        session_id = events.session_id
        if session_id not in (None, old):
            return session_id
        events.wait(1)


@pytest.mark.parametrize("text", ['{ "topic": 2,"other": 1 }', "*2*page|click", "!1!.*-internal"])
def test_a_subscription_is_kept_as_it_is(client: ZkClient, text: str) -> None:
    """Its meaning is the consumer's."""
    registry = ConsumerRegistry(client)
    registry.register("g", "g_h-1-00000001", text)
    assert registry.subscriptions("g") == {"g_h-1-00000001": text}
    assert registry.members("g") == ["g_h-1-00000001"]
    assert Nodes(client).get(paths.consumer("g", "g_h-1-00000001")).data == text.encode()  # type: ignore[union-attr]


def test_an_empty_subscription_is_never_written(client: ZkClient) -> None:
    """It would stall every 0.7 member."""
    registry = ConsumerRegistry(client)
    with pytest.raises(ValueError, match="empty"):
        registry.register("g", "c", "")
    assert registry.groups() == []


def test_a_subscription_without_text_is_left_out(client: ZkClient) -> None:
    """A malformed member does not stall ours, but is seen to exist."""
    registry = ConsumerRegistry(client)
    registry.register("g", "good", "*1*t")
    Nodes(client).create(paths.consumer("g", "null"), None)
    Nodes(client).create(paths.consumer("g", "bytes"), b"\xff")
    assert registry.subscriptions("g") == {"good": "*1*t"}
    assert registry.members("g") == ["bytes", "good", "null"]
    assert registry.malformed.count == 2


def test_a_member_leaves(client: ZkClient, new_client: Callable[[], ZkClient]) -> None:
    """By itself, or with its session; nobody else removes it."""
    registry, other = ConsumerRegistry(client), new_client()
    registry.register("g", "a", "*1*t")
    ConsumerRegistry(other).register("g", "b", "*1*t")
    assert registry.deregister("g", "b") is False
    assert registry.deregister("g", "a") is True
    assert registry.members("g") == ["b"]
    other.shutdown()
    assert registry.members("g") == []


def test_a_group_is_deleted_only_without_members(client: ZkClient) -> None:
    """With all it holds; a second time is no error."""
    registry, offsets = ConsumerRegistry(client), OffsetRegistry(client)
    registry.register("g", "a", "*1*t")
    registry.register("h", "a", "*1*t")
    offsets.write("g", P0, 5)
    with pytest.raises(GroupInUse, match="group g has members: a"):
        registry.delete_group("g")
    registry.deregister("g", "a")
    registry.delete_group("g")
    registry.delete_group("g")
    assert registry.groups() == ["h"]


def test_a_partition_has_one_owner(client: ZkClient, new_client: Callable[[], ZkClient]) -> None:
    """The first claim wins, the other learns whose it is, and only the owner gives it up."""
    ours, other_client = OwnerRegistry(client), new_client()
    theirs = OwnerRegistry(other_client)
    ours.claim("g", P0, "a-0")
    ours.claim("g", P0, "a-0")
    with pytest.raises(NodeHeld, match=r"/consumers/g/owners/t/0-0 is held by session 0x[0-9a-f]+: a-0"):
        theirs.claim("g", P0, "b-0")
    assert client.session_id is not None
    assert theirs.owners("g", "t") == {P0: Owner("a-0", client.session_id)}
    assert theirs.release("g", P0) is False
    assert ours.release("g", P0) is True
    assert ours.release("g", P0) is False
    theirs.claim("g", P0, "b-0")
    assert other_client.session_id is not None
    assert ours.owners("g", "t") == {P0: Owner("b-0", other_client.session_id)}


def test_many_partitions_are_claimed_at_once(client: ZkClient, new_client: Callable[[], ZkClient]) -> None:
    """Those that another owns are named; one that is ours gets the other stream; only our own are given up."""
    ours, theirs = OwnerRegistry(client), OwnerRegistry(new_client())
    theirs.claim("g", P2, "b-0")
    ours.claim("g", P0, "a-0")
    u = TopicPartition("u", 0, 0)
    held = ours.claim_many("g", {P0: "a-1", P2: "a-1", P10: "a-1", u: "a-1"})
    assert list(held) == [P2]
    assert "b-0" in str(held[P2])
    every = {**ours.owners("g", "t"), **ours.owners("g", "u")}
    assert {where: owner.stream_id for where, owner in every.items()} == {P0: "a-1", P2: "b-0", P10: "a-1", u: "a-1"}
    ours.release_many("g", [P0, P2, u, TopicPartition("t", 9, 9)])
    assert list(ours.owners("g", "t")) == [P2, P10]


def test_many_offsets_are_read_and_committed_at_once(client: ZkClient) -> None:
    """Each commit says what became of it."""
    registry = OffsetRegistry(client)
    version = registry.write("g", P0, 5)
    Nodes(client).upsert(paths.offset("g", P2), b"seven")
    found = registry.read_many("g", [P0, P2, P10])
    assert found.pop(P0) == CommittedOffset(5, version)
    assert list(found) == [P2]
    assert isinstance(found[P2], MalformedNode)
    commits = [OffsetCommit(P0, 6, version), OffsetCommit(P2, 6, 7), OffsetCommit(P10, 6, 0)]
    outcomes = registry.commit_many("g", commits)
    assert outcomes.pop(P0) == version + 1
    assert list(outcomes) == [P2, P10]
    assert all(isinstance(outcome, VersionConflict) for outcome in outcomes.values())


def test_owners_are_listed_in_numeric_order(client: ZkClient) -> None:
    """Without those whose name or text makes no sense."""
    registry = OwnerRegistry(client)
    for partition in (P10, P2, P0):
        registry.claim("g", partition, f"a-{partition.partition}")
    Nodes(client).create(f"{paths.owners('g', 't')}/x", b"a-0")
    Nodes(client).create(f"{paths.owners('g', 't')}/1-1", None)
    assert [(p, o.stream_id) for p, o in registry.owners("g", "t").items()] == [
        (P0, "a-0"),
        (P2, "a-2"),
        (P10, "a-10"),
    ]
    assert registry.malformed.count == 2
    assert registry.topics("g") == ["t"]


def test_registries_of_an_expired_session_write_no_more(client: ZkClient) -> None:
    """A member that slept through its expiry can neither commit nor own in the session that kazoo made meanwhile."""
    session_id = client.session_id
    assert session_id is not None
    consumers, owners = ConsumerRegistry(client, session_id), OwnerRegistry(client, session_id)
    offsets = OffsetRegistry(client, session_id)
    owners.claim("g", P0, "a-0")
    version = offsets.write("g", P0, 5)
    expire_session(client)
    await_new_session(client, session_id)
    for call in (
        lambda: offsets.commit("g", P0, 9, version),
        lambda: offsets.write("g", P0, 9),
        lambda: owners.claim("g", P2, "a-0"),
        lambda: owners.owners("g", "t"),
        lambda: owners.release("g", P0),
        lambda: consumers.register("g", "a", "*1*t"),
    ):
        with pytest.raises(NotConnected):
            call()
    assert OffsetRegistry(client).read("g", P0) == CommittedOffset(5, version)
    assert OwnerRegistry(client).owners("g", "t") == {}


def test_an_offset_is_committed_only_over_the_version_it_was_read_at(client: ZkClient) -> None:
    """Who takes a partition writes its start first, so the owner before commits no more."""
    registry = OffsetRegistry(client)
    assert registry.read("g", P0) is None
    old = registry.write("g", P0, 100)
    old = registry.commit("g", P0, 150, old)
    new = registry.write("g", P0, 150)
    with pytest.raises(VersionConflict, match="/consumers/g/offsets/t/0-0"):
        registry.commit("g", P0, 175, old)
    registry.commit("g", P0, 200, new)
    assert registry.read("g", P0) == CommittedOffset(200, new + 1)


def test_a_first_offset_is_written_only_where_there_is_none(client: ZkClient) -> None:
    """A second one is a conflict, and leaves the first as it is."""
    registry = OffsetRegistry(client)
    assert registry.create("g", P0, 0) == 0
    with pytest.raises(VersionConflict, match="/consumers/g/offsets/t/0-0: no longer absent"):
        registry.create("g", P0, 7)
    assert registry.read("g", P0) == CommittedOffset(0, 0)


def test_a_commit_of_an_offset_that_is_gone_is_a_conflict(client: ZkClient) -> None:
    """The group was deleted: nothing is created again by a late commit."""
    with pytest.raises(VersionConflict):
        OffsetRegistry(client).commit("g", P0, 1, 0)
    assert ConsumerRegistry(client).groups() == []


@pytest.mark.parametrize("offset", [-1, 2**63])
def test_an_offset_that_07_could_not_read_is_never_written(client: ZkClient, offset: int) -> None:
    """Offsets are int64."""
    with pytest.raises(ValueError, match="offset"):
        OffsetRegistry(client).write("g", P0, offset)


def test_a_malformed_offset_is_an_error_when_asked_for_and_left_out_of_lists(client: ZkClient) -> None:
    """Its owner must know; an overview goes on."""
    registry = OffsetRegistry(client)
    registry.write("g", P0, 7)
    Nodes(client).upsert(paths.offset("g", P2), b"seven")
    with pytest.raises(MalformedNode, match="/consumers/g/offsets/t/0-2: not an offset: seven"):
        registry.read("g", P2)
    assert registry.offsets("g", "t") == {P0: CommittedOffset(7, 0)}
    assert registry.malformed.count == 1


def test_offsets_of_a_group_go_to_another(client: ZkClient) -> None:
    """Export and import; what is not in the import stays."""
    registry = OffsetRegistry(client)
    registry.write("g", P10, 2**63 - 1)
    registry.write("g", P2, 0)
    registry.write("g", TopicPartition("u", 0, 0), 34)
    exported = registry.export_group("g")
    assert exported == {P2: 0, P10: 2**63 - 1, TopicPartition("u", 0, 0): 34}
    registry.write("h", TopicPartition("v", 0, 0), 1)
    registry.import_group("h", exported)
    assert registry.export_group("h") == {**exported, TopicPartition("v", 0, 0): 1}
    assert registry.export_group("unknown") == {}
