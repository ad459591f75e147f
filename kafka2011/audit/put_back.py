"""Notices that a cluster's topic audit was put back to an earlier copy: it ends before where it ended already. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kafka2011.audit.progress_report import ProgressReport
    from zk.cluster import TopicPartition


class BeforePutBack(NamedTuple):
    """The progress reports that hold although reports may be lost since; and whether any may be."""

    progress_reports: list[ProgressReport]
    is_put_back: bool


def before_put_back(progress_reports: Collection[ProgressReport], accepted_ms: int | None) -> BeforePutBack:
    """Leave out what mirrors said after the log of their source was put back, unless that was accepted since.

    A mirror looks up the ends after it has begun. So they are no lower than those that it has seen before, nor than
    those that others had reported by then, by the clock of the cluster that they all report to.
    """
    lost_ms = min(_lost_since(progress_reports, accepted_ms), default=None)
    if lost_ms is None:
        return BeforePutBack(list(progress_reports), False)
    return BeforePutBack([each for each in progress_reports if (each.ends_at_ms or 0) <= lost_ms], True)


def _lost_since(progress_reports: Collection[ProgressReport], accepted_ms: int | None) -> Iterator[int]:
    """Yield when ends were looked up for the last time before each that is lower; 0 if nobody knows."""
    by_instance: dict[str, list[ProgressReport]] = defaultdict(list)
    for progress in progress_reports:
        by_instance[progress.instance].append(progress)
    # Of whom the first word is not known, nobody knows when it began: its looks may be older than any other word of it.
    begun_ms_of = dict.fromkeys(by_instance, 0)
    begun_ms_of |= {each.instance: each.clock_ms or 0 for each in progress_reports if each.number == 0}
    begun = sorted((begun_ms, instance) for instance, begun_ms in begun_ms_of.items())
    timed = sorted((each for each in progress_reports if each.ends), key=lambda each: each.clock_ms or 0)
    others, place = _Highest(accepted_ms), 0
    for begun_ms, instance in begun:
        while place < len(timed) and (timed[place].clock_ms or 0) < begun_ms:
            others.note(timed[place])
            place += 1
        seen = others.copy()
        for progress in sorted(by_instance[instance], key=lambda each: each.number):
            if seen.is_above(progress):
                yield seen.last_ms
                break
            seen.note(progress)


class _Highest:
    """How far partitions were seen to reach; what was accepted is believed as it is."""

    def __init__(self, accepted_ms: int | None) -> None:
        self._accepted_ms = accepted_ms
        self._ends: dict[TopicPartition, int] = {}
        self.last_ms = 0
        """When ends were looked up last."""

    def copy(self) -> _Highest:
        found = _Highest(self._accepted_ms)
        found._ends, found.last_ms = dict(self._ends), self.last_ms
        return found

    def is_above(self, progress: ProgressReport) -> bool:
        is_lower = any(end is not None and end < self._ends.get(where, 0) for where, _, end in progress.ends)
        return is_lower and not self._is_accepted(progress)

    def note(self, progress: ProgressReport) -> None:
        is_accepted = self._is_accepted(progress)
        for where, _, end in progress.ends:
            if end is not None:
                self._ends[where] = end if is_accepted else max(end, self._ends.get(where, 0))
        self.last_ms = max(self.last_ms, progress.ends_at_ms or 0)

    def _is_accepted(self, progress: ProgressReport) -> bool:
        return self._accepted_ms is not None and progress.at_ms <= self._accepted_ms
