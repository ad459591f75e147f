"""Connections from the gateway to a broker of 0.7, in the gateway's event loop."""

from __future__ import annotations

import struct
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from gevent import socket

from kafka2011.errors import BrokerConnectionError, ProtocolError
from kafka2011.wire.protocol import (
    AT_ONCE,
    LATEST,
    FetchRequest,
    MultiFetchRequest,
    OffsetsRequest,
    decode_offsets_body,
    decode_response,
    encode_request,
)
from kafka2011.wire.sockets import client_context
from kafka2011.wire.tls_socket import TlsSocket
from zk.errors import ZkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from zk.cluster import Broker, TopicPartition

    T = TypeVar("T")

CONNECT_TIMEOUT_S = 5.0
MAX_RESPONSE_BYTES = 256 * 1024 * 1024
_RECEIVE_BYTES = 256 * 1024
JOINED_BYTES = 64 * 1024
"""Parts of fewer bytes are sent as one: they are copied in less time than several take the kernel."""
MOST_SENT_PARTS = 256
_KEPT = 8
"""How many idle connections to a broker are kept."""
_SIZE = struct.Struct(">i")
BARRIER = encode_request(MultiFetchRequest(()))
"""It asks for nothing: its answer says that all before it is done, and it ends the wait of a request before it."""


class BrokerLink:
    """One connection to a broker; its requests are answered in order. Raises BrokerConnectionError, and is closed then.

    If nothing goes on for `timeout_s`, beside what the request itself may wait, that is such an error.
    """

    def __init__(self, broker: Broker, timeout_s: float) -> None:
        self.broker = broker
        self._timeout_s = timeout_s
        self._socket: Any = None
        self._received = b""  # and not taken yet

    @property
    def is_open(self) -> bool:
        """Whether it is connected, as far as anybody has noticed."""
        return self._socket is not None

    def send(self, *parts: bytes) -> None:
        """Send requests, in parts, after connecting where that is needed."""
        try:
            if self._socket is None:
                self._socket = self._connected()
            self._socket.settimeout(self._timeout_s)
            if self.broker.security or len(parts) > MOST_SENT_PARTS or sum(map(len, parts)) < JOINED_BYTES:
                parts = (b"".join(parts),)
            sent = self._socket.send(parts[0]) if len(parts) == 1 else self._socket.sendmsg(parts)
            for part in parts:
                if sent < len(part):
                    self._socket.sendall(memoryview(part)[sent:])
                sent = max(sent - len(part), 0)
        except BaseException as error:
            self._fail(error)
            raise

    def receive(self, wait_s: float = 0) -> memoryview:
        """Return the next answer without its size field."""
        try:
            return self._next_answer(self._timeout_s + wait_s)
        except BaseException as error:
            self._fail(error)
            raise

    def confirm(self, *parts: bytes) -> None:
        """Send produces, in parts, and wait until the broker has appended them all."""
        self.send(*parts, BARRIER)
        self.receive()

    def fetch(self, where: TopicPartition, position: int, max_bytes: int) -> bytes:
        """Return what lies at a position of a log. Raises BrokerError too."""
        what = f"a fetch of {where} at {position}"
        self.send(encode_request(FetchRequest(where.topic, where.partition, position, max_bytes, AT_ONCE)))
        return bytes(decode_response(self.receive(), what))

    def offsets(self, where: TopicPartition, time_ms: int = LATEST, max_count: int = 1) -> list[int]:
        """Return offsets of a log as an offsets request does, newest first."""
        self.send(encode_request(OffsetsRequest(where.topic, where.partition, time_ms, max_count, is_ours=True)))
        body = decode_response(self.receive(), f"the offsets of {where}")
        return self._decoded(lambda: decode_offsets_body(body))

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        opened, self._socket, self._received = self._socket, None, b""
        if opened is not None:
            opened.close()

    def _decoded(self, decode: Callable[[], T]) -> T:
        try:
            return decode()
        except ProtocolError as error:
            self.close()
            raise BrokerConnectionError(f"broker {self.broker.id}: {error}") from error

    def _connected(self) -> Any:
        opened = socket.create_connection((self.broker.host, self.broker.port), CONNECT_TIMEOUT_S)
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self.broker.security:
                secured = TlsSocket(opened, client_context(self.broker.security), self.broker.host)
                secured.handshake()
                return secured
        except BaseException:
            opened.close()
            raise
        return opened

    def _next_answer(self, timeout_s: float) -> memoryview:
        if self._socket is None:
            raise OSError("the connection was closed")
        self._socket.settimeout(timeout_s)
        self._receive(_SIZE.size)
        (size,) = _SIZE.unpack_from(self._received)
        if not 0 < size <= MAX_RESPONSE_BYTES:
            raise OSError(f"it claims an answer of {size} bytes")
        end = _SIZE.size + size
        self._receive(end)
        received, self._received = self._received, self._received[end:]
        return memoryview(received)[_SIZE.size : end]

    def _receive(self, size: int) -> None:
        """Have at least `size` bytes that were received and not taken."""
        parts = [self._received] if self._received else []
        missing = size - len(self._received)
        while missing > 0:
            part = self._socket.recv(_RECEIVE_BYTES)
            if not part:
                raise OSError(f"it ended {missing} bytes before an answer did")
            parts.append(part)
            missing -= len(part)
        self._received = b"".join(parts)  # which copies no single part

    def _fail(self, error: BaseException) -> None:
        """Close the connection: the rest of an answer must not be taken for the next one."""
        self.close()
        if isinstance(error, OSError | ZkError):
            why = f"no answer within {self._timeout_s:g} s" if isinstance(error, TimeoutError) else str(error)
            raise BrokerConnectionError(f"broker {self.broker.id} at {self.broker.address}: {why}") from error


class BrokerLinks:
    """The connections to one broker, each used by one request at a time."""

    def __init__(self, broker: Broker, timeout_s: float) -> None:
        self.broker = broker
        self._timeout_s = timeout_s
        self._idle: list[BrokerLink] = []
        self._is_closed = False

    @contextmanager
    def link(self) -> Iterator[BrokerLink]:
        """Lend a connection."""
        link = self._idle.pop() if self._idle else self.new()
        try:
            yield link
        finally:
            if link.is_open and len(self._idle) < _KEPT and not self._is_closed:
                self._idle.append(link)
            else:
                link.close()

    def new(self) -> BrokerLink:
        """Return a connection of one's own."""
        return BrokerLink(self.broker, self._timeout_s)

    def fetch(self, where: TopicPartition, position: int, max_bytes: int) -> bytes:
        """Do as `BrokerLink.fetch` does, and once more if an idle connection has turned out dead."""
        with suppress(BrokerConnectionError), self.link() as link:
            return link.fetch(where, position, max_bytes)
        with self.link() as link:
            return link.fetch(where, position, max_bytes)

    def offsets(self, where: TopicPartition, time_ms: int = LATEST, max_count: int = 1) -> list[int]:
        """Do as `BrokerLink.offsets` does, in the same way."""
        with suppress(BrokerConnectionError), self.link() as link:
            return link.offsets(where, time_ms, max_count)
        with self.link() as link:
            return link.offsets(where, time_ms, max_count)

    def close(self) -> None:
        """Close those that are idle, and others when they are given back."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()
