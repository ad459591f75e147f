"""A load balancer before the demo's brokers: haproxy, where it is installed."""

from __future__ import annotations

import os
import shutil
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from zk.child import ChildProcess
from zk.ports import free_port

if TYPE_CHECKING:
    from kafka2011.local_cluster import LocalCluster

CONFIGURATION = Path(__file__).parents[2] / "examples" / "haproxy.cfg"
"""Of a checkout; an installed package has none."""
_BROKERS = 3  # that the configuration names
_START_S = 10.0


class Balancer:
    """Runs haproxy before a cluster of three brokers; a context manager. `address` is None where it cannot be had."""

    def __init__(self, cluster: LocalCluster, directory: Path) -> None:
        self._cluster = cluster
        self._log = directory / "haproxy.log"
        self._stack = ExitStack()
        self.address: str | None = None

    def __enter__(self) -> Balancer:
        program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
        if program is None or not CONFIGURATION.exists() or len(self._cluster.brokers) != _BROKERS:
            return self
        address = f"127.0.0.1:{free_port()}"
        environ = {**os.environ, "BALANCER": address}
        for number, broker in enumerate(self._cluster.brokers.values(), 1):
            environ[f"BROKER_{number}"] = f"{broker.host}:{broker.port}"
        process = ChildProcess([program, "-db", "-f", str(CONFIGURATION)], self._log, env=environ)
        self._stack.enter_context(process)
        if _listens(process, address):
            self.address = address
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _listens(process: ChildProcess, address: str) -> bool:
    """Wait until something listens there; False when the process ends first, or the time is up."""
    host, _, port = address.rpartition(":")
    deadline_s = time.monotonic() + _START_S
    while process.running and time.monotonic() < deadline_s:
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                return True
        time.sleep(0.05)
    return False
