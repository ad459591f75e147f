"""Sockets of clients: how one is opened, and read with a deadline that signals do not move."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading
import time
from pathlib import Path

from kafka2011.wire.tls_socket import TlsSocket
from zk.errors import ZkError
from zk.security import Security

RECEIVE_BYTES = 8 * 1024 * 1024
_TIMEVAL = struct.Struct("@ll")


def connected_socket(host: str, port: int, timeout_s: float, buffer_bytes: int) -> socket.socket:
    """Connect as `socket.create_connection` does, with buffers set before: tcp(7) says that later is too late."""
    refused: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM):
        opened: socket.socket | None = None
        try:
            opened = socket.socket(family, kind, protocol)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
            opened.settimeout(timeout_s)
            opened.connect(address)
        except BaseException as error:
            if opened is not None:
                opened.close()
            if not isinstance(error, OSError):
                raise
            refused = error
        else:
            return opened
    raise refused or OSError(f"{host} has no address")


def client_context(security: str) -> ssl.SSLContext:
    """Return how a security file says that brokers are met. Raises ZkError."""
    brokers = Security.read(Path(security)).brokers
    if brokers is None:
        raise ZkError(f"{security}: it has no [brokers] with tls = true")
    return brokers.context(ssl)


def secured_socket(plain: socket.socket, security: str, host: str) -> TlsSocket:
    """Shake hands over a connected socket, as a security file says. Raises ZkError and OSError."""
    prepare(plain)
    secured = TlsSocket(plain, client_context(security), host, threading.RLock())
    secured.handshake()
    return secured


def prepare(opened: socket.socket, waits_s: float | None = None) -> None:
    """Send small requests at once, notice peers that are gone, and let one receiving call wait no longer than this."""
    if waits_s is not None:
        waits_us = max(1, int(waits_s * 1e6))  # 0 would be for ever
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEVAL.pack(*divmod(waits_us, 10**6)))
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def drain(opened: socket.socket | TlsSocket, ends_s: float) -> None:
    """Send what is in a socket, and throw away what comes until the other side ends the connection. Raises OSError."""
    opened.shutdown(socket.SHUT_WR)
    while receive(opened, RECEIVE_BYTES, ends_s):
        pass


def limit(opened: socket.socket | TlsSocket, ends_s: float) -> None:
    """Have the next call end in time, signals or not, which the kernel's SO_RCVTIMEO does not: it begins anew."""
    left_s = ends_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("timed out")
    opened.settimeout(left_s)


def receive(opened: socket.socket | TlsSocket, size: int, ends_s: float) -> bytes:
    """Return up to `size` bytes; none at the end of the connection."""
    limit(opened, ends_s)
    return opened.recv(min(size, RECEIVE_BYTES))


def receive_exactly(opened: socket.socket | TlsSocket, size: int, ends_s: float) -> bytes:
    """Return the next `size` bytes, which nearly always come in one piece."""
    parts: list[bytes] = []
    missing_bytes = size
    while missing_bytes:
        part = receive(opened, missing_bytes, ends_s)
        if not part:
            raise ConnectionResetError(f"the connection ended {missing_bytes} bytes before the response did")
        if len(part) == size:
            return part
        parts.append(part)
        missing_bytes -= len(part)
    return b"".join(parts)


def is_readable(opened: socket.socket | TlsSocket) -> bool:
    """Say whether reading would not block."""
    if isinstance(opened, TlsSocket):
        return opened.is_readable()
    poller = select.poll()
    poller.register(opened, select.POLLIN)
    return bool(poller.poll(0))


def has_ended(opened: socket.socket | TlsSocket) -> bool:
    """Say whether the other side has ended the connection: bytes that wait to be read do not count as an end."""
    try:
        if isinstance(opened, TlsSocket):
            return opened.has_ended()
        return is_readable(opened) and opened.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


def send_at_once(opened: socket.socket | TlsSocket, frame: bytes) -> None:
    """Send a small frame if that needs no wait. Raises OSError."""
    if isinstance(opened, TlsSocket):
        opened.sendall(frame)
    else:
        opened.send(frame, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
