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

from kafka2011.admin.snapshot.lag_history import LagHistory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafka2011.admin.snapshot.cluster_snapshot import GroupPartition
    from zk.cluster import TopicPartition

LOOKS = 10
LOOK_S = 10.0
"""Longer than most members take between two commits: a look that sees none would say nothing."""
_POINTS = 60

OK, LEARNING, SLOW, REWOUND, STALLED, STOPPED = "ok", "learning", "slow", "rewound", "stalled", "stopped"
SEVERITY = (OK, LEARNING, SLOW, REWOUND, STALLED, STOPPED)
"""From good to bad; a group is as bad as its worst partition."""


class CommitSample(NamedTuple):
    """An offset, the version of its znode, and how many bytes were behind it."""

    offset: int
    version: int
    lag_bytes: int


def judge(samples: Iterable[CommitSample]) -> str:
    """Judge the last samples of a partition, oldest first."""
    every = list(samples)
    if any(sample.lag_bytes <= 0 for sample in every):
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
    """Remembers how far each partition of each group was behind. For one thread."""

    def __init__(self) -> None:
        self.paces = LagHistory()
        self.samples: dict[tuple[str, TopicPartition], deque[CommitSample]] = {}
        self._sampled_s = 0.0
        self._points: dict[str, deque[int]] = {}
        self._lags: dict[str, dict[TopicPartition, Lag]] = {}

    def note(self, groups: Mapping[str, Sequence[GroupPartition]], now_s: float) -> None:
        """Note the partitions of all groups as they were just read; every `LOOK_S` they are samples for verdicts."""
        is_sample = not self.samples or now_s - self._sampled_s >= LOOK_S
        if is_sample:
            self._sampled_s = now_s
        kept = {(name, row.where) for name, rows in groups.items() for row in rows if row.committed is not None}
        for gone in self.samples.keys() - kept:
            del self.samples[gone]
        self.paces.forget_others(kept)
        self._points = {name: points for name, points in self._points.items() if name in groups}
        self._lags = {}
        for name, rows in groups.items():
            lags = self._lags[name] = {
                row.where: self._lag(name, row, now_s, is_sample=is_sample)
                for row in rows
                if row.committed is not None and row.end is not None
            }
            if is_sample:
                total = sum(lag.lag_bytes or 0 for lag in lags.values())
                self._points.setdefault(name, deque(maxlen=_POINTS)).append(total)

    def _lag(self, group: str, row: GroupPartition, now_s: float, *, is_sample: bool) -> Lag:
        assert row.committed is not None
        assert row.end is not None
        assert row.commit_version is not None
        end = max(row.end, row.committed)  # it was read a moment before the offset
        pace = self.paces.note(group, row if end == row.end else row._replace(end=end), now_s)
        samples = self.samples.setdefault((group, row.where), deque(maxlen=LOOKS))
        if is_sample:
            samples.append(CommitSample(row.committed, row.commit_version, end - row.committed))
        return Lag(end - row.committed, pace.lag_s, judge(samples))

    def lag(self, group: str, where: TopicPartition) -> Lag:
        """Return what is known of a partition."""
        return self._lags.get(group, {}).get(where, UNKNOWN)

    def points(self, group: str) -> list[int]:
        """Return how many bytes a group was behind, sample by sample, of the last ten minutes."""
        return list(self._points.get(group, ()))
