"""What a client is told to do, what it tells of its way there, and the work that most clients do."""

from __future__ import annotations

import socket
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import batches, payloads
from paper_benchmarks.measuring.worker import work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from paper_benchmarks.measuring.worker import Work

    Prepared = Iterator[tuple[Mapping[str, Any], Work]]
    """What a client's context manager yields: what is to be told before, and the work."""


_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Send, or read, messages of a topic with one of a system's clients, and note the time every `every` messages."""

    do: str
    """`produce` or `consume`."""
    client: str
    topic: str
    messages: int
    """The fewest messages; exactly this number where `seconds` and `most_s` are 0."""
    every: int
    seconds: float = 0.0
    """The client goes on for at least so long."""
    most_s: float = 0.0
    """It ends after so long, even with fewer messages; 0 for no such limit."""
    present: int = 0
    """What the topic has of messages, where a consumer reads them again until it is done; 0: it reads them once."""
    batch: int = 1
    part: bool = False
    """Whether the topic has more messages than a consumer is to read: what comes beyond them does not count."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the client, beside those that it ships with."""
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

    @property
    def is_timed(self) -> bool:
        """Whether the clock decides when it ends, not the number of messages alone."""
        return bool(self.seconds or self.most_s)

    def is_done(self, messages: int, elapsed_s: float) -> bool:
        """Say whether a client may end that has handled this number of messages in this time."""
        if self.most_s and elapsed_s >= self.most_s:
            return True
        return messages >= self.messages and elapsed_s >= self.seconds

    def sends(self) -> Sequence[Any]:
        """Return what is sent between two points: lists of `batch` payloads, or payloads."""
        if self.batch == 1:
            return payloads(self.every)
        return batches(self.every, self.batch)


class Progress:
    """The way of one client to its last message: when it had handled how many.

    A producer takes `chunks()`; a consumer calls `read(count)` for each batch that it got, until that is False. The
    clock is read at points only.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._next = self._point_after(0)
        self._points: list[tuple[int, float]] = []
        self._goes_on = True
        self.messages = 0
        self._began_s = 0.0

    def start(self) -> None:
        """Begin: times count from here."""
        self._began_s = time.perf_counter()

    def wants_more(self, messages: int) -> bool:
        """Say whether a client that has sent this number of messages by now is to continue."""
        return not self._job.is_done(messages, time.perf_counter() - self._began_s)

    def chunks(self) -> Iterator[int]:
        """Give how many messages to send next, again and again."""
        self.start()
        while self._goes_on:
            count = self._next - self.messages
            yield count
            self.messages += count
            self._note()

    def read(self, count: int) -> bool:
        """Note that so many more were read; return whether there are more to come."""
        if self._job.part:
            count = min(count, self._job.messages - self.messages)
        self.messages += count
        if self.messages >= self._next and self._goes_on:
            self._note()
        return self._goes_on

    def finish(self) -> None:
        """Note a last point, for messages that were handled after the clock had ended the run."""
        if not self._points or self.messages > self._points[-1][0]:
            self._note()

    def facts(self) -> dict[str, Any]:
        """Return the way for JSON, to its last point. Raises BenchmarkError when that is not the last message."""
        if not self._job.is_timed and self.messages != self._job.messages:
            raise BenchmarkError(f"{self.messages} messages were handled: there are {self._job.messages}")
        return {"messages": self._points[-1][0], "points": self._points}

    def _point_after(self, messages: int) -> int:
        following = messages + self._job.every
        # A topic that is read once has no message behind its last one.
        return following if self._job.seconds else min(following, max(self._job.messages, messages + 1))

    def _note(self) -> None:
        self._points.append((self.messages, time.perf_counter() - self._began_s))
        self._goes_on = not self._job.is_done(*self._points[-1])
        self._next = self._point_after(self.messages)


def sending(
    job: Job, send: Callable[[Any], object], finish: Callable[[], object], sends: Sequence[Any], batch: int = 1
) -> Work:
    """Return the work of a producer: each of `sends`, of `batch` messages, again and again; at the end `finish`.

    That returns once the server has handled everything.
    """
    progress = Progress(job)

    def run() -> Mapping[str, Any]:
        for count in progress.chunks():
            for each in sends[: -(-count // batch)]:
                send(each)
        finish()
        return progress.facts()

    return run


def polling(job: Job, fetch: Callable[[int], int], rewind: Callable[[], object] = lambda: None) -> Work:
    """Return the work of a consumer that fetches.

    `fetch` gets how many messages it may return at most, and returns how many it got. `rewind` goes back to the
    beginning of the topic, which is read again where the job says so.
    """
    progress = Progress(job)

    def run() -> Mapping[str, Any]:
        present = left = job.present or job.messages
        progress.start()
        while progress.read(count := fetch(left)):
            left -= count
            if left < 0:
                raise BenchmarkError(f"{job.topic} gives {-left} messages more than the {present} that it has")
            if not left:
                rewind()
                left = present
        return progress.facts()

    return run


@contextmanager
def connection_of(job: Job, timeout_s: float = 3600.0) -> Iterator[socket.socket]:
    """Give a socket to a job's server, for bytes that were encoded before."""
    with socket.create_connection((job.host, job.port), timeout_s) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield connection


def counting(
    job: Job, connection: socket.socket, ask: bytes, marker: bytes, every: tuple[int, bytes] | None = None
) -> Work:
    """Return the work of a consumer that counts how often `marker` comes, which only begins messages, after it asked.

    `every` so many messages it sends some bytes again.
    """
    progress = Progress(job)

    def run() -> Mapping[str, Any]:
        buffer, tail, asked = bytearray(_BUFFER_BYTES), b"", 0
        view, keep = memoryview(buffer), len(marker) - 1
        progress.start()
        connection.sendall(ask)
        more = True
        while more:
            if not (count := connection.recv_into(view[keep:])):
                raise BenchmarkError(f"the connection ended after {progress.messages} messages of {job.topic}")
            begin = keep - len(tail)
            buffer[begin:keep] = tail
            more = progress.read(buffer.count(marker, begin, keep + count))
            tail = bytes(buffer[max(keep + count - keep, begin) : keep + count])
            while every and more and progress.messages - asked >= every[0]:
                connection.sendall(every[1])
                asked += every[0]
        return progress.facts()

    return run


def serve(clients: Mapping[str, Mapping[str, Callable[[Job], AbstractContextManager[Any]]]]) -> None:
    """Do the job that the command line holds with the client that it names, in a worker's process."""

    def prepare(facts: Mapping[str, Any]) -> AbstractContextManager[Any]:
        job = Job.of(facts)
        return clients[job.do][job.client](job)

    work(prepare)
