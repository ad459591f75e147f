"""The segment files of a broker, as they lie on disk: kept beyond their deletion, read, and damaged."""

from __future__ import annotations

import os
import re
import shutil
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Self

from integration.chaos.records import Logged, Place, identify
from kafka2011.message import decode
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kafka2011.message import Message

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
    topic, broker_id, partition = segment.where
    data = segment.path.read_bytes()
    if data:
        yield from decode(data, topic, broker_id, partition, segment.offset)


def logged_in(segments: Sequence[Segment]) -> Iterator[Logged]:
    """Yield what segments hold."""
    for segment in segments:
        for message in messages_of(segment):
            found, key = identify(message.payload) or (None, "")
            yield Logged(Place(segment.where, message.offset, message.index_in_set), found, key)


class Archive:
    """Keeps every segment that a broker ever had, by hard links: a context manager with a thread that looks for them.

    `logs` and `kept` must be on one file system.
    """

    def __init__(self, broker_id: int, logs: Path, kept: Path) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._kept = kept
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"archive of broker {broker_id}", daemon=True)
        self._lock = threading.Lock()
        self._damaged: set[Path] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_JOIN_TIMEOUT_S)

    def segments(self) -> list[Segment]:
        """Return all that there ever were."""
        self._keep()
        return segments_in(self._kept, self._broker_id)

    def flip(self, pick: float) -> Flip | None:
        """Turn over a bit of a message in a closed segment, the newest of its log; None when none is closed."""
        by_log: dict[TopicPartition, list[Segment]] = {}
        for segment in segments_in(self._logs, self._broker_id):
            by_log.setdefault(segment.where, []).append(segment)
        closed = [segments[-2] for segments in by_log.values() if len(segments) > 1]
        if not closed:
            return None
        segment = closed[int(pick * len(closed))]
        kept = self._kept / segment.path.parent.name / segment.path.name
        if kept in self._damaged:
            return None
        self._keep()
        with self._lock:
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
            self._keep()

    def _keep(self) -> None:
        with self._lock:
            for segment in segments_in(self._logs, self._broker_id):
                kept = self._kept / segment.path.parent.name / segment.path.name
                with suppress(FileNotFoundError):  # deleted a moment ago
                    if kept.exists():
                        if kept in self._damaged or kept.samefile(segment.path):
                            continue
                        kept.unlink()  # it was begun anew
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    os.link(segment.path, kept)
