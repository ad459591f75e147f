"""The command line `kafka2011`, adding up what sendfile(2) says it sent from Python; prints the sum at the end."""

from __future__ import annotations

import os
import sys

from kafka2011.broker.connections import sending
from kafka2011.cli.app import main

_sendfile = os.sendfile
_sent_bytes: list[int] = []


def _counting_sendfile(out_fd: int, in_fd: int, offset: int, count: int) -> int:
    sent = _sendfile(out_fd, in_fd, offset, count)
    _sent_bytes.append(sent)
    return sent


if __name__ == "__main__":
    sending.compiled = None
    os.sendfile = _counting_sendfile  # type: ignore[assignment]
    status = main()
    print(f"sendfile sent {sum(_sent_bytes)} bytes")  # noqa: T201
    sys.exit(status)
