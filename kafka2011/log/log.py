"""A partition's log: segment files of about equal size, appended to at the end (paper, section 3.1).

A message is addressed by the byte offset where it starts. Only what was flushed can be read, and every "end" visible
from outside is the readable one: the flushed one, or, with replicas, what all of them have flushed (replicated_log.py).
There is no message cache: the page cache is the cache.

Appends, flushes and readers run side by side; waiting for the disk may let other greenlets or threads run:

- `append lock`: held by append, by retention while it decides, and by close. The active segment grows only under it.
- `flush lock`: held while something is brought to disk, so there is one fsync at a time. The active segment is
  replaced, and the flushed end moves, only under it.
- Order: append lock, then flush lock. A flush takes only the second, so appends go on while it waits; a roll takes
  both, so it holds up appends to this log and nothing else. Readers take none. Neither lock needs to be reentrant.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from contextlib import ExitStack
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from kafka2011.disk import SYSTEM_DISK, is_directory, open_directory
from kafka2011.errors import LogClosedError, LogError, OffsetOutOfRangeError
from kafka2011.log.log_times import FlushTimer, LogTimes
from kafka2011.log.recovery import recover_last_segment
from kafka2011.log.retention import DeletedSegment, count_excess, count_expired
from kafka2011.log.segment import (
    EMPTY_SLICE,
    NO_FILES_ERRORS,
    LogSegment,
    LogSlice,
    SegmentList,
    find_segment_files,
    os_error_text,
)
from kafka2011.wire.protocol import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from kafka2011.disk import Disk
    from kafka2011.log.log_settings import LogSettings
    from kafka2011.message.header import AnyBytes
    from zk.clock import Clock

logger = logging.getLogger(__name__)

STEP_SEGMENTS = 256
"""How many files are looked at between two pauses."""

ROLL_RETRY_S = 1.0
"""Time between two attempts to roll while the process may open no more files."""


class LogFailedError(LogClosedError):
    """Writing, flushing or deleting failed. The log takes nothing more: only recovery finds out what is on disk."""


class End(NamedTuple):
    """An end of the log, with how many messages this process has appended up to there."""

    offset: int
    messages: int


class Place(NamedTuple):
    """Where bytes belong that another log has already: at an offset, in the segment that starts at `segment`."""

    offset: int
    segment: int


class BegunFlush:
    """A flush of a log that others bring to its end with `fsync_all`, as a Sync; it holds the flush lock until then.

    `failure` is what came of it.
    """

    __slots__ = ("_has_ended", "_log", "end_of_log", "failure", "fd", "segment")

    def __init__(self, log: Log, segment: LogSegment, end_of_log: End) -> None:
        self._log = log
        self._has_ended = False
        self.segment = segment
        self.end_of_log = end_of_log
        self.fd = segment.begin_sync()
        self.failure: LogFailedError | None = None

    def end(self, error: BaseException | None) -> None:
        """Tell the log; only the first time counts."""
        if not self._has_ended:
            self._has_ended = True
            self.failure = self._log.end_flush(self, error)


class Log:
    """One partition's log in `directory`, which is made if it is absent.

    `recover` first cuts the last segment after its last good message; `recovery` then holds what was found, and
    `is_synced` is as for recover_last_segment.
    `request_flush` is called, not again before a flush has begun, when flush_interval messages wait; by default the
    append flushes by itself. `on_readable` is called when more can be read, and `on_awaited` after an append that
    requests no flush, while `is_awaited`. Both must not wait. `times` are where flushes are counted.
    Raises LogError naming the path if the files cannot be used.
    """

    def __init__(
        self,
        directory: Path,
        topic: str,
        partition: int,
        settings: LogSettings,
        *,
        clock: Clock,
        disk: Disk = SYSTEM_DISK,
        request_flush: Callable[[Log], None] | None = None,
        on_readable: Callable[[Log], None] = lambda _: None,
        on_awaited: Callable[[Log], None] = lambda _: None,
        times: LogTimes | None = None,
        recover: bool = False,
        is_synced: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        # At most 30 attributes: CPython finds more of them more slowly, which would cost each append 2 us.
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.settings = settings
        self.failure: LogFailedError | None = None
        self.flushes = 0
        self.fetched_bytes = 0  # that answers held, counted by who answers
        self.deleted_segments = 0
        self.waits_for_files = 0
        self._clock = clock
        self._disk = disk
        self._request_flush = request_flush or Log.flush
        self._on_readable = on_readable
        self._on_awaited = on_awaited
        self.is_awaited = True  # at first: readers may have waited for a log that was not there
        self._timer = FlushTimer(times or LogTimes())
        self._append_lock = disk.make_lock()
        self._flush_lock = disk.make_lock()
        self._closed = False
        try:
            if not is_directory(directory):
                directory.mkdir()
            self.recovery = None
            if recover:
                self.recovery = recover_last_segment(directory, disk, progress, is_synced=is_synced)
            self._segments = self._open_segments()
        except OSError as error:
            raise LogError(os_error_text("cannot open the log in", directory, error)) from error
        self._opened_at = self._segments.active.end_offset
        self._appended = self._flushed = self._flushing = End(self._opened_at, 0)
        self._readable = self._first_readable_end()
        self.is_flush_requested = False
        self.last_flush_s = clock.monotonic_s()  # when it began, on the steady clock
        self._first_append_s: float | None = None  # to the active segment, by this process
        self._next_roll_s = 0.0  # not before, on the steady clock

    def _first_readable_end(self) -> int:
        return self._flushed.offset

    def _open_segments(self) -> SegmentList:
        files = find_segment_files(self.directory, warn_of_others=True)
        segments = [LogSegment(path, start, path.stat().st_size, self._disk) for start, path in files]
        for segment, following in pairwise(segments):
            if segment.end_offset != following.start_offset:
                raise LogError(
                    f"{following.path} does not continue {segment.path.name}, which ends at offset"
                    f" {segment.end_offset}: a segment is missing or has changed"
                )
        if segments:
            segments[-1].hold_for_append()
        else:
            self._disk.fsync_directory(self.directory.parent)  # also if an earlier try made it and got no further
            segments = [self._create_segment(0)]
        return SegmentList.of(segments)

    # Offsets

    @property
    def start_offset(self) -> int:
        """Offset of the first byte that is kept."""
        return self._segments.starts[0]

    @property
    def end_offset(self) -> int:
        """Offset after the last byte that can be read: the flushed end, unless there are replicas."""
        return self._readable

    @property
    def appended_end_offset(self) -> int:
        """Offset after the last byte that was appended, where the next append starts."""
        return self._appended.offset

    @property
    def appended_bytes(self) -> int:
        """How many bytes were appended since the log was opened."""
        return self._appended.offset - self._opened_at

    @property
    def appended_messages(self) -> int:
        """How many messages were appended since the log was opened."""
        return self._appended.messages

    @property
    def size_bytes(self) -> int:
        """How many bytes can be read."""
        return max(0, self.end_offset - self.start_offset)

    @property
    def unflushed_messages(self) -> int:
        """How many messages wait for a flush."""
        return self._appended.messages - self._flushed.messages

    @property
    def segment_offsets(self) -> tuple[int, ...]:
        """First offset of every segment."""
        return self._segments.starts

    @property
    def active_room_bytes(self) -> int:
        """How many bytes the active segment still takes before it is full; below 0 when it has grown past that."""
        return self.settings.max_segment_bytes - self._segments.active.size_bytes

    # Appending

    def append(self, data: AnyBytes, messages: int, at: Place | None = None) -> int:
        """Append whole, validated messages and return the offset where they start.

        `messages` counts them, including those inside compressed sets. With `at` they are appended there and nowhere
        else, and a segment is begun there and nowhere else: LogError says if they do not belong at the end.
        Raises LogFailedError after an I/O error, always from then on, and LogClosedError when closed.
        """
        with self._append_lock:
            self._check_open()
            if not data:
                return self._appended.offset
            try:
                if at is not None:
                    self._go_to(at)
                elif self._is_roll_due():
                    self._roll_or_wait()
                segment = self._segments.active
                segment.append(data)
            except OSError as error:
                self._fail("append to", error)
            start = self._appended
            self._appended = end = End(start.offset + len(data), start.messages + messages)
            if self._timer.waiting_since_s is None:
                self._timer.waiting_since_s = self._clock.monotonic_s()
            if self._first_append_s is None:
                self._first_append_s = self._clock.monotonic_s()
            is_flush_due = not self.is_flush_requested and (
                end.messages - self._flushing.messages >= self.settings.flush_interval
            )
            if is_flush_due:
                self.is_flush_requested = True
        if is_flush_due:
            self._request_flush(self)
        elif self.is_awaited:
            self._on_awaited(self)
        return start.offset

    def be_awaited(self) -> None:
        """Note that a reader waits at the flushed end: tell of what was appended after it, and of what will be."""
        self.is_awaited = True
        if self._appended.offset > self._flushed.offset:
            self._on_awaited(self)

    def _is_roll_due(self) -> bool:
        if self._segments.active.size_bytes > self.settings.max_segment_bytes:
            return True
        first_s = self._first_append_s
        return first_s is not None and (self._clock.monotonic_s() - first_s) * 1000 > self.settings.roll_ms

    def _roll_or_wait(self) -> None:
        """Roll, or let the segment grow while no new file can be opened. Needs the append lock."""
        now_s = self._clock.monotonic_s()
        if now_s < self._next_roll_s:
            return
        error = self._try_to_roll()
        if error is not None:
            self._next_roll_s = now_s + ROLL_RETRY_S
            self._wait_for_files("cannot roll to a new segment for now", error)

    def _try_to_roll(self) -> OSError | None:
        """Flush and roll; return the error if no new file can be opened for now. Needs the append lock."""
        with self._flush_lock:
            self._sync()
            try:
                self._roll(self._segments.segments)
            except OSError as error:
                if error.errno not in NO_FILES_ERRORS:
                    raise
                return error
        return None

    def _go_to(self, place: Place) -> None:
        """Roll if a segment begins at this place. Needs the append lock. Raises LogError."""
        offset, segment = place
        end, active = self._appended.offset, self._segments.starts[-1]
        if offset != end:
            raise LogError(
                f"bytes of offset {offset} cannot be appended to {self.topic}-{self.partition}: it ends at offset {end}"
            )
        if segment == active:
            return
        if segment != end:
            raise LogError(
                f"bytes of the segment that starts at offset {segment} cannot be appended to"
                f" {self.topic}-{self.partition} at {end}: there its segment starts at {active}"
            )
        error = self._try_to_roll()
        if error is not None:
            self._refuse_for_now(f"roll {self.topic}-{self.partition} at offset {end}", error)

    def _refuse_for_now(self, doing: str, error: OSError) -> NoReturn:
        """Raise LogError for what can be tried again, since nothing was changed."""
        self.waits_for_files += error.errno in NO_FILES_ERRORS
        raise LogError(os_error_text(f"cannot {doing} for now, in", self.directory, error)) from error

    def _wait_for_files(self, doing: str, error: OSError) -> None:
        self.waits_for_files += 1
        logger.warning("%s", os_error_text(f"{doing} in", self.directory, error))

    def _roll(self, kept: tuple[LogSegment, ...]) -> None:
        """Start a new segment at the end of the flushed log, after those that are kept. Needs both locks."""
        old = self._segments.active
        segment = self._create_segment(self._appended.offset)
        self._segments = SegmentList.of((*kept, segment))
        self._first_append_s = None
        old.release()
        logger.info("rolled %s-%d to a new segment at offset %d", self.topic, self.partition, segment.start_offset)

    def _create_segment(self, start_offset: int) -> LogSegment:
        with ExitStack() as opened:
            # First, since it may fail: a name that was made and removed again may come back after a power cut.
            directory_fd = open_directory(self.directory)
            opened.callback(os.close, directory_fd)
            segment = LogSegment.create(self.directory, start_offset, self._disk)
            try:
                self._disk.fsync(directory_fd)
            except BaseException:  # also when a greenlet is stopped while it waits: the next try must find no file
                segment.release()
                segment.path.unlink()
                raise
        return segment

    # Flushing

    def flush(self) -> None:
        """Bring everything appended so far to disk and let it be read. Does nothing on a closed log.

        Appends go on meanwhile; what they add is not covered. Raises LogFailedError.
        """
        wanted = self._appended.offset
        with self._flush_lock:
            if self.is_flush_requested:
                # Appends made while this waited requested no other flush: they rely on this one.
                wanted = self._appended.offset
                self.is_flush_requested = False
            if self._closed or self._flushed.offset >= wanted:
                return
            try:
                self._sync()
            except OSError as error:
                self._fail("flush", error)

    def begin_flush(self) -> BegunFlush | None:
        """Begin a flush that somebody else brings to its end, together with others; None if there is nothing to do.

        None as well while the log is being flushed, rolled or closed: `is_flush_requested` says whether it relies on
        another flush all the same. Does not wait. Raises LogFailedError.
        """
        if not self._flush_lock.acquire(blocking=False):
            return None
        begun = None
        try:
            self.is_flush_requested = False
            is_due = not self._closed and self._flushed.offset < self._appended.offset
            if is_due and (end := self._begin_sync()) is not None:
                begun = BegunFlush(self, self._segments.active, end)
        finally:
            if begun is None:
                self._flush_lock.release()
        return begun

    def end_flush(self, begun: BegunFlush, error: BaseException | None) -> LogFailedError | None:
        """Let what was flushed be read, or fail. The file is on disk by now, unless there is an error."""
        try:
            if error is None:
                self._end_sync(begun.end_of_log)
            else:
                begun.segment.has_remains = True
                if isinstance(error, OSError):
                    self._fail("flush", error)
        except LogFailedError as failure:
            return failure
        finally:
            self._flush_lock.release()
        return None

    def is_flush_due(self, now_s: float) -> bool:
        """Say whether something waits for a flush and the last was flush_interval_ms ago, on the monotonic clock."""
        return (
            self._appended.offset > self._flushed.offset
            and (now_s - self.last_flush_s) * 1000 >= self.settings.flush_interval_ms
        )

    def _sync(self) -> None:
        """Bring the active segment to disk, as far as it goes now. Needs the flush lock."""
        end = self._begin_sync()
        if end is not None:
            self._segments.active.sync()
            self._end_sync(end)

    def _begin_sync(self) -> End | None:
        """Note how far a sync goes; None if there is nothing to bring to disk."""
        if self.failure is not None:
            # A second fsync may succeed although the first one's pages were dropped: never ask again.
            raise self._refusal(self.failure)
        end = self._appended  # noted before the fsync: what comes while it runs may not be on disk
        if end.offset == self._flushed.offset and not self._segments.active.has_remains:
            return None
        self._flushing = end
        self.last_flush_s = self._clock.monotonic_s()
        self._timer.begin(self.last_flush_s)
        return end

    def _end_sync(self, end: End) -> None:
        self._flushed = end
        self._readable = self._flushed.offset
        self.flushes += 1
        self._timer.end(self._clock.monotonic_s())
        self._on_readable(self)

    # Reading

    def read(self, offset: int, max_bytes: int, until: int | None = None) -> LogSlice:
        """Return at most `max_bytes` of readable bytes at `offset`, ready for sendfile; none at the readable end.

        With `until` they may go up to that offset, which must have been appended. Never more than the rest of one
        segment. Costs the same whatever the offset and size. Raises OffsetOutOfRangeError, and LogError when the
        segment's file cannot be opened.
        """
        while True:
            # The end before the list: a list is never older than the end, so the end lies within it.
            end = self._readable if until is None else until
            segments = self._segments
            if not segments.starts[0] <= offset <= end:
                raise OffsetOutOfRangeError(
                    f"offset {offset} of {self.topic}-{self.partition} is out of range:"
                    f" it has {segments.starts[0]} to {end}"
                )
            if self._closed:
                raise LogClosedError(f"the log in {self.directory} is closed")
            if offset == end or max_bytes <= 0:
                return EMPTY_SLICE
            segment = segments.find(offset)
            size = min(max_bytes, end - offset, segment.end_offset - offset)
            try:
                return segment.slice(offset - segment.start_offset, size)
            except OSError as error:
                if isinstance(error, FileNotFoundError) and segments is not self._segments:
                    continue  # deleted since we looked: look again
                raise LogError(os_error_text("cannot read", segment.path, error)) from error

    def offsets_before(self, time_ms: int, max_count: int, pause: Callable[[], None] = lambda: None) -> list[int]:
        """Return where segments start that were last written at or before a time, newest first, at most `max_count`.

        The readable end counts as one more, written now, when it is after a segment's start. LATEST starts at the
        newest of these; EARLIEST is the oldest alone. `pause` is called now and then: there may be very many segments.
        """
        end = self._readable
        segments = self._segments
        offsets = list(segments.starts[: max(1, bisect_right(segments.starts, end))])
        has_end = end > offsets[-1]
        if has_end:
            offsets.append(end)
        if time_ms == EARLIEST:
            count = 1
        elif time_ms == LATEST or (has_end and int(self._clock.wall_s() * 1000) <= time_ms):
            count = len(offsets)
        else:
            count = self._count_modified_until(time_ms, segments, pause)
        return offsets[:count][::-1][: max(0, max_count)]

    def _count_modified_until(self, time_ms: int, segments: SegmentList, pause: Callable[[], None]) -> int:
        for count in range(len(segments.segments), 0, -1):
            if count % STEP_SEGMENTS == 0:
                pause()
            segment = segments.segments[count - 1]
            try:
                if segment.modified_ms() <= time_ms:
                    return count
            except FileNotFoundError:  # deleted since we looked, like all before it
                return 0
            except OSError as error:
                raise LogError(os_error_text("cannot read", segment.path, error)) from error
        return 0

    # Retention

    def delete_old_segments(self, *, by_age: bool = True) -> list[DeletedSegment]:
        """Delete, oldest first, the segments that are older than retention_ms or beyond retention_bytes.

        Raises LogFailedError.
        """
        return self._delete_oldest(lambda: self._choose_old_segments(by_age=by_age))

    def _delete_oldest(
        self, choose: Callable[[], tuple[tuple[LogSegment, ...], Callable[[int], str]]]
    ) -> list[DeletedSegment]:
        """Delete the segments that are chosen, the oldest ones. `choose` also returns why, for each by its number.

        Slices that readers hold stay good. When all go, an empty segment opens at the end, so that offsets never
        restart. That end is flushed first, even if nobody will read the bytes: otherwise a power cut between here
        and the deletion could leave a file that ends before the next one starts. Deletes nothing while no new file can
        be opened, and no segment that a parked slice needs. Raises LogFailedError.
        """
        with ExitStack() as opened:
            with self._append_lock:
                if self._closed:
                    return []
                self._check_open()
                try:
                    doomed, reason = choose()
                    doomed = self._prepare(doomed)
                    if not doomed:
                        return []
                    directory_fd = open_directory(self.directory)
                    opened.callback(os.close, directory_fd)
                    doomed = self._part_with(doomed)
                except OSError as error:
                    if error.errno in NO_FILES_ERRORS:
                        self._wait_for_files("cannot delete old segments for now", error)
                        return []
                    self._fail("choose old segments of", error)
            return self._delete(doomed, reason, directory_fd)

    def _prepare(self, doomed: tuple[LogSegment, ...]) -> tuple[LogSegment, ...]:
        """Return those before the first one that a reader still waits for."""
        for count, segment in enumerate(doomed):
            if not segment.prepare_deletion():
                logger.info("%s will be deleted later: it waits to be sent", segment.path)
                return doomed[:count]
        return doomed

    def _part_with(self, doomed: tuple[LogSegment, ...]) -> tuple[LogSegment, ...]:
        """Take the oldest segments out of the list, and return those to delete. Needs the append lock."""
        kept = self._segments.segments[len(doomed) :]
        if kept:
            self._segments = SegmentList.of(kept)
        elif doomed[-1].size_bytes:
            with self._flush_lock:
                self._sync()
                self._roll(())
        else:  # the empty segment that would be opened is there already
            doomed = doomed[:-1]
            self._segments = SegmentList.of(self._segments.segments[-1:])
        return doomed

    def _choose_old_segments(self, *, by_age: bool) -> tuple[tuple[LogSegment, ...], Callable[[int], str]]:
        """Return the segments to delete, and why."""
        segments = self._segments.segments
        now_ms = self._clock.wall_s() * 1000
        written_ms = (segment.modified_ms() for segment in segments)
        expired = count_expired(written_ms, now_ms, self.settings.retention_ms) if by_age else 0
        remaining = segments[expired:]
        end = self._flushed.offset
        flushed = [min(segment.end_offset, end) - segment.start_offset for segment in remaining]
        excess = count_excess(flushed, sum(flushed), self.settings.retention_bytes)

        def reason(index: int) -> str:
            if index < expired:
                return f"last written more than {self.settings.retention_ms:.0f} ms ago"
            return f"beyond {self.settings.retention_bytes} bytes"

        return segments[: expired + excess], reason

    def _delete(
        self, doomed: tuple[LogSegment, ...], reason: Callable[[int], str], directory_fd: int
    ) -> list[DeletedSegment]:
        deleted = []
        for index, segment in enumerate(doomed):
            try:
                self._disk.unlink(segment.path)
                # One by one: names that vanish out of order would leave a gap, and a log with a gap does not open.
                self._disk.fsync(directory_fd)
            except OSError as error:
                self._fail("delete a segment of", error)
            why = reason(index)
            self.deleted_segments += 1
            deleted.append(
                DeletedSegment(self.topic, self.partition, segment.start_offset, segment.size_bytes, segment.path, why)
            )
            logger.info("deleted %s (%d bytes): %s", segment.path, segment.size_bytes, why)
        return deleted

    # Ending

    def _check_open(self) -> None:
        if self.failure is not None:
            raise self._refusal(self.failure)
        if self._closed:
            raise LogClosedError(f"the log in {self.directory} is closed")

    def _refusal(self, failure: LogFailedError) -> LogFailedError:
        return LogFailedError(f"{self.topic}-{self.partition} takes no more since: {failure}")

    def _fail(self, doing: str, error: OSError) -> NoReturn:
        failure = LogFailedError(os_error_text(f"could not {doing} the log in", self.directory, error))
        if self.failure is None:
            self.failure = failure
        raise failure from error

    def close(self) -> None:
        """Flush and close; slices that readers hold stay good. May be called twice. Raises LogFailedError.

        After a failure it only closes.
        """
        with self._append_lock, self._flush_lock:
            if self._closed:
                return
            self._closed = True
            try:
                try:
                    if self.failure is None:
                        self._sync()
                finally:
                    self._segments.active.release()
            except OSError as error:
                self._fail("flush and close", error)

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Log {self.topic}-{self.partition}, {self.start_offset} to {self.end_offset}>"
