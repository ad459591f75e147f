"""Walking over messages by their lengths alone."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kafka2011.message.message_set import MessageSet, encode
from kafka2011.spark.offset_ranges import LogBounds, MessageWalk, log_bounds, walk
from tests.support.logs_in_memory import ConsumerInMemory
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

messages = st.lists(st.builds(encode, st.binary(max_size=60), magic=st.sampled_from([0, 1])), min_size=1, max_size=30)


def fetch_from(data: bytes) -> Callable[[int, int], bytes]:
    return lambda offset, max_bytes: data[offset : offset + max_bytes]


@given(messages, st.integers(4, 100), st.data())
def test_a_walk_ends_at_the_last_boundary_before_its_target(
    encoded: list[bytes], fetch_bytes: int, data: st.DataObject
) -> None:
    """From any boundary, to any target in the log, with fetches that hold less than a message too."""
    boundaries = list(accumulate(map(len, encoded), initial=0))
    start = data.draw(st.sampled_from(boundaries))
    target = data.draw(st.integers(start, boundaries[-1]))
    fetched: list[int] = []

    def fetch(offset: int, max_bytes: int) -> bytes:
        fetched.append(offset + max_bytes)
        return b"".join(encoded)[offset : offset + max_bytes]

    found = walk(fetch, start, target, fetch_bytes)
    index = bisect_right(boundaries, target) - 1
    assert found.offset == boundaries[index]
    assert not found.broken
    if found.offset < target:
        assert found.following == boundaries[index + 1]
    assert all(end <= target + 3 for end in fetched)


def test_a_message_that_looks_like_messages_is_not_entered() -> None:
    """A payload that is itself a message set holds no boundary."""
    inner = bytes(MessageSet([b"one", b"two"]))
    data = encode(inner) + encode(b"behind")
    assert walk(fetch_from(data), 0, 20, 1024) == MessageWalk(0, 10 + len(inner), broken=False)


def test_a_length_that_no_message_has_ends_the_walk() -> None:
    """There the way ends, and the result says so."""
    good = encode(b"good")
    data = good + b"\0" * 50
    assert walk(fetch_from(data), 0, 40, 1024) == MessageWalk(len(good), None, broken=True)


def test_a_log_that_ends_early_ends_the_walk() -> None:
    """No endless loop where there are no more bytes."""
    good = encode(b"good")
    assert walk(fetch_from(good), 0, 1000, 1024) == MessageWalk(len(good), None, broken=False)


def test_a_message_larger_than_a_fetch_may_end_at_the_target() -> None:
    """Its end is a boundary as good as any, though it was never fetched."""
    good = encode(b"good")
    assert walk(fetch_from(good * 2), 0, len(good), 4) == MessageWalk(len(good), None, broken=False)


def test_a_log_without_segments_begins_and_ends_at_0() -> None:
    """As a broker answers for a partition that it has yet to make."""
    partition = TopicPartition("t", 0, 0)
    consumer = ConsumerInMemory({})
    consumer.get_offsets_before = lambda *_: []  # type: ignore[method-assign]
    assert log_bounds(consumer, partition) == LogBounds((0,))
