"""GZIP payloads of stored blocks: C code opens them to what zlib opens them to, and leaves all others to zlib."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka2011.errors import InvalidMessageError
from kafka2011.message import runs, runs_python
from kafka2011.message.compression import (
    CHUNK_BYTES,
    STORED_BYTES,
    Codec,
    OpensTooLargeError,
    decompress,
    open_chunks,
)

if TYPE_CHECKING:
    from kafka2011.message.runs import CompiledRunCode

MIB = 1024 * 1024
NOTHING = b"\x03\x00"
"""A last block of no bytes, as zlib writes it."""
TEXT, HEADER_CRC, EXTRA, NAME, COMMENT = 1, 2, 4, 8, 16


def header(flags: int, extra: bytes = b"extra", name: bytes = b"name", comment: bytes = b"") -> bytes:
    """Return the header of a member with the fields that the flags name."""
    parts = [b"\x1f\x8b\x08", bytes([flags]), b"time", b"\0\xff"]
    if flags & EXTRA:
        parts += [struct.pack("<H", len(extra)), extra]
    if flags & NAME:
        parts += [name, b"\0"]
    if flags & COMMENT:
        parts += [comment, b"\0"]
    head = b"".join(parts)
    return head + struct.pack("<H", zlib.crc32(head) & 0xFFFF) if flags & HEADER_CRC else head


def stored(data: bytes, *, is_last: bool, padding: int = 0) -> bytes:
    """Return a block; readers skip the padding, which are the 5 upper bits of its first byte."""
    return struct.pack("<BHH", padding << 3 | is_last, len(data), len(data) ^ 0xFFFF) + data


def trailer(data: bytes) -> bytes:
    return struct.pack("<II", zlib.crc32(data), len(data))


@st.composite
def members(draw: st.DrawFn) -> bytes:
    """Draw a member whose blocks are stored, with any fields and any sizes of blocks."""
    flags = draw(st.integers(0, 31))
    text = st.binary(max_size=8).map(lambda data: data.replace(b"\0", b""))
    blocks = draw(st.lists(st.binary(max_size=40), max_size=4))
    ends_with_nothing = not blocks or draw(st.booleans())
    parts = [header(flags, draw(st.binary(max_size=9)), draw(text), draw(text))]
    for number, block in enumerate(blocks, 1):
        is_last = number == len(blocks) and not ends_with_nothing
        parts.append(stored(block, is_last=is_last, padding=draw(st.integers(0, 31))))
    parts += [NOTHING if ends_with_nothing else b"", trailer(b"".join(blocks))]
    return b"".join(parts)


def by_zlib(data: bytes, max_opened_bytes: int = MIB) -> bytes | None:
    """Return what Python opens without the C code; None if it refuses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "chosen", runs_python)
        try:
            return decompress(Codec.GZIP, data, max_opened_bytes)
        except InvalidMessageError:
            return None


@pytest.fixture(scope="module")
def compiled() -> CompiledRunCode:
    if runs.compiled is None:
        pytest.skip("no C code: scripts/setup.sh builds it where there is a compiler, KAFKA2011_PURE leaves it out")
    return runs.compiled


@given(st.lists(members(), min_size=1, max_size=3).map(b"".join))
def test_stored_members_open_as_by_zlib(compiled: CompiledRunCode, data: bytes) -> None:
    """All of them, in any kind of bytes."""
    wanted = by_zlib(data)
    assert wanted is not None
    for each in (data, bytearray(data), memoryview(data), memoryview(b"?" + data)[1:]):
        assert compiled.open_stored(each, MIB) == wanted  # type: ignore[arg-type]
    assert decompress(Codec.GZIP, data) == wanted


