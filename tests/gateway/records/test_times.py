"""The first record of a wrapper that is not older than a time, and the largest timestamp of a wrapper."""

from __future__ import annotations

import pytest

from kafka2011.gateway.records.batches import open_batches
from kafka2011.gateway.records.times import first_in, newest_in
from kafka2011.gateway.records.wrappers import wrappers_of
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet, encode
from tests.support.record_batches import APPEND_TIME, Record, batch_of

TOPIC_ID = bytes(16)


def wrapper(*timestamps: int, attributes: int = 0, max_timestamp: int | None = None, key: bytes = b"key") -> bytes:
    records = [Record(b"v" * 50, key, ((b"h", None),), timestamp) for timestamp in timestamps]
    [batch] = open_batches(batch_of(records, attributes=attributes, max_timestamp=max_timestamp), 1 << 20)
    [(message, _)] = wrappers_of(batch, TOPIC_ID, 0, lambda: bytes(8))
    return message


@pytest.mark.parametrize(
    ("time_ms", "expected"),
    [(0, (0, 100)), (100, (0, 100)), (101, (2, 300)), (300, (2, 300)), (301, None)],
)
def test_times_need_not_ascend(time_ms: int, expected: tuple[int, int] | None) -> None:
    assert first_in(wrapper(100, 50, 300, 200), time_ms) == expected
    assert newest_in(wrapper(100, 50, 300, 200)) == 300


def test_notes_of_several_members_have_the_times_too() -> None:
    assert newest_in(wrapper(100, 300, 200, key=b"k" * 50_000)) == 300
    assert first_in(wrapper(100, 300, 200, key=b"k" * 50_000), 150) == (1, 300)


def test_the_time_of_the_append_is_that_of_each_record() -> None:
    appended = wrapper(100, 200, attributes=APPEND_TIME, max_timestamp=500)
    assert newest_in(appended) == 500
    assert first_in(appended, 400) == (0, 500)
    assert first_in(appended, 501) is None


@pytest.mark.parametrize(
    "message",
    [
        wrapper(-1, -1),
        encode(bytes(MessageSet([b"of 0.7"])), Codec.GZIP),
        encode(bytes(MessageSet([b"of 0.7"])), Codec.SNAPPY),
        encode(wrapper(100, 200)[10:-300], Codec.GZIP),
    ],
    ids=["without", "gzip", "snappy", "cut"],
)
def test_without_timestamps_nothing_is_found(message: bytes) -> None:
    assert newest_in(message) == -1
    assert first_in(message, 0) is None


def test_a_delta_that_has_wrapped_around_is_added_as_clients_do() -> None:
    far_apart = wrapper(-(2**62), 2**62)
    assert first_in(far_apart, 0) == (1, 2**62)
    assert newest_in(far_apart) == 2**62
