"""Accepts connections and serves each in its own greenlet; it knows nothing of logs."""

from __future__ import annotations

import errno
import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import gevent
from gevent import socket
from gevent.pool import Group

from kafka2011.broker.connections.answer_threads import AnswerThreads
from kafka2011.broker.connections.file_limit import MAX_CONNECTIONS, max_connections
from kafka2011.broker.notices import Notices
from kafka2011.errors import BrokerConnectionError, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafka2011.broker.connections.client_connection import Connection
    from kafka2011.broker.connections.listener import Listener
    from kafka2011.broker.memory.request_memory import RequestMemory
    from kafka2011.broker.requests.receive_buffer import ReceiveBuffers
    from kafka2011.config import ServerConfig
    from zk.clock import Clock

logger = logging.getLogger(__name__)

LISTEN_BACKLOG = 1024
ACCEPT_RETRY_S = 0.1
LOCAL_SEND_BYTES = 256 * 1024
"""SO_SNDBUF where nothing is on its way for long. With more, what is sent fits no cache, and costs a third more."""


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """The limits of connections, and the buffers of their sockets.

    `max_per_address` and `max_idle_s` are 0 for no limit. `send_buffer_bytes` is 0 for the kernel's own size, and
    LOCAL_SEND_BYTES for clients on this machine. `send_threads` is how many threads send large answers.
    """

    max_connections: int
    max_per_address: int
    max_idle_s: float
    max_frame_bytes: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    send_threads: int = 0

    @classmethod
    def of(cls, config: ServerConfig, send_threads: int = 0) -> Self:
        """Take them out of a server's settings."""
        return cls(
            max_connections=min(config.max_connections or MAX_CONNECTIONS, max_connections()),
            max_per_address=config.max_connections_per_address,
            max_idle_s=config.connections_max_idle_ms / 1000,
            max_frame_bytes=config.max_socket_request_bytes,
            send_buffer_bytes=config.socket_send_buffer,
            receive_buffer_bytes=config.socket_receive_buffer,
            send_threads=send_threads,
        )


