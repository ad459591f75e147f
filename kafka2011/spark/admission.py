"""How much of what waits a micro-batch reads: about so many bytes, up to a boundary in each partition."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kafka2011.errors import OffsetOutOfRangeError
from kafka2011.spark.offset_range import next_boundary, share_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka2011.spark.offset_lookup import OffsetLookup
    from kafka2011.spark.resolve import DataLoss
    from zk.cluster import TopicPartition


def admit(
    lookup: OffsetLookup,
    begin: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    max_bytes: int,
    loss: DataLoss,
) -> dict[TopicPartition, int]:
    """Return where to end in each partition in which there is more than may be read.

    `begin` and `end` are boundaries. Partitions share `max_bytes` in proportion to what waits in them. Each gets one
    message or compressed set at least, however large, so that none is left behind.
    """
    lags = {each: end[each] - start for each, start in begin.items() if end[each] > start}
    shares = share_bytes(lags, max_bytes)
    return {
        each: _admit_one(lookup, each, begin[each], end[each], share, loss)
        for each, share in shares.items()
        if share < lags[each]
    }


def _admit_one(
    lookup: OffsetLookup, partition: TopicPartition, start: int, end: int, share_bytes: int, loss: DataLoss
) -> int:
    """Return the last boundary within a partition's share, found by reading on from the nearest one that is known."""
    bounds = lookup.bounds(partition)
    if start < bounds.earliest:
        loss.report(f"{partition} was read up to {start}, but begins at {bounds.earliest} now")
        start = bounds.earliest
        if start >= end:
            return end
    target = min(start + share_bytes, end)
    before = bisect_right(bounds.boundaries, target)
    base = max(start, bounds.boundaries[before - 1])
    try:
        found = lookup.walk(partition, base, max(target, base + 1))
    except OffsetOutOfRangeError:  # retention came in between: the next micro-batch finds out
        return start
    if found.offset > start:
        return found.offset
    # Not one whole message fits. If its length makes no sense, go to the next place that is known.
    certain = next_boundary(bounds.boundaries, start) or end
    return min(found.following or certain, certain, end)
