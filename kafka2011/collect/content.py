"""Reads a file's content from any position: as it is, or decompressed."""

from __future__ import annotations

import errno
import hashlib
import importlib
import os
from pathlib import PurePath
from typing import BinaryIO, NamedTuple, Protocol

from kafka2011.collect.positions import FileKey
from kafka2011.errors import KafkaError

_FINGERPRINT_BYTES = 256
_UNPACKED_AT_ONCE = 256 * 1024
_MODULES = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma", ".zst": "compression.zstd"}
"""The modules that read compressed files; the last came with Python 3.14, and a Python may be built without others."""


class MovedError(OSError):
    """A file that was closed no longer has its name."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ESTALE, "another file has its name now", path)


class UnpackError(KafkaError):
    """A compressed file cannot be read; the text says why."""


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

    def __init__(self, path: str, key: FileKey) -> None:
        self.path = path
        self._key = key
        self._head = self._piece = b""
        self._piece_at = 0
        suffix = PurePath(path).suffix
        try:
            module = importlib.import_module(_MODULES[suffix])
        except (KeyError, ImportError) as error:
            raise UnpackError(f"nothing here reads {suffix or path}") from error
        try:
            self._file: BinaryIO = module.open(path, "rb")
            status = os.stat(path)  # noqa: PTH116 (the path is text)
            try:
                self._head = self.pread(_FINGERPRINT_BYTES, 0)
                size_bytes = 0
                while piece := self.pread(_UNPACKED_AT_ONCE, size_bytes):
                    size_bytes += len(piece)
            except BaseException:
                self._file.close()
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

    def pread(self, size_bytes: int, position: int) -> bytes:
        """Return so many bytes from a position on, fewer at the end. Raises OSError."""
        for start, piece in ((0, self._head), (self._piece_at, self._piece)):
            if start <= position and position + size_bytes <= start + len(piece):
                return piece[position - start : position - start + size_bytes]
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
        self._file.close()
