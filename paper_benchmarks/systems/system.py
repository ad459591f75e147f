"""What every server that is measured has in common, and what each kind of them lets be measured."""

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


class Way(StrEnum):
    """What is compared with what: messages that are sent, or read, in the same way."""

    SEND_LISTS = "produce, lists"
    SEND_EACH = "produce, a message a call"
    SEND_BYTES = "produce, encoded before"
    READ_LISTS = "consume, lists"
    READ_COLUMNS = "consume, columns"
    READ_EACH = "consume, message by message"
    READ_BYTES = "consume, bytes counted"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table: a client of a kind (`paper_benchmarks.clients`), and how many messages keep it busy.

    `batch` is how many messages a producer sends at once. `title` says what is special about it.
    """

    way: Way
    client: str
    messages: int
    batch: int = 1
    title: str = ""

    @property
    def do(self) -> str:
        """`produce` or `consume`."""
        return self.way.partition(",")[0]

    def __str__(self) -> str:
        return f"{self.title or self.client}{f', batch {self.batch}' if self.do == 'produce' else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of server. `start` runs one with its data in a new directory; `missing` says why it cannot, or None.

    The first of its `lines` that produces is its usual one, as is the first one that consumes. `emptied` says that
    messages are gone once they were read. `driver` is the module of its clients, `pure` has them, and a broker of ours,
    do without C. One that is `asked` is measured only when it is named.
    """

    name: str
    title: str
    lines: tuple[Line, ...]
    start: Callable[[Path], AbstractContextManager[System]]
    driver: str
    missing: Callable[[], str | None] = lambda: None
    emptied: bool = False
    pure: bool = False
    asked: bool = False

    def producers(self) -> list[Line]:
        """Return its lines that produce."""
        return [line for line in self.lines if line.do == "produce"]

    def consumers(self) -> list[Line]:
        """Return its lines that consume."""
        return [line for line in self.lines if line.do == "consume"]
