"""ZooKeeper's four-letter words: what a server says of itself to whoever connects, without a session."""

from __future__ import annotations

import socket
import time

_MOST_BYTES = 64 * 1024
_PART_BYTES = 4096


def ask(host: str, port: int, word: bytes, timeout_s: float) -> str:
    """Return what a server answers to a word such as `srvr`, as far as it came in time.

    Raises OSError when nobody listens there, or nothing came.
    """
    ends_s = time.monotonic() + timeout_s
    answer = b""
    with socket.create_connection((host, port), timeout_s) as asked:
        asked.sendall(word)
        while len(answer) < _MOST_BYTES:
            asked.settimeout(max(0.001, ends_s - time.monotonic()))
            try:
                part = asked.recv(_PART_BYTES)
            except TimeoutError:
                if not answer:
                    raise
                break
            if not part:
                break
            answer += part
    return answer.decode(errors="replace")
