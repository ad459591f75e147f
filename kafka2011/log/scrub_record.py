"""What checks of closed segments have found, and how far they came: in memory, and in a file of log.dir."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from kafka2011.disk import SYSTEM_DISK, is_replaced_file
from kafka2011.errors import LogError
from kafka2011.json_document import read_document
from kafka2011.log.segment import os_error_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from kafka2011.disk import Disk

FILE_NAME = "scrub"


class SegmentKey(NamedTuple):
    """A segment: topic, partition, and the offset where it starts."""

    topic: str
    partition: int
    start_offset: int


class DamagedRange(NamedTuple):
    """Offsets of a segment, from `start` to before `end`, at which there is no good message, and what stands there."""

    segment: SegmentKey
    start: int
    end: int
    path: str
    fault: str

    def __str__(self) -> str:
        return f"{self.segment.topic}-{self.segment.partition} at offset {self.start} in {self.path}: {self.fault}"


class DifferingRange(NamedTuple):
    """Offsets of a segment, from `start` to before `end`, at which another replica has other good messages."""

    segment: SegmentKey
    start: int
    end: int
    replica: str

    def __str__(self) -> str:
        where = f"{self.segment.topic}-{self.segment.partition}"
        return f"{where} has other good messages than at {self.replica} between offsets {self.start} and {self.end}"


@dataclass
class ScrubRecord:
    """The damaged ranges that are known, and the last segment that this pass has checked, None between two passes.

    `finished_s` is when the last pass ended, in wall clock seconds since the epoch; None if none has.
    """

    after: SegmentKey | None = None
    finished_s: float | None = None
    scrubbed_bytes: int = 0
    repaired_segments: int = 0
    _damage: dict[SegmentKey, tuple[DamagedRange, ...]] = field(default_factory=dict)
    _differing: dict[SegmentKey, DifferingRange] = field(default_factory=dict)

    def damage(self) -> list[DamagedRange]:
        """Return all damaged ranges that are known, in order."""
        return [each for _, ranges in sorted(self._damage.items()) for each in ranges]

    def damage_of(self, segment: SegmentKey) -> tuple[DamagedRange, ...]:
        """Return the damaged ranges of a segment."""
        return self._damage.get(segment, ())

    def note(self, segment: SegmentKey, ranges: Iterable[DamagedRange]) -> list[DamagedRange]:
        """Note all that is damaged in a segment now, and return what was not known before."""
        before, now = self.damage_of(segment), tuple(ranges)
        if now:
            self._damage[segment] = now
        else:
            self._damage.pop(segment, None)
        known = {each.start for each in before}
        return [each for each in now if each.start not in known]

    def differing(self) -> list[DifferingRange]:
        """Return where segments differ from another replica's, the first such range of each, in order."""
        return [each for _, each in sorted(self._differing.items())]

    def note_compared(self, segment: SegmentKey, first: DifferingRange | None) -> bool:
        """Note where a segment differs from another replica's, None if nowhere; say whether that is new."""
        before = self._differing.pop(segment, None)
        if first is None:
            return False
        self._differing[segment] = first
        return before != first

    def keep_only(self, segments: Collection[SegmentKey]) -> None:
        """Forget what was found in all other segments, which have been deleted."""
        self._damage = {segment: ranges for segment, ranges in self._damage.items() if segment in segments}
        self._differing = {segment: found for segment, found in self._differing.items() if segment in segments}

    def replace(self, other: ScrubRecord) -> None:
        """Become what another record says; what was counted stays."""
        self.after, self.finished_s = other.after, other.finished_s
        self._damage, self._differing = dict(other._damage), dict(other._differing)

    @property
    def text(self) -> str:
        """The file's text. What was counted is not in it."""
        damage = [
            {"segment": each.segment, "start": each.start, "end": each.end, "path": each.path, "fault": each.fault}
            for each in self.damage()
        ]
        differing = [
            {"segment": each.segment, "start": each.start, "end": each.end, "replica": each.replica}
            for each in self.differing()
        ]
        document = {"after": self.after, "finished_s": self.finished_s, "damage": damage, "differing": differing}
        return json.dumps(document)

    @classmethod
    def of(cls, text: str | bytes, where: str) -> Self:
        """Read the file's text; `where` names it in the LogError that is raised if it is damaged itself."""
        return read_document(text, cls._of_document, LogError, f"{where} does not say what a scrub has found")

    @classmethod
    def _of_document(cls, document: dict[str, Any]) -> Self:
        after, finished_s = document["after"], document["finished_s"]
        if finished_s is not None and type(finished_s) not in {int, float}:
            raise ValueError(f"it finished at {finished_s!r}")
        record = cls(None if after is None else _segment(after), finished_s)
        for each in document["damage"]:
            segment, (start, end) = _segment(each["segment"]), _offsets(each["start"], each["end"])
            known = record.damage_of(segment)
            record.note(segment, (*known, DamagedRange(segment, start, end, str(each["path"]), str(each["fault"]))))
        for each in document["differing"]:
            segment, (start, end) = _segment(each["segment"]), _offsets(each["start"], each["end"])
            record.note_compared(segment, DifferingRange(segment, start, end, str(each["replica"])))
        return record


class ScrubFile:
    """Reads and writes the record in a log.dir."""

    def __init__(self, log_dir: Path, disk: Disk = SYSTEM_DISK) -> None:
        self._path = log_dir / FILE_NAME
        self._disk = disk

    def load(self) -> ScrubRecord | None:
        """Return what it says; None without one. Raises LogError if it cannot be read, or is damaged itself."""
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LogError(os_error_text("cannot read", self._path, error)) from error
        return ScrubRecord.of(text, str(self._path))

    def store(self, record: ScrubRecord) -> None:
        """Write it whole, and bring it to disk. Raises LogError."""
        try:
            with self._disk.replacing(self._path) as file:
                file.write(record.text.encode())
        except OSError as error:
            raise LogError(os_error_text("cannot write", self._path, error)) from error


def is_scrub_file(name: str) -> bool:
    """Say whether a file in log.dir is that of a scrub."""
    return is_replaced_file(name, FILE_NAME)


def _segment(value: Any) -> SegmentKey:
    topic, partition, start_offset = value
    if not isinstance(topic, str):
        raise TypeError(f"{topic!r} is no topic")
    return SegmentKey(topic, *_offsets(partition, start_offset))


def _offsets(*numbers: Any) -> tuple[int, int]:
    first, second = numbers
    if any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError(f"{first!r} and {second!r} are no offsets")
    return first, second
