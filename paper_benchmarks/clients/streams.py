"""rstream against RabbitMQ's streams, and a socket on which frames of their protocol go that were encoded before.

Every message is confirmed by the server; a producer ends with the last confirmation.
"""

from __future__ import annotations

import asyncio
import select
import struct
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from rstream import Consumer, ConsumerOffsetSpecification, OffsetType, Producer

from paper_benchmarks.clients.job import Job, Progress, polling, serve
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import payloads
from paper_benchmarks.systems.stream_socket import (
    BUFFER_BYTES,
    CONFIRM,
    CREATE,
    CREDIT,
    CREDITS,
    DECLARE_PUBLISHER,
    DELIVER,
    FIRST,
    PUBLISH,
    PUBLISH_ERROR,
    TIMEOUT_S,
    UNSUBSCRIBE,
    connected,
    frame,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paper_benchmarks.clients.job import Prepared

_AT_ONCE_BYTES = 64 * 1024
_USER = {"username": "guest", "password": "guest"}


def publish(messages: list[bytes]) -> bytes:
    """Return a frame with messages of publisher 1, all of number 0: numbers count only for publishers with names."""
    parts = b"".join(struct.pack(">QI", 0, len(message)) + message for message in messages)
    return frame(PUBLISH, struct.pack(">BI", 1, len(messages)) + parts)


@contextmanager
def _raw_producer(job: Job) -> Prepared:
    """Send while the socket takes something, and count confirmations as they come."""
    with connected(job.host, job.port) as connection:
        connection.call(CREATE, text(job.topic) + struct.pack(">I", 0))
        connection.call(DECLARE_PUBLISHER, struct.pack(">B", 1) + text("") + text(job.topic))
        a_frame = int(job.settings.get("frame", job.batch))
        one, progress = publish(payloads(a_frame)), Progress(job)
        several = one * max(_AT_ONCE_BYTES // len(one), 1)
        most = len(several) // len(one) * a_frame
        data = connection.rest()

        def run() -> Mapping[str, Any]:
            progress.start()
            connection.socket.setblocking(False)
            pending, sent, confirmed, sends = memoryview(b""), 0, 0, True
            while sends or confirmed < sent:
                ready = select.select([connection.socket], [connection.socket] * sends, [], TIMEOUT_S)
                if not ready[0] and not ready[1]:
                    raise BenchmarkError(f"{job.topic}: no confirmation in {TIMEOUT_S:g} s")
                if ready[1]:
                    if not pending:
                        count = most if job.is_timed else min(most, job.messages - sent)
                        sent += count
                        pending = memoryview(several)[: count // a_frame * len(one)]
                    with suppress(BlockingIOError):
                        pending = pending[connection.socket.send(pending) :]
                    sends = bool(pending) or progress.wants_more(sent)
                if ready[0]:
                    data.extend(connection.socket.recv(BUFFER_BYTES))
                    found = _taken(data, CONFIRM, 9)[0]
                    confirmed += found
                    progress.read(found)
            progress.finish()
            return progress.facts()

        yield {}, run


def _taken(data: bytearray, key: int, at: int) -> tuple[int, int]:
    """Take all whole frames out of data; return the sum of int32s at a place in those of a key, and how many."""
    begin = total = frames = 0
    while len(data) - begin >= 8 and len(data) - begin >= (size := 4 + int.from_bytes(data[begin : begin + 4])):
        found = int.from_bytes(data[begin + 4 : begin + 6])
        if found == key:
            total += int.from_bytes(data[begin + at : begin + at + 4])
            frames += 1
        elif found == PUBLISH_ERROR:
            raise BenchmarkError("RabbitMQ refuses a message")
        begin += size
    del data[:begin]
    return total, frames


@contextmanager
def _raw_consumer(job: Job) -> Prepared:
    """Count the messages that each chunk says it has, and give credit for as many chunks again."""
    with connected(job.host, job.port) as connection:
        data = bytearray()

        def fetch(_left: int) -> int:
            while True:
                messages, chunks = _taken(data, DELIVER, 13)
                if chunks:
                    connection.socket.sendall(frame(CREDIT, struct.pack(">BH", 1, chunks)))
                    return messages
                if not (received := connection.socket.recv(BUFFER_BYTES)):
                    raise BenchmarkError("RabbitMQ ended the connection")
                data.extend(received)

        def subscribe() -> None:
            connection.subscribe(job.topic, FIRST, int(job.settings.get("credits", CREDITS)))
            data.extend(connection.rest())

        def rewind() -> None:
            connection.call(UNSUBSCRIBE, struct.pack(">B", 1))
            subscribe()

        work = polling(job, fetch, rewind)

        def run() -> Mapping[str, Any]:
            subscribe()
            return work()

        yield {}, run


@contextmanager
def _producer(job: Job) -> Prepared:
    progress, sends = Progress(job), job.sends()

    async def begin() -> Any:
        producer = Producer(job.host, job.port, **_USER, **job.settings)
        await producer.start()
        await producer.create_stream(job.topic)
        return producer

    async def send(producer: Any) -> None:
        done, confirmed, is_last = asyncio.Event(), 0, False

        async def confirm(_status: Any) -> None:
            nonlocal confirmed
            confirmed += 1
            if is_last and confirmed == progress.messages:
                done.set()

        call = producer.send_batch if job.batch > 1 else producer.send
        for count in progress.chunks():
            for each in sends[: -(-count // job.batch)]:
                await call(job.topic, each, on_publish_confirm=confirm)
        is_last = True
        if confirmed < progress.messages:
            await asyncio.wait_for(done.wait(), TIMEOUT_S)

    with asyncio.Runner() as runner:
        producer = runner.run(begin())

        def run() -> Mapping[str, Any]:
            runner.run(send(producer))
            return progress.facts()

        yield {}, run
        runner.run(producer.close())


@contextmanager
def _consumer(job: Job) -> Prepared:
    progress = Progress(job)

    async def begin() -> Any:
        consumer = Consumer(job.host, job.port, **_USER)
        await consumer.start()
        return consumer

    async def read(consumer: Any) -> None:
        done = asyncio.Event()

        def note(_message: Any, _context: Any) -> None:
            if not done.is_set() and not progress.read(1):
                done.set()

        progress.start()
        first = ConsumerOffsetSpecification(OffsetType.FIRST)
        await consumer.subscribe(job.topic, note, decoder=lambda body: body, offset_specification=first, **job.settings)
        running = asyncio.create_task(consumer.run())
        await asyncio.wait_for(done.wait(), TIMEOUT_S)
        await consumer.close()
        running.cancel()

    with asyncio.Runner() as runner:
        consumer = runner.run(begin())

        def run() -> Mapping[str, Any]:
            runner.run(read(consumer))
            return progress.facts()

        yield {}, run


if __name__ == "__main__":
    serve(
        {
            "produce": {"rstream": _producer, "rstream-lists": _producer, "raw": _raw_producer},
            "consume": {"rstream": _consumer, "raw": _raw_consumer},
        }
    )
