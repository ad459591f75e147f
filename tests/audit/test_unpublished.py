"""What an instance hands out to be published, in the order of its numbers."""

from __future__ import annotations

import numpy as np

from kafka2011.audit.progress import Instance
from kafka2011.audit.progress_report import ProgressReport
from kafka2011.audit.report import AuditReport, Places
from kafka2011.audit.unpublished import UnpublishedReports
from kafka2011.audit.windows import Windows
from zk.cluster import TopicPartition

WHERE = TopicPartition("views", 0, 0)


def read(unpublished: UnpublishedReports, start: int, now_s: float) -> None:
    one = np.array([start], np.int64)
    places = Places(one, np.array([0], np.int32))
    unpublished.count_read(WHERE, one, one.astype(np.uint64), places, (start, start + 1), now_s)


def new_unpublished() -> UnpublishedReports:
    return UnpublishedReports(Instance("live", "one"), Windows(10, 0))


def test_offsets_are_reported_with_all_their_counts() -> None:
    """As long as some are held nothing is said of offsets, and then of all numbers since it was."""
    unpublished = new_unpublished()
    [begun] = unpublished.begin_reader("views", 0)
    assert unpublished.begin_reader("views", 0) == []
    read(unpublished, 0, now_s=1)
    read(unpublished, 50_000, now_s=5)
    [first] = unpublished.take(0, before_s=3)
    assert isinstance(first, AuditReport)
    assert unpublished.take(0, before_s=3) == []
    second, said = unpublished.take(0)
    assert isinstance(said, ProgressReport)
    assert [begun.number, first.number, second.number, said.number] == [0, 1, 2, 3]
    assert said.first == 1
    assert [each[1:] for each in said.reported] == [(0, 1), (50_000, 50_001)]
    assert unpublished.take(0) == []


def test_a_source_speaks_each_window_and_with_each_report() -> None:
    """And is through what it still holds."""
    unpublished = new_unpublished()
    [begun] = unpublished.begin_source("views", 0)
    assert unpublished.take(9_999) == []
    [idle] = unpublished.take(10_000)
    unpublished.count("views", np.array([25_000, 45_000]), np.array([1, 2], np.uint64), 1)
    unpublished.count("views", np.array([65_000]), np.array([3], np.uint64), 5)
    first, second, said = unpublished.take(70_000, before_s=3)
    assert isinstance(idle, ProgressReport)
    assert isinstance(said, ProgressReport)
    assert (begun.through_ms, idle.through_ms, said.through_ms) == (0, 10, 60)
    assert [each.number for each in (begun, idle, first, second, said)] == [0, 1, 2, 3, 4]