@given(st.lists(members(), min_size=1, max_size=2).map(b"".join), st.data())
def test_what_was_damaged_opens_as_by_zlib_or_not_at_all(
    compiled: CompiledRunCode, good: bytes, drawn: st.DataObject
) -> None:
    """A bit flipped, bytes cut off, left out or added: where C opens it, zlib does; and all is said as zlib says it."""
    data = bytearray(good)
    start, end = sorted((drawn.draw(st.integers(0, len(data))), drawn.draw(st.integers(0, len(data)))))
    match drawn.draw(st.sampled_from(["bit", "cut", "gap", "more"])):
        case "bit":
            data[min(start, len(data) - 1)] ^= 1 << drawn.draw(st.integers(0, 7))
        case "cut":
            del data[start:]
        case "gap":
            del data[start:end]
        case "more":
            data[start:start] = drawn.draw(st.binary(min_size=1, max_size=3))
    opened = compiled.open_stored(bytes(data), MIB)
    wanted = by_zlib(bytes(data))
    assert opened in {None, wanted}
    if wanted is None:
        with pytest.raises(InvalidMessageError, match="GZIP"):
            decompress(Codec.GZIP, bytes(data))
    else:
        assert decompress(Codec.GZIP, bytes(data)) == wanted


@given(st.binary(max_size=40))
@example(header(EXTRA)[:-1])
@example(header(NAME)[:-1])
@example(header(HEADER_CRC)[:-1])
def test_garbage_is_left_to_zlib(compiled: CompiledRunCode, garbage: bytes) -> None:
    """No read beyond the end, nor anything that zlib would refuse."""
    for data in (garbage, header(0) + garbage, header(0) + stored(b"x", is_last=False) + garbage):
        assert compiled.open_stored(data, MIB) in {None, by_zlib(data)}


GOOD = header(0) + stored(b"hello", is_last=True) + trailer(b"hello")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        gzip.compress(b"hello", mtime=0),
        GOOD + gzip.compress(b"hello", mtime=0),
        GOOD + b"\0",
        GOOD + GOOD[:5],
        GOOD[:-1],
        GOOD[:-8] + trailer(b"hellO"),
        GOOD[:-4] + struct.pack("<I", 6),
        header(32) + GOOD[10:],
        header(HEADER_CRC)[:-1] + b"?" + GOOD[10:],
        header(0) + stored(b"hello", is_last=False) + trailer(b"hello"),
        header(0) + struct.pack("<BHH", 1, 5, 5) + GOOD[15:],
        header(0) + struct.pack("<BHH", 1, 0xFFFF, 0) + b"hello" + trailer(b"hello"),
        GOOD[:2] + b"\x07" + GOOD[3:],
    ],
    ids=bytes.hex,
)
def test_anything_else_is_left_to_zlib(compiled: CompiledRunCode, data: bytes) -> None:
    """A compressed block, bytes behind the members, an early end, a false sum or size, and unknown fields."""
    assert compiled.open_stored(GOOD, MIB) == b"hello"
    assert compiled.open_stored(data, MIB) is None


@given(st.lists(members(), min_size=1, max_size=2).map(b"".join), st.integers(-1, 100))
def test_the_limit_is_that_of_zlib(compiled: CompiledRunCode, data: bytes, limit: int) -> None:
    """Exactly as much as allowed opens; beyond that, the error is the same."""
    wanted = by_zlib(data, limit)
    assert compiled.open_stored(data, limit) == wanted
    if wanted is None:
        with pytest.raises(OpensTooLargeError, match=f"opens to more than {limit}"):
            decompress(Codec.GZIP, data, limit)


@pytest.mark.parametrize("size", [65_535, 65_536, 250_000])
def test_large_payloads_open_in_one_piece(size: int) -> None:
    """Several blocks, and enough bytes that other threads run meanwhile; the piece is not larger than its payload."""
    values = os.urandom(size)
    data = gzip.compress(values, 0)
    pieces = list(open_chunks(Codec.GZIP, data))
    assert b"".join(pieces) == values
    if runs.compiled is not None:
        assert len(pieces) == 1


def test_what_opens_in_one_piece_has_a_limit() -> None:
    """Larger payloads open piece by piece, as compressed ones do."""
    data = gzip.compress(bytes(STORED_BYTES), 0)
    assert len(data) > STORED_BYTES
    sizes = [len(chunk) for chunk in open_chunks(Codec.GZIP, data)]
    assert sum(sizes) == STORED_BYTES
    assert max(sizes) <= CHUNK_BYTES


def test_wrong_arguments_are_refused(compiled: CompiledRunCode) -> None:
    """As Python refuses them."""
    with pytest.raises(TypeError):
        compiled.open_stored(GOOD)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        compiled.open_stored("text", 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        compiled.open_stored(GOOD, "1")  # type: ignore[arg-type]
