"""The coverage check: what was written must account for every byte of the ranges that were to be loaded.

Pure. Places of messages become runs, many messages each; runs of one partition laid side by side must leave no gap and
overlap nowhere. Messages of one compressed set share the set's place, so there each number in the set must be there
once: their count, the largest number and a sum of hashes of the numbers say so.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka2011.warehouse.errors import CoverageError
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


class Run(NamedTuple):
    """Messages of one partition, from offset `start` to `end`, each once; or some messages of one compressed set.

    Of a set `start` is its offset, `end` the same until its last message is there. `largest` is the largest number in
    the set, -1 for a run that is of no set; `hashes` is the sum of `hashes_of` the numbers.
    """

    broker_id: int
    partition: int
    start: int
    end: int
    rows: int
    largest: int = -1
    hashes: int = 0


def hashes_of(indexes: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Return a hash of each number in a set, so that the sum of them tells sets of numbers apart."""
    mixed = (indexes.astype(np.uint64) + np.uint64(1)) * _SPREAD
    mixed ^= mixed >> np.uint64(29)
    mixed *= _MIX
    result: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(32))
    return result


def runs_of(
    broker_ids: NDArray[np.int32],
    partitions: NDArray[np.int32],
    offsets: NDArray[np.int64],
    next_offsets: NDArray[np.int64],
    indexes: NDArray[np.int32],
) -> list[Run]:
    """Return the runs of messages at these places, which may come in any order."""
    in_set = (indexes > 0) | (next_offsets == offsets)
    order = np.lexsort((indexes, offsets, partitions, broker_ids))
    order_alone, order_in_set = order[~in_set[order]], order[in_set[order]]
    alone = [column[order_alone] for column in (broker_ids, partitions, offsets, next_offsets)]
    within = [column[order_in_set] for column in (broker_ids, partitions, offsets, next_offsets, indexes)]
    return [*_runs(*alone), *_set_runs(*within)]


def _runs(
    broker_ids: NDArray[np.int32],
    partitions: NDArray[np.int32],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> Iterable[Run]:
    if not len(starts):
        return
    is_new = np.ones(len(starts), np.bool_)
    is_new[1:] = (starts[1:] != ends[:-1]) | (np.diff(partitions) != 0) | (np.diff(broker_ids) != 0)
    first = np.flatnonzero(is_new)
    last = np.append(first[1:], len(starts)) - 1
    for begin, end in zip(first.tolist(), last.tolist(), strict=True):
        where = int(broker_ids[begin]), int(partitions[begin])
        yield Run(*where, int(starts[begin]), int(ends[end]), end - begin + 1)


def _set_runs(
    broker_ids: NDArray[np.int32],
    partitions: NDArray[np.int32],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    indexes: NDArray[np.int32],
) -> Iterable[Run]:
    if not len(starts):
        return
    is_new = np.ones(len(starts), np.bool_)
    is_new[1:] = (np.diff(starts) != 0) | (np.diff(partitions) != 0) | (np.diff(broker_ids) != 0)
    first = np.flatnonzero(is_new)
    counts = np.diff(np.append(first, len(starts)))
    sums = np.add.reduceat(hashes_of(indexes), first)
    ends_at = np.maximum.reduceat(ends, first)
    largest = np.maximum.reduceat(indexes, first)
    for number, begin in enumerate(first.tolist()):
        yield Run(
            int(broker_ids[begin]),
            int(partitions[begin]),
            int(starts[begin]),
            int(ends_at[number]),
            int(counts[number]),
            int(largest[number]),
            int(sums[number]),
        )


class Gap(NamedTuple):
    """Bytes of a partition's log that nothing accounts for."""

    partition: TopicPartition
    start: int
    end: int


@dataclass(slots=True)
class _Set:
    """The messages found of one compressed set."""

    end: int
    rows: int = 0
    largest: int = -1
    hashes: int = 0

    def is_whole(self) -> bool:
        if self.rows != self.largest + 1:
            return False
        expected = int(hashes_of(np.arange(self.rows)).sum())
        return self.hashes == expected


@dataclass(slots=True)
class _Partition:
    alone: list[tuple[int, int]] = field(default_factory=list)
    sets: dict[int, _Set] = field(default_factory=dict)
    corrupt: list[tuple[int, int]] = field(default_factory=list)
    rows: int = 0
    quarantined: int = 0


class Coverage:
    """Gathers runs of one topic, of rows and of quarantined messages, and says what they leave open."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._partitions: dict[TopicPartition, _Partition] = defaultdict(_Partition)

    def add(self, run: Run, *, quarantined: bool = False) -> None:
        """Take the run of messages that were written."""
        of_partition = self._partitions[TopicPartition(self._topic, run.broker_id, run.partition)]
        if quarantined:
            of_partition.quarantined += run.rows
        else:
            of_partition.rows += run.rows
        if run.largest < 0:
            of_partition.alone.append((run.start, run.end))
            return
        one = of_partition.sets.setdefault(run.start, _Set(run.end))
        one.end = max(one.end, run.end)
        one.rows += run.rows
        one.largest = max(one.largest, run.largest)
        one.hashes = (one.hashes + run.hashes) % 2**64

    def add_corrupt(self, partition: TopicPartition, start: int, end: int) -> None:
        """Take a quarantined entry for bytes that are not a message; messages of a broken set may lie at its start."""
        of_partition = self._partitions[partition]
        of_partition.quarantined += 1
        of_partition.corrupt.append((start, end))

    def counts(self, partition: TopicPartition) -> tuple[int, int]:
        """Return how many rows and quarantined messages there are of a partition."""
        of_partition = self._partitions.get(partition) or _Partition()
        return of_partition.rows, of_partition.quarantined

    def gaps(self, partition: TopicPartition, start: int, end: int) -> list[Gap]:
        """Return what is not accounted for between two offsets.

        Raises CoverageError for messages that are there twice, and for any outside.
        """
        of_partition = self._partitions.get(partition) or _Partition()
        at = start
        gaps: list[Gap] = []
        for first, last in sorted(self._intervals(partition, of_partition)):
            if first < at or last > end:
                what = "is there twice" if first < at and first >= start else f"is not between {start} and {end}"
                raise CoverageError(f"{partition}: what was written from offset {first} to {last} {what}")
            if first > at:
                gaps.append(Gap(partition, at, first))
            at = last
        if at < end:
            gaps.append(Gap(partition, at, end))
        return gaps

    def _intervals(self, partition: TopicPartition, of_partition: _Partition) -> Iterable[tuple[int, int]]:
        yield from of_partition.alone
        yield from of_partition.corrupt
        broken = {start for start, _ in of_partition.corrupt}
        for start, one in of_partition.sets.items():
            if one.rows > one.largest + 1:
                raise CoverageError(
                    f"{partition}: of the compressed set at offset {start} there are {one.rows} messages, numbered up"
                    f" to {one.largest}: some are there twice"
                )
            if one.end > start and start not in broken and one.is_whole():
                yield start, one.end
            # else its place stays a gap, unless the entry for a broken set covers it
