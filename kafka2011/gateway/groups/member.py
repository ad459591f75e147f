"""A member of a group whose client speaks today's protocol: registered as a member of 0.7, with the shipped rebalance.

Where a member of 0.7 fetches, this one has a client that fetches for itself: the feed of a partition only waits, when
it is given up, until the client no longer has it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.config import ConsumerConfig
from kafka2011.consumer.feed import State
from kafka2011.consumer.membership import Membership
from kafka2011.consumer.offset_committer import OffsetCommitter
from kafka2011.consumer.rebalance_listener import RebalanceListener
from kafka2011.consumer.rebalancer import Rebalancer, Subscription
from kafka2011.consumer.topic_count import TopicCount, stream_ids
from kafka2011.consumer.zk_group import ZkGroup
from kafka2011.errors import KafkaError
from kafka2011.gateway.groups.member_state import MemberState
from zk.commit_notes import CommitNotes
from zk.consumers import ConsumerRegistry
from zk.errors import ZkError
from zk.gateway_members import GatewayMemberRegistry
from zk.sessions import SessionEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafka2011.consumer.group_registries import GroupSession, Lease
    from kafka2011.consumer.owned_partition import OwnedPartition
    from kafka2011.consumer.threads import Threads
    from zk.client import ZkClient
    from zk.cluster import Broker, TopicPartition
    from zk.commit_notes import GroupCommit
    from zk.gateway_members import GatewayMember

logger = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""A member of 0.7 that waits longer for a partition may have given up: it tries four times, 2 s apart."""
OTHERS_WAIT_S = 10.0
"""How long a joining client waits for its share while no other client of this gateway keeps a part of it: for members
of 0.7, and for ZooKeeper."""
RETRY_MS = 500
"""The time until a rebalance is tried again that found another owner, unless that one gives up before."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a client may be silent, and how long it may take to join again once it was told to."""

    session_s: float
    rebalance_s: float


