"""The replicas of a broker of ours: who leads, who is in sync, and one that comes back with an empty disk."""

from __future__ import annotations

import shutil
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafka2011.replica.state import ReplicaState
from paper_benchmarks.measuring.errors import BenchmarkError
from zk.brokers import BrokerRegistry
from zk.connecting import connect
from zk.replicas import ReplicaRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011.local_cluster import LocalBroker
    from paper_benchmarks.systems.kafka2011 import KafkaBroker
    from zk.client import ZkClient

_ID = 0
_TIMEOUT_S = 120.0
_POLL_S = 0.005


class Replicas:
    """All processes of a broker id, as ZooKeeper has them."""

    def __init__(self, system: KafkaBroker, client: ZkClient) -> None:
        assert system.broker is not None
        self.processes: tuple[LocalBroker, ...] = (system.broker, *system.followers)
        self._state = ReplicaRegistry(client, _ID)
        self._brokers = BrokerRegistry(client)

    def leader(self) -> LocalBroker | None:
        """Return the one that is registered as the broker; None while there is none."""
        found = self._brokers.brokers().get(_ID)
        return None if found is None else next((each for each in self.processes if each.port == found.port), None)

    def in_sync(self) -> int:
        """Return how many are in sync."""
        return len(ReplicaState.of(self._state.read().state or "", "ZooKeeper").in_sync)

    def await_in_sync(self, count: int) -> None:
        """Wait until so many are in sync. Raises BenchmarkError."""
        await_that(lambda: self.in_sync() == count, f"{count} replicas in sync")

    def restart(self, process: LocalBroker) -> None:
        """Have one that has ended back, and in sync."""
        process.start()
        self.await_in_sync(len(self.processes))

    def take_away(self, process: LocalBroker) -> None:
        """Kill one, with its disk, and wait until it is not in sync any more."""
        process.kill()
        shutil.rmtree(process.log_dir)
        self.await_in_sync(len(self.processes) - 1)


@contextmanager
def replicas_of(system: KafkaBroker) -> Iterator[Replicas]:
    """Give the replicas of a broker, once all are in sync."""
    assert system.zk_connect is not None
    with connect(system.zk_connect) as client:
        replicas = Replicas(system, client)
        replicas.await_in_sync(len(replicas.processes))
        yield replicas


def await_that(is_so: Callable[[], bool], what: str, *, poll_s: float = _POLL_S) -> float:
    """Wait until something is so, and return when it was, by the monotonic clock. Raises BenchmarkError."""
    deadline_s = time.monotonic() + _TIMEOUT_S
    while not is_so():
        if time.monotonic() > deadline_s:
            raise BenchmarkError(f"{what}: not within {_TIMEOUT_S:g} s")
        time.sleep(poll_s)
    return time.monotonic()
