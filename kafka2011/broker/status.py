"""What a broker says about itself: to Prometheus, to health checks, and in its log when it stops."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.broker.connections.socket_server import SocketServer
    from kafka2011.broker.memory.memory_budget import MemoryBudget
    from kafka2011.broker.memory.request_memory import RequestMemory
    from kafka2011.broker.monitoring.replica_metrics import ReplicaFacts
    from kafka2011.broker.registration import BrokerRegistration
    from kafka2011.broker.requests.handlers import RequestHandlers
    from kafka2011.broker.requests.parking import Parking
    from kafka2011.broker.requests.request_times import RequestTimes
    from kafka2011.log.log_manager import LogManager


class BrokerStatus:
    """Reads the parts of a broker when it is asked, and counts nothing by itself.

    `failure` returns the error for which the broker stops. `phase` says what it does while it does not serve.
    """

    def __init__(
        self,
        logs: LogManager,
        sockets: SocketServer,
        handlers: RequestHandlers,
        parking: Parking,
        memory: RequestMemory,
        registration: BrokerRegistration,
        failure: Callable[[], BaseException | None],
    ) -> None:
        self.logs = logs
        self.phase = "starting"
        self._sockets = sockets
        self._handlers = handlers
        self._parking = parking
        self._memory = memory
        self._registration = registration
        self._failure = failure

    @property
    def budget(self) -> MemoryBudget:
        """The memory of requests."""
        return self._memory.budget

    @property
    def open_connections(self) -> int:
        """How many connections are open."""
        return self._sockets.open_connections

    @property
    def request_times(self) -> RequestTimes:
        """How long requests take."""
        return self._handlers.times

    @property
    def is_connected(self) -> bool | None:
        """Whether it has a session in ZooKeeper now; None if it is to have none."""
        return self._registration.is_connected

    @property
    def replica(self) -> ReplicaFacts | None:
        """What it is among the replicas of its id; None if it has none."""
        replication = self._registration.replication
        return None if replication is None else replication.facts()

    @property
    def obstacle(self) -> str | None:
        """Why it does not serve all that it should, or is not registered; None if it is well."""
        failure = self._failure()
        if failure is not None:
            return f"stopping after a failure: {failure}"
        return self.phase or self._registration.obstacle

    def counts(self) -> dict[str, int]:
        """Return what has been counted since the start: connections, requests, messages, bytes, flushes, refusals."""
        total = Counter(self._sockets.counts)
        total.update(self._handlers.counts)
        total.update(self._parking.counts)
        total["flushes"] = self.logs.flushes
        total["deleted_segments"] = self.logs.deleted_segments
        total["clock_jumps"] = self.logs.clock_jumps
        total["waits_for_files"] = self.logs.waits_for_files
        total["refused_topics"] = self.logs.room.refused
        total["scrubbed_bytes"] = self.logs.scrubbed.scrubbed_bytes
        total["repaired_segments"] = self.logs.scrubbed.repaired_segments
        total["memory_peak_bytes"] = self._memory.budget.peak_bytes
        total["memory_refused"] = self._memory.budget.refused + self._memory.small_share.refused
        total.update(self._registration.counts())
        return dict(sorted(total.items()))
