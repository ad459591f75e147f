"""From ranges of offsets to Spark's tasks: each task gets one range of one partition, and the address of its broker.

Runs on the driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from kafka2011.spark.offset_range import OffsetRange, cuts, share_tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.spark.offset_lookup import OffsetLookup
    from zk.cluster import Broker


class RangePartition(InputPartition):
    """One task's work. Pickled to an executor."""

    def __init__(self, offset_range: OffsetRange, broker: Broker) -> None:
        super().__init__(None)
        self.offset_range = offset_range
        self.broker = broker


def plan(lookup: OffsetLookup, ranges: Sequence[OffsetRange], min_partitions: int) -> list[RangePartition]:
    """Return the tasks that read the ranges; more than one for a range where `min_partitions` wants so many."""
    full = [each for each in ranges if each.size_bytes]
    tasks = share_tasks([each.size_bytes for each in full], min_partitions)
    return [
        RangePartition(part, lookup.broker(each.topic_partition))
        for each, count in zip(full, tasks, strict=True)
        for part in (_cut(lookup, each, count) if count > 1 else [each])
    ]


def _cut(lookup: OffsetLookup, whole: OffsetRange, tasks: int) -> list[OffsetRange]:
    partition = whole.topic_partition
    known = [offset for offset in lookup.bounds(partition).boundaries if whole.start <= offset < whole.end]
    return whole.cut(cuts(whole, tasks, known, lambda base, target: lookup.walk(partition, base, target).offset))
