"""confluent-kafka against librdkafka's mock broker.

The mock keeps 5 MiB a partition and makes four partitions a topic: messages go to as many topics as they need, named
after the one that was asked for, one partition after the other. `batch` is `batch.num.messages`, but for `default`,
which leaves all settings as they are. Consumers fetch as they do by default, whatever `fetch_bytes` says.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from itertools import count as numbers
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from paper_benchmarks.drivers.job import Job, Progress
from paper_benchmarks.errors import BenchmarkError
from paper_benchmarks.payloads import payloads
from paper_benchmarks.worker import work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from paper_benchmarks.worker import Work

    Prepared = Iterator[tuple[Mapping[str, Any], Work]]
    Send = Callable[[Producer, str, int, Sequence[bytes]], None]

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


def room(payload_bytes: int) -> int:
    """Return how many messages a partition of the mock surely keeps."""
    return max(int(_PARTITION_BYTES * _USED_SHARE) // (payload_bytes + _BATCH_BYTES + _RECORD_BYTES), 1)


def places(topic: str, payload_bytes: int) -> Iterator[tuple[str, int, int]]:
    """Give topic, partition and room of one partition after the other, without end."""
    for number in numbers():
        for partition in range(PARTITIONS):
            yield f"{topic}-{number}", partition, room(payload_bytes)


def _make_topics(producer: Producer, job: Job) -> None:
    for number in range(-(-job.messages // (PARTITIONS * room(job.payload_bytes)))):
        producer.list_topics(f"{job.topic}-{number}", timeout=_TIMEOUT_S)  # the mock makes what is asked for


def _one_by_one(producer: Producer, topic: str, partition: int, messages: Sequence[bytes]) -> None:
    for message in messages:
        producer.produce(topic, message, partition=partition)


def _in_lists(producer: Producer, topic: str, partition: int, messages: Sequence[bytes]) -> None:
    queued = producer.produce_batch(topic, [{"value": message} for message in messages], partition=partition)
    if queued != len(messages):
        raise BenchmarkError(f"{topic}-{partition}: only {queued} of {len(messages)} messages were queued")


def _await_room(producer: Producer) -> None:
    """Wait while the producer has many messages to send."""
    deadline_s = time.monotonic() + _TIMEOUT_S
    while len(producer) > _MOST_QUEUED:
        if time.monotonic() >= deadline_s:
            raise BenchmarkError(f"{len(producer)} messages wait to be sent, and none goes")
        producer.poll(0.001)


@contextmanager
def _producing(job: Job, settings: Mapping[str, Any], send: Send, at_once: int) -> Prepared:
    producer = Producer({"bootstrap.servers": f"{job.host}:{job.port}", **settings})
    _make_topics(producer, job)
    progress, messages = Progress(job), payloads(at_once, job.payload_bytes)

    def run() -> Mapping[str, Any]:
        left, where = 0, places(job.topic, job.payload_bytes)
        for count in progress.chunks():
            to_send = count
            while to_send:
                if not left:
                    topic, partition, left = next(where)
                now = min(to_send, left, at_once)
                _await_room(producer)
                send(producer, topic, partition, messages[:now])
                left -= now
                to_send -= now
        if unsent := producer.flush(_TIMEOUT_S):
            raise BenchmarkError(f"{unsent} messages of {job.topic} could not be sent")
        return progress.facts()

    yield {}, run


@contextmanager
def _produce(job: Job) -> Prepared:
    with _producing(job, {"batch.num.messages": job.batch}, _one_by_one, _AT_ONCE) as prepared:
        yield prepared


@contextmanager
def _lists(job: Job) -> Prepared:
    with _producing(job, {"batch.num.messages": job.batch}, _in_lists, job.batch) as prepared:
        yield prepared


@contextmanager
def _default(job: Job) -> Prepared:
    with _producing(job, {}, _one_by_one, _AT_ONCE) as prepared:
        yield prepared


@contextmanager
def _consumer(job: Job) -> Prepared:
    """Read all partitions at once."""
    consumer = Consumer({"bootstrap.servers": f"{job.host}:{job.port}", "group.id": "measured"})
    try:
        topics = consumer.list_topics(timeout=_TIMEOUT_S).topics
        assigned = [
            TopicPartition(name, partition, OFFSET_BEGINNING)
            for name, described in topics.items()
            if name.startswith(f"{job.topic}-")
            for partition in described.partitions
        ]
        progress = Progress(job)

        def run() -> Mapping[str, Any]:
            more = True
            progress.start()
            consumer.assign(assigned)
            while more:
                # It waits the whole time for as many as are asked for.
                messages = consumer.consume(min(_AT_ONCE, job.messages - progress.messages), _TIMEOUT_S)
                if failed := next((message.error() for message in messages if message.error()), None):
                    raise BenchmarkError(f"{job.topic}: {failed}")
                if not messages:
                    raise BenchmarkError(f"{job.topic}: no message after {progress.messages} in {_TIMEOUT_S:g} s")
                more = progress.read(len(messages))
            return progress.facts()

        yield {}, run
    finally:
        consumer.close()


CLIENTS = {
    "produce": {"produce": _produce, "lists": _lists, "default": _default},
    "consume": {"consume": _consumer},
}


def prepare(facts: Mapping[str, Any]) -> Any:
    """Set up the client that a job names."""
    job = Job.of(facts)
    return CLIENTS[job.do][job.client](job)


if __name__ == "__main__":
    work(prepare)
