"""Sends answers to one client; pieces of files go out by sendfile(2) (paper, section 3.1, "Efficient transfer")."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any, ClassVar

from gevent import socket

from kafka2011.broker.connections.send_threads import LEAST_BYTES
from kafka2011.broker.connections.sending import FILE_ENDED, NOT_IN_MEMORY, batches, pieces_between, send_parts
from kafka2011.errors import BrokerConnectionError, KafkaError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from kafka2011.broker.connections.answer_threads import AnswerThreads
    from kafka2011.broker.connections.sending import Part, Piece
    from kafka2011.broker.connections.turn import Turn
    from kafka2011.log.segment import LogSlice

SENDFILE_BYTES = 1024 * 1024
"""The most that one call sends: a fast reader would otherwise occupy the broker for a whole segment."""
SEND_STALL_TIMEOUT_S = 600.0
"""How long a client may read nothing of its reply before its connection is closed."""
CONNECTION_ERRORS = {errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.EBADF}


class SegmentReadError(KafkaError):
    """A segment file could not be read while it was being sent."""


class AnswerWriter:
    """Writes answers to a socket, or what is as one, and lets others run meanwhile."""

    by_sendfile: ClassVar[bool] = True

    __slots__ = ("_counts", "_socket", "_threads", "_turn")

    def __init__(self, to: Any, counts: Counter[str], turn: Turn, threads: AnswerThreads) -> None:
        self._socket = to
        self._counts = counts
        self._turn = turn
        self._threads = threads

    def send(self, parts: tuple[bytes | LogSlice, ...]) -> None:
        """Send all parts. Raises BrokerConnectionError, and SegmentReadError after which the client knows no more."""
        for batch in batches(parts):
            self._send_batch(batch)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are. Raises BrokerConnectionError."""
        self.send_parts(((data, -1, 0, 0),), len(data))
        self._counts["bytes_out"] += len(data)

    def _send_batch(self, batch: list[tuple[bytes, LogSlice | None]]) -> None:
        parts = []
        size = file_bytes = 0
        for head, piece in batch:
            if piece is None:
                parts.append((head, -1, 0, 0))
            else:
                try:
                    piece.resume()
                except OSError as error:
                    raise SegmentReadError(f"opening a segment file again failed: {error}") from error
                parts.append((head, piece.fd, piece.position, piece.size))
                file_bytes += piece.size
            size += len(head)
        self.send_parts(tuple(parts), size + file_bytes)
        for _, piece in batch:
            if piece is not None:
                piece.release()
        self._counts["bytes_out"] += size + file_bytes
        if self.by_sendfile:
            self._counts["sendfile_bytes"] += file_bytes

    def send_parts(self, parts: tuple[Part, ...], size: int) -> None:
        """Send what a batch has; pieces of files go out by sendfile(2), for which gevent copies through Python."""
        sent_bytes = 0
        may_wait = False  # for the disk, since all of it was read just now
        out_fd, sends = self._socket.fileno(), self._threads.sends
        if size < LEAST_BYTES or (sends is not None and not sends.is_wanted(out_fd)):
            sends = None
        while sent_bytes < size:
            if sends is not None and not may_wait:
                sent_bytes, error = sends.send(out_fd, parts, sent_bytes, size, SEND_STALL_TIMEOUT_S)
                self._turn.end()
            else:
                until_bytes = min(size, sent_bytes + SENDFILE_BYTES)
                sent_bytes, error = send_parts(self._socket, parts, sent_bytes, until_bytes, may_wait=may_wait)
            may_wait = error == NOT_IN_MEMORY
            if may_wait:
                self._read_pages(pieces_between(parts, sent_bytes, min(size, sent_bytes + SENDFILE_BYTES)))
            elif error == errno.EAGAIN:
                self._await_room(out_fd)
            elif error in CONNECTION_ERRORS:
                raise BrokerConnectionError(f"sending an answer failed: {os.strerror(error)}")
            elif error not in {0, errno.EINTR}:
                problem = "it ends early" if error == FILE_ENDED else os.strerror(error)
                raise SegmentReadError(f"reading a segment file failed, {size - sent_bytes} bytes to go: {problem}")
            elif sent_bytes < size:
                self._turn.pause()

    def _read_pages(self, pieces: Sequence[Piece]) -> None:
        """Have others run while the disk is read."""
        try:
            self._threads.reads.read(pieces)
        except OSError as error:
            raise SegmentReadError(f"reading a segment file failed: {error}") from error
        self._counts["disk_read_bytes"] += sum(size for _, _, size in pieces)
        self._turn.end()

    def _await_room(self, out_fd: int) -> None:
        try:
            socket.wait_write(out_fd, timeout=SEND_STALL_TIMEOUT_S)
        except OSError as error:  # the timeout
            raise BrokerConnectionError(f"the client does not read its answer: {error}") from error
        self._turn.end()
