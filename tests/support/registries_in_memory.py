"""The registries of consumer groups in memory, with sessions, and brokers' logs.

Every call of a member to them can be stopped before it happens, and made to fail. So a test decides in which order the
calls of all members happen, which of them fail, and when sessions expire.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import greenlet

from kafka2011.consumer.rebalance import assign
from kafka2011.consumer.topic_count import MalformedSubscriptionError, TopicCount, stream_ids
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import Message, MessageSet, decode
from tests.support.clocks import ManualClock
from tests.support.leases import LeaseInMemory
from zk.cluster import Broker, TopicPartition
from zk.errors import (
    ConnectionLost,
    NodeHeld,
    NotConnected,
    SessionExpired,
    VersionConflict,
    ZkError,
    ZkUnavailable,
    raise_first,
)
from zk.offsets import CommittedOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from zk.errors import MalformedNode
    from zk.offsets import OffsetCommit

    Wake = Callable[[], None]

SESSION_S = 2.0
REFUSED = "refused"  # the call is not sent
LOST = "lost"  # it is carried out, and the answer does not come

Answer = TypeVar("Answer")
Asked = TypeVar("Asked")


class Key(NamedTuple):
    """One message of the whole cluster."""

    where: TopicPartition
    offset: int
    index_in_set: int


@dataclass
class Write:
    """An offset that somebody wrote."""

    where: TopicPartition
    offset: int
    session_id: int
    version: int


class World(ManualClock):
    """What all members see: the registries and the brokers' logs. Checks what must hold at every moment."""

    def __init__(self, topics: dict[str, dict[int, int]], *, compressed: bool = False) -> None:
        self.topics = topics
        self.brokers = {i: Broker(i, "h", 9000 + i, f"h-{i}") for i in sorted({b for t in topics.values() for b in t})}
        self.compressed = compressed
        self.ids: dict[str, tuple[str, int]] = {}
        self.owners: dict[TopicPartition, tuple[str, int]] = {}
        self.offsets: dict[TopicPartition, CommittedOffset] = {}
        self.deleted_owners: list[TopicPartition] = []
        self.live_sessions: set[int] = set()
        self.sessions_made = 0
        self.logs: dict[TopicPartition, bytes] = {}
        self.consumed: set[Key] = set()
        self.deliveries: Counter[Key] = Counter()
        self.writes: list[Write] = []
        super().__init__()
        self.fenced_by: dict[TopicPartition, int] = {}  # whose start offset was written last
        self._watches: defaultdict[object, dict[Wake, None]] = defaultdict(dict)
        self.main = greenlet.getcurrent()

    # Tasks -----------------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Let the test decide who goes on."""
        if greenlet.getcurrent() is not self.main:
            self.main.switch()

    # Sessions --------------------------------------------------------------------------------------------------------

    def new_session(self) -> int:
        self.sessions_made += 1
        self.live_sessions.add(self.sessions_made)
        return self.sessions_made

    def expire(self, session_id: int) -> None:
        self.now_s += SESSION_S
        self.live_sessions.discard(session_id)
        for consumer_id in [c for c, (_, session) in self.ids.items() if session == session_id]:
            del self.ids[consumer_id]
            self.changed("ids")
        for where in [w for w, (_, session) in self.owners.items() if session == session_id]:
            self.delete_owner(where)

    # Znodes ----------------------------------------------------------------------------------------------------------

    def watch(self, key: object, wake: Wake) -> None:
        self._watches[key][wake] = None

    def changed(self, key: object) -> None:
        for wake in self._watches.pop(key, {}):
            wake()

    def set_partitions(self, topic: str, broker_id: int, count: int) -> None:
        """Let a broker come (with so many partitions of a topic) or go (0)."""
        is_new = topic not in self.topics
        of_topic = self.topics.setdefault(topic, {})
        if count:
            of_topic[broker_id] = count
            self.brokers.setdefault(broker_id, Broker(broker_id, "h", 9000 + broker_id, f"h-{broker_id}"))
        else:
            of_topic.pop(broker_id, None)
        self.changed(("partitions", topic))
        if is_new:
            self.changed("topics")

    def claim_owner(self, where: TopicPartition, stream_id: str, session_id: int) -> None:
        held = self.owners.get(where)
        if held is not None and held[1] != session_id:
            raise NodeHeld(f"/owners/{where}", held[0].encode(), held[1])
        self.owners[where] = (stream_id, session_id)

    def delete_owner(self, where: TopicPartition) -> None:
        self.deleted_owners.append(where)
        self.owners.pop(where, None)
        self.changed(("owner", where))

    def write(self, where: TopicPartition, offset: int, session_id: int, *, fenced: bool = True) -> int:
        """Write an offset. With `fenced`, the writer must not be one whom a new owner's first write has shut out."""
        found = self.offsets.get(where)
        version = found.version + 1 if found else 0
        owner = self.owners.get(where)
        if fenced:
            is_shut_out = owner is not None and owner[1] != session_id and self.fenced_by.get(where) == owner[1]
            assert not is_shut_out, f"session {session_id} committed {where}, which is {owner}'s"
            if owner is not None and owner[1] == session_id:
                self.fenced_by[where] = session_id
        skipped = [key for key in self.keys_before(where, offset) if key not in self.consumed]
        assert not skipped, f"the offset {offset} of {where} skips {skipped}"
        self.offsets[where] = CommittedOffset(offset, version)
        self.writes.append(Write(where, offset, session_id, version))
        return version

    # Logs ------------------------------------------------------------------------------------------------------------

    def produce(self, where: TopicPartition, payloads: Iterable[bytes]) -> None:
        codec = Codec.GZIP if self.compressed else Codec.NONE
        self.logs[where] = self.logs.get(where, b"") + bytes(MessageSet(payloads, codec))

    def messages(self, where: TopicPartition) -> list[Message]:
        return list(decode(self.logs.get(where, b""), where.topic, where.broker_id, where.partition, 0))

    def keys_before(self, where: TopicPartition, offset: int) -> list[Key]:
        """Name the messages that somebody skips who begins at an offset: a set's all, when it lies before it."""
        found: list[Key] = []
        pending: list[Key] = []
        for message in self.messages(where):
            pending.append(Key(where, message.offset, message.index_in_set))
            if message.next_offset > message.offset:
                if message.next_offset > offset:
                    break
                found += pending
                pending = []
        return found

    def partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, b, n) for b, count in self.topics.get(topic, {}).items() for n in range(count)]

    def every_key(self) -> set[Key]:
        return {
            Key(where, m.offset, m.index_in_set)
            for topic in self.topics
            for where in self.partitions(topic)
            for m in self.messages(where)
        }

    def expected_owners(self) -> dict[TopicPartition, str]:
        """Who should own what, by the registries alone."""
        members: dict[str, TopicCount] = {}
        for consumer_id, (text, _) in self.ids.items():
            try:
                members[consumer_id] = TopicCount.parse(text)
            except MalformedSubscriptionError:
                continue
        found: dict[TopicPartition, str] = {}
        for topic in self.topics:
            every = [s for member, count in members.items() for s in stream_ids(member, count.streams_of(topic))]
            for stream_id, share in assign(self.partitions(topic), every).items():
                found.update(dict.fromkeys(share, stream_id))
        return found


