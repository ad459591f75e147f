"""A broker's logs as replication sees them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar, cast

import gevent

from kafka2011.errors import KafkaError, LogError, WrongPartitionError
from kafka2011.log.log import Place
from kafka2011.log.replicated_log import ReplicatedLog
from kafka2011.log.scrub_record import DamagedRange, SegmentKey
from kafka2011.log.segment import segment_path
from kafka2011.message.message_set import scan
from kafka2011.replica.followed_log import DamagedBytesError
from zk.clock import SYSTEM_CLOCK
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafka2011.log.log import Log
    from kafka2011.log.log_manager import LogManager
    from kafka2011.log.segment import LogSlice

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")


class ReplicaLogs:
    """All logs of a broker that has replicas; partitions are those of its id."""

    def __init__(self, logs: LogManager, broker_id: int) -> None:
        self._logs = logs
        self._broker_id = broker_id
        self._views: dict[Log, ReplicaLog] = {}
        self.cut_bytes = 0
        """What was removed from ends of logs since the start."""
        self.obstacles: Mapping[TopicPartition, LogError] = {}
        """Which logs cannot take what the leader has, and why, while this replica follows."""

    def where(self, log: Log) -> TopicPartition:
        """Return a log's partition."""
        return TopicPartition(log.topic, self._broker_id, log.partition)

    def of(self, log: Log) -> ReplicaLog:
        """Return a log as replication sees it."""
        view = self._views.get(log)
        if view is None:
            is_clock_wrong = self._is_clock_wrong
            self._views[log] = view = ReplicaLog(ReplicatedLog(log, SYSTEM_CLOCK), self._note_cut, is_clock_wrong)
        return view

    def log_at(self, where: TopicPartition) -> Log | None:
        """Return a partition's log; None if there is none."""
        return self._logs.existing(where.topic, where.partition)

    def all(self) -> list[tuple[TopicPartition, ReplicaLog]]:
        """Return all there are."""
        return [(self.where(log), self.of(log)) for log in self._logs.logs()]

    def make(self, where: TopicPartition) -> ReplicaLog:
        """Return a partition's log, made if it is absent, as the leader has it. Raises KafkaError."""
        try:
            log = self._logs.get_or_create(where.topic, where.partition, is_copy=True)
        except WrongPartitionError:
            self._logs.grow_topic(where.topic, where.partition + 1)
            log = self._logs.get_or_create(where.topic, where.partition, is_copy=True)
        return self.of(log)

    def exact_counts(self) -> Mapping[str, int]:
        """Return the topics that were created with an exact number of partitions, with that number."""
        return self._logs.counts.exact

    def note_exact(self, topic: str, partitions: int) -> None:
        """Give a topic exactly as many partitions as the leader has. Raises LogFailedError."""
        self._logs.counts.set_exact(topic, partitions)

    def _is_clock_wrong(self) -> bool:
        return self._logs.retention_clock.is_known_wrong

    def damage(self) -> str:
        """Say what is damaged in segments on this disk, or differs from the leader's; an empty text if nothing."""
        damage, differing = self._logs.scrubbed.damage(), self._logs.scrubbed.differing()
        found = [f"damaged: {each}" for each in damage] + [str(each) for each in differing]
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        return f"{found[0]}{more}" if found else ""

    def note_damage(self, where: TopicPartition, segment: int, start: int, end: int) -> None:
        """Note that damaged bytes were copied from the leader, which has no better ones."""
        log, key = self._logs.existing(where.topic, where.partition), SegmentKey(where.topic, where.partition, segment)
        if log is None:
            return
        known = list(self._logs.scrubbed.damage_of(key))
        path = str(segment_path(log.directory, segment))
        new = DamagedRange(key, start, end, path, "the leader has nothing better")
        if known and known[-1].end == start:
            new = known.pop()._replace(end=end)
        else:
            logger.error("damaged: %s", new)
        self._logs.scrubbed.note(key, (*known, new))

    def _note_cut(self, size_bytes: int) -> None:
        self.cut_bytes += size_bytes

    def delete(self, topic: str) -> None:
        """Delete all logs of a topic. Raises LogFailedError."""
        for log in [log for log in self._views if log.topic == topic]:
            del self._views[log]
        self._logs.delete_topic(topic)

    def let_nobody_read(self) -> None:
        """Let clients, none of whom is connected, read nothing any more."""
        for log in self._logs.logs():
            log.let_nobody_read()

    def flush(self) -> None:
        """Bring all that was appended to disk. Raises LogFailedError."""
        due = [log for log in self._logs.logs() if log.appended_end_offset > log.flushed_end_offset]
        for log in due:
            log.is_flush_requested = True  # or one that is being flushed would not be flushed again
        self._logs.flush(due)


