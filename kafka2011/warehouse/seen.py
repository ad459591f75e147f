"""When the ends of partitions were seen that a table has reached: by that time a window must be over to be complete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka2011.spark.plan import ResolvedOffsets
    from kafka2011.warehouse.commits import Commit
    from zk.cluster import TopicPartition

SEEN = "seen_ms"
"""The name of it among what is written down with a commit."""
HOUR_MS = 3_600_000


class Account(Protocol):
    """What the audit knows at one load; `counting.Account` is one."""

    def through_ms(self, offsets: Mapping[TopicPartition, int], seen_ms: int, from_ms: int | None) -> int | None:
        """Say through when the topic is complete in a table that has everything before these offsets."""


@dataclass(frozen=True, slots=True)
class Seen:
    """When the end was seen that the table has now, of each partition; and through when it was complete before."""

    at_ms: Mapping[TopicPartition, int]
    before_ms: int | None

    @classmethod
    def after(cls, newest: Commit | None, resolved: ResolvedOffsets, now_ms: int) -> Self:
        """Partitions that were just asked are seen now; those of brokers that are away were seen at an earlier load."""
        stored = {} if newest is None else newest.extra.get(SEEN, {})
        away = {each: int(stored.get(each.znode_name, 0)) for each in resolved.away}
        here = {each.topic_partition: now_ms for each in resolved.ranges}
        return cls({**here, **away}, None if newest is None else newest.complete_through_ms)

    def through_ms(self, account: Account | None, offsets: Mapping[TopicPartition, int]) -> int | None:
        """Say through when the table is complete once it has everything before these offsets; never goes back."""
        if account is None:
            return self.before_ms
        found = account.through_ms(offsets, min(self.at_ms.values(), default=0), self.before_ms)
        return max((each for each in (found, self.before_ms) if each is not None), default=None)

    def to_json(self) -> dict[str, int]:
        """Return what the next load reads."""
        return {each.znode_name: at_ms for each, at_ms in sorted(self.at_ms.items())}


def is_hour_later(through_ms: int | None, before_ms: int | None) -> bool:
    """Say whether one more hour is complete."""
    return through_ms is not None and through_ms // HOUR_MS > (before_ms or 0) // HOUR_MS
