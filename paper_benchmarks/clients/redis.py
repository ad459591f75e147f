"""redis-py with hiredis against a Redis, and a socket on which commands go that were encoded before.

A message is an entry of a stream with one field. `batch` entries go in one pipeline, without a transaction.
"""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import hiredis
import redis

from paper_benchmarks.clients.job import Job, connection_of, polling, sending, serve
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import FETCH_BYTES, PAYLOAD_BYTES, batches, payloads

if TYPE_CHECKING:
    from paper_benchmarks.clients.job import Prepared

FIELD = b"m"
_BUFFER_BYTES = 1 << 20
_ENTRIES = FETCH_BYTES // PAYLOAD_BYTES


def xadd(topic: str, payload: bytes) -> bytes:
    """Return the bytes of XADD, by which the server chooses the entry's number."""
    return bytes(hiredis.pack_command((b"XADD", topic.encode(), b"*", FIELD, payload)))


def xread(topic: str, count: int, after: bytes) -> bytes:
    """Return the bytes of XREAD for so many entries after one."""
    return bytes(hiredis.pack_command((b"XREAD", b"COUNT", str(count).encode(), b"STREAMS", topic.encode(), after)))


@contextmanager
def _producer(job: Job) -> Prepared:
    with redis.Redis(job.host, job.port) as client, client.pipeline(transaction=False) as pipeline:

        def send(messages: list[bytes]) -> None:
            for message in messages:
                pipeline.xadd(job.topic, {FIELD: message})
            pipeline.execute()

        client.ping()
        sends = batches(job.every, job.batch)
        yield {}, sending(job, send, lambda: None, sends, job.batch)


@contextmanager
def _raw_producer(job: Job) -> Prepared:
    """Have the server keep its replies to itself, and ask for one at the end: until then it has taken everything."""
    frame = b"".join(xadd(job.topic, payload) for payload in payloads(job.batch))
    with connection_of(job, 600.0) as connection:
        connection.sendall(hiredis.pack_command((b"CLIENT", b"REPLY", b"OFF")))

        def finish() -> None:
            connection.sendall(hiredis.pack_command((b"CLIENT", b"REPLY", b"ON")))
            if (reply := connection.recv(5, socket.MSG_WAITALL)) != b"+OK\r\n":
                raise BenchmarkError(f"Redis answered {reply!r} at the end of {job.topic}")

        yield {}, sending(job, connection.sendall, finish, [frame] * (job.every // job.batch), job.batch)


@contextmanager
def _consumer(job: Job) -> Prepared:
    with redis.Redis(job.host, job.port) as client:
        after = "0"
        client.xread({job.topic: "0"}, 1)

        def fetch(left: int) -> int:
            nonlocal after
            [(_, entries)] = client.xread({job.topic: after}, min(_ENTRIES, left))
            after = entries[-1][0]
            return len(entries)

        def rewind() -> None:
            nonlocal after
            after = "0"

        yield {}, polling(job, fetch, rewind)


@contextmanager
def _raw_consumer(job: Job) -> Prepared:
    """Have hiredis, which is in C, take the replies apart, and make no more of them."""
    reader, buffer, after = hiredis.Reader(), bytearray(_BUFFER_BYTES), b"0"
    with connection_of(job, 600.0) as connection:

        def rewind() -> None:
            nonlocal after
            after = b"0"

        def fetch(left: int) -> int:
            nonlocal after
            connection.sendall(xread(job.topic, min(_ENTRIES, left), after))
            while (reply := reader.gets()) is False:
                reader.feed(buffer, 0, connection.recv_into(buffer))
            entries = reply[0][1]
            after = entries[-1][0]
            return len(entries)

        yield {}, polling(job, fetch, rewind)


if __name__ == "__main__":
    serve(
        {
            "produce": {"redis": _producer, "raw": _raw_producer},
            "consume": {"redis": _consumer, "raw": _raw_consumer},
        }
    )
