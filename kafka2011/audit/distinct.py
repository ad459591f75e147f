"""Distinct numbers, by sorting them. Pure.

NumPy's own `unique` hashes them since version 2.3, which takes 20 to 100 times as long for ids, as these are random.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Number = TypeVar("Number", np.int64, np.uint64)


def distinct(numbers: NDArray[Number]) -> NDArray[Number]:
    """Return each number once, in order."""
    ordered = np.sort(numbers)
    is_new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]


def lacking(numbers: NDArray[Number], here: NDArray[Number]) -> int:
    """Return how many numbers are not among others; both are distinct."""
    return int(numbers.size - np.intersect1d(numbers, here, assume_unique=True).size)
