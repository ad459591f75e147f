"""Runs and figures as if they had been measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paper_benchmarks.clients.job import Job
from paper_benchmarks.clients.measure import Run
from paper_benchmarks.measuring.samples import Sample
from paper_benchmarks.measuring.usage import Usage

if TYPE_CHECKING:
    from paper_benchmarks.systems.system import Way


def sample(rate: float, client_cpu_us: float = 2.0, server_cpu_us: float | None = 3.0) -> Sample:
    """Return a second of so many messages."""
    server_cpu_s = None if server_cpu_us is None else rate * server_cpu_us / 1e6
    return Sample(amount=rate, wall_s=1.0, cpu_s=rate * client_cpu_us / 1e6, server_cpu_s=server_cpu_s)


def run(do: str, rate: float, **changes: Any) -> Run:
    """Return a second of a client that had so many messages."""
    messages = int(rate)
    job = Job(do=do, client="any", topic="views", messages=messages, every=messages)
    facts: dict[str, Any] = {
        "amount": messages,
        "wall_s": 1.0,
        "cpu_s": 1e-6,
        "job": job,
        "points": [(messages, 1.0)],
        "server": Usage(0.0, 0, 0, 1, 1, 1),
    }
    return Run(**{**facts, **changes})


def line(
    kind: str, way: Way, rates: list[float], *, client: str = "any", batch: int = 1, **changes: Any
) -> dict[str, Any]:
    """Return what a document has of a line of all systems, of which a message costs a second of a core for all."""
    found = {
        "kind": kind,
        "title": kind,
        "line": client,
        "way": way,
        "do": way.partition(",")[0],
        "client": client,
        "batch": batch,
        "variant": "as shipped",
        "messages": 1000,
        "rate": rates,
        "client_cpu_us": [1e6 / rate for rate in rates],
        "server_cpu_us": [1e6 / rate for rate in rates],
        "curve": [(0.1, rate, rate, rate) for rate in rates[:2]],
    }
    return {**found, **changes}
