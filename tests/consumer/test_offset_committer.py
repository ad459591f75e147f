"""OffsetCommitter alone: conditional commits, conflicts, and what an unanswered write means."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from kafka2011.consumer.feed import State
from kafka2011.consumer.offset_committer import ContendedOffsetError, Left, OffsetCommitter
from kafka2011.consumer.owned_partition import OwnedPartition
from kafka2011.consumer.stream import MessageStream
from tests.support.clocks import ManualClock
from tests.support.registries_in_memory import LOST, REFUSED, MemoryRegistries, World
from zk.cluster import Broker, TopicPartition
from zk.errors import ConnectionLost, MalformedNode, NotConnected, SessionExpired, ZkError, ZkUnavailable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafka2011.consumer.fetcher import FetchedPartition
    from zk.offsets import CommittedOffset, OffsetCommit

T0, T1 = TopicPartition("t", 0, 0), TopicPartition("t", 0, 1)


class Owner:
    """Somebody who claims partitions and commits, each in a session of its own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.registries = MemoryRegistries(world, lambda: None)
        self.committer = OffsetCommitter()

    def claim(self, where: TopicPartition = T0) -> FetchedPartition:
        session = self.registries.session
        assert session is not None
        stream = MessageStream("a-0", max_chunks=1, timeout_ms=0, shallow=False, clock=ManualClock())
        assert session.claim({where: stream.stream_id}) == {}
        return OwnedPartition(stream.feed(where, session.lease), session, Broker(0, "h", 1))

    def take(self, where: TopicPartition = T0, left: Left | None = None) -> FetchedPartition:
        """Claim a partition and begin with it, at 0 if the group has no offset."""
        owned = self.claim(where)
        offset = self.committer.take(owned.session, {owned: left})[owned]
        if offset is None:
            assert self.write_start(owned)
            offset = 0
        owned.start_at(offset)
        return owned

    def write_start(self, owned: FetchedPartition) -> bool:
        outcome = self.committer.write_starts({owned: 0})[owned]
        if not isinstance(outcome, bool):
            raise outcome
        return outcome

    def commit(self, owned: FetchedPartition, offset: int, *, last: bool = False) -> None:
        owned.feed.consumed_offset = offset
        self.committer.commit([owned], last=last)


@pytest.fixture
def world() -> World:
    return World({"t": {0: 2}})


def offset_of(world: World, where: TopicPartition = T0) -> int | None:
    found = world.offsets.get(where)
    return None if found is None else found.offset


def test_offsets_are_written_only_when_they_moved(world: World) -> None:
    """A commit every interval costs nothing while nothing is consumed."""
    owner = Owner(world)
    owned = owner.take()
    owner.commit(owned, 5)
    owner.commit(owned, 5)
    assert [write.offset for write in world.writes] == [0, 5]
    assert owner.committer.counts["commits"] == 1


def test_a_start_that_was_taken_is_committed_already(world: World) -> None:
    """So a partition of which nothing is consumed costs nothing after its claim."""
    world.write(T0, 5, 99, fenced=False)
    owner = Owner(world)
    owner.committer.commit([owner.take()])
    assert [(write.offset, write.version) for write in world.writes] == [(5, 0), (5, 1)]
    assert owner.committer.counts == {}


@pytest.mark.parametrize("fault", [REFUSED, LOST])
def test_a_start_that_was_not_written_is_not_taken(world: World, fault: str) -> None:
    """The error is that of the first write, and nothing is tried again here."""
    world.write(T0, 5, 99, fenced=False)
    owner = Owner(world)
    owned = owner.claim()
    owner.registries.faults.append(("commit_offset", fault))
    with pytest.raises((NotConnected, ConnectionLost), match="commit_offset"):
        owner.committer.take(owned.session, {owned: None})


def test_a_start_that_others_write_all_the_time_is_an_error_at_last(world: World) -> None:
    """Bounded, and it names the partition."""
    world.write(T0, 5, 99, fenced=False)
    owner = Owner(world)
    owned = owner.claim()
    read_offsets = owned.session.read_offsets

    def interfering(partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, CommittedOffset | MalformedNode]:
        found = read_offsets(partitions)
        world.write(T0, 6, 99, fenced=False)
        return found

    owned.session.read_offsets = interfering  # type: ignore[method-assign, assignment]
    with pytest.raises(ContendedOffsetError, match="t/0-0"):
        owner.committer.take(owned.session, {owned: None})


