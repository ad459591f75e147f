"""Repairs damaged segments of this disk by the copies of replicas that are in sync, one after the other."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import gevent
from gevent.event import Event
from gevent.threadpool import ThreadPool

from kafka2011.broker.replication.replica_log import in_thread
from kafka2011.errors import KafkaError, LogClosedError
from kafka2011.log.repair import SegmentRepair, UnfitCopyError, closed_segment
from kafka2011.outages import Outages
from kafka2011.replica.segments import MOST_BYTES, Asker, SegmentAsk, SegmentGiven, decode_segment, encode_segment_ask
from kafka2011.wire.connection import BrokerConnection
from kafka2011.wire.protocol import decode_response
from zk.clock import SYSTEM_CLOCK
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.broker.replication.view import ReplicaView
    from kafka2011.disk import Disk
    from kafka2011.log.log import Log
    from kafka2011.log.log_manager import LogManager
    from kafka2011.log.scrub_record import DamagedRange, SegmentKey
    from kafka2011.replica.state import Replica
    from zk.replicas import Member

logger = logging.getLogger(__name__)

LOOK_S = 1.0
FIRST_RETRY_S = 30.0
LAST_RETRY_S = 3600.0
"""After this time others are asked again that had no good bytes, and sooner when others are in sync."""
TIMEOUT_MS = 5000
COPY_BYTES = MOST_BYTES // 2


class _Tried(NamedTuple):
    """When a segment is to be tried again, how long that was put off, and who was in sync then."""

    again_s: float
    pause_s: float
    helpers: frozenset[Replica]


class Repairer:
    """Repairs what the record of `logs` says is damaged, until `stopping` is set. `store` notes the record on disk."""

    def __init__(
        self,
        logs: LogManager,
        broker_id: int,
        view: Callable[[], ReplicaView | None],
        stopping: Event,
        disk: Disk,
        store: Callable[[], None],
    ) -> None:
        self._logs = logs
        self._broker_id = broker_id
        self._view = view
        self._stopping = stopping
        self._disk = disk
        self._store = store
        self._tried: dict[SegmentKey, _Tried] = {}
        self._wake = Event()
        self._outages = Outages(logger)

    def wake(self) -> None:
        """Look now whether there is something to repair."""
        self._wake.set()

    def damage_of(self, segment: SegmentKey) -> tuple[DamagedRange, ...]:
        """Return what is known to be damaged in a segment."""
        return self._logs.scrubbed.damage_of(segment)

    def note(self, segment: SegmentKey, ranges: list[DamagedRange]) -> None:
        """Note all that is damaged in a segment."""
        new = self._logs.scrubbed.note(segment, ranges)
        for each in new:
            logger.error("damaged: %s", each)
        if new:
            self._store()
            self.wake()

    def has_given_up(self, segment: SegmentKey) -> bool:
        """Say whether all who could repair a segment have been asked, and none could."""
        return segment in self._tried

    def run(self) -> None:
        """Repair what there is to repair, until the broker stops. Raises LogClosedError after an I/O error."""
        threads = ThreadPool(1)
        try:
            while not self._stopping.is_set():
                self._wake.clear()
                self._repair_all(threads)
                gevent.wait([self._wake, self._stopping], timeout=LOOK_S, count=1)
        finally:
            threads.kill()

    def _repair_all(self, threads: ThreadPool) -> None:
        damaged = {each.segment for each in self._logs.scrubbed.damage()}
        for segment in self._tried.keys() - damaged:
            self._forget(segment)
        for segment in sorted(damaged):
            view = self._view()
            if view is None or self._stopping.is_set():
                return
            helpers = view.helpers()
            tried = self._tried.get(segment)
            if tried is None or SYSTEM_CLOCK.monotonic_s() >= tried.again_s or not helpers.keys() <= tried.helpers:
                self._repair(segment, view, helpers, threads)

    def _forget(self, segment: SegmentKey) -> None:
        self._tried.pop(segment, None)
        self._outages.over(segment)

    def _repair(
        self, segment: SegmentKey, view: ReplicaView, helpers: dict[Replica, Member], threads: ThreadPool
    ) -> None:
        log = self._logs.existing(segment.topic, segment.partition)
        if log is None or not _is_closed(log, segment):
            return
        refusals = []
        for replica, member in sorted(helpers.items()):
            try:
                self._repair_by(replica, member, view, log, segment, threads)
            except LogClosedError:
                raise
            except KafkaError as error:
                refusals.append(f"{replica}: {error}")
                continue
            self._logs.scrubbed.note(segment, ())
            self._forget(segment)
            self._logs.scrubbed.repaired_segments += 1
            self._store()
            path = closed_segment(log, segment.start_offset).path
            logger.warning("repaired: %s, by the copy of %s", path, replica)
            return
        tried = self._tried.get(segment)
        pause_s = FIRST_RETRY_S if tried is None else min(2 * tried.pause_s, LAST_RETRY_S)
        self._tried[segment] = _Tried(SYSTEM_CLOCK.monotonic_s() + pause_s, pause_s, frozenset(helpers))
        self._outages.failed(
            "not repaired: %s-%d, segment %d: %s",
            segment.topic,
            segment.partition,
            segment.start_offset,
            "; ".join(refusals) or "no other replica that can be asked is in sync",
            of=segment,
        )

    def _repair_by(
        self, replica: Replica, member: Member, view: ReplicaView, log: Log, segment: SegmentKey, threads: ThreadPool
    ) -> None:
        asker = Asker(view.state.epoch, view.me, TopicPartition(segment.topic, self._broker_id, segment.partition))
        with SegmentRepair(log, segment.start_offset, self._disk) as repair:
            connection = BrokerConnection(
                member.host,
                member.port,
                connect_timeout_ms=TIMEOUT_MS,
                socket_timeout_ms=TIMEOUT_MS,
                max_frame_bytes=2 * MOST_BYTES,
                security=view.tls_for(member),
            )
            try:
                for position in range(0, repair.size_bytes, COPY_BYTES):
                    count = min(COPY_BYTES, repair.size_bytes - position)
                    ask = SegmentAsk(asker, segment.start_offset, repair.size_bytes, position, count)
                    repair.write(self._bytes(connection, ask, threads))
            finally:
                threads.spawn(connection.close)
            in_thread(repair.check)
            now = self._view()
            if now is None or now.state.epoch != view.state.epoch or replica not in now.state.in_sync:
                raise UnfitCopyError("it is not in sync any more")
            repair.install()

    def _bytes(self, connection: BrokerConnection, ask: SegmentAsk, threads: ThreadPool) -> bytes:
        if self._stopping.is_set():
            raise KafkaError("the broker stops")
        outcome = threads.spawn(partial(_exchange, connection, encode_segment_ask(ask))).get()
        if isinstance(outcome, KafkaError):
            raise outcome
        assert outcome is not None
        assert isinstance(outcome.data, bytes), "what was received is in memory"
        if outcome.refusal or len(outcome.data) != ask.wanted_bytes:
            raise UnfitCopyError(outcome.refusal or "it gave fewer bytes than asked for")
        return outcome.data


def _is_closed(log: Log, segment: SegmentKey) -> bool:
    return segment.start_offset in log.segment_offsets[:-1]


def _exchange(connection: BrokerConnection, frame: bytes) -> SegmentGiven | KafkaError:
    """Ask, in a thread: what it raises is returned, since a pool prints what leaves it."""
    try:
        return decode_segment(decode_response(connection.request(frame), "bytes of a segment"))
    except KafkaError as error:
        return error
