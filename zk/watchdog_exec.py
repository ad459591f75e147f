"""Run as a script: ends a ZooKeeper session when its standard input, a pipe, breaks.

Each line there is JSON and says which session there is by now, or it is `done`: the session is to be left alone. Uses
nothing but the standard library, and little of it: a process that watches over another one is to be small.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys
import time
from typing import Any

_DONE = b"done"
_CONNECT = struct.Struct(">iqiqi")
"""Version, last transaction seen, timeout in ms, session, bytes of the password that follows; then one byte: 0."""
_CONNECTED = struct.Struct(">iiq")
"""Version, timeout in ms, not above 0 when the session is over, session."""
_LENGTH = struct.Struct(">i")
_CLOSE = struct.pack(">ii", 1, -11)
_MAX_ANSWER_BYTES = 1024
_LEAST_TIMEOUT_S = 1.0
_PAUSE_S = 0.1


def watch(fd: int) -> bytes | None:
    """Read lines until the pipe breaks, and return the last whole one; None if the session is to be left alone."""
    unfinished = last = b""
    while received := os.read(fd, 65536):
        *lines, unfinished = (unfinished + received).split(b"\n")
        last = lines[-1] if lines else last
        if _DONE in lines:
            return None
        if lines and json.loads(last)["tls"] is not None:
            import ssl  # noqa: F401, PLC0415 - now, since it takes a while
    return last or None


def end_session(session: dict[str, Any]) -> bool:
    """Say whether the session was ended, by any of the servers; tries for as long as it would have lasted."""
    timeout_s = session["timeout_ms"] / 1000
    deadline_s = time.monotonic() + timeout_s
    hosts = session["hosts"]
    patience_s = max(_LEAST_TIMEOUT_S, timeout_s / (len(hosts) + 1))
    while time.monotonic() < deadline_s:
        for host, port in hosts:
            try:
                if _end_at(host, port, session, patience_s):
                    return True
            except (OSError, ValueError, struct.error):
                continue
        time.sleep(_PAUSE_S)
    return False


def _end_at(host: str, port: int, session: dict[str, Any], patience_s: float) -> bool:
    with socket.create_connection((host, port), patience_s) as plain:
        connection = plain if session["tls"] is None else _secured(plain, host, session["tls"])
        with connection:
            connection.settimeout(patience_s)
            password = bytes.fromhex(session["password"])
            request = _CONNECT.pack(0, 0, session["timeout_ms"], session["session_id"], len(password)) + password
            _send(connection, request + b"\0")
            _, timeout_ms, session_id = _CONNECTED.unpack_from(_receive(connection))
            if timeout_ms <= 0 or session_id != session["session_id"]:
                return True  # it is over
            _send(connection, _CLOSE)
            _receive(connection)
            return True


def _secured(plain: socket.socket, host: str, tls: list[Any]) -> socket.socket:
    import ssl  # noqa: PLC0415 - only where it is of use

    ca, certificate, key, checks_hostname = tls
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = checks_hostname
    if ca:
        context.load_verify_locations(ca)
    else:
        context.load_default_certs()
    if certificate:
        context.load_cert_chain(certificate, key)
    return context.wrap_socket(plain, server_hostname=host)


def _send(connection: socket.socket, request: bytes) -> None:
    connection.sendall(_LENGTH.pack(len(request)) + request)


def _receive(connection: socket.socket) -> bytes:
    [length] = _LENGTH.unpack(_receive_exactly(connection, _LENGTH.size))
    if not 0 <= length <= _MAX_ANSWER_BYTES:
        raise ValueError(f"an answer of {length} bytes")
    return _receive_exactly(connection, length)


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        more = connection.recv(size - len(received))
        if not more:
            raise ConnectionError("the server has closed the connection")
        received += more
    return received


def main() -> int:
    """Watch, then end the session if need be; the exit status says whether all is as it should be."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # whoever stops all processes here is to find the session ended, too
    last = watch(0)
    return 0 if last is None or end_session(json.loads(last)) else 1


if __name__ == "__main__":
    sys.exit(main())
