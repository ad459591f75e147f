"""Sets of numbers as bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kafka2011.audit.packing import pack, unpack

KINDS = [np.dtype("<u8"), np.dtype("<i8"), np.dtype("<i4")]


@given(data=st.data(), kind=st.sampled_from(KINDS), is_sorted=st.booleans())
def test_numbers_come_back_as_they_were(data: st.DataObject, kind: np.dtype[Any], is_sorted: bool) -> None:
    """Negative ones and the largest too, in any order, with repeats."""
    numbers = data.draw(arrays.arrays(kind, st.integers(1, 50)))
    numbers = np.sort(numbers) if is_sorted else numbers
    found = unpack(pack(numbers), len(numbers), kind)
    assert found.dtype == kind
    assert found.tolist() == numbers.tolist()


def test_the_bytes_are_those_of_differences_the_lowest_first() -> None:
    """Bytes that are zero in all of them are left out."""
    assert pack(np.array([3, 5, 6], "<u8")) == b"\x03\x02\x01"
    assert pack(np.array([3, 260, 261], "<u8")) == b"\x03\x01\x01\x00\x01\x00"
    assert pack(np.zeros(4, "<i4")) == b""
    assert unpack(b"", 4, np.dtype("<i4")).tolist() == [0, 0, 0, 0]
    assert pack(np.empty(0, "<u8")) == b""


@pytest.mark.parametrize("data", [b"12345", bytes(36)])
def test_bytes_that_are_no_such_numbers(data: bytes) -> None:
    """Not a multiple of the count, or more than the kind has."""
    with pytest.raises(ValueError, match=rf"{len(data)} bytes are not 4 packed numbers of up to 8 bytes"):
        unpack(data, 4, np.dtype("<u8"))
