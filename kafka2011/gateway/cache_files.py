"""Files that a gateway can do without: while one cannot be read or written, memory and the anchors serve instead."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kafka2011.gateway.numbering.boundaries import Tail
    from kafka2011.gateway.numbering.stores import IndexFile, Stored
    from kafka2011.gateway.partition_lists import ListsFile
    from zk.clock import Clock
    from zk.gateways import PartitionList
    from zk.number_floors import NumberFloors

logger = logging.getLogger(__name__)

WARNING_INTERVAL_S = 60.0


class CacheFaults:
    """The files that could not be read or written when it was last tried. Warns of them once a minute at most."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._failing: dict[str, str] = {}
        self._warn_from_s = clock.monotonic_s()
        self.count = 0
        """Failed attempts since the start."""

    @property
    def text(self) -> str:
        """Why one of these files fails; "" while all work."""
        return next(iter(self._failing.values()), "")

    @contextmanager
    def attempt(self, path: Path) -> Iterator[None]:
        """Read or write a file. An OSError is noted instead of raised."""
        try:
            yield
        except OSError as error:
            self.count += 1
            self._failing[str(path)] = f"{path}: {error.strerror or error}"
            now_s = self._clock.monotonic_s()
            if now_s >= self._warn_from_s:
                self._warn_from_s = now_s + WARNING_INTERVAL_S
                logger.warning(
                    "%s; %d files of the gateway cannot be read or written. It serves from memory, and after a restart"
                    " it counts again from ZooKeeper's anchors",
                    self.text,
                    len(self._failing),
                )
        else:
            self._failing.pop(str(path), None)


class IndexCache:
    """The file of a partition's index, with which the gateway is faster, and without which it works."""

    def __init__(self, file: IndexFile, path: Path, faults: CacheFaults) -> None:
        self._file = file
        self._path = path
        self._faults = faults

    def load(self) -> Stored | None:
        """Return what was stored last; None where that is lost or cannot be read."""
        with self._faults.attempt(self._path):
            return self._file.load()
        return None

    def store(self, stored: Stored) -> None:
        """Keep an index, if that is possible."""
        with self._faults.attempt(self._path / "state"):
            self._file.store(stored)

    def note(self, generation: int, tail: Tail) -> None:
        """Keep how far the log was numbered, if that is possible."""
        with self._faults.attempt(self._path / "tail"):
            self._file.note(generation, tail)


class ListsCache:
    """The file with the lists and floors of all topics, which protects clients from an older copy of ZooKeeper."""

    def __init__(self, file: ListsFile, faults: CacheFaults) -> None:
        self._file = file
        self._faults = faults

    def load(self) -> tuple[dict[str, PartitionList], dict[str, NumberFloors]]:
        """Return the lists and floors that were kept."""
        return self._file.load()

    def store(self, lists: Mapping[str, PartitionList], floors: Mapping[str, NumberFloors]) -> None:
        """Keep these lists and floors from now on, if that is possible."""
        with self._faults.attempt(self._file.path):
            self._file.store(lists, floors)
