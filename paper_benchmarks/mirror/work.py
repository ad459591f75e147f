"""What each line does, in a process of its own: read a topic to its end, and for `mirror` publish it elsewhere too.

Everything is read twice. The first time, which joins the group and makes the topic, is not timed; then the group goes
back to the beginning.
"""

from __future__ import annotations

import secrets
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka2011 import ConsumerConnector, Whitelist
from kafka2011.pipeline.mirror.mirror import Mirror
from kafka2011.pipeline.mirror.source import source_config
from kafka2011.pipeline.mirror.target import target_config
from paper_benchmarks.errors import BenchmarkError
from paper_benchmarks.worker import work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafka2011 import MessageStream
    from paper_benchmarks.worker import Work

    Prepared = Iterator[tuple[Mapping[str, Any], Work]]
    Job = Mapping[str, Any]

_POLL_S = 0.01
_TIMEOUT_S = 300.0
_PROPERTIES = ("fetcher.backoff.ms=10", "autocommit.interval.ms=100")


@contextmanager
def _reading(job: Job, read: Callable[[MessageStream, int], object]) -> Prepared:
    config = source_config(job["source"], secrets.token_hex(4), _PROPERTIES)
    with ConsumerConnector(config, explicit_commits=True) as consumer:
        [stream] = consumer.create_message_streams({job["topic"]: 1})[job["topic"]]
        read(stream, job["end_offset"])

        def run() -> Mapping[str, Any]:
            consumer.rewind(job["topic"], 0, 0, offset=0)
            read(stream, job["end_offset"])
            return {}

        yield {}, run


def _messages(stream: MessageStream, end_offset: int) -> None:
    for messages in stream.batches():
        if messages[-1].next_offset == end_offset:
            return


def _sets(stream: MessageStream, end_offset: int) -> None:
    for stored in stream.sets():
        if stored.next_offset == end_offset:
            return


@contextmanager
def _mirroring(job: Job) -> Prepared:
    config = source_config(job["source"], secrets.token_hex(4), _PROPERTIES)
    with Mirror([config], target_config(job["target"]), Whitelist(job["topic"])) as mirror:
        _await_mirrored(mirror, job, job["end_offset"])

        def run() -> Mapping[str, Any]:
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
    while member.forwarder.counts["bytes"] < size_bytes:
        if time.monotonic() > deadline_s:
            raise BenchmarkError(f"{job['topic']} was not mirrored within {_TIMEOUT_S:g} s: {mirror.counts()}")
        mirror.wait(_POLL_S)


def prepare(job: Job) -> Any:
    """Set up what the line of a job does."""
    if job["line"] == "mirror":
        return _mirroring(job)
    return _reading(job, _messages if job["line"] == "batches" else _sets)


if __name__ == "__main__":
    work(prepare)
