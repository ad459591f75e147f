"""The number of partitions of a topic that each broker gets."""

from __future__ import annotations

import pytest

from kafka2011.admin.placement import place

BROKERS = (5, 0, 2)


@pytest.mark.parametrize("partitions", [*range(1, 12), 1000])
def test_there_are_exactly_as_many_as_asked_for(partitions: int) -> None:
    """They are spread evenly, and brokers that get none are left out."""
    counts = place("views", partitions, BROKERS, {})
    assert sum(counts.values()) == partitions
    assert list(counts) == sorted(counts)
    assert set(counts.values()) <= {partitions // 3, -(-partitions // 3)} - {0}


def test_topics_with_few_partitions_go_to_different_brokers() -> None:
    placed = [place(f"views-{number}", 1, BROKERS, {}) for number in range(300)]
    for broker in BROKERS:
        assert 70 < placed.count({broker: 1}) < 130
    assert place("views-1", 1, BROKERS, {}) == place("views-1", 1, sorted(BROKERS), {}), "the order says nothing"


def test_brokers_with_fewer_get_more() -> None:
    """Brokers keep what they have, and count if they have some and get no more."""
    counts = place("views", 9, BROKERS, {0: 4, 2: 1})
    assert counts[0] == 4
    assert sorted([counts[2], counts[5]]) == [2, 3]
    assert place("views", 9, (0, 2), {0: 1, 2: 1, 7: 3}) == {0: 3, 2: 3}
