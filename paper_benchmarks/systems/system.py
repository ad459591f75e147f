"""What every server that is measured has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from paper_benchmarks.systems.usage import Usage, usage_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path


class Flush(StrEnum):
    """When a system has its disk written."""

    ASYNCHRONOUS = "asynchronous"
    """By time, as in the paper: nothing waits for it."""
    SHIPPED = "shipped"
    """As the system comes."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that a server did meanwhile and that shows in a curve: a roll, a garbage collection, an alarm.

    It is known by how much was stored by then, or by when it was (seconds since 1970).
    """

    what: str
    messages: int | None = None
    at_s: float | None = None


@dataclass
class System(ABC):
    """A server that runs. `settings` are those that bear on durability, as the report prints them.

    `directory` is where what it keeps of messages lies, where that is known.
    """

    name: str
    version: str
    host: str
    port: int
    settings: Mapping[str, str] = field(default_factory=dict)
    directory: Path | None = None

    def server(self) -> dict[str, Any]:
        """Return what its driver needs to reach it, for JSON."""
        return {"host": self.host, "port": self.port}

    @abstractmethod
    def count(self, topic: str) -> int:
        """Return how many messages of a topic it holds that consumers could read now."""

    def pids(self) -> Sequence[int]:
        """Return its processes, those of its children too; none when they cannot be known."""
        return ()

    def usage(self) -> Usage | None:
        """Return what its processes have used until now; None where they are not known."""
        pids = self.pids()
        return usage_of(pids) if pids else None

    def stored_bytes(self) -> int | None:
        """Return how much room its data takes on disk, or None where that is not known."""
        return None

    def marks(self, topic: str) -> list[Mark]:  # noqa: ARG002
        """Return what it did while it took or gave messages of this topic, as far as it can be known."""
        return []


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of server. `start` runs one with its data in a new directory; `missing` says why it cannot, or None.

    `driver` is the module that a worker runs for its clients (`paper_benchmarks.drivers`). `produce` and `consume` name
    those clients, the usual one first; `raw` ones send or read bytes that were encoded before. `batches` says whether
    its producers send several messages at once when asked to.
    """

    name: str
    title: str
    driver: str
    produce: tuple[str, ...]
    consume: tuple[str, ...]
    start: Callable[[Path, Flush], AbstractContextManager[System]]
    missing: Callable[[], str | None] = lambda: None
    batches: bool = True
