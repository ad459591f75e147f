"""Holds what one instance has counted but not published: counts by window, and its progress in each topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.audit.progress import Instance, Progress
from kafka2011.audit.window_counts import WindowCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from kafka2011.audit.progress_report import ProgressReport
    from kafka2011.audit.report import AuditReport, Places
    from kafka2011.audit.windows import Windows
    from zk.cluster import TopicPartition

    TimedEnds = tuple[int, Mapping[TopicPartition, tuple[int, int] | None]]

FOREVER_S = float("inf")


class UnpublishedReports:
    """Counts and progress of one instance, until `take` hands them out in the order of their numbers. Pure.

    A topic is either a source's, whose events are stamped or counted without places, or a reader's. Not thread-safe.
    """

    def __init__(self, who: Instance, windows: Windows) -> None:
        self._who = who
        self._windows = windows
        self._counts = WindowCounts(who.tier, who.instance, who.cluster, windows)
        self._progress: dict[str, Progress] = {}
        self._sources: set[str] = set()  # the topics for which it is a source
        self._read: set[str] = set()
        self._reported_us: dict[str, int] = {}  # by topic, when a source last stated what it is through

    @property
    def messages(self) -> int:
        """How many messages are held here."""
        return self._counts.messages

    @property
    def windows(self) -> int:
        """How many counts are held: one for each window and partition."""
        return self._counts.windows

    @property
    def read_topics(self) -> list[str]:
        """The topics that are read here."""
        return sorted(self._read)

    def begin_source(self, topic: str, now_us: int) -> list[ProgressReport]:
        """Return what to publish before the first event of a topic; nothing the next time."""
        if topic in self._sources:
            return []
        self._sources.add(topic)
        self._reported_us[topic] = now_us
        return [self._progress_of(topic).through(now_us, None)]

    def begin_reader(self, topic: str, now_us: int, copies: str = "") -> list[ProgressReport]:
        """Return what to publish before the first message of a topic is passed on; nothing the next time.

        With `copies`, reports of the cluster with that id are passed on.
        """
        if topic in self._read:
            return []
        self._read.add(topic)
        return [self._progress_of(topic, copies).covered(now_us // 1000)]

    def _progress_of(self, topic: str, copies: str = "") -> Progress:
        if topic not in self._progress:
            self._progress[topic] = Progress(self._who._replace(copies=copies), topic)
        return self._progress[topic]

    def stamp(self, topic: str, now_us: int) -> int:
        """Return the time to stamp on an event of a topic that has begun."""
        return self._progress[topic].stamp(now_us)

    def ended(self, topic: str, stamped_us: Iterable[int]) -> None:
        """Note that the events stamped with these times were counted or failed."""
        self._progress[topic].ended(stamped_us)

    def uncounted(self, topic: str, stamped_us: Iterable[int]) -> None:
        """Note events that have arrived and can never be counted."""
        self._progress[topic].uncounted(stamped_us)

    def count(self, topic: str, published_at_us: NDArray[np.int64], ids: NDArray[np.uint64], now_s: float) -> None:
        """Count published events."""
        self._counts.add(topic, published_at_us, ids, now_s)

    def count_read(
        self,
        where: TopicPartition,
        published_at_us: NDArray[np.int64],
        ids: NDArray[np.uint64],
        places: Places,
        read: tuple[int, int] | None,
        now_s: float,
    ) -> None:
        """Count messages read from a partition; `read` is the range of offsets read, countable or not."""
        if read is not None:
            self.note_read(where, *read)
        if len(ids):
            self._counts.add(where.topic, published_at_us, ids, now_s, where=where, places=places, read=read)

    def note_read(self, where: TopicPartition, start: int, end: int) -> None:
        """Note that everything between two offsets of a partition is counted."""
        self._progress[where.topic].read(where, start, end)

    def take(
        self,
        now_us: int,
        before_s: float = FOREVER_S,
        ends: Mapping[str, TimedEnds] | None = None,
        *,
        is_last: bool = False,
    ) -> list[AuditReport | ProgressReport]:
        """Return what to publish now, in this order: counts that began before a time, and what they prove.

        `ends` say where each topic's partitions ended, and when that was looked up.
        """
        by_topic: dict[str, list[AuditReport]] = {}
        for report in self._counts.take(before_s):
            by_topic.setdefault(report.topic, []).append(report)
        taken: list[AuditReport | ProgressReport] = []
        for topic, progress in self._progress.items():
            reports = by_topic.get(topic, [])
            taken += progress.number(reports)
            if topic in self._sources:
                is_due = abs(now_us - self._reported_us[topic]) >= self._windows.length_ms * 1000
                if reports or is_due or is_last:
                    self._reported_us[topic] = now_us
                    taken.append(progress.through(now_us, self._counts.first_ms(topic), is_last=is_last))
            if topic in self._read:
                timed_ends = (ends or {}).get(topic)
                if before_s == FOREVER_S and (progress.has_read or timed_ends is not None or is_last):
                    taken.append(progress.covered(now_us // 1000, *(timed_ends or (None, None)), is_last=is_last))
        return taken
