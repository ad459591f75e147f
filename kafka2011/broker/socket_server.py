"""Accepts connections, reads frames and sends replies; it knows nothing of logs.

One greenlet serves one connection strictly in order: a request is handled in full and its reply sent before the next is
looked at. Replies that are pieces of files go out by sendfile(2) (paper, section 3.1, "Efficient transfer").
"""

from __future__ import annotations

import errno
import logging
import os
import socket as stdlib_socket
import time
from collections import Counter
from typing import TYPE_CHECKING, Protocol

import gevent
from gevent import socket
from gevent.pool import Group

from kafka2011.broker.memory_budget import MemoryBudget, MemoryRefusedError
from kafka2011.errors import BrokerConnectionError, KafkaError, ProtocolError
from kafka2011.protocol import FrameReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.broker.handlers import Reply

logger = logging.getLogger(__name__)

RECEIVE_BYTES = 64 * 1024
LARGE_RECEIVE_BYTES = 256 * 1024
LISTEN_BACKLOG = 1024
TURN_S = 0.005
"""How long one connection may keep the others waiting when its socket never makes it wait."""
SEND_STALL_TIMEOUT_S = 600.0
ACCEPT_RETRY_S = 0.1

_SEND_ERRORS = {errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF, errno.ETIMEDOUT}


class FrameHandler(Protocol):
    """What a server is made for."""

    def __call__(self, frame: bytes, connection: Connection) -> Reply | None:
        """Handle one request frame and return what to answer, or None. Raises KafkaError to refuse it."""


class Connection:
    """One client's connection, and what it makes the broker hold."""

    __slots__ = ("_turn_ends_s", "claim", "counts", "name", "opened_claim", "socket")

    def __init__(self, accepted: socket.socket, name: str, budget: MemoryBudget, counts: Counter[str]) -> None:
        self.socket = accepted
        self.name = name
        self.counts = counts
        self.claim = budget.claim(name, self.stop_both)
        self.opened_claim = budget.claim(name, self.stop_both)
        self._turn_ends_s = 0.0

    def pause(self) -> None:
        """Let others run if this connection has had its turn."""
        now_s = time.monotonic()
        if now_s >= self._turn_ends_s:
            if self._turn_ends_s:
                gevent.sleep(0)
                now_s = time.monotonic()
            self._turn_ends_s = now_s + TURN_S

    def stop_reading(self) -> None:
        """Give the requests that have arrived an end behind them."""
        self._shut(stdlib_socket.SHUT_RD)

    def stop_both(self) -> None:
        """End the connection wherever it stands."""
        self._shut(stdlib_socket.SHUT_RDWR)

    def serve(self, handle: FrameHandler, max_frame_bytes: int) -> None:
        """Handle requests until the client ends the connection. Raises KafkaError for what is refused."""
        reader = FrameReader(max_frame_bytes)
        receive_bytes = RECEIVE_BYTES
        claim = self.claim
        while True:
            try:
                data = self.socket.recv(receive_bytes)
            except OSError as error:
                raise BrokerConnectionError(f"reading failed: {error}") from error
            if not data:
                if claim.refused:
                    raise MemoryRefusedError("its memory was needed by others")
                if reader.buffered_bytes:
                    raise BrokerConnectionError(f"ended within a request, after {reader.buffered_bytes} bytes of it")
                return
            self.counts["bytes_in"] += len(data)
            reader.receive_data(data)
            claim.resize(reader.buffered_bytes)
            while (frame := reader.next_frame()) is not None:
                self._answer(handle(frame, self))
                self.pause()
            claim.resize(reader.buffered_bytes)
            receive_bytes = RECEIVE_BYTES
            if reader.buffered_bytes and reader.missing_bytes() > RECEIVE_BYTES:
                receive_bytes = LARGE_RECEIVE_BYTES

    def close(self) -> None:
        """Close the socket and give back all memory."""
        self.claim.resize(0)
        self.opened_claim.resize(0)
        self.socket.close()

    def _answer(self, reply: Reply | None) -> None:
        if reply is None:
            return
        try:
            pending: list[bytes] = []  # headers travel in one packet with the data behind them
            for part in reply.parts:
                if isinstance(part, bytes):
                    pending.append(part)
                    continue
                self._send(b"".join(pending), stdlib_socket.MSG_MORE)
                pending = []
                self._send_file(part.fd, part.position, part.size)
                part.release()
            if pending:
                self._send(b"".join(pending), 0)
        except OSError as error:
            raise BrokerConnectionError(f"sending an answer failed: {error}") from error
        finally:
            reply.release()

    def _send(self, data: bytes, flags: int) -> None:
        self.socket.sendall(data, flags)
        self.counts["bytes_out"] += len(data)

    def _send_file(self, fd: int, position: int, size: int) -> None:
        """Send a piece of a file by sendfile(2); gevent's own socket.sendfile copies through Python."""
        end = position + size
        out_fd = self.socket.fileno()
        while position < end:
            try:
                sent_bytes = os.sendfile(out_fd, fd, position, end - position)
            except BlockingIOError:
                socket.wait_write(out_fd, timeout=SEND_STALL_TIMEOUT_S)
                self._turn_ends_s = 0.0
                continue
            if sent_bytes == 0:
                raise OSError(errno.EIO, f"the segment file ends at {position}, {end - position} bytes early")
            position += sent_bytes
            self.counts["sendfile_bytes"] += sent_bytes
            self.pause()
        self.counts["bytes_out"] += size

    def _shut(self, how: int) -> None:
        try:
            self.socket.shutdown(how)
        except OSError as error:
            if error.errno not in _SEND_ERRORS:
                logger.warning("shutting down the connection from %s: %s", self.name, error)


