"""Counts by window: what is held until it is reported."""

from __future__ import annotations

import numpy as np
import pytest

from kafka2011.audit.report import MAX_REPORT_MESSAGES, Places, short_ids
from kafka2011.audit.window_counts import WindowCounts
from kafka2011.audit.windows import Windows
from zk.cluster import TopicPartition

WHERE = TopicPartition("views", 2, 1)
IDS = np.arange(10, dtype=np.uint64)


@pytest.fixture
def counts() -> WindowCounts:
    return WindowCounts("live", "one", "east", Windows(10))


def test_each_window_is_a_report_of_its_own(counts: WindowCounts) -> None:
    """Messages are sorted by their time, whenever they are counted."""
    counts.add("views", np.array([5_000, 25_000, 9_999, 10_000]), IDS[:4], 0.0)
    counts.add("views", np.array([0]), IDS[4:5], 1.0)
    assert (counts.messages, counts.windows) == (5, 3)
    assert {report.start_ms: report.ids.tolist() for report in counts.take()} == {0: [0, 2, 4], 20: [1], 10: [3]}
    assert (counts.messages, counts.windows, counts.take()) == (0, 0, [])


def test_a_report_names_where_its_messages_were(counts: WindowCounts) -> None:
    """It has the places of its own messages, and the range that was read meanwhile."""
    for start in (100, 300):
        places = Places(np.array([start, start, start + 50]), np.array([0, 1, 0], np.int32))
        counts.add(
            "views",
            np.array([1_000, 11_000, 2_000]),
            IDS[:3],
            0.0,
            where=WHERE,
            places=places,
            read=(start, start + 90),
        )
    first, second = counts.take()
    assert (first.tier, first.instance, first.cluster, first.where) == ("live", "one", "east", WHERE)
    assert (first.start_offset, first.end_offset) == (100, 390)
    assert first.places is not None
    assert second.places is not None
    assert (first.places.offsets.tolist(), first.places.indexes.tolist()) == ([100, 150, 300, 350], [0, 0, 0, 0])
    assert (second.places.offsets.tolist(), second.places.indexes.tolist()) == ([100, 300], [1, 1])


def test_the_range_that_was_read_is_that_of_all_reads(counts: WindowCounts) -> None:
    """Whichever came first, as after a rewind."""
    for start in (300, 100, 200):
        places = Places(np.array([start]), np.zeros(1, np.int32))
        counts.add("views", np.array([1_000]), IDS[:1], 0.0, where=WHERE, places=places, read=(start, start + 90))
    [report] = counts.take()
    assert (report.start_offset, report.end_offset) == (100, 390)


def test_only_counts_that_are_due_are_taken(counts: WindowCounts) -> None:
    """A window stays until it was counted for long enough, and begins anew after that."""
    counts.add("views", np.array([5_000]), IDS[:1], 1.0)
    counts.add("views", np.array([15_000]), IDS[1:2], 2.0)
    counts.add("views", np.array([5_000]), IDS[2:3], 3.0)
    assert [report.ids.tolist() for report in counts.take(before_s=2.0)] == [[0, 2]]
    counts.add("views", np.array([5_000]), IDS[3:4], 4.0)
    assert [report.ids.tolist() for report in counts.take(before_s=4.0)] == [[1]]
    assert counts.messages == 1


def test_a_large_count_is_several_reports(counts: WindowCounts) -> None:
    """So that each of them can be published and fetched."""
    messages = 2 * MAX_REPORT_MESSAGES + 1
    offsets = np.arange(messages)
    places = Places(offsets, np.zeros(messages, np.int32))
    ids = np.arange(messages, dtype=np.uint64)
    counts.add("views", np.zeros(messages, np.int64), ids, 0.0, where=WHERE, places=places, read=(0, messages))
    reports = counts.take()
    assert [report.count for report in reports] == [MAX_REPORT_MESSAGES, MAX_REPORT_MESSAGES, 1]
    assert len({report.report_id for report in reports}) == 3
    for report in reports:
        assert report.places is not None
        assert report.places.offsets.tolist() == report.ids.tolist()


def test_short_ids_are_of_both_halves() -> None:
    """Ids that share one half, as those made from times may, are different."""
    ids = [
        "00000000-0000-4000-8000-000000000001",
        "00000000-0000-4000-8000-000000000002",
        "00000001-0000-4000-8000-000000000001",
    ]
    found = short_ids(ids)
    assert len(set(found.tolist())) == 3
    assert int(found[0]) == (0x4000 * 0x9E3779B97F4A7C15 % 2**64) ^ 0x8000000000000001
    assert short_ids(ids[1:]).tolist() == found[1:].tolist()
    assert short_ids([each.upper() for each in ids]).tolist() == found.tolist()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00000000-0000-4000-8000-00000000000",
        "0" * 36,
        "z" * 32 + "----",
        "0" * 32 + "----",
        "01234567-89ab-cdef-    -            ",
        "01234567 89ab cdef 0123 456789abcdef",
        "0123456789abcdef-0123-456789abcdef-0",
    ],
)
def test_ids_that_are_no_uuids(text: str) -> None:
    """They are refused, alone, twice, and beside a good one."""
    for ids in ([text], [text, text], ["00000000-0000-4000-8000-000000000001", text]):
        with pytest.raises(ValueError, match=r"id is no UUID|non-hexadecimal"):
            short_ids(ids)


def test_ids_do_not_make_up_for_each_other() -> None:
    """Of one that has a dash too few and one that has a dash too many, neither is a UUID."""
    with pytest.raises(ValueError, match="id is no UUID"):
        short_ids(["01234567-89ab-cdef-0123a456789abcdef", "01234567-89ab-cdef-0123-456789abcde-"])
