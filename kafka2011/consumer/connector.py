"""ConsumerConnector: the high-level consumer, a member of a group (paper, section 3.2; 0.7's consumer API).

It only puts the parts together: the membership keeps the member in its group, the rebalance decides what is owned,
fetchers pull it, streams hand it out, and the committer writes how far that went. It uses plain threads, and works
under an application's own gevent patching too.
"""

from __future__ import annotations

import difflib
import logging
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from kafka2011.config import ConsumerConfig
from kafka2011.consumer.application_watch import ApplicationWatch
from kafka2011.consumer.fair_assignment import RULE
from kafka2011.consumer.fetcher import FetcherManager
from kafka2011.consumer.membership import Membership
from kafka2011.consumer.offset_committer import OffsetCommitter
from kafka2011.consumer.rebalancer import Rebalancer, Subscription
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.consumer.stream import MessageStream
from kafka2011.consumer.topic_count import TopicCount, stream_ids
from kafka2011.consumer.zk_group import ZkGroup
from kafka2011.errors import ConfigError, KafkaError
from kafka2011.left_open import note_closed, note_opened
from kafka2011.metrics.histogram import UP_TO_MINUTES, Histogram
from kafka2011.wire.protocol import EARLIEST
from zk import forks
from zk.brokers import BrokerRegistry
from zk.clock import SYSTEM_CLOCK
from zk.cluster import TopicPartition
from zk.connecting import connect
from zk.errors import ZkError
from zk.sessions import SessionEvents
from zk.watchdog import SessionWatchdog

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import TracebackType

    from kafka2011.consumer.feed import PartitionFeed
    from kafka2011.consumer.fetcher import FetchedPartition
    from kafka2011.consumer.rebalance_listener import RebalanceListener
    from kafka2011.consumer.topic_filter import TopicFilter
    from kafka2011.metrics.histogram import Distribution
    from zk.client import ZkClient

logger = logging.getLogger(__name__)


