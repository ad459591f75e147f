"""How far groups are behind: bytes, about how many seconds, and whether they keep up, judged without thresholds. Pure.

The rules are those of LinkedIn's Burrow, for looks at a fixed pace in place of commits, since a consumer of 0.7 commits
only when it has moved. A partition is judged by its last ten looks:

1. The group was at the end in one of them: all is well.
2. The offset went back: rewound.
3. The offset stayed, and the lag never became less: stopped if nothing was committed at all, else stalled.
4. The offset moves, but the lag never became less, and is more than it was: slow.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.admin.groups import GroupPartition
from kafka2011.admin.snapshot.lag_history import LagHistory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka2011.admin.snapshot.cluster_snapshot import Ends, SeenGroup
    from zk.cluster import TopicPartition

LOOKS = 10
LOOK_S = 10.0
"""Longer than most members take between two commits: a look that sees none would say nothing."""
_POINTS = 60

OK, LEARNING, SLOW, REWOUND, STALLED, STOPPED = "ok", "learning", "slow", "rewound", "stalled", "stopped"
SEVERITY = (OK, LEARNING, SLOW, REWOUND, STALLED, STOPPED)
"""From good to bad; a group is as bad as its worst partition."""


class Look(NamedTuple):
    """An offset, the version of its znode, and how many bytes were behind it."""

    offset: int
    version: int
    lag_bytes: int


def judge(looks: Iterable[Look]) -> str:
    """Judge the last looks at a partition, oldest first."""
    every = list(looks)
    if any(each.lag_bytes <= 0 for each in every):
        return OK
    if any(after.offset < before.offset for before, after in pairwise(every)):
        return REWOUND
    if len(every) < LOOKS:
        return LEARNING
    first, last = every[0], every[-1]
    if any(after.lag_bytes < before.lag_bytes for before, after in pairwise(every)):
        return OK
    if last.offset == first.offset:
        return STOPPED if last.version == first.version else STALLED
    return SLOW if last.lag_bytes > first.lag_bytes else OK


class Lag(NamedTuple):
    """One partition of a group. None: not known."""

    lag_bytes: int | None
    lag_s: float | None
    state: str


UNKNOWN = Lag(None, None, LEARNING)


class LagBook:
    """Remembers what was seen of each partition of each group. For one thread."""

    def __init__(self) -> None:
        self._paces = LagHistory()
        self._looks: dict[tuple[str, TopicPartition], deque[Look]] = {}
        self._looked_s = 0.0
        self._points: dict[str, deque[int]] = {}
        self._lags: dict[str, dict[TopicPartition, Lag]] = {}

    def note(self, groups: Mapping[str, SeenGroup], ends: Mapping[TopicPartition, Ends], now_s: float) -> None:
        """Note what was just read. Looks for the judgement are taken from it at their own pace."""
        is_look = not self._looks or now_s - self._looked_s >= LOOK_S
        if is_look:
            self._looked_s = now_s
        kept = {(name, where) for name, group in groups.items() for where in group.offsets}
        for name, where in self._looks.keys() - kept:
            del self._looks[name, where]
            self._paces.note(name, GroupPartition(where, None, None, None), now_s)  # which forgets it
        self._points = {name: points for name, points in self._points.items() if name in groups}
        self._lags = {}
        for name, group in groups.items():
            found = self._lags[name] = {}
            for where, committed in group.offsets.items():
                if where not in ends:
                    continue
                end = max(ends[where].end, committed.offset)  # it was read a moment before the offset
                pace = self._paces.note(name, GroupPartition(where, None, committed.offset, end), now_s)
                looks = self._looks.setdefault((name, where), deque(maxlen=LOOKS))
                if is_look:
                    looks.append(Look(committed.offset, committed.version, end - committed.offset))
                found[where] = Lag(end - committed.offset, pace.lag_s, judge(looks))
            if is_look:
                total = sum(each.lag_bytes or 0 for each in found.values())
                self._points.setdefault(name, deque(maxlen=_POINTS)).append(total)

    def lag(self, group: str, where: TopicPartition) -> Lag:
        """Return what is known of a partition."""
        return self._lags.get(group, {}).get(where, UNKNOWN)

    def points(self, group: str) -> list[int]:
        """Return how many bytes a group was behind, look by look, of the last ten minutes."""
        return list(self._points.get(group, ()))
