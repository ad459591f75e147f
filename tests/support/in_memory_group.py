"""A consumer group in memory: registries, sessions, brokers' logs, and members that run the shipped loop over them.

Everything that a member does by itself runs as a task, which stops before every call to the registries. So a test
decides in which order the calls of all members happen, which of them fail, and when sessions expire.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import greenlet

from kafka2011.compression import Codec
from kafka2011.consumer.feed import State
from kafka2011.consumer.offsets import OffsetCommitter
from kafka2011.consumer.rebalance import assign
from kafka2011.consumer.rebalancer import Rebalancer, TryAgainError
from kafka2011.consumer.stream import MessageStream
from kafka2011.consumer.topic_count import MalformedSubscriptionError, TopicCount, stream_ids
from kafka2011.message import Message, MessageSet, decode
from tests.support.clocks import ManualClock
from zk.cluster import Broker, TopicPartition
from zk.errors import ConnectionLost, NodeHeld, NotConnected, SessionExpired, VersionConflict, ZkError
from zk.offsets import CommittedOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka2011.consumer.owned_partition import OwnedPartition

    Wake = Callable[[], None]

FETCH_BYTES = 60
SESSION_S = 2.0
REFUSED = "refused"  # the call is not sent
LOST = "lost"  # it is carried out, and the answer does not come

Answer = TypeVar("Answer")


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
        self.live_sessions: set[int] = set()
        self.sessions_made = 0
        self.logs: dict[TopicPartition, bytes] = {}
        self.consumed: set[Key] = set()
        self.deliveries: Counter[Key] = Counter()
        self.writes: list[Write] = []
        super().__init__()
        self.fenced_by: dict[TopicPartition, int] = {}  # whose start offset was written last
        self._watches: defaultdict[object, dict[Wake, None]] = defaultdict(dict)
        self._main = greenlet.getcurrent()

    # Tasks -----------------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Let the test decide who goes on."""
        if greenlet.getcurrent() is not self._main:
            self._main.switch()

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


@dataclass
class MemoryLease:
    """Lasts as long as the session."""

    until_s: float = 0.0
    renew_interval_s: float = 1.0
    renew_answer: Callable[[], None] = field(default=lambda: None)

    def renew(self) -> None:
        self.renew_answer()
        self.until_s = float("inf")

    def end(self) -> None:
        self.until_s = 0.0


class MemorySession:
    """The registries in one session of one member."""

    def __init__(self, world: World, connection: MemoryRegistries) -> None:
        self._world = world
        self._connection = connection
        self.session_id = world.new_session()
        self.lease = MemoryLease(renew_answer=lambda: self._answer("renew", lambda: None))

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

    def register(self, consumer_id: str, subscription: str) -> None:
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

    def topics(self, wake: Wake) -> list[str]:
        def act() -> list[str]:
            self._world.watch("topics", wake)
            return sorted(self._world.topics)

        return self._answer("topics", act)

    def partitions_of(self, topic: str, wake: Wake) -> dict[int, int]:
        def act() -> dict[int, int]:
            self._world.watch(("partitions", topic), wake)
            return dict(self._world.topics.get(topic, {}))

        return self._answer("partitions_of", act)

    def brokers(self) -> dict[int, Broker]:
        return self._answer("brokers", lambda: dict(self._world.brokers))

    def claim(self, where: TopicPartition, stream_id: str) -> None:
        self._answer("claim", lambda: self._world.claim_owner(where, stream_id, self.session_id))

    def release(self, where: TopicPartition) -> None:
        def act() -> None:
            if self._world.owners.get(where, ("", 0))[1] == self.session_id:
                self._world.delete_owner(where)

        self._answer("release", act)

    def is_mine(self, where: TopicPartition, wake: Wake | None = None) -> bool:
        def act() -> bool:
            if wake is not None and where in self._world.owners:
                self._world.watch(("owner", where), wake)
            return self._world.owners.get(where, ("", 0))[1] == self.session_id

        return self._answer("is_mine", act)

    def watch_owner(self, where: TopicPartition, wake: Wake) -> bool:
        def act() -> bool:
            self._world.watch(("owner", where), wake)
            return where in self._world.owners

        return self._answer("watch_owner", act)

    def read_offset(self, where: TopicPartition) -> CommittedOffset | None:
        return self._answer("read_offset", lambda: self._world.offsets.get(where))

    def write_offset(self, where: TopicPartition, offset: int) -> int:
        return self._answer("write_offset", lambda: self._world.write(where, offset, self.session_id))

    def commit_offset(self, where: TopicPartition, offset: int, version: int) -> int:
        def act() -> int:
            found = self._world.offsets.get(where)
            if found is None or found.version != version:
                raise VersionConflict(str(where), version)
            return self._world.write(where, offset, self.session_id)

        return self._answer("commit_offset", act)


