"""How fast partitions grow and a group follows, and about how many seconds it is behind, from looking repeatedly. Pure.

Nothing in a log says when a message was appended. But who has watched a log grow knows when it ended where the group is
now, and how fast it grows says about how long ago that was if it was before that.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.admin.snapshot.cluster_snapshot import Pace

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from kafka2011.admin.snapshot.cluster_snapshot import GroupPartition
    from zk.cluster import TopicPartition

SPAN_S = 60.0
"""How far back it looks: offsets move only when they are committed, so rates of less would jump."""


class _LagSample(NamedTuple):
    at_s: float
    committed: int
    end: int


class LagHistory:
    """Remembers where each partition of each group was in the last minute."""

    def __init__(self) -> None:
        self.samples: dict[tuple[str, TopicPartition], deque[_LagSample]] = {}

    def forget_others(self, known: Set[tuple[str, TopicPartition]]) -> None:
        """Forget all but these partitions of groups."""
        for gone in self.samples.keys() - known:
            del self.samples[gone]

    def paced(self, group: str, partitions: Iterable[GroupPartition], now_s: float) -> list[GroupPartition]:
        """Note what a group's partitions are like now, and return them with their paces."""
        return [partition._replace(pace=self.note(group, partition, now_s)) for partition in partitions]

    def note(self, group: str, partition: GroupPartition, now_s: float) -> Pace:
        """Note what a partition is like now, and return how it has moved since a minute ago, or the first look."""
        if partition.committed is None or partition.end is None:
            self.samples.pop((group, partition.where), None)
            return Pace()
        samples = self.samples.setdefault((group, partition.where), deque())
        if samples and (partition.end < samples[-1].end or partition.committed < samples[-1].committed):
            samples.clear()  # a log that was lost, or offsets that were moved
        samples.append(_LagSample(now_s, partition.committed, partition.end))
        while now_s - samples[0].at_s > SPAN_S:
            samples.popleft()
        first, last = samples[0], samples[-1]
        elapsed_s = last.at_s - first.at_s
        if not elapsed_s:
            return Pace(lag_s=0.0 if last.end == last.committed else None)
        appended = (last.end - first.end) / elapsed_s
        return Pace(appended, (last.committed - first.committed) / elapsed_s, _lag_s(samples, appended))


def _lag_s(samples: deque[_LagSample], appended_bytes_per_s: float) -> float | None:
    """Say about how long ago the log ended where the group is now."""
    now_s, committed, end = samples[-1]
    if committed >= end:
        return 0.0
    for before, after in pairwise(samples):
        if before.end <= committed < after.end:
            part = (committed - before.end) / (after.end - before.end)
            return now_s - (before.at_s + part * (after.at_s - before.at_s))
    if not appended_bytes_per_s:
        return None
    return now_s - samples[0].at_s + (samples[0].end - committed) / appended_bytes_per_s
