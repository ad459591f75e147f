"""Tracks when the partition ends that a table has reached were looked up; only windows over by then can be complete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from kafka2011.warehouse.table.commits import WATERMARK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka2011.spark.plan import ResolvedOffsets
    from kafka2011.warehouse.table.commits import Commit
    from zk.cluster import TopicPartition

HOUR_MS = 3_600_000


class WatermarkAccount(Protocol):
    """The audit's knowledge at one load; `counting.Account` is one."""

    def through_ms(self, seen_ms: int, before_ms: int | None) -> int | None:
        """Say through when the topic is complete in the table; None where nobody can tell."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """When each partition's end in the table was looked up; and the time up to which it was complete before."""

    at_ms: Mapping[TopicPartition, int]
    before_ms: int | None

    @classmethod
    def after(cls, newest: Commit | None, resolved: ResolvedOffsets, now_ms: int, before_ms: int | None = None) -> Self:
        """Return that of a load; partitions whose broker is unavailable were seen by an earlier one."""
        stored = {} if newest is None else newest.extra.get(WATERMARK, {})
        away = {partition: int(stored.get(partition.znode_name, 0)) for partition in resolved.away}
        here = {offset_range.topic_partition: now_ms for offset_range in resolved.ranges}
        return cls({**here, **away}, before_ms)

    def through_ms(self, account: WatermarkAccount | None) -> int | None:
        """Say through when the table is complete once it has reached these ends; it may take back what it said."""
        counted_ms = (
            None if account is None else account.through_ms(min(self.at_ms.values(), default=0), self.before_ms)
        )
        return self.before_ms if counted_ms is None else counted_ms

    def to_json(self) -> dict[str, int]:
        """Return what the next load reads."""
        return {partition.znode_name: at_ms for partition, at_ms in sorted(self.at_ms.items())}


def is_news(through_ms: int | None, before_ms: int | None) -> bool:
    """Say whether one more hour is complete, or what was said to be complete is not."""
    if through_ms is None:
        return False
    return through_ms // HOUR_MS > (before_ms or 0) // HOUR_MS or (before_ms is not None and through_ms < before_ms)