class ConsumerConnector:
    """Joins a consumer group and delivers the messages of its partitions; a context manager.

    `config` needs zk.connect and groupid. Create the streams once, and read each of them in its own thread. A message
    is consumed once the application asks for the next one. Consumed offsets are committed every autocommit.interval.ms,
    before a partition is given up, and at `shutdown`. With `explicit_commits`, only the offsets passed to
    `commit_offsets` are committed, also when a partition moves. `listener` is called when partitions are assigned and
    revoked.

    Raises ZkError when ZooKeeper does not answer at the start. Later it waits for ZooKeeper, and delivers no message
    that another member might own by then. After a fork, the child cannot use the connector or its streams; `shutdown`
    does nothing there.
    """

    def __init__(
        self,
        config: ConsumerConfig | Mapping[str, object],
        listener: RebalanceListener | None = None,
        *,
        explicit_commits: bool = False,
    ) -> None:
        self.config = ConsumerConfig.of(config)
        self._listener = listener
        self._explicit_commits = explicit_commits
        self.consumer_id = f"{self.config.groupid}_{self.config.consumerid or _unique_name()}"
        self._client = connect(
            self.config.zk_connect, self.config.zk_sessiontimeout_ms, self.config.zk_connectiontimeout_ms
        )
        self._watchdog: SessionWatchdog | None = None
        if self.config.session_watchdog:
            try:
                self._watchdog = SessionWatchdog(self._client)
            except BaseException:
                self._client.shutdown()
                raise
        self._clock = SYSTEM_CLOCK
        self._events = SessionEvents(self._client)
        self._wake = threading.Event()
        self._events.wake(self._wake.set)
        self._committer = OffsetCommitter()
        self._fetchers = FetcherManager(self.config, self._starts_found)
        self._membership: Membership[PartitionFeed] | None = None
        self._streams: dict[str, list[MessageStream]] = {}
        self._filtered_streams: list[MessageStream] = []
        self._shutdown_lock = threading.Lock()
        self._shutting_down: threading.Thread | None = None
        self._is_shut_down = threading.Event()
        self._is_parents = False
        forks.register(self)

    def __repr__(self) -> str:
        if self._is_parents:
            return f"<ConsumerConnector {self.consumer_id}, of the parent process>"
        state = "shut down" if self._is_shut_down.is_set() else f"owns {len(self.owned_partitions())} partitions"
        return f"<ConsumerConnector {self.consumer_id}, {state}>"

    # Streams -----------------------------------------------------------------------------------------------------

    def create_message_streams(self, streams_by_topic: Mapping[str, int]) -> dict[str, list[MessageStream]]:
        """Join the group and return streams: `streams_by_topic` maps a topic to how many. It may be created later."""
        topic_count = TopicCount.static(streams_by_topic)
        self._check_not_joined()
        self._streams = {topic: self._new_streams(count) for topic, count in streams_by_topic.items()}
        self._join(topic_count)
        _warn_of_unknown(self._client, streams_by_topic)
        return {topic: list(streams) for topic, streams in self._streams.items()}

    def create_message_streams_by_filter(self, topic_filter: TopicFilter, streams: int = 1) -> list[MessageStream]:
        """Join the group and return `streams` streams of all topics that the filter allows, now or later."""
        topic_count = TopicCount.filtered(topic_filter, streams)
        self._check_not_joined()
        self._fetchers.skips_refused = True
        self._filtered_streams = self._new_streams(streams)
        self._join(topic_count)
        return list(self._filtered_streams)

    # Offsets -----------------------------------------------------------------------------------------------------

    def commit_offsets(self, offsets: Mapping[tuple[str, int, int], int] | None = None) -> None:
        """Commit what was consumed; the message that this thread is processing counts as consumed.

        `offsets` commits those instead: next offsets by (topic, broker id, partition). From then on only explicit
        commits move the offsets of these topics, also when partitions are given up. Raises KafkaError for a partition
        that is not owned here, or no longer, and ZkUnavailable when ZooKeeper does not answer.
        """
        self._check_is_ours()
        if self._is_shut_down.is_set():
            raise KafkaError(
                f"{self.consumer_id} is shut down: what was done by then was committed, and it owns nothing"
            )
        if offsets is None:
            for stream in self._all_streams():
                stream.count_in_hand_as_done()
            if self._membership is not None:
                self._membership.commit()
            return
        _check_offsets(offsets)
        given = [(self._owned(*where), offset) for where, offset in offsets.items()]
        for owned, offset in given:
            if not 0 <= offset < 2**63:
                raise KafkaError(f"{offset} is not an offset of {owned.where}")
        for owned, offset in given:
            self._make_explicit(owned.where.topic)
            owned.explicit_offset = offset
        self._committer.commit([owned for owned, _ in given])
        refused = [str(owned.where) for owned, offset in given if owned.committed_offset != offset]
        if refused:
            raise KafkaError(f"not committed, since {self.consumer_id} no longer owns them: {', '.join(refused)}")

    def rewind(
        self,
        topic: str,
        broker_id: int,
        partition: int,
        *,
        offset: int | None = None,
        time_ms: int | None = None,
    ) -> int:
        """Continue a partition at an offset, or at the newest segment from before a time; return the offset.

        For a partition that this member owns (else KafkaError). What was fetched from it is dropped; the group's offset
        follows with the next commit, unless only explicit commits move it. An offset that is not in the log counts as
        out of range: see autooffset.reset. (Paper, section 3.1: a consumer may deliberately rewind.)
        """
        self._check_is_ours()
        if (offset is None) == (time_ms is None):
            raise ConfigError("rewind takes either offset or time_ms")
        if offset is not None and not 0 <= offset < 2**63:
            raise KafkaError(f"{offset} is not an offset of {TopicPartition(topic, broker_id, partition)}")
        owned = self._owned(topic, broker_id, partition)
        if offset is None:
            assert time_ms is not None
            with SimpleConsumer.of(owned.broker, self.config) as consumer:
                offsets = consumer.get_offsets_before(topic, partition, time_ms, 1)
                # Earlier than everything in the log: the beginning.
                offset = offsets[0] if offsets else consumer.get_offsets_before(topic, partition, EARLIEST, 1)[0]
        if not owned.start_at(offset):
            raise KafkaError(f"{self.consumer_id} is giving up partition {owned.where}")
        self._fetchers.wake()
        return offset

    # The end -----------------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Leave the group: give up all partitions, commit (with autocommit.enable), end all streams and threads.

        A message that this thread has in hand counts as done; other threads have up to rebalance.backoff.ms to finish
        theirs. May be called twice, and from any thread, but not from a signal handler, which could interrupt the very
        thing that it waits for: let the handler raise an exception out of the `with` block.
        """
        if self._is_parents:
            return
        for stream in self._all_streams():
            stream.count_in_hand_as_done()
        self._shutdown()

    def close_at_exit(self) -> None:
        """Leave the group as `shutdown` does; the message in hand comes again."""
        self._shutdown()

    def _shutdown(self) -> None:
        if self._is_parents:
            return
        note_closed(self)
        if self._membership is not None and self._membership.is_rebalancing_here():
            # A listener called this: the rebalance that it is called from must end first.
            self._membership.begin_leave()
            threading.Thread(target=self._shutdown, name=f"{self.consumer_id} shutdown").start()
            return
        with self._shutdown_lock:
            is_first = self._shutting_down is None
            if is_first:
                self._shutting_down = threading.current_thread()
        if not is_first:
            if self._shutting_down is not threading.current_thread():
                self._is_shut_down.wait()
            return
        membership = self._membership
        with ExitStack() as last:  # each step is taken, even if the one before fails
            last.callback(self._is_shut_down.set)
            if self._watchdog is not None:
                last.callback(self._watchdog.close)
            last.callback(self._client.shutdown)
            if membership is not None:
                last.callback(membership.stop)
            last.callback(self._events.close)
            last.callback(self._fetchers.close)
            for stream in self._all_streams():
                last.callback(stream.close)
            if membership is not None:
                membership.begin_leave()
                membership.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc_type is None:
            self.shutdown()
        else:
            self._shutdown()  # the message in hand was not done when the exception was raised

    # What it can tell --------------------------------------------------------------------------------------------

    def owned_partitions(self) -> list[TopicPartition]:
        """Return the partitions that this member owns: tuples of topic, broker id and partition, sorted."""
        return sorted(self._owned_now())

    def consumed_offsets(self) -> dict[TopicPartition, int]:
        """Return the next offset to consume of each partition that this member owns, where it is known."""
        consumed = {where: owned.feed.consumed_offset for where, owned in list(self._owned_now().items())}
        return {where: offset for where, offset in consumed.items() if offset is not None}

    @property
    def is_connected(self) -> bool:
        """Return whether there is a connection to ZooKeeper and a session."""
        return self._events.session_id is not None

    def lease_s(self) -> float | None:
        """Return for how many more seconds the session is certain to live; None before this is a member.

        At 0 nothing is handed out until ZooKeeper's leader answers again.
        """
        session = None if self._membership is None else self._membership.rebalancer.session
        return None if session is None else max(0.0, session.lease.until_s - self._clock.monotonic_s())

    def rebalance_times(self) -> Distribution:
        """Return how long those rebalances took that changed what this member owns, as a histogram of seconds."""
        times = Histogram(UP_TO_MINUTES) if self._membership is None else self._membership.rebalancer.times
        return times.distribution()

    def counts(self) -> dict[str, int]:
        """Return the counters since the start: rebalances, commits, conflicts, resets, redeliveries."""
        total = Counter(self._fetchers.counts.as_dict())
        every = [self._committer.counts]
        if self._membership is not None:
            every += [self._membership.counts, self._membership.rebalancer.counts]
        for counts in every:
            total.update(dict(counts))  # copied at once: its own thread goes on counting
        total["zookeeper_reconnects"] = self._events.reconnects
        for stream in self._all_streams():
            total["messages"] += stream.delivered_messages
            total["unfinished_releases"] += stream.unfinished_releases
        return dict(sorted(total.items()))

    # Inside ------------------------------------------------------------------------------------------------------

    def _new_streams(self, count: int) -> list[MessageStream]:
        config = self.config
        return [
            MessageStream(
                stream_id,
                max_chunks=config.queuedchunks_max,
                timeout_ms=config.consumer_timeout_ms,
                shallow=config.shallowiterator_enable,
                clock=self._clock,
                room_made=self._fetchers.make_room,
            )
            for stream_id in stream_ids(self.consumer_id, count)
        ]

    def _all_streams(self) -> list[MessageStream]:
        return [*self._filtered_streams, *(stream for streams in self._streams.values() for stream in streams)]

    def _owned_now(self) -> Mapping[TopicPartition, FetchedPartition]:
        if self._membership is None or self._is_parents:
            return {}
        return self._membership.rebalancer.owned

    def _streams_of(self, topic: str) -> list[MessageStream]:
        return self._filtered_streams or self._streams.get(topic, [])

    def _check_not_joined(self) -> None:
        self._check_is_ours()
        if self._shutting_down is not None or self._membership is not None:
            raise KafkaError(f"{self.consumer_id} has created its streams already, or is shut down")

    def forget_after_fork(self) -> None:
        """In a forked child: the member, its threads and its session are the parent's."""
        self._is_parents = True

    def _check_is_ours(self) -> None:
        if self._is_parents:
            raise KafkaError(f"{self.consumer_id} belongs to the process that has forked this one: open one here")

    def _join(self, topic_count: TopicCount) -> None:
        subscription = Subscription(
            self.consumer_id,
            topic_count,
            self._streams_of,
            listener=self._listener,
            explicit_commits=self._explicit_commits,
            rule=RULE if self.config.partition_assignment == "fair" else None,
        )
        rebalancer = Rebalancer(
            subscription,
            registries=ZkGroup(self._client, self.config.groupid, self.consumer_id),
            committer=self._committer,
            fetchers=self._fetchers,
            wake=self._wake.set,
            clock=self._clock,
            release_wait_ms=self.config.rebalance_backoff_ms,
        )
        self._membership = Membership(
            self.consumer_id,
            rebalancer,
            self._committer,
            config=self.config,
            events=self._events,
            wake=self._wake,
            clock=self._clock,
            watch=self._application_watch(),
        )
        try:
            self._membership.enter(2 * self._client.session_timeout_ms / 1000)
        except BaseException:
            self._membership = None
            raise
        note_opened(self)

    def _application_watch(self) -> ApplicationWatch | None:
        longest_s = self.config.max_poll_interval_ms / 1000
        return ApplicationWatch(self._all_streams, longest_s, self._clock) if longest_s > 0 else None

    def _make_explicit(self, topic: str) -> None:
        """From now on, commit only the offsets that the application gives for this topic."""
        assert self._membership is not None
        self._membership.rebalancer.explicit_topics.add(topic)
        for owned in list(self._owned_now().values()):
            if owned.where.topic == topic and not owned.is_explicit:
                owned.explicit_offset = owned.feed.consumed_offset  # up to here it was implicit
                owned.is_explicit = True

    def _starts_found(self, starts: Mapping[FetchedPartition, tuple[int, int]]) -> dict[FetchedPartition, KafkaError]:
        outcomes = self._committer.write_starts({owned: offset for owned, (offset, _) in starts.items()})
        for owned, (offset, epoch) in starts.items():
            if outcomes[owned] is True:
                logger.info("%s starts %s at offset %d", self.consumer_id, owned.where, offset)
                owned.start_at(offset, epoch)
        return {owned: outcome for owned, outcome in outcomes.items() if isinstance(outcome, KafkaError)}

    def _owned(self, topic: str, broker_id: int, partition: int) -> FetchedPartition:
        where = TopicPartition(topic, broker_id, partition)
        owned = self._owned_now().get(where)
        if owned is None:
            hint = "" if self._owned_now() else ": it owns nothing yet, wait for `on_assigned` of a listener"
            raise KafkaError(f"{self.consumer_id} does not own partition {where}{hint}")
        return owned


def _unique_name() -> str:
    """Return a consumer's name as 0.7 makes it: host, time and 8 random hex digits."""
    return f"{socket.gethostname()}-{int(time.time() * 1000)}-{secrets.token_hex(4)}"


def _check_offsets(offsets: object) -> None:
    """Raise TypeError for what are no offsets by partition."""
    keys = list(offsets) if isinstance(offsets, Mapping) else [None]
    if not all(isinstance(where, tuple) and len(where) == 3 for where in keys):
        raise TypeError("offsets are a dict: (topic, broker id, partition) to the next offset")


def _warn_of_unknown(client: ZkClient, topics: Collection[str]) -> None:
    """Log which topics nobody has sent to yet, and what may have been meant."""
    try:
        known = BrokerRegistry(client).topics()
    except ZkError:  # the member finds out by itself
        return
    for topic in sorted(set(topics) - set(known)):
        near = difflib.get_close_matches(topic, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        logger.warning("waiting for topic %r, which no broker has registered yet%s", topic, hint)
