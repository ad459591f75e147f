"""What tiers have read of a topic, as their progress reports prove: up to when, and when the next log had it. Pure."""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kafka2011.audit.progress_report import ProgressReport
    from zk.cluster import TopicPartition


class Read(NamedTuple):
    """All that was in the log at `ends_ms` was read, and all that came of it was in the next log by `said_ms`."""

    ends_ms: int
    said_ms: int


class PassedOffsets:
    """By when a tier had passed on which offsets of partitions, as its progress reports say.

    A reader goes on where all before was reported. So whoever reports an offset shows that those before it were read.
    """

    def __init__(self, progress_reports: Iterable[ProgressReport]) -> None:
        passed: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
        for progress in progress_reports:
            for where, _, end in progress.reported:
                passed[where].append((end, progress.clock_ms or 0))
        self._ends: dict[TopicPartition, list[int]] = {}
        self._by_ms: dict[TopicPartition, list[int]] = {}
        for where, found in passed.items():
            found.sort()
            self._ends[where] = [end for end, _ in found]
            self._by_ms[where] = _first_after([clock_ms for _, clock_ms in found])

    def read_of(self, progress: ProgressReport) -> Read:
        """Return what a progress report proves that names ends which are all reported."""
        assert progress.ends_at_ms is not None
        by_ms = 0
        for where, _, end in progress.ends:
            ends = self._ends.get(where, [])
            index = bisect.bisect_left(ends, end or 0)
            if index < len(ends):  # else it is empty, or accepted
                by_ms = max(by_ms, self._by_ms[where][index])
        return Read(progress.ends_at_ms, by_ms)


def _first_after(times_ms: list[int]) -> list[int]:
    """Return for each place the earliest of the times from there on."""
    return list(itertools.accumulate(reversed(times_ms), min))[::-1]


class ClusterReads:
    """What a tier has read of a topic in the cluster with the id `source`, empty if no report tells it.

    A mirror reports to the cluster that it copies to, `home`, and other readers to the one that they read from.
    """

    def __init__(self, tier: str, source: str, home: str, reads: Iterable[Read]) -> None:
        self.tier = tier
        self.source = source
        self.home = home
        found = sorted(reads)
        self._ends_ms = [read.ends_ms for read in found]
        self._first_said_ms = _first_after([read.said_ms for read in found])

    def passed_ms(self, need_ms: int) -> int | None:
        """Return the first `said_ms` of those that had read what was in the log at a time; None if there is none."""
        index = bisect.bisect_left(self._ends_ms, need_ms)
        return self._first_said_ms[index] if index < len(self._ends_ms) else None


class Flow:
    """How events of a topic go from cluster to cluster, and by when tiers have read them. Clocks are ZooKeepers'.

    What was in a log could be read `visible_ms` later at the latest.
    """

    def __init__(self, reads: Iterable[ClusterReads], visible_ms: int) -> None:
        self._reads = list(reads)
        self._mirrors = [each for each in self._reads if each.source not in {"", each.home}]
        self._visible_ms = visible_ms

    def has_passed(self, tier: str, homes: Collection[str], need_ms: int) -> bool:
        """Say whether a tier has surely read all that was in the logs of some clusters at a time.

        Where an event may come by several ways, all of them have to be read. Releases that reported no time of
        ZooKeeper are believed: for them it is 0.
        """
        if not need_ms:
            return True
        readers = [each for each in self._reads if each.tier == tier]
        for home in homes:
            times = self._arrivals(home, need_ms)
            ways = [(reads, times[reads.source or home]) for reads in readers if (reads.source or home) in times]
            if not ways:
                return False
            for reads, at_ms in ways:
                if at_ms is None or reads.passed_ms(at_ms + self._visible_ms) is None:
                    return False
        return True

    def _arrivals(self, home: str, need_ms: int) -> dict[str, int | None]:
        """Return by when all that was in a cluster's log at a time was in those that mirrors copy to; None: not yet."""
        times: dict[str, int | None] = {home: need_ms}
        for _ in self._mirrors:  # as many steps as there may be
            for mirror in self._mirrors:
                at_ms = times.get(mirror.source)
                if mirror.source not in times or mirror.home == home:
                    continue
                passed_ms = None if at_ms is None else mirror.passed_ms(at_ms + self._visible_ms)
                known_ms = times.get(mirror.home, 0)
                times[mirror.home] = None if passed_ms is None or known_ms is None else max(passed_ms, known_ms)
        return times
