"""Brings pieces of files into memory, in threads: sendfile(2) would wait for the disk in the event loop."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gevent.threadpool import ThreadPool

from kafka2011.broker.flushing.disk_threads import in_pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.broker.connections.sending import Piece

READS_AT_ONCE = 4
"""Of all connections. Flushes, which those at the end of a log wait for, need the same disk."""
_STEP_BYTES = 256 * 1024


class PageReads:
    """Threads of their own, so that flushes do not stand behind reads."""

    def __init__(self) -> None:
        self._readers = ThreadPool(READS_AT_ONCE)

    def read(self, pieces: Sequence[Piece]) -> None:
        """Let others run until the pages are there. Raises OSError.

        Nothing keeps them there; a piece that ends early is left to who sends it.
        """
        in_pool(self._readers, _read, pieces)


def _read(pieces: Sequence[Piece]) -> None:
    for fd, position, size in pieces:
        # All of it at once, and no more: by itself the kernel would read ahead up to three times as much.
        os.posix_fadvise(fd, position, size, os.POSIX_FADV_WILLNEED)
    for fd, position, size in pieces:
        for begin in range(position, position + size, _STEP_BYTES):
            os.pread(fd, min(position + size - begin, _STEP_BYTES), begin)
