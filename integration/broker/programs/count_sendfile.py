"""The command line `kafka2011` in a process that adds up what sendfile(2) says it sent, and prints the sum at its end."""

from __future__ import annotations

import os
import sys

from kafka2011.__main__ import main

_sendfile = os.sendfile
_sent_bytes = 0


def _counting_sendfile(out_fd: int, in_fd: int, offset: int, count: int) -> int:
    global _sent_bytes
    sent = _sendfile(out_fd, in_fd, offset, count)
    _sent_bytes += sent
    return sent


if __name__ == "__main__":
    os.sendfile = _counting_sendfile  # type: ignore[assignment]
    status = main()
    print(f"sendfile sent {_sent_bytes} bytes")  # noqa: T201
    sys.exit(status)
