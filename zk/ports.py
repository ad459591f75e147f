"""A free port for a server that may have to come back on it."""

from __future__ import annotations

import random
import socket
from collections import deque
from contextlib import suppress
from pathlib import Path

_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 15000
_TRIES = 200
_chosen: deque[int] = deque(maxlen=1000)
"""Those of this process: servers that are to be started together must not get one port."""


def free_port(host: str = "127.0.0.1") -> int:
    """Choose a port on which nobody listens, at random, below those that outgoing connections are given.

    A port from the kernel (bind to 0) could be taken by any outgoing connection while a server restarts.
    It is none of the last thousand that this process has chosen, but it is not reserved: the caller must be ready to
    try another one. Raises OSError when none is free.
    """
    end = _first_outgoing_port()
    for _ in range(_TRIES):
        port = random.randrange(_LOWEST, end)  # noqa: S311 - not a secret
        if port in _chosen:
            continue
        with suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            _chosen.append(port)
            return port
    raise OSError(f"no free port on {host} between {_LOWEST} and {end}")


def _first_outgoing_port() -> int:
    with suppress(OSError, ValueError, IndexError):
        low = int(_RANGE_FILE.read_text().split()[0])
        if low > _LOWEST + 1000:
            return low
    return 32768
