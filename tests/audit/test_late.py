"""Which reports are late: those of windows that were judged before the reports came."""

from __future__ import annotations

import numpy as np
import pytest

from kafka2011.audit.late import LateReports
from kafka2011.audit.progress import Instance, Progress
from kafka2011.audit.report import AuditReport

ENDS = {(0, 0): 100, (1, 0): 50}
BEFORE_MS = 1000


def report_of(start_ms: int, tier: str = "producer") -> AuditReport:
    ids = np.array([1], np.uint64)
    return AuditReport(tier=tier, instance="p", topic="views", window_ms=10, start_ms=start_ms, ids=ids)


@pytest.mark.parametrize(
    ("place", "offset", "start_ms", "is_late"),
    [
        ((0, 0), 100, 990, True),
        ((0, 0), 99, 990, False),
        ((0, 0), 100, 1000, False),
        ((1, 0), 50, 990, True),
        ((2, 0), 0, 990, True),
    ],
)
def test_what_comes_behind_the_ends_of_windows_before_a_time_is_late(
    place: tuple[int, int], offset: int, start_ms: int, is_late: bool
) -> None:
    """A partition of which no end is known was not there: all in it has come since."""
    late = LateReports(ENDS, BEFORE_MS)
    late.note(report_of(start_ms), place, offset)
    assert late.tiers(["producer"]) == (["producer"] if is_late else [])


def test_the_first_window_counts_of_the_tiers_that_matter() -> None:
    late = LateReports(ENDS, BEFORE_MS)
    for start_ms, tier in ((500, "producer"), (300, "collect"), (900, "collect"), (100, "load")):
        late.note(report_of(start_ms, tier), (0, 0), 200)
    assert late.tiers(["collect", "producer", "other"]) == ["collect", "producer"]
    assert late.first_ms(["collect", "producer"]) == 300
    assert late.first_ms(["other"]) is None


@pytest.mark.parametrize("late", [LateReports(), LateReports(ENDS), LateReports(None, BEFORE_MS)])
def test_where_nothing_was_judged_nothing_is_late(late: LateReports) -> None:
    late.note(report_of(0), (0, 0), 200)
    assert late.tiers(["producer"]) == []


def test_progress_is_never_late() -> None:
    """It counts nothing."""
    late = LateReports(ENDS, BEFORE_MS)
    late.note(Progress(Instance("producer", "p"), "views").through(0, None), (0, 0), 200)
    assert late.tiers(["producer"]) == []
