"""What a driver is told to do, and what it tells of its way there."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

from paper_benchmarks.errors import BenchmarkError
from paper_benchmarks.payloads import FETCH_BYTES, PAYLOAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Send, or read, so many messages of a topic with one of the driver's clients, and note the time every so many."""

    do: str
    """`produce` or `consume`."""
    client: str
    topic: str
    messages: int
    every: int
    batch: int = 1
    payload_bytes: int = PAYLOAD_BYTES
    fetch_bytes: int = FETCH_BYTES
    part: bool = False
    """Whether the topic has more messages than a consumer is to read: what comes beyond them does not count."""
    server: Mapping[str, Any] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self:
        """Read it from JSON."""
        return cls(**facts)

    @property
    def host(self) -> str:
        """The server's."""
        return str(self.server["host"])

    @property
    def port(self) -> int:
        """The server's."""
        return int(self.server["port"])


class Progress:
    """The way of one client to its last message: when it had handled how many, and with how much CPU time.

    A producer takes `chunks()`; a consumer calls `read(count)` for each batch that it got, until `done`.
    """

    def __init__(self, job: Job) -> None:
        self._total = job.messages
        self._every = job.every
        self._part = job.part
        self._next = min(job.every, job.messages)
        self._points: list[tuple[int, float, float]] = []
        self.messages = 0
        self._wall_s = self._cpu_s = 0.0

    def start(self) -> None:
        """Begin: times count from here."""
        self._wall_s, self._cpu_s = time.perf_counter(), time.process_time()

    def chunks(self) -> Iterator[int]:
        """Give how many messages to send next, again and again."""
        self.start()
        while self.messages < self._total:
            count = min(self._every, self._total - self.messages)
            yield count
            self.messages += count
            self._note()

    def read(self, count: int) -> bool:
        """Note that so many more were read; return whether there are more to come."""
        if self._part:
            count = min(count, self._total - self.messages)
            if not count:
                return False
        self.messages += count
        if self.messages >= self._next:
            self._note()
            self._next = min(self.messages + self._every, self._total)
        return self.messages < self._total

    def facts(self) -> dict[str, Any]:
        """Return the way for JSON. Raises BenchmarkError when it did not end at the last message."""
        if self.messages != self._total:
            raise BenchmarkError(f"{self.messages} messages were handled: there are {self._total}")
        return {"points": self._points}

    def _note(self) -> None:
        self._points.append(
            (self.messages, time.perf_counter() - self._wall_s, time.process_time() - self._cpu_s),
        )
