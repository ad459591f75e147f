"""One measurement: a client in a process of its own, against a server, and every message counted."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from paper_benchmarks.clients.job import Job
from paper_benchmarks.measuring.accounting import await_landed
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import PAYLOAD_BYTES
from paper_benchmarks.measuring.samples import Sample
from paper_benchmarks.measuring.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paper_benchmarks.measuring.usage import Usage
    from paper_benchmarks.systems.system import Kind, System

_POINTS = 20
"""So many points of a curve are noted."""
_POINT_S = 0.25
"""A client that runs by the clock looks at it about so often."""
_DEADLINE_S = 3600.0
_LANDING_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Span:
    """How long a client goes on: `least_s` at least, whatever it has handled by then, and `most_s` at most.

    Before that it works for `warm_s` by the same code, which does not count. If all are 0, it handles a fixed number.
    """

    least_s: float = 0.0
    most_s: float = 0.0
    warm_s: float = 0.0


AS_SHIPPED: Mapping[str, Any] = {}
"""No settings beside those that a client ships with."""


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
        """Return (megabytes so far, messages a second until then), of 20 points at most.

        It ends at the rate of the whole run. A producer's last messages count when the server has handled them, not
        when they were handed over.
        """
        count = min(len(self.points), _POINTS)
        points = [self.points[len(self.points) * (place + 1) // count - 1] for place in range(count)]
        points[-1] = (points[-1][0], max(points[-1][1], self.wall_s))
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
    settings: Mapping[str, Any] = AS_SHIPPED,
) -> Run:
    """Send messages, in whole batches, and wait until every one was found. Raises BenchmarkError when one was not.

    They go to a new topic, or to one that has `present` messages already. `settings` are those of the client.
    """
    messages = max(messages - messages % batch, batch)
    job = Job(
        do="produce",
        client=client,
        topic=topic or new_topic(),
        messages=messages,
        every=points_of(messages, batch),
        batch=batch,
        settings=settings,
        server=system.server(),
    )
    return run(kind, system, job, present=present)


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
    return run(kind, system, job)


def sustain(kind: Kind, system: System, job: Job, span: Span) -> Run:
    """Have a client go on for a span, after a run of the same kind that does not count; both get points by the clock.

    A producer warms up on a topic of its own. Raises BenchmarkError as `produce` and `consume` do.
    """
    if span.warm_s:
        topic = new_topic() if job.do == "produce" else job.topic
        is_once = job.do == "consume" and not job.present
        messages, seconds = (job.messages, 0.0) if is_once else (0, span.warm_s)
        first = replace(job, topic=topic, messages=messages, seconds=seconds, most_s=span.warm_s)
        warm = run(kind, system, first)
        every = max(int(warm.rate * _POINT_S) // job.batch, 1) * job.batch
        job = replace(job, every=every)
    return run(kind, system, replace(job, seconds=span.least_s, most_s=span.most_s))


def run(kind: Kind, system: System, job: Job, *, present: int = 0) -> Run:
    """Do a job by a client in a process of its own. Raises BenchmarkError when a message is missing or duplicated."""
    with Worker(kind.driver, job.facts(), pure=kind.pure, deadline_s=_DEADLINE_S) as client:
        before = system.usage()
        client.go()
        result = client.result()
        after = system.usage()
        landed = 0
        if job.do == "produce":
            warm = client.facts.get("warm_messages", 0) + result.get("warm_messages", 0)
            landed = present + result["messages"] + warm
            await_landed(job.topic, landed, lambda: system.count(job.topic), _LANDING_TIMEOUT_S)
    points = [(int(messages), float(at_s)) for messages, at_s in result["points"]]
    if points[-1][0] != result["messages"] or (result["messages"] != job.messages and not job.is_timed):
        raise BenchmarkError(f"{points[-1][0]} messages of {job.topic} were handled: there are {job.messages}")
    server = None if before is None or after is None else after.since(before)
    return Run(
        amount=result["messages"],
        wall_s=result["wall_s"],
        cpu_s=result["cpu_s"],
        server_cpu_s=None if server is None else server.cpu_s * result.get("server_share", 1.0),
        job=job,
        points=points,
        server=server,
        landed=landed,
    )
