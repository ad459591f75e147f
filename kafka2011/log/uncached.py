"""Reads a file from its disk, and leaves the page cache to those who need it."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import itertools
import mmap
import os
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafka2011.message.header import AnyBytes

READ_BYTES = 256 * 1024
"""How much is read at a time."""
PAGE = mmap.PAGESIZE
_LIBC = ctypes.CDLL(None)
_NO_DIRECT_READS = frozenset({errno.EINVAL, errno.EOPNOTSUPP})


class UncachedFile:
    """A file opened for reading, a context manager. `spend` is told how many bytes before they are read.

    It is read with O_DIRECT. A file system without that gives what the page cache has; what is read beside that is
    dropped from it again. Raises OSError.
    """

    def __init__(self, path: Path, spend: Callable[[int], None] = lambda _bytes: None) -> None:
        self._spend = spend
        self._buffer = mmap.mmap(-1, READ_BYTES + 2 * PAGE)  # which starts on a page
        self._view = memoryview(self._buffer)
        self._is_direct = True
        try:
            self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
        except OSError as error:
            if error.errno not in _NO_DIRECT_READS:
                raise
            self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._read_by_cache()

    def read(self, _fd: int, size: int, position: int) -> AnyBytes:
        """Return at most `size` bytes of this file, in memory that the next call uses again."""
        size = min(size, READ_BYTES)
        start = position - position % PAGE
        wanted = -(-(position + size - start) // PAGE) * PAGE
        self._spend(size)
        count = self._fill(start, wanted)
        return self._view[position - start : min(count, position - start + size)]

    def _fill(self, position: int, size: int) -> int:
        """Return how many bytes came, into the buffer."""
        into = [self._view[:size]]
        if self._is_direct:
            try:
                return os.preadv(self.fd, into, position)
            except OSError as error:
                if error.errno not in _NO_DIRECT_READS:
                    raise
            fcntl.fcntl(self.fd, fcntl.F_SETFL, fcntl.fcntl(self.fd, fcntl.F_GETFL) & ~os.O_DIRECT)
            self._read_by_cache()
        had = cached_pages(self.fd, position, size)
        count = os.preadv(self.fd, into, position)
        at = position
        for was_cached, pages in itertools.groupby(had):
            run_bytes = len(list(pages)) * PAGE
            if not was_cached:
                os.posix_fadvise(self.fd, at, run_bytes, os.POSIX_FADV_DONTNEED)
            at += run_bytes
        return count

    def _read_by_cache(self) -> None:
        self._is_direct = False
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_RANDOM)  # nothing beyond what is asked for

    def close(self) -> None:
        """Close the file; may be called twice."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def cached_pages(fd: int, position: int, size: int) -> list[bool]:
    """Say of each page of a part of a file whether it is in the page cache. It starts with a page; it may end later.

    Where the kernel does not tell, all of them are. Raises OSError.
    """
    size = min(size, os.fstat(fd).st_size - position)
    if size <= 0:
        return []
    pages = (ctypes.c_ubyte * -(-size // PAGE))()
    with mmap.mmap(fd, size, offset=position, access=mmap.ACCESS_COPY) as mapped:
        first = ctypes.c_char.from_buffer(mapped)  # of a private mapping, for its address
        failed = _LIBC.mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), pages)
        del first
    return [failed != 0 or bool(page & 1) for page in pages]
