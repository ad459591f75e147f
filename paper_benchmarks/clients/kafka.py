"""Kafka's own performance tools, which are Java, and confluent-kafka, against a Kafka of today. One partition.

The tools are timed by themselves: from the first record until the last one was acknowledged, or fetched, without
joining the group. Their CPU time is what their process takes more than one for a fifth of the messages: without the
start of Java, and most of what its compiler does.
"""

from __future__ import annotations

import os
import random
import resource
import string
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from paper_benchmarks.clients.job import Job, Progress, polling, serve
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import PAYLOAD_BYTES, payloads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paper_benchmarks.clients.job import Prepared

_TOOLS = "org.apache.kafka.tools"
_DIFFERENT = 1000
_WARM_SHARE = 0.2
_MOST_QUEUED = 50_000  # of the 100,000 that a producer's queue takes
_AT_ONCE = 1000
_TIMEOUT_S = 60.0


def _address(job: Job) -> str:
    return f"{job.host}:{job.port}"


def _make_topic(job: Job) -> None:
    admin = AdminClient({"bootstrap.servers": _address(job)})
    admin.create_topics([NewTopic(job.topic, 1, 1)])[job.topic].result(_TIMEOUT_S)


# The tools of Kafka itself -------------------------------------------------------------------------------------------


def produced(output: str) -> tuple[int, float]:
    """Read what ProducerPerformance says at its end: messages, and messages a second."""
    return _read(output, lambda line: line.split(" records sent, "), 0, 1)


def consumed(output: str) -> tuple[int, float]:
    """Read what ConsumerPerformance says at its end: messages, and those a second without joining."""
    return _read(output, lambda line: line.split(", "), 4, 9)


def _read(output: str, split: Any, count: int, rate: int) -> tuple[int, float]:
    try:
        fields = split(output.strip().splitlines()[-1])
        return int(fields[count]), float(fields[rate].split()[0])
    except (IndexError, ValueError) as error:
        raise BenchmarkError(f"Kafka's tool said: {output.strip()[-500:]}") from error


