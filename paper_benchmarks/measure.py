"""One measurement: a client in a process of its own, against a server, and every message counted."""

from __future__ import annotations

import math
import secrets
import statistics
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from paper_benchmarks.accounting import await_landed
from paper_benchmarks.drivers.job import Job
from paper_benchmarks.errors import BenchmarkError
from paper_benchmarks.machine import touch_memory
from paper_benchmarks.payloads import FETCH_BYTES, PAYLOAD_BYTES
from paper_benchmarks.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paper_benchmarks.systems.system import Kind, Mark, System
    from paper_benchmarks.systems.usage import Usage

POINT_BYTES = 10_000_000
"""A point of a curve is noted about so often, in bytes of payloads, as in the paper's figures."""
UNSTEADY_SHARE = 0.25
"""This share of a run, at its beginning, is left out of figures in tables, never of pictures."""
_LEAST_POINTS = 20
_MOST_MARKS = 200
_DEADLINE_S = 3600.0
_LANDING_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one client took to send or read all its messages, and what the server used meanwhile.

    `landed` is how many messages the topic then had, those that warmed the connection up and those that were there
    before among them; 0 for a consumer.
    `points` are (messages, seconds, CPU seconds of the client) since the beginning. `landed_s` is when all had been
    found in the server. `server` is what it had used when the client was done, `settled` when all was found as well;
    these and `stored_bytes` are None where they cannot be known. Times of `marks` are seconds since it began.
    """

    system: str
    do: str
    client: str
    topic: str
    messages: int
    batch: int
    payload_bytes: int
    wall_s: float
    cpu_s: float
    points: Sequence[tuple[int, float, float]]
    server: Usage | None
    settled: Usage | None
    stored_bytes: int | None
    landed: int = 0
    landed_s: float | None = None
    marks: Sequence[Mark] = ()

    @property
    def rate(self) -> float:
        """Messages a second over the whole run, to its last message."""
        return self.messages / self.wall_s

    @property
    def client_cpu_us(self) -> float:
        """CPU time of the client for each message."""
        return self.cpu_s / self.messages * 1e6

    @property
    def server_cpu_us(self) -> float | None:
        """CPU time of the server for each message."""
        return None if self.server is None else self.server.cpu_s / self.messages * 1e6

    def rates(self) -> list[tuple[float, float]]:
        """Return the curve: (megabytes so far, messages a second since the point before)."""
        return curve(self.points, self.payload_bytes)

    @property
    def steady_rate(self) -> float:
        """The median of the curve after its first quarter."""
        return steady(self.rates())

    def facts(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            **asdict(self),
            "rate": self.rate,
            "steady_rate": self.steady_rate,
            "client_cpu_us": self.client_cpu_us,
            "server_cpu_us": self.server_cpu_us,
        }


def curve(points: Sequence[Sequence[float]], payload_bytes: int) -> list[tuple[float, float]]:
    """Return (megabytes so far, messages a second since the point before) for each point.

    What is left for the last one may be so little that it was over in no time: then it counts with the one before.
    """
    before: Sequence[float] = (0, 0.0)
    if len(points) > 1 and 2 * (points[-1][0] - points[-2][0]) < points[0][0]:
        points = [*points[:-2], points[-1]]
    found = []
    for point in points:
        messages, elapsed_s = point[0] - before[0], point[1] - before[1]
        found.append((point[0] * payload_bytes / 1e6, messages / max(elapsed_s, 1e-9)))
        before = point
    return found


def steady(rates: Sequence[tuple[float, float]]) -> float:
    """Return the median rate after the first quarter of the bytes."""
    begin = rates[-1][0] * UNSTEADY_SHARE
    return statistics.median(rate for megabytes, rate in rates if megabytes > begin)


def marks_within(marks: Iterable[Mark], began_s: float, wall_s: float) -> list[Mark]:
    """Return the marks of a run, their times since it began; of those with one text one in each two-hundredth of it."""
    kept: list[Mark] = []
    seen: set[tuple[str, int]] = set()
    for mark in marks:
        if mark.at_s is not None:
            place = math.floor((mark.at_s - began_s) / wall_s * _MOST_MARKS)
            if not 0 <= place <= _MOST_MARKS or (mark.what, place) in seen:
                continue
            seen.add((mark.what, place))
            mark = replace(mark, at_s=mark.at_s - began_s)  # noqa: PLW2901
        kept.append(mark)
    return kept


def new_topic() -> str:
    """Return a name that no server has met; eight letters, so that a request with one message has 234 bytes."""
    return secrets.token_hex(4)


def points_of(messages: int, batch: int, payload_bytes: int = PAYLOAD_BYTES) -> int:
    """Return after how many messages each a point is noted, in whole batches."""
    every = min(POINT_BYTES // payload_bytes, max(messages // _LEAST_POINTS, 1))
    return max(every // batch, 1) * batch


def produce(
    kind: Kind,
    system: System,
    client: str,
    messages: int,
    *,
    batch: int = 1,
    payload_bytes: int = PAYLOAD_BYTES,
    topic: str = "",
    present: int = 0,
) -> Run:
    """Send messages to a new topic, and wait until every one was found there. Raises BenchmarkError when one was not.

    `present` is how many messages a `topic` has already that is not new.
    """
    messages -= messages % batch
    job = Job(
        do="produce",
        client=client,
        topic=topic or new_topic(),
        messages=messages,
        every=points_of(messages, batch, payload_bytes),
        batch=batch,
        payload_bytes=payload_bytes,
        server=system.server(),
    )
    return _run(kind, system, job, present=present)


def consume(
    kind: Kind,
    system: System,
    client: str,
    topic: str,
    messages: int,
    *,
    fetch_bytes: int = FETCH_BYTES,
    payload_bytes: int = PAYLOAD_BYTES,
    part: bool = False,
) -> Run:
    """Read messages of a topic, from its beginning or from where others ended; not all of them is a BenchmarkError.

    `part` says that the topic has more than these, so that the client may get some that do not count.
    """
    job = Job(
        do="consume",
        client=client,
        topic=topic,
        messages=messages,
        every=points_of(messages, 1, payload_bytes),
        payload_bytes=payload_bytes,
        fetch_bytes=fetch_bytes,
        part=part,
        server=system.server(),
    )
    return _run(kind, system, job)


def _run(kind: Kind, system: System, job: Job, *, present: int = 0) -> Run:
    with Worker(kind.driver, job.facts(), deadline_s=_DEADLINE_S) as client:
        if job.do == "produce":
            touch_memory(job.messages * job.payload_bytes)
        before = system.usage()
        began_s, began = time.time(), time.monotonic()
        client.go()
        result = client.result()
        after = system.usage()
        landed, landed_s = 0, None
        if job.do == "produce":
            landed = present + job.messages + client.facts.get("warm_messages", 0)
            await_landed(job.topic, landed, lambda: system.count(job.topic), _LANDING_TIMEOUT_S)
            landed_s = time.monotonic() - began
        settled = system.usage()
    points = [tuple(point) for point in result["points"]]
    if points[-1][0] != job.messages:
        raise BenchmarkError(f"{points[-1][0]} messages of {job.topic} were handled: there are {job.messages}")
    return Run(
        system=system.name,
        do=job.do,
        client=job.client,
        topic=job.topic,
        messages=job.messages,
        batch=job.batch,
        payload_bytes=job.payload_bytes,
        wall_s=result["wall_s"],
        cpu_s=result["cpu_s"],
        points=points,
        server=None if before is None or after is None else after.since(before),
        settled=None if before is None or settled is None else settled.since(before),
        stored_bytes=system.stored_bytes(),
        landed=landed,
        landed_s=landed_s,
        marks=marks_within(system.marks(job.topic), began_s, result["wall_s"]),
    )
