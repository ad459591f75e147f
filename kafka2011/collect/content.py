"""Reads a file's content from any position: as it is, or decompressed."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from kafka2011.collect.positions import CountedBytes, FileKey
from kafka2011.collect.recognize import packing_of
from kafka2011.collect.unpack import UnpackError, open_unpacked

_FINGERPRINT_BYTES = 256
_SNIFFED_BYTES = 16
_UNPACKED_AT_ONCE = 256 * 1024


class MovedError(OSError):
    """A file that was closed no longer has its name."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ESTALE, "another file has its name now", path)


class ContentStatus(NamedTuple):
    """What is known of a file without reading it."""

    size_bytes: int
    modified_ns: int
    is_deleted: bool

    @classmethod
    def of(cls, status: os.stat_result) -> ContentStatus:
        """Take it from what stat(2) says."""
        return cls(status.st_size, status.st_mtime_ns, status.st_nlink == 0)


class Content(Protocol):
    """A file, whatever its current name."""

    path: str
    counted: CountedBytes
    """What its positions and its size count."""

    @property
    def key(self) -> FileKey:
        """Which file it is."""

    @property
    def is_held(self) -> bool:
        """Whether it stays readable whatever happens to its name, and no other file can get its inode."""

    def hold(self) -> None:
        """Open it, if it is not open. Raises OSError."""

    def status(self) -> ContentStatus:
        """Return how large it is now. Raises OSError."""

    def seen(self, status: os.stat_result) -> ContentStatus:
        """Return how large it is if stat(2) has said this of its file."""

    def pread(self, size_bytes: int, position: int) -> bytes:
        """Return so many bytes from a position on, fewer at the end. Raises OSError."""

    def close(self) -> None:
        """Close it. May be called twice."""


def fingerprint(content: Content, position: int) -> str | None:
    """Return a fingerprint of a file's first bytes and of the last ones before a position; None if it is shorter.

    It differs for another file with the same inode, and for one that was truncated and written again.
    """
    size_bytes = min(position, _FINGERPRINT_BYTES)
    if not size_bytes:
        return ""
    head = content.pread(size_bytes, 0)
    tail = content.pread(size_bytes, position - size_bytes)
    if len(head) < size_bytes or len(tail) < size_bytes:
        return None
    return hashlib.blake2b(head + tail, digest_size=12).hexdigest()