def test_a_partition_that_was_never_begun_leaves_nothing(world: World) -> None:
    """Its start was written, but it was lost before its stream began there."""
    world.write(T0, 5, 99, fenced=False)
    owner = Owner(world)
    owned = owner.claim()
    owner.committer.take(owned.session, {owned: None})
    assert Left.of(owned) is None


def test_nothing_is_committed_of_a_partition_without_a_start(world: World) -> None:
    """Nothing is known of it yet."""
    owner = Owner(world)
    owned = owner.claim()
    assert owner.committer.take(owned.session, {owned: None}) == {owned: None}
    owner.committer.commit([owned], last=True)
    assert world.writes == []


def test_whoever_takes_a_partition_shuts_out_who_had_it(world: World) -> None:
    """It writes its start first, so that the version the former owner knows commits no more."""
    before, after = Owner(world), Owner(world)
    old = before.take()
    before.commit(old, 5)
    world.delete_owner(T0)
    new = after.take()
    assert new.feed.consumed_offset == 5
    before.commit(old, 9)
    assert offset_of(world) == 5
    assert before.committer.counts["dropped_commits"] == 1
    assert before.committer.counts["conflicts"] == 1
    after.commit(new, 7)
    assert offset_of(world) == 7
    assert after.committer.counts["conflicts"] == 0


def test_a_dropped_commit_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """With the partition, the offset and how many it were."""
    before, after = Owner(world), Owner(world)
    old = before.take()
    world.delete_owner(T0)
    after.take()
    with caplog.at_level(logging.WARNING):
        before.commit(old, 9)
    assert "dropped the commit of offset 9 for t/0-0" in caplog.text


def test_a_start_is_not_written_over_the_next_owner(world: World) -> None:
    """One that was asked for late, after the partition was lost."""
    before, after = Owner(world), Owner(world)
    old = before.claim()
    world.delete_owner(T0)
    after.commit(after.take(), 5)
    assert not before.write_start(old)
    assert offset_of(world) == 5


def test_a_first_offset_is_not_written_over_that_of_the_next_owner(world: World) -> None:
    """Not even if the partition was lost, and begun by another, just before the write."""
    before, after = Owner(world), Owner(world)
    old = before.claim()
    session = before.registries.session
    assert session is not None
    is_mine = session.is_mine

    def lose(where: TopicPartition) -> bool:
        session.is_mine = is_mine  # type: ignore[method-assign]
        answer = is_mine(where)
        world.delete_owner(where)
        after.commit(after.take(where), 5)
        return answer

    session.is_mine = lose  # type: ignore[method-assign]
    assert not before.write_start(old)
    assert offset_of(world) == 5


def test_many_starts_are_written_together(world: World) -> None:
    """Also where there is an offset by now, and not where the partition is another's or being given up."""
    world.topics["t"] = {0: 5}
    owner, other = Owner(world), Owner(world)
    every = [owner.claim(TopicPartition("t", 0, number)) for number in range(5)]
    world.delete_owner(every[1].where)
    other.commit(other.take(every[1].where), 7)
    world.write(every[2].where, 9, 99, fenced=False)
    every[3].feed.state = State.RELEASED
    world.writes.clear()
    owner.registries.batches.clear()
    assert list(owner.committer.write_starts(dict.fromkeys(every, 3)).values()) == [True, False, True, False, True]
    assert owner.registries.batches[:2] == ["is_mine", "create_offset"]
    assert [offset_of(world, owned.where) for owned in every] == [3, 7, 3, None, 3]
    owner.commit(every[0], 4)
    assert offset_of(world, every[0].where) == 4


