"""Our clients against a broker that speaks 0.7; `raw` is a socket and bytes that were encoded before.

Timed is the use of a client as an application would write it, and for producers `close()`, after which the broker has
handled everything. Not timed are imports, the payloads, the first connection, and joining a group.
"""

from __future__ import annotations

import secrets
import socket
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from kafka2011 import Broker, ConsumerConnector, MessageSet, Producer, SimpleConsumer, SyncProducer
from kafka2011.producer.partition_info import ListedBrokers
from kafka2011.wire.protocol import FetchRequest, encode_request, produce_frame, topic_field
from paper_benchmarks.clients.job import Job, Progress, connection_of, polling, sending, serve
from paper_benchmarks.measuring.payloads import FETCH_BYTES, STORED_BYTES, batches, payloads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafka2011.consumer.stream import MessageStream
    from paper_benchmarks.clients.job import Prepared

_WARM_MESSAGES = 200  # one batch of an asynchronous producer
_WARM = {"warm_messages": _WARM_MESSAGES}


class OnePartition(ListedBrokers):
    """One broker, of which partition 0 of each topic is used, wherever it is registered."""

    choices = ListedBrokers.partitions


# Producers: those that a figure compares with others call `send` without anything between ---------------------------


@contextmanager
def _sync(job: Job) -> Prepared:
    with SyncProducer(job.host, job.port) as producer:
        topic, progress, sends = job.topic, Progress(job), job.sends()
        producer.send(topic, payloads(_WARM_MESSAGES), 0)

        def run() -> Mapping[str, Any]:
            for count in progress.chunks():
                for messages in sends[: -(-count // job.batch)]:
                    producer.send(topic, messages, 0)
            producer.close()
            return progress.facts()

        yield _WARM, run


@contextmanager
def _sync_magic_0(job: Job) -> Prepared:
    with SyncProducer(job.host, job.port) as producer:
        topic = job.topic
        producer.send(topic, MessageSet(payloads(_WARM_MESSAGES), magic=0), 0)

        def send(messages: list[bytes]) -> None:
            producer.send(topic, MessageSet(messages, magic=0), 0)

        sends = batches(job.every, job.batch)
        yield _WARM, sending(job, send, producer.close, sends, job.batch)


def _producer(job: Job, kind: str, *, confirm: bool) -> Producer:
    config = {"producer.type": kind, "confirm": confirm, "broker.list": f"0:{job.host}:{job.port}", **job.settings}
    return Producer(config, info=OnePartition([Broker(0, job.host, job.port)]))


@contextmanager
def _through_producer(job: Job) -> Prepared:
    kind = "sync" if job.client == "producer" else "async"
    with _producer(job, kind, confirm=job.client == "async-confirmed") as producer:
        topic, progress, sends = job.topic, Progress(job), job.sends()
        producer.send(topic, payloads(_WARM_MESSAGES))
        if kind == "async":
            producer.flush()

        def run() -> Mapping[str, Any]:
            for count in progress.chunks():
                for messages in sends[: -(-count // job.batch)]:
                    producer.send(topic, messages)
            producer.close()
            return progress.facts()

        yield _WARM, run


@contextmanager
def _waited(job: Job) -> Prepared:
    """Wait for the proof of each send before the next, as a client of a queue waits for its acknowledgement."""
    with _producer(job, "sync", confirm=True) as producer:
        producer.send(job.topic, payloads(_WARM_MESSAGES)).result()

        def send(messages: Any) -> None:
            producer.send(job.topic, messages).result()

        yield _WARM, sending(job, send, producer.close, job.sends(), job.batch)


@contextmanager
def _raw_producer(job: Job) -> Prepared:
    """Send frames; their receiver ends the connection once it has handled all of them, and may say something first."""
    frame = produce_frame(topic_field(job.topic), 0, bytes(MessageSet(payloads(job.batch))))
    with connection_of(job) as connection:

        def finish() -> None:
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass

        run = sending(job, connection.sendall, finish, [frame] * (job.every // job.batch), job.batch)
        yield {}, run


# Consumers -----------------------------------------------------------------------------------------------------------


@contextmanager
def _simple(job: Job) -> Prepared:
    with SimpleConsumer(job.host, job.port) as consumer:
        offset = 0
        list(consumer.fetch(job.topic, 0, 0, FETCH_BYTES))

        def fetch(_left: int) -> int:
            nonlocal offset
            messages = 0
            while not messages:
                for message in consumer.fetch(job.topic, 0, offset, FETCH_BYTES):  # noqa: B007 (used after)
                    messages += 1
            offset = message.next_offset
            return messages

        def rewind() -> None:
            nonlocal offset
            offset = 0

        yield {}, polling(job, fetch, rewind)


@contextmanager
def _simple_columns(job: Job) -> Prepared:
    """Read the log as record batches, from its beginning to its end."""
    with SimpleConsumer(job.host, job.port) as consumer:
        next(consumer.fetch(job.topic, 0, 0, FETCH_BYTES).arrow())
        batches = consumer.arrow(job.topic, 0, 0, FETCH_BYTES)

        def fetch(_left: int) -> int:
            return int(next(batches).num_rows)

        def rewind() -> None:
            nonlocal batches
            batches = consumer.arrow(job.topic, 0, 0, FETCH_BYTES)

        yield {}, polling(job, fetch, rewind)


def _one_by_one(stream: MessageStream, every: int) -> Callable[[int], int]:
    def fetch(left: int) -> int:
        count = 0
        for _ in islice(stream, min(every, left)):
            count += 1
        return count

    return fetch


def _in_lists(stream: MessageStream, _every: int) -> Callable[[int], int]:
    several = stream.batches()
    return lambda _left: len(next(several))


def _in_columns(stream: MessageStream, _every: int) -> Callable[[int], int]:
    several = stream.arrow()
    return lambda _left: int(next(several).num_rows)


_WAYS = {"batches": _in_lists, "columns": _in_columns, "stream": _one_by_one}


@contextmanager
def _stream(job: Job) -> Prepared:
    """Own the partition, read something of it, and go back to its beginning when told to."""
    # A group of its own: one that has read the topic already may have committed its end, and would wait there.
    config = {"zk.connect": job.server["zk_connect"], "groupid": secrets.token_hex(4), **job.settings}
    with ConsumerConnector(config) as consumer:
        [stream] = consumer.create_message_streams({job.topic: 1})[job.topic]
        first = next(stream)
        broker_id = first.broker_id
        assert broker_id is not None
        if job.client == "columns":
            next(stream.arrow())  # imports PyArrow, and what that imports later

        def rewind() -> None:
            consumer.rewind(first.topic, broker_id, first.partition, offset=0)

        work = polling(job, _WAYS[job.client](stream, job.every), rewind)

        def run() -> Mapping[str, Any]:
            rewind()
            return work()

        yield {}, run


@contextmanager
def _raw_consumer(job: Job) -> Prepared:
    """Fetch bytes of which only the lengths are looked at: whole messages of one known size."""
    fetch_bytes = FETCH_BYTES // STORED_BYTES * STORED_BYTES
    offset, buffer = 0, bytearray(fetch_bytes)
    with connection_of(job) as connection:

        def rewind() -> None:
            nonlocal offset
            offset = 0

        def fetch(most: int) -> int:
            nonlocal offset
            left, wanted = 0, min(fetch_bytes, most * STORED_BYTES)
            while not left:
                connection.sendall(encode_request(FetchRequest(job.topic, 0, offset, wanted)))
                connection.recv_into(buffer, 6, socket.MSG_WAITALL)
                left = int.from_bytes(buffer[:4]) - 2
            offset += left
            read = 0
            while read < left:
                read += connection.recv_into(buffer, left - read)
            return left // STORED_BYTES

        yield {}, polling(job, fetch, rewind)


CLIENTS = {
    "produce": {
        "sync": _sync,
        "sync-magic-0": _sync_magic_0,
        "producer": _through_producer,
        "async": _through_producer,
        "async-confirmed": _through_producer,
        "waited": _waited,
        "raw": _raw_producer,
    },
    "consume": {
        "simple": _simple,
        "simple-columns": _simple_columns,
        "stream": _stream,
        "batches": _stream,
        "columns": _stream,
        "raw": _raw_consumer,
    },
}


if __name__ == "__main__":
    serve(CLIENTS)