class GroupMember:
    """One client in a group. It takes part in the rebalance as its client wishes, until `leave`.

    `on_overdue` is called when the client has not joined again in time. `threads` are those of the process.
    """

    def __init__(
        self,
        client: ZkClient,
        zk_connect: str,
        group: str,
        consumer_id: str,
        who: GatewayMember,
        timeouts: Timeouts,
        on_overdue: Callable[[GroupMember], object],
        threads: Threads,
    ) -> None:
        self.group = group
        self.consumer_id = consumer_id
        self.who = who
        self.timeouts = timeouts
        self.state = MemberState()
        self.topics: tuple[str, ...] = ()  # that it takes part for
        self.wanted_topics: tuple[str, ...] = ()  # that its client wants
        self._clock = client.clock
        self._threads = threads
        self.last_seen_s = self._clock.monotonic_s()
        self.joining = 0  # the number of the JoinGroup that waits, the newest one; 0 without one
        self._joins = 0
        self.client = client
        self._zk_connect = zk_connect
        self._on_overdue = on_overdue
        self._changed = threads.new_event()
        self._entering = threads.new_lock()
        self.membership: Membership[ClientFeed] | None = None  # None without topics
        self._events: SessionEvents | None = None
        self._committer = OffsetCommitter(threads.new_lock())
        self._notes = CommitNotes(client)
        self._released_late = False  # something, so that members of 0.7 may no longer wait for it

    # What the coordinator does

    def follow_wishes(self) -> None:
        """Take part for the topics that the client wants, once it has nothing left of others."""
        with self._entering:
            if self.wanted_topics == self.topics or self.state.held or self.state.is_gone:
                return
            self._withdraw()
            if self.wanted_topics:
                self._enter(self.wanted_topics)
            self.topics = self.wanted_topics

    def _enter(self, topics: tuple[str, ...]) -> None:
        config = ConsumerConfig.of(
            {
                "zk.connect": self._zk_connect,
                "groupid": self.group,
                "autocommit.enable": False,
                "rebalance.backoff.ms": RETRY_MS,
            }
        )
        wake = self._threads.new_event()
        self._events = SessionEvents(self.client)
        self._events.wake(wake.set)
        (stream_id,) = stream_ids(self.consumer_id, 1)
        stream = _ClientStream(stream_id, self)
        rebalancer = Rebalancer(
            Subscription(
                self.consumer_id,
                TopicCount.static(dict.fromkeys(topics, 1)),
                lambda topic: [stream] if topic in topics else [],
                listener=_Assigned(self),
                explicit_commits=True,
            ),
            registries=_Registries(self),
            committer=self._committer,
            fetchers=_NoFetchers(),
            wake=wake.set,
            clock=self._clock,
            release_wait_ms=int(self.timeouts.rebalance_s * 1000),
        )
        self.membership = Membership(
            self.consumer_id,
            rebalancer,
            self._committer,
            config=config,
            events=self._events,
            wake=wake,
            clock=self._clock,
            threads=self._threads,
        )
        self.membership.on_settled = self._note_settled
        self.membership.start()

    def _withdraw(self) -> None:
        """Take part no more, for now: give up everything, as the client has nothing."""
        self.topics = ()
        membership = self.membership
        if membership is None or self._events is None:
            return
        membership.begin_leave()
        self.note_change()
        membership.leave()
        self._events.close()
        membership.stop()
        self._remove_nodes(membership.rebalancer)
        self.membership = None

    def _remove_nodes(self, rebalancer: Rebalancer[ClientFeed]) -> None:
        """Remove what is left in ZooKeeper: the session, which others use too, goes on. Waits for ZooKeeper."""
        session = rebalancer.session
        while session is not None:
            try:
                session.release(rebalancer.claimed)
                session.deregister(self.consumer_id)
                GatewayMemberRegistry(self.client, session.session_id).deregister(self.group, self.consumer_id)
            except ZkError as error:
                if self.client.session_id not in {None, session.session_id}:
                    return
                logger.debug("%s: waits for ZooKeeper to leave its group: %s", self.consumer_id, error)
                self._threads.new_event().wait(RETRY_MS / 1000)
            else:
                return

    def leave(self) -> None:
        """Leave the group, for a client that is gone."""
        self.state.leave()
        self.note_change()
        with self._entering:
            self._withdraw()

    def commit(self, commits: Mapping[TopicPartition, GroupCommit]) -> dict[TopicPartition, KafkaError | None]:
        """Commit places in logs; return the error of each partition, which may not be this member's."""
        outcomes: dict[TopicPartition, KafkaError | None] = {}
        owned_now = {} if self.membership is None else self.membership.rebalancer.owned
        given: dict[TopicPartition, OwnedPartition[ClientFeed]] = {}
        for where, commit in commits.items():
            owned = owned_now.get(where)
            if owned is None:
                outcomes[where] = NotOwnedError(f"{self.consumer_id} does not own {where}")
            else:
                given[where] = owned
                owned.explicit_offset = commit.position
        try:
            self._committer.commit(given.values())
        except KafkaError as error:
            failure: KafkaError | None = error
        else:
            failure = None
        written: dict[TopicPartition, GroupCommit] = {}
        for where, owned in given.items():
            if owned.committed_offset == commits[where].position and owned.unanswered_offset is None:
                outcomes[where] = None
                written[where] = commits[where]._replace(version=owned.version)
            else:
                outcomes[where] = failure or NotOwnedError(f"{self.consumer_id} no longer owns {where}")
        return outcomes | self._notes.note_many(self.group, written)

    @property
    def may_answer_join(self) -> bool:
        """Whether its share is known, or cannot be before the client has been answered."""
        return self.membership is None or self.membership.is_settled or self.state.waits_for_client

    def begin_join(self) -> int:
        """Note that a JoinGroup begins to wait, and end the wait of an earlier one; return the number of this one."""
        self._joins += 1
        self.joining = self._joins
        self.note_change()
        return self.joining

    def end_join(self) -> None:
        """End the wait of a JoinGroup, if one waits."""
        self.joining = 0
        self.note_change()

    def await_share(self, join: int, timeout_s: float) -> None:
        """Wait until a JoinGroup may be answered.

        Wait for `timeout_s` at most while another client of this gateway keeps a part of the share. Once none does,
        wait no longer than OTHERS_WAIT_S: what the last one has given up takes a moment to be claimed.
        """
        now_s = alone_since_s = self._clock.monotonic_s()
        ends_s = now_s + timeout_s
        while self.joining == join and not self.may_answer_join and not self.state.is_gone:
            now_s = self._clock.monotonic_s()
            if self._waits_for_clients:
                alone_since_s = now_s
            remaining_s = min(ends_s, alone_since_s + OTHERS_WAIT_S) - now_s
            if remaining_s <= 0:
                return
            self._changed.wait(min(remaining_s, OTHERS_WAIT_S / 10))

    @property
    def _waits_for_clients(self) -> bool:
        """Whether another member of this gateway, and so of its session, owns a part of the share."""
        rebalancer = None if self.membership is None else self.membership.rebalancer
        if rebalancer is None or rebalancer.session is None:
            return False
        session_id = rebalancer.session.session_id
        return any(held.session_id == session_id for held in rebalancer.held.values())

    def note_change(self) -> None:
        """Wake those who wait for this member."""
        changed, self._changed = self._changed, self._threads.new_event()
        changed.set()

    # What the rebalance does

    def renew_notes(self, partitions: Sequence[TopicPartition]) -> None:
        """Let notes of commits hold on, though the offsets were written once more to fence off former owners."""
        try:
            self._notes.renew_many(self.group, partitions)
        except ZkError as error:
            logger.warning("%s: messages of compressed sets may be redelivered: %s", self.consumer_id, error)

    def _note_settled(self) -> None:
        self.note_change()
        session = None if self.membership is None else self.membership.rebalancer.session
        if not self._released_late or session is None:
            return
        # Whoever has given up tries again when a member comes or goes; this one wants nothing, so no share changes.
        registry, name = ConsumerRegistry(self.client, session.session_id), f"{self.consumer_id}-was-late"
        try:
            registry.register(self.group, name, TopicCount({}).text)
            registry.deregister(self.group, name)
        except ZkError as error:
            logger.warning("%s: members of 0.7 may wait for what it has given up: %s", self.consumer_id, error)
        else:
            self._released_late = False

    def await_release(self, where: TopicPartition, deadline_s: float) -> None:
        """Wait until the client no longer has a partition; one that takes longer is overdue."""
        self.note_change()
        begun_s = self._clock.monotonic_s()
        while not self.state.may_release(where):
            remaining_s = deadline_s - self._clock.monotonic_s()
            if remaining_s <= 0:
                self._on_overdue(self)
                break
            self._changed.wait(remaining_s)
        if self._clock.monotonic_s() > begun_s + PATIENCE_S:
            self._released_late = True


