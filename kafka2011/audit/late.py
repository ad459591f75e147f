"""Notices reports of windows that were judged before the reports came: somebody's clock is far behind. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.audit.report import AuditReport

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafka2011.audit.encoding import AnyReport


class LateReports:
    """Notes which tiers count windows from before a time, in reports that came after those windows were judged.

    `judged_ends` say up to which offset of each partition of the topic `audit`, by broker and partition, reports were
    there then. Without them, or without a time, nothing was judged, and nothing is late.
    """

    def __init__(
        self, judged_ends: Mapping[tuple[int, int], int] | None = None, judged_before_ms: int | None = None
    ) -> None:
        self._ends = judged_ends
        self._before_ms = judged_before_ms
        self._first_ms: dict[str, int] = {}  # by tier, the first window

    def note(self, report: AnyReport, place: tuple[int, int], offset: int) -> None:
        """Note a report at an offset of a partition."""
        if self._ends is None or self._before_ms is None or not isinstance(report, AuditReport):
            return
        if report.start_ms < self._before_ms and offset >= self._ends.get(place, 0):
            self._first_ms[report.tier] = min(report.start_ms, self._first_ms.get(report.tier, report.start_ms))

    def tiers(self, among: Collection[str]) -> list[str]:
        """Return those of some tiers that have late reports, sorted."""
        return sorted(self._first_ms.keys() & set(among))

    def first_ms(self, among: Collection[str]) -> int | None:
        """Return when the first window of late reports of some tiers begins, in ms since 1970; None without any."""
        return min((self._first_ms[tier] for tier in self.tiers(among)), default=None)
