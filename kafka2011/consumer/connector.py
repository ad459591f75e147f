"""ConsumerConnector: the high-level consumer, a member of a group (paper, section 3.2; 0.7's consumer API).

It only puts the parts together: the rebalance decides what is owned, fetchers pull it, streams hand it out, and the
committer writes how far that went. Plain threads; it works under an application's own gevent patching too.
"""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from kafka2011.config import ConsumerConfig
from kafka2011.consumer.fetcher import FetcherManager
from kafka2011.consumer.group import ZkGroup
from kafka2011.consumer.offsets import OffsetCommitter
from kafka2011.consumer.rebalancer import Rebalancer, TryAgainError
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.consumer.stream import MessageStream
from kafka2011.consumer.topic_count import TopicCount, stream_ids
from kafka2011.errors import ConfigError, KafkaError
from kafka2011.protocol import EARLIEST
from zk.clock import SYSTEM_CLOCK
from zk.cluster import TopicPartition
from zk.connecting import connect
from zk.errors import NodeHeld, ZkError
from zk.sessions import SessionEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from kafka2011.consumer.owned_partition import OwnedPartition
    from kafka2011.consumer.topic_filter import TopicFilter

logger = logging.getLogger(__name__)

AUDIT_INTERVAL_S = 10.0
"""How often a member looks whether its owner nodes still stand: others may delete them by path."""
_THREAD_TIMEOUT_S = 10.0
_LEASE_RETRIES = 10
_LOOK_AGAIN_S = 0.1
_SHORTEST_WAIT_S = 0.01


