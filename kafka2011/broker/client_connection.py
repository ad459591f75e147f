"""One client's connection to a broker: frames in, replies out, strictly in order; it knows nothing of logs.

Each request is handled in full, and its reply sent, before the next is looked at. Replies that are pieces of files go
out by sendfile(2) (paper, section 3.1, "Efficient transfer").
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import socket as stdlib_socket
import termios
import time
from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING

import gevent
from gevent import socket

from kafka2011.broker.handlers import Reply
from kafka2011.broker.memory_budget import MemoryRefusedError
from kafka2011.errors import BrokerConnectionError, KafkaError
from kafka2011.message.header import AnyBytes
from kafka2011.wire.protocol import FrameReader

if TYPE_CHECKING:
    from collections import Counter

    from gevent.lock import Semaphore

    from kafka2011.broker.memory_budget import MemoryBudget
    from kafka2011.broker.small_share import SmallShare
    from kafka2011.log.segment import LogSlice

logger = logging.getLogger(__name__)

FrameHandler = Callable[[AnyBytes, list[bytes]], Reply | None]
"""Handles one request frame, and the sets of produces like it that follow; returns what to answer, or None.

Raises KafkaError to refuse it.
"""

RECEIVE_BYTES = 64 * 1024
LARGE_RECEIVE_BYTES = 256 * 1024
LARGE_SHARE = 1 / 64
"""A request that holds more than this of the memory for requests is large: it needs a turn to go on."""
LARGE_TURN_WAIT_S = 0.5
"""How long it waits for a turn before it goes on without one; shorter than the memory budget's patience."""
SENDFILE_BYTES = 1024 * 1024
"""The most that one call sends: a fast reader would otherwise occupy the broker for a whole segment."""
TURN_S = 0.005
"""How long one connection may keep the others waiting when its socket never makes it wait."""
SEND_STALL_TIMEOUT_S = 600.0
"""How long a client may read nothing of its reply before its connection is closed."""

_LOOP_ROUND_S = 1e-6
"""gevent looks at no socket between greenlets that sleep for 0 seconds, but before any timer."""
_CONNECTION_ERRORS = {errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.EBADF}


class SegmentReadError(KafkaError):
    """A segment file could not be read while it was being sent."""


def let_others_run() -> None:
    """Yield to everything that is ready to run, sockets and signals included."""
    gevent.sleep(_LOOP_ROUND_S)


