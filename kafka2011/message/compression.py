"""The two codecs of Kafka 0.7, GZIP and snappy-java's stream, opened piece by piece under a limit."""

from __future__ import annotations

import enum
import struct
import zlib
from typing import TYPE_CHECKING

import cramjam

from kafka2011.errors import InvalidMessageError
from kafka2011.message import runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.message.header import AnyBytes

DEFAULT_MAX_OPENED_BYTES = 100 * 1024 * 1024
CHUNK_BYTES = 256 * 1024
STORED_BYTES = 1024 * 1024
"""A GZIP payload up to this size is opened in one piece by C code if its bytes are stored, not compressed.

That takes 0.15 ms, or 3 ms where a million bytes open to nothing, and never more memory than the payload has.
"""
# zlib copies the input that it did not use, so it is given little at a time.
GZIP_INPUT_BYTES = 32 * 1024

SNAPPY_MAGIC = b"\x82SNAPPY\x00"
SNAPPY_HEADER = SNAPPY_MAGIC + struct.pack(">ii", 1, 1)
SNAPPY_BLOCK_BYTES = 32 * 1024
# A Snappy copy element is at least 3 bytes and gives at most 64, so no honest block opens to more than this.
SNAPPY_MAX_RATIO = 22

_GZIP_WBITS = 31
_GZIP_MAGIC = b"\x1f\x8b"
_LENGTH = struct.Struct(">i")


class OpensTooLargeError(InvalidMessageError):
    """Means that a compressed payload opens to more bytes than are allowed."""


class Codec(enum.IntEnum):
    """Names how the payload of a wrapper message is compressed: bits 0-1 of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2


def compress(codec: Codec, data: bytes) -> bytes:
    """Return `data` as the payload of a wrapper message."""
    if codec is Codec.GZIP:
        compressor = zlib.compressobj(wbits=_GZIP_WBITS)
        return compressor.compress(data) + compressor.flush()
    if codec is Codec.SNAPPY:
        parts = [SNAPPY_HEADER]
        for start in range(0, len(data), SNAPPY_BLOCK_BYTES):
            block = bytes(cramjam.snappy.compress_raw(data[start : start + SNAPPY_BLOCK_BYTES]))
            parts += (_LENGTH.pack(len(block)), block)
        return b"".join(parts)
    return data


def decompress(codec: int, data: AnyBytes, max_opened_bytes: int = DEFAULT_MAX_OPENED_BYTES) -> bytes:
    """Return the whole opened payload. Raises InvalidMessageError as `open_chunks` does."""
    return b"".join(open_chunks(codec, data, max_opened_bytes))


def open_chunks(codec: int, data: AnyBytes, max_opened_bytes: int = DEFAULT_MAX_OPENED_BYTES) -> Iterator[bytes]:
    """Yield the opened payload in pieces, some of them empty.

    So a small input can claim neither much memory nor a long time between two pieces.
    Raises InvalidMessageError when the codec is unknown, the bytes do not open, or they open to more than
    `max_opened_bytes`; the last is noticed before the excess is opened.
    """
    if codec == Codec.GZIP:
        chunks = _open_gzip(data, max_opened_bytes)
    elif codec == Codec.SNAPPY:
        chunks = _open_snappy(bytes(data), max_opened_bytes)
    else:
        raise InvalidMessageError(f"codec {codec} is unknown")
    opened_bytes = 0
    for chunk in chunks:
        opened_bytes += len(chunk)
        if opened_bytes > max_opened_bytes:
            raise OpensTooLargeError(f"a compressed set of {len(data)} bytes opens to more than {max_opened_bytes}")
        yield chunk


def _open_gzip(data: AnyBytes, max_opened_bytes: int) -> Iterator[bytes]:
    if len(data) <= STORED_BYTES:
        opened = runs.chosen.open_stored(data, max_opened_bytes)
        if opened is not None:
            yield opened
            return
    view = memoryview(data)
    position = 0
    try:
        while True:
            inflater = zlib.decompressobj(wbits=_GZIP_WBITS)
            while not inflater.eof:
                given: bytes | memoryview = inflater.unconsumed_tail
                if not given:
                    given = view[position : position + GZIP_INPUT_BYTES]
                    position += len(given)
                chunk = inflater.decompress(given, CHUNK_BYTES)
                if not chunk and not given:
                    raise InvalidMessageError(f"a GZIP payload of {len(data)} bytes ends in the middle")
                yield chunk
            position -= len(inflater.unused_data)
            # Members may follow one another; anything else that follows is ignored, as in Java.
            if view[position : position + len(_GZIP_MAGIC)] != _GZIP_MAGIC:
                return
    except zlib.error as error:
        raise InvalidMessageError(f"a GZIP payload of {len(data)} bytes does not open: {error}") from error


def _open_snappy(data: bytes, max_opened_bytes: int) -> Iterator[bytes]:
    if not data.startswith(SNAPPY_MAGIC):
        # snappy-java reads a payload without its stream header as one raw block.
        yield _open_snappy_block(data, max_opened_bytes)
        return
    remaining_bytes = max_opened_bytes
    position = len(SNAPPY_HEADER)
    if len(data) < position:
        raise InvalidMessageError("a Snappy payload ends within its header")
    while position < len(data):
        if data.startswith(SNAPPY_MAGIC, position):  # streams may be joined
            position += len(SNAPPY_HEADER)
            continue
        if position + 4 > len(data):
            return  # snappy-java takes anything too short to be a length as the end
        (length,) = _LENGTH.unpack_from(data, position)
        position += 4
        if length < 0 or position + length > len(data):
            raise InvalidMessageError(f"a Snappy block of {length} bytes does not fit its payload of {len(data)}")
        chunk = _open_snappy_block(data[position : position + length], remaining_bytes)
        yield chunk
        remaining_bytes -= len(chunk)
        position += length


def _open_snappy_block(block: bytes, max_opened_bytes: int) -> bytes:
    try:
        claimed_bytes = cramjam.snappy.decompress_raw_len(block)
        # The claim sizes the output buffer, so it is checked before anything is allocated.
        if claimed_bytes > max_opened_bytes or claimed_bytes > SNAPPY_MAX_RATIO * len(block):
            is_possible = claimed_bytes <= SNAPPY_MAX_RATIO * len(block)
            raise (OpensTooLargeError if is_possible else InvalidMessageError)(
                f"a Snappy block of {len(block)} bytes claims to open to {claimed_bytes},"
                f" while {max_opened_bytes} are left and its size allows {SNAPPY_MAX_RATIO * len(block)}"
            )
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise InvalidMessageError(f"a Snappy block of {len(block)} bytes does not open: {error}") from error