class OpenFiles:
    """Keeps a limited number of files open: closes the least recently used one, which is reopened when it is used."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._files: dict[PlainFile, None] = {}

    def use(self, file: PlainFile) -> None:
        """Note that a file, now open, is being used."""
        self._files.pop(file, None)
        self._files[file] = None
        if len(self._files) > self._most:
            next(iter(self._files)).close()

    def forget(self, file: PlainFile) -> None:
        """Note that a file is closed, or must stay open."""
        self._files.pop(file, None)


class PlainFile:
    """A file as it is, opened at its path when needed. Raises MovedError if that is another file by then."""

    counted = CountedBytes.FILE

    def __init__(self, path: str, key: FileKey, opened: OpenFiles) -> None:
        self.path = path
        self._key = key
        self._opened = opened
        self._fd = -1
        self._must_stay_open = False

    @property
    def key(self) -> FileKey:
        """Which file it is."""
        return self._key

    @property
    def is_held(self) -> bool:
        """Whether it is read whatever becomes of its name."""
        return self._fd >= 0

    def hold(self) -> None:
        """Open it, if it is not open. Raises OSError."""
        if self._fd < 0:
            self._open()
        if not self._must_stay_open:
            self._opened.use(self)

    def status(self) -> ContentStatus:
        """Return how large it is now. Raises OSError."""
        if self._fd >= 0:
            status = ContentStatus.of(os.fstat(self._fd))
            if status.is_deleted:  # it could not be opened again
                self._must_stay_open = True
                self._opened.forget(self)
            return status
        try:
            file_status = os.stat(self.path)  # noqa: PTH116 (the path is text)
        except FileNotFoundError as error:
            raise MovedError(self.path) from error
        if FileKey.of(file_status) != self._key:
            raise MovedError(self.path)
        return ContentStatus.of(file_status)

    def seen(self, status: os.stat_result) -> ContentStatus:
        """Return how large it is if stat(2) has said this of its file."""
        return ContentStatus.of(status)

    def pread(self, size_bytes: int, position: int) -> bytes:
        """Return so many bytes from a position on, fewer at the end. Raises OSError."""
        self.hold()
        return os.pread(self._fd, size_bytes, position)

    def close(self) -> None:
        """Close it. May be called twice."""
        self._opened.forget(self)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError as error:
            raise MovedError(self.path) from error
        try:
            is_same = FileKey.of(os.fstat(fd)) == self._key
        except BaseException:
            os.close(fd)
            raise
        if not is_same:
            os.close(fd)
            raise MovedError(self.path)
        self._fd = fd


class PackedFile:
    """The content of a compressed file, decompressed once to the end before anything is read. Raises UnpackError.

    Reading forward, or a little way back, is fast; going back further starts over from the beginning.
    """

    counted = CountedBytes.UNPACKED

    def __init__(self, path: str, key: FileKey) -> None:
        self.path = path
        self._key = key
        self._file: BinaryIO | None = None
        self._head = self._piece = b""
        self._piece_at = 0
        try:
            self._packed = Path(path).open("rb")  # noqa: SIM115 (closed with this)
            try:
                status = os.fstat(self._packed.fileno())
                self._file = open_unpacked(self._packed)
                self._head = self.pread(_FINGERPRINT_BYTES, 0)
                size_bytes = 0
                while piece := self.pread(_UNPACKED_AT_ONCE, size_bytes):
                    size_bytes += len(piece)
            except BaseException:
                self.close()
                raise
        except OSError as error:
            raise UnpackError(error.strerror or str(error)) from error
        self._status = ContentStatus(size_bytes, status.st_mtime_ns, is_deleted=False)

    @property
    def key(self) -> FileKey:
        """Which file it is."""
        return self._key

    @property
    def is_held(self) -> bool:
        """Whether it is read whatever becomes of its name."""
        return True

    def hold(self) -> None:
        """Do nothing: it is open."""

    def status(self) -> ContentStatus:
        """Return how large its content is; it no longer changes."""
        return self._status

    def seen(self, _status: os.stat_result) -> ContentStatus:
        """Return how large its content is; it no longer changes."""
        return self._status

    def pread(self, size_bytes: int, position: int) -> bytes:
        """Return so many bytes from a position on, fewer at the end. Raises OSError."""
        for start, piece in ((0, self._head), (self._piece_at, self._piece)):
            if start <= position and position + size_bytes <= start + len(piece):
                return piece[position - start : position - start + size_bytes]
        assert self._file is not None, "it is open"
        try:
            self._file.seek(position)
            data = self._file.read(size_bytes)
        except OSError:
            raise
        except Exception as error:  # each module has its own errors
            raise OSError(errno.EIO, f"it cannot be unpacked: {error}", self.path) from error
        self._piece_at, self._piece = position, data
        return data

    def close(self) -> None:
        """Close it. May be called twice."""
        if self._file is not None:
            self._file.close()
        self._packed.close()


def open_content(path: str, key: FileKey, opened: OpenFiles) -> Content:
    """Return the content of a file: unpacked, if its first bytes say that it is compressed.

    Raises OSError, and UnpackError for a compressed file that cannot be read.
    """
    plain = PlainFile(path, key, opened)
    try:
        is_packed = packing_of(plain.pread(_SNIFFED_BYTES, 0)) is not None
    except BaseException:
        plain.close()
        raise
    if not is_packed:
        return plain
    plain.close()
    return PackedFile(path, key)
