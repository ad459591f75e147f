"""nats-py against a JetStream, and a socket on which commands go that were encoded before.

Messages are published one by one, whatever `batch` says: the library knows no other way.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import nats
from nats.js.api import AckPolicy, ConsumerConfig, StorageType, StreamConfig

from paper_benchmarks.clients.job import Job, Progress, connection_of, counting, serve
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import payloads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nats.aio.client import Client
    from nats.aio.msg import Msg

    from paper_benchmarks.clients.job import Prepared

_TIMEOUT_S = 3600.0
_INBOX = "_INBOX.measured"
_PULLED = 5000
_CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"echo":false}\r\n'


def pub(topic: str, payload: bytes, reply: str = "") -> bytes:
    """Return the bytes of PUB; where a reply is wanted the stream acknowledges the message to it."""
    line = " ".join(filter(None, ("PUB", topic, reply, str(len(payload)))))
    return line.encode() + b"\r\n" + payload + b"\r\n"


async def _connect(job: Job) -> Client:
    return await nats.connect(f"nats://{job.host}:{job.port}", connect_timeout=_TIMEOUT_S)


async def _make_stream(client: Client, topic: str) -> None:
    await client.jetstream(timeout=_TIMEOUT_S).add_stream(
        StreamConfig(name=topic, subjects=[topic], storage=StorageType.FILE)
    )


@contextmanager
def _producer(job: Job) -> Prepared:
    """Publish, with as many unacknowledged as the library allows, and wait for all acknowledgements at the end."""
    progress, messages = Progress(job), payloads(job.every)

    async def publish(client: Client) -> None:
        stream = client.jetstream(timeout=_TIMEOUT_S)
        for count in progress.chunks():
            for message in messages[:count]:
                await stream.publish_async(job.topic, message)  # a limit here would cost a task a message
        await asyncio.wait_for(stream.publish_async_completed(), _TIMEOUT_S)

    with asyncio.Runner() as runner:
        client = runner.run(_connect(job))
        runner.run(_make_stream(client, job.topic))

        def run() -> Mapping[str, Any]:
            runner.run(publish(client))
            return progress.facts()

        yield {}, run
        runner.run(client.close())


@contextmanager
def _raw_producer(job: Job) -> Prepared:
    """Publish without acknowledgements, but for the last message before each point: the stream has all before it."""

    async def make_stream() -> None:
        async with await _connect(job) as client:
            await _make_stream(client, job.topic)

    asyncio.run(make_stream())
    [payload] = payloads(1)
    message, last = pub(job.topic, payload), pub(job.topic, payload, _INBOX)
    progress = Progress(job)
    with connection_of(job) as connection, connection.makefile("rb") as lines:
        connection.sendall(_CONNECT + f"SUB {_INBOX} 1\r\nPING\r\n".encode())
        while lines.readline() != b"PONG\r\n":
            pass

        def run() -> Mapping[str, Any]:
            for count in progress.chunks():
                for _ in range(count - 1):
                    connection.sendall(message)
                connection.sendall(last)
                head = lines.readline()
                while head == b"PING\r\n":
                    connection.sendall(b"PONG\r\n")
                    head = lines.readline()
                answer = lines.readline()
                if not head.startswith(b"MSG ") or b'"seq"' not in answer:
                    raise BenchmarkError(f"{job.topic}: NATS answered {head + answer!r}")
            return progress.facts()

        yield {}, run


@contextmanager
def _ordered(job: Job) -> Prepared:
    """Have the server push the stream in its order, without acknowledgements."""
    progress = Progress(job)

    async def read(client: Client) -> None:
        done = asyncio.Event()

        async def note(_message: Msg) -> None:
            if not progress.read(1):
                done.set()

        progress.start()
        subscription = await client.jetstream(timeout=_TIMEOUT_S).subscribe(job.topic, cb=note, ordered_consumer=True)
        await asyncio.wait_for(done.wait(), _TIMEOUT_S)
        await subscription.unsubscribe()

    with asyncio.Runner() as runner:
        client = runner.run(_connect(job))

        def run() -> Mapping[str, Any]:
            runner.run(read(client))
            return progress.facts()

        yield {}, run
        runner.run(client.close())


@contextmanager
def _raw_consumer(job: Job) -> Prepared:
    """Pull, and count the beginnings of messages without taking them apart; always two requests are under way."""

    async def make_consumer() -> str:
        async with await _connect(job) as client:
            config = ConsumerConfig(ack_policy=AckPolicy.NONE, inactive_threshold=_TIMEOUT_S)
            return str((await client.jetstream(timeout=_TIMEOUT_S).add_consumer(job.topic, config)).name)

    name = asyncio.run(make_consumer())
    body = json.dumps({"batch": _PULLED}).encode()
    request = pub(f"$JS.API.CONSUMER.MSG.NEXT.{job.topic}.{name}", body, _INBOX)
    with connection_of(job) as connection, connection.makefile("rb", buffering=0) as lines:
        connection.sendall(_CONNECT + f"SUB {_INBOX} 1\r\nPING\r\n".encode())
        while lines.readline() != b"PONG\r\n":
            pass
        marker = f"MSG {job.topic} 1 ".encode()
        yield {}, counting(job, connection, 2 * request, marker, every=(_PULLED, request))


if __name__ == "__main__":
    serve(
        {
            "produce": {"async": _producer, "raw": _raw_producer},
            "consume": {"ordered": _ordered, "raw": _raw_consumer},
        }
    )
