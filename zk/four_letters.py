"""ZooKeeper's four-letter words: what a server says of itself to whoever connects, without a session."""

from __future__ import annotations

import re
import socket
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

_MOST_BYTES = 64 * 1024
_PART_BYTES = 4096
_MODE = "Mode: "
_ZXID = re.compile(r"^Zxid: 0x([0-9a-f]{1,16})$", re.MULTILINE)


def ask(host: str, port: int, word: bytes, timeout_s: float, tls: ssl.SSLContext | None = None) -> str:
    """Return what a server answers to a word such as `srvr`, as far as it came in time.

    Raises OSError when nobody listens there, or nothing came.
    """
    ends_s = time.monotonic() + timeout_s
    with ExitStack() as stack:
        asked = stack.enter_context(socket.create_connection((host, port), timeout_s))
        if tls is not None:
            asked = stack.enter_context(tls.wrap_socket(asked, server_hostname=host))
        return ask_over(asked, word, ends_s - time.monotonic())


def ask_over(connection: socket.socket, word: bytes, timeout_s: float) -> str:
    """Return what a server answers over a new connection, as far as it came in time. Raises OSError if nothing came."""
    ends_s = time.monotonic() + timeout_s
    answer = b""
    connection.sendall(word)
    while len(answer) < _MOST_BYTES:
        connection.settimeout(max(0.001, ends_s - time.monotonic()))
        try:
            part = connection.recv(_PART_BYTES)
        except TimeoutError:
            if not answer:
                raise
            break
        if not part:
            break
        answer += part
    return answer.decode(errors="replace")


def newest_zxid(answer: str) -> int | None:
    """Return the number of the newest transaction that a server has, from its answer to `srvr`; None if it has none."""
    found = _ZXID.search(answer)
    return None if found is None else int(found[1], 16)


def mode_of(host: str, port: int, timeout_s: float) -> str:
    """Return `leader`, `follower` or `standalone`; nothing while a server does not serve."""
    with suppress(OSError):
        for line in ask(host, port, b"srvr", timeout_s).splitlines():
            if line.startswith(_MODE):
                return line.removeprefix(_MODE)
    return ""
