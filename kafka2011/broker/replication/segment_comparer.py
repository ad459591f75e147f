"""Compares a follower's good segments with its leader's, by digests. What differs is named, and nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.broker.scrubber import NotComparedError
from kafka2011.errors import KafkaError
from kafka2011.log.scrub import ScrubStoppedError, digest_on_disk
from kafka2011.log.scrub_record import DifferingRange
from kafka2011.replica.segments import Asker, DigestAsk, SegmentAsk, decode_comparison, encode_segment_ask
from kafka2011.wire.connection import BrokerConnection
from kafka2011.wire.protocol import decode_response
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.broker.replication.view import ReplicaView
    from kafka2011.log.scrub import ClosedSegment
    from kafka2011.replica.state import Replica

TIMEOUT_MS = 5000
BLOCK_BYTES = 4 * 1024 * 1024
"""What is compared at once."""


class SegmentComparer:
    """Compares segments of a broker id's partitions with the leader that `view` shows; runs in the scrub's thread."""

    def __init__(self, broker_id: int, view: Callable[[], ReplicaView | None]) -> None:
        self._broker_id = broker_id
        self._view = view

    def is_ready(self) -> bool:
        """Say whether this replica leads, so that it need not compare, or is in sync, so that it can."""
        view = self._view()
        return view is not None and view.state.leader in view.members and view.me in view.state.in_sync

    def __call__(self, segment: ClosedSegment, spend: Callable[[int], None]) -> DifferingRange | None:
        """Return the first range of a segment that differs; None if it is the same.

        Only what clients may have read is compared: what comes behind it may have to go. Raises NotComparedError if
        this cannot be done now, and ScrubStoppedError.
        """
        view = self._view()
        leader = None if view is None else view.state.leader
        if view is None or leader is None or leader == view.me or view.me not in view.state.in_sync:
            raise NotComparedError("this is no follower in sync")
        try:
            return self._compare(view, leader, segment, spend)
        except ScrubStoppedError:
            raise
        except KafkaError as error:
            raise NotComparedError(str(error)) from error

    def _compare(
        self, view: ReplicaView, leader: Replica, segment: ClosedSegment, spend: Callable[[int], None]
    ) -> DifferingRange | None:
        member = view.members.get(leader)
        if member is None or not view.can_be_asked(member):
            raise NotComparedError(f"{leader} cannot be asked")
        key, size = segment.key, segment.size_bytes
        where = TopicPartition(key.topic, self._broker_id, key.partition)
        if view.readable.get(where, 0) < key.start_offset + size:
            raise NotComparedError("it is not known that clients may have read all of it")
        asker = Asker(view.state.epoch, view.me, where)
        connection = BrokerConnection(
            member.host,
            member.port,
            connect_timeout_ms=TIMEOUT_MS,
            socket_timeout_ms=TIMEOUT_MS,
            security=view.tls_for(member),
        )
        try:
            for position in range(0, size, BLOCK_BYTES):
                count = min(BLOCK_BYTES, size - position)
                digest = digest_on_disk(segment.path, position, count, spend)
                ask = DigestAsk(SegmentAsk(asker, key.start_offset, size, position, count), digest)
                body = decode_response(connection.request(encode_segment_ask(ask)), "a comparison of segments")
                given = decode_comparison(body)
                if given.refusal:
                    raise NotComparedError(given.refusal)
                if not given.is_same:
                    start = key.start_offset + position
                    return DifferingRange(key, start, start + count, str(leader))
        finally:
            connection.close()
        return None
