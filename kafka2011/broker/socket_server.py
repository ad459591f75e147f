"""Accepts connections and serves each in its own greenlet; it knows nothing of logs."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

import gevent
from gevent import socket
from gevent.lock import Semaphore
from gevent.pool import Group

from kafka2011.broker.client_connection import Connection
from kafka2011.errors import BrokerConnectionError, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.broker.client_connection import FrameHandler
    from kafka2011.broker.memory_budget import MemoryBudget
    from kafka2011.broker.small_share import SmallShare

logger = logging.getLogger(__name__)

LISTEN_BACKLOG = 1024
ACCEPT_RETRY_S = 0.1


class SocketServer:
    """Listens on one address. `new_handler` makes the handler of a connection's frames.

    `counts` holds connections, bytes and refusals. A KafkaError of a handler that `is_fatal` picks out goes to
    `on_failure`; any other exception ends its connection alone.
    """

    def __init__(
        self,
        host: str,
        port: int,
        new_handler: Callable[[Connection], FrameHandler],
        *,
        budget: MemoryBudget,
        small: SmallShare,
        max_frame_bytes: int,
        send_buffer_bytes: int,
        receive_buffer_bytes: int,
        max_connections: int,
        on_failure: Callable[[BaseException], None],
        is_fatal: Callable[[BaseException], bool],
    ) -> None:
        self._host = host
        self._requested_port = port
        self._new_handler = new_handler
        self._budget = budget
        self._small = small
        self._max_frame_bytes = max_frame_bytes
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes
        self._max_connections = max_connections
        self._on_failure = on_failure
        self._is_fatal = is_fatal
        # How many of the largest requests have room at once, beside smaller ones. When more arrive at an even pace,
        # all of them end up waiting for memory, and some have to be closed.
        self._large_turns = Semaphore(max(1, budget.max_bytes // max_frame_bytes - 1))
        self._listener: socket.socket | None = None
        self._acceptor: gevent.Greenlet[[socket.socket], None] | None = None
        self._greenlets = Group()
        self._connections: set[Connection] = set()
        self.counts: Counter[str] = Counter()
        self.port = port

    def listen(self) -> None:
        """Bind and begin to accept. Raises KafkaError naming the address when it is taken."""
        if self._listener is not None:
            return
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Inherited by accepted sockets; the buffers must be set before the window is agreed on.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
            listener.bind((self._host, self._requested_port))
            listener.listen(LISTEN_BACKLOG)
        except OSError as error:
            listener.close()
            raise KafkaError(f"cannot listen on {self._host}:{self._requested_port}: {error}") from error
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._acceptor = gevent.spawn(self._accept, listener)

    def stop_accepting(self) -> None:
        """Take no more connections; may be called twice."""
        acceptor, self._acceptor = self._acceptor, None
        if acceptor is not None:
            acceptor.kill()
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

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

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                accepted, (host, port, *_) = listener.accept()
            except OSError as error:
                logger.warning("accepting a connection failed: %s", error)  # out of file descriptors, most likely
                gevent.sleep(ACCEPT_RETRY_S)
                continue
            name = f"{host}:{port}"
            self.counts["connections"] += 1
            if len(self._connections) >= self._max_connections:
                accepted.close()
                self._count_refusal(name, f"there are {self._max_connections} connections already")
                continue
            connection = Connection(accepted, name, self._budget, self._small, self.counts, self._large_turns)
            self._connections.add(connection)  # here, so that `stop` also sees those that have not begun
            self._greenlets.spawn(self._serve, connection)

    def _serve(self, connection: Connection) -> None:
        try:
            connection.serve(self._new_handler(connection), self._max_frame_bytes)
        except BrokerConnectionError as error:
            self._count_broken(connection.name, str(error))
        except KafkaError as error:
            if self._is_fatal(error):
                self._on_failure(error)
            else:
                self._count_refusal(connection.name, str(error))
        except gevent.GreenletExit:
            self._count_broken(connection.name, "cut off")
        except Exception:
            self.counts["handler_errors"] += 1
            logger.exception(
                "closed the connection from %s: unexpected error (%d so far)",
                connection.name,
                self.counts["handler_errors"],
            )
        finally:
            self._connections.discard(connection)
            connection.close()

    def _count_broken(self, name: str, why: str) -> None:
        self.counts["broken_connections"] += 1
        logger.info("connection from %s: %s", name, why)

    def _count_refusal(self, name: str, why: str) -> None:
        self.counts["refused"] += 1
        logger.warning("closed the connection from %s: %s (%d refused so far)", name, why, self.counts["refused"])
