"""A mirror of one topic, in a process of its own.

Everything is mirrored twice. The first time, which joins the group and makes the topic, is not timed; then the group
goes back to the beginning.
"""

from __future__ import annotations

import secrets
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka2011 import Whitelist
from kafka2011.mirror.mirror import Mirror
from kafka2011.mirror.source import source_config
from kafka2011.mirror.target import target_config
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.worker import work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from paper_benchmarks.measuring.worker import Work

    Job = Mapping[str, Any]

_POLL_S = 0.01
_TIMEOUT_S = 300.0
_PROPERTIES = ("fetcher.backoff.ms=10", "autocommit.interval.ms=100")


@contextmanager
def prepare(job: Job) -> Iterator[tuple[Job, Work]]:
    """Mirror `topic`, which ends at `end_offset`, from `source` to `target`; the work is to do so again."""
    config = source_config(job["source"], secrets.token_hex(4), _PROPERTIES)
    with Mirror([config], target_config(job["target"]), Whitelist(job["topic"])) as mirror:
        _await_mirrored(mirror, job, job["end_offset"])

        def run() -> Job:
            [member] = mirror._sources  # nobody else rewinds a mirror
            assert member._connector is not None
            member._connector.rewind(job["topic"], 0, 0, offset=0)
            _await_mirrored(mirror, job, 2 * job["end_offset"])
            return {}

        yield {}, run


def _await_mirrored(mirror: Mirror, job: Job, size_bytes: int) -> None:
    """Wait until the target has confirmed so many bytes."""
    deadline_s = time.monotonic() + _TIMEOUT_S
    [member] = mirror._sources
    while member.forwarder.counts.bytes < size_bytes:
        if time.monotonic() > deadline_s:
            raise BenchmarkError(f"{job['topic']} was not mirrored within {_TIMEOUT_S:g} s: {mirror.counts()}")
        mirror.wait(_POLL_S)


if __name__ == "__main__":
    work(prepare)
