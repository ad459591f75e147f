"""A producer that sends its batches to all partitions of a topic in turn."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka2011 import SyncProducer
from paper_benchmarks.payloads import BATCH, payloads
from paper_benchmarks.worker import work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from paper_benchmarks.worker import Work


@contextmanager
def prepare(job: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Work]]:
    """Send one message to each of `partitions`, so that their logs exist; the work is to send `batches` of 50."""
    sent = payloads(BATCH)
    topic, partitions = job["topic"], job["partitions"]
    with SyncProducer(job["host"], job["port"]) as producer:
        for partition in range(partitions):
            producer.send(topic, sent[0], partition)

        def run() -> Mapping[str, Any]:
            for number in range(job["batches"]):
                producer.send(topic, sent, number % partitions)
            producer.close()
            return {}

        yield {"warm_messages": partitions}, run


if __name__ == "__main__":
    work(prepare)
