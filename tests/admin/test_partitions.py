"""What a broker can be asked about its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.admin.partitions import check_partition, count_partitions
from kafka2011.errors import OffsetOutOfRangeError, WrongPartitionError

if TYPE_CHECKING:
    from kafka2011.consumer.simple_consumer import SimpleConsumer


class Broker:
    """Answers fetches as a broker with so many partitions does."""

    def __init__(self, partitions: int, *, old_segments_gone: bool = False) -> None:
        self.partitions = partitions
        self.old_segments_gone = old_segments_gone
        self.requests = 0

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> list[object]:
        self.requests += 1
        if partition >= self.partitions:
            raise WrongPartitionError("wrong")
        if self.old_segments_gone:
            raise OffsetOutOfRangeError("gone")
        return []


@given(st.integers(0, 5000), st.booleans())
def test_partitions_are_counted_by_asking(partitions: int, old_segments_gone: bool) -> None:
    """A few fetches tell how many partitions there are."""
    broker = Broker(partitions, old_segments_gone=old_segments_gone)
    assert count_partitions(cast("SimpleConsumer", broker), "t") == partitions
    assert broker.requests < 30


def test_wrong_partition_is_named() -> None:
    """The error says which partition of which topic is not there."""
    check_partition(cast("SimpleConsumer", Broker(2)), "views", 1)
    with pytest.raises(WrongPartitionError, match="has no partition 2 of topic views"):
        check_partition(cast("SimpleConsumer", Broker(2)), "views", 2)