class MemoryRegistries:
    """One member's connection: gives it its session, or none while ZooKeeper is out of its reach."""

    def __init__(self, world: World, wake: Wake) -> None:
        self._world = world
        self._wake = wake
        self.session: MemorySession | None = MemorySession(world, self)
        self.faults: list[tuple[str | None, str]] = []  # (name of a call, or any; what goes wrong), first come first
        self.calls: list[str] = []

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


class MemoryFetchers:
    """Fetches from the world's logs, a little at a time, when told."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.partitions: dict[OwnedPartition, Broker] = {}

    def add(self, owned: OwnedPartition, broker: Broker) -> None:
        self.partitions[owned] = broker

    def remove(self, partitions: Iterable[OwnedPartition]) -> None:
        for owned in partitions:
            self.partitions.pop(owned, None)

    def fetch(self, committer: OffsetCommitter) -> None:
        """Find the starts that are missing and fetch once from every partition."""
        for owned in list(self.partitions):
            epoch = owned.feed.epoch
            if owned.feed.fetch_offset is None and committer.write_start(owned, 0):
                owned.start_at(0, epoch)
            reserved = owned.feed.reserve()
            if reserved is None:
                continue
            offset, epoch = reserved
            data = self._world.logs.get(owned.where, b"")[offset:]
            if not self._world.compressed:
                data = data[:FETCH_BYTES]
            if data:
                owned.feed.deliver(epoch, offset, data)
            else:
                owned.feed.cancel()


class CooperativeLock:
    """A lock for tasks: whoever finds it held lets the test go on with another."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._is_held = False

    def __enter__(self) -> None:
        while self._is_held:
            assert greenlet.getcurrent() is not self._world._main, "the test itself would wait for ever"
            self._world.pause()
        self._is_held = True

    def __exit__(self, *_: object) -> None:
        self._is_held = False


class Member:
    """A member of the group that runs the shipped rebalance, commits and streams."""

    def __init__(
        self, world: World, name: str, topics: dict[str, int] | TopicCount, *, streams: int | None = None
    ) -> None:
        self.world = world
        self.consumer_id = name
        self.is_woken = True
        self.is_done = False
        self.is_gone = False
        count = topics if isinstance(topics, TopicCount) else TopicCount.static(topics)
        most = max([count.filtered_streams, *count.streams_by_topic.values()])
        self.streams = [
            MessageStream(each, max_chunks=3, timeout_ms=0, shallow=False, clock=world)
            for each in stream_ids(name, most)
        ]
        self.registries = MemoryRegistries(world, self.wake)
        self.fetchers = MemoryFetchers(world)
        self.committer = OffsetCommitter(CooperativeLock(world))
        self.rebalancer = Rebalancer(
            name,
            count,
            lambda topic: self.streams[: count.streams_of(topic)],
            registries=self.registries,
            committer=self.committer,
            fetchers=self.fetchers,
            wake=self.wake,
            clock=world,
            release_wait_ms=0,
        )
        self.in_hand: dict[MessageStream, Key] = {}
        self.tasks: dict[str, greenlet.greenlet] = {}
        self.failures: list[BaseException] = []

    def wake(self) -> None:
        self.is_woken = True

    # What its threads do ---------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Begin `rebalance`, `commit`, `fetch` or `leave`, unless that is under way."""
        if name in self.tasks or self.is_gone:
            return
        act = {
            "rebalance": self._rebalance,
            "commit": lambda: self.committer.commit(list(self.rebalancer.owned.values())),
            "fetch": lambda: self.fetchers.fetch(self.committer),
            "leave": self._leave,
        }[name]
        self.tasks[name] = greenlet.greenlet(lambda: self._guarded(act))

    def step(self, name: str | None = None) -> bool:
        """Let a task go on to its next call; False when there is none."""
        name = name if name is not None else next(iter(self.tasks), None)
        if name is None or name not in self.tasks:
            return False
        task = self.tasks[name]
        task.switch()
        if task.dead:
            self.tasks.pop(name, None)
        return True

    def finish(self) -> None:
        """Let all tasks go on to their ends."""
        for _ in range(100_000):
            names = list(self.tasks)
            if not names:
                break
            for name in names:
                self.step(name)
        else:
            raise AssertionError("tasks go on for ever")
        if self.failures:
            raise self.failures[0]

    def run(self, name: str) -> None:
        self.start(name)
        self.finish()

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except (ZkError, TryAgainError, greenlet.GreenletExit):
            pass
        except BaseException as error:  # noqa: BLE001 - it belongs to the test
            self.failures.append(error)

    def _rebalance(self) -> None:
        self.is_woken, self.is_done = False, False
        self.is_done = self.rebalancer.try_once()

    def _leave(self) -> None:
        while "rebalance" in self.tasks:  # as under the connector's lock
            self.world.pause()
        self.rebalancer.leave(commit=True)
        for stream in self.streams:
            stream.close()
        self.kill()

    def kill(self) -> None:
        """End the process; its tasks go no further."""
        self.is_gone = True
        self.tasks.clear()
        self.registries.close()

    # What the application does ---------------------------------------------------------------------------------------

    def read(self) -> Key | None:
        """Come back for the next message of any stream."""
        for stream in self.streams:
            self._come_back(stream)
            try:
                message = next(stream)
            except StopIteration:
                continue
            where = TopicPartition(message.topic, message.broker_id or 0, message.partition)
            owner = self.world.owners.get(where)
            assert owner is not None, f"{message} was handed out without an owner"
            assert self.registries.session is not None
            assert owner == (stream.stream_id, self.registries.session.session_id), f"{message} is {owner}'s"
            key = Key(where, message.offset, message.index_in_set)
            self.in_hand[stream] = key
            self.world.deliveries[key] += 1
            return key
        return None

    def _come_back(self, stream: MessageStream) -> None:
        key = self.in_hand.pop(stream, None)
        if key is not None:
            self.world.consumed.add(key)

    @property
    def owned(self) -> set[TopicPartition]:
        """What this member believes to own, while its session surely lives."""
        return {
            where
            for where, owned in list(self.rebalancer.owned.items())
            if owned.feed.state is not State.RELEASED and owned.session.lease.until_s > 0
        }


