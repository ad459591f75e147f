"""Where brokers and ZooKeeper run: as processes of this machine, or elsewhere in the same shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from integration.chaos.broker import ChaosBroker, host_of_broker
from integration.chaos.ensemble import Ensemble, server_processes
from kafka2011.local_security import secure

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from integration.chaos.links import Links
    from kafka2011.local_security import LocalSecurity


class Backend(Protocol):
    """Makes the servers of a run, which start later; a context manager, which leaves nothing of them.

    Whatever they run as, brokers and servers of ZooKeeper are reached over links of this machine, and their logs and
    what they print lie below the run's directory.
    """

    most_brokers: int

    @property
    def security(self) -> str:
        """Return the file that says how clients meet brokers and ZooKeeper; empty where all is open."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def make_ensemble(self, links: Links) -> Ensemble:
        """Make three ZooKeeper servers."""

    def make_broker(
        self, broker_id: int, settings: Mapping[str, object], links: Links, step_clock: Path | None
    ) -> ChaosBroker:
        """Make one broker."""


class Processes:
    """Processes, on loopback; with `secure`, brokers and ZooKeeper are met by TLS alone, with certificates."""

    most_brokers = 5

    def __init__(self, directory: Path, *, secure: bool = False) -> None:
        self._directory = directory
        self._is_secure = secure
        self._security: LocalSecurity | None = None

    @property
    def security(self) -> str:
        return "" if self._security is None else str(self._security.security)

    def __enter__(self) -> Self:
        if self._is_secure:
            hosts = ["127.0.0.1", *map(host_of_broker, range(self.most_brokers))]
            self._security = secure(self._directory / "security", hosts)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def make_ensemble(self, links: Links) -> Ensemble:
        tls = None if self._security is None else self._security.zookeeper
        return Ensemble(server_processes(self._directory, links, tls=tls), links, security=self.security)

    def make_broker(
        self, broker_id: int, settings: Mapping[str, object], links: Links, step_clock: Path | None
    ) -> ChaosBroker:
        doors = {} if self._security is None else self._security.properties
        return ChaosBroker(broker_id, self._directory, {**settings, **doors}, links, step_clock)
