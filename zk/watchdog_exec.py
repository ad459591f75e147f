"""Run as a script: ends a ZooKeeper session when its standard input, a pipe, breaks.

Each line there is JSON and says which session there is by now, or it is a word:

- `done`: the session is to be left alone.
- `beat 3000`: the process that writes here is killed unless another line comes within 3000 ms, and then its session
  is ended. `beat 0` ends that.

Uses nothing but the standard library, and little of it: a process that watches over another one is to be small.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from typing import Any

_DONE = b"done"
_BEAT = b"beat "
_LOOKS = 10
"""How many looks in a row must find nothing, each of them in time: this process may have been stopped as well."""
_LATE = 2.0
"""A look that comes later than this, in intervals, was not in time."""
_KILLED_S = 0.5
"""How long a process that was killed may take to be gone."""
_CONNECT = struct.Struct(">iqiqi")
"""Version, last transaction seen, timeout in ms, session, bytes of the password that follows; then one byte: 0."""
_CONNECTED = struct.Struct(">iiq")
"""Version, timeout in ms, not above 0 when the session is over, session."""
_LENGTH = struct.Struct(">i")
_CLOSE = struct.pack(">ii", 1, -11)
_MAX_ANSWER_BYTES = 1024
_LEAST_TIMEOUT_S = 1.0
_PAUSE_S = 0.1


def watch(fd: int, process: int | None = None) -> bytes | None:
    """Read lines until the pipe breaks, and return the last session; None if that is to be left alone.

    `process` is a pidfd of the process that writes, which is killed when it has gone silent.
    """
    unfinished = last = b""
    within_s = 0.0
    while True:
        if within_s and process is not None and not _await_line(fd, within_s):
            if _kill(process, within_s):
                return last or None
            within_s = 0.0
            continue
        if not (received := os.read(fd, 65536)):
            return last or None
        *lines, unfinished = (unfinished + received).split(b"\n")
        if _DONE in lines:
            return None
        for line in lines:
            if line.startswith(_BEAT):
                within_s = int(line[len(_BEAT) :]) / 1000
                continue
            last = line
            if json.loads(line)["tls"] is not None:
                import ssl  # noqa: F401, PLC0415 - now, since it takes a while


def _await_line(fd: int, within_s: float) -> bool:
    """Say whether something comes in time. What passes while this process does not run either does not count."""
    interval_s = within_s / _LOOKS
    silent = 0
    while silent < _LOOKS:
        before_s = time.monotonic()
        if select.select([fd], [], [], interval_s)[0]:
            return True
        silent = silent + 1 if time.monotonic() - before_s < _LATE * interval_s else 0
    return False


def _kill(process: int, within_s: float) -> bool:
    """Kill the process that hangs, and tell of that where its errors go. Return False if it lives on.

    The first process of a container cannot be killed from inside.
    """
    pid, errors = os.getppid(), -1
    with contextlib.suppress(OSError):  # before it has gone; a socket cannot be opened
        errors = os.open(f"/proc/{pid}/fd/2", os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY)
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(process, signal.SIGKILL)
    is_dead = bool(select.select([process], [], [], _KILLED_S)[0]) or _is_dying(pid)
    what = b"was killed by its watchdog" if is_dead else b"cannot be killed by its watchdog"
    with contextlib.suppress(OSError):
        os.write(errors, b"process %d %s: it has hung for %g s\n" % (pid, what, within_s))
    if errors >= 0:
        os.close(errors)
    return is_dead


def _is_dying(pid: int) -> bool:
    """Say whether a process is being killed, though a thread of it still waits for a disk: it does nothing more."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123
            pending = [int(line.split()[1], 16) for line in status if line.startswith(("SigPnd:", "ShdPnd:"))]
    except OSError:  # it is gone
        return True
    return any(signals >> (signal.SIGKILL - 1) & 1 for signals in pending)


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


def _parent(pid: int) -> int | None:
    """Return a pidfd of the process that has started this one; None if it has gone, or the kernel has no pidfds."""
    try:
        process = os.pidfd_open(pid)
    except (OSError, AttributeError):
        return None
    return process if os.getppid() == pid else None  # else its number may be another process's by now


def main() -> int:
    """Watch, then end the session if need be; the exit status says whether all is as it should be."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # whoever stops all processes here is to find the session ended, too
    last = watch(0, _parent(int(sys.argv[1])))
    return 0 if last is None or end_session(json.loads(last)) else 1


if __name__ == "__main__":
    sys.exit(main())
