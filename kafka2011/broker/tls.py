"""A broker's side of TLS: a connection that is encrypted, and knows who is at its other end."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import gevent

from kafka2011.broker.certificates import principal_of
from kafka2011.broker.client_connection import SEND_STALL_TIMEOUT_S, Connection, SegmentReadError
from kafka2011.broker.sending import is_in_memory
from kafka2011.errors import BrokerConnectionError
from kafka2011.wire.tls_socket import TlsSocket

if TYPE_CHECKING:
    import re

    from kafka2011.broker.certificates import Certificates
    from kafka2011.broker.sending import Part

HANDSHAKE_TIMEOUT_S = 10.0
"""How long a client may take to shake hands."""
READ_BYTES = 256 * 1024
"""So much of a segment file is read, encrypted and sent at a time."""
_WHOLE = 2**62


class TlsConnection(Connection):
    """A connection whose bytes are encrypted: no sendfile, and no C code near its socket."""

    __slots__ = ("_rule", "_secured")
    by_sendfile = False

    def __init__(self, *arguments: Any, certificates: Certificates, rule: re.Pattern[str]) -> None:
        super().__init__(*arguments)
        self._buffer = None  # C would receive what is encrypted
        self._rule = rule
        self._secured = TlsSocket(self.socket, certificates.context())
        self.socket: Any = self._secured

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
            self._secured.limit_reading(self._arrived_bytes())
            self._unread_bytes = _WHOLE
        super().stop_reading()

    def _has_more(self) -> bool:
        return super()._has_more() or self._secured.holds_bytes

    def _has_gone(self) -> bool:
        return self._secured.has_ended()

    def _send_parts(self, parts: tuple[Part, ...], size: int) -> None:  # noqa: ARG002 (it shows in the parts)
        self._secured.settimeout(SEND_STALL_TIMEOUT_S)
        for head, fd, start, file_bytes in parts:
            if head:
                self._send(head)
            position, end = start, start + file_bytes
            while position < end:
                piece = fd, position, min(end - position, READ_BYTES)
                if not is_in_memory(*piece):
                    self._read_pages([piece])
                try:
                    data = os.pread(fd, piece[2], position)
                except OSError as error:
                    raise SegmentReadError(f"reading a segment file at {position} failed: {error}") from error
                if not data:
                    raise SegmentReadError(f"a segment file ends at {position}, {end - position} bytes early")
                self._send(data)
                position += len(data)
                self.pause()
        self._secured.settimeout(None)

    def _send(self, data: bytes) -> None:
        try:
            self._secured.sendall(data)
        except OSError as error:
            raise BrokerConnectionError(f"sending an answer failed: {error}") from error
