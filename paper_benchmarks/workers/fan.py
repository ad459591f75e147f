"""Very many consumers of one topic in one process: connections that each read it from its beginning, again and again.

What comes is counted and not looked at, so that the server is what is measured: of ours, or of a Kafka of today.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from kafka2011.wire.protocol import FetchRequest, encode_request
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import STORED_BYTES
from paper_benchmarks.measuring.worker import work
from paper_benchmarks.systems.kafka2011 import OWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from paper_benchmarks.measuring.worker import Work

    Prepared = Iterator[tuple[Mapping[str, Any], Work]]

FETCH_BYTES = (1 << 20) // STORED_BYTES * STORED_BYTES
_TIMEOUT_S = 60.0
_SIZE = struct.Struct(">i")
_HEAD_BYTES = 61
"""Of a record batch."""


def requests_of_ours(topic: str, size: int) -> list[bytes]:
    """Return the requests for a log of ours, one after the other."""
    return [
        encode_request(FetchRequest(topic, 0, at, min(FETCH_BYTES, size - at))) for at in range(0, size, FETCH_BYTES)
    ]


def kafka_request(topic: str, offset: int) -> bytes:
    """Return a fetch (version 4) from an offset of partition 0."""
    name = topic.encode()
    head = struct.pack(">hhih", 1, 4, 1, 3) + b"fan"
    body = struct.pack(">iiiib", -1, 500, 1, FETCH_BYTES, 0) + struct.pack(">ih", 1, len(name)) + name
    request = head + body + struct.pack(">iiqi", 1, 0, offset, FETCH_BYTES)
    return _SIZE.pack(len(request)) + request


def end_of_kafka(answer: bytes, topic: str) -> int | None:
    """Return the offset behind the whole record batches of an answer to a fetch; None where it has none.

    `answer` is without its size. Raises BenchmarkError for an error of the broker.
    """
    place = 4 + 4 + 4 + 2 + len(topic.encode()) + 4 + 4
    (error,) = struct.unpack_from(">h", answer, place)
    if error:
        raise BenchmarkError(f"{topic}: Kafka answers a fetch with error {error}")
    place += 2 + 8 + 8
    (aborted,) = _SIZE.unpack_from(answer, place)
    place += 4 + max(aborted, 0) * 16
    (size,) = _SIZE.unpack_from(answer, place)
    place += 4
    end, found = place + size, None
    while place + _HEAD_BYTES <= end:
        base, length = struct.unpack_from(">qi", answer, place)
        if place + 12 + length > end:
            break
        found = base + int(_SIZE.unpack_from(answer, place + 23)[0]) + 1
        place += 12 + length
    return found


def _requests_of_kafka(host: str, port: int, topic: str, messages: int) -> list[bytes]:
    """Read the topic once, to know where each fetch begins."""
    found, offset = [], 0
    with socket.create_connection((host, port), _TIMEOUT_S) as connection, connection.makefile("rb") as answers:
        while offset < messages:
            found.append(kafka_request(topic, offset))
            connection.sendall(found[-1])
            after = end_of_kafka(answers.read(_SIZE.unpack(answers.read(4))[0]), topic)
            if after is None:
                raise BenchmarkError(f"{topic} ends at {offset}: it was to have {messages} messages")
            offset = after
    return found


def kafka_serves(host: str, port: int, topic: str) -> bool:
    """Say whether the first messages of a topic can be read by now."""
    try:
        with socket.create_connection((host, port), _TIMEOUT_S) as connection, connection.makefile("rb") as answers:
            connection.sendall(kafka_request(topic, 0))
            return end_of_kafka(answers.read(_SIZE.unpack(answers.read(4))[0]), topic) is not None
    except (OSError, BenchmarkError, struct.error):  # it is not up, does not lead yet, or ended the connection
        return False


class _Reader:
    """A connection, which of the requests comes next, and how much of an answer is still to come."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, _TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.left = 0
        self._next = 0

    def ask(self, requests: Sequence[bytes]) -> None:
        """Send the next request."""
        self.socket.sendall(requests[self._next % len(requests)])
        self._next += 1

    def receive(self, buffer: bytearray) -> int:
        """Take what has come, a size or bytes behind it, and return how many bytes."""
        if not self.left:
            head = self.socket.recv(4, socket.MSG_WAITALL)
            if len(head) < 4:
                raise BenchmarkError("the server ended a connection")
            (self.left,) = _SIZE.unpack(head)
            return 4
        # The kernel drops them: a copy would make the reader what is measured.
        received = self.socket.recv_into(buffer, min(self.left, len(buffer)), socket.MSG_TRUNC)
        if not received:
            raise BenchmarkError(f"the server ended a connection {self.left} bytes before an answer's end")
        self.left -= received
        return received


@contextmanager
def prepare(job: Mapping[str, Any]) -> Prepared:
    """Read `topic` by so many `connections` for so many `seconds`; returns the bytes that came."""
    host, port, topic = job["server"]["host"], int(job["server"]["port"]), job["topic"]
    if job["kind"] == OWN:
        requests = requests_of_ours(topic, job["messages"] * STORED_BYTES)
    else:
        requests = _requests_of_kafka(host, port, topic, job["messages"])
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        readers = [_Reader((host, port)) for _ in range(job["connections"])]
        for reader in readers:
            stack.enter_context(reader.socket)
            selector.register(reader.socket, selectors.EVENT_READ, reader)

        def run() -> Mapping[str, Any]:
            buffer, total_bytes = bytearray(1 << 20), 0
            until_s = time.perf_counter() + job["seconds"]
            for reader in readers:
                reader.ask(requests)
            while time.perf_counter() < until_s:
                for key, _ in selector.select(1.0):
                    total_bytes += key.data.receive(buffer)
                    if not key.data.left:
                        key.data.ask(requests)
            return {"bytes": total_bytes}

        yield {}, run


if __name__ == "__main__":
    work(prepare)
