"""The masterless rebalance of one member: Algorithm 1 around the registries (paper, section 3.2).

One attempt reads the registries, computes every stream's share, gives up what no longer belongs to it (waiting for the
application, committing, deleting the owner nodes), and claims what is new. A partition that stays is left alone. If
another member still owns a partition, begin with the rest, and try again when it is given up. Two members cannot end up
waiting for each other: a member keeps only what the registries say is its share, and the shares of two members that
have read the same registries do not overlap. Nothing here knows of threads or ZooKeeper.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol

from kafka2011.consumer.division import Division
from kafka2011.consumer.offset_committer import Left
from kafka2011.consumer.owned_partition import F, OwnedPartition
from kafka2011.consumer.rebalance_listener import RebalanceListener
from kafka2011.errors import KafkaError
from kafka2011.metrics.histogram import UP_TO_MINUTES, Histogram
from zk.errors import ZkError, ZkUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kafka2011.consumer.group_registries import GroupRegistries, GroupSession
    from kafka2011.consumer.offset_committer import OffsetCommitter
    from kafka2011.consumer.owned_partition import Stream
    from kafka2011.consumer.topic_count import TopicCount
    from zk.clock import Clock
    from zk.cluster import Broker, TopicPartition
    from zk.errors import NodeHeld

logger = logging.getLogger(__name__)


class Fetchers(Protocol[F]):
    """Fetches what is owned."""

    def add(self, owned: OwnedPartition[F], broker: Broker) -> None:
        """Fetch a partition from its broker; find its start first if that is not known."""

    def remove(self, partitions: Iterable[OwnedPartition[F]]) -> None:
        """Stop fetching these."""


@dataclass(frozen=True, slots=True)
class Subscription(Generic[F]):
    """What a member wants: its topics, and what becomes of their messages.

    `streams_of` returns its streams of a topic, in the order of their numbers. With `explicit_commits` only offsets
    that the application gives are committed. `listener` is told what comes and goes. `rule` is how to divide if all
    members say the same; None: as in 0.7.
    """

    consumer_id: str
    topic_count: TopicCount
    streams_of: Callable[[str], Sequence[Stream[F]]]
    listener: RebalanceListener | None = None
    explicit_commits: bool = False
    rule: str | None = None


class Rebalancer(Generic[F]):
    """Keeps what this member owns in step with the registries. Used by one thread at a time.

    `wake` is called when a registry has changed and `try_once` should be called again. `owned` is what we own now;
    other threads may read it. Of `explicit_topics` only offsets that the application gives are committed.
    Once `takes_part` is made false, by any thread, the next try gives up everything and leaves the group, but not the
    session; when it is true again, the next one joins.
    """

    def __init__(
        self,
        subscription: Subscription[F],
        *,
        registries: GroupRegistries,
        committer: OffsetCommitter,
        fetchers: Fetchers[F],
        wake: Callable[[], None],
        clock: Clock,
        release_wait_ms: int,
    ) -> None:
        self._consumer_id = subscription.consumer_id
        self._streams_of = subscription.streams_of
        self._registries = registries
        self._committer = committer
        self._fetchers = fetchers
        self._wake = wake
        self._clock = clock
        self._release_wait_s = release_wait_ms / 1000
        self._listener = subscription.listener or RebalanceListener()
        self.takes_part = True
        self.session: GroupSession | None = None
        self.is_in = False  # a member, for certain
        self.is_out = True  # none, for certain
        self.owned: dict[TopicPartition, OwnedPartition[F]] = {}
        self.claimed: dict[TopicPartition, str] = {}  # owner nodes that may exist in our name
        self.held: Mapping[TopicPartition, NodeHeld] = {}  # what is ours but others own, as the last try found it
        self.explicit_topics: set[str] = set()
        self._explicit_commits = subscription.explicit_commits
        # Given up, but not committed for the last time: the owner node stays until then.
        self.uncommitted: dict[TopicPartition, OwnedPartition[F]] = {}
        self.left: dict[TopicPartition, Left] = {}  # what an ended session had not committed
        self.is_changed = False  # since the last rebalance that ended well
        self.counts: Counter[str] = Counter()
        self.times = Histogram(UP_TO_MINUTES)  # of rebalances that changed something, from the first attempt
        self._began_s: float | None = None
        self._division = Division(
            subscription.consumer_id,
            subscription.topic_count,
            rule=subscription.rule,
            counts=self.counts,
            wake=wake,
        )

    def enter(self) -> None:
        """Be a member in the present session: if it is a new one, register, and drop what the old one owned.

        Raises ZkUnavailable when there is no session.
        """
        self._enter(registers=True)

    def _enter(self, *, registers: bool) -> GroupSession:
        session = self._registries.current()
        if session is None:
            raise ZkUnavailable("not connected to ZooKeeper")
        if session is not self.session:
            if self.session is not None:
                self.counts["sessions_lost"] += 1
                logger.warning("%s has a new ZooKeeper session and registers again", self._consumer_id)
                self._abandon()
            session.lease.renew()
            self.session, self.is_in, self.is_out = session, False, True
        if registers and not self.is_in:
            self.is_out = False  # noted first: an unanswered registration may have succeeded
            self._division.register(session)
            self.is_in = True
        return session

    def try_once(self) -> bool:
        """Bring what we own in step with the registries; False if another still owns part of it.

        Raises TryAgainError when the registries contradict themselves, ZkUnavailable when they do not answer.
        """
        takes_part = self.takes_part
        session = self._enter(registers=takes_part)
        self.counts["tries"] += 1
        if self._began_s is None:
            self._began_s = self._clock.monotonic_s()
        if not takes_part:
            self._step_out(session)
            self._end_well(self._began_s)
            return True
        session.refresh()
        owners, brokers = self._division.read(session)
        wanted = self._ours(owners)
        mine = session.mine(self.owned.keys(), self._wake)
        self._give_up([o for w, o in self.owned.items() if w not in mine or wanted.get(w) != o.feed.stream_id])
        self._commit_given_up()
        self._unclaim(session, [where for where in self.claimed if where not in self.owned and where not in wanted])
        self._follow_addresses(brokers)
        if not self._take(session, brokers, {w: stream for w, stream in wanted.items() if w not in self.owned}):
            return False
        self._end_well(self._began_s)
        return True

    def _end_well(self, began_s: float) -> None:
        self._began_s = None
        if not self.is_changed:
            return
        self.is_changed = False
        self.counts["rebalances"] += 1
        self.times.observe(self._clock.monotonic_s() - began_s)
        self._wake()  # look once more: that sets watches on the new owner nodes, which others could delete
        logger.info("%s owns %s", self._consumer_id, ", ".join(map(str, sorted(self.owned))) or "nothing")

    def _step_out(self, session: GroupSession) -> None:
        """Give up everything, with its commits, and leave the group."""
        self.is_in = False
        self._give_up(list(self.owned.values()))
        self._commit_given_up()
        self._unclaim(session, list(self.claimed))
        if not self.is_out:
            session.deregister(self._consumer_id)
            self.is_out = True

    def leave(self, *, commit: bool) -> None:
        """Give up everything and leave the group; what ZooKeeper is not told ends with the session.

        Raises ZkUnavailable when the last commit was not answered: call it again while there is time and the session
        is the same.
        """
        session = self.session
        if session is None:
            return
        owned = list(self.owned.values())
        if commit:
            self._give_up(owned)
        else:
            self._release(owned)
            self._tell(self._listener.on_revoked, owned)
            self.owned.clear()
        try:
            self._commit_given_up()
        except ZkUnavailable:
            raise
        except KafkaError as error:
            logger.warning("%s leaves without having committed everything: %s", self._consumer_id, error)
        try:
            self._unclaim(session, list(self.claimed))
            session.deregister(self._consumer_id)
        except ZkError as error:
            logger.warning("%s leaves without ZooKeeper: %s", self._consumer_id, error)
        session.lease.end()

    def _ours(self, owners: Mapping[TopicPartition, str]) -> dict[TopicPartition, str]:
        """Return what belongs to streams of ours."""
        ours = {topic: {stream.stream_id for stream in self._streams_of(topic)} for topic in {w.topic for w in owners}}
        return {where: stream_id for where, stream_id in owners.items() if stream_id in ours[where.topic]}

    # Taking and giving up ----------------------------------------------------------------------------------------

    def _take(self, session: GroupSession, brokers: Mapping[int, Broker], wanted: Mapping[TopicPartition, str]) -> bool:
        """Claim these and begin with them; False if another still owns one of them."""
        self.held = {}
        if not wanted:
            return True
        self.is_changed = True
        self.claimed.update(wanted)  # noted first: an unanswered claim may have succeeded
        self.held = held = session.claim(wanted)
        for where in held:
            del self.claimed[where]
        # Streams of several topics have the same ids, so each is known by its topic, too.
        streams = {(topic, s.stream_id): s for topic in {w.topic for w in wanted} for s in self._streams_of(topic)}
        claimed: dict[OwnedPartition[F], Left | None] = {}
        for where, stream_id in wanted.items():
            if where not in held:
                feed = streams[where.topic, stream_id].feed(where, session.lease)
                owned = OwnedPartition(feed, session, brokers[where.broker_id])
                owned.is_newborn = where not in self._division.found_first
                owned.is_explicit = self._explicit_commits or where.topic in self.explicit_topics
                claimed[owned] = self.left.get(where)
        taken = self._committer.take(session, claimed)
        for owned, offset in taken.items():
            self.left.pop(owned.where, None)
            if offset is not None:
                owned.start_at(offset)
            self.owned[owned.where] = owned
        self._tell(self._listener.on_assigned, taken)  # before anything of them is handed out
        for owned in taken:
            self._fetchers.add(owned, owned.broker)
        if not held:
            return True
        self.counts["claim_conflicts"] += len(held)
        logger.info("%s waits for %d partitions: %s", self._consumer_id, len(held), next(iter(held.values())))
        if not session.watch_owners(held, self._wake):
            self._wake()
        return False

    def _follow_addresses(self, brokers: Mapping[int, Broker]) -> None:
        """Fetch from where a broker is now: it may have come back at another address."""
        for owned in self.owned.values():
            broker = brokers[owned.where.broker_id]
            if owned.broker.address != broker.address:
                owned.broker = broker
                self._fetchers.remove([owned])
                self._fetchers.add(owned, broker)

    def _give_up(self, partitions: Collection[OwnedPartition[F]]) -> None:
        if not partitions:
            return
        self.is_changed = True
        self._release(partitions)
        self._tell(self._listener.on_revoked, partitions)
        for owned in partitions:
            self._note_left(owned)
            self.uncommitted[owned.where] = self.owned.pop(owned.where)

    def _commit_given_up(self) -> None:
        """Commit what was given up, now or in an attempt that was not answered: only then may others have it."""
        given_up = list(self.uncommitted.values())
        try:
            self._committer.commit(given_up, last=True)
        finally:
            for owned in given_up:
                if owned.is_closed:
                    del self.uncommitted[owned.where]
                    self.left.pop(owned.where, None)

    def _release(self, partitions: Collection[OwnedPartition[F]]) -> None:
        """Stop handing out, and wait for the application a while: all streams together, not one after another."""
        for owned in partitions:
            owned.feed.begin_release()
        self._fetchers.remove(partitions)
        deadline_s = self._clock.monotonic_s() + self._release_wait_s
        for owned in partitions:
            owned.feed.end_release(deadline_s)

    def _unclaim(self, session: GroupSession, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            session.release(partitions)
        for where in partitions:
            self.claimed.pop(where, None)

    def _abandon(self) -> None:
        """Drop what an ended session owned: there is no time to wait, and nothing can be committed."""
        assert self.session is not None
        self.session.lease.end()
        every = list(self.owned.values())
        for owned in every:
            owned.feed.abandon()
            self._note_left(owned)
        self._fetchers.remove(every)
        self.owned.clear()
        self.uncommitted.clear()
        self.claimed.clear()
        self._tell(self._listener.on_lost, every)

    def _tell(self, method: Callable[[list[TopicPartition]], None], partitions: Collection[OwnedPartition[F]]) -> None:
        """Call a method of the application's; its errors affect nothing else."""
        if not partitions:
            return
        try:
            method(sorted(owned.where for owned in partitions))
        except Exception:
            self.counts["listener_errors"] += 1
            logger.exception("%s: the rebalance listener failed", self._consumer_id)

    def _note_left(self, owned: OwnedPartition[F]) -> None:
        """Remember what was consumed: if nobody takes the partition meanwhile, it need not come again."""
        left = Left.of(owned)
        if left is not None:
            self.left[owned.where] = left
