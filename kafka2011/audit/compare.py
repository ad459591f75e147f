"""The comparison: turns reports into an account of every window.

A tier is compared with the one before it message by message, not by totals. A message that the tier before counted and
this one did not is *missing*. One that this tier counted and the tier before did not was *never counted* there: a
counter that dies loses its last counts, and that is not a loss of messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from kafka2011.audit.distinct import distinct, lacking
from kafka2011.audit.report import ID_TYPE, INDEX_TYPE, OFFSET_TYPE
from kafka2011.audit.windows import DEFAULT_GRACE_MS, Windows
from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from kafka2011.audit.report import AuditReport
    from kafka2011.audit.table_report import CommitKey
    from zk.cluster import TopicPartition


class MixedWindowsError(KafkaError):
    """Tiers count in windows of different lengths, so they cannot be compared."""


class TierCount(NamedTuple):
    """One tier's count, compared with the tier before it; the first tier misses nothing.

    `total` counts messages read again after a crash once, and every copy in the log. `missing_since_first` is what is
    missing compared with the very first tier, so that a tier in between that did not report hides no loss.
    """

    tier: str
    total: int
    distinct: int
    missing: int
    never_counted: int
    missing_since_first: int = 0

    @property
    def has_gap(self) -> bool:
        """Whether messages are missing."""
        return bool(self.missing or self.missing_since_first)

    @property
    def repeated(self) -> int:
        """How many messages are copies of others."""
        return self.total - self.distinct


class WindowAccount(NamedTuple):
    """One topic in one window, tier by tier."""

    topic: str
    start_ms: int
    tiers: tuple[TierCount, ...]

    @property
    def has_gap(self) -> bool:
        """Whether a tier misses messages that the tier before it, or the first tier, counted."""
        return any(count.has_gap for count in self.tiers)

    @property
    def is_exact(self) -> bool:
        """Whether every tier counted the same messages, each once."""
        return not any(count.has_gap or count.repeated or count.never_counted for count in self.tiers)


class Counted(NamedTuple):
    """What decides whether a report counts: see `ReceivedReports.belief`. `last_offset` is that of its messages."""

    topic: str
    tier: str
    commit: CommitKey | None
    where: TopicPartition | None
    last_offset: int


class _Entry(NamedTuple):
    """A report, and where its messages are in the file."""

    counted: Counted
    tier: str
    partition: tuple[str, TopicPartition] | None
    messages: int
    position: int
    clock_ms: int


@dataclass(slots=True)
class _Tier:
    """One tier of one window."""

    total: int
    ids: NDArray[np.uint64]  # distinct and sorted


class Ledger:
    """Collects reports, to compare tiers window by window; a file holds the messages, and memory one window.

    So it needs memory for the busiest window, and a few hundred bytes for each report.
    """

    def __init__(self, file: BinaryIO, grace_ms: int = DEFAULT_GRACE_MS) -> None:
        self._file = file
        self._grace_ms = grace_ms
        self._windows: Windows | None = None  # of the length in the reports
        self._end = 0
        self._seen: set[str] = set()
        self._entries: dict[tuple[str, int], list[_Entry]] = defaultdict(list)
        self._sources: dict[str, bool] = {}  # by tier, in order of first appearance: whether it reads from no partition
        self._tiers_of: dict[str, set[str]] = defaultdict(set)
        self._is_believed: Callable[[Counted], bool] = _always

    def believe(self, is_believed: Callable[[Counted], bool]) -> None:
        """Compare only the reports that count, from now on."""
        self._is_believed = is_believed

    def add(self, report: AuditReport) -> bool:
        """Add a report; return False if it was added before. Raises MixedWindowsError."""
        if report.report_id in self._seen:
            return False
        if self._windows is None:
            self._windows = Windows(report.window_ms, self._grace_ms)
        if report.window_ms != self._windows.length_ms:
            raise MixedWindowsError(
                f"tier {report.tier} counts topic {report.topic} in windows of {report.window_ms} ms, and others in"
                f" those of {self._windows.length_ms} ms"
            )
        self._seen.add(report.report_id)
        partition = None if report.where is None else (report.cluster, report.where)
        commit = None if report.part is None else report.part.commit
        last_offset = -1 if report.places is None else int(report.places.offsets.max(initial=-1))
        counted = Counted(report.topic, report.tier, commit, report.where, last_offset)
        entry = _Entry(counted, report.tier, partition, report.count, self._end, report.clock_ms or 0)
        self._entries[report.topic, report.start_ms].append(entry)
        self._sources[report.tier] = self._sources.get(report.tier, False) or partition is None
        self._tiers_of[report.topic].add(report.tier)
        self._file.seek(self._end)
        self._end += self._file.write(report.ids.astype(ID_TYPE, copy=False).tobytes())
        if report.places is not None:
            self._end += self._file.write(report.places.offsets.astype(OFFSET_TYPE, copy=False).tobytes())
            self._end += self._file.write(report.places.indexes.astype(INDEX_TYPE, copy=False).tobytes())
        return True

    @property
    def tiers(self) -> list[str]:
        """Return all tiers: those that read from no partition first, then in order of first appearance."""
        return sorted(self._sources, key=lambda tier: not self._sources[tier])

    @property
    def topics(self) -> list[str]:
        """Return all topics that any tier has counted, sorted."""
        return sorted(self._tiers_of)

    def open_windows(self, now_ms: float) -> int:
        """How many windows, over all topics, cannot be judged yet."""
        return sum(not self._is_closed(start_ms, now_ms) for _, start_ms in self._entries)

    def accounts(
        self,
        now_ms: float,
        tiers: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        sources: Collection[str] = (),
    ) -> Iterator[WindowAccount]:
        """Yield an account of every window that is closed by now, sorted by topic and time.

        With `tiers`, each of them is expected to have counted every topic; by topic, other topics are left out.
        Without, only those that counted the topic, in the order of the property `tiers`. Of several `sources` none
        misses what another one published, and the next tier is compared with all of them together.
        """
        for topic, start_ms in sorted(self._entries):
            if not self._is_closed(start_ms, now_ms) or (isinstance(tiers, Mapping) and topic not in tiers):
                continue
            if isinstance(tiers, Mapping):
                chosen = tiers[topic]
            else:
                chosen = tiers if tiers is not None else [t for t in self.tiers if t in self._tiers_of[topic]]
            counted = self._read(self._entries[topic, start_ms])
            yield WindowAccount(topic, start_ms, tuple(_counts(chosen, counted, sources)))

    def counted_by_ms(self, topic: str, start_ms: int, tier: str) -> int:
        """Return ZooKeeper's time by which all that a tier has counted of a window was in the log; 0 if unknown."""
        entries = self._entries.get((topic, start_ms), ())
        believed = (entry for entry in entries if entry.tier == tier and self._is_believed(entry.counted))
        return max((entry.clock_ms for entry in believed), default=0)

    def missing(self, topic: str, tier: str, until_ms: int) -> Iterator[tuple[int, int]]:
        """Yield each window of a topic that ends by a time, in order, and how many messages a tier misses in it.

        Those are messages that this tier did not count and one that reads from no partition, such as producers, did.
        """
        for start_ms in sorted(start_ms for name, start_ms in self._entries if name == topic):
            if start_ms < self.window_of(until_ms):
                counted = self._read(self._entries[topic, start_ms])
                here = counted.get(tier, _NOTHING).ids
                first = [counted[source].ids for source in counted if source != tier and self._sources[source]]
                yield start_ms, lacking(distinct(np.concatenate([_NOTHING.ids, *first])), here)

    @property
    def window_ms(self) -> int:
        """The length of all windows; the usual one until a report says it."""
        return (self._windows or Windows()).length_ms

    def window_of(self, time_ms: int) -> int:
        """Return the start of the window around a time; the time itself until a report says how long windows are."""
        return time_ms if self._windows is None else time_ms // self._windows.length_ms * self._windows.length_ms

    def _is_closed(self, start_ms: int, now_ms: float) -> bool:
        return self._windows is not None and self._windows.is_closed(start_ms, now_ms)

    def _read(self, entries: list[_Entry]) -> dict[str, _Tier]:
        by_tier: dict[str, dict[tuple[str, TopicPartition] | None, list[_Entry]]] = {}
        for entry in filter(lambda entry: self._is_believed(entry.counted), entries):
            by_tier.setdefault(entry.tier, {}).setdefault(entry.partition, []).append(entry)
        return {tier: self._read_tier(partitions) for tier, partitions in by_tier.items()}

    def _read_tier(self, partitions: dict[tuple[str, TopicPartition] | None, list[_Entry]]) -> _Tier:
        total = 0
        ids: list[NDArray[np.uint64]] = []
        for partition, entries in partitions.items():
            places: list[tuple[NDArray[np.int64], NDArray[np.int32]]] = []
            for entry in entries:
                self._file.seek(entry.position)
                ids.append(np.frombuffer(self._file.read(ID_TYPE.itemsize * entry.messages), ID_TYPE))
                if partition is not None:
                    offsets = np.frombuffer(self._file.read(OFFSET_TYPE.itemsize * entry.messages), OFFSET_TYPE)
                    indexes = np.frombuffer(self._file.read(INDEX_TYPE.itemsize * entry.messages), INDEX_TYPE)
                    places.append((offsets, indexes))
            total += sum(entry.messages for entry in entries) if partition is None else _different(places)
        return _Tier(total, distinct(np.concatenate(ids)))


