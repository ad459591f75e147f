"""One measurement: a client in a process of its own, against a server, and every message counted."""

from __future__ import annotations

import secrets
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paper_benchmarks.clients.job import Job
from paper_benchmarks.measuring.accounting import await_landed
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.machine import touch_memory
from paper_benchmarks.measuring.payloads import PAYLOAD_BYTES
from paper_benchmarks.measuring.spread import Sample
from paper_benchmarks.measuring.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paper_benchmarks.measuring.usage import Usage
    from paper_benchmarks.systems.system import Kind, System

POINT_BYTES = 10_000_000
"""A point of a curve is noted about so often, in bytes of payloads, as in the paper's figures."""
UNSTEADY_SHARE = 0.25
"""This share of a run, at its beginning, is left out of figures in tables, never of pictures."""
_LEAST_POINTS = 20
_DEADLINE_S = 3600.0
_LANDING_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Sample):
    """What one client took to send or read all its messages, and what the server used meanwhile.

    `landed` is how many messages the topic then had, those that warmed the connection up and those that were there
    before among them; 0 for a consumer.
    `points` are (messages, seconds) since the beginning. `landed_s` is when all had been found in the server. `server`
    is what it had used when the client was done; this and `stored_bytes` are None where they cannot be known.
    """

    job: Job
    points: Sequence[tuple[int, float]]
    server: Usage | None
    stored_bytes: int | None
    landed: int = 0
    landed_s: float | None = None

    @property
    def messages(self) -> int:
        """How many there were."""
        return self.job.messages

    @property
    def topic(self) -> str:
        """Where they are."""
        return self.job.topic

    def rates(self) -> list[tuple[float, float]]:
        """Return the curve: (megabytes so far, messages a second since the point before)."""
        return curve(self.points, PAYLOAD_BYTES)


def curve(points: Sequence[tuple[int, float]], payload_bytes: int) -> list[tuple[float, float]]:
    """Return (megabytes so far, messages a second since the point before) for each point.

    What is left for the last one may be so little that it was over in no time: then it counts with the one before.
    """
    before = (0, 0.0)
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


def tenths(rates: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the median rates of the first and the last tenth of a run; 0 for one without a point."""
    tenth = rates[-1][0] / 10
    first = [rate for megabytes, rate in rates if megabytes <= tenth]
    last = [rate for megabytes, rate in rates if megabytes > 9 * tenth]
    return (statistics.median(first) if first else 0.0), (statistics.median(last) if last else 0.0)


def new_topic() -> str:
    """Return a name that no server has met; eight letters, so that a request with one message has 234 bytes."""
    return secrets.token_hex(4)


def points_of(messages: int, batch: int) -> int:
    """Return after how many messages each a point is noted, in whole batches."""
    every = min(POINT_BYTES // PAYLOAD_BYTES, max(messages // _LEAST_POINTS, 1))
    return max(every // batch, 1) * batch


def produce(
    kind: Kind,
    system: System,
    client: str,
    messages: int,
    *,
    batch: int = 1,
    topic: str = "",
    present: int = 0,
    pure: bool = False,
) -> Run:
    """Send messages, in whole batches, and wait until every one was found. Raises BenchmarkError when one was not.

    They go to a new topic, or to one that has `present` messages already. `pure` has the client do without C.
    """
    messages -= messages % batch
    job = Job(
        do="produce",
        client=client,
        topic=topic or new_topic(),
        messages=messages,
        every=points_of(messages, batch),
        batch=batch,
        server=system.server(),
    )
    return _run(kind, system, job, present=present, pure=pure)


def consume(
    kind: Kind, system: System, client: str, topic: str, messages: int, *, part: bool = False, pure: bool = False
) -> Run:
    """Read messages of a topic, from its beginning or from where others ended; not all of them is a BenchmarkError.

    `part` says that the topic has more than these, so that the client may get some that do not count.
    """
    job = Job(
        do="consume",
        client=client,
        topic=topic,
        messages=messages,
        every=points_of(messages, 1),
        part=part,
        server=system.server(),
    )
    return _run(kind, system, job, pure=pure)


def _run(kind: Kind, system: System, job: Job, *, present: int = 0, pure: bool = False) -> Run:
    with Worker(kind.driver, job.facts(), pure=pure, deadline_s=_DEADLINE_S) as client:
        if job.do == "produce":
            touch_memory(job.messages * PAYLOAD_BYTES)
        before = system.usage()
        began_s = time.monotonic()
        client.go()
        result = client.result()
        after = system.usage()
        landed, landed_s = 0, None
        if job.do == "produce":
            landed = present + job.messages + client.facts.get("warm_messages", 0)
            await_landed(job.topic, landed, lambda: system.count(job.topic), _LANDING_TIMEOUT_S)
            landed_s = time.monotonic() - began_s
    points = [(int(messages), float(at_s)) for messages, at_s in result["points"]]
    if points[-1][0] != job.messages:
        raise BenchmarkError(f"{points[-1][0]} messages of {job.topic} were handled: there are {job.messages}")
    server = None if before is None or after is None else after.since(before)
    return Run(
        amount=job.messages,
        wall_s=result["wall_s"],
        cpu_s=result["cpu_s"],
        server_cpu_s=None if server is None else server.cpu_s,
        job=job,
        points=points,
        server=server,
        stored_bytes=system.stored_bytes(),
        landed=landed,
        landed_s=landed_s,
    )
