"""Tracks an instance's progress in one topic: the numbers it has given out, and what it may report."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.audit.progress_report import Ends, ProgressReport, Reported

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafka2011.audit.report import AuditReport
    from zk.cluster import TopicPartition


class Instance(NamedTuple):
    """The instance that reports; see `ProgressReport`."""

    tier: str
    instance: str
    home: str = ""
    cluster: str = ""
    follows: tuple[str, ...] = ()
    copies: str = ""


class Progress:
    """Numbers what one instance publishes on one topic, and makes its progress reports. Pure; not thread-safe.

    For a source: `stamp` each event, and call `ended` once it was counted or has failed; `through` then returns what it
    may report. For a reader: `read` what is counted, and `covered` once numbered reports hold all of that.
    """

    def __init__(self, who: Instance, topic: str) -> None:
        self._who = who
        self._topic = topic
        self._next = 0
        self._floor_us: int | None = None  # the last `through`: nothing is stamped before it
        self._under_way: Counter[int] = Counter()  # stamped but not ended
        self._uncounted_us: int | None = None  # the first stamp of what will never be counted
        self._counted_until: dict[int, int] = {}  # by number, the end of the newest window that it counts
        self._uncovered = 0  # the first number that no report of offsets covers
        self._read: dict[TopicPartition, list[list[int]]] = {}
        self._position: dict[TopicPartition, int] = {}  # where the last read of a partition ended

    @property
    def has_read(self) -> bool:
        """Whether offsets were read that no report names yet."""
        return bool(self._read)

    # What a source does ----------------------------------------------------------------------------------------------

    def stamp(self, now_us: int) -> int:
        """Return the time to stamp on an event, which counts as under way from now on."""
        stamped_us = now_us if self._floor_us is None else max(now_us, self._floor_us)
        self._under_way[stamped_us] += 1
        return stamped_us

    def ended(self, stamped_us: Iterable[int]) -> None:
        """Note events as counted or failed."""
        for event_us in stamped_us:
            left = self._under_way[event_us] - 1
            if left > 0:
                self._under_way[event_us] = left
            else:
                del self._under_way[event_us]

    def uncounted(self, stamped_us: Iterable[int]) -> None:
        """Note events that arrived but will never be counted: `through` never gets past their time."""
        known = [] if self._uncounted_us is None else [self._uncounted_us]
        self._uncounted_us = min([*stamped_us, *known], default=None)

    def through(self, now_us: int, held_ms: int | None, *, is_last: bool = False) -> ProgressReport:
        """State up to when all is counted; `held_ms` is the first window with counts not numbered yet."""
        bounds_us = [now_us, *self._under_way]
        if held_ms is not None:
            bounds_us.append(held_ms * 1000)
        if self._uncounted_us is not None:
            bounds_us.append(self._uncounted_us)
        through_us = min(bounds_us)
        if self._floor_us is not None:
            through_us = max(through_us, self._floor_us)
        self._floor_us = through_us
        through_ms = through_us // 1000
        self._counted_until = {number: end for number, end in self._counted_until.items() if end > through_ms}
        is_closed = is_last and not self._under_way and self._uncounted_us is None
        first = min(self._counted_until, default=self._next)
        return self._say(now_us // 1000, first, through_ms=through_ms, is_last=is_closed)

    # What a reader does ----------------------------------------------------------------------------------------------

    def read(self, where: TopicPartition, start: int, end: int) -> None:
        """Note offsets that were read and whose messages are counted."""
        self._position[where] = end
        known = self._read.setdefault(where, [])
        if known and known[-1][0] <= start <= known[-1][1]:
            known[-1][1] = max(known[-1][1], end)
        else:
            known.append([start, end])

    def covered(
        self,
        now_ms: int,
        ends_at_ms: int | None = None,
        ends: Mapping[TopicPartition, tuple[int, int] | None] | None = None,
        *,
        is_last: bool = False,
    ) -> ProgressReport:
        """State what was read, all of it numbered by now, and where partitions ended, if that was looked up.

        A partition that was read to its end stands there each time: whoever reads only the last reports has to know it.
        """
        for where, bounds in (ends or {}).items():
            if bounds is not None and bounds[1] == self._position.get(where) and where not in self._read:
                self._read[where] = [[bounds[1], bounds[1]]]
        reported = tuple(Reported(where, *span) for where, spans in sorted(self._read.items()) for span in spans)
        self._read.clear()
        if self._floor_us is None:  # only a source uses it
            self._counted_until.clear()
        first, self._uncovered = self._uncovered, self._next + 1
        looked_up = tuple(Ends(where, *(bounds or (None, None))) for where, bounds in sorted((ends or {}).items()))
        return self._say(now_ms, first, reported=reported, ends_at_ms=ends_at_ms, ends=looked_up, is_last=is_last)

    # Both ------------------------------------------------------------------------------------------------------------

    def number(self, reports: Sequence[AuditReport]) -> list[AuditReport]:
        """Give numbers to reports of the topic, in the order in which they are published."""
        numbered = []
        for report in reports:
            self._counted_until[self._next] = report.start_ms + report.window_ms
            numbered.append(replace(report, number=self._next))
            self._next += 1
        return numbered

    def _say(
        self,
        at_ms: int,
        first: int,
        *,
        through_ms: int | None = None,
        is_last: bool = False,
        reported: tuple[Reported, ...] = (),
        ends_at_ms: int | None = None,
        ends: tuple[Ends, ...] = (),
    ) -> ProgressReport:
        number = self._next
        self._next += 1
        return ProgressReport(
            tier=self._who.tier,
            instance=self._who.instance,
            topic=self._topic,
            number=number,
            first=first,
            at_ms=at_ms,
            home=self._who.home,
            follows=self._who.follows,
            cluster=self._who.cluster,
            copies=self._who.copies,
            through_ms=through_ms,
            is_last=is_last,
            reported=reported,
            ends_at_ms=ends_at_ms,
            ends=ends,
        )
