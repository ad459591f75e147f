"""What each line's client does, in a process of its own.

Timed is the use of a client as an application would write it, and for producers `close()`, after which the broker has
handled everything. Not timed are imports, the payloads, the first connection, and joining a group.
"""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from kafka2011 import (
    Broker,
    ConsumerConnector,
    MessageSet,
    MessageStream,
    Producer,
    SimpleConsumer,
    SyncProducer,
)
from kafka2011.producer.partition_info import ListedBrokers
from kafka2011.protocol import produce_frame, topic_field
from paper_benchmarks.clients.lines import BATCH, FETCH_BYTES, PAYLOAD_BYTES
from paper_benchmarks.errors import BenchmarkError
from paper_benchmarks.sink import COUNT
from paper_benchmarks.worker import work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from paper_benchmarks.worker import Work

    Prepared = Iterator[tuple[Mapping[str, Any], Work]]
    Job = Mapping[str, Any]

_DIFFERENT_PAYLOADS = 1000
_TOPIC = "measured"  # eight letters, as all topics here
_WARM_MESSAGES = 200  # one batch of an asynchronous producer


def payloads(count: int) -> list[bytes]:
    """Return payloads that no codec could make smaller, a thousand different ones again and again."""
    different = [os.urandom(PAYLOAD_BYTES) for _ in range(min(count, _DIFFERENT_PAYLOADS))]
    return [different[index % len(different)] for index in range(count)]


def batches(count: int) -> list[list[bytes]]:
    """Return as many payloads in lists of 50."""
    every = payloads(count)
    return [every[start : start + BATCH] for start in range(0, count, BATCH)]


class OnePartition(ListedBrokers):
    """One broker, of which partition 0 of each topic is used, wherever it is registered."""

    choices = ListedBrokers.partitions


# Producers -----------------------------------------------------------------------------------------------------------


def _producer(job: Job, *, confirm: bool) -> Producer:
    broker = Broker(0, job["host"], job["port"])
    config = {"producer.type": "async", "confirm": confirm, "broker.list": f"0:{broker.host}:{broker.port}"}
    return Producer(config, info=OnePartition([broker]))


@contextmanager
def _async(job: Job, to_send: list[bytes] | list[list[bytes]], *, confirm: bool = False) -> Prepared:
    with _producer(job, confirm=confirm) as producer:
        topic = job["topic"]
        producer.send(topic, payloads(_WARM_MESSAGES))
        producer.flush()

        def run() -> Mapping[str, Any]:
            for messages in to_send:
                producer.send(topic, messages)
            producer.close()
            return {}

        yield {"warm_messages": _WARM_MESSAGES}, run


@contextmanager
def _async_1(job: Job) -> Prepared:
    with _async(job, payloads(job["messages"])) as prepared:
        yield prepared


@contextmanager
def _async_confirmed(job: Job) -> Prepared:
    with _async(job, payloads(job["messages"]), confirm=True) as prepared:
        yield prepared


@contextmanager
def _async_lists(job: Job) -> Prepared:
    with _async(job, batches(job["messages"])) as prepared:
        yield prepared


@contextmanager
def _sync(job: Job, to_send: list[bytes] | list[list[bytes]]) -> Prepared:
    with SyncProducer(job["host"], job["port"]) as producer:
        topic = job["topic"]
        producer.send(topic, payloads(_WARM_MESSAGES), 0)

        def run() -> Mapping[str, Any]:
            for messages in to_send:
                producer.send(topic, messages, 0)
            producer.close()
            return {}

        yield {"warm_messages": _WARM_MESSAGES}, run


@contextmanager
def _sync_1(job: Job) -> Prepared:
    with _sync(job, payloads(job["messages"])) as prepared:
        yield prepared


@contextmanager
def _sync_50(job: Job) -> Prepared:
    with _sync(job, batches(job["messages"])) as prepared:
        yield prepared


# Consumers -----------------------------------------------------------------------------------------------------------


