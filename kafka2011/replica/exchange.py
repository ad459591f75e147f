"""What follower and leader say to each other, as values: one question, one answer, for all partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka2011.replica.state import Replica
    from zk.cluster import TopicPartition


class WrongEpochError(KafkaError):
    """A request or an answer is of another epoch: whoever gets it looks at the state again."""


class Range(NamedTuple):
    """Bytes of a log from `start` to before `end`, and the digest of what the follower has there."""

    start: int
    end: int
    digest: bytes


class Ask(NamedTuple):
    """What a follower wants of one partition: to compare ranges, or bytes from `offset` on.

    `flushed` is the end that its disk has; None while it does not know yet whether what it has is the leader's.
    """

    offset: int
    flushed: int | None
    compare: tuple[Range, ...] = ()


class Piece(Protocol):
    """Bytes of a log that are not in memory, but on their way from its file to a follower."""

    @property
    def size(self) -> int:
        """How many there are."""

    def release(self) -> None:
        """Let go of the file; may be called twice."""


class Given(NamedTuple):
    """What a leader gives of one partition.

    `start` and `end` are those of its log, and `readable` is the end of what may be read. `equal` counts the leading
    ranges that are the same. `data` stands at the offset that was asked for, in the segment that starts at `segment`,
    which the leader wrote to last at `modified_ms`, by its wall clock: retention and offsets by time go by that.
    Without data, `segment` is the exact number of partitions of the topic, 0 if it has none.
    """

    start: int
    end: int
    readable: int
    equal: int = 0
    segment: int = 0
    modified_ms: int = 0
    data: bytes | Piece = b""

    @property
    def data_bytes(self) -> int:
        """How many bytes of the log it has."""
        return len(self.data) if isinstance(self.data, bytes) else self.data.size


@dataclass(frozen=True, slots=True)
class ReplicaFetch:
    """A follower's request."""

    epoch: int
    follower: Replica
    asks: Mapping[TopicPartition, Ask] = field(default_factory=dict)
    connection: int = 0
    """By which connection it came, in the order in which the leader accepted them. It is not sent."""


@dataclass(frozen=True, slots=True)
class ReplicaData:
    """A leader's answer: for the partitions that were asked for, and for those that the follower did not name."""

    epoch: int
    given: Mapping[TopicPartition, Given] = field(default_factory=dict)

    def release(self) -> None:
        """Let go of the files that data would come from."""
        for each in self.given.values():
            if not isinstance(each.data, bytes):
                each.data.release()


class CopiedLog(Protocol):
    """A partition's log, as replication sees it."""

    @property
    def start_offset(self) -> int:
        """Offset of the first byte that is kept."""

    @property
    def appended_end_offset(self) -> int:
        """Offset after the last byte."""

    @property
    def flushed_end_offset(self) -> int:
        """Offset after the last byte that was fsynced where it is now: a cut moves it back."""

    def digest(self, start: int, end: int) -> bytes | None:
        """Return a strong checksum of bytes and of where segments start among them; None if not all are there.

        It covers the start of the segment that the first byte is in, too.
        """

    def message_start(self, offset: int) -> int:
        """Return where the message starts that a byte belongs to."""

    def is_good_at(self, offset: int) -> bool:
        """Say whether the message that starts there is whole, and its checksum is right."""

    def are_good(self, start: int, end: int) -> bool:
        """Say whether good messages stand from one offset up to another."""

    def read(self, offset: int, max_bytes: int) -> tuple[int, int, bytes | Piece]:
        """Return a segment's start, when it was written last, and bytes of it from an offset on; none at the end.

        At least the first message whole, however large it is; the last need not be.
        """

    def append(self, data: bytes, segment: int, modified_ms: int) -> None:
        """Append to the segment that starts at `segment`, which is begun if it starts at the end.

        It was written last at `modified_ms`.
        """

    def append_damaged(self, data: bytes, segment: int, modified_ms: int) -> None:
        """Append bytes as they are to the segment that starts at `segment`: nobody has better ones."""

    def cut(self, offset: int) -> None:
        """Remove all bytes from an offset on, and the segments that start there or later, but never the last one."""

    def begin_at(self, offset: int) -> None:
        """Remove everything, and begin empty at an offset, on disk when this returns."""

    def delete_before(self, offset: int) -> None:
        """Delete the segments that end at an offset or before."""