class Connection:
    """An accepted connection, and the resources that it holds in the broker. Owns its socket until `close`."""

    __slots__ = (
        "_has_large_turn",
        "_large_bytes",
        "_large_turns",
        "_small",
        "_turn_ends_s",
        "_unread_bytes",
        "claim",
        "counts",
        "name",
        "opened_claim",
        "socket",
    )

    def __init__(
        self,
        accepted: socket.socket,
        name: str,
        budget: MemoryBudget,
        small: SmallShare,
        counts: Counter[str],
        large_turns: Semaphore,
    ) -> None:
        self.socket = accepted
        self.name = name
        self.counts = counts
        self.claim = budget.claim(name, self.stop_both)
        self.opened_claim = budget.claim(name, self.stop_both)
        self._small = small.claim(name, self._evict)
        self._large_turns = large_turns
        self._large_bytes = budget.max_bytes * LARGE_SHARE
        self._has_large_turn = False
        self._turn_ends_s = 0.0
        self._unread_bytes: int | None = None  # when stopping: how much is still to be read

    def pause(self) -> None:
        """Let others run if this connection has had its turn."""
        now_s = time.monotonic()
        if now_s >= self._turn_ends_s:
            if self._turn_ends_s:
                let_others_run()
                now_s = time.monotonic()
            self._turn_ends_s = now_s + TURN_S

    def stop_reading(self) -> None:
        """Make the requests that have arrived the last: nothing more is read from now on."""
        if self._unread_bytes is None:
            arrived = array("i", [0])
            fcntl.ioctl(self.socket.fileno(), termios.FIONREAD, arrived)
            self._unread_bytes = arrived[0]
        self._shut(stdlib_socket.SHUT_RD)  # wakes the waiting reader; some kernels go on delivering what arrives

    def stop_both(self) -> None:
        """End the connection wherever it stands."""
        self._shut(stdlib_socket.SHUT_RDWR)

    def serve(self, handle: FrameHandler, max_frame_bytes: int) -> None:
        """Handle requests until the client ends the connection. Raises KafkaError for what is refused."""
        reader = FrameReader(max_frame_bytes)
        claim, small = self.claim, self._small
        receive_bytes = RECEIVE_BYTES
        while received_bytes := self._feed(reader, receive_bytes):
            buffered_bytes = reader.buffered_bytes
            claim.resize(small.hold(buffered_bytes))
            if buffered_bytes > self._large_bytes and not self._has_large_turn:
                self._has_large_turn = self._large_turns.acquire(timeout=LARGE_TURN_WAIT_S)
            while (frame := reader.next_frame()) is not None:
                small.finish()
                reply = handle(frame, reader.following_produces(frame))
                if reply is not None:
                    self._answer(reply)
                self.pause()
            buffered_bytes = reader.buffered_bytes
            self._keep(buffered_bytes)
            has_more = received_bytes == receive_bytes or (
                buffered_bytes > 0 and reader.missing_bytes() > RECEIVE_BYTES
            )
            receive_bytes = RECEIVE_BYTES
            if has_more:
                receive_bytes = LARGE_RECEIVE_BYTES
                self.pause()  # it may come as fast as it is read
        if claim.refused:
            raise MemoryRefusedError("its memory was needed by others")
        if reader.buffered_bytes:
            raise BrokerConnectionError(f"ended within a request, after {reader.buffered_bytes} bytes of it")

    def _keep(self, buffered_bytes: int) -> None:
        """Hold what is left when all whole requests were handled: the beginning of one, or nothing."""
        if buffered_bytes and not self._small.is_unfinished:
            self._small.begin()
        self.claim.resize(self._small.hold(buffered_bytes))
        if buffered_bytes <= self._large_bytes:
            self._end_large_turn()

    def close(self) -> None:
        """Close the socket and give back all memory; may be called twice."""
        self._end_large_turn()
        self._small.finish()
        self._small.hold(0)
        self.claim.resize(0)
        self.opened_claim.resize(0)
        self.socket.close()

    def _evict(self) -> None:
        self.claim.refuse()
        self.stop_both()

    def _end_large_turn(self) -> None:
        if self._has_large_turn:
            self._has_large_turn = False
            self._large_turns.release()

    def _feed(self, reader: FrameReader, most_bytes: int) -> int:
        """Give the reader what has arrived, and keep none of it here; return its size, 0 when no more is to come."""
        data = self._receive(most_bytes)
        reader.receive_data(data)
        return len(data)

    def _receive(self, most_bytes: int) -> bytes:
        """Return what has arrived, or nothing when no more is wanted or will come."""
        if self.claim.refused:
            return b""
        if self._unread_bytes is not None:
            most_bytes = min(most_bytes, self._unread_bytes)
            if most_bytes <= 0:
                return b""
        try:
            data = self.socket.recv(most_bytes)
        except OSError as error:
            if self.claim.refused:
                return b""
            raise BrokerConnectionError(f"reading failed: {error}") from error
        if self._unread_bytes is not None:
            self._unread_bytes -= len(data)
        self.counts["bytes_in"] += len(data)
        return data

    def _answer(self, reply: Reply) -> None:
        try:
            pending: list[bytes] = []  # headers travel in one packet with the data that follows
            for part in reply.parts:
                if isinstance(part, bytes):
                    pending.append(part)
                    continue
                self._send(b"".join(pending), stdlib_socket.MSG_MORE)
                pending = []
                self._send_slice(part)
            if pending:
                self._send(b"".join(pending), 0)
        finally:
            reply.release()

    def _send_slice(self, part: LogSlice) -> None:
        try:
            part.resume()
        except OSError as error:
            raise SegmentReadError(f"opening a segment file again failed: {error}") from error
        self._send_file(part.fd, part.position, part.size)
        part.release()

    def _send(self, data: bytes, flags: int) -> None:
        opened = self.socket
        opened.settimeout(SEND_STALL_TIMEOUT_S)
        try:
            sent_bytes = opened.send(data, flags)  # all of it, nearly always; sendall costs a system call more
            if sent_bytes < len(data):
                opened.sendall(data[sent_bytes:], flags)
        except OSError as error:
            raise BrokerConnectionError(f"sending an answer failed: {error}") from error
        opened.settimeout(None)
        self.counts["bytes_out"] += len(data)

    def _send_file(self, fd: int, position: int, size: int) -> None:
        """Send a piece of a file by sendfile(2); gevent's own socket.sendfile copies through Python."""
        end = position + size
        out_fd = self.socket.fileno()
        while position < end:
            try:
                sent_bytes = os.sendfile(out_fd, fd, position, min(end - position, SENDFILE_BYTES))
            except BlockingIOError:
                self._await_room(out_fd)
                continue
            except OSError as error:
                if error.errno in _CONNECTION_ERRORS:
                    raise BrokerConnectionError(f"sending an answer failed: {error}") from error
                raise SegmentReadError(f"reading a segment file at {position} failed: {error}") from error
            if sent_bytes == 0:
                raise SegmentReadError(f"a segment file ends at {position}, {end - position} bytes early")
            position += sent_bytes
            self.counts["sendfile_bytes"] += sent_bytes
            self.pause()
        self.counts["bytes_out"] += size

    def _await_room(self, out_fd: int) -> None:
        try:
            socket.wait_write(out_fd, timeout=SEND_STALL_TIMEOUT_S)
        except OSError as error:  # the timeout
            raise BrokerConnectionError(f"the client takes nothing of its answer: {error}") from error
        self._turn_ends_s = 0.0

    def _shut(self, how: int) -> None:
        try:
            self.socket.shutdown(how)
        except OSError as error:
            if error.errno not in _CONNECTION_ERRORS:
                logger.warning("shutting down the connection from %s: %s", self.name, error)