class ConsumerConnector:
    """A member of a consumer group; a context manager. `config` needs zk.connect and groupid.

    Create the streams once, read each in a thread of its own. What the application came back from is committed every
    autocommit.interval.ms, before a partition is given up, and at `shutdown`. Raises ZkError when ZooKeeper does not
    answer at the start; later on it waits for ZooKeeper, and hands out nothing that might be another's by then.
    """

    def __init__(self, config: ConsumerConfig | Mapping[str, object]) -> None:
        self.config = ConsumerConfig.of(config)
        self.consumer_id = f"{self.config.groupid}_{self.config.consumerid or _unique_name()}"
        self._client = connect(
            self.config.zk_connect, self.config.zk_sessiontimeout_ms, self.config.zk_connectiontimeout_ms
        )
        self._clock = SYSTEM_CLOCK
        self._events = SessionEvents(self._client)
        self._wake = threading.Event()
        self._events.wake(self._wake.set)
        self._committer = OffsetCommitter()
        self._fetchers = FetcherManager(self.config, self._start_found)
        self._rebalancer: Rebalancer | None = None
        self._rebalance_lock = threading.Lock()
        self._streams: dict[str, list[MessageStream]] = {}
        self._filtered_streams: list[MessageStream] = []
        self._stopping = threading.Event()
        self._has_left = threading.Event()
        self._threads: list[threading.Thread] = []
        self._shutdown_lock = threading.Lock()
        self._is_shut_down = False
        self._is_closed = False
        self._failed_rebalances = 0

    # Streams -----------------------------------------------------------------------------------------------------

    def create_message_streams(self, streams_by_topic: Mapping[str, int]) -> dict[str, list[MessageStream]]:
        """Join the group and return so many streams for each topic; topics that do not exist yet are waited for."""
        topic_count = TopicCount.static(streams_by_topic)
        self._check_not_joined()
        self._streams = {topic: self._new_streams(count) for topic, count in streams_by_topic.items()}
        self._join(topic_count)
        return {topic: list(streams) for topic, streams in self._streams.items()}

    def create_message_streams_by_filter(self, topic_filter: TopicFilter, streams: int = 1) -> list[MessageStream]:
        """Join the group and return so many streams of all topics that a filter allows, now or later."""
        topic_count = TopicCount.filtered(topic_filter, streams)
        self._check_not_joined()
        self._filtered_streams = self._new_streams(streams)
        self._join(topic_count)
        return list(self._filtered_streams)

    # Offsets -----------------------------------------------------------------------------------------------------

    def commit_offsets(self, offsets: Mapping[tuple[str, int, int], int] | None = None) -> None:
        """Commit what was consumed now; the message that this thread has in hand counts as done.

        `offsets` commits those instead: next offsets by (topic, broker id, partition). From then on only explicit
        commits move the offsets of these topics, also when partitions are given up. Raises KafkaError for a partition
        that is not owned here, or no longer, and ZkUnavailable when ZooKeeper does not answer.
        """
        if offsets is None:
            for stream in self._all_streams():
                stream.count_in_hand_as_done()
            self._commit()
            return
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
            raise KafkaError(f"not committed, since {self.consumer_id} owns them no longer: {', '.join(refused)}")

    def rewind(
        self,
        topic: str,
        broker_id: int,
        partition: int,
        *,
        offset: int | None = None,
        time_ms: int | None = None,
    ) -> int:
        """Go on with a partition at an offset, or at the newest segment from before a time; return the offset.

        For a partition that this member owns (else KafkaError). What was fetched of it is dropped; the group's offset
        follows with the next commit, or is given explicitly where it always was. An offset that is not in the log
        counts as out of range: see autooffset.reset. (Paper, section 3.1: a consumer may deliberately rewind.)
        """
        if (offset is None) == (time_ms is None):
            raise ConfigError("rewind takes either offset or time_ms")
        if offset is not None and not 0 <= offset < 2**63:
            raise KafkaError(f"{offset} is not an offset of {TopicPartition(topic, broker_id, partition)}")
        owned = self._owned(topic, broker_id, partition)
        if offset is None:
            assert time_ms is not None
            with SimpleConsumer.of(owned.broker, self.config) as consumer:
                found = consumer.get_offsets_before(topic, partition, time_ms, 1)
                # Before everything there is: the beginning.
                offset = found[0] if found else consumer.get_offsets_before(topic, partition, EARLIEST, 1)[0]
        if not owned.start_at(offset):
            raise KafkaError(f"{self.consumer_id} is giving up partition {owned.where}")
        self._fetchers.wake()
        return offset

    # The end -----------------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Leave the group: give up all partitions, commit (with autocommit.enable), end all streams and threads.

        A message that this thread has in hand counts as done; another thread is waited for up to rebalance.backoff.ms
        to come back from its own. May be called twice, and from any thread, but not from a signal handler, which
        could interrupt the very thing that it waits for: let that raise an exception out of the `with` block.
        """
        for stream in self._all_streams():
            stream.count_in_hand_as_done()
        self._shutdown()

    def _shutdown(self) -> None:
        with self._shutdown_lock:
            if self._is_closed:
                return
            self._is_shut_down = True
            self._stopping.set()
            self._wake.set()
            with ExitStack() as last:  # each step is taken, whatever becomes of the one before
                last.callback(self._client.shutdown)
                last.callback(self._join_threads)
                last.callback(self._events.close)
                last.callback(self._fetchers.close)
                last.callback(self._has_left.set)
                for stream in self._all_streams():
                    last.callback(stream.close)
                if self._rebalancer is not None:
                    self._await_connection()
                    with self._rebalance_lock:
                        self._rebalancer.leave(commit=self.config.autocommit_enable)
            self._is_closed = True

    def _await_connection(self) -> None:
        """Wait a moment for a connection that is just being made anew: without one nothing can be committed."""
        deadline_s = self._clock.monotonic_s() + self.config.rebalance_backoff_ms / 1000
        while self._events.session_id is None and (remaining_s := deadline_s - self._clock.monotonic_s()) > 0:
            self._events.wait(remaining_s)

    def _join_threads(self) -> None:
        deadline_s = self._clock.monotonic_s() + _THREAD_TIMEOUT_S
        for thread in self._threads:
            thread.join(max(deadline_s - self._clock.monotonic_s(), 0))
        self._threads.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc_type is None:
            self.shutdown()
        else:
            self._shutdown()  # what raised did not get done with the message in hand

    # What it can tell --------------------------------------------------------------------------------------------

    def owned_partitions(self) -> list[TopicPartition]:
        """Return what this member owns now: tuples of topic, broker id and partition, sorted."""
        return sorted(self._rebalancer.owned) if self._rebalancer else []

    def counts(self) -> dict[str, int]:
        """Return what was counted since the start: rebalances, commits, conflicts, resets, redeliveries."""
        total = self._fetchers.counts.copy()
        for counts in (self._committer.counts, self._rebalancer.counts if self._rebalancer is not None else {}):
            total.update(dict(counts))  # copied at once: its own thread goes on counting
        for stream in self._all_streams():
            total["messages"] += stream.delivered_messages
            total["unfinished_releases"] += stream.unfinished_releases
        total["failed_rebalances"] = self._failed_rebalances
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
                room_made=self._fetchers.wake,
            )
            for stream_id in stream_ids(self.consumer_id, count)
        ]

    def _all_streams(self) -> list[MessageStream]:
        return [*self._filtered_streams, *(stream for streams in self._streams.values() for stream in streams)]

    def _streams_of(self, topic: str) -> list[MessageStream]:
        return self._filtered_streams or self._streams.get(topic, [])

    def _check_not_joined(self) -> None:
        if self._is_shut_down or self._rebalancer is not None:
            raise KafkaError(f"{self.consumer_id} has created its streams already, or is shut down")

    def _join(self, topic_count: TopicCount) -> None:
        rebalancer = Rebalancer(
            self.consumer_id,
            topic_count,
            self._streams_of,
            registries=ZkGroup(self._client, self.config.groupid),
            committer=self._committer,
            fetchers=self._fetchers,
            wake=self._wake.set,
            clock=self._clock,
            release_wait_ms=self.config.rebalance_backoff_ms,
        )
        self._enter(rebalancer)
        self._rebalancer = rebalancer
        self._start(self._rebalance_loop, rebalancer)
        self._start(self._lease_loop, rebalancer)
        if self.config.autocommit_enable:
            self._start(self._commit_loop)

    def _enter(self, rebalancer: Rebalancer) -> None:
        """Become a member; a member of the same consumerid that has just died keeps its node until its session ends."""
        deadline_s = self._clock.monotonic_s() + 2 * self._client.session_timeout_ms / 1000
        while True:
            try:
                rebalancer.enter()
            except NodeHeld:
                if self._clock.monotonic_s() >= deadline_s or self._stopping.wait(_LOOK_AGAIN_S):
                    raise
            else:
                return

    def _start(self, loop: Callable[..., None], *arguments: object) -> None:
        name = f"{self.consumer_id} {loop.__name__.strip('_')}"
        thread = threading.Thread(target=loop, args=arguments, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _rebalance_loop(self, rebalancer: Rebalancer) -> None:
        """Rebalance whenever something has changed, again and again until it succeeds, and look after our own nodes."""
        backoff_s = self.config.rebalance_backoff_ms / 1000
        failures, next_failure_s = 0, 0.0
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                with self._rebalance_lock:
                    if self._stopping.is_set():
                        return
                    is_done = rebalancer.try_once()
                why = "another member still owns a partition"
            except (TryAgainError, ZkError) as error:
                is_done, why = False, str(error)
            except Exception as error:
                logger.exception("%s: a rebalance failed", self.consumer_id)
                is_done, why = False, repr(error)
            if is_done:
                failures = 0
            elif self._clock.monotonic_s() >= next_failure_s:  # tries that events bring forward are not counted
                next_failure_s = self._clock.monotonic_s() + backoff_s
                failures += 1
                if failures % self.config.rebalance_retries_max == 0:
                    self._failed_rebalances += 1
                    logger.warning("%s: no rebalance after %d tries, going on: %s", self.consumer_id, failures, why)
            self._wake.wait(AUDIT_INTERVAL_S if is_done else backoff_s)

    def _lease_loop(self, rebalancer: Rebalancer) -> None:
        """Keep the lease: ask ZooKeeper something at least every third of the session timeout."""
        while not self._has_left.is_set():
            assert rebalancer.session is not None
            lease = rebalancer.session.lease
            wait_s = lease.renew_interval_s
            asked_s = self._clock.monotonic_s()
            try:
                lease.renew()
            except ZkError as error:
                logger.info("%s: the lease is not renewed: %s", self.consumer_id, error)
                wait_s /= _LEASE_RETRIES
            self._has_left.wait(max(wait_s - (self._clock.monotonic_s() - asked_s), _SHORTEST_WAIT_S))

    def _commit_loop(self) -> None:
        is_failing = False
        while not self._stopping.wait(self.config.autocommit_interval_ms / 1000):
            try:
                self._commit()
            except KafkaError as error:
                level = logging.INFO if is_failing else logging.WARNING  # loud only when it is the first of a row
                logger.log(level, "%s: offsets are not committed for now: %s", self.consumer_id, error)
                is_failing = True
            except Exception:
                logger.exception("%s: a commit failed", self.consumer_id)
            else:
                is_failing = False

    def _commit(self) -> None:
        if self._rebalancer is not None:
            self._committer.commit(list(self._rebalancer.owned.values()))

    def _make_explicit(self, topic: str) -> None:
        """Commit only what the application gives from now on, of this topic."""
        assert self._rebalancer is not None
        self._rebalancer.explicit_topics.add(topic)
        for owned in list(self._rebalancer.owned.values()):
            if owned.where.topic == topic and not owned.is_explicit:
                owned.explicit_offset = owned.feed.consumed_offset  # up to here it was implicit
                owned.is_explicit = True

    def _start_found(self, owned: OwnedPartition, offset: int, epoch: int) -> None:
        if self._committer.write_start(owned, offset):
            logger.info("%s starts %s at offset %d", self.consumer_id, owned.where, offset)
            owned.start_at(offset, epoch)

    def _owned(self, topic: str, broker_id: int, partition: int) -> OwnedPartition:
        where = TopicPartition(topic, broker_id, partition)
        owned = self._rebalancer.owned.get(where) if self._rebalancer is not None else None
        if owned is None:
            raise KafkaError(f"{self.consumer_id} does not own partition {where}")
        return owned


def _unique_name() -> str:
    """Return what 0.7 names a consumer: host, time and 8 random hex digits."""
    return f"{socket.gethostname()}-{int(time.time() * 1000)}-{secrets.token_hex(4)}"
