"""The codecs: what others wrote opens, and no input opens to more than it may."""

from __future__ import annotations

import contextlib
import gzip
import os
import struct
import tracemalloc
import zlib

import cramjam
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka2011.errors import InvalidMessageError
from kafka2011.message.compression import (
    CHUNK_BYTES,
    SNAPPY_HEADER,
    SNAPPY_MAX_RATIO,
    STORED_BYTES,
    Codec,
    compress,
    decompress,
    open_chunks,
)

MIB = 1024 * 1024


def block(raw: bytes) -> bytes:
    return struct.pack(">i", len(raw)) + raw


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def peak_bytes(codec: int, data: bytes, max_opened_bytes: int) -> int:
    """Return how much memory opening took, piece by piece, until it ended or was refused."""
    tracemalloc.start()
    try:
        with contextlib.suppress(InvalidMessageError):
            for _ in open_chunks(codec, data, max_opened_bytes):
                pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


@given(st.binary(max_size=2000), st.integers(1, 200), st.sampled_from(list(Codec)))
def test_round_trip(data: bytes, times: int, codec: Codec) -> None:
    """What was compressed opens to itself, over several blocks and chunks too."""
    if codec is Codec.NONE:
        assert compress(codec, data) == data
    else:
        assert decompress(codec, compress(codec, data * times)) == data * times


@pytest.mark.parametrize("data", [b"", b"x", os.urandom(3 * CHUNK_BYTES), bytes(3 * CHUNK_BYTES)])
def test_gzip_is_ordinary_gzip(data: bytes) -> None:
    """Any GZIP tool reads what is written, and what any writes is read."""
    assert gzip.decompress(compress(Codec.GZIP, data)) == data
    for level in (0, 1, 9):
        assert decompress(Codec.GZIP, gzip.compress(data, level)) == data


def test_gzip_header_fields_are_read() -> None:
    """A file name, a comment, extra bytes and a header CRC may stand in the header."""
    member = gzip.compress(b"data")
    head = b"\x1f\x8b\x08\x1e" + member[4:10] + b"\x03\x00abc" + b"name\0" + b"comment\0"
    head += struct.pack("<H", zlib.crc32(head) & 0xFFFF)
    assert decompress(Codec.GZIP, head + member[10:]) == b"data"


@pytest.mark.parametrize("tail", [b"", b"\0", b"\0" * 100, b"garbage", b"\x1f"])
def test_gzip_members_are_joined_and_a_tail_is_ignored(tail: bytes) -> None:
    """Members behind one another are one payload; what follows and is none is left alone, as Java does it."""
    large = os.urandom(100_000)
    assert decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(large) + gzip.compress(b"") + tail) == (
        b"one" + large
    )


@pytest.mark.parametrize("cut", [0, 1, 5, 10, 12, -9, -8, -4, -1])
def test_gzip_that_ends_early_is_refused(cut: int) -> None:
    """Every prefix lacks something: header, data, CRC or size."""
    data = gzip.compress(os.urandom(500))
    with pytest.raises(InvalidMessageError, match="GZIP"):
        decompress(Codec.GZIP, data[:cut])


@pytest.mark.parametrize("at", [0, 2, 20, -8, -1])
def test_damaged_gzip_is_refused(at: int) -> None:
    """Magic, method, data, CRC and size are all checked."""
    data = bytearray(gzip.compress(b"hello kafka " * 20))
    data[at] ^= 0x55
    with pytest.raises(InvalidMessageError, match="GZIP"):
        decompress(Codec.GZIP, bytes(data))


def test_snappy_streams_begin_as_those_of_snappy_java() -> None:
    """Its magic, its version, and the least version that can read them."""
    assert compress(Codec.SNAPPY, b"") == bytes.fromhex("82534e4150505900 00000001 00000001")


def test_snappy_streams_may_be_joined_and_blocks_of_any_size() -> None:
    """Several behind one another, one of them empty; a large block, and an empty one; no stream header at all."""
    large = os.urandom(100_000)
    stream = SNAPPY_HEADER + block(raw_snappy(b"one")) + SNAPPY_HEADER * 2 + block(raw_snappy(large)) + block(b"\0")
    assert decompress(Codec.SNAPPY, stream) == b"one" + large
    assert decompress(Codec.SNAPPY, raw_snappy(large)) == large


@pytest.mark.parametrize(
    "data",
    [
        b"",
        SNAPPY_HEADER[:8],
        SNAPPY_HEADER[:15],
        SNAPPY_HEADER + struct.pack(">i", 5) + b"\0",
        SNAPPY_HEADER + struct.pack(">i", -1) + b"\0",
        SNAPPY_HEADER + struct.pack(">i", 2**31 - 1) + b"\0",
        SNAPPY_HEADER + block(b""),
        SNAPPY_HEADER + block(b"\x05\x00"),
        b"\xff" * 12,
    ],
)
def test_damaged_snappy_is_refused(data: bytes) -> None:
    """Cut headers, lengths that do not fit, and blocks that are none."""
    with pytest.raises(InvalidMessageError, match="Snappy"):
        decompress(Codec.SNAPPY, data)


@pytest.mark.parametrize("stray", [b"\0", b"\xff\xff", b"\0\0\1"])
def test_a_few_stray_bytes_end_a_snappy_stream(stray: bytes) -> None:
    """As snappy-java takes them: too few for the length of another block."""
    assert decompress(Codec.SNAPPY, SNAPPY_HEADER + block(raw_snappy(b"one")) + stray) == b"one"
    assert decompress(Codec.SNAPPY, SNAPPY_HEADER + stray) == b""


