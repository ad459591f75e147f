"""redis-py with hiredis against a Redis, and a socket on which commands go that were encoded before.

A message is an entry of a stream with one field. `batch` entries go in one pipeline, without a transaction.
"""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import hiredis
import redis

from paper_benchmarks.drivers.job import Job, Progress
from paper_benchmarks.errors import BenchmarkError
from paper_benchmarks.payloads import batches, payloads
from paper_benchmarks.worker import work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from paper_benchmarks.worker import Work

    Prepared = Iterator[tuple[Mapping[str, Any], Work]]

FIELD = b"m"
_TIMEOUT_S = 600.0
_BUFFER_BYTES = 1 << 20


def xadd(topic: str, payload: bytes) -> bytes:
    """Return the bytes of XADD, by which the server chooses the entry's number."""
    return bytes(hiredis.pack_command((b"XADD", topic.encode(), b"*", FIELD, payload)))


def xread(topic: str, count: int, after: bytes) -> bytes:
    """Return the bytes of XREAD for so many entries after one."""
    return bytes(hiredis.pack_command((b"XREAD", b"COUNT", str(count).encode(), b"STREAMS", topic.encode(), after)))


def _entries(job: Job) -> int:
    return max(job.fetch_bytes // job.payload_bytes, 1)


@contextmanager
def _producer(job: Job) -> Prepared:
    with redis.Redis(job.host, job.port) as client, client.pipeline(transaction=False) as pipeline:
        topic, progress, sends = job.topic, Progress(job), batches(job.every, job.batch, job.payload_bytes)
        client.ping()

        def run() -> Mapping[str, Any]:
            for count in progress.chunks():
                for messages in sends[: count // job.batch]:
                    for message in messages:
                        pipeline.xadd(topic, {FIELD: message})
                    pipeline.execute()
            return progress.facts()

        yield {}, run


@contextmanager
def _raw_producer(job: Job) -> Prepared:
    """Have the server keep its replies to itself, and ask for one at the end: until then it has taken everything."""
    frame = b"".join(xadd(job.topic, payload) for payload in payloads(job.batch, job.payload_bytes))
    progress = Progress(job)
    with socket.create_connection((job.host, job.port), _TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(hiredis.pack_command((b"CLIENT", b"REPLY", b"OFF")))

        def run() -> Mapping[str, Any]:
            for count in progress.chunks():
                for _ in range(count // job.batch):
                    connection.sendall(frame)
            connection.sendall(hiredis.pack_command((b"CLIENT", b"REPLY", b"ON")))
            if (reply := connection.recv(5, socket.MSG_WAITALL)) != b"+OK\r\n":
                raise BenchmarkError(f"Redis answered {reply!r} at the end of {job.topic}")
            return progress.facts()

        yield {}, run


@contextmanager
def _consumer(job: Job) -> Prepared:
    with redis.Redis(job.host, job.port) as client:
        progress, count = Progress(job), _entries(job)
        client.xread({job.topic: "0"}, 1)

        def run() -> Mapping[str, Any]:
            after: bytes | str = "0"
            more = True
            progress.start()
            while more:
                [(_, entries)] = client.xread({job.topic: after}, count)
                after = entries[-1][0]
                more = progress.read(len(entries))
            return progress.facts()

        yield {}, run


@contextmanager
def _raw_consumer(job: Job) -> Prepared:
    """Have hiredis, which is in C, take the replies apart, and make no more of them."""
    progress, count, reader, buffer = Progress(job), _entries(job), hiredis.Reader(), bytearray(_BUFFER_BYTES)
    with socket.create_connection((job.host, job.port), _TIMEOUT_S) as connection:

        def run() -> Mapping[str, Any]:
            after, more = b"0", True
            progress.start()
            while more:
                connection.sendall(xread(job.topic, count, after))
                while (reply := reader.gets()) is False:
                    reader.feed(buffer, 0, connection.recv_into(buffer))
                entries = reply[0][1]
                after = entries[-1][0]
                more = progress.read(len(entries))
            return progress.facts()

        yield {}, run


CLIENTS = {
    "produce": {"redis": _producer, "raw": _raw_producer},
    "consume": {"redis": _consumer, "raw": _raw_consumer},
}


def prepare(facts: Mapping[str, Any]) -> Any:
    """Set up the client that a job names."""
    job = Job.of(facts)
    return CLIENTS[job.do][job.client](job)


if __name__ == "__main__":
    work(prepare)
