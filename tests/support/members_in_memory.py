"""Members of a consumer group over registries in memory, which run the shipped loop.

Everything that a member does by itself runs as a task, which stops before every call to the registries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import greenlet

from kafka2011.consumer.division import TryAgainError
from kafka2011.consumer.feed import State
from kafka2011.consumer.offset_committer import OffsetCommitter
from kafka2011.consumer.rebalancer import Rebalancer, Subscription
from kafka2011.consumer.stream import MessageStream
from kafka2011.consumer.topic_count import TopicCount, stream_ids
from tests.support.registries_in_memory import Key, MemoryRegistries, World
from zk.cluster import TopicPartition
from zk.errors import NodeHeld, ZkError, ZkUnavailable, raise_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka2011.consumer.fetcher import FetchedPartition
    from kafka2011.consumer.rebalance_listener import RebalanceListener
    from zk.cluster import Broker

FETCH_BYTES = 60


class Logs(Protocol):
    """The bytes of each partition; a compressed set is fetched whole."""

    compressed: bool

    @property
    def logs(self) -> dict[TopicPartition, bytes]: ...


class MemoryFetchers:
    """Fetches from the world's logs, a little at a time, when told."""

    def __init__(self, world: Logs) -> None:
        self._world = world
        self.partitions: dict[FetchedPartition, Broker] = {}

    def add(self, owned: FetchedPartition, broker: Broker) -> None:
        assert owned not in self.partitions, f"{owned.where} would be fetched from two brokers"
        self.partitions[owned] = broker

    def remove(self, partitions: Iterable[FetchedPartition]) -> None:
        for owned in partitions:
            self.partitions.pop(owned, None)

    def fetch(self, committer: OffsetCommitter) -> None:
        """Find the starts that are missing and fetch once from every partition."""
        epochs = {owned: owned.feed.epoch for owned in self.partitions if owned.feed.fetch_offset is None}
        outcomes = committer.write_starts(dict.fromkeys(epochs, 0)) if epochs else {}
        for owned, outcome in outcomes.items():
            if outcome is True:
                owned.start_at(0, epochs[owned])
        raise_first(outcomes.values())
        for owned in list(self.partitions):
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
            assert greenlet.getcurrent() is not self._world.main, "the test itself would wait for ever"
            self._world.pause()
        self._is_held = True

    def __exit__(self, *_: object) -> None:
        self._is_held = False


class Member:
    """A member of the group that runs the shipped rebalance, commits and streams."""

    def __init__(
        self,
        world: World,
        name: str,
        topics: dict[str, int] | TopicCount,
        *,
        streams: int | None = None,
        listener: RebalanceListener | None = None,
        release_wait_ms: int = 0,
        explicit_commits: bool = False,
    ) -> None:
        self.world = world
        self.consumer_id = name
        self.is_woken = True
        self.is_done = False
        self.is_gone = False
        count = topics if isinstance(topics, TopicCount) else TopicCount.static(topics)
        ids = stream_ids(name, count.filtered_streams)
        filtered = [self._new_stream(each) for each in ids]
        # As a connector has them: streams of their own for each topic, whose ids are the same.
        self.streams_by_topic = {
            topic: [self._new_stream(each) for each in stream_ids(name, number)]
            for topic, number in count.streams_by_topic.items()
        }
        self.streams = [*filtered, *(stream for streams in self.streams_by_topic.values() for stream in streams)]
        self.registries = MemoryRegistries(world, self.wake)
        self.fetchers = MemoryFetchers(world)
        self.committer = OffsetCommitter(CooperativeLock(world))
        self.rebalancer = Rebalancer(
            Subscription(
                name,
                count,
                lambda topic: filtered or self.streams_by_topic.get(topic, []),
                listener=listener,
                explicit_commits=explicit_commits,
            ),
            registries=self.registries,
            committer=self.committer,
            fetchers=self.fetchers,
            wake=self.wake,
            clock=world,
            release_wait_ms=release_wait_ms,
        )
        self.in_hand: dict[MessageStream, Key] = {}
        self.tasks: dict[str, greenlet.greenlet] = {}
        self.failures: list[BaseException] = []

    def wake(self) -> None:
        self.is_woken = True

    def _new_stream(self, stream_id: str) -> MessageStream:
        return MessageStream(stream_id, max_chunks=3, timeout_ms=0, shallow=False, clock=self.world)

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
        while True:
            try:
                self.rebalancer.leave(commit=True)
            except ZkUnavailable:
                if self.rebalancer.session is self.registries.session:
                    continue  # as long as the session is the same
            break
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
