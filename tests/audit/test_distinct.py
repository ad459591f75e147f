"""Distinct numbers are the same as NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from kafka2011.audit.distinct import distinct, lacking


@pytest.mark.parametrize("values", [[], [7], [7, 7], [3, 1, 3, 2**63, 1, 0], list(range(9, -1, -1))], ids=str)
def test_each_number_is_there_once_and_in_order(values: list[int]) -> None:
    numbers = np.array(values, np.uint64)
    assert distinct(numbers).tolist() == sorted(set(values)) == np.unique(numbers).tolist()
    assert numbers.tolist() == values


def test_numbers_that_are_not_among_others_are_counted() -> None:
    """Those that the others have beside them do not count."""
    numbers, others = np.array([1, 2, 5], np.uint64), np.array([2, 3, 4], np.uint64)
    assert lacking(numbers, others) == 2
    assert lacking(others[:0], others) == 0
    assert lacking(others, others[:0]) == 3
