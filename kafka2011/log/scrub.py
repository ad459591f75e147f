"""Checks closed segments for damaged messages: which segment next, how fast, and what is damaged in it.

A segment is read from its disk, past the page cache: a bit that has flipped on the disk does not show in memory.
"""

from __future__ import annotations

import errno
import hashlib
import logging
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.errors import KafkaError, LogError
from kafka2011.log.recovery import SearchEffort, find_message, is_good_message, pread, walk_messages
from kafka2011.log.scrub_record import DamagedRange, ScrubRecord, SegmentKey
from kafka2011.log.segment import NO_FILES_ERRORS, os_error_text
from kafka2011.log.uncached import UncachedFile
from kafka2011.message.header import LENGTH, LENGTH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from kafka2011.log.log import Log
    from kafka2011.log.recovery import Read

logger = logging.getLogger(__name__)

_PASSING = NO_FILES_ERRORS | {errno.ENOMEM, errno.EAGAIN}
BURST_S = 0.25
"""How far a scrub may run ahead of its rate."""


class ScrubStoppedError(KafkaError):
    """The scrub is to stop; what it has read of the segment counts for nothing."""


class ClosedSegment(NamedTuple):
    """A segment that nothing is appended to any more."""

    key: SegmentKey
    path: Path
    size_bytes: int


class DamagedStretch(NamedTuple):
    """Positions in a file, from `start` to before `end`, at which there is no good message, and what stands there."""

    start: int
    end: int
    fault: str


class ScrubPace:
    """Holds reading back to a number of bytes a second. `wait` waits for seconds, and says whether to stop."""

    def __init__(self, bytes_per_s: int, monotonic_s: Callable[[], float], wait: Callable[[float], bool]) -> None:
        self._bytes_per_s = bytes_per_s
        self._monotonic_s = monotonic_s
        self._wait = wait
        self._paid_s = 0.0

    def spend(self, count: int) -> None:
        """Wait until `count` more bytes may be read. Raises ScrubStoppedError."""
        now_s = self._monotonic_s()
        self._paid_s = max(self._paid_s, now_s - BURST_S) + count / self._bytes_per_s
        if self._wait(max(0.0, self._paid_s - now_s)):
            raise ScrubStoppedError("the scrub was stopped")


def closed_segments(logs: Iterable[Log]) -> list[ClosedSegment]:
    """Return the closed segments of logs, in the order in which they are checked."""
    return sorted(
        ClosedSegment(SegmentKey(log.topic, log.partition, segment.start_offset), segment.path, segment.size_bytes)
        for log in logs
        for segment in log.segments.segments[:-1]
    )


def all_segments(logs: Iterable[Log]) -> set[SegmentKey]:
    """Return all segments of logs, those too that are appended to."""
    return {SegmentKey(log.topic, log.partition, start) for log in logs for start in log.segment_offsets}


def damaged_stretches(fd: int, size: int, read: Read = pread) -> list[DamagedStretch]:
    """Return what is damaged in a segment file, up to the next good message each time. Raises OSError."""
    found = []
    position, effort = 0, SearchEffort()
    while position < size:
        walk = walk_messages(fd, position, size, read=read)
        if walk.fault is None:
            break
        position = _next_good(fd, walk.end, size, effort, read)
        found.append(DamagedStretch(walk.end, position, walk.fault))
    return found


def _next_good(fd: int, bad: int, size: int, effort: SearchEffort, read: Read) -> int:
    """Return where the next good message starts after a bad one, or the size: most have their length left."""
    if bad + LENGTH_BYTES <= size:
        end: int = bad + LENGTH_BYTES + LENGTH.unpack(read(fd, LENGTH_BYTES, bad))[0]
        if bad < end < size and is_good_message(fd, end, size, read):
            return end
    found = find_message(fd, bad + 1, size, effort, read)
    return size if found is None else found


def check_segment(segment: ClosedSegment, spend: Callable[[int], None]) -> list[DamagedRange] | None:
    """Return what is damaged in a segment, twice in a row; None if it has been deleted. Raises ScrubStoppedError.

    `spend` is told of bytes before they are read. A file that cannot be read is damaged, too. Raises LogError if the
    process lacks something for a moment.
    """
    try:
        found = _read_all(segment, spend)
        if found and (again := _read_all(segment, spend)) != found:
            logger.warning("%s was read twice, and differently: %s, then %s", segment.path, found, again)
            found = [stretch for stretch in found if stretch in again]
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in _PASSING:
            raise LogError(os_error_text("cannot check", segment.path, error)) from error
        found = [DamagedStretch(0, segment.size_bytes, os_error_text("cannot read", segment.path, error))]
    start = segment.key.start_offset
    return [
        DamagedRange(segment.key, start + stretch.start, start + stretch.end, str(segment.path), stretch.fault)
        for stretch in found
    ]


def _read_all(segment: ClosedSegment, spend: Callable[[int], None]) -> list[DamagedStretch]:
    with UncachedFile(segment.path, spend) as file:
        return damaged_stretches(file.fd, segment.size_bytes, file.read)


def digest_on_disk(path: Path, position: int, count: int, spend: Callable[[int], None] = lambda _bytes: None) -> bytes:
    """Return the SHA-256 of bytes of a segment file, read from its disk. Raises LogError if they cannot be read.

    `spend` is told of bytes before they are read.
    """
    digest, end = hashlib.sha256(), position + count
    try:
        with UncachedFile(path, spend) as file:
            while position < end:
                data = file.read(file.fd, end - position, position)
                if not data:
                    raise LogError(f"{path} ends at position {position}")
                digest.update(data)
                position += len(data)
    except OSError as error:
        raise LogError(os_error_text("cannot read", path, error)) from error
    return digest.digest()


class Scrub:
    """Says which segment to check next, and notes what was found. `segments` returns those that are there now.

    A pass checks each once, in order, and goes on after a restart where the record says. The next begins `interval_s`
    after it has ended.
    """

    def __init__(self, record: ScrubRecord, segments: Callable[[], list[ClosedSegment]], interval_s: float) -> None:
        self._record = record
        self._segments = segments
        self._interval_s = interval_s
        self._left: list[ClosedSegment] | None = None  # in this pass, the next one last
        self._checked = 0

    def next(self, now_s: float) -> ClosedSegment | None:
        """Return the segment to check; None if that has time, by the wall clock. A pass may end with this."""
        record = self._record
        if self._left is None:
            finished_s = record.finished_s
            if record.after is None and finished_s is not None and abs(now_s - finished_s) < self._interval_s:
                return None
            after = record.after
            self._left = [each for each in self._segments() if after is None or each.key > after][::-1]
        if self._left:
            return self._left.pop()
        record.after, record.finished_s, self._left = None, now_s, None
        level = logging.INFO if self._checked else logging.DEBUG
        text = "scrub: all closed segments were checked, %d of them now; %d damaged ranges are known"
        logger.log(level, text, self._checked, len(record.damage()))
        self._checked = 0
        return None

    def checked(self, segment: ClosedSegment, found: list[DamagedRange] | None) -> list[DamagedRange]:
        """Note what was found, None if it has been deleted; return what was not known before."""
        self._checked += 1
        self._record.after = segment.key
        self._record.scrubbed_bytes += 0 if found is None else segment.size_bytes
        new = self._record.note(segment.key, found or ())
        for each in new:
            logger.error("damaged: %s", each)
        return new
