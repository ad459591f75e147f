"""One measurement: a client in a process of its own, against a server, and every message counted."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paper_benchmarks.clients.job import Job
from paper_benchmarks.measuring.accounting import await_landed
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import PAYLOAD_BYTES
from paper_benchmarks.measuring.samples import Sample
from paper_benchmarks.measuring.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paper_benchmarks.measuring.usage import Usage
    from paper_benchmarks.systems.system import Kind, System

_POINTS = 20
"""So many points of a curve are noted."""
_DEADLINE_S = 3600.0
_LANDING_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Sample):
    """What one client took to send or read all its messages, and what the server used meanwhile.

    `landed` is how many messages the topic then had, those that warmed the connection up and those that were there
    before among them; 0 for a consumer. `points` are (messages, seconds) since the beginning. `server` is what it had
    used when the client was done; None where that cannot be known.
    """

    job: Job
    points: Sequence[tuple[int, float]]
    server: Usage | None
    landed: int = 0

    @property
    def topic(self) -> str:
        """Where they are."""
        return self.job.topic

    def curve(self) -> list[tuple[float, float]]:
        """Return (megabytes so far, messages a second until then): where it ends is the rate of the whole run.

        A producer's last messages count when the server has handled them, not when they were handed over.
        """
        points = [*self.points[:-1], (self.points[-1][0], max(self.points[-1][1], self.wall_s))]
        return [(count * PAYLOAD_BYTES / 1e6, count / max(elapsed_s, 1e-9)) for count, elapsed_s in points]


def new_topic() -> str:
    """Return a name that no server has met; eight letters, so that a request with one message has 234 bytes."""
    return secrets.token_hex(4)


def points_of(messages: int, batch: int) -> int:
    """Return after how many messages each a point is noted, in whole batches."""
    return max(messages // _POINTS // batch, 1) * batch


def produce(
    kind: Kind,
    system: System,
    client: str,
    messages: int,
    *,
    batch: int = 1,
    topic: str = "",
    present: int = 0,
) -> Run:
    """Send messages, in whole batches, and wait until every one was found. Raises BenchmarkError when one was not.

    They go to a new topic, or to one that has `present` messages already.
    """
    messages = max(messages - messages % batch, batch)
    job = Job(
        do="produce",
        client=client,
        topic=topic or new_topic(),
        messages=messages,
        every=points_of(messages, batch),
        batch=batch,
        server=system.server(),
    )
    return _run(kind, system, job, present=present)


def consume(kind: Kind, system: System, client: str, topic: str, messages: int, *, part: bool = False) -> Run:
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
    return _run(kind, system, job)


def _run(kind: Kind, system: System, job: Job, *, present: int = 0) -> Run:
    with Worker(kind.driver, job.facts(), pure=kind.pure, deadline_s=_DEADLINE_S) as client:
        before = system.usage()
        client.go()
        result = client.result()
        after = system.usage()
        landed = 0
        if job.do == "produce":
            landed = present + job.messages + client.facts.get("warm_messages", 0)
            await_landed(job.topic, landed, lambda: system.count(job.topic), _LANDING_TIMEOUT_S)
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
        landed=landed,
    )