class OldMember:
    """A member of another 0.7 implementation: no fences, no leases; its commits just write."""

    def __init__(self, world: World, name: str, topic: str) -> None:
        self.world = world
        self.consumer_id = name
        self.topic = topic
        self.is_woken = True
        self.is_done = False
        self.is_gone = False
        self.session_id = world.new_session()
        self.owned: dict[TopicPartition, int] = {}
        self.world.ids[name] = (f'{{ "{topic}": 1 }}', self.session_id)
        world.changed("ids")

    def wake(self) -> None:
        self.is_woken = True

    def rebalance(self) -> None:
        """One try, all at once: commit, release, claim all or none."""
        world = self.world
        self.is_woken, self.is_done = False, False
        world.watch("ids", self.wake)
        world.watch(("partitions", self.topic), self.wake)
        self.commit()
        self.release()
        wanted = [w for w, s in world.expected_owners().items() if s == f"{self.consumer_id}-0"]
        for where in wanted:
            found = world.offsets.get(where)
            try:
                world.claim_owner(where, f"{self.consumer_id}-0", self.session_id)
            except NodeHeld:
                self.release()
                return
            self.owned[where] = found.offset if found else 0
        self.is_done = True

    def release(self) -> None:
        for where in self.owned:
            if self.world.owners.get(where, ("", 0))[1] == self.session_id:
                self.world.delete_owner(where)
        self.owned.clear()

    def consume(self) -> None:
        """Read all there is of what it owns."""
        for where, offset in self.owned.items():
            for message in self.world.messages(where):
                if message.offset >= offset:
                    self.world.consumed.add(Key(where, message.offset, message.index_in_set))
                    self.owned[where] = max(self.owned[where], message.next_offset)

    def commit(self) -> None:
        """Write its offsets, whatever is there."""
        for where, offset in self.owned.items():
            self.world.write(where, offset, self.session_id, fenced=False)

    def kill(self) -> None:
        self.is_gone = True
        self.owned.clear()
        self.world.expire(self.session_id)


def settle(members: Iterable[Member | OldMember]) -> None:
    """Let the members go on, as events wake them, until nobody has a reason to."""
    every = [member for member in members if not member.is_gone]
    for member in every:
        if isinstance(member, Member):
            member.registries.faults.clear()
            member.finish()
    for _ in range(100):
        awake = [member for member in every if not member.is_gone and (member.is_woken or not member.is_done)]
        if not awake:
            return
        for member in awake:
            if isinstance(member, Member):
                member.run("rebalance")
            else:
                member.rebalance()
    raise AssertionError("the group does not come to rest")


def drain(world: World, members: Iterable[Member | OldMember]) -> None:
    """Let every message that there is be consumed and committed."""
    every = [member for member in members if not member.is_gone]
    for _ in range(1000):
        progress = False
        for member in every:
            if isinstance(member, OldMember):
                member.consume()
                member.commit()
                continue
            member.run("fetch")
            while member.read() is not None:
                progress = True
            member.run("commit")
        if not progress:
            return
    raise AssertionError("the messages do not come to an end")