def test_many_starts_are_not_written_over_the_next_owners(world: World) -> None:
    """Not even if a partition was lost, and begun by another, just before the write."""
    before, after = Owner(world), Owner(world)
    every = [before.claim(T0), before.claim(T1)]
    session = before.registries.session
    assert session is not None
    still_mine = session.still_mine

    def lose(partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        answer = still_mine(partitions)
        world.delete_owner(T0)
        after.commit(after.take(T0), 5)
        return answer

    session.still_mine = lose  # type: ignore[method-assign]
    assert list(before.committer.write_starts(dict.fromkeys(every, 0)).values()) == [False, True]
    assert (offset_of(world, T0), offset_of(world, T1)) == (5, 0)


@pytest.mark.parametrize("call", ["is_mine", "create_offset"])
def test_starts_that_are_not_answered_are_written_again(world: World, call: str) -> None:
    """Each has the error, and the next try finds out what became of it."""
    owner = Owner(world)
    every = [owner.claim(T0), owner.claim(T1)]
    owner.registries.faults = [(call, LOST)]
    outcomes = owner.committer.write_starts(dict.fromkeys(every, 0))
    assert any(isinstance(outcome, ZkUnavailable) for outcome in outcomes.values())
    assert set(owner.committer.write_starts(dict.fromkeys(every, 0)).values()) == {True}
    assert (offset_of(world, T0), offset_of(world, T1)) == (0, 0)


def test_a_start_is_not_written_while_the_partition_is_given_up(world: World) -> None:
    """The owner node may go at any moment."""
    owner = Owner(world)
    owned = owner.claim()
    owned.feed.state = State.RELEASED
    assert not owner.write_start(owned)
    assert world.writes == []


def test_a_moved_offset_is_written_again_by_the_owner(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A revived 0.7 member may commit before it owns anything."""
    owner = Owner(world)
    owned = owner.take()
    owner.commit(owned, 20)
    world.write(T0, 3, 99, fenced=False)
    with caplog.at_level(logging.WARNING):
        owner.commit(owned, 25)
    assert offset_of(world) == 25
    assert "another process had moved the offset of t/0-0 to 3: writing 25" in caplog.text
    assert owner.committer.counts == {"commits": 2, "conflicts": 1, "moved_offsets": 1}
    owner.commit(owned, 30)
    assert owner.committer.counts["conflicts"] == 1


def test_an_offset_deleted_meanwhile_is_written_by_the_owner(world: World) -> None:
    """As when somebody deletes the group under its members."""
    owner = Owner(world)
    owned = owner.take()
    owner.commit(owned, 20)
    del world.offsets[T0]
    owner.commit(owned, 25)
    assert offset_of(world) == 25


def test_an_offset_that_others_write_all_the_time_is_an_error_at_last(world: World) -> None:
    """Bounded; other partitions are committed all the same."""
    owner = Owner(world)
    contended, other = owner.take(), owner.take(T1)
    session = owner.registries.session
    assert session is not None
    is_mine = session.is_mine

    def interfering(where: TopicPartition) -> bool:
        world.write(where, 1, 99, fenced=False)
        return is_mine(where)

    session.is_mine = interfering  # type: ignore[method-assign]
    world.write(T0, 1, 99, fenced=False)
    contended.feed.consumed_offset, other.feed.consumed_offset = 5, 7
    with pytest.raises(ContendedOffsetError, match="t/0-0"):
        owner.committer.commit([contended, other])
    assert offset_of(world, T1) == 7


@pytest.mark.parametrize("fault", [REFUSED, LOST])
def test_a_commit_whose_answer_was_lost_is_made_good(
    world: World, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether it was carried out or not; our own write is not taken for another's."""
    owner = Owner(world)
    owned = owner.take()
    owner.registries.faults.append(("commit_offset", fault))
    with pytest.raises((NotConnected, ConnectionLost)):
        owner.commit(owned, 20)
    with caplog.at_level(logging.WARNING):
        owner.commit(owned, 25)
    assert offset_of(world) == 25
    assert owner.committer.counts["moved_offsets"] == 0
    assert caplog.text == ""


class InterruptedCommitError(Exception):
    """What a signal handler raises out of whatever runs just then."""


def test_a_commit_that_a_signal_has_interrupted_is_not_taken_for_anothers(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The exception of its handler comes between the write and its answer."""
    owner = Owner(world)
    owned = owner.take()
    commit = owned.session.commit_offsets

    def interrupted(commits: Iterable[OffsetCommit]) -> dict[TopicPartition, int | ZkError]:
        commit(commits)
        raise InterruptedCommitError

    owned.session.commit_offsets = interrupted  # type: ignore[method-assign]
    with pytest.raises(InterruptedCommitError):
        owner.commit(owned, 20)
    owned.session.commit_offsets = commit  # type: ignore[method-assign]
    owner.commit(owned, 25)
    assert offset_of(world) == 25
    assert owner.committer.counts["moved_offsets"] == 0
    assert caplog.text == ""


def test_an_owners_write_whose_answer_was_lost_is_an_error_and_still_ours(world: World) -> None:
    """It may have been carried out, so the offset that is found next is not taken for another's."""
    owner = Owner(world)
    owned = owner.take()
    world.write(T0, 3, 99, fenced=False)
    is_mine = owned.session.is_mine

    def then_lose(where: TopicPartition) -> bool:
        owner.registries.faults.append(("commit_offset", LOST))
        return is_mine(where)

    owned.session.is_mine = then_lose  # type: ignore[method-assign]
    with pytest.raises(ConnectionLost):
        owner.commit(owned, 20)
    assert owner.committer.counts == {"conflicts": 1, "moved_offsets": 1}
    owned.session.is_mine = is_mine  # type: ignore[method-assign]
    owner.commit(owned, 25)
    assert offset_of(world) == 25
    assert owner.committer.counts == {"conflicts": 2, "moved_offsets": 1, "commits": 1}


def test_one_commit_that_finds_no_zookeeper_is_enough(world: World) -> None:
    """Others that need more than one question are not asked about: they stay open too."""
    owner = Owner(world)
    every = [owner.take(where) for where in (T0, T1)]
    for owned in every:
        world.write(owned.where, 3, 99, fenced=False)
        owned.feed.consumed_offset = 20
    owner.registries.faults.append(("read_offset", REFUSED))
    with pytest.raises(NotConnected):
        owner.committer.commit(every, last=True)
    assert [owned.is_closed for owned in every] == [False, False]
    assert [offset_of(world, owned.where) for owned in every] == [3, 3]


def test_a_rewind_after_an_unanswered_commit_is_committed(world: World) -> None:
    """Also to the very offset that was committed last: the unanswered one may be there instead."""
    owner = Owner(world)
    owned = owner.take()
    owner.commit(owned, 20)
    owner.registries.faults.append(("commit_offset", LOST))
    with pytest.raises(ConnectionLost):
        owner.commit(owned, 30)
    owned.start_at(20)
    owner.committer.commit([owned])
    assert offset_of(world) == 20


def test_a_commit_in_an_expired_session_is_refused(world: World) -> None:
    """It is not made in the session that the client has by then, even for a partition that is ours again."""
    owner = Owner(world)
    old = owner.take()
    owner.commit(old, 20)
    owner.registries.expire()
    owner.take()
    with pytest.raises(ZkUnavailable):
        owner.commit(old, 10)
    assert offset_of(world) == 20


def test_a_partition_given_up_is_committed_no_more(world: World) -> None:
    """An auto-commit that had listed it before comes too late."""
    owner = Owner(world)
    owned = owner.take()
    owner.commit(owned, 20, last=True)
    owner.commit(owned, 30)
    assert offset_of(world) == 20


@pytest.mark.parametrize("fault", [REFUSED, LOST])
def test_a_last_commit_that_was_not_answered_is_made_later(world: World, fault: str) -> None:
    """Until then the partitions stay open, and their owner nodes with them."""
    owner = Owner(world)
    first, second = owner.take(), owner.take(T1)
    first.feed.consumed_offset = second.feed.consumed_offset = 20
    owner.registries.faults.append(("commit_offset", fault))
    with pytest.raises(ZkUnavailable):
        owner.committer.commit([first, second], last=True)
    assert not first.is_closed
    assert not second.is_closed
    owner.committer.commit([first, second], last=True)
    assert offset_of(world) == offset_of(world, T1) == 20
    assert first.is_closed
    assert second.is_closed


def test_a_last_commit_that_others_are_in_the_way_of_is_not_made_later(world: World) -> None:
    """A partition is not kept from the group for ever because somebody writes its offset all the time."""
    owner = Owner(world)
    owned = owner.take()
    session = owner.registries.session
    assert session is not None
    session.is_mine = lambda where: bool(world.write(where, 1, 99, fenced=False))  # type: ignore[method-assign]
    world.write(T0, 1, 99, fenced=False)
    with pytest.raises(ContendedOffsetError):
        owner.commit(owned, 20, last=True)
    assert owned.is_closed


def test_commits_of_one_call_go_out_together(world: World) -> None:
    """And each says what became of it: here one was moved by another, and one was never written."""
    owner = Owner(world)
    every = [owner.take(where) for where in (T0, T1)]
    calls: list[list[OffsetCommit]] = []
    session = owner.registries.session
    assert session is not None
    commit_offsets = session.commit_offsets

    def noted(commits: Iterable[OffsetCommit]) -> dict[TopicPartition, int | ZkError]:
        calls.append(list(commits))
        return commit_offsets(calls[-1])

    session.commit_offsets = noted  # type: ignore[method-assign]
    world.write(T0, 3, 99, fenced=False)
    for owned in every:
        owned.feed.consumed_offset = 20
    owner.committer.commit(every)
    assert [[commit.where for commit in call] for call in calls] == [[T0, T1], [T0]]
    assert offset_of(world) == offset_of(world, T1) == 20


def test_what_we_left_counts_if_nobody_wrote_since(world: World) -> None:
    """Nobody else had the partition, so what we consumed without committing need not come again."""
    owner = Owner(world)
    owned = owner.take()
    owner.commit(owned, 20)
    owned.feed.consumed_offset = 30
    left = Left.of(owned)
    owner.registries.expire()
    assert owner.take(left=left).feed.consumed_offset == 30
    assert offset_of(world) == 30


def test_what_we_left_does_not_count_if_somebody_wrote_since(world: World) -> None:
    """Not even if the offset is the same, or the version is, after the node was deleted and made anew."""
    owner, other = Owner(world), Owner(world)
    owned = owner.take()
    owner.commit(owned, 20)
    owned.feed.consumed_offset = 30
    left = Left.of(owned)
    owner.registries.expire()
    other.take()
    world.delete_owner(T0)
    assert owner.take(left=left).feed.consumed_offset == 20
    del world.offsets[T0]
    world.delete_owner(T0)
    world.write(T0, 2, 99)
    world.write(T0, 3, 99)
    assert left is not None
    assert world.offsets[T0].version == left.version
    assert owner.take(left=left).feed.consumed_offset == 3


@pytest.mark.parametrize("fault", [REFUSED, LOST])
def test_what_we_left_counts_after_an_unanswered_commit_too(world: World, fault: str) -> None:
    """Whether it was carried out or not, the znode is as we know it could be."""
    owner = Owner(world)
    owned = owner.take()
    owner.commit(owned, 10)
    owner.registries.faults.append(("commit_offset", fault))
    with pytest.raises(ZkUnavailable):
        owner.commit(owned, 20)
    owned.feed.consumed_offset = 30
    left = Left.of(owned)
    owner.registries.expire()
    assert owner.take(left=left).feed.consumed_offset == 30


def test_an_unanswered_commit_is_not_mistaken_for_anothers_start(world: World) -> None:
    """Who took the partition meanwhile wrote what was committed before it."""
    owner, other = Owner(world), Owner(world)
    owned = owner.take()
    owner.commit(owned, 10)
    owner.registries.faults.append(("commit_offset", REFUSED))
    with pytest.raises(ZkUnavailable):
        owner.commit(owned, 20)
    left = Left.of(owned)
    owner.registries.expire()
    other.take()
    world.delete_owner(T0)
    assert owner.take(left=left).feed.consumed_offset == 10


def test_an_unanswered_commit_of_the_same_offset_tells_nothing(world: World) -> None:
    """It may just as well be the start of who took the partition meanwhile."""
    owner, other = Owner(world), Owner(world)
    owned = owner.take()
    owner.commit(owned, 10)
    owned.unanswered_offset = 10
    owned.feed.consumed_offset = 20
    left = Left.of(owned)
    owner.registries.expire()
    other.take()
    world.delete_owner(T0)
    assert owner.take(left=left).feed.consumed_offset == 10


def test_only_offsets_that_the_application_gives_are_committed_once_it_gives_them(world: World) -> None:
    """What it consumed meanwhile stays uncommitted, at the release too."""
    owner = Owner(world)
    owned = owner.take()
    owned.is_explicit, owned.explicit_offset = True, 10
    owner.commit(owned, 30, last=True)
    assert offset_of(world) == 10


def test_a_malformed_offset_is_taken_for_absent(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The partition begins as one without an offset does, and its first commit mends the node."""
    owner = Owner(world)
    owned = owner.claim()
    session = owner.registries.session
    assert session is not None

    malformed = MalformedNode("/consumers/g/offsets/t/0-0", "seven", "not an offset")
    session.read_offsets = lambda partitions: {T0: malformed}  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING):
        assert owner.committer.take(owned.session, {owned: None}) == {owned: None}
    assert "/consumers/g/offsets/t/0-0: not an offset: seven" in caplog.text
    assert owner.write_start(owned)
    assert offset_of(world) == 0


def test_a_session_that_expired_answers_nothing(world: World) -> None:
    """The error says so, and nothing is written."""
    owner = Owner(world)
    owned = owner.take()
    assert owner.registries.session is not None
    world.expire(owner.registries.session.session_id)
    with pytest.raises(SessionExpired):
        owner.commit(owned, 5)
    assert offset_of(world) == 0
