"""What stands before a payload, read at any position and cut off anywhere."""

from __future__ import annotations

import zlib

import pytest

from kafka2011.message.compression import Codec
from kafka2011.message.header import MessageHeader, header_fault, read_header
from kafka2011.message.message_set import encode

PAYLOAD = b"payload"


@pytest.mark.parametrize(("magic", "codec"), [(0, Codec.NONE), (1, Codec.NONE), (1, Codec.GZIP), (1, Codec.SNAPPY)])
def test_what_encode_wrote_is_read(magic: int, codec: Codec) -> None:
    """At a position too, and whether or not the payload is there."""
    message = encode(PAYLOAD, codec, magic)
    header = read_header(b"before" + message, 6)
    assert isinstance(header, MessageHeader)
    assert (header.magic, header.codec, header.crc) == (magic, codec, zlib.crc32(PAYLOAD))
    assert message[header.overhead_bytes :] == PAYLOAD
    assert header.message_bytes == len(message)
    assert read_header(message[: header.overhead_bytes]) == header


@pytest.mark.parametrize("magic", [0, 1])
def test_bytes_that_end_within_a_header_are_no_fault(magic: int) -> None:
    message = encode(PAYLOAD, magic=magic)
    overhead_bytes = len(message) - len(PAYLOAD)
    assert [read_header(message[:size]) for size in range(overhead_bytes)] == [None] * overhead_bytes


def test_a_length_alone_may_be_that_of_an_empty_message_without_attributes() -> None:
    """Which magic it has is not known yet."""
    assert read_header(encode(b"", magic=0)[:4]) is None


@pytest.mark.parametrize(
    ("start", "fault"),
    [
        ("00000004", "length 4"),
        ("ffffffff", "length -1"),
        ("00000004 02", "length 4"),
        ("00000007 02", "magic 2"),
        ("00000007 ff", "magic 255"),
        ("00000005 01", "length 5"),
        ("00000005 01 00 00000000", "length 5"),
    ],
)
def test_a_fault_is_told_as_soon_as_it_can_be_seen(start: str, fault: str) -> None:
    assert read_header(bytes.fromhex(start)) == fault


def test_the_shortest_messages_are_the_empty_ones() -> None:
    assert header_fault(5, 0) is None
    assert header_fault(6, 1) is None
