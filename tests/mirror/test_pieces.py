"""Cutting a set into what a broker takes and what it would refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet, encode
from kafka2011.mirror.pieces import halves, pieces

ONE = 11  # bytes of a message with one byte of payload


def test_a_good_set_is_one_piece() -> None:
    """Compressed messages stay closed."""
    data = encode(b"a") + bytes(MessageSet([b"b", b"c"], Codec.GZIP)) + encode(b"d", magic=0)
    assert list(pieces(data, 100)) == [(0, len(data), None)]
    assert list(pieces(b"", 100)) == []


def test_a_message_that_is_too_large_stands_alone() -> None:
    """Those around it may pass."""
    data = encode(b"a") + encode(b"b") + encode(b"x" * 50) + encode(b"c")
    large = (2 * ONE, 2 * ONE + 60, "its payload of 50 bytes exceeds max.message.size 49")
    assert list(pieces(data, 49)) == [(0, 2 * ONE, None), large, (2 * ONE + 60, len(data), None)]
    assert list(pieces(data, 50)) == [(0, len(data), None)]


def test_a_message_whose_bytes_are_wrong_stands_alone() -> None:
    """Its length says where the next one is."""
    bad_crc = encode(b"b")[:-1] + b"B"
    bad_magic = encode(b"c")[:4] + b"\x07" + encode(b"c")[5:]
    found = list(pieces(encode(b"a") + bad_crc + bad_magic + encode(b"d"), 100))
    assert [(start, end) for start, end, _ in found] == [(n * ONE, (n + 1) * ONE) for n in range(4)]
    assert [fault and fault.split()[0] for _, _, fault in found] == [None, "CRC", "magic", None]


def test_after_an_impossible_length_there_is_no_next_message() -> None:
    """The rest is one piece."""
    data = encode(b"a") + bytes(30)
    assert list(pieces(data, 100)) == [(0, ONE, None), (ONE, len(data), "length 0")]


@pytest.mark.parametrize("torn_bytes", range(1, ONE))
def test_a_set_may_end_torn(torn_bytes: int) -> None:
    """What is there of the last message is one piece, however little it is."""
    data = encode(b"a") + encode(b"b")[:torn_bytes]
    assert [(start, end, fault is None) for start, end, fault in pieces(data, 100)] == [
        (0, ONE, True),
        (ONE, len(data), False),
    ]


def test_after_the_smallest_message_comes_the_next_one() -> None:
    """Its length is one that can be."""
    smallest = encode(b"", magic=0)
    bad = smallest[:-1] + bytes([smallest[-1] ^ 1])
    found = [(start, end, fault is None) for start, end, fault in pieces(bad + encode(b"a"), 100)]
    assert found == [(0, len(bad), False), (len(bad), len(bad) + ONE, True)]


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=20), st.integers(0, 20))
def test_pieces_make_up_the_set(payloads: list[bytes], most: int) -> None:
    """Without a gap, and every message that fits is in a good one."""
    data = bytes(MessageSet(payloads))
    found = list(pieces(data, most))
    assert [start for start, _, _ in found] == [0, *(end for _, end, _ in found[:-1])]
    assert found[-1].end == len(data)
    good = [
        payload for start, end, fault in found if fault is None for payload in MessageSet.from_bytes(data[start:end])
    ]
    assert good == [payload for payload in payloads if len(payload) <= most]


@given(st.lists(st.binary(max_size=20), min_size=2, max_size=20))
def test_halves_make_up_the_set(payloads: list[bytes]) -> None:
    """Both have messages, so dividing again and again comes to single ones."""
    divided = halves(bytes(MessageSet(payloads)))
    assert divided is not None
    assert [list(MessageSet.from_bytes(half)) for half in divided] == [
        payloads[: len(payloads) // 2],
        payloads[len(payloads) // 2 :],
    ]


def test_one_message_is_not_divided() -> None:
    """However many are compressed in it."""
    assert halves(bytes(MessageSet([b"a", b"b"], Codec.GZIP))) is None
