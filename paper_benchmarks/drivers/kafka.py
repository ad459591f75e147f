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
from kafka2011.protocol import FetchRequest, encode_request, produce_frame, topic_field
from paper_benchmarks.drivers.job import Job, Progress
from paper_benchmarks.payloads import batches, payloads
from paper_benchmarks.worker import work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from paper_benchmarks.worker import Work

    Prepared = Iterator[tuple[Mapping[str, Any], Work]]

_WARM_MESSAGES = 200  # one batch of an asynchronous producer
_TIMEOUT_S = 600.0


class OnePartition(ListedBrokers):
    """One broker, of which partition 0 of each topic is used, wherever it is registered."""

    choices = ListedBrokers.partitions


# Producers -----------------------------------------------------------------------------------------------------------


def _sends(job: Job) -> list[Any]:
    """Return what is given to `send`, for as many messages as there are between two points: lists, or payloads."""
    return payloads(job.every, job.payload_bytes) if job.batch == 1 else _lists(job)


def _lists(job: Job) -> list[list[bytes]]:
    return batches(job.every, job.batch, job.payload_bytes)


@contextmanager
def _sync(job: Job) -> Prepared:
    with SyncProducer(job.host, job.port) as producer:
        topic, progress, sends = job.topic, Progress(job), _sends(job)
        producer.send(topic, payloads(_WARM_MESSAGES, job.payload_bytes), 0)

        def run() -> Mapping[str, Any]:
            for count in progress.chunks():
                for messages in sends[: -(-count // job.batch)]:
                    producer.send(topic, messages, 0)
            producer.close()
            return progress.facts()

        yield {"warm_messages": _WARM_MESSAGES}, run


@contextmanager
def _sync_magic_0(job: Job) -> Prepared:
    with SyncProducer(job.host, job.port) as producer:
        topic, progress, sends = job.topic, Progress(job), _lists(job)
        producer.send(topic, MessageSet(payloads(_WARM_MESSAGES, job.payload_bytes), magic=0), 0)

        def run() -> Mapping[str, Any]:
            for count in progress.chunks():
                for messages in sends[: -(-count // job.batch)]:
                    producer.send(topic, MessageSet(messages, magic=0), 0)
            producer.close()
            return progress.facts()

        yield {"warm_messages": _WARM_MESSAGES}, run


@contextmanager
def _async(job: Job, *, confirm: bool = False) -> Prepared:
    config = {"producer.type": "async", "confirm": confirm, "broker.list": f"0:{job.host}:{job.port}"}
    with Producer(config, info=OnePartition([Broker(0, job.host, job.port)])) as producer:
        topic, progress, sends = job.topic, Progress(job), _sends(job)
        producer.send(topic, payloads(_WARM_MESSAGES, job.payload_bytes))
        producer.flush()

        def run() -> Mapping[str, Any]:
            for count in progress.chunks():
                for messages in sends[: -(-count // job.batch)]:
                    producer.send(topic, messages)
            producer.close()
            return progress.facts()

        yield {"warm_messages": _WARM_MESSAGES}, run


@contextmanager
def _async_confirmed(job: Job) -> Prepared:
    with _async(job, confirm=True) as prepared:
        yield prepared


@contextmanager
def _waited(job: Job) -> Prepared:
    """Wait for the proof of each send before the next, as a client of a queue waits for its acknowledgement."""
    config = {"producer.type": "sync", "confirm": True, "broker.list": f"0:{job.host}:{job.port}"}
    with Producer(config, info=OnePartition([Broker(0, job.host, job.port)])) as producer:
        topic, progress, sends = job.topic, Progress(job), _sends(job)
        producer.send(topic, payloads(_WARM_MESSAGES, job.payload_bytes)).result()

        def run() -> Mapping[str, Any]:
            for count in progress.chunks():
                for messages in sends[: -(-count // job.batch)]:
                    producer.send(topic, messages).result()
            producer.close()
            return progress.facts()

        yield {"warm_messages": _WARM_MESSAGES}, run


@contextmanager
def _raw_producer(job: Job) -> Prepared:
    """Send frames; their receiver ends the connection once it has handled all of them, and may say something first."""
    frame = produce_frame(topic_field(job.topic), 0, bytes(MessageSet(payloads(job.batch, job.payload_bytes))))
    progress = Progress(job)
    with socket.create_connection((job.host, job.port), _TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def run() -> Mapping[str, Any]:
            sent = 0
            for count in progress.chunks():
                for _ in range(count // job.batch):
                    connection.sendall(frame)
                sent += count // job.batch
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
            return {**progress.facts(), "frame_bytes": len(frame), "sent_bytes": sent * len(frame)}

        yield {}, run


# Consumers -----------------------------------------------------------------------------------------------------------


@contextmanager
def _simple(job: Job) -> Prepared:
    with SimpleConsumer(job.host, job.port) as consumer:
        progress = Progress(job)
        list(consumer.fetch(job.topic, 0, 0, job.fetch_bytes))

        def run() -> Mapping[str, Any]:
            offset, more = 0, True
            progress.start()
            while more:
                messages = 0
                for message in consumer.fetch(job.topic, 0, offset, job.fetch_bytes):  # noqa: B007 (used after)
                    messages += 1
                if messages:
                    offset = message.next_offset
                    more = progress.read(messages)
            return {**progress.facts(), "end_offset": offset}

        yield {}, run


@contextmanager
def _stream(job: Job) -> Prepared:
    """Own the partition, read something of it, and go back to its beginning when told to."""
    # A group of its own: one that has read the topic already may have committed its end, and would wait there.
    config = {"zk.connect": job.server["zk_connect"], "groupid": secrets.token_hex(4), "fetch.size": job.fetch_bytes}
    with ConsumerConnector(config) as consumer:
        progress = Progress(job)
        [stream] = consumer.create_message_streams({job.topic: 1})[job.topic]
        first = next(stream)
        broker_id = first.broker_id
        assert broker_id is not None

        def one_by_one() -> int:
            progress.start()
            more = True
            while more:
                count = 0
                for message in islice(stream, min(job.every, job.messages - progress.messages)):  # noqa: B007 (used after)
                    count += 1
                more = progress.read(count)
            return message.next_offset

        def in_lists() -> int:
            progress.start()
            for messages in stream.batches():
                if not progress.read(len(messages)):
                    break
            return messages[-1].next_offset

        def run() -> Mapping[str, Any]:
            consumer.rewind(first.topic, broker_id, first.partition, offset=0)
            end_offset = in_lists() if job.client == "batches" else one_by_one()
            return {**progress.facts(), "end_offset": end_offset}

        yield {}, run


@contextmanager
def _raw_consumer(job: Job) -> Prepared:
    """Fetch bytes of which only the lengths are looked at: whole messages of one known size."""
    size = job.payload_bytes + 10
    fetch_bytes = job.fetch_bytes // size * size
    progress = Progress(job)
    buffer = bytearray(fetch_bytes)
    with socket.create_connection((job.host, job.port), _TIMEOUT_S) as connection:

        def run() -> Mapping[str, Any]:
            offset, more = 0, True
            progress.start()
            while more:
                connection.sendall(encode_request(FetchRequest(job.topic, 0, offset, fetch_bytes)))
                connection.recv_into(buffer, 6, socket.MSG_WAITALL)
                left = int.from_bytes(buffer[:4]) - 2
                read = 0
                while read < left:
                    read += connection.recv_into(buffer, left - read)
                offset += left
                if left:
                    more = progress.read(left // size)
            return {**progress.facts(), "end_offset": offset}

        yield {}, run


PRODUCERS = {
    "sync": _sync,
    "sync-magic-0": _sync_magic_0,
    "async": _async,
    "async-confirmed": _async_confirmed,
    "waited": _waited,
    "raw": _raw_producer,
}
CONSUMERS = {"simple": _simple, "stream": _stream, "batches": _stream, "raw": _raw_consumer}


def prepare(facts: Mapping[str, Any]) -> Any:
    """Set up the client that a job names."""
    job = Job.of(facts)
    return (PRODUCERS if job.do == "produce" else CONSUMERS)[job.client](job)


if __name__ == "__main__":
    work(prepare)
