"""A broker's side of TLS: its certificates, who a client is by its own, and a connection that is encrypted."""

from __future__ import annotations

import logging
import os
import re
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import gevent

from kafka2011.broker.client_connection import NOBODY, SEND_STALL_TIMEOUT_S, Connection, SegmentReadError
from kafka2011.broker.file_changes import FileChanges
from kafka2011.broker.sending import is_in_memory
from kafka2011.errors import BrokerConnectionError, ConfigError
from kafka2011.wire.tls_socket import TlsSocket

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kafka2011.broker.sending import Part
    from zk.clock import Clock

logger = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT_S = 10.0
"""How long a client may take to shake hands."""
READ_BYTES = 256 * 1024
"""So much of a segment file is read, encrypted and sent at a time."""
_WHOLE = 2**62


class Certificates:
    """The broker's certificate and key, and who signs clients' ones; read again when the files change.

    Without `ca` clients are not asked for certificates; with `required` they must have one. Raises ConfigError when
    they cannot be used, at the start only: later the old ones stay, and that is logged.
    """

    def __init__(self, certificate: Path, key: Path, ca: Path | None, *, required: bool, clock: Clock) -> None:
        self._certificate = certificate
        self._key = key
        self._ca = ca
        self._required = required
        self._changes = FileChanges([certificate, key, *([ca] if ca else [])], clock)
        self._names = ", ".join(map(str, self._changes.paths))
        try:
            self._context = self._read()
        except OSError as error:  # an SSLError is one
            raise ConfigError(f"{self._names}: {error}") from error

    def context(self) -> ssl.SSLContext:
        """Return how the next client is met."""
        if self._changes.come():
            try:
                self._context = self._read()
            except OSError as error:
                logger.error("%s have changed and cannot be used, the old ones stay: %s", self._names, error)  # noqa: TRY400
            else:
                logger.info("%s have changed and were read again", self._names)
        return self._context

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0  # a client that asks whether anything has come must not be told of a ticket
        context.load_cert_chain(self._certificate, self._key)
        if self._ca is not None:
            context.load_verify_locations(self._ca)
            context.verify_mode = ssl.CERT_REQUIRED if self._required else ssl.CERT_OPTIONAL
        return context


def principal_of(certificate: Mapping[str, Any], rule: re.Pattern[str]) -> str:
    """Return who a client is by the subject of its certificate; NOBODY without one.

    The subject is written as RFC 4514 does but in the certificate's order, `C=DE,O=shop,CN=reports`; the principal is
    what the rule's first group finds in it, and nobody where it finds nothing.
    """
    parts = [
        f"{_SHORT.get(name, name)}={_ESCAPED.sub(_BACKSLASH, value)}"
        for relative in certificate.get("subject", ())
        for name, value in relative
    ]
    found = rule.search(",".join(parts))
    return (found[1] or NOBODY) if found else NOBODY


_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
}
_ESCAPED = re.compile(r'[,+"\\<>;=]')
_BACKSLASH = r"\\\g<0>"


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
