"""Ranges of byte offsets, and the arithmetic on them: cutting them for tasks, and admitting part of them by bytes.

Pure: nothing here knows of brokers, ZooKeeper or Spark. An offset that enters is a boundary, a place where a message
starts or the log ends, and only boundaries come out: arithmetic alone never makes one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from zk.cluster import TopicPartition

SNAP_FRACTION = 4
"""A cut moves to a segment start that is nearer than this part of a task, since that one costs no scan."""


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The messages of a partition from offset `start` up to, not including, `end`; both are boundaries."""

    topic_partition: TopicPartition
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"no range of offsets in {self.topic_partition}: {self.start} to {self.end}")

    @property
    def size_bytes(self) -> int:
        """How much of the log it spans."""
        return self.end - self.start

    def cut(self, boundaries: Iterable[int]) -> list[OffsetRange]:
        """Return the parts that lie between the boundaries inside the range; together they are the range."""
        inside = sorted({offset for offset in boundaries if self.start < offset < self.end})
        edges = [self.start, *inside, self.end]
        return [OffsetRange(self.topic_partition, *pair) for pair in pairwise(edges)]


def share_tasks(sizes_bytes: Sequence[int], min_partitions: int) -> list[int]:
    """Say into how many tasks to cut each range, in proportion to its size: one at least, `min_partitions` in all.

    Gives the tasks out one by one, each to the range whose tasks are largest, so that they end up about equal.
    """
    counts = [1] * len(sizes_bytes)
    total_bytes = sum(sizes_bytes)
    if not total_bytes:
        return counts
    missing = min_partitions - len(counts)
    if missing > 0:
        # Most at once, by proportion; never more than a range would get one by one.
        counts = [max(1, size * missing // total_bytes) for size in sizes_bytes]
    for _ in range(min_partitions - sum(counts)):
        largest = max(range(len(counts)), key=lambda index: sizes_bytes[index] / counts[index])
        counts[largest] += 1
    return counts


def cuts(whole: OffsetRange, tasks: int, known: Sequence[int], scan: Callable[[int, int], int]) -> list[int]:
    """Return the boundaries at which to cut a range for `tasks` tasks of about equal size.

    `known` are boundaries in ascending order, the segment starts. Where none is near, `scan(boundary, target)` must
    return the last boundary at or before `target` that it finds by reading on from a boundary. No byte is scanned
    twice. Fewer cuts than wanted come out where messages are larger than tasks.
    """
    task_bytes = whole.size_bytes / max(tasks, 1)
    found = [whole.start]
    for number in range(1, tasks):
        target = whole.start + round(number * task_bytes)
        near = _nearest(known, target)
        if near is not None and abs(near - target) * SNAP_FRACTION <= task_bytes:
            boundary = near
        else:
            before = bisect_right(known, target)
            base = max(found[-1], known[before - 1] if before else whole.start)
            boundary = scan(base, target)
        if found[-1] < boundary < whole.end:
            found.append(boundary)
    return found[1:]


def _nearest(ascending: Sequence[int], target: int) -> int | None:
    index = bisect_left(ascending, target)
    return min(ascending[max(index - 1, 0) : index + 1], key=lambda offset: abs(offset - target), default=None)


def share_bytes(lags_bytes: Mapping[TopicPartition, int], max_bytes: int) -> dict[TopicPartition, int]:
    """Divide what may be read at once over partitions in proportion to what waits in them; all of it where it fits.

    Shares add up to `max_bytes` at most, and none exceeds what waits.
    """
    total_bytes = sum(lags_bytes.values())
    if total_bytes <= max_bytes:
        return dict(lags_bytes)
    return {partition: lag * max_bytes // total_bytes for partition, lag in lags_bytes.items()}


def next_boundary(known: Sequence[int], offset: int) -> int | None:
    """Return the first of some ascending boundaries that lies behind an offset; None when there is none."""
    index = bisect_right(known, offset)
    return known[index] if index < len(known) else None