class ReplicaLog:
    """One log, with what takes long done in threads: the CopiedLog of `kafka2011.replica`.

    `on_cut` is told how many bytes a cut has removed. While `is_clock_wrong`, followers are told no times.
    """

    def __init__(self, log: ReplicatedLog, on_cut: Callable[[int], None], is_clock_wrong: Callable[[], bool]) -> None:
        self._log = log
        self._on_cut = on_cut
        self._is_clock_wrong = is_clock_wrong

    @property
    def start_offset(self) -> int:
        """Offset of the first byte that is kept."""
        return self._log.log.start_offset

    @property
    def appended_end_offset(self) -> int:
        """Offset after the last byte."""
        return self._log.log.appended_end_offset

    @property
    def flushed_end_offset(self) -> int:
        """Offset after the last byte that is on disk."""
        return self._log.log.flushed_end_offset

    def digest(self, start: int, end: int) -> bytes | None:
        """Return a checksum of bytes and of where segments start among them; None if not all are there."""
        return in_thread(self._log.digest, start, end)

    def message_start(self, offset: int) -> int:
        """Return where the message starts that a byte belongs to."""
        return in_thread(self._log.message_start, offset)

    def is_good_at(self, offset: int) -> bool:
        """Say whether the message that starts there is whole, and its checksum is right."""
        return in_thread(self._log.is_good_at, offset)

    def are_good(self, start: int, end: int) -> bool:
        """Say whether good messages stand from one offset up to another."""
        return in_thread(self._log.are_good, start, end)

    def read(self, offset: int, max_bytes: int) -> tuple[int, int, LogSlice]:
        """Return a segment's start, when it was written last, and a piece of it: at least a whole message.

        The time is 0 while the clock here is wrong: a follower would keep it, and delete by it once it leads.
        """
        segment, piece = self._log.read_appended(offset, max_bytes)
        modified_ms = 0 if self._is_clock_wrong() else self._log.modified_ms(offset)
        return segment, max(modified_ms, 0), piece  # followers refuse a time before 1970

    def append(self, data: bytes, segment: int, modified_ms: int) -> None:
        """Append the whole messages at the beginning of what came, in the segment that starts there.

        Raises DamagedBytesError if the first is not good, on its way or on the leader's disk, and LogError.
        """
        scanned = scan(data)
        end = self.appended_end_offset
        if not scanned.end:
            log, fault = self._log.log, scanned.fault or "it ends too early"
            raise DamagedBytesError(
                f"what the leader has of {log.topic}-{log.partition} at offset {end} is damaged: {fault}"
            )
        self._log.append_at(Place(end, segment), data[: scanned.end], scanned.messages)
        self._log.note_modified(modified_ms)

    def append_damaged(self, data: bytes, segment: int, modified_ms: int) -> None:
        """Append bytes as they are, in the segment that starts there: nobody has better ones. Raises LogError."""
        self._log.append_at(Place(self.appended_end_offset, segment), data, 0)
        self._log.note_modified(modified_ms)

    def roll(self) -> None:
        """Begin a segment at the end. Raises LogError."""
        self._log.roll()

    def modified_ms(self, offset: int) -> int:
        """Say when the segment with an offset was last written. Raises LogError."""
        return self._log.modified_ms(offset)

    def cut(self, offset: int) -> None:
        """Remove all bytes from an offset on, and the segments that start there or later."""
        end = self.appended_end_offset
        self._log.cut(offset)
        self._on_cut(end - offset)

    def begin_at(self, offset: int) -> None:
        """Remove everything, and begin empty at an offset."""
        self._log.begin_at(offset)

    def delete_before(self, offset: int) -> None:
        """Delete the segments that end at an offset or before."""
        self._log.log.delete_before(offset)


def in_thread(call: Callable[..., _Result], *arguments: object) -> _Result:
    """Call in a thread, and let others run meanwhile; a KafkaError that it raises is raised here."""
    result, error = gevent.get_hub().threadpool.apply(_outcome, (call, *arguments))
    if error is not None:
        raise error
    return cast("_Result", result)


def _outcome(call: Callable[..., _Result], *arguments: object) -> tuple[_Result | None, KafkaError | None]:
    """Return what a call returns or raises: an error that leaves a pool's thread is printed with its traceback."""
    try:
        return call(*arguments), None
    except KafkaError as error:
        return None, error
