"""The content of a segment file, message by message, for people who inspect it; a broker needs none of this."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from kafka2011.errors import InvalidMessageError
from kafka2011.message.compression import Codec, decompress
from kafka2011.message.header import LENGTH_AND_MAGIC, LENGTH_BYTES, MessageHeader, header_fault, read_header
from kafka2011.message.message_set import MAX_NESTING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

READ_BYTES = 1024 * 1024
SUFFIX = ".kafka"

_CODECS = {codec.value: codec.name.lower() for codec in Codec}


class Entry(NamedTuple):
    """One message, or what stands where one should.

    `offset` is where the message, or the outermost wrapper that it came in, starts. `inner` is its number inside that
    wrapper ("0", "1"; "1.0" one wrapper deeper), empty for an outer message. `size` counts all its bytes. `fault`
    says what is wrong; magic, codec, payload size and payload are None where that cannot be told.
    """

    offset: int
    inner: str
    size: int
    magic: int | None
    codec: str | None
    payload_bytes: int | None
    fault: str | None
    payload: bytes | None = None


class _Found(NamedTuple):
    """A message at a position of some set, as its bytes say."""

    position: int
    size: int
    magic: int | None = None
    codec: int | None = None
    payload: bytes | None = None
    fault: str | None = None

    def entry(self, offset: int, inner: str) -> Entry:
        """Place it in the log."""
        codec = None if self.codec is None else _CODECS.get(self.codec, str(self.codec))
        payload_bytes = None if self.payload is None else len(self.payload)
        return Entry(offset, inner, self.size, self.magic, codec, payload_bytes, self.fault, self.payload)


@dataclass(frozen=True, slots=True)
class SegmentReader:
    """Reads segment files from front to back, a piece at a time.

    `checksum` recomputes every CRC. With `deep`, compressed messages are opened and those inside checked too.
    """

    checksum: Callable[[bytes], int]
    deep: bool

    def entries(self, path: Path) -> Iterator[Entry]:
        """Yield all messages of a file. A wrong CRC is passed over; a length that makes no sense ends the file."""
        start = first_offset(path)
        with path.open("rb", buffering=READ_BYTES) as file:
            for message in self._walk(file, os.fstat(file.fileno()).st_size):
                offset = start + message.position
                yield message.entry(offset, "")
                yield from self._inside(message, offset, "", 1)

    def _inside(self, wrapper: _Found, offset: int, inner: str, depth: int) -> Iterator[Entry]:
        """Yield what a good compressed message holds; nothing for any other."""
        if not self.deep or wrapper.fault is not None or wrapper.payload is None or not wrapper.codec:
            return
        fault = f"compressed sets are nested more than {MAX_NESTING} deep" if depth > MAX_NESTING else None
        opened = b""
        try:
            if fault is None:
                opened = decompress(wrapper.codec, wrapper.payload)
        except InvalidMessageError as error:
            fault = str(error)
        if fault is not None:
            yield wrapper._replace(fault=fault).entry(offset, inner or "-")
        for number, message in enumerate(self._walk(io.BytesIO(opened), len(opened))):
            place = f"{inner}.{number}" if inner else str(number)
            yield message.entry(offset, place)
            yield from self._inside(message, offset, place, depth + 1)

    def _walk(self, file: BinaryIO, size: int) -> Iterator[_Found]:
        """Yield the messages of a set; the last may be one that cannot be read on from."""
        position = 0
        while position < size:
            left = size - position
            head = file.read(LENGTH_AND_MAGIC.size)
            if len(head) < LENGTH_AND_MAGIC.size:
                yield _Found(position, left, fault=f"{left} bytes are no message")
                return
            length, magic = LENGTH_AND_MAGIC.unpack(head)
            size_bytes = LENGTH_BYTES + length
            fault = header_fault(length, magic)
            if fault is None and size_bytes > left:
                fault = f"a message of {size_bytes} bytes, of which only {left} are there"
            message = head if fault is not None else head + file.read(size_bytes - len(head))
            if fault is not None or len(message) < size_bytes:
                yield _Found(position, left, fault=fault or "the file became shorter meanwhile")
                return
            yield self._found(position, message)
            position += size_bytes

    def _found(self, position: int, message: bytes) -> _Found:
        """Look into a whole message that begins as one should."""
        header = read_header(message)
        assert isinstance(header, MessageHeader), "its beginning was looked at"
        payload = message[header.overhead_bytes :]
        computed = self.checksum(payload)
        fault = None
        if computed != header.crc:
            fault = f"CRC is {computed:#010x} instead of the stored {header.crc:#010x}"
        elif header.codec not in _CODECS:
            fault = f"codec {header.codec} is unknown"
        return _Found(position, len(message), header.magic, header.codec, payload, fault)


def first_offset(path: Path) -> int:
    """Return the offset at which a segment file starts, by its name; 0 for a file of another name."""
    return int(path.stem) if path.suffix == SUFFIX and path.stem.isascii() and path.stem.isdigit() else 0


def segment_files(path: Path) -> list[Path]:
    """Return the segment files that a path names: itself, or all in a directory and those below it."""
    return sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