class MemorySession:
    """The registries in one session of one member."""

    def __init__(self, world: World, connection: MemoryRegistries) -> None:
        self._world = world
        self._connection = connection
        self.session_id = world.new_session()
        self.lease = LeaseInMemory(renew_answer=lambda: self._answer("renew", lambda: None))

    def _answer(self, name: str, act: Callable[[], Answer]) -> Answer:
        self._world.pause()
        fault = self._connection.fault(name)
        if fault == REFUSED or self._connection.session is not self:
            raise NotConnected(f"{name}: refused")
        if self.session_id not in self._world.live_sessions:
            raise SessionExpired(f"{name}: expired")
        answer = act()
        if fault == LOST:
            raise ConnectionLost(f"{name}: lost")
        return answer

    def _answer_each(
        self, name: str, wanted: Iterable[Asked], act: Callable[[Asked], Answer]
    ) -> dict[Asked, Answer | ZkError]:
        """Answer calls that are sent together, one by one.

        Once one is refused, so are those after it. Once an answer is lost, all answers are; the calls are carried out.
        """
        self._connection.batches.append(name)
        outcomes: dict[Asked, Answer | ZkError] = {}
        gone: ZkUnavailable | None = None
        for where in wanted:
            if gone is None:
                try:
                    outcomes[where] = self._answer(name, partial(act, where))
                except ZkError as error:
                    outcomes[where] = error
                    gone = error if isinstance(error, ZkUnavailable) else None
                continue
            outcomes[where] = gone
            if isinstance(gone, ConnectionLost):
                self._world.pause()
                if self.session_id in self._world.live_sessions:
                    with suppress(ZkError):
                        act(where)
        return outcomes

    def register(self, consumer_id: str, subscription: str, rule: str | None = None) -> None:
        assert rule is None, "tests/models/group knows rules"

        def act() -> None:
            self._world.ids[consumer_id] = (subscription, self.session_id)
            self._world.changed("ids")

        self._answer("register", act)

    def deregister(self, consumer_id: str) -> None:
        def act() -> None:
            if self._world.ids.get(consumer_id, ("", 0))[1] == self.session_id:
                del self._world.ids[consumer_id]
                self._world.changed("ids")

        self._answer("deregister", act)

    def subscriptions(self, wake: Wake) -> dict[str, str]:
        def act() -> dict[str, str]:
            self._world.watch("ids", wake)
            return {consumer_id: text for consumer_id, (text, _) in self._world.ids.items()}

        return self._answer("subscriptions", act)

    def rules(self, wake: Wake) -> dict[str, str]:
        raise AssertionError("nobody asks who divides as 0.7 does")

    def topics(self, wake: Wake) -> list[str]:
        def act() -> list[str]:
            self._world.watch("topics", wake)
            return sorted(self._world.topics)

        return self._answer("topics", act)

    def partitions_of(self, topics: Iterable[str], wake: Wake) -> dict[str, dict[int, int]]:
        def act(topic: str) -> dict[int, int]:
            self._world.watch(("partitions", topic), wake)
            return dict(self._world.topics.get(topic, {}))

        outcomes = self._answer_each("partitions_of", topics, act)
        raise_first(outcomes.values())
        return {topic: counts for topic, counts in outcomes.items() if not isinstance(counts, ZkError)}

    def brokers(self, wake: Wake) -> dict[int, Broker]:
        def act() -> dict[int, Broker]:
            self._world.watch("brokers", wake)
            return dict(self._world.brokers)

        return self._answer("brokers", act)

    def refresh(self) -> None:
        self._answer("refresh", lambda: None)

    def claim(self, streams: Mapping[TopicPartition, str]) -> dict[TopicPartition, NodeHeld]:
        outcomes = self._answer_each(
            "claim", streams, lambda where: self._world.claim_owner(where, streams[where], self.session_id)
        )
        raise_first(outcomes.values(), but=NodeHeld)
        return {where: outcome for where, outcome in outcomes.items() if isinstance(outcome, NodeHeld)}

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        def act(where: TopicPartition) -> None:
            if self._is_mine(where):
                self._world.delete_owner(where)

        raise_first(self._answer_each("release", partitions, act).values())

    def mine(self, partitions: Collection[TopicPartition], wake: Wake) -> set[TopicPartition]:
        def act(where: TopicPartition) -> bool:
            if where in self._world.owners:
                self._world.watch(("owner", where), wake)
            return self._is_mine(where)

        outcomes = self._answer_each("mine", partitions, act)
        raise_first(outcomes.values())
        return {where for where, outcome in outcomes.items() if outcome}

    def is_mine(self, where: TopicPartition) -> bool:
        return self._answer("is_mine", lambda: self._is_mine(where))

    def still_mine(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        outcomes = self._answer_each("is_mine", partitions, self._is_mine)
        raise_first(outcomes.values())
        return {where for where, outcome in outcomes.items() if outcome}

    def _is_mine(self, where: TopicPartition) -> bool:
        return self._world.owners.get(where, ("", 0))[1] == self.session_id

    def watch_owners(self, partitions: Iterable[TopicPartition], wake: Wake) -> bool:
        def act(where: TopicPartition) -> bool:
            self._world.watch(("owner", where), wake)
            return where in self._world.owners

        outcomes = self._answer_each("watch_owners", partitions, act)
        raise_first(outcomes.values())
        return all(outcomes.values())

    def read_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset | MalformedNode]:
        outcomes = self._answer_each("read_offset", partitions, self._world.offsets.get)
        raise_first(outcomes.values())
        return {where: found for where, found in outcomes.items() if isinstance(found, CommittedOffset)}

    def create_offset(self, where: TopicPartition, offset: int) -> int:
        return self._answer("create_offset", lambda: self._create(where, offset))

    def create_offsets(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | ZkError]:
        return self._answer_each("create_offset", offsets, lambda where: self._create(where, offsets[where]))

    def _create(self, where: TopicPartition, offset: int) -> int:
        if where in self._world.offsets:
            raise VersionConflict(str(where), None)
        return self._world.write(where, offset, self.session_id)

    def write_offset(self, where: TopicPartition, offset: int) -> int:
        return self._answer("write_offset", lambda: self._world.write(where, offset, self.session_id))

    def commit_offsets(self, commits: Iterable[OffsetCommit]) -> dict[TopicPartition, int | ZkError]:
        by_partition = {commit.where: commit for commit in commits}

        def act(where: TopicPartition) -> int:
            _, offset, version = by_partition[where]
            found = self._world.offsets.get(where)
            if found is None or found.version != version:
                raise VersionConflict(str(where), version)
            return self._world.write(where, offset, self.session_id)

        return self._answer_each("commit_offset", by_partition, act)


class MemoryRegistries:
    """One member's connection: gives it its session, or none while ZooKeeper is out of its reach."""

    def __init__(self, world: World, wake: Wake) -> None:
        self._world = world
        self._wake = wake
        self.session: MemorySession | None = MemorySession(world, self)
        self.faults: list[tuple[str | None, str]] = []  # (name of a call, or any; what goes wrong), first come first
        self.calls: list[str] = []
        self.batches: list[str] = []  # calls that were sent together count as one here

    def fault(self, name: str) -> str | None:
        self.calls.append(name)
        if self.faults and self.faults[0][0] in (None, name):
            return self.faults.pop(0)[1]
        return None

    def current(self) -> MemorySession | None:
        return self.session

    def expire(self) -> None:
        """Let the session end and the client make another, which the member will hear of."""
        if self.session is not None:
            self.session.lease.until_s = 0.0  # by then it ran out, since nothing was answered
            self._world.expire(self.session.session_id)
        self.session = MemorySession(self._world, self)
        self._wake()

    def close(self) -> None:
        """End the session as a process does that is killed."""
        if self.session is not None:
            self.session.lease.until_s = 0.0
            self._world.expire(self.session.session_id)
        self.session = None
