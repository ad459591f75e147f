"""Which record of a batch is the first that is not older than a time."""

from __future__ import annotations

import pytest

from kafka2011.gateway.records.times import base_of, batches_of, end_of, first_at, has_timestamps, largest_in
from tests.support.record_batches import APPEND_TIME, Record, batch_of


def batch(*timestamps: int, attributes: int = 0, max_timestamp: int | None = None) -> bytes:
    records = [Record(b"v" * 50, b"key", ((b"h", None),), timestamp) for timestamp in timestamps]
    return batch_of(records, attributes=attributes, max_timestamp=max_timestamp)


@pytest.mark.parametrize(
    ("time_ms", "expected"),
    [(0, (0, 100)), (100, (0, 100)), (101, (2, 300)), (300, (2, 300)), (301, None)],
)
def test_times_need_not_ascend(time_ms: int, expected: tuple[int, int] | None) -> None:
    assert first_at(batch(100, 50, 300, 200), time_ms) == expected


def test_the_time_of_the_append_is_that_of_each_record() -> None:
    appended = batch(100, 200, attributes=APPEND_TIME, max_timestamp=500)
    assert first_at(appended, 400) == (0, 500)
    assert first_at(appended, 501) is None


def test_batches_lie_back_to_back() -> None:
    one, two = batch(1), batch(2, 3)
    assert [*batches_of(one + two)] == [one, two]
    assert [*batches_of(b"")] == []
    assert (base_of(two), end_of(two)) == (0, 2)


def test_without_timestamps_nothing_is_found() -> None:
    assert has_timestamps(batch(1))
    assert not has_timestamps(batch(-1, -1))
    assert first_at(batch(-1, -1), 0) is None


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (batch(100, 50, 300, 300, 200), (2, 300)),
        (batch(100, 200, attributes=APPEND_TIME, max_timestamp=500), (0, 500)),
        (batch(-1, -1), None),
    ],
)
def test_the_first_record_with_the_largest_timestamp_is_found(made: bytes, expected: tuple[int, int] | None) -> None:
    assert largest_in(made) == expected


def test_a_delta_that_has_wrapped_around_is_added_as_clients_do() -> None:
    far_apart = batch(-(2**62), 2**62)
    assert first_at(far_apart, 0) == (1, 2**62)
    assert largest_in(far_apart) == (1, 2**62)