class SocketServer:
    """Listens on one address, at one or two ports. `new_pipeline` makes what handles the requests of a connection.

    `buffers` is what C receives into, if there is C code. `close_idle` is to be called a few times in `max_idle_s`.
    `counts` holds connections, bytes and refusals. A KafkaError of a handler that `is_fatal` picks out goes to
    `on_failure`; any other exception ends its connection alone.
    """

    def __init__(
        self,
        host: str,
        listeners: Sequence[Listener],
        settings: ConnectionSettings,
        *,
        new_pipeline: Callable[[Any], Any],
        memory: RequestMemory,
        buffers: ReceiveBuffers | None,
        clock: Clock,
        on_failure: Callable[[BaseException], None],
        is_fatal: Callable[[BaseException], bool],
    ) -> None:
        self._host = host
        self._listeners = listeners
        self._settings = settings
        self._new_pipeline = new_pipeline
        self._memory = memory
        self.buffers = buffers
        self._threads = AnswerThreads.with_sends(settings.send_threads)
        self._clock = clock
        self._notices = Notices(logger, clock)
        self._on_failure = on_failure
        self._is_fatal = is_fatal
        self._sockets: list[socket.socket] = []
        self._acceptors = Group()
        self._greenlets = Group()
        self._connections: set[Connection] = set()
        self._by_address: Counter[str] = Counter()
        self._active_s: dict[Connection, float] = {}  # when each was found to be in use last
        self.counts: Counter[str] = Counter()
        self.ports = [listener.port for listener in listeners]

    @property
    def open_connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    def bind(self) -> None:
        """Take the ports; connections wait until `listen`. Raises KafkaError naming the address when it is taken."""
        if self._sockets:
            return
        try:
            for listener in self._listeners:
                self._sockets.append(self._listening(listener.port))
        except BaseException:
            self.stop_accepting()
            raise
        self.ports = [listening.getsockname()[1] for listening in self._sockets]

    def listen(self) -> None:
        """Begin to accept, and `bind` first where that was not done. Raises as it does; may be called twice."""
        self.bind()
        if self._acceptors:
            return
        for listening, listener in zip(self._sockets, self._listeners, strict=True):
            self._acceptors.spawn(self._accept, listening, listener.new_connection)

    def _listening(self, port: int) -> socket.socket:
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Inherited by accepted sockets; the buffers must be set before the window is agreed on.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._settings.send_buffer_bytes:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._settings.send_buffer_bytes)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._settings.receive_buffer_bytes)
            listening.bind((self._host, port))
            listening.listen(LISTEN_BACKLOG)
        except OSError as error:
            listening.close()
            hint = f" (ss -ltnp 'sport = :{port}' shows by whom)" if error.errno == errno.EADDRINUSE else ""
            raise KafkaError(f"cannot listen on {self._host}:{port}: {error}{hint}") from error
        return listening

    def stop_accepting(self) -> None:
        """Take no more connections; may be called twice."""
        self._acceptors.kill()
        sockets, self._sockets = self._sockets, []
        for listening in sockets:
            listening.close()

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
        self._threads.stop()

    def end_connections(self, timeout_s: float) -> bool:
        """End all connections wherever they stand, and wait until nothing more is done for them; False if it is.

        Those that are accepted meanwhile go on.
        """
        serving = list(self._greenlets)
        for connection in list(self._connections):
            connection.stop_both()
        return len(gevent.joinall(serving, timeout=timeout_s)) == len(serving)

    def _accept(self, listening: socket.socket, new_connection: Callable[..., Connection]) -> None:
        while True:
            try:
                accepted, (host, port, *_) = listening.accept()
            except OSError as error:
                logger.warning("accepting a connection failed: %s", error)  # out of file descriptors, most likely
                gevent.sleep(ACCEPT_RETRY_S)
                continue
            name = f"{host}:{port}"
            self.counts["connections"] += 1
            if len(self._connections) >= self._settings.max_connections:
                accepted.close()
                self._count_refusal(name, f"there are {self._settings.max_connections} connections already")
                continue
            if 0 < self._settings.max_per_address <= self._by_address[host]:
                accepted.close()
                self.counts["refused_per_address"] += 1
                self._notices.warn(
                    ("address", host),
                    "closed the connection from %s: there are %d from its address already"
                    " (%d refused so far, logged once a minute)",
                    *(name, self._settings.max_per_address, self.counts["refused_per_address"]),
                )
                continue
            if not self._settings.send_buffer_bytes and accepted.getsockname()[0] == host:
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LOCAL_SEND_BYTES)
            connection = new_connection(accepted, name, self._memory, self.counts, self.buffers, self._threads)
            self._by_address[host] += 1
            self._connections.add(connection)  # here, so that `stop` also sees those that have not begun
            self._greenlets.spawn(self._serve, connection, host)

    def close_idle(self) -> None:
        """Close the connections from which nothing has come for too long. Who waits for us is not idle."""
        now_s = self._clock.monotonic_s()
        active_s = {}
        for connection in list(self._connections):
            since_s = self._active_s.get(connection, now_s)
            if connection.is_active or not connection.is_reading or connection.has_arrived:
                connection.is_active = False
                since_s = now_s
            elif now_s - since_s >= self._settings.max_idle_s:
                self.counts["refused_idle"] += 1
                self._notices.warn(
                    ("idle", connection.name.rpartition(":")[0]),
                    "closed the connection from %s at %s: nothing has come for %.0f s (%d closed so far, logged once a"
                    " minute for each address)",
                    *(connection.principal, connection.name, now_s - since_s, self.counts["refused_idle"]),
                )
                connection.stop_reading()
                continue
            active_s[connection] = since_s
        self._active_s = active_s

    def _serve(self, connection: Connection, host: str) -> None:
        try:
            connection.begin()
            connection.serve(self._new_pipeline(connection), self._settings.max_frame_bytes)
            connection.finish()
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
            self._by_address[host] -= 1
            if not self._by_address[host]:
                del self._by_address[host]
            connection.close()

    def _count_broken(self, name: str, why: str) -> None:
        self.counts["broken_connections"] += 1
        logger.info("connection from %s: %s", name, why)

    def _count_refusal(self, name: str, why: str) -> None:
        self.counts["refused"] += 1
        logger.warning("closed the connection from %s: %s (%d refused so far)", name, why, self.counts["refused"])