class SocketServer:
    """Listens on one address and serves each connection in its own greenlet.

    `counts` holds connections, bytes and refusals. An exception of `handle` that is not a KafkaError, or that
    `is_fatal` picks out, goes to `on_failure`.
    """

    def __init__(
        self,
        host: str,
        port: int,
        handle: FrameHandler,
        *,
        budget: MemoryBudget,
        max_frame_bytes: int,
        send_buffer_bytes: int,
        receive_buffer_bytes: int,
        max_connections: int,
        on_failure: Callable[[BaseException], None],
        is_fatal: Callable[[BaseException], bool],
    ) -> None:
        self._host = host
        self._requested_port = port
        self._handle = handle
        self._budget = budget
        self._max_frame_bytes = max_frame_bytes
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes
        self._max_connections = max_connections
        self._on_failure = on_failure
        self._is_fatal = is_fatal
        self._listener: socket.socket | None = None
        self._acceptor: gevent.Greenlet[[], None] | None = None
        self._greenlets = Group()
        self._connections: set[Connection] = set()
        self.counts: Counter[str] = Counter()
        self.port = port

    def listen(self) -> None:
        """Bind and accept from now on. Raises KafkaError naming the address when it is taken."""
        if self._listener is not None:
            return
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Inherited by accepted sockets; must be set before the window is agreed on.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
            listener.bind((self._host, self._requested_port))
            listener.listen(LISTEN_BACKLOG)
        except OSError as error:
            listener.close()
            raise KafkaError(f"cannot listen on {self._host}:{self._requested_port}: {error}") from error
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._acceptor = gevent.spawn(self._accept)

    def stop_accepting(self) -> None:
        """Take no more connections; may be called twice."""
        if self._acceptor is not None:
            self._acceptor.kill()
            self._acceptor = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def stop(self, timeout_s: float) -> None:
        """Stop accepting, let every connection finish the requests that have arrived, and close it.

        Those that are not done after the timeout are cut off.
        """
        self.stop_accepting()
        for connection in list(self._connections):
            connection.stop_reading()
        self._greenlets.join(timeout=timeout_s)
        if self._greenlets:
            logger.warning("cutting off %d connections that did not end in time", len(self._greenlets))
            self._greenlets.kill(timeout=timeout_s)

    def _accept(self) -> None:
        listener = self._listener
        assert listener is not None
        while True:
            try:
                accepted, (host, port, *_) = listener.accept()
            except OSError as error:
                logger.warning("accepting a connection failed: %s", error)  # out of file descriptors, most likely
                gevent.sleep(ACCEPT_RETRY_S)
                continue
            self.counts["connections"] += 1
            if len(self._connections) >= self._max_connections:
                accepted.close()
                self._count_refusal(f"{host}:{port}", f"there are {self._max_connections} connections already")
                continue
            self._greenlets.spawn(self._serve, accepted, f"{host}:{port}")

    def _serve(self, accepted: socket.socket, name: str) -> None:
        connection = Connection(accepted, name, self._budget, self.counts)
        self._connections.add(connection)
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.serve(self._handle, self._max_frame_bytes)
        except BrokerConnectionError as error:
            self.counts["broken_connections"] += 1
            logger.info("connection from %s: %s", name, error)
        except (ProtocolError, KafkaError) as error:
            if self._is_fatal(error):
                self._on_failure(error)
            else:
                self._count_refusal(name, str(error))
        except gevent.GreenletExit:
            self.counts["broken_connections"] += 1
            raise
        except Exception as error:  # noqa: BLE001 - the broker decides what to do with a bug
            self._on_failure(error)
        finally:
            self._connections.discard(connection)
            connection.close()

    def _count_refusal(self, name: str, why: str) -> None:
        self.counts["refused"] += 1
        logger.warning("closed the connection from %s: %s (%d refused so far)", name, why, self.counts["refused"])
