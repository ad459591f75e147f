"""confluent-kafka against librdkafka's mock broker.

The mock keeps 5 MiB a partition and makes four partitions a topic: messages go to as many topics as they need, named
after the one that was asked for, one partition after the other. `batch` is `batch.num.messages`. Consumers
fetch as they do by default.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from itertools import count as numbers
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from paper_benchmarks.clients.job import Job, Progress, polling, serve
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import PAYLOAD_BYTES, payloads

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from paper_benchmarks.clients.job import Prepared

PARTITIONS = 4
_PARTITION_BYTES = 5 * 1024 * 1024
_BATCH_BYTES = 61
"""Before the messages of a batch; a batch may have only one."""
_RECORD_BYTES = 20
"""Around a message at most."""
_USED_SHARE = 0.9
_MOST_QUEUED = 50_000  # of the 100,000 that a producer's queue takes
_AT_ONCE = 1000
_TIMEOUT_S = 60.0


def room(payload_bytes: int = PAYLOAD_BYTES) -> int:
    """Return how many messages a partition of the mock surely keeps."""
    return max(int(_PARTITION_BYTES * _USED_SHARE) // (payload_bytes + _BATCH_BYTES + _RECORD_BYTES), 1)


def places(topic: str) -> Iterator[tuple[str, int, int]]:
    """Give topic, partition and room of one partition after the other, without end."""
    for number in numbers():
        for partition in range(PARTITIONS):
            yield f"{topic}-{number}", partition, room()


def _make_topics(producer: Producer, job: Job) -> None:
    for number in range(-(-job.messages // (PARTITIONS * room()))):
        producer.list_topics(f"{job.topic}-{number}", timeout=_TIMEOUT_S)  # the mock makes what is asked for


def _await_room(producer: Producer) -> None:
    """Wait while the producer has many messages to send."""
    deadline_s = time.monotonic() + _TIMEOUT_S
    while len(producer) > _MOST_QUEUED:
        if time.monotonic() >= deadline_s:
            raise BenchmarkError(f"{len(producer)} messages wait to be sent, and none goes")
        producer.poll(0.001)


@contextmanager
def _producer(job: Job) -> Prepared:
    settings = {"bootstrap.servers": f"{job.host}:{job.port}", "batch.num.messages": job.batch}
    producer = Producer(settings)
    _make_topics(producer, job)
    progress, messages = Progress(job), payloads(_AT_ONCE)

    def run() -> Mapping[str, Any]:
        left, where = 0, places(job.topic)
        for count in progress.chunks():
            to_send = count
            while to_send:
                if not left:
                    topic, partition, left = next(where)
                now = min(to_send, left, _AT_ONCE)
                _await_room(producer)
                for message in messages[:now]:
                    producer.produce(topic, message, partition=partition)
                left -= now
                to_send -= now
        if unsent := producer.flush(_TIMEOUT_S):
            raise BenchmarkError(f"{unsent} messages of {job.topic} could not be sent")
        return progress.facts()

    yield {}, run


@contextmanager
def _consumer(job: Job) -> Prepared:
    """Read all partitions at once."""
    consumer = Consumer({"bootstrap.servers": f"{job.host}:{job.port}", "group.id": "measured"})
    try:
        assigned = [
            TopicPartition(name, partition, OFFSET_BEGINNING)
            for name, described in consumer.list_topics(timeout=_TIMEOUT_S).topics.items()
            if name.startswith(f"{job.topic}-")
            for partition in described.partitions
        ]
        left, begun = job.messages, False

        def fetch() -> int:
            nonlocal left, begun
            if not begun:
                consumer.assign(assigned)
                begun = True
            messages = consumer.consume(min(_AT_ONCE, left), _TIMEOUT_S)  # it waits the whole time for as many
            if failed := next((message.error() for message in messages if message.error()), None):
                raise BenchmarkError(f"{job.topic}: {failed}")
            if not messages:
                raise BenchmarkError(f"{job.topic}: no message, and {left} are still to come, in {_TIMEOUT_S:g} s")
            left -= len(messages)
            return len(messages)

        yield {}, polling(job, fetch)
    finally:
        consumer.close()


if __name__ == "__main__":
    serve({"produce": {"produce": _producer}, "consume": {"consume": _consumer}})