@pytest.mark.parametrize("codec", [0, 3, -1, 99])
def test_unknown_codecs_are_refused(codec: int) -> None:
    """Two bits can say 3, which names nothing."""
    with pytest.raises(InvalidMessageError, match=f"codec {codec}"):
        decompress(codec, b"")


@given(st.sampled_from([Codec.GZIP, Codec.SNAPPY]), st.binary(max_size=300))
@example(Codec.SNAPPY, b"\x80\x80\x80\x80\x10")  # a claim of 4 GiB
@example(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f")
@example(Codec.SNAPPY, b"\x0f\x38")  # a literal without its bytes
@example(Codec.SNAPPY, b"\x04\x01\x00")  # a copy from before the beginning
def test_garbage_raises_only_invalid_message(codec: Codec, garbage: bytes) -> None:
    """Nothing else comes out of zlib or of the Snappy library, a panic of its Rust code least of all."""
    for data in (garbage, compress(codec, b"")[:16] + garbage, SNAPPY_HEADER + block(garbage)):
        try:
            opened = decompress(codec, data, 10_000)
        except InvalidMessageError:
            continue
        assert len(opened) <= 10_000


@given(st.binary(min_size=1, max_size=300), st.data())
def test_damaged_snappy_blocks_raise_only_invalid_message(data: bytes, drawn: st.DataObject) -> None:
    """Blocks that were good but for one byte reach deeper into the library than random ones."""
    damaged = bytearray(raw_snappy(data * 3))
    damaged[drawn.draw(st.integers(0, len(damaged) - 1))] = drawn.draw(st.integers(0, 255))
    with contextlib.suppress(InvalidMessageError):
        decompress(Codec.SNAPPY, bytes(damaged), 10_000)


@given(st.binary(max_size=500), st.sampled_from([Codec.GZIP, Codec.SNAPPY]), st.integers(0, 600))
@example(b"ten bytes.", Codec.GZIP, 10)
@example(b"ten bytes.", Codec.GZIP, 9)
@example(b"ten bytes.", Codec.SNAPPY, 10)
@example(b"ten bytes.", Codec.SNAPPY, 9)
def test_the_limit_is_exact(data: bytes, codec: Codec, limit: int) -> None:
    """Exactly as much as allowed opens, one byte more does not."""
    if len(data) <= limit:
        assert decompress(codec, compress(codec, data), limit) == data
    else:
        with pytest.raises(InvalidMessageError, match=r"opens to more than|claims to open"):
            decompress(codec, compress(codec, data), limit)


def test_a_gzip_bomb_is_refused_while_it_opens() -> None:
    """100 MiB from 100 KB: the limit is met after a chunk more than it, not at the end."""
    bomb = gzip.compress(bytes(100 * MIB), 1)
    with pytest.raises(InvalidMessageError, match="opens to more than 1048576"):
        decompress(Codec.GZIP, bomb, MIB)
    assert peak_bytes(Codec.GZIP, bomb, MIB) < 4 * CHUNK_BYTES
    assert peak_bytes(Codec.GZIP, bomb, 1000 * MIB) < 4 * CHUNK_BYTES


def test_false_snappy_claims_cost_nothing() -> None:
    """A block of a few bytes that claims gigabytes, or more than its size can hold, is refused by its claim."""
    for claim in (2**32 - 1, 2**31, 50 * MIB, 1000):
        false = varint(claim) + b"\x00x"
        assert claim > SNAPPY_MAX_RATIO * len(false)
        for data in (false, SNAPPY_HEADER + block(false)):
            with pytest.raises(InvalidMessageError, match=f"claims to open to {claim}"):
                decompress(Codec.SNAPPY, data, 2**40)


def test_the_most_that_snappy_can_compress_is_let_through() -> None:
    """The ratio that is taken for honest is above the best that there is."""
    data = bytes(10 * MIB)
    assert len(data) / len(raw_snappy(data)) < SNAPPY_MAX_RATIO
    assert decompress(Codec.SNAPPY, raw_snappy(data)) == data


def test_many_snappy_blocks_share_one_limit() -> None:
    """What earlier blocks opened to is taken off before a later one is opened."""
    stream = SNAPPY_HEADER + block(raw_snappy(bytes(MIB))) * 20
    chunks = open_chunks(Codec.SNAPPY, stream, 5 * MIB + 1)
    assert [len(next(chunks)) for _ in range(5)] == [MIB] * 5
    with pytest.raises(InvalidMessageError, match="while 1 are left"):
        next(chunks)


def test_work_between_two_pieces_is_bounded() -> None:
    """Input that opens to nothing still gives control back: each empty member, and each bit of a header, is a piece.

    Only up to STORED_BYTES of it are one piece, which C code opens.
    """
    members = gzip.compress(b"") * 60_000
    assert len(members) > STORED_BYTES
    assert sum(1 for _ in open_chunks(Codec.GZIP, members)) >= 60_000
    long_name = b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * MIB + b"\0" + gzip.compress(b"x")[10:]
    assert sum(1 for _ in open_chunks(Codec.GZIP, long_name)) >= 32
    assert decompress(Codec.GZIP, long_name) == b"x"


def test_input_is_not_copied_again_and_again() -> None:
    """Opening a large payload takes no copies of what is still to come, whatever it consists of."""
    for data in (gzip.compress(os.urandom(4 * MIB), 1), gzip.compress(b"") * 20_000):
        assert peak_bytes(Codec.GZIP, data, 1000 * MIB) < 4 * CHUNK_BYTES
