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
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from paper_benchmarks.clients.job import Job, Progress, polling, serve
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import PAYLOAD_BYTES, payloads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from paper_benchmarks.clients.job import Prepared

_TOOLS = "org.apache.kafka.tools"
_DIFFERENT = 1000
_WARM_SHARE, _WARM_SHARE_TIMED = 0.2, 0.05
_ATTEMPTS = 3
_MARGIN = 1.1  # a run that is a moment too short would have to be made again
_QUEUE, _QUEUE_SHIPPED = "queue.buffering.max.messages", 100_000
_AT_ONCE = 1000
_TIMEOUT_S = 60.0


def _address(job: Job) -> str:
    return f"{job.host}:{job.port}"


def _make_topic(job: Job) -> None:
    """Make the topic unless it is there."""
    admin = AdminClient({"bootstrap.servers": _address(job)})
    try:
        admin.create_topics([NewTopic(job.topic, 1, 1)])[job.topic].result(_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


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


def _warm(job: Job) -> int:
    return max(int(job.messages * (_WARM_SHARE_TIMED if job.is_timed else _WARM_SHARE)), 1)


def go_on(
    job: Job, rate: float, start_s: float, run: Callable[[int], tuple[tuple[int, float], float]]
) -> Mapping[str, Any]:
    """Have `run` handle enough messages to use a job's time, by the rate of the run before.

    A Java that was slow before its compiler was done makes another run necessary. `run` returns messages and rate as
    the tool has them, and CPU time; the last one counts. `start_s` is the CPU time of the warm-up: what a message costs
    is the difference of both, or, where the run was no longer than that, all that it took.
    """
    handled = 0
    for _ in range(_ATTEMPTS):
        count = job.messages
        if job.is_timed:
            count = max(count, int(rate * job.seconds * _MARGIN))
            count = min(count, int(rate * job.most_s)) if job.most_s else count
        (messages, rate), cpu_s = run(count)
        if messages < count:
            raise BenchmarkError(f"{messages} messages of {job.topic} were handled: there are {count}")
        handled += count
        if not job.is_timed or job.is_done(count, count / rate):
            break
    wall_s, warm = count / rate, _warm(job)
    if count >= 2 * warm:
        cpu_s = (cpu_s - start_s) / (1 - warm / count)
    return {
        "messages": count,
        "points": [(count, wall_s)],
        "wall_s": wall_s,
        "cpu_s": max(cpu_s, 1e-6),
        "server_share": count / handled,
        "warm_messages": handled - count,
    }


def _properties(job: Job, **more: str) -> list[str]:
    """Return a tool's arguments for the settings of its client."""
    several = {**more, **job.settings}
    return [part for key, value in several.items() for part in ("--command-property", f"{key}={value}")]


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
        common += ["--payload-file", str(file)]
        common += _properties(job, acks="0" if job.client == "perf-0" else "all")
        said, start_s = _run_tool(job, "ProducerPerformance", [*common, "--num-records", str(_warm(job))])

        def once(count: int) -> tuple[tuple[int, float], float]:
            said, cpu_s = _run_tool(job, "ProducerPerformance", [*common, "--num-records", str(count)])
            return produced(said), cpu_s

        yield {"warm_messages": _warm(job)}, lambda: go_on(job, produced(said)[1], start_s, once)


@contextmanager
def _perf_consumer(job: Job) -> Prepared:
    common = ["--bootstrap-server", _address(job), "--topic", job.topic, "--timeout", "60000", *_properties(job)]
    job = replace(job, seconds=0.0, most_s=0.0)
    _, start_s = _run_tool(job, "ConsumerPerformance", [*common, "--num-records", str(_warm(job))])

    def once(count: int) -> tuple[tuple[int, float], float]:
        said, cpu_s = _run_tool(job, "ConsumerPerformance", [*common, "--num-records", str(count)])
        return consumed(said), cpu_s

    def run() -> Mapping[str, Any]:
        return go_on(job, 0.0, start_s, once)  # all that the topic has

    yield {}, run


# confluent-kafka -----------------------------------------------------------------------------------------------------


def _await_appended(job: Job, messages: int) -> None:
    """Wait until the broker has appended what it does not acknowledge."""
    deadline_s = time.monotonic() + _TIMEOUT_S
    consumer = Consumer({"bootstrap.servers": _address(job), "group.id": "appended"})
    while consumer.get_watermark_offsets(TopicPartition(job.topic, 0), timeout=_TIMEOUT_S)[1] < messages:
        if time.monotonic() >= deadline_s:
            raise BenchmarkError(f"{job.topic} does not get all of its {messages} messages")
        time.sleep(0.001)
    consumer.close()


def _await_room(producer: Producer, most: int) -> None:
    """Wait while the producer has many messages to send."""
    deadline_s = time.monotonic() + _TIMEOUT_S
    while len(producer) > most:
        if time.monotonic() >= deadline_s:
            raise BenchmarkError(f"{len(producer)} messages wait to be sent, and none goes")
        producer.poll(0.001)


@contextmanager
def _producer(job: Job) -> Prepared:
    """Send with the settings that it ships, and those of the job: a call a message, or lists of a thousand."""
    _make_topic(job)
    unconfirmed = {"acks": "0"} if job.client.endswith("-0") else {}
    producer = Producer({"bootstrap.servers": _address(job), **unconfirmed, **job.settings})
    producer.list_topics(job.topic, timeout=_TIMEOUT_S)
    progress, messages = Progress(job), payloads(_AT_ONCE)
    most = int(job.settings.get(_QUEUE, _QUEUE_SHIPPED)) // 2

    def run() -> Mapping[str, Any]:
        for count in progress.chunks():
            for begin in range(0, count, _AT_ONCE):
                now = messages[: min(_AT_ONCE, count - begin)]
                _await_room(producer, most)
                if job.client.startswith("lists"):
                    producer.produce_batch(job.topic, [{"value": message} for message in now], partition=0)
                else:
                    for message in now:
                        producer.produce(job.topic, message)
        if unsent := producer.flush(_TIMEOUT_S):
            raise BenchmarkError(f"{unsent} messages of {job.topic} could not be sent")
        if unconfirmed:
            _await_appended(job, progress.messages)
        return progress.facts()

    yield {}, run


@contextmanager
def _consumer(job: Job) -> Prepared:
    """Take messages in lists, or one by one."""
    config = {"bootstrap.servers": _address(job), "group.id": "measured", "enable.auto.commit": False, **job.settings}
    consumer = Consumer(config)
    consumer.list_topics(job.topic, timeout=_TIMEOUT_S)

    def rewind() -> None:
        consumer.assign([TopicPartition(job.topic, 0, OFFSET_BEGINNING)])

    work = polling(job, _fetch(job, consumer), rewind)

    def run() -> Mapping[str, Any]:
        rewind()
        return work()

    try:
        yield {}, run
    finally:
        consumer.close()


def _fetch(job: Job, consumer: Consumer) -> Callable[[int], int]:
    def check(messages: Sequence[Any]) -> None:
        if failed := next((message.error() for message in messages if message.error()), None):
            raise BenchmarkError(f"{job.topic}: {failed}")
        if not messages:
            raise BenchmarkError(f"{job.topic}: no message in {_TIMEOUT_S:g} s, though some are still to come")

    def fetch(left: int) -> int:
        many = min(_AT_ONCE, left)
        if job.client == "consume":
            messages = consumer.consume(many, _TIMEOUT_S)  # it waits the whole time for as many
            check(messages)
            return len(messages)
        for _ in range(many):
            message = consumer.poll(_TIMEOUT_S)
            if message is None or message.error():
                check([] if message is None else [message])
        return many

    return fetch


if __name__ == "__main__":
    serve(
        {
            "produce": {
                "perf": _perf_producer,
                "perf-0": _perf_producer,
                **dict.fromkeys(("produce", "produce-0", "lists", "lists-0"), _producer),
            },
            "consume": {"perf": _perf_consumer, "consume": _consumer, "poll": _consumer},
        }
    )