def _run_tool(job: Job, name: str, arguments: Sequence[str]) -> tuple[str, float]:
    """Run one to its end; return what it said, and the CPU time of its process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(  # noqa: S603 (the program that is measured)
        [job.server["java"], "-cp", job.server["classpath"], f"{_TOOLS}.{name}", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise BenchmarkError(f"Kafka's {name} ended with status {done.returncode}: {done.stderr[-1000:]}")
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _told(job: Job, found: tuple[int, float], cpu_s: float) -> Mapping[str, Any]:
    if found[0] < job.messages:
        raise BenchmarkError(f"{found[0]} messages of {job.topic} were handled: there are {job.messages}")
    wall_s = job.messages / found[1]
    share = 1 - _warm(job) / job.messages
    return {"points": [(job.messages, wall_s)], "wall_s": wall_s, "cpu_s": max(cpu_s / share, 1e-6)}


def _warm(job: Job) -> int:
    return max(int(job.messages * _WARM_SHARE), 1)


@contextmanager
def _perf_producer(job: Job) -> Prepared:
    """Send lines of letters, of which there are a thousand different ones: making new ones would cost more."""
    _make_topic(job)
    with tempfile.TemporaryDirectory(prefix="kafka2011-bench-") as directory:
        file = Path(directory) / "payloads"
        letters = random.Random(os.urandom(8))  # noqa: S311 (nothing is to be kept secret)
        lines = ("".join(letters.choices(string.ascii_letters, k=PAYLOAD_BYTES)) for _ in range(_DIFFERENT))
        file.write_text("\n".join(lines), encoding="ascii")
        common = ["--bootstrap-server", _address(job), "--topic", job.topic, "--throughput", "-1"]
        common += ["--payload-file", str(file), "--num-records"]
        warm = _warm(job)
        _, start_s = _run_tool(job, "ProducerPerformance", [*common, str(warm)])

        def run() -> Mapping[str, Any]:
            said, cpu_s = _run_tool(job, "ProducerPerformance", [*common, str(job.messages)])
            return _told(job, produced(said), cpu_s - start_s)

        yield {"warm_messages": warm}, run


@contextmanager
def _perf_consumer(job: Job) -> Prepared:
    common = ["--bootstrap-server", _address(job), "--topic", job.topic, "--timeout", "60000", "--num-records"]
    _, start_s = _run_tool(job, "ConsumerPerformance", [*common, str(_warm(job))])

    def run() -> Mapping[str, Any]:
        said, cpu_s = _run_tool(job, "ConsumerPerformance", [*common, str(job.messages)])
        return _told(job, consumed(said), cpu_s - start_s)

    yield {}, run


# confluent-kafka -----------------------------------------------------------------------------------------------------


def _await_room(producer: Producer) -> None:
    """Wait while the producer has many messages to send."""
    deadline_s = time.monotonic() + _TIMEOUT_S
    while len(producer) > _MOST_QUEUED:
        if time.monotonic() >= deadline_s:
            raise BenchmarkError(f"{len(producer)} messages wait to be sent, and none goes")
        producer.poll(0.001)


@contextmanager
def _producer(job: Job) -> Prepared:
    """Send with the settings that it ships: a call a message, or lists of a thousand."""
    _make_topic(job)
    producer = Producer({"bootstrap.servers": _address(job)})
    producer.list_topics(job.topic, timeout=_TIMEOUT_S)
    progress, messages = Progress(job), payloads(_AT_ONCE)

    def run() -> Mapping[str, Any]:
        for count in progress.chunks():
            for begin in range(0, count, _AT_ONCE):
                now = messages[: min(_AT_ONCE, count - begin)]
                _await_room(producer)
                if job.client == "lists":
                    producer.produce_batch(job.topic, [{"value": message} for message in now], partition=0)
                else:
                    for message in now:
                        producer.produce(job.topic, message)
        if unsent := producer.flush(_TIMEOUT_S):
            raise BenchmarkError(f"{unsent} messages of {job.topic} could not be sent")
        return progress.facts()

    yield {}, run


@contextmanager
def _consumer(job: Job) -> Prepared:
    """Take messages in lists, or one by one."""
    consumer = Consumer({"bootstrap.servers": _address(job), "group.id": "measured", "enable.auto.commit": False})
    consumer.list_topics(job.topic, timeout=_TIMEOUT_S)
    try:
        yield {}, polling(job, _fetch(job, consumer))
    finally:
        consumer.close()


def _fetch(job: Job, consumer: Consumer) -> Any:
    left, begun = job.messages, False

    def check(messages: Sequence[Any]) -> None:
        if failed := next((message.error() for message in messages if message.error()), None):
            raise BenchmarkError(f"{job.topic}: {failed}")
        if not messages:
            raise BenchmarkError(f"{job.topic}: no message, and {left} are still to come, in {_TIMEOUT_S:g} s")

    def fetch() -> int:
        nonlocal left, begun
        if not begun:
            consumer.assign([TopicPartition(job.topic, 0, OFFSET_BEGINNING)])
            begun = True
        many = min(_AT_ONCE, left)
        if job.client == "consume":
            messages = consumer.consume(many, _TIMEOUT_S)  # it waits the whole time for as many
            check(messages)
            left -= len(messages)
            return len(messages)
        for _ in range(many):
            message = consumer.poll(_TIMEOUT_S)
            if message is None or message.error():
                check([] if message is None else [message])
        left -= many
        return many

    return fetch


if __name__ == "__main__":
    serve(
        {
            "produce": {"perf": _perf_producer, "produce": _producer, "lists": _producer},
            "consume": {"perf": _perf_consumer, "consume": _consumer, "poll": _consumer},
        }
    )
