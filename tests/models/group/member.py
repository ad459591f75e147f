"""A member that runs the shipped membership, rebalance, commits, lease and streams over a client of the model."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from kafka2011.config import ConsumerConfig
from kafka2011.consumer.feed import State
from kafka2011.consumer.known import KnownTexts
from kafka2011.consumer.membership import AUDIT_INTERVAL_S, Membership
from kafka2011.consumer.offset_committer import OffsetCommitter
from kafka2011.consumer.rebalancer import Rebalancer, Subscription
from kafka2011.consumer.stream import MessageStream
from kafka2011.consumer.topic_count import TopicCount
from kafka2011.consumer.zk_group import COMPARE_TOPICS_S, ZkGroup
from kafka2011.errors import KafkaError
from tests.models.group.referee import GROUP, TOPIC, Violation
from tests.models.group.tasks import TaskCondition, TaskEvent, TaskLock
from tests.support.members_in_memory import MemoryFetchers
from zk.cluster import TopicPartition
from zk.sessions import SessionEvents

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kafka2011.consumer.feed import Chunk
    from kafka2011.consumer.fetcher import FetchedPartition
    from kafka2011.consumer.known import CachedNodes
    from kafka2011.message.message_set import Message
    from tests.models.group.client import ModelClient
    from tests.models.group.referee import Referee
    from tests.models.group.tasks import Tasks
    from tests.support.members_in_memory import Logs
    from zk.client import ZkClient
    from zk.sessions import SessionLease

BACKOFF_S = 1
CONFIG = ConsumerConfig.of(
    {
        "groupid": GROUP,
        "zk.connect": "h:1",
        "rebalance.backoff.ms": BACKOFF_S * 1000,
        "consumer.timeout.ms": 0,
        "queuedchunks.max": 4,
    }
)
_APPLICATION = threading.Thread(name="the application, for whose message in hand a release waits")


class ModelMember:
    """One member with one stream. Its threads are tasks; at `try_at_s` it tries to rebalance without being woken."""

    def __init__(
        self, name: str, client: ModelClient, tasks: Tasks, referee: Referee, logs: Logs, rule: str | None = None
    ) -> None:
        self.name = name
        self.client = client
        self.is_gone = False
        self.is_leaving = False
        self.in_hand: Message | None = None
        self.try_at_s = 0.0
        self.fetch_at_s = 0.0  # when starts are looked for again
        self._tasks = tasks
        self._referee = referee
        self._clock = client.clock
        zk_client = cast("ZkClient", client)
        self.wake = TaskEvent(tasks)
        self.wake.set()
        events = SessionEvents(zk_client)
        events.wake(self.wake.set)
        self.lock = TaskLock(tasks)
        self.committer = OffsetCommitter(self.lock)
        self.stream = MessageStream(f"{name}-0", max_chunks=4, timeout_ms=0, shallow=False, clock=self._clock)
        condition = TaskCondition(tasks, self.stream._queue.lock)
        self.stream._queue.changed = cast("threading.Condition", condition)
        self._messages = iter(self.stream)
        self.fetchers = MemoryFetchers(logs)
        self.registries = ZkGroup(zk_client, GROUP, name)
        self.rebalancer = Rebalancer(
            Subscription(name, TopicCount.static({TOPIC: 1}), lambda _: [self.stream], rule=rule),
            registries=self.registries,
            committer=self.committer,
            fetchers=self.fetchers,
            wake=self.wake.set,
            clock=self._clock,
            release_wait_ms=CONFIG.rebalance_backoff_ms,
        )
        self.membership = Membership(
            name,
            self.rebalancer,
            self.committer,
            config=CONFIG,
            events=events,
            wake=cast("threading.Event", self.wake),
            clock=self._clock,
        )

    # What its threads do ---------------------------------------------------------------------------------------------

    @property
    def running(self) -> set[str]:
        return set(self._tasks.of(self.name))

    @property
    def owned(self) -> set[TopicPartition]:
        return set(self.rebalancer.owned)

    @property
    def takes_part(self) -> bool:
        """Whether its application comes back, as far as it knows."""
        return self.rebalancer.takes_part

    @property
    def is_due(self) -> bool:
        """Whether its thread would try to rebalance now."""
        return not self.is_gone and not self.is_leaving and (self.wake.is_set() or self._clock.now_s >= self.try_at_s)

    def start(self, name: str) -> None:
        """Begin one turn of a thread, unless that is under way."""
        if name in self._tasks.of(self.name) or self.is_gone or (name == "renew" and self.rebalancer.session is None):
            return
        act = {
            "try": self._try,
            "renew": self.membership.renew_lease,
            "commit": self.membership._commit,
            "find starts": self._find_starts,
            "leave": self._leave,
        }[name]
        self._tasks.start(self.name, name, lambda: _run(act), hash(self.position))

    def _try(self) -> None:
        self.try_at_s = float("inf")
        wait_s = self.membership.rebalance()
        # The audit of every ten seconds is left out, so that nothing may depend on it.
        self.try_at_s = float("inf") if wait_s == AUDIT_INTERVAL_S else self._clock.now_s + wait_s

    def _find_starts(self) -> None:
        self.fetch_at_s = self._clock.now_s + BACKOFF_S
        with suppress(KafkaError):  # the next round tries again
            self.fetchers.fetch(self.committer)

    def _leave(self) -> None:
        self.is_leaving = True
        self._referee.leaving.add(self.name)
        self.membership.begin_leave()
        self._tasks.wait(lambda: "try" not in self._tasks.of(self.name))
        self.membership.leave()
        self.kill()

    def take_part(self, *, takes_part: bool) -> None:
        """Have its watch find that the application no longer comes back, or does again."""
        if not takes_part:
            self._referee.leaving.add(self.name)
        self.rebalancer.takes_part = takes_part
        self.wake.set()

    def kill(self) -> None:
        """End its process and its session."""
        self.is_gone = True
        self._tasks.drop(self.name)
        self.client.close()

    def lose_lease(self) -> None:
        """Have the lease run out, as after a silence."""
        self.client.connect_asked = (0, 0.0)
        session = self.registries.session
        if session is not None and session.session_id == self.client.last_session:
            session.lease.until_s = min(session.lease.until_s, self._clock.now_s)
            session.lease.answered.clear()
        if self.stream._open is not None:
            self.stream._open.flows_until_s = min(self.stream._open.flows_until_s, self._clock.now_s)

    def check(self) -> None:
        """See that it counted the sessions that it lost."""
        counted, lost = self.rebalancer.counts["sessions_lost"], self._referee.losses[self.name]
        if counted < lost:
            raise Violation(f"{self.name} lost {lost} sessions and counted {counted}")

    # What the application does ---------------------------------------------------------------------------------------

    @property
    def lacks_start(self) -> bool:
        """Whether it owns a partition of which nothing says where to begin."""
        return not self.is_gone and any(owned.feed.fetch_offset is None for owned in self.fetchers.partitions)

    def fetch(self) -> None:
        """Deliver what there is to partitions that have a start."""
        if not self.lacks_start:
            self.fetchers.fetch(self.committer)

    def read(self) -> bool:
        """Come back for the next message; False when there is none just now."""
        self.fetch()
        self._come_back()
        message = next(self._messages, None)
        if message is None:
            self._messages = iter(self.stream)
        self._tasks.run_ready()  # a release may have waited for this
        chunk = self.stream._open
        if message is None or chunk is None:
            return False
        chunk.reader = _APPLICATION
        self.in_hand = message
        self._referee.hand_out(_where(message), message.offset, _session_of(chunk), self.stream.stream_id)
        return True

    def work(self) -> None:
        """Come back for all that there is, and commit."""
        while self.read():
            pass
        self.start("commit")

    def _come_back(self) -> None:
        message, self.in_hand, chunk = self.in_hand, None, self.stream._open
        if message is None:
            return
        # A partition that was given up meanwhile is counted as an unfinished release, or went with its session.
        counts = chunk is not None and chunk.in_hand is message and chunk.feed.state is not State.RELEASED
        session_id = _session_of(chunk) if chunk is not None and counts else None
        self._referee.consume(_where(message), message.offset, message.next_offset, session_id)

    # Where it stands -------------------------------------------------------------------------------------------------

    @property
    def position(self) -> Hashable:
        """All that its further behaviour depends on, times from now."""
        now_s, rebalancer, session = self._clock.now_s, self.rebalancer, self.rebalancer.session
        return (
            self.is_gone,
            self.is_leaving,
            self.wake.is_set(),
            (self.try_at_s - now_s, self.fetch_at_s - now_s),
            self.lock.is_held,
            self.in_hand and (_where(self.in_hand), self.in_hand.offset),
            tuple((where, self._owned_position(owned)) for where, owned in rebalancer.owned.items()),
            tuple((where, self._owned_position(owned)) for where, owned in rebalancer.uncommitted.items()),
            tuple(rebalancer.claimed.items()),
            tuple(rebalancer.left.items()),
            rebalancer.is_changed,
            (rebalancer.takes_part, rebalancer.is_in, rebalancer.is_out),
            session and session.session_id,
            self._registries_position(),
        )

    def _owned_position(self, owned: FetchedPartition) -> Hashable:
        feed = owned.feed
        return (
            owned.version,
            owned.committed_offset,
            owned.unanswered_offset,
            owned.is_closed,
            feed.state,
            feed.fetch_offset,
            feed.consumed_offset,
            owned in self.fetchers.partitions,
        )

    def _registries_position(self) -> Hashable:
        session = self.registries.session
        if session is None:
            return None
        lease, now_s = session.lease, self._clock.now_s
        known: list[CachedNodes[Any]] = [
            session.known_subscriptions,
            *([] if session.known_rules is None else [session.known_rules]),
            session.known_brokers,
            *session.known_owned_names.values(),
        ]
        return (
            session.session_id,
            max(lease.until_s - now_s, 0),
            tuple((asked_s - now_s, answered_s - now_s) for asked_s, answered_s in lease.answered),
            tuple((each.path, repr(each._value), each.is_current, each.changes) for each in known),
            tuple(tuple(each.texts.items()) for each in known if isinstance(each, KnownTexts)),
            tuple(
                (known.path, known.is_current, known.changes, tuple(known._nodes.items()), frozenset(known.unread))
                for known in session.known_partitions.values()
            ),
            min(now_s - session.topics_compared_s, COMPARE_TOPICS_S),
            frozenset(session.standing),
        )


def _run(act: object) -> None:
    act()  # type: ignore[operator]


def _session_of(chunk: Chunk) -> int:
    return cast("SessionLease", chunk.feed.lease).session_id


def _where(message: Message) -> TopicPartition:
    return TopicPartition(message.topic, message.broker_id or 0, message.partition)