def check_read(job: Job, messages: int, end_offset: int) -> None:
    """Every message of the log must have been read, to the last one."""
    if (messages, end_offset) != (job["messages"], job["end_offset"]):
        raise BenchmarkError(
            f"{messages} messages of {job['topic']} were read, to offset {end_offset}:"
            f" there are {job['messages']}, to {job['end_offset']}"
        )


@contextmanager
def _simple(job: Job) -> Prepared:
    with SimpleConsumer(job["host"], job["port"]) as consumer:
        topic, end_offset = job["topic"], job["end_offset"]
        list(consumer.fetch(topic, 0, 0, FETCH_BYTES))

        def run() -> Mapping[str, Any]:
            offset = messages = 0
            while offset < end_offset:
                for message in consumer.fetch(topic, 0, offset, FETCH_BYTES):  # noqa: B007 (used after)
                    messages += 1
                offset = message.next_offset
            check_read(job, messages, offset)
            return {}

        yield {}, run


@contextmanager
def _in_group(job: Job, read: Callable[[MessageStream], tuple[int, int]]) -> Prepared:
    """Own the partition, read something of it, and go back to its beginning when told to."""
    # A group of its own: one that has read the topic already may have committed its end, and would wait there.
    config = {"zk.connect": job["zk_connect"], "groupid": secrets.token_hex(4), "fetch.size": FETCH_BYTES}
    with ConsumerConnector(config) as consumer:
        [stream] = consumer.create_message_streams({job["topic"]: 1})[job["topic"]]
        first = next(stream)

        def run() -> Mapping[str, Any]:
            assert first.broker_id is not None
            consumer.rewind(first.topic, first.broker_id, first.partition, offset=0)
            check_read(job, *read(stream))
            return {}

        yield {}, run


@contextmanager
def _stream(job: Job) -> Prepared:
    def read(stream: MessageStream) -> tuple[int, int]:
        messages = 0
        for message in islice(stream, job["messages"]):  # noqa: B007 (used after)
            messages += 1
        return messages, message.next_offset

    with _in_group(job, read) as prepared:
        yield prepared


@contextmanager
def _batches(job: Job) -> Prepared:
    def read(stream: Any) -> tuple[int, int]:
        messages = 0
        for batch in stream.batches():
            messages += len(batch)
            if messages >= job["messages"]:
                break
        return messages, batch[-1].next_offset

    with _in_group(job, read) as prepared:
        yield prepared


# Yardsticks ----------------------------------------------------------------------------------------------------------


@contextmanager
def _sendall(job: Job, batch: int) -> Prepared:
    frame = produce_frame(topic_field(_TOPIC), 0, bytes(MessageSet(payloads(batch))))
    with socket.create_connection((job["host"], job["port"])) as connection:

        def run() -> Mapping[str, Any]:
            sends = job["messages"] // batch
            for _ in range(sends):
                connection.sendall(frame)
            connection.shutdown(socket.SHUT_WR)
            (received_bytes,) = COUNT.unpack(connection.recv(COUNT.size, socket.MSG_WAITALL))
            if received_bytes != sends * len(frame):
                raise BenchmarkError(f"{sends * len(frame)} bytes were sent, but {received_bytes} came")
            return {"frame_bytes": len(frame)}

        yield {}, run


@contextmanager
def _sendall_1(job: Job) -> Prepared:
    with _sendall(job, 1) as prepared:
        yield prepared


@contextmanager
def _sendall_50(job: Job) -> Prepared:
    with _sendall(job, BATCH) as prepared:
        yield prepared


CLIENTS = {
    "async": _async_1,
    "async-confirmed": _async_confirmed,
    "async-lists": _async_lists,
    "sync-1": _sync_1,
    "sync-50": _sync_50,
    "simple": _simple,
    "stream": _stream,
    "batches": _batches,
    "sendall-1": _sendall_1,
    "sendall-50": _sendall_50,
}
"""By the names of lines and yardsticks."""


def prepare(job: Job) -> Any:
    """Set up the client of the line that a job names."""
    return CLIENTS[job["line"]](job)


if __name__ == "__main__":
    work(prepare)