class NotOwnedError(KafkaError):
    """A member commits an offset of a partition that is not its own."""


class _Registries:
    """The registries of a member's group; in each session it is said first which client it is."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._group = ZkGroup(member.client, member.group, member.consumer_id)
        self._known: tuple[GroupSession, GatewayMember] | None = None

    def current(self) -> GroupSession | None:
        """Return the present session, the same object while it is the same session; None while there is none."""
        session, member = self._group.current(), self._member
        if session is not None and self._known != (session, member.who):
            registry = GatewayMemberRegistry(member.client, session.session_id)
            registry.register(member.group, member.consumer_id, member.who)
            self._known = session, member.who
        return session


class _Assigned(RebalanceListener):
    """Notes what was claimed, once former owners can no longer commit."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Note them; the client is told by its next heartbeat."""
        self._member.state.take(partitions)
        self._member.renew_notes(partitions)

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Do nothing: the feeds have noted it."""


class ClientFeed:
    """A partition of a member whose client fetches for itself."""

    def __init__(self, where: TopicPartition, stream_id: str, member: GroupMember) -> None:
        self.where = where
        self.stream_id = stream_id
        self.state = State.ACTIVE
        self.consumed_offset: int | None = None
        self._member = member

    def start_at(self, offset: int, epoch: int | None = None) -> bool:
        """Note where the group goes on; the client asks for that itself."""
        del epoch  # nothing is fetched here that could be of an earlier one
        if self.state is not State.ACTIVE:
            return False
        self.consumed_offset = offset
        return True

    def begin_release(self) -> None:
        """Have the client told that it is to join again."""
        if self.state is State.ACTIVE:
            self.state = State.RELEASING
            self._member.state.begin_release(self.where)

    def end_release(self, deadline_s: float) -> None:
        """Wait until the client no longer has the partition, or the deadline."""
        self._member.await_release(self.where, deadline_s)
        self.abandon()

    def abandon(self) -> None:
        """Have the partition no more."""
        self.state = State.RELEASED
        self._member.state.end_release(self.where)


class _ClientStream:
    """The only stream of a member."""

    def __init__(self, stream_id: str, member: GroupMember) -> None:
        self.stream_id = stream_id
        self._member = member

    def feed(self, where: TopicPartition, lease: Lease) -> ClientFeed:
        """Return the feed of a partition; the lease guards only what is handed out, which nothing is here."""
        del lease
        return ClientFeed(where, self.stream_id, self._member)


class _NoFetchers:
    """Fetches nothing: the client does."""

    def add(self, owned: OwnedPartition[ClientFeed], broker: Broker) -> None:
        """Do nothing."""

    def remove(self, partitions: Iterable[OwnedPartition[ClientFeed]]) -> None:
        """Do nothing."""
