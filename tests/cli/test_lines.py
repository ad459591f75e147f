"""Lines, keys and partitions of `produce`."""

from __future__ import annotations

import io
import os
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.cli.lines import by_partition, key_of, line_sets
from kafka2011.errors import MessageSizeTooLargeError
from kafka2011.producer.partitioner import DefaultPartitioner


def lines_of(data: bytes, limit: int = 1000) -> list[bytes]:
    return [line for lines in line_sets(io.BytesIO(data), limit) for line in lines]


@given(st.lists(st.binary(max_size=50).filter(lambda line: b"\n" not in line), max_size=20), st.booleans())
def test_every_line_comes_once_in_order(lines: list[bytes], ended: bool) -> None:
    """Lines come without their line feed, empty ones too, the last one with or without."""
    data = b"".join(line + b"\n" for line in lines)
    if lines and lines[-1] and not ended:
        data = data[:-1]
    assert lines_of(data) == lines


def test_lines_in_pieces() -> None:
    """A line that arrives in pieces is one line."""

    class Pieces(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return self.read(3)

    sets = list(line_sets(Pieces(b"first\nsecond\n\nlast"), 1000))
    assert [line for lines in sets for line in lines] == [b"first", b"second", b"", b"last"]
    assert len(sets) > 2


def test_lines_are_not_held_back() -> None:
    """What has arrived is given on at once, though the writer keeps its pipe open."""
    read_fd, write_fd = os.pipe()
    with os.fdopen(read_fd, "rb") as reader, os.fdopen(write_fd, "wb", buffering=0) as writer:
        sets = line_sets(reader, 1000)
        writer.write(b"one\ntwo\nthr")
        assert next(sets) == [b"one", b"two"]
        writer.write(b"ee\n")
        assert next(sets) == [b"three"]


def test_long_lines_are_refused_by_number() -> None:
    """A line over the limit is named, and what came before it was given."""
    assert lines_of(b"x" * 10 + b"\n", limit=10) == [b"x" * 10]
    for end in (b"\n", b""):
        sets = line_sets(io.BytesIO(b"a\nb\n" + b"x" * 11 + end), 10)
        assert next(sets) == [b"a", b"b"]
        with pytest.raises(MessageSizeTooLargeError, match=r"^line 3 is longer than max.message.size, 10 bytes"):
            next(sets)


@given(
    st.lists(st.text("ab", max_size=12).map(str.encode), max_size=20),
    st.sampled_from([b"\n", b"\r\n", b"--"]),
    st.integers(1, 7),
)
def test_long_lines_are_left_out(lines: list[bytes], delimiter: bytes, piece_bytes: int) -> None:
    """With somebody to tell, long lines are left out by number, in whatever pieces they and delimiters come."""

    class Pieces(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return self.read(piece_bytes)

    left_out: list[int] = []
    file = Pieces(b"".join(line + delimiter for line in lines))
    found = [line for kept in line_sets(file, 5, delimiter=delimiter, on_too_long=left_out.append) for line in kept]
    assert found == [line for line in lines if len(line) <= 5]
    assert left_out == [number for number, line in enumerate(lines, start=1) if len(line) > 5]


def test_keys() -> None:
    """The first group of the expression is the key, or all of it; without a match there is none."""
    assert key_of(b"user=7 x", re.compile(rb"user=(\d+)")) == "7"
    assert key_of(b"user=7 x", re.compile(rb"user=\d+")) == "user=7"
    assert key_of(b"nobody", re.compile(rb"user=(\d+)")) is None
    assert key_of(b"user=", re.compile(rb"user=(\d+)?")) is None
    assert key_of(b"k\xff", re.compile(rb"k.")) == "k\N{REPLACEMENT CHARACTER}"


def test_lines_of_one_key_share_a_partition_in_order() -> None:
    """Sorting by partition keeps the order of each key; lines without a key go to any partition."""
    lines = [b"%d %d" % (number % 7, number) for number in range(100)] + [b"none"]
    sets = by_partition(lines, re.compile(rb"^(\d+) "), 4)
    assert set(sets) <= {-1, 0, 1, 2, 3}
    assert len(sets) > 2
    assert sets.pop(-1) == [b"none"]
    seen = Counter[bytes]()
    for partition, chosen in sets.items():
        for key in {line.split()[0] for line in chosen}:
            seen[key] += 1
            assert DefaultPartitioner().partition(key.decode(), 4) == partition
            assert [line for line in chosen if line.split()[0] == key] == [
                line for line in lines if line.split()[0] == key
            ]
    assert set(seen.values()) == {1}
