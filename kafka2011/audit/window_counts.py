"""Counts that a counter holds until they are reported, by topic, partition and window."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka2011.audit.distinct import distinct
from kafka2011.audit.report import INDEX_TYPE, OFFSET_TYPE, AuditReport, Places, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kafka2011.audit.windows import Windows
    from zk.cluster import TopicPartition


class _Key(NamedTuple):
    topic: str
    where: TopicPartition | None
    start_ms: int


@dataclass(slots=True)
class _Count:
    """One window of one topic, or of one partition of it."""

    since_s: float
    ids: list[NDArray[np.uint64]] = field(default_factory=list)
    offsets: list[NDArray[np.int64]] = field(default_factory=list)
    indexes: list[NDArray[np.int32]] = field(default_factory=list)
    start_offset: int | None = None
    end_offset: int | None = None


class WindowCounts:
    """Counts by window, for one instance of one tier. Not thread-safe.

    `messages` is how many it holds, 8 bytes of memory each, 20 with places. Times are those of a steady clock.
    """

    def __init__(self, tier: str, instance: str, cluster: str, windows: Windows) -> None:
        self._tier = tier
        self._instance = instance
        self._cluster = cluster
        self._windows = windows
        self._counts: dict[_Key, _Count] = {}
        self.messages = 0

    @property
    def windows(self) -> int:
        """How many counts it holds: one for each window and partition."""
        return len(self._counts)

    def first_ms(self, topic: str) -> int | None:
        """Return the oldest window for which it holds counts of a topic; None if there is none."""
        return min((key.start_ms for key in self._counts if key.topic == topic), default=None)

    def add(
        self,
        topic: str,
        published_at_us: NDArray[np.int64],
        ids: NDArray[np.uint64],
        now_s: float,
        *,
        where: TopicPartition | None = None,
        places: Places | None = None,
        read: tuple[int, int] | None = None,
    ) -> None:
        """Count messages. Those of a partition come with their places, and the range of offsets that was read."""
        starts_ms = self._windows.starts_ms(published_at_us)
        for start_ms in distinct(starts_ms):
            chosen = starts_ms == start_ms
            count = self._counts.setdefault(_Key(topic, where, int(start_ms)), _Count(now_s))
            count.ids.append(ids[chosen])
            if places is not None:
                count.offsets.append(places.offsets[chosen])
                count.indexes.append(places.indexes[chosen])
            if read is not None:
                count.start_offset = read[0] if count.start_offset is None else min(read[0], count.start_offset)
                count.end_offset = read[1] if count.end_offset is None else max(read[1], count.end_offset)
        self.messages += len(ids)

    def take(self, before_s: float = float("inf")) -> list[AuditReport]:
        """Return reports of all counts that began before a time, and drop those counts."""
        due = [key for key, count in self._counts.items() if count.since_s < before_s]
        reports = [report for key in due for report in self._reports(key, self._counts.pop(key))]
        self.messages -= sum(report.count for report in reports)
        return reports

    def _reports(self, key: _Key, count: _Count) -> Iterator[AuditReport]:
        ids = np.concatenate(count.ids)
        offsets = np.concatenate(count.offsets) if key.where is not None else np.empty(0, OFFSET_TYPE)
        indexes = np.concatenate(count.indexes) if key.where is not None else np.empty(0, INDEX_TYPE)
        for part in parts_of(len(ids)):
            yield AuditReport(
                tier=self._tier,
                instance=self._instance,
                topic=key.topic,
                window_ms=self._windows.length_ms,
                start_ms=key.start_ms,
                ids=ids[part],
                cluster=self._cluster,
                where=key.where,
                start_offset=count.start_offset,
                end_offset=count.end_offset,
                places=None if key.where is None else Places(offsets[part], indexes[part]),
            )
