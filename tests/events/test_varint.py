"""Avro's numbers."""

from __future__ import annotations

from io import BytesIO

import pytest
from fastavro import schemaless_writer
from hypothesis import example, given
from hypothesis import strategies as st

from kafka2011.events.varint import read_varint, write_varint

FIRST, LAST = -(2**63), 2**63 - 1


@given(st.integers(FIRST, LAST))
@example(FIRST)
@example(LAST)
@example(0)
@example(63)
@example(-65)
def test_a_number_is_written_as_other_libraries_write_it_and_read_again(number: int) -> None:
    """Wherever it stands, and up to its end."""
    theirs = BytesIO()
    schemaless_writer(theirs, "long", number)
    assert write_varint(number) == theirs.getvalue()
    assert read_varint(b"x" + theirs.getvalue() + b"\xff", 1) == (number, 1 + len(theirs.getvalue()))


@pytest.mark.parametrize("data", [b"", b"\x80", 9 * b"\xff"])
def test_a_number_that_is_cut_short_is_an_error(data: bytes) -> None:
    """It is none."""
    with pytest.raises(IndexError):
        read_varint(data, 0)


@pytest.mark.parametrize("data", [9 * b"\xff" + b"\x02", 10 * b"\xff" + b"\x01", 10 * b"\x80" + b"\0", 1000 * b"\xff"])
def test_more_than_64_bits_are_an_error(data: bytes) -> None:
    """After ten bytes, however many follow."""
    with pytest.raises(ValueError, match="more than 64 bits"):
        read_varint(data, 0)
    assert read_varint(9 * b"\xff" + b"\x01", 0) == (FIRST, 10)
