"""Holds the reports received from one instance about one topic: their numbers, and what its progress reports prove."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafka2011.audit.progress_report import ProgressReport, Reported
    from kafka2011.audit.report import AuditReport


class _Through(NamedTuple):
    first: int
    number: int
    through_ms: int


@dataclass(slots=True)
class InstanceReports:
    """The reports of one instance about one topic. They may come in any order, and more than once."""

    tier: str
    instance: str
    home: str = ""
    follows: frozenset[str] = frozenset()
    is_source: bool = False
    last_ms: int | None = None
    """When it last reported its progress; None if it only counted, as before there were progress reports."""
    _numbers: set[int] = field(default_factory=set)
    _unnumbered: int = 0
    _through: dict[int, _Through] = field(default_factory=dict)
    _last_number: int | None = None

    def add_report(self, report: AuditReport) -> None:
        """Add one of its reports of counts."""
        self.is_source |= report.where is None
        if report.number is None:
            self._unnumbered += 1
        else:
            self._numbers.add(report.number)

    def add_progress_report(self, progress_report: ProgressReport) -> None:
        """Add one of its progress reports."""
        self._numbers.add(progress_report.number)
        self.home, self.follows = progress_report.home, frozenset(progress_report.follows)
        self.last_ms = progress_report.at_ms if self.last_ms is None else max(self.last_ms, progress_report.at_ms)
        if progress_report.through_ms is not None:
            self.is_source = True
            self._through[progress_report.number] = _Through(
                progress_report.first, progress_report.number, progress_report.through_ms
            )
        if progress_report.is_last:
            self._last_number = progress_report.number

    @property
    def is_numbered(self) -> bool:
        """Whether all its reports are numbered, so that a lost one is noticed."""
        return not self._unnumbered and bool(self._numbers)

    def has_all(self, first: int, last: int) -> bool:
        """Say whether none of these numbers is missing."""
        return all(number in self._numbers for number in range(first, last + 1))

    def missing(self, from_ms: int | None) -> int:
        """Return how many numbers are missing that may count events stamped at `from_ms` or later."""
        base = self._base(from_ms)
        known = sorted(number for number in self._numbers if number >= base)
        return (known[-1] - base + 1 if known else 0) - len(known)

    def through_ms(self, from_ms: int | None) -> int | None:
        """Return the time up to which all it stamped from `from_ms` on (None: ever) is known; None if there is none."""
        through_ms = None
        for progress in self._in_sequence(from_ms):
            through_ms = progress.through_ms if through_ms is None else max(through_ms, progress.through_ms)
        return through_ms

    @property
    def first_ms(self) -> int | None:
        """The earliest time that it stated to be through; None if it stated none."""
        return min((progress.through_ms for progress in self._through.values()), default=None)

    def has_closed(self, from_ms: int | None) -> bool:
        """Say whether it has closed and everything that may matter was read."""
        return self._last_number is not None and self.has_all(self._base(from_ms), self._last_number)

    def _base(self, from_ms: int | None) -> int:
        """Return the first number that may count anything stamped at `from_ms` or later."""
        if from_ms is None:
            return 0
        return max((progress.first for progress in self._through.values() if progress.through_ms <= from_ms), default=0)

    def _in_sequence(self, from_ms: int | None) -> list[_Through]:
        """Return the progress before the first number that is missing."""
        base = self._base(from_ms)
        known = sorted(number for number in self._numbers if number >= base)
        unbroken = base + bisect.bisect_left(range(len(known)), True, key=lambda index: known[index] != base + index)
        return [progress for progress in self._through.values() if progress.number < unbroken]


@dataclass(slots=True)
class ReportedOffsets:
    """How far one partition's offsets were reported without a gap, from the first of which anything was said."""

    spans: list[tuple[int, int]] = field(default_factory=list)
    begin: int | None = None

    def add(self, reported: Reported, *, is_proven: bool = True) -> None:
        """Add reported offsets, which do not count unless all reports of them are there."""
        self.begin = reported.start if self.begin is None else min(self.begin, reported.start)
        if is_proven:
            self.spans.append((reported.start, reported.end))

    def end(self, *, skips_gaps: bool = False) -> int:
        """Return the offset up to which nothing is missing; 0 if nothing was reported."""
        end = 0 if self.begin is None else self.begin
        for start, upto in sorted(self.spans):
            if start > end and not skips_gaps:
                break
            end = max(end, upto)
        return end
