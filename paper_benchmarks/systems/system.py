"""What every server that is measured has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from paper_benchmarks.measuring.usage import Usage, usage_of

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

    def cpu_s(self) -> float | None:
        """Return the CPU time of that, or None."""
        usage = self.usage()
        return None if usage is None else usage.cpu_s

    def stored_bytes(self) -> int | None:
        """Return how much room its data takes on disk, or None where that is not known."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of server. `start` runs one with its data in a new directory; `missing` says why it cannot, or None.

    `produce` and `consume` name its clients (`paper_benchmarks.clients`), the usual one first; `raw` ones send or read
    bytes that were encoded before. `many` messages that come in batches or are read, and `few` that come one by one,
    keep it busy for a second or two. `batches` says whether its producers send several at once when asked to.
    """

    name: str
    title: str
    produce: tuple[str, ...]
    consume: tuple[str, ...]
    start: Callable[[Path, Flush], AbstractContextManager[System]]
    many: int
    few: int
    missing: Callable[[], str | None] = lambda: None
    batches: bool = True

    @property
    def driver(self) -> str:
        """The module that a worker runs for its clients."""
        return f"paper_benchmarks.clients.{self.name}"
