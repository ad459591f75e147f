"""The segment files of a broker, as they lie on disk: kept beyond their deletion, read, and damaged."""

from __future__ import annotations

import os
import re
import shutil
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Self

from integration.chaos.evidence import Deletion
from integration.chaos.records import Logged, Place, identify
from kafka2011.message.message_set import decode
from zk.clock import SYSTEM_CLOCK
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from integration.chaos.records import MessageId
    from kafka2011.message.message_set import Message

_SEGMENT = re.compile(r"(?P<topic>.+)-(?P<partition>[0-9]+)/(?P<offset>[0-9]{20})\.kafka")
_LOOK_INTERVAL_S = 0.1
_JOIN_TIMEOUT_S = 10.0


class Segment(NamedTuple):
    """One file of a log."""

    where: TopicPartition
    offset: int
    path: Path


class Flip(NamedTuple):
    """A message in which a bit was turned over: from where to where it lies."""

    where: TopicPartition
    offset: int
    next_offset: int


def segments_in(directory: Path, broker_id: int) -> list[Segment]:
    """Return the segments below a directory, by partition and offset."""
    found = []
    for path in directory.glob("*/*.kafka"):
        match = _SEGMENT.fullmatch(f"{path.parent.name}/{path.name}")
        if match is not None:
            where = TopicPartition(match["topic"], broker_id, int(match["partition"]))
            found.append(Segment(where, int(match["offset"]), path))
    return sorted(found)


def messages_of(segment: Segment) -> Iterator[Message]:
    """Yield the messages of a file, without a torn one at its end."""
    return _messages_in(segment, segment.path.read_bytes())


def _messages_in(segment: Segment, data: bytes) -> Iterator[Message]:
    topic, broker_id, partition = segment.where
    if data:
        yield from decode(data, topic, broker_id, partition, segment.offset)


def logged_in(segment: Segment) -> Iterator[Logged]:
    """Yield what a segment holds."""
    for message in messages_of(segment):
        found, key = identify(message.payload) or (None, "")
        yield Logged(Place(segment.where, message.offset, message.index_in_set), found, key)


def _ids_in(segment: Segment, data: bytes) -> set[MessageId]:
    return {found[0] for message in _messages_in(segment, data) if (found := identify(message.payload))}


class Archive:
    """Keeps every segment that a broker ever had, by hard links: a context manager with a thread that looks for them.

    It notes which were deleted. `logs` and `kept` must be on one file system.
    """

    def __init__(self, broker_id: int, logs: Path, kept: Path) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._kept = kept
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"archive of broker {broker_id}", daemon=True)
        self._lock = threading.Lock()
        self._damaged: set[Path] = set()
        self._deletions: list[Deletion] = []
        self._looked_s = 0.0
        self._seen: set[Segment] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_JOIN_TIMEOUT_S)

    def segments(self) -> list[Segment]:
        """Return all that there ever were."""
        with self._lock:
            self._look()
        return segments_in(self._kept, self._broker_id)

    def deletions(self) -> list[Deletion]:
        """Return which segments with something in them the broker has deleted, in order."""
        with self._lock:
            self._look()
            return list(self._deletions)

    def lose(self, take: Callable[[], Mapping[Path, int]]) -> set[MessageId]:
        """Let something else than the broker take files away, or their ends, and return the messages that went.

        `take` returns how many bytes are left of each file. The broker must not run.
        """
        with self._lock:
            self._look()
            before = {segment: self._kept_as(segment).read_bytes() for segment in self._seen}
            left = take()
            self._seen = set(segments_in(self._logs, self._broker_id))
        return {
            message
            for segment, data in before.items()
            if segment.path in left
            for message in _ids_in(segment, data) - _ids_in(segment, data[: left[segment.path]])
        }

    def flip(self, pick: float) -> Flip | None:
        """Turn over a bit of a message in a closed segment, the newest of its log; None when none is closed."""
        by_log: dict[TopicPartition, list[Segment]] = {}
        for segment in segments_in(self._logs, self._broker_id):
            by_log.setdefault(segment.where, []).append(segment)
        closed = [segments[-2] for segments in by_log.values() if len(segments) > 1]
        if not closed:
            return None
        segment = closed[int(pick * len(closed))]
        kept = self._kept_as(segment)
        if kept in self._damaged:
            return None
        with self._lock:
            self._look()
            copy = kept.with_suffix(".copy")
            shutil.copyfile(segment.path, copy)
            copy.rename(kept)
            self._damaged.add(kept)
        messages = [each for each in messages_of(segment) if each.next_offset > each.offset]  # of a set, the last one
        message = messages[int(pick * 1009) % len(messages)]
        with segment.path.open("r+b") as file:
            file.seek(message.next_offset - segment.offset - 1)  # the last byte of the payload
            [last] = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([last ^ 1]))
        return Flip(segment.where, message.offset, message.next_offset)

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_INTERVAL_S):
            with self._lock:
                self._look()

    def _look(self) -> None:
        """Note what was deleted since the last look, and keep what there is. Needs the lock."""
        looked_s = SYSTEM_CLOCK.monotonic_s()
        present = [segment for segment in segments_in(self._logs, self._broker_id) if self._keeps(segment)]
        for segment in sorted(self._seen.difference(present)):
            if self._kept_as(segment).stat().st_size:
                left_bytes = _bytes_of([each for each in present if each.where == segment.where])
                missed_s = SYSTEM_CLOCK.monotonic_s()
                self._deletions.append(Deletion(*segment[:2], self._looked_s, missed_s, left_bytes))
        self._looked_s, self._seen = looked_s, set(present)

    def _keeps(self, segment: Segment) -> bool:
        """Keep a segment; False when it was deleted a moment ago."""
        kept = self._kept_as(segment)
        try:
            if kept.exists():
                if kept in self._damaged or kept.samefile(segment.path):
                    return True
                kept.unlink()  # it was begun anew
            kept.parent.mkdir(parents=True, exist_ok=True)
            os.link(segment.path, kept)
        except FileNotFoundError:
            return False
        return True

    def _kept_as(self, segment: Segment) -> Path:
        return self._kept / segment.path.parent.name / segment.path.name


def _bytes_of(log: Sequence[Segment]) -> int:
    """Return how long a log is, from the beginning of its first segment on; its last one may have gone meanwhile."""
    if not log:
        return 0
    size = 0
    with suppress(FileNotFoundError):
        size = log[-1].path.stat().st_size
    return log[-1].offset + size - log[0].offset
