"""A broker's side of TLS: a connection that is encrypted, and knows who is at its other end."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import gevent
from gevent import socket

from kafka2011.broker.connections.answer_writer import SEND_STALL_TIMEOUT_S, AnswerWriter, SegmentReadError
from kafka2011.broker.connections.client_connection import Connection, arrived_bytes
from kafka2011.broker.connections.sending import is_in_memory
from kafka2011.broker.security.certificates import principal_of
from kafka2011.errors import BrokerConnectionError
from kafka2011.wire.tls_socket import SEND_BYTES, TlsSocket

if TYPE_CHECKING:
    import re
    from collections import Counter

    from kafka2011.broker.connections.answer_threads import AnswerThreads
    from kafka2011.broker.connections.sending import Part
    from kafka2011.broker.memory.request_memory import RequestMemory
    from kafka2011.broker.requests.receive_buffer import ReceiveBuffers
    from kafka2011.broker.security.certificates import Certificates

HANDSHAKE_TIMEOUT_S = 10.0
"""How long a client may take to shake hands."""
_WHOLE = 2**62
_spare: list[memoryview] = []
"""At most one, of SEND_BYTES, for whoever sends next: most answers go out without a wait."""


class TlsConnection(Connection):
    """A connection whose bytes are encrypted: no C code near its socket."""

    is_plain = False

    __slots__ = ("_rule", "_secured")

    def __init__(
        self,
        accepted: socket.socket,
        name: str,
        memory: RequestMemory,
        counts: Counter[str],
        _buffers: ReceiveBuffers | None,  # C would receive what is encrypted
        threads: AnswerThreads,
        *,
        certificates: Certificates,
        rule: re.Pattern[str],
    ) -> None:
        super().__init__(accepted, name, memory, counts, None, threads)
        self._rule = rule
        self._secured = TlsSocket(accepted, certificates.context())
        self.socket: Any = self._secured
        self.writer = TlsAnswerWriter(self.socket, counts, self._turn, threads)

    def begin(self) -> None:
        """Shake hands, and learn who it is. Raises BrokerConnectionError when the client proves nothing."""
        timeout = gevent.Timeout(HANDSHAKE_TIMEOUT_S)
        try:
            with timeout:
                self._secured.handshake()
        except gevent.Timeout as error:
            if error is not timeout:
                raise
            self.counts["failed_handshakes"] += 1
            raise BrokerConnectionError(f"did not shake hands within {HANDSHAKE_TIMEOUT_S:.0f} s") from error
        except OSError as error:
            self.counts["failed_handshakes"] += 1
            raise BrokerConnectionError(f"no TLS: {error}") from error
        self.principal = principal_of(self._secured.peer, self._rule)

    def finish(self) -> None:
        """Say farewell, or the client must take the end for a cut."""
        with suppress(OSError):
            self._secured.shutdown(socket.SHUT_WR)

    def stop_reading(self) -> None:
        """Make the requests that have arrived the last: what counts is what is encrypted."""
        if self._unread_bytes is None:
            self._secured.limit_reading(arrived_bytes(self.socket))
            self._unread_bytes = _WHOLE
        super().stop_reading()

    def _has_more(self) -> bool:
        return super()._has_more() or self._secured.holds_bytes

    def _has_gone(self) -> bool:
        return self._secured.has_ended()


class TlsAnswerWriter(AnswerWriter):
    """Writes answers that are encrypted, which takes their bytes through Python."""

    __slots__ = ()
    by_sendfile = False

    def send_parts(self, parts: tuple[Part, ...], size: int) -> None:  # noqa: ARG002 (it shows in the parts)
        """Encrypt and send what a batch has. Raises as for AnswerWriter."""
        self._socket.settimeout(SEND_STALL_TIMEOUT_S)
        view = _spare.pop() if _spare else memoryview(bytearray(SEND_BYTES))
        try:
            self._send_through(view, parts)
        finally:
            if not _spare:
                _spare.append(view)
        self._socket.settimeout(None)

    def _send_through(self, view: memoryview, parts: tuple[Part, ...]) -> None:
        """Send all parts in as few pieces as there is room for: each costs a call, and may wake the client."""
        filled_bytes = 0
        for head, fd, start, file_bytes in parts:
            if len(head) > len(view) - filled_bytes:
                self._send(view[:filled_bytes])
                self._send(head)
                filled_bytes = 0
            else:
                view[filled_bytes : filled_bytes + len(head)] = head
                filled_bytes += len(head)
            position, end = start, start + file_bytes
            while position < end:
                if filled_bytes == len(view):
                    self._send(view)
                    filled_bytes = 0
                    self._turn.pause()
                room = view[filled_bytes : filled_bytes + end - position]
                read_bytes = self._read_into(room, fd, position, end)
                filled_bytes += read_bytes
                position += read_bytes
        self._send(view[:filled_bytes])

    def _read_into(self, room: memoryview, fd: int, position: int, end: int) -> int:
        if not is_in_memory(fd, position, len(room)):
            self._read_pages([(fd, position, len(room))])
        try:
            read_bytes = os.preadv(fd, [room], position)
        except OSError as error:
            raise SegmentReadError(f"reading a segment file at {position} failed: {error}") from error
        if not read_bytes:
            raise SegmentReadError(f"a segment file ends at {position}, {end - position} bytes early")
        return read_bytes

    def _send(self, data: bytes | memoryview) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise BrokerConnectionError(f"sending an answer failed: {error}") from error
