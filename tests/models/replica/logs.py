"""Logs with a page cache and a disk, which has what was fsynced, and by chance some of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

SIZE = 2
"""Bytes of a message. Messages differ in their second byte, so that a difference is not where a message starts."""

Segments = tuple[tuple[int, bytes], ...]


class ModelLog:
    """One partition's log on one disk: `now` is what a process sees, `on_disk` what a power cut leaves for certain."""

    def __init__(self) -> None:
        self.now: Segments = ((0, b""),)
        self.on_disk: Segments = self.now
        self.flushed_end_offset = 0
        self.deletion = 0
        """The epoch in which its topic was deleted last when the log was made; 0 if never."""

    @property
    def start_offset(self) -> int:
        return self.now[0][0]

    @property
    def appended_end_offset(self) -> int:
        return _end(self.now)

    @property
    def segment_offsets(self) -> tuple[int, ...]:
        return tuple(start for start, _ in self.now)

    def messages(self) -> dict[int, tuple[bytes, int]]:
        """Each message by its offset, with the start of its segment."""
        return {
            start + at: (data[at : at + SIZE], start) for start, data in self.now for at in range(0, len(data), SIZE)
        }

    def since(self, offset: int) -> dict[int, tuple[bytes, int]]:
        """Each message from an offset on."""
        return {at: message for at, message in self.messages().items() if at >= offset}

    # As replication sees it

    def digest(self, start: int, end: int) -> bytes | None:
        if not self.start_offset <= start < end <= self.appended_end_offset:
            return None
        parts = [
            b"%d:%s" % (first, data[max(start - first, 0) : end - first])
            for first, data in self.now
            if first < end and start < first + len(data)
        ]
        return b"|".join(parts)

    def message_start(self, offset: int) -> int:
        return offset - offset % SIZE

    def is_good_at(self, _offset: int) -> bool:
        return True

    def are_good(self, _start: int, _end: int) -> bool:
        return True

    def append_damaged(self, data: bytes, segment: int, _modified_ms: int) -> None:
        ModelLog.append(self, data, segment)

    def read(self, offset: int, max_bytes: int) -> tuple[int, int, bytes]:
        for first, data in self.now:
            if first <= offset < first + len(data):
                return first, 0, data[offset - first : offset - first + max_bytes]
        return self.now[-1][0], 0, b""

    def append(self, data: bytes, segment: int, _modified_ms: int = 0) -> None:
        if segment != self.now[-1][0]:
            assert segment == self.appended_end_offset, f"a segment at {segment} after {self.now}"
            self.roll()
        first, before = self.now[-1]
        self.now = (*self.now[:-1], (first, before + data))

    def roll(self) -> None:
        """Begin a segment, which brings the one before to disk."""
        self.flush()
        if self.now[-1][1]:
            self.now = (*self.now, (self.appended_end_offset, b""))

    def cut(self, offset: int) -> None:
        kept = [(first, data[: max(offset - first, 0)]) for first, data in self.now if first < offset]
        self.now = tuple(kept) or ((self.start_offset, b""),)
        self.flushed_end_offset = min(self.flushed_end_offset, offset)

    def begin_at(self, offset: int) -> None:
        self.now = self.on_disk = ((offset, b""),)
        self.flushed_end_offset = offset

    def delete_before(self, offset: int) -> None:
        kept = tuple((first, data) for first, data in self.now[:-1] if first + len(data) > offset)
        self.now = (*kept, self.now[-1])

    # The disk

    def copy_of_disk(self) -> ModelLog:
        """Return what a snapshot of the disk has."""
        copy = ModelLog()
        copy.deletion = self.deletion
        copy.now = self.on_disk
        copy.flush()
        return copy

    def lose_end(self, messages: int) -> None:
        """Lose messages at the end of what was fsynced, but none of a segment before the last."""
        start, data = self.on_disk[-1]
        self.now = (*self.on_disk[:-1], (start, data[: max(len(data) - messages * SIZE, 0)]))
        self.flush()

    def flush(self) -> None:
        """Bring everything to disk."""
        self.on_disk = self.now
        self.flushed_end_offset = self.appended_end_offset

    def lose_power(self, chance: Random) -> None:
        """Come back with what was fsynced, also what was cut since then; or with any more that was written."""
        ends = range(max(self.flushed_end_offset, self.start_offset), self.appended_end_offset + 1, SIZE)
        end = chance.choice([None, *ends])
        if end is None:
            self.now = self.on_disk
        else:
            kept = tuple((first, data[: end - first]) for first, data in self.now if first <= end)
            self.now = kept
        self.flush()


def _end(segments: Segments) -> int:
    start, data = segments[-1]
    return start + len(data)