def _always(_: Counted) -> bool:
    return True


def _different(places: list[tuple[NDArray[np.int64], NDArray[np.int32]]]) -> int:
    """Count the distinct places."""
    offsets = np.concatenate([of_one[0] for of_one in places])
    indexes = np.concatenate([of_one[1] for of_one in places])
    order = np.lexsort((indexes, offsets))
    is_new = (np.diff(offsets[order]) != 0) | (np.diff(indexes[order]) != 0)
    return int(np.count_nonzero(is_new)) + 1


_NOTHING = _Tier(0, np.empty(0, ID_TYPE))


def _counts(tiers: Iterable[str], counted: dict[str, _Tier], sources: Collection[str]) -> Iterator[TierCount]:
    before: _Tier | None = None
    first: _Tier | None = None
    for tier in tiers:
        here = counted.get(tier, _NOTHING)
        if before is not None and tier in sources:
            yield TierCount(tier, here.total, here.ids.size, 0, 0)
            before = first = _Tier(0, distinct(np.concatenate([before.ids, here.ids])))
            continue
        first = here if first is None else first
        both = here.ids.size if before is None else np.intersect1d(before.ids, here.ids, assume_unique=True).size
        missing = 0 if before is None else before.ids.size - both
        since_first = lacking(first.ids, here.ids)
        yield TierCount(tier, here.total, here.ids.size, missing, here.ids.size - both, since_first)
        before = here
