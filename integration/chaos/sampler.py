"""Looks at all processes of a run now and then: their memory, threads and file descriptors."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

import psutil

from integration.chaos.evidence import Sample
from zk.clock import SYSTEM_CLOCK
from zk.errors import ChildStartError

if TYPE_CHECKING:
    from integration.chaos.cluster import Cluster
    from zk.child import ChildProcess

_INTERVAL_S = 2.0
_JOIN_TIMEOUT_S = 10.0


class Sampler:
    """Takes samples in a thread; a context manager."""

    def __init__(self, cluster: Cluster) -> None:
        self.samples: list[Sample] = []
        self._cluster = cluster
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_JOIN_TIMEOUT_S)

    def take(self) -> None:
        """Take a sample of each process that runs; of a client only once it has found ZooKeeper."""
        for name, process in list(self._processes().items()):
            try:
                pid = process.pid
                found = psutil.Process(pid)
                with found.oneshot():
                    numbers = found.num_threads(), found.num_fds(), found.memory_info().rss
            except (psutil.Error, ChildStartError):
                continue  # it has just ended, or is only beginning
            self.samples.append(Sample(SYSTEM_CLOCK.monotonic_s(), name, pid, *numbers))

    def _processes(self) -> dict[str, ChildProcess]:
        cluster = self._cluster
        found = {server.name: server.process for server in cluster.ensemble.servers.values()}
        found |= {broker.name: broker.process for broker in list(cluster.brokers.values())}
        found |= {gateway.name: gateway.process for gateway in list(cluster.gateways)}
        found |= {client.name: client.process for client in list(cluster.clients) if client.has_begun}
        return {name: process for name, process in found.items() if process.running}

    def _run(self) -> None:
        while not self._stop.wait(_INTERVAL_S):
            self.take()
