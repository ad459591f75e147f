"""Answers other replicas that ask about damage: any replica gives bytes of its closed segments, a leader says more."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from kafka2011.broker.replication.replica_log import in_thread
from kafka2011.broker.requests.handlers import RefusedError, Reply
from kafka2011.errors import LogError
from kafka2011.log.repair import closed_segment
from kafka2011.log.scrub import ClosedSegment, check_segment, damaged_stretches, digest_on_disk
from kafka2011.log.scrub_record import DamagedRange, SegmentKey
from kafka2011.log.segment import os_error_text
from kafka2011.replica.segments import (
    MOST_BYTES,
    DamageAsk,
    DamageGiven,
    DamageState,
    DigestAsk,
    DigestGiven,
    SegmentAsk,
    SegmentGiven,
    decode_segment_ask,
    encode_comparison,
    encode_damage,
    encode_segment,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka2011.broker.replication.leading import Leading
    from kafka2011.broker.replication.repairer import Repairer
    from kafka2011.broker.replication.replica_log import ReplicaLogs
    from kafka2011.broker.replication.view import ReplicaView
    from kafka2011.log.log import Log
    from kafka2011.log.segment import LogSegment, LogSlice
    from kafka2011.message.header import AnyBytes


class SegmentServer:
    """Answers questions of replicas that are members, in the epoch that is known here too."""

    def __init__(
        self,
        logs: ReplicaLogs,
        broker_id: int,
        repairer: Repairer,
        view: Callable[[], ReplicaView | None],
        leading: Callable[[], Leading | None],
    ) -> None:
        self._logs = logs
        self._broker_id = broker_id
        self._repairer = repairer
        self._view = view
        self._leading = leading

    def answer(self, frame: AnyBytes) -> Reply:
        """Answer a question. Raises RefusedError if it cannot be answered now, and ProtocolError."""
        ask, view = decode_segment_ask(frame, self._broker_id), self._view()
        asker = ask.bytes_asked.asker if isinstance(ask, DigestAsk) else ask.asker
        if view is None or asker.replica not in view.members or asker.epoch != view.state.epoch:
            raise RefusedError(f"{asker.replica} asks in epoch {asker.epoch}, which is not known here")
        if isinstance(ask, DamageAsk):
            return Reply((encode_damage(self._damage_at(ask)),))
        if isinstance(ask, DigestAsk):
            return Reply((encode_comparison(self._compare(ask)),))
        return Reply(cast("tuple[bytes | LogSlice, ...]", encode_segment(self._segment(ask))))

    def _segment(self, ask: SegmentAsk) -> SegmentGiven:
        log = self._logs.log_at(ask.asker.where)
        if log is None or (refusal := self._refusal(log, ask)):
            return SegmentGiven(refusal=f"it has no {ask.asker.where}" if log is None else refusal)
        return SegmentGiven(log.read(ask.segment + ask.position, ask.wanted_bytes, log.appended_end_offset))

    def _refusal(self, log: Log, ask: SegmentAsk) -> str:
        """Say why there are no good bytes of a segment here; an empty text if there are."""
        try:
            segment = closed_segment(log, ask.segment)
        except LogError as error:
            return str(error)
        if segment.size_bytes != ask.size_bytes:
            return f"it has {segment.size_bytes} bytes there, and {ask.size_bytes} here"
        damage = self._repairer.damage_of(SegmentKey(log.topic, log.partition, ask.segment))
        return f"it is damaged there too: {damage[0]}" if damage else ""

    def _compare(self, ask: DigestAsk) -> DigestGiven:
        """Compare bytes with another replica's. If they differ because they are damaged here, this is noted."""
        asked = ask.bytes_asked
        log = self._logs.log_at(asked.asker.where)
        if log is None or (refusal := self._refusal(log, asked)):
            return DigestGiven(is_same=False, refusal="it has no such partition" if log is None else refusal)
        path = closed_segment(log, asked.segment).path
        if in_thread(digest_on_disk, path, asked.position, asked.wanted_bytes) == ask.digest:
            return DigestGiven(is_same=True)
        key = SegmentKey(log.topic, log.partition, asked.segment)
        ranges = in_thread(check_segment, ClosedSegment(key, path, asked.size_bytes), lambda _bytes: None)
        if ranges is None:
            return DigestGiven(is_same=False, refusal="it was deleted")
        self._repairer.note(key, ranges)
        return DigestGiven(is_same=False, refusal=self._refusal(log, asked))

    def _damage_at(self, ask: DamageAsk) -> DamageGiven:
        leading = self._leading()
        if leading is None or leading.term.epoch != ask.asker.epoch or not leading.has_lease:
            raise RefusedError("this replica does not lead in that epoch")
        log = self._logs.log_at(ask.asker.where)
        if log is None or not log.start_offset <= ask.offset < log.appended_end_offset:
            return DamageGiven(DamageState.GOOD)
        view = self._logs.of(log)
        if view.is_good_at(ask.offset):
            return DamageGiven(DamageState.GOOD)
        if log.segments.find(ask.offset) is log.segments.active:
            view.roll()
        segment = log.segments.find(ask.offset)
        key = SegmentKey(log.topic, log.partition, segment.start_offset)
        damage = _covering(self._repairer.damage_of(key), ask.offset)
        if damage is None:
            ranges = in_thread(_damage_of, key, segment)
            self._repairer.note(key, ranges)
            damage = _covering(ranges, ask.offset)
        if damage is None:
            return DamageGiven(DamageState.GOOD)
        if not self._repairer.has_given_up(key):
            return DamageGiven(DamageState.REPAIRING, end=damage.end)
        data = in_thread(_read, log, ask.offset, min(damage.end - ask.offset, MOST_BYTES))
        return DamageGiven.listed(key.start_offset, damage.end, view.modified_ms(ask.offset), data)


def _covering(ranges: Iterable[DamagedRange], offset: int) -> DamagedRange | None:
    return next((each for each in ranges if each.start <= offset < each.end), None)


def _damage_of(key: SegmentKey, segment: LogSegment) -> list[DamagedRange]:
    """Return what is damaged of what followers would be sent. Raises LogError."""
    try:
        fd = segment.hold()
        try:
            stretches = damaged_stretches(fd, segment.size_bytes)
        finally:
            segment.release()
    except OSError as error:
        raise LogError(os_error_text("cannot read", segment.path, error)) from error
    start = key.start_offset
    return [
        DamagedRange(key, start + each.start, start + each.end, str(segment.path), each.fault) for each in stretches
    ]


def _read(log: Log, offset: int, count: int) -> bytes:
    with log.read(offset, count, log.appended_end_offset) as piece:
        try:
            return os.pread(piece.fd, piece.size, piece.position)
        except OSError as error:
            raise LogError(os_error_text("cannot read the log in", log.directory, error)) from error
