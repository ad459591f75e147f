"""How partitions are divided among brokers."""

from __future__ import annotations

import pytest

from kafka2011.gateway.topic_changes import MOST_PARTITIONS, shares


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        (1, {1: 1}),
        (2, {1: 1, 2: 1}),
        (3, {1: 1, 2: 1, 5: 1}),
        (6, {1: 2, 2: 2, 5: 2}),
        (4, None),
        (0, None),
        (-1, None),
        (MOST_PARTITIONS + 3, None),
    ],
)
def test_there_are_exactly_so_many_or_none(partitions: int, expected: dict[int, int] | None) -> None:
    assert shares(partitions, [1, 2, 5]) == expected
