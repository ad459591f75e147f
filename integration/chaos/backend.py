"""Where brokers and ZooKeeper run: as processes of this machine, or elsewhere in the same shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from integration.chaos.broker import ChaosBroker
from integration.chaos.ensemble import Ensemble, server_processes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from integration.chaos.links import Links


class Backend(Protocol):
    """Makes the servers of a run, which start later; a context manager, which leaves nothing of them.

    Whatever they run as, brokers and servers of ZooKeeper are reached over links of this machine, and their logs and
    what they print lie below the run's directory.
    """

    most_brokers: int

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def make_ensemble(self, links: Links) -> Ensemble:
        """Make three ZooKeeper servers."""

    def make_broker(
        self, broker_id: int, settings: Mapping[str, object], links: Links, step_clock: Path | None
    ) -> ChaosBroker:
        """Make one broker."""


class Processes:
    """Processes, on loopback."""

    most_brokers = 5

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def make_ensemble(self, links: Links) -> Ensemble:
        return Ensemble(server_processes(self._directory, links), links)

    def make_broker(
        self, broker_id: int, settings: Mapping[str, object], links: Links, step_clock: Path | None
    ) -> ChaosBroker:
        return ChaosBroker(broker_id, self._directory, settings, links, step_clock)
