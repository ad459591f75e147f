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

import errno
import logging
import os
from bisect import bisect_right
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from kafka2011.disk import SYSTEM_DISK, open_directory
from kafka2011.errors import LogClosedError, LogError, OffsetOutOfRangeError
from kafka2011.log.ends import End, LogEnds
from kafka2011.log.log_times import FlushTimer, LogTimes
from kafka2011.log.recovery import recover_last_segment
from kafka2011.log.retention import DeletedSegment, SegmentTimes, count_excess, count_expired, most_deletable
from kafka2011.log.rewind import Rewind
from kafka2011.log.segment import (
    EMPTY_SLICE,
    NO_FILES_ERRORS,
    LogSegment,
    LogSlice,
    SegmentList,
    os_error_text,
)
from kafka2011.log.segment_files import SegmentFiles
from kafka2011.wire.protocol import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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

_FOR_NOW = NO_FILES_ERRORS | {errno.EBUSY}
"""What ends a change of files that can be tried again."""


class LogFailedError(LogClosedError):
    """Writing, flushing or deleting failed. The log takes nothing more: only recovery finds out what is on disk."""


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


@dataclass(frozen=True, slots=True)
class LogHooks:
    """Who is told what happens to a log; none of them may wait.

    `request_flush` is called, not again before a flush has begun, when flush_interval messages wait; by default the
    append flushes by itself. `on_readable` is called when more can be read, and `on_awaited` after an append that
    requests no flush, while `is_awaited`. With `on_flushed` the log is one of several copies: that is called when its
    flushed end has moved, and it is `let_read` that moves its readable end.
    """

    request_flush: Callable[[Log], None] = lambda log: log.flush()
    on_readable: Callable[[Log], None] = lambda _log: None
    on_awaited: Callable[[Log], None] = lambda _log: None
    on_flushed: Callable[[Log], None] | None = None


@dataclass(frozen=True, slots=True)
class RecoverySettings:
    """How a log is recovered when it is opened: `is_synced` and `progress` are as for recover_last_segment."""

    is_synced: bool = False
    progress: Callable[[int], None] | None = None


