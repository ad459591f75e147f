"""A second machine behind a link, where one can be made."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paper_benchmarks.measuring.network import NoNetworkError, two_machines

RATE = 80_000_000
SENT_BYTES = 4_000_000
_SEND = """
import socket, sys
socket.create_connection((sys.argv[1], int(sys.argv[2])), 10).sendall(bytes(int(sys.argv[3])))
"""


def test_the_link_carries_no_more_than_it_may_and_goes() -> None:
    """4 MB at 10 MB/s take at least a quarter of a second, whatever else runs: a lower bound is no race."""
    try:
        with two_machines(RATE) as machines, socket.create_server((machines.address, 0)) as server:
            server.settimeout(20)
            with machines.far():
                address = [machines.address, str(server.getsockname()[1]), str(SENT_BYTES)]
                sender = subprocess.Popen([sys.executable, "-c", _SEND, *address])
            with sender, server.accept()[0] as accepted:
                began_s = time.monotonic()
                accepted.settimeout(20)
                received = 0
                while data := accepted.recv(1 << 20):
                    received += len(data)
                elapsed_s = time.monotonic() - began_s
            assert received == SENT_BYTES
            assert elapsed_s > SENT_BYTES * 8 / RATE / 2
            assert Path(f"/sys/class/net/bench{os.getpid()}a").exists()
    except NoNetworkError as error:
        pytest.skip(str(error))
    deadline_s = time.monotonic() + 20
    while Path(f"/sys/class/net/bench{os.getpid()}a").exists():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
