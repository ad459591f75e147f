"""Opens a file to read its lines as text in UTF-8: unpacked, without a byte order mark, and only if it has lines."""

from __future__ import annotations

import codecs
import io
import os
import shutil
import stat
import tempfile
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, BinaryIO

from kafka2011.collect.recognize import SNIFFED_BYTES, encoding_of, packing_of, why_no_text
from kafka2011.collect.refused import NoTextError
from kafka2011.collect.unpack import UnpackError, open_unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _typeshed import WriteableBuffer

_READ_BYTES = 64 * 1024


@contextmanager
def open_text(file: io.BufferedReader, path: str, *, is_text: bool = True) -> Iterator[io.BufferedReader]:
    """Open what reads the text of a file, which is at its beginning and stays open.

    Without `is_text` it may hold anything, and compressed files and texts with a byte order mark are still recognized.
    Raises UnpackError, NoTextError and OSError; reading raises UnpackError too.
    """
    with ExitStack() as opened:
        if packing_of(file.peek(SNIFFED_BYTES)) is not None:
            file = _unpacked(file, path, opened)
        beginning = file.peek(SNIFFED_BYTES)
        encoding = encoding_of(beginning)
        if encoding is not None:
            file.read(len(encoding.mark))
            if encoding.unit_bytes > 1:
                file = io.BufferedReader(_Changed(file.read1, _decoder(encoding.codec), path), _READ_BYTES)
        elif is_text and (what := why_no_text(beginning)) is not None:
            raise NoTextError(path, what)
        yield file


def _unpacked(file: io.BufferedReader, path: str, opened: ExitStack) -> io.BufferedReader:
    """Return the content of a compressed file; one that is no regular file is copied aside. Raises UnpackError."""
    packed: BinaryIO = file
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        packed = opened.enter_context(tempfile.TemporaryFile(prefix="kafka2011-packed-"))  # noqa: SIM115
        shutil.copyfileobj(file, packed)
        packed.flush()
    try:
        unpacked = opened.enter_context(open_unpacked(packed))
    except UnpackError as error:
        raise UnpackError(f"cannot read {path}: {error}") from error
    return io.BufferedReader(_Changed(unpacked.read, bytes, path), _READ_BYTES)


def _decoder(codec: str) -> Callable[[bytes], bytes]:
    decoder = codecs.getincrementaldecoder(codec)("replace")
    return lambda data: decoder.decode(data, final=not data).encode()


class _Changed(io.RawIOBase):
    """What a file holds, changed piece by piece. Reading raises UnpackError for what cannot be unpacked."""

    def __init__(self, read: Callable[[int], bytes], change: Callable[[bytes], bytes], path: str) -> None:
        self._read_more = read
        self._change = change
        self._path = path
        self._left = b""
        self._has_ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        while not self._left and not self._has_ended:
            data = self._read()
            self._has_ended = not data
            self._left = self._change(data)
        size_bytes = min(len(view), len(self._left))
        view[:size_bytes] = self._left[:size_bytes]
        self._left = self._left[size_bytes:]
        return size_bytes

    def _read(self) -> bytes:
        try:
            return self._read_more(_READ_BYTES)
        except Exception as error:  # each module has its own errors
            raise UnpackError(f"cannot read {self._path}: {error}") from error
