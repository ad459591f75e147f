"""The arithmetic of ranges, on logs made up of messages of all sizes."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.spark.offset_ranges import OffsetRange, cuts, next_boundary, share_bytes, share_tasks
from zk.cluster import TopicPartition

PARTITION = TopicPartition("views", 3, 1)

sizes = st.lists(st.integers(9, 400), min_size=1, max_size=200)


@given(sizes, st.integers(0, 10_000), st.integers(1, 40), st.data())
def test_cuts_are_boundaries_and_lose_nothing(lengths: list[int], start: int, tasks: int, data: st.DataObject) -> None:
    """Wherever a range is cut, a message starts, and the parts are the whole, in order, none empty."""
    boundaries = list(accumulate(lengths, initial=start))
    segments = sorted({start, *data.draw(st.lists(st.sampled_from(boundaries[:-1]), max_size=5))})
    scanned: list[tuple[int, int]] = []

    def scan(base: int, target: int) -> int:
        assert base in boundaries
        assert base <= target
        scanned.append((base, target))
        return boundaries[bisect_right(boundaries, target) - 1]

    whole = OffsetRange(PARTITION, start, boundaries[-1])
    found = cuts(whole, tasks, segments, scan)
    assert set(found) <= set(boundaries[1:-1])
    assert found == sorted(set(found))
    assert len(found) < max(tasks, 2)
    parts = whole.cut(found)
    assert parts[0].start == whole.start
    assert parts[-1].end == whole.end
    assert all(part.end == following.start for part, following in pairwise(parts))
    assert all(part.size_bytes for part in parts)
    assert sum(target - base for base, target in scanned) <= whole.size_bytes + tasks * max(lengths)


@given(sizes, st.integers(2, 10))
def test_cuts_are_as_even_as_messages_allow(lengths: list[int], tasks: int) -> None:
    """Without segment starts, no part is larger than an equal share and one message."""
    boundaries = list(accumulate(lengths, initial=0))
    whole = OffsetRange(PARTITION, 0, boundaries[-1])
    found = cuts(whole, tasks, [0], lambda _, target: boundaries[bisect_right(boundaries, target) - 1])
    limit = whole.size_bytes / tasks + max(lengths) + 1
    assert all(part.size_bytes <= limit for part in whole.cut(found))


def test_cut_prefers_a_near_segment_start() -> None:
    """A segment start costs no scan, so it is taken when it is near."""
    whole = OffsetRange(PARTITION, 0, 1000)

    def scan(base: int, target: int) -> int:
        raise AssertionError(f"scanned {base} to {target}")

    assert cuts(whole, 2, [0, 480], scan) == [480]
    assert cuts(whole, 2, [480], scan) == [480]


def test_cut_scans_from_the_nearest_known_boundary() -> None:
    """A scan begins at the last segment start before its target."""
    whole = OffsetRange(PARTITION, 0, 1000)
    scanned: list[tuple[int, int]] = []

    def scan(base: int, target: int) -> int:
        scanned.append((base, target))
        return target - 5

    assert cuts(whole, 4, [0, 380, 800], scan) == [245, 495, 800]
    assert scanned == [(0, 250), (380, 500)]


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=50), st.integers(0, 500))
def test_every_range_gets_a_task_and_all_are_given_out(sizes_bytes: list[int], min_partitions: int) -> None:
    """At least one task each, as many as wanted in all, and no size gets fewer tasks than a smaller one."""
    counts = share_tasks(sizes_bytes, min_partitions)
    assert min(counts) >= 1
    assert sum(counts) == max(min_partitions, len(sizes_bytes))
    ordered = [count for _, count in sorted(zip(sizes_bytes, counts, strict=True))]
    assert all(count <= following + 1 for count, following in pairwise(ordered))


def test_without_wish_one_task_each() -> None:
    """A minimum of 0, or of fewer tasks than ranges, changes nothing."""
    assert share_tasks([5, 1, 100], 0) == [1, 1, 1]
    assert share_tasks([5, 1, 100], 2) == [1, 1, 1]
    assert share_tasks([], 7) == []
    assert share_tasks([100, 300], 8) == [2, 6]


@given(st.dictionaries(st.integers(0, 30), st.integers(1, 10**15), min_size=1), st.integers(0, 10**15))
def test_shares_are_bounded_and_in_proportion(lags: dict[int, int], max_bytes: int) -> None:
    """Shares add up to the limit at most, none exceeds its lag, and a larger lag never gets less."""
    named = {TopicPartition("t", number, 0): lag for number, lag in lags.items()}
    shares = share_bytes(named, max_bytes)
    assert shares.keys() == named.keys()
    assert all(0 <= shares[each] <= lag for each, lag in named.items())
    if sum(lags.values()) <= max_bytes:
        assert shares == named
    else:
        assert max_bytes - len(lags) <= sum(shares.values()) <= max_bytes
    for one, another in pairwise(sorted(named, key=lambda each: named[each])):
        assert shares[one] <= shares[another]


@given(st.sets(st.integers(0, 1000)), st.integers(-1, 1001))
def test_next_boundary_is_the_first_one_behind(known: set[int], offset: int) -> None:
    """The smallest of the known that is larger, or none."""
    assert next_boundary(sorted(known), offset) == min((each for each in known if each > offset), default=None)


def test_a_range_is_cut_inside_only() -> None:
    """Its own ends, and what lies outside, cut nothing off."""
    whole = OffsetRange(PARTITION, 10, 30)
    assert whole.cut([0, 10, 20, 20, 30, 40]) == [OffsetRange(PARTITION, 10, 20), OffsetRange(PARTITION, 20, 30)]


def test_a_range_never_runs_backwards() -> None:
    """Its text names the partition."""
    with pytest.raises(ValueError, match="views/3-1: 10 to 9"):
        OffsetRange(PARTITION, 10, 9)
