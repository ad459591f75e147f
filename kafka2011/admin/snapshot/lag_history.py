"""How fast partitions grow and a group follows, and about how many seconds it is behind, from looking repeatedly. Pure.

Nothing in a log says when a message was appended. But who has watched a log grow knows when it ended where the group is
now, and how fast it grows says about how long ago that was if it was before that.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Set

    from kafka2011.admin.groups import GroupPartition
    from zk.cluster import TopicPartition

SPAN_S = 60.0
"""How far back it looks: offsets move only when they are committed, so rates of less would jump."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Rates, and an estimate of the lag; None while nothing is known."""

    appended_bytes_per_s: float | None = None
    committed_bytes_per_s: float | None = None
    lag_s: float | None = None


class _Seen(NamedTuple):
    at_s: float
    committed: int
    end: int


class LagHistory:
    """Remembers what was seen of each partition of each group in the last minute."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, TopicPartition], deque[_Seen]] = {}

    def forget_others(self, known: Set[tuple[str, TopicPartition]]) -> None:
        """Forget all but these partitions of groups."""
        for gone in self._seen.keys() - known:
            del self._seen[gone]

    def note(self, group: str, found: GroupPartition, now_s: float) -> Pace:
        """Note what a partition is like now, and return how it has moved since a minute ago, or the first look."""
        if found.committed is None or found.end is None:
            self._seen.pop((group, found.where), None)
            return Pace()
        seen = self._seen.setdefault((group, found.where), deque())
        if seen and (found.end < seen[-1].end or found.committed < seen[-1].committed):
            seen.clear()  # a log that was lost, or offsets that were moved
        seen.append(_Seen(now_s, found.committed, found.end))
        while now_s - seen[0].at_s > SPAN_S:
            seen.popleft()
        first, last = seen[0], seen[-1]
        elapsed_s = last.at_s - first.at_s
        if not elapsed_s:
            return Pace(lag_s=0.0 if last.end == last.committed else None)
        appended = (last.end - first.end) / elapsed_s
        return Pace(appended, (last.committed - first.committed) / elapsed_s, _lag_s(seen, appended))


def _lag_s(seen: deque[_Seen], appended_bytes_per_s: float) -> float | None:
    """Say about how long ago the log ended where the group is now."""
    now_s, committed, end = seen[-1]
    if committed >= end:
        return 0.0
    for before, after in pairwise(seen):
        if before.end <= committed < after.end:
            part = (committed - before.end) / (after.end - before.end)
            return now_s - (before.at_s + part * (after.at_s - before.at_s))
    if not appended_bytes_per_s:
        return None
    return now_s - seen[0].at_s + (seen[0].end - committed) / appended_bytes_per_s
