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
    """What is compared with what: messages that are sent, or read, in the same way and for the same promise.

    The order is that of the first page: what most programs need comes first.
    """

    CONFIRMED_LISTS = "produce, lists, confirmed"
    CONFIRMED_EACH = "produce, a message a call, confirmed"
    READ_LISTS = "consume, lists"
    READ_EACH = "consume, message by message"
    READ_BYTES = "consume, bytes counted"
    READ_COLUMNS = "consume, columns"
    SEND_LISTS = "produce, lists, unconfirmed"
    SEND_EACH = "produce, a message a call, unconfirmed"
    SEND_BYTES = "produce, encoded before, unconfirmed"
    CONFIRMED_BYTES = "produce, encoded before, confirmed"


BYTES_ALONE = {Way.SEND_BYTES, Way.CONFIRMED_BYTES, Way.READ_BYTES}
"""Ways without any library."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table: a client of a kind (`paper_benchmarks.clients`), and how many messages keep it busy.

    `batch` is how many messages a producer sends at once. `title` says what is special about it. `once`: a consumer
    that cannot go back to the beginning of a topic. `tool`: a program that warms up and takes the time by itself.
    """

    way: Way
    client: str
    messages: int
    batch: int = 1
    title: str = ""
    once: bool = False
    tool: bool = False

    @property
    def do(self) -> str:
        """`produce` or `consume`."""
        return self.way.partition(",")[0]

    def __str__(self) -> str:
        return f"{self.title or self.client}{f', batch {self.batch}' if self.do == 'produce' else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of server. `start` runs one with its data in a new directory; `missing` says why it cannot, or None.

    `start` takes settings of the server too, where some are in the table of tuned ones. The first of its `lines` that
    produces is its usual one, as is the first one that consumes; `filler` is the client that fills topics for consumers
    in long runs, with at least `topic_messages`. `emptied` says that messages are gone once they were read. `driver` is
    the module of its clients, `pure` has them, and a broker of ours, do without C. One that is `asked` is measured only
    when it is named.
    """

    name: str
    title: str
    lines: tuple[Line, ...]
    start: Callable[..., AbstractContextManager[System]]
    driver: str
    filler: str = ""
    topic_messages: int = 10_000_000
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
