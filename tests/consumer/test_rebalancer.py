"""The shipped rebalance over registries in memory: scripted interleavings, and any that hypothesis thinks of."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka2011.consumer.feed import PartitionFeed, State
from kafka2011.consumer.rebalance_listener import RebalanceListener
from kafka2011.consumer.topic_count import TopicCount
from kafka2011.consumer.topic_filter import Blacklist, Whitelist
from tests.support.members_in_memory import Member, OldMember, drain, settle
from tests.support.registries_in_memory import LOST, REFUSED, World
from zk.cluster import TopicPartition
from zk.errors import ZkUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

T0, T1, T2, T3 = (TopicPartition("t", 0, number) for number in range(4))


def world_of_four(*, compressed: bool = False) -> World:
    world = World({"t": {0: 4}}, compressed=compressed)
    for where in world.partitions("t"):
        world.produce(where, [b"%d" % number for number in range(10)])
    return world


def stream_of(world: World, where: TopicPartition) -> str | None:
    owner = world.owners.get(where)
    return None if owner is None else owner[0]


def check_at_rest(world: World, *members: Member | OldMember) -> None:
    """Every partition has exactly the owner it should have, and each member knows what is its own."""
    assert {where: stream for where, (stream, _) in world.owners.items()} == world.expected_owners()
    for member in members:
        if not member.is_gone:
            mine = {w for w, (stream, _) in world.owners.items() if stream.rpartition("-")[0] == member.consumer_id}
            assert set(member.owned) == mine


def check_nothing_lost(world: World, *members: Member | OldMember) -> None:
    drain(world, members)
    assert world.every_key() <= world.consumed  # which also has what went with its broker
    for topic in world.topics:
        for where in world.partitions(topic):
            assert world.offsets[where].offset == len(world.logs.get(where, b""))


# Members come and go -------------------------------------------------------------------------------------------------


def test_one_member_takes_everything_and_reads_it_once() -> None:
    """And its offsets are where it ended."""
    world = world_of_four()
    a = Member(world, "a", {"t": 2})
    settle([a])
    check_at_rest(world, a)
    check_nothing_lost(world, a)
    assert set(world.deliveries.values()) == {1}
    assert a.rebalancer.counts["rebalances"] == 1


def test_a_try_that_took_everything_has_succeeded_and_asks_to_look_once_more() -> None:
    """Looking again sets watches on the new owner nodes; that changes nothing, so it is no second rebalance."""
    world = world_of_four()
    a = Member(world, "a", {"t": 1})
    a.run("rebalance")
    assert a.is_done
    assert a.is_woken
    assert a.rebalancer.counts == {"tries": 1, "rebalances": 1}
    a.run("rebalance")
    assert a.is_done
    assert not a.is_woken
    assert a.rebalancer.counts == {"tries": 2, "rebalances": 1}


def test_a_member_that_only_gives_up_has_rebalanced_too() -> None:
    """It counts as one that takes; a member that never had a share has not rebalanced."""
    world = world_of_four()
    a = Member(world, "a", {"t": 1})
    settle([a])
    b, idle = Member(world, "b", {"t": 1}), Member(world, "idle", {"u": 1})
    settle([a, b, idle])
    assert [member.rebalancer.counts["rebalances"] for member in (a, b, idle)] == [2, 1, 0]


def test_a_member_joins_and_the_first_gives_up_its_share() -> None:
    """In the midst of reading: nothing is read twice or lost, since what was consumed is committed at release."""
    world = world_of_four()
    a = Member(world, "a", {"t": 1})
    settle([a])
    for _ in range(3):
        a.run("fetch")
        while a.read():
            pass
    b = Member(world, "b", {"t": 1})
    settle([a, b])
    check_at_rest(world, a, b)
    assert {stream_of(world, where) for where in (T0, T1)} == {"a-0"}
    check_nothing_lost(world, a, b)
    assert set(world.deliveries.values()) == {1}


def test_a_member_leaves_in_order() -> None:
    """Its partitions are taken over from where it committed; the message in hand alone comes again."""
    world = world_of_four()
    a, b = Member(world, "a", {"t": 1}), Member(world, "b", {"t": 1})
    settle([a, b])
    b.run("fetch")
    in_hand = b.read()
    b.run("leave")
    settle([a, b])
    check_at_rest(world, a)
    assert b.consumer_id not in world.ids
    check_nothing_lost(world, a)
    assert {key for key, times in world.deliveries.items() if times > 1} == {in_hand}


def test_the_znodes_of_a_member_that_leaves_do_not_wait_for_the_end_of_its_session() -> None:
    """Nor does it hand out anything by its lease any more."""
    world = world_of_four()
    a = Member(world, "a", {"t": 1})
    settle([a])
    a.rebalancer.leave(commit=True)
    assert world.owners == {}
    assert world.ids == {}
    assert a.rebalancer.session is not None
    assert a.rebalancer.session.lease.until_s == 0


def test_a_member_that_leaves_without_committing_gives_up_all_the_same() -> None:
    """Nothing more is fetched or handed out, and the listener is told; offsets stay where they were committed."""
    world = world_of_four()
    diary = Diary(world)
    a = Member(world, "a", {"t": 1}, listener=diary)
    settle([a])
    a.run("fetch")
    a.read()
    before = list(a.rebalancer.owned.values())
    writes = len(world.writes)
    a.rebalancer.leave(commit=False)
    assert {owned.feed.state for owned in before} == {State.RELEASED}
    assert a.fetchers.partitions == {}
    assert a.rebalancer.owned == {}
    assert diary.entries[1:] == [("revoked", [T0, T1, T2, T3], {"a-0"})]
    assert world.owners == {}
    assert len(world.writes) == writes


def test_a_member_dies() -> None:
    """What it consumed and did not commit comes again."""
    world = world_of_four()
    a, b = Member(world, "a", {"t": 1}), Member(world, "b", {"t": 1})
    settle([a, b])
    b.run("fetch")
    read = {b.read() for _ in range(4)}
    b.kill()
    settle([a, b])
    check_at_rest(world, a)
    check_nothing_lost(world, a)
    assert {key for key, times in world.deliveries.items() if times > 1} == read


def test_a_partition_that_stays_is_left_alone() -> None:
    """It goes on being read while others of its topic come and go, and the message in hand is not waited for."""
    world = world_of_four()
    a = Member(world, "a", {"t": 1})
    settle([a])
    a.run("fetch")
    before = {where: a.rebalancer.owned[where] for where in (T0, T1)}
    in_hand = a.read()
    assert in_hand is not None
    assert in_hand.where in before
    b = Member(world, "b", {"t": 1})
    settle([a, b])
    check_at_rest(world, a, b)
    assert a.rebalancer.owned == before
    b.run("leave")
    settle([a])
    assert {where: a.rebalancer.owned[where] for where in before} == before
    assert all(stream.unfinished_releases == 0 for stream in a.streams)
    check_nothing_lost(world, a)
    assert set(world.deliveries.values()) == {1}


def test_a_partition_that_moves_to_another_stream_of_its_member_is_not_given_up_to_others() -> None:
    """Its owner node says the other stream, and it is read on from where the first one was."""
    world = world_of_four()
    a, b = Member(world, "a", {"t": 2}), Member(world, "b", {"t": 2})
    settle([a, b])
    assert [stream_of(world, where) for where in (T0, T1)] == ["a-0", "a-1"]
    for _ in range(3):
        a.run("fetch")
        while a.read():
            pass
    deleted = Counter(world.deleted_owners)
    b.run("leave")
    settle([a])
    assert [stream_of(world, where) for where in (T0, T1)] == ["a-0", "a-0"]
    assert Counter(world.deleted_owners) - deleted == Counter({T2: 1, T3: 1})
    check_nothing_lost(world, a)
    assert set(world.deliveries.values()) == {1}


def test_partitions_are_given_up_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """First none of them hands out or fetches any more; only then the application is waited for, once for all."""
    world = world_of_four()
    a = Member(world, "a", {"t": 1}, release_wait_ms=5000)
    settle([a])
    a.run("fetch")
    seen: list[tuple[set[State], list[TopicPartition], float]] = []
    end_release = PartitionFeed.end_release

    def note(feed: PartitionFeed, deadline_s: float) -> None:
        states = {a.rebalancer.owned[where].feed.state for where in (T2, T3)} - {State.RELEASED}
        seen.append((states, sorted(owned.where for owned in a.fetchers.partitions), deadline_s))
        world.now_s += 1
        end_release(feed, deadline_s)

    monkeypatch.setattr(PartitionFeed, "end_release", note)
    given_up = [a.rebalancer.owned[where].feed for where in (T2, T3)]
    began_s = world.now_s
    settle([Member(world, "b", {"t": 1}), a])
    assert seen == [({State.RELEASING}, [T0, T1], began_s + 5)] * 2
    assert {feed.state for feed in given_up} == {State.RELEASED}


def test_a_rebalance_of_many_partitions_sends_no_more_batches_than_one_of_few() -> None:
    """Claims, reads, writes and releases of all partitions each go out together."""
    batches: list[list[str]] = []
    for partitions in (4, 400):
        world = World({"t": {0: partitions}})
        a = Member(world, "b", {"t": 1})
        settle([a])
        check_nothing_lost(world, a)
        a.registries.batches.clear()
        b = Member(world, "a", {"t": 1})
        settle([a, b])
        check_at_rest(world, a, b)
        batches.append(a.registries.batches + b.registries.batches)
    assert batches[0] == batches[1]


def test_topics_whose_share_is_the_same_are_left_alone() -> None:
    """As 0.7 does it: a member of another topic disturbs nobody, not even the message in hand."""
    world = World({"t": {0: 2}, "u": {0: 2}})
    world.produce(T0, [b"x"])
    a = Member(world, "a", {"t": 1, "u": 1})
    settle([a])
    before = a.rebalancer.owned[T0]
    b = Member(world, "b", {"u": 1})
    settle([a, b])
    check_at_rest(world, a, b)
    assert a.rebalancer.owned[T0] is before


def test_streams_of_one_member_share_its_partitions() -> None:
    """Each stream counts as a consumer."""
    world = world_of_four()
    a, b = Member(world, "a", {"t": 2}), Member(world, "b", {"t": 1})
    settle([a, b])
    assert [stream_of(world, where) for where in (T0, T1, T2, T3)] == ["a-0", "a-0", "a-1", "b-0"]


def test_each_topic_goes_to_its_own_streams() -> None:
    """Though one rebalance takes them all, and their streams have the same ids."""
    world = World({topic: {0: 2} for topic in ("t", "u")})
    for topic in ("t", "u"):
        for where in world.partitions(topic):
            world.produce(where, [b"one", b"two"])
    a = Member(world, "a", {"t": 2, "u": 1})
    settle([a])
    a.run("fetch")
    found = {
        topic: [message.topic for stream in streams for message in iter(stream.poll, None)]
        for topic, streams in a.streams_by_topic.items()
    }
    assert found == {"t": ["t"] * 4, "u": ["u"] * 4}


def test_a_member_waits_for_a_topic_that_does_not_exist() -> None:
    """It owns nothing, stays registered, and takes the topic when it is born; it creates nothing."""
    world = World({})
    a = Member(world, "a", {"t": 1})
    settle([a])
    assert list(world.ids) == ["a"]
    assert world.topics == {}
    world.set_partitions("t", 0, 2)
    settle([a])
    assert set(a.owned) == {T0, T1}


@pytest.mark.parametrize(
    ("count", "topics"),
    [(TopicCount.filtered(Whitelist("u.*"), 1), {"u1", "u2"}), (TopicCount.filtered(Blacklist("u2"), 1), {"t", "u1"})],
)
def test_a_filter_takes_topics_born_later(count: TopicCount, topics: set[str]) -> None:
    """All that it allows, and no others."""
    world = World({"t": {0: 1}})
    a = Member(world, "a", count)
    settle([a])
    world.set_partitions("u1", 0, 1)
    world.set_partitions("u2", 0, 1)
    settle([a])
    assert {where.topic for where in a.owned} == topics


def test_partitions_of_a_broker_come_and_go_with_it() -> None:
    """And are read on from where they were left."""
    world = World({"t": {0: 1, 1: 1}})
    other = TopicPartition("t", 1, 0)
    for where in (T0, other):
        world.produce(where, [b"%d" % number for number in range(10)])
    a = Member(world, "a", {"t": 1})
    settle([a])
    a.run("fetch")
    while a.read():
        pass
    world.set_partitions("t", 1, 0)
    settle([a])
    assert set(a.owned) == {T0}
    world.set_partitions("t", 1, 1)
    settle([a])
    check_at_rest(world, a)
    check_nothing_lost(world, a)
    assert set(world.deliveries.values()) == {1}


def test_a_broker_that_comes_back_elsewhere_is_followed() -> None:
    """Its partitions are fetched from its new address, without being given up."""
    world = world_of_four()
    a = Member(world, "a", {"t": 1})
    settle([a])
    before = a.rebalancer.owned[T0]
    world.brokers[0] = world.brokers[0].created(0, "h", 9999, 2)
    world.changed(("partitions", "t"))
    settle([a])
    assert a.rebalancer.owned[T0] is before
    assert before.broker.address == "h:9999"
    assert a.fetchers.partitions[before].port == 9999


def test_a_topic_of_a_broker_that_is_not_registered_fails_the_try() -> None:
    """0.7 requires both; when the broker has registered, the next try succeeds."""
    world = world_of_four()
    broker = world.brokers.pop(0)
    a = Member(world, "a", {"t": 1})
    a.run("rebalance")
    assert not a.is_done
    assert world.owners == {}
    world.brokers[0] = broker
    settle([a])
    check_at_rest(world, a)


def test_partitions_that_come_later_are_newborn() -> None:
    """Those that were there when the member came are not, nor do they become so."""
    world = World({"t": {0: 1}})
    a = Member(world, "a", {"t": 1, "later": 1})
    settle([a])
    world.set_partitions("t", 1, 1)
    world.set_partitions("later", 0, 1)
    settle([a])
    newborn = {where: owned.is_newborn for where, owned in a.rebalancer.owned.items()}
    assert newborn == {T0: False, TopicPartition("t", 1, 0): True, TopicPartition("later", 0, 0): True}


# The application is told ----------------------------------------------------------------------------------------------


class Diary(RebalanceListener):
    """Writes down what it is told, and who owned the partitions then."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.entries: list[tuple[str, list[TopicPartition], set[str]]] = []
        self.error: Exception | None = None

    def note(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        owners = {self.world.owners[where][0] for where in partitions if where in self.world.owners}
        self.entries.append((what, list(partitions), owners))
        if self.error is not None:
            raise self.error

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.note("assigned", partitions)

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.note("revoked", partitions)


class DiaryOfLosses(Diary):
    """Tells lost partitions from those given up."""

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.note("lost", partitions)


def test_a_listener_is_told_while_the_partitions_are_owned() -> None:
    """Before they go to another, and after they have come; at the end too."""
    world = world_of_four()
    diary = Diary(world)
    a, b = Member(world, "a", {"t": 1}, listener=diary), Member(world, "b", {"t": 1})
    settle([a])
    every = [T0, T1, T2, T3]
    assert diary.entries == [("assigned", every, {"a-0"})]
    settle([b, a])
    assert diary.entries[1:] == [("revoked", [T2, T3], {"a-0"})]
    a.run("leave")
    assert diary.entries[2:] == [("revoked", [T0, T1], {"a-0"})]


def test_nothing_is_fetched_before_the_listener_has_returned() -> None:
    """So it may begin where the application's own state ends."""
    world = world_of_four()

    class Loader(Diary):
        def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            assert not a.fetchers.partitions
            assert a.rebalancer.owned[T0].start_at(50)
            super().on_assigned(partitions)

    loader = Loader(world)
    a = Member(world, "a", {"t": 1}, listener=loader)
    settle([a])
    assert [what for what, _, _ in loader.entries] == ["assigned"]
    assert a.rebalancer.owned[T0].feed.consumed_offset == 50


@pytest.mark.parametrize(("kind", "expected"), [(Diary, "revoked"), (DiaryOfLosses, "lost")])
def test_a_listener_is_told_of_partitions_lost_with_the_session(kind: type[Diary], expected: str) -> None:
    """When they are no longer owned; one that does not tell them apart takes them for given up."""
    world = world_of_four()
    diary = kind(world)
    a = Member(world, "a", {"t": 1}, listener=diary)
    settle([a])
    a.registries.expire()
    settle([a])
    assert diary.entries[1] == (expected, [T0, T1, T2, T3], set())
    assert diary.entries[2][0] == "assigned"


def test_what_a_listener_raises_stops_no_rebalance(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged and counted."""
    world = world_of_four()
    diary = Diary(world)
    diary.error = RuntimeError("state is not saved")
    a, b = Member(world, "a", {"t": 1}, listener=diary), Member(world, "b", {"t": 1})
    settle([a])
    settle([b, a])
    check_at_rest(world, a, b)
    a.run("leave")
    assert [what for what, _, _ in diary.entries] == ["assigned", "revoked", "revoked"]
    assert a.rebalancer.counts["listener_errors"] == 3
    assert caplog.text.count("a: the rebalance listener failed") == 3
    settle([b])
    check_nothing_lost(world, b)


# Conflicts -----------------------------------------------------------------------------------------------------------


def test_a_partition_that_another_still_owns_is_waited_for() -> None:
    """The others are begun with; the owner's going wakes the next try, which claims no more than what is left."""
    world = world_of_four()
    stranger = world.new_session()
    world.claim_owner(T2, "old-0", stranger)
    a = Member(world, "a", {"t": 1})
    a.run("rebalance")
    assert not a.is_done
    assert a.owned == {T0, T1, T3}
    assert a.rebalancer.counts["claim_conflicts"] == 1
    a.is_woken = False
    a.registries.calls.clear()
    world.delete_owner(T2)
    assert a.is_woken
    settle([a])
    check_at_rest(world, a)
    assert a.registries.calls.count("claim") == 1


def test_a_conflict_that_ended_before_the_watch_was_set_is_seen() -> None:
    """The try after it is not left to the backoff."""
    world = world_of_four()
    world.claim_owner(T2, "old-0", world.new_session())
    a = Member(world, "a", {"t": 1})
    a.start("rebalance")
    while a.registries.calls[-1:] != ["read_offset"]:
        a.step()
    world.delete_owner(T2)
    a.finish()
    assert a.is_woken
    settle([a])
    check_at_rest(world, a)


def test_an_owner_node_deleted_by_a_stranger_is_claimed_again() -> None:
    """Others delete by path, unchecked; nothing is lost by it."""
    world = world_of_four()
    a = Member(world, "a", {"t": 1})
    settle([a])
    a.run("fetch")
    for _ in range(3):
        a.read()
    world.delete_owner(T1)
    settle([a])
    check_at_rest(world, a)
    check_nothing_lost(world, a)


def test_an_ids_node_deleted_by_a_stranger_is_written_again() -> None:
    """Without it we would wait for ever for a share; who notices it first, itself, gives nothing up for it."""
    world = world_of_four()
    a, b = Member(world, "a", {"t": 1}), Member(world, "b", {"t": 1})
    settle([a, b])
    before = dict(a.rebalancer.owned)
    del world.ids["a"]
    world.changed("ids")
    settle([a, b])
    assert set(world.ids) == {"a", "b"}
    assert a.rebalancer.owned == before
    check_at_rest(world, a, b)


def test_a_claim_that_is_no_longer_wanted_is_taken_back_once() -> None:
    """One that was not answered may have succeeded; once its node is gone, it is nobody's business any more."""
    world = world_of_four()
    b = Member(world, "b", {"t": 1})
    b.registries.faults.append(("claim", LOST))
    b.run("rebalance")
    assert b.owned == set()
    assert set(world.owners) == {T0, T1, T2, T3}
    a = Member(world, "a", {"t": 1})
    a.run("rebalance")
    b.run("rebalance")
    b.run("rebalance")
    assert b.registries.batches.count("release") == 1
    assert world.deleted_owners == [T0, T1]
    settle([a, b])
    check_at_rest(world, a, b)


def test_a_claim_that_another_held_is_not_taken_back() -> None:
    """There is nothing of ours there."""
    world = World({"t": {0: 2}})
    world.claim_owner(T0, "old-0", world.new_session())
    b = Member(world, "b", {"t": 1})
    b.run("rebalance")
    assert b.owned == {T1}
    a = Member(world, "a", {"t": 1})
    a.run("rebalance")
    b.run("rebalance")
    assert b.owned == {T1}
    assert "release" not in b.registries.batches


def test_a_claim_of_an_ended_session_is_not_taken_back() -> None:
    """Its node went with the session."""
    world = world_of_four()
    b = Member(world, "b", {"t": 1})
    b.registries.faults.append(("claim", LOST))
    b.run("rebalance")
    b.registries.expire()
    a = Member(world, "a", {"t": 1})
    settle([a, b])
    assert b.owned == {T2, T3}
    assert "release" not in b.registries.batches


@pytest.mark.parametrize("text", ["", "{", '{ "t": 0 }', "*1*(", "*1!t"])
def test_a_malformed_member_is_ignored(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once, and the others go on without it; 0.7's would stall."""
    world = world_of_four()
    world.ids["x"] = (text, world.new_session())
    a = Member(world, "a", {"t": 1})
    with caplog.at_level(logging.WARNING):
        settle([a])
        a.run("rebalance")
    check_at_rest(world, a)
    assert caplog.text.count("ignored member x") == 1
    assert a.rebalancer.counts["malformed_members"] == 1


def test_a_malformed_member_that_comes_again_is_reported_again() -> None:
    """Only those that are there are remembered."""
    world = world_of_four()
    a = Member(world, "a", {"t": 1})
    for times in (1, 2):
        world.ids["x"] = ("{", world.new_session())
        world.changed("ids")
        settle([a])
        assert a.rebalancer.counts["malformed_members"] == times
        del world.ids["x"]
        world.changed("ids")
        settle([a])


def test_a_07_member_joins_and_leaves() -> None:
    """It commits without versions and releases everything first; the group comes to rest all the same."""
    world = world_of_four()
    a = Member(world, "b", {"t": 1})
    settle([a])
    a.run("fetch")
    a.read()
    old = OldMember(world, "a", "t")
    settle([a, old])
    check_at_rest(world, a)
    assert {w: stream_of(world, w) for w in (T0, T1)} == {T0: "a-0", T1: "a-0"}
    old.consume()
    old.commit()
    old.kill()
    settle([a, old])
    check_at_rest(world, a)
    check_nothing_lost(world, a)


def test_members_of_07_that_release_everything_settle_with_those_that_release_the_difference() -> None:
    """In any order of their tries, as members come and go on both sides."""
    for order in itertools.permutations(range(4)):
        world = world_of_four()
        everyone: list[Member | OldMember] = []
        for number, is_old in enumerate((False, True, False, True)):
            name = f"{order[number]}-{number}"
            everyone.append(OldMember(world, name, "t") if is_old else Member(world, name, {"t": 1}))
            settle(everyone[::-1] if number % 2 else everyone)
            check_at_rest(world, *everyone)
        for member in (everyone[0], everyone[3]):
            member.kill()
            settle(everyone)
            check_at_rest(world, *everyone)
        check_nothing_lost(world, *everyone)


# Sessions ------------------------------------------------------------------------------------------------------------


def test_after_its_session_expired_a_member_begins_anew() -> None:
    """It hands out nothing until then; what it consumed without committing need not come again if nobody took over."""
    world = world_of_four()
    a = Member(world, "a", {"t": 1})
    settle([a])
    a.run("fetch")
    read = [a.read() for _ in range(6)]
    a.registries.expire()
    assert a.read() is None
    settle([a])
    check_at_rest(world, a)
    assert a.rebalancer.counts["sessions_lost"] == 1
    check_nothing_lost(world, a)
    assert {key for key, times in world.deliveries.items() if times > 1} <= {read[-1]}


def test_a_member_enters_before_it_rebalances() -> None:
    """So that a name which another holds is refused at once; and again in each new session."""
    world = world_of_four()
    a = Member(world, "a", {"t": 1})
    for _ in range(2):
        a.rebalancer.enter()
        assert a.registries.session is not None
        assert world.ids == {"a": ('{ "t": 1 }', a.registries.session.session_id)}
        a.registries.expire()


def test_without_a_session_a_member_cannot_enter() -> None:
    """It is told so as when ZooKeeper does not answer."""
    world = world_of_four()
    a = Member(world, "a", {"t": 1})
    a.registries.session = None
    with pytest.raises(ZkUnavailable, match="not connected to ZooKeeper"):
        a.rebalancer.enter()
    with pytest.raises(ZkUnavailable):
        a.rebalancer.try_once()


def test_a_try_compares_what_is_known_before_it_divides() -> None:
    """Watches alone are not trusted; if the comparison fails, nothing is claimed by what may be out of date."""
    world = world_of_four()
    a = Member(world, "a", {"t": 1})
    a.registries.faults.append(("refresh", REFUSED))
    a.run("rebalance")
    assert not a.is_done
    assert world.owners == {}


def test_what_an_ended_session_owned_is_given_up_before_the_new_one_claims_anything() -> None:
    """At once: nothing is handed out, fetched or committed any more, even if the try goes no further."""
    world = world_of_four()
    a = Member(world, "a", {"t": 1})
    settle([a])
    a.run("fetch")
    a.read()
    before = list(a.rebalancer.owned.values())
    a.registries.expire()
    before[0].session.lease.until_s = float("inf")
    a.rebalancer.enter()
    assert a.rebalancer.owned == {}
    assert a.fetchers.partitions == {}
    assert {owned.feed.state for owned in before} == {State.RELEASED}
    assert all(owned.session.lease.until_s == 0 for owned in before)


def test_what_was_left_is_forgotten_once_it_was_taken_up_again_or_committed() -> None:
    """It would be a stale word about a partition that has gone on since."""
    world = world_of_four()
    a = Member(world, "a", {"t": 1})
    settle([a])
    a.run("fetch")
    a.registries.expire()
    a.rebalancer.enter()
    assert set(a.rebalancer.left) == {T0, T1, T2, T3}
    settle([a])
    a.run("fetch")
    assert a.rebalancer.left == {}
    b = Member(world, "b", {"t": 1})
    settle([b, a])
    check_at_rest(world, a, b)
    assert a.rebalancer.left == {}


def test_partitions_that_come_after_explicit_commits_are_committed_explicitly_too() -> None:
    """The application gives the offsets of their topic; what it merely consumed is not committed."""
    world = World({"t": {0: 1}, "u": {0: 1}})
    for topic in ("t", "u"):
        world.produce(TopicPartition(topic, 0, 0), [b"x"])
    a = Member(world, "a", {"t": 1, "u": 1})
    a.rebalancer.explicit_topics.add("t")
    settle([a])
    drain(world, [a])
    assert {where.topic: owned.is_explicit for where, owned in a.rebalancer.owned.items()} == {"t": True, "u": False}
    assert [world.offsets[TopicPartition(topic, 0, 0)].offset for topic in ("t", "u")] == [0, 11]


def test_with_explicit_commits_nothing_that_was_merely_consumed_is_committed() -> None:
    """Not when a partition is given up either, whether or not its topic has an explicit offset yet."""
    world = world_of_four()
    world.produce(T0, [b"x"])
    a = Member(world, "a", {"t": 1}, explicit_commits=True)
    settle([a])
    drain(world, [a])
    a.run("commit")
    b = Member(world, "b", {"t": 1})
    settle([a, b])
    assert len(a.owned) == 2
    a.run("leave")
    assert {committed.offset for committed in world.offsets.values()} == {0}


def test_a_member_that_lost_its_partition_meanwhile_takes_the_others_word() -> None:
    """The offset that the new owner committed, not what the expired session remembers."""
    world = World({"t": {0: 1}})
    world.produce(T0, [b"%d" % number for number in range(30)])
    a = Member(world, "a", {"t": 1})
    settle([a])
    a.run("fetch")
    for _ in range(4):
        a.read()
    b = Member(world, "b", {"t": 1})
    a.registries.expire()
    settle([b])
    for _ in range(2):
        b.run("fetch")
        while b.read():
            pass
    b.run("commit")
    committed = world.offsets[T0].offset
    b.run("leave")
    settle([a])
    assert a.rebalancer.owned[T0].feed.consumed_offset == committed
    check_nothing_lost(world, a)


def test_a_commit_of_an_expired_session_does_not_land() -> None:
    """Not even if the commit was begun before."""
    world = World({"t": {0: 1}})
    world.produce(T0, [b"%d" % number for number in range(30)])
    a = Member(world, "a", {"t": 1})
    settle([a])
    a.run("fetch")
    for _ in range(4):
        a.read()
    a.start("commit")
    a.step()
    before = world.offsets[T0]
    a.registries.expire()
    a.finish()
    assert world.offsets[T0] == before


@pytest.mark.parametrize("fault", [REFUSED, LOST])
@pytest.mark.parametrize(
    "name",
    ["renew", "register", "refresh", "subscriptions", "partitions_of", "claim", "read_offset", "commit_offset", "mine"],
)
def test_a_try_that_fails_at_any_call_is_made_good(name: str, fault: str) -> None:
    """Whether the call was carried out or not: no owner node stays behind, none is claimed twice."""
    world = world_of_four()
    first = Member(world, "c", {"t": 1})
    settle([first])
    check_nothing_lost(world, first)
    first.run("leave")
    a = Member(world, "a", {"t": 1})
    a.registries.faults.append((name, fault))
    a.run("rebalance")
    b = Member(world, "b", {"t": 1})
    settle([a, b])
    check_at_rest(world, a, b)


@pytest.mark.parametrize("fault", [REFUSED, LOST])
@pytest.mark.parametrize("name", ["commit_offset", "release", "mine"])
def test_a_release_that_fails_at_any_call_is_made_good(name: str, fault: str) -> None:
    """The offset is taken from what we knew, if nobody else wrote it."""
    world = world_of_four()
    a = Member(world, "a", {"t": 1})
    settle([a])
    for _ in range(3):
        a.run("fetch")
        while a.read():
            pass
    b = Member(world, "b", {"t": 1})
    b.run("rebalance")
    a.registries.faults.append((name, fault))
    a.run("rebalance")
    settle([a, b])
    check_at_rest(world, a, b)
    check_nothing_lost(world, a, b)


@pytest.mark.parametrize("fault", [REFUSED, LOST])
def test_a_release_whose_commit_was_not_answered_commits_before_others_own_the_partition(fault: str) -> None:
    """In the same session the next try does it; nothing that was consumed long before comes again."""
    world = world_of_four()
    a = Member(world, "b", {"t": 1})
    settle([a])
    read_everything(a)
    b = Member(world, "a", {"t": 1})
    b.run("rebalance")
    a.registries.faults.append(("commit_offset", fault))
    a.run("rebalance")
    assert not a.is_done
    assert a.owned == {T2, T3}
    assert set(world.owners) == {T0, T1, T2, T3}
    settle([a, b])
    check_at_rest(world, a, b)
    check_nothing_lost(world, a, b)
    assert set(world.deliveries.values()) == {1}


def read_everything(member: Member) -> None:
    """Have a member fetch and consume all that its partitions hold; nothing of it is committed."""
    for _ in range(9):
        member.run("fetch")
        while member.read():
            pass


def with_a_release_that_is_not_committed(fault: str) -> tuple[World, Member, Member]:
    """Return a member that gives one of two partitions up to another, with a fault when it commits that one."""
    world = World({"t": {0: 2}})
    for where in (T0, T1):
        world.produce(where, [b"%d" % number for number in range(10)])
    a = Member(world, "a", {"t": 1})
    settle([a])
    read_everything(a)
    b = Member(world, "b", {"t": 1})
    b.run("rebalance")
    a.registries.faults.append(("commit_offset", fault))
    a.run("rebalance")
    assert a.owned == {T0}
    return world, a, b


@pytest.mark.parametrize("fault", [REFUSED, LOST])
def test_a_member_that_leaves_commits_before_others_own_its_partitions(fault: str) -> None:
    """Also when the first try was not answered."""
    world = world_of_four()
    a = Member(world, "a", {"t": 1})
    settle([a])
    read_everything(a)
    a.registries.faults.append(("commit_offset", fault))
    a.run("leave")
    b = Member(world, "b", {"t": 1})
    settle([b])
    check_nothing_lost(world, b)
    assert set(world.deliveries.values()) == {1}


@pytest.mark.parametrize("fault", [REFUSED, LOST])
def test_what_could_not_be_committed_at_a_release_comes_again_only_elsewhere(fault: str) -> None:
    """If we take the partition again and nobody wrote its offset meanwhile, we go on where we were."""
    world, a, b = with_a_release_that_is_not_committed(fault)
    b.kill()
    settle([a, b])
    check_nothing_lost(world, a)
    assert set(world.deliveries.values()) == {1}


def test_what_could_not_be_committed_before_the_session_ended_comes_again_only_elsewhere() -> None:
    """It is remembered beyond the session, as what was owned until then is."""
    world, a, b = with_a_release_that_is_not_committed(REFUSED)
    a.registries.expire()
    b.kill()
    settle([a, b])
    check_nothing_lost(world, a)
    assert set(world.deliveries.values()) == {1}


def test_what_was_given_up_and_committed_is_not_kept() -> None:
    """Only what is still to be committed is."""
    world = world_of_four()
    a = Member(world, "a", {"t": 1})
    settle([a])
    drain(world, [a])
    b = Member(world, "b", {"t": 1})
    settle([b, a])
    check_at_rest(world, a, b)
    assert a.rebalancer.uncommitted == {}


# Fences --------------------------------------------------------------------------------------------------------------


def test_a_release_under_way_and_a_commit_do_not_get_into_each_others_way() -> None:
    """Whatever the order of their calls, no commit lands after the next owner's first write."""
    for steps in range(12):
        world = World({"t": {0: 2}})
        for where in (T0, T1):
            world.produce(where, [b"%d" % number for number in range(10)])
        a = Member(world, "a", {"t": 1})
        settle([a])
        a.run("fetch")
        for _ in range(5):
            a.read()
        b = Member(world, "b", {"t": 1})
        b.run("rebalance")
        a.start("commit")
        a.start("rebalance")
        for _ in range(steps):
            a.step("commit")
            a.step("rebalance")
        b.run("rebalance")
        settle([a, b])
        check_at_rest(world, a, b)
        check_nothing_lost(world, a, b)


def test_a_moved_back_offset_is_put_right_by_its_owner(caplog: pytest.LogCaptureFixture) -> None:
    """As a revived 0.7 member may do before it owns anything."""
    world = World({"t": {0: 1}})
    world.produce(T0, [b"%d" % number for number in range(10)])
    a = Member(world, "a", {"t": 1})
    settle([a])
    drain(world, [a])
    end = world.offsets[T0].offset
    world.produce(T0, [b"more"])
    world.write(T0, 11, 99, fenced=False)
    with caplog.at_level(logging.WARNING):
        check_nothing_lost(world, a)
    assert world.offsets[T0].offset > end
    assert set(world.deliveries.values()) == {1}
    assert a.committer.counts["moved_offsets"] == 1
    assert "another process had moved the offset of t/0-0 to 11" in caplog.text


# Any interleaving ----------------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c")
TASKS = ("rebalance", "commit", "fetch")

a_member = st.sampled_from(NAMES)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("run"), a_member, st.sampled_from(TASKS)),
        st.tuples(st.just("consume"), a_member, st.integers(1, 8)),
        st.tuples(st.just("start"), a_member, st.sampled_from(TASKS), st.integers(0, 12)),
        st.tuples(st.just("step"), a_member, st.sampled_from(TASKS), st.integers(1, 8)),
        st.tuples(st.just("expire"), a_member),
        st.tuples(st.just("fault"), a_member, st.sampled_from([REFUSED, LOST])),
        st.tuples(st.sampled_from(["kill", "leave"]), a_member),
        st.tuples(st.just("join"), a_member),
        st.tuples(st.just("partitions"), st.integers(0, 1), st.integers(0, 3)),
        st.tuples(st.just("produce"), st.integers(0, 1)),
        st.tuples(st.just("old"), st.sampled_from(["join", "rebalance", "consume", "commit", "kill"])),
    ),
    max_size=50,
)


