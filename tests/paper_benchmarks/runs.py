"""Runs and figures as if they had been measured."""

from __future__ import annotations

from typing import Any

from paper_benchmarks.clients.job import Job
from paper_benchmarks.clients.measure import Run
from paper_benchmarks.measuring.spread import Sample
from paper_benchmarks.measuring.usage import Usage


def sample(rate: float, client_cpu_us: float = 2.0, server_cpu_us: float | None = 3.0) -> Sample:
    """Return a second of so many messages."""
    server_cpu_s = None if server_cpu_us is None else rate * server_cpu_us / 1e6
    return Sample(amount=rate, wall_s=1.0, cpu_s=rate * client_cpu_us / 1e6, server_cpu_s=server_cpu_s)


def run(do: str, rate: float, *, read_bytes: int = 0, stored_bytes: int | None = None, **changes: Any) -> Run:
    """Return a second of a client that had so many messages."""
    messages = int(rate)
    job = Job(do=do, client="any", topic="views", messages=messages, every=messages)
    facts: dict[str, Any] = {
        "amount": messages,
        "wall_s": 1.0,
        "cpu_s": 1e-6,
        "job": job,
        "points": [(messages, 1.0)],
        "server": Usage(0.0, 0, read_bytes, 1, 1, 1),
        "stored_bytes": stored_bytes,
    }
    return Run(**{**facts, **changes})


def figures(rate: float, server_cpu_us: float | None = 1.0) -> dict[str, Any]:
    """Return what a document has of a line that was the same in all rounds."""
    cpu_us = None if server_cpu_us is None else [server_cpu_us] * 3
    return {"rate": [rate] * 3, "client_cpu_us": [1.0] * 3, "server_cpu_us": cpu_us}