class Log:
    """One partition's log in `directory`, which is made if it is absent.

    With `recovering` its last segment is first cut after its last good message; `recovery` then holds what was found.
    `times` are where flushes are counted. Raises LogError naming the path if the files cannot be used.
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
        hooks: LogHooks = LogHooks(),
        times: LogTimes | None = None,
        recovering: RecoverySettings | None = None,
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
        self._hooks = hooks
        self.has_copies = hooks.on_flushed is not None
        self.is_awaited = True  # at first: readers may have waited for a log that was not there
        self._timer = FlushTimer(times or LogTimes())
        self.append_lock = disk.make_lock()
        self._flush_lock = disk.make_lock()
        self._closed = False
        self._files = SegmentFiles(directory, disk)
        self.recovery = None
        try:
            self._files.make_directory()
            if recovering is not None:
                self.recovery = recover_last_segment(
                    directory, disk, recovering.progress, is_synced=recovering.is_synced
                )
            self._files.open()
        except OSError as error:
            raise LogError(os_error_text("cannot open the log in", directory, error)) from error
        end_offset = self._files.list.active.end_offset
        self._ends = LogEnds(end_offset, self.start_offset if self.has_copies else end_offset)
        self.is_flush_requested = False
        self.last_flush_s = clock.monotonic_s()  # when it began, on the steady clock
        self._first_append_s: float | None = None  # to the active segment, by this process
        self._next_roll_s = 0.0  # not before, on the steady clock

    # Offsets

    @property
    def start_offset(self) -> int:
        """Offset of the first byte that is kept."""
        return self._files.list.starts[0]

    @property
    def end_offset(self) -> int:
        """Offset after the last byte that can be read: the flushed end, unless there are replicas."""
        return self._ends.readable

    @property
    def flushed_end_offset(self) -> int:
        """Offset after the last byte that is on this disk for certain."""
        return self._ends.flushed.offset

    @property
    def appended_end_offset(self) -> int:
        """Offset after the last byte that was appended, where the next append starts."""
        return self._ends.appended.offset

    @property
    def appended_bytes(self) -> int:
        """How many bytes were appended since the log was opened."""
        return self._ends.appended.offset - self._ends.opened_at

    @property
    def appended_messages(self) -> int:
        """How many messages were appended since the log was opened."""
        return self._ends.appended.messages

    @property
    def size_bytes(self) -> int:
        """How many bytes can be read."""
        return max(0, self.end_offset - self.start_offset)

    @property
    def unflushed_messages(self) -> int:
        """How many messages wait for a flush."""
        return self._ends.appended.messages - self._ends.flushed.messages

    @property
    def segments(self) -> SegmentList:
        """All segments, as they are now."""
        return self._files.list

    @property
    def segment_offsets(self) -> tuple[int, ...]:
        """First offset of every segment."""
        return self._files.list.starts

    @property
    def active_room_bytes(self) -> int:
        """How many bytes the active segment still takes before it is full; below 0 when it has grown past that."""
        return self.settings.max_segment_bytes - self._files.list.active.size_bytes

    # Appending

    def append(self, data: AnyBytes, messages: int, at: Place | None = None) -> int:
        """Append whole, validated messages and return the offset where they start; none begin a segment if one is due.

        `messages` counts them, including those inside compressed sets. With `at` they are appended there and nowhere
        else, and a segment is begun there and nowhere else: LogError says if they do not belong at the end.
        Raises LogFailedError after an I/O error, always from then on, and LogClosedError when closed.
        """
        with self.append_lock:
            self._check_open()
            try:
                self._go_to(at)
                if data:
                    self._files.list.active.append(data)
            except OSError as error:
                self._fail("append to", error)
            start = self._ends.appended
            if not data:
                return start.offset
            self._ends.appended = end = End(start.offset + len(data), start.messages + messages)
            if self._timer.waiting_since_s is None:
                self._timer.waiting_since_s = self._clock.monotonic_s()
            if self._first_append_s is None:
                self._first_append_s = self._clock.monotonic_s()
            unflushed = end.messages - self._ends.flushing.messages
            is_flush_due = not self.is_flush_requested and unflushed >= self.settings.flush_interval
            if is_flush_due:
                self.is_flush_requested = True
        if is_flush_due:
            self._hooks.request_flush(self)
        elif self.is_awaited:
            self._hooks.on_awaited(self)
        return start.offset

    def be_awaited(self) -> None:
        """Note that a reader waits at the flushed end: tell of what was appended after it, and of what will be."""
        self.is_awaited = True
        if self._ends.appended.offset > self._ends.flushed.offset:
            self._hooks.on_awaited(self)

    def _is_roll_due(self) -> bool:
        if self._files.list.active.size_bytes > self.settings.max_segment_bytes:
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
                self._roll(self._files.list.segments)
            except OSError as error:
                if error.errno not in NO_FILES_ERRORS:
                    raise
                return error
        return None

    def _go_to(self, place: Place | None) -> None:
        """Roll if a segment begins at this place, or it is time. Needs the append lock. Raises LogError."""
        if place is None:
            if self._is_roll_due():
                self._roll_or_wait()
            return
        offset, segment = place
        end, active = self._ends.appended.offset, self._files.list.starts[-1]
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
        end_offset = self._ends.appended.offset
        self._files.roll(end_offset, kept)
        self._first_append_s = None
        logger.info("rolled %s-%d to a new segment at offset %d", self.topic, self.partition, end_offset)

    # Flushing

    def flush(self) -> None:
        """Bring everything appended so far to disk and let it be read. Does nothing on a closed log.

        Appends go on meanwhile; what they add is not covered. Raises LogFailedError.
        """
        wanted = self._ends.appended.offset
        with self._flush_lock:
            if self.is_flush_requested:
                # Appends made while this waited requested no other flush: they rely on this one.
                wanted = self._ends.appended.offset
                self.is_flush_requested = False
            if self._closed or self._ends.flushed.offset >= wanted:
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
            is_due = not self._closed and self._ends.flushed.offset < self._ends.appended.offset
            if is_due and (end := self._begin_sync()) is not None:
                begun = BegunFlush(self, self._files.list.active, end)
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
            self._ends.appended.offset > self._ends.flushed.offset
            and (now_s - self.last_flush_s) * 1000 >= self.settings.flush_interval_ms
        )

    def _sync(self) -> None:
        """Bring the active segment to disk, as far as it goes now. Needs the flush lock."""
        end = self._begin_sync()
        if end is not None:
            self._files.list.active.sync()
            self._end_sync(end)

    def _begin_sync(self) -> End | None:
        """Note how far a sync goes; None if there is nothing to bring to disk."""
        if self.failure is not None:
            # A second fsync may succeed although the first one's pages were dropped: never ask again.
            raise self._refusal(self.failure)
        end = self._ends.appended  # noted before the fsync: what comes while it runs may not be on disk
        if end.offset == self._ends.flushed.offset and not self._files.list.active.has_remains:
            return None
        self._ends.flushing = end
        self.last_flush_s = self._clock.monotonic_s()
        self._timer.begin(self.last_flush_s)
        return end

    def _end_sync(self, end: End) -> None:
        self._ends.flushed = end
        self.flushes += 1
        if self._hooks.on_flushed is not None:
            self._hooks.on_flushed(self)
            return
        self._ends.readable = end.offset
        self._timer.end(self._clock.monotonic_s())
        self._hooks.on_readable(self)

    # Reading

    def read(self, offset: int, max_bytes: int, until: int | None = None) -> LogSlice:
        """Return at most `max_bytes` of readable bytes at `offset`, ready for sendfile; none at the readable end.

        With `until` they may go up to that offset, which must have been appended. Never more than the rest of one
        segment. Costs the same whatever the offset and size. Raises OffsetOutOfRangeError, and LogError when the
        segment's file cannot be opened.
        """
        while True:
            # The end before the list: a list is never older than the end, so the end lies within it.
            end = self._ends.readable if until is None else until
            segments = self._files.list
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
                if isinstance(error, FileNotFoundError) and segments is not self._files.list:
                    continue  # deleted since we looked: look again
                raise LogError(os_error_text("cannot read", segment.path, error)) from error

    def offsets_before(self, time_ms: int, max_count: int, pause: Callable[[], None] = lambda: None) -> list[int]:
        """Return where segments start that were last written at or before a time, newest first, at most `max_count`.

        The readable end counts as one more, written now, when it is after a segment's start. LATEST starts at the
        newest of these; EARLIEST is the oldest alone. `pause` is called now and then: there may be very many segments.
        """
        end = self._ends.readable
        segments = self._files.list
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

    def delete_old_segments(self, *, by_age: bool = True, times: SegmentTimes | None = None) -> list[DeletedSegment]:
        """Delete, oldest first, the segments that are older than retention_ms or beyond retention_bytes.

        `times` says when they were written. Raises LogFailedError.
        """
        return self._delete_oldest(lambda: self._choose_old_segments(times or SegmentTimes() if by_age else None))

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
            with self.append_lock:
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
                logger.info("%s will be deleted later: it is still being sent", segment.path)
                return doomed[:count]
        return doomed

    def _part_with(self, doomed: tuple[LogSegment, ...]) -> tuple[LogSegment, ...]:
        """Take the oldest segments out of the list, and return those to delete. Needs the append lock."""
        kept = self._files.list.segments[len(doomed) :]
        if kept:
            self._files.list = SegmentList.of(kept)
        elif doomed[-1].size_bytes:
            with self._flush_lock:
                self._sync()
                self._roll(())
        else:  # the empty segment that would be opened is there already
            doomed = doomed[:-1]
            self._files.list = SegmentList.of(self._files.list.segments[-1:])
        return doomed

    def _choose_old_segments(self, times: SegmentTimes | None) -> tuple[tuple[LogSegment, ...], Callable[[int], str]]:
        """Return the segments to delete, and why."""
        segments, now_ms = self._files.list.segments, self._clock.wall_s() * 1000
        written_ms = [] if times is None else times.written_ms(segments, now_ms)
        expired = count_expired(written_ms, now_ms, self.settings.retention_ms)
        remaining = segments[expired:]
        end = self._ends.flushed.offset
        flushed = [min(segment.end_offset, end) - segment.start_offset for segment in remaining]
        excess = count_excess(flushed, sum(flushed), self.settings.retention_bytes)

        def reason(index: int) -> str:
            if index < expired:
                return f"last written more than {self.settings.retention_ms:.0f} ms ago"
            return f"beyond {self.settings.retention_bytes} bytes"

        doomed = segments[: expired + excess]
        if self.has_copies:
            doomed = doomed[: most_deletable(self._files.list.starts, self._ends.readable)]
        return doomed, reason

    def _delete(
        self, doomed: tuple[LogSegment, ...], reason: Callable[[int], str], directory_fd: int
    ) -> list[DeletedSegment]:
        deleted = []
        for index, segment in enumerate(doomed):
            try:
                self._files.delete(segment, directory_fd)
            except OSError as error:
                self._fail("delete a segment of", error)
            why = reason(index)
            self.deleted_segments += 1
            deleted.append(
                DeletedSegment(self.topic, self.partition, segment.start_offset, segment.size_bytes, segment.path, why)
            )
            logger.info("deleted %s (%d bytes): %s", segment.path, segment.size_bytes, why)
        return deleted

    # What only logs with copies do: see replicated_log.py

    def let_read(self, end_offset: int) -> None:
        """Let clients read up to an offset from now on, if they may not read further. Does not wait.

        Raises LogError if that is not on this disk.
        """
        flushed = self._ends.flushed.offset
        if end_offset > flushed:
            raise LogError(f"{self} cannot be read up to offset {end_offset}: this disk has it up to {flushed}")
        if end_offset > self._ends.readable:
            self._ends.readable = end_offset
            self._hooks.on_readable(self)

    def let_nobody_read(self) -> None:
        """Let clients read nothing, once none of them is connected: what they have read does not bind this copy."""
        self._ends.readable = self.start_offset

    def delete_before(self, offset: int) -> list[DeletedSegment]:
        """Delete, oldest first, the segments that end at an offset or before, but never the last. As for retention."""
        return self._delete_oldest(lambda: self._choose_before(offset))

    def _choose_before(self, offset: int) -> tuple[tuple[LogSegment, ...], Callable[[int], str]]:
        doomed = tuple(segment for segment in self._files.list.segments[:-1] if segment.end_offset <= offset)
        if doomed:  # no end of a log lies before its start
            self._ends.readable = max(self._ends.readable, doomed[-1].end_offset)
        return doomed, lambda _: f"the leader's log starts at offset {offset}"

    def note_modified(self, modified_ms: int) -> None:
        """Have what was appended last count as written at this time, in wall clock ms. Raises LogFailedError."""
        try:
            self._files.list.active.note_modified(modified_ms)
        except OSError as error:
            self._fail("note when it was written in", error)

    @contextmanager
    def rewinding(self, doing: str, check: Callable[[], None]) -> Iterator[Rewind]:
        """Give what takes back the end of this log, once `check` has not raised; `doing` says why in errors.

        Appends and flushes wait meanwhile, and nobody may read it. Raises LogError, and nothing has changed but the
        end, if a reader is not done yet or no file can be opened for now; LogFailedError after an I/O error.
        """
        with self.append_lock, self._flush_lock:
            self._check_open()
            check()
            try:
                directory_fd = open_directory(self.directory)
                rewind = Rewind(self._files, self._ends, directory_fd)
                try:
                    yield rewind
                finally:
                    os.close(directory_fd)
                    if rewind.has_new_active_segment:
                        self._first_append_s = None
            except OSError as error:
                if error.errno in _FOR_NOW:
                    self._refuse_for_now(doing, error)
                self._fail("cut", error)
            except BaseException:  # a greenlet that is stopped while it waits: only recovery finds out how far it came
                self.failure = self.failure or LogFailedError(f"could not {doing}: it was stopped meanwhile")
                raise

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
        with self.append_lock, self._flush_lock:
            if self._closed:
                return
            self._closed = True
            try:
                try:
                    if self.failure is None:
                        self._sync()
                finally:
                    self._files.list.active.release()
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