class Group:
    """Carries out what hypothesis thinks of."""

    def __init__(self, *, compressed: bool) -> None:
        self.world = World({"t": {0: 2, 1: 2}}, compressed=compressed)
        self.produced = 0
        for number in (0, 1):
            self.produce(number)
        self.joined = 0
        self.members: dict[str, Member] = {}
        self.old: OldMember | None = None
        self.everyone: list[Member | OldMember] = []

    def join(self, name: str) -> None:
        if name not in self.members or self.members[name].is_gone:
            self.joined += 1
            self.members[name] = Member(self.world, f"{name}{self.joined}", {"t": 1 + self.joined % 2})
            self.everyone.append(self.members[name])

    def produce(self, broker_id: int) -> None:
        for number in range(3):
            where = TopicPartition("t", broker_id, number)
            self.world.produce(where, [b"%d" % n for n in range(self.produced, self.produced + 5)])
        self.produced += 5

    def do(self, action: tuple[object, ...]) -> None:
        match action:
            case ("join", str(name)):
                self.join(name)
            case ("partitions", int(broker_id), int(count)):
                self.world.set_partitions("t", broker_id, count)
            case ("produce", int(broker_id)):
                self.produce(broker_id)
            case ("old", str(what)):
                self._do_old(what)
            case (str(what), str(name), *rest):
                member = self.members.get(name)
                if member is not None and not member.is_gone:
                    self._do(what, member, rest)
        self.check()

    def _do(self, what: str, member: Member, rest: list[object]) -> None:
        match what, rest:
            case "run", [str(task)]:
                member.run(task)
            case "consume", [int(times)]:
                member.run("fetch")
                for _ in range(times):
                    member.read()
            case (("start" | "step"), [str(task), int(times)]):
                if what == "start":
                    member.start(task)
                for _ in range(times):
                    member.step(task)
            case "expire", []:
                member.registries.expire()
            case "fault", [str(fault)]:
                member.registries.faults.append((None, fault))
            case "kill", []:
                member.kill()
            case _:
                member.run(what)

    def _do_old(self, what: str) -> None:
        if what == "join":
            if self.old is None or self.old.is_gone:
                self.joined += 1
                self.old = OldMember(self.world, f"a-old{self.joined}", "t")
                self.everyone.append(self.old)
        elif self.old is not None and not self.old.is_gone:
            getattr(self.old, what)()

    def check(self) -> None:
        """No two members ever believe to own the same partition at once; failures of tasks come up here."""
        believed: dict[TopicPartition, str] = {}
        for member in self.members.values():
            if member.is_gone:
                continue
            assert not member.failures, member.failures
            for where in member.owned:
                assert where not in believed, f"{where} is owned by {believed[where]} and {member.consumer_id}"
                believed[where] = member.consumer_id


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(actions, st.booleans())
def test_whatever_happens_a_group_comes_to_rest_and_loses_nothing(
    script: list[tuple[object, ...]], compressed: bool
) -> None:
    """Exactly one owner each, everything consumed, no two owners at once, no commit of a former owner."""
    group = Group(compressed=compressed)
    group.join("a")
    for action in script:
        group.do(action)
    group.join("b")
    group.world.set_partitions("t", 0, 2)
    settle(group.everyone)
    group.check()
    check_at_rest(group.world, *group.everyone)
    check_nothing_lost(group.world, *group.everyone)
    check_at_rest(group.world, *group.everyone)
