"""Processes that do nothing but move bytes: a job's `do` is `sink`, `send` or `ask`.

What these take is what kernel and sockets allow, and what they cost a client or a server that does more.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka2011.wire.protocol import FetchRequest, MultiFetchRequest, encode_request
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.samples import Sample
from paper_benchmarks.measuring.worker import Worker, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from paper_benchmarks.measuring.worker import Work

    Prepared = Iterator[tuple[Mapping[str, Any], Work]]
    Job = Mapping[str, Any]

SENDFILE, COPY, MEMORY = "sendfile", "read and send", "memory"
COUNT = struct.Struct(">q")
"""What a sink answers to the end of the stream: how many bytes there were."""
_MODULE = "paper_benchmarks.workers.sockets"
_BUFFER_BYTES = 1 << 20
_TIMEOUT_S = 60.0
_PART_HEADER_BYTES = 6
"""Size and error number: before an answer, and before each part of a multifetch's."""


def send_file(path: Path, way: str, times: int, piece_bytes: int = 0) -> Sample:
    """Have a file sent to a sink in pieces, or whole; the sender is the client of the sample, in megabytes.

    The server's CPU time is that of the sink, which only receives.
    """
    job = {"path": str(path), "way": way, "times": times, "piece_bytes": piece_bytes, "host": "127.0.0.1"}
    with (
        Worker(_MODULE, {"do": "sink"}) as sink,
        Worker(_MODULE, {**job, "do": "send", "port": sink.facts["port"]}) as sender,
    ):
        sink.go()
        sender.go()
        result, received = sender.result(), sink.result()
    expected = sender.facts["size"] * times
    if received["bytes"] != expected:
        raise BenchmarkError(f"{expected} bytes of {path} were sent, but {received['bytes']} came")
    return Sample(amount=expected / 1e6, wall_s=result["wall_s"], cpu_s=result["cpu_s"], server_cpu_s=received["cpu_s"])


def read_log(server: tuple[str, int], topic: str, size: int, times: int, piece_bytes: int, parts: int) -> Sample:
    """Have a broker's log read in pieces by a process that only receives; the client of the sample is that process.

    `size` is that of partition 0 in bytes. With one part a request is a fetch, with more a multifetch of so many. The
    next request is always under way. Amounts are megabytes, and the server's time is left to the caller.
    """
    host, port = server
    job = {"host": host, "port": port, "topic": topic, "size": size, "times": times}
    with Worker(_MODULE, {**job, "do": "ask", "piece_bytes": piece_bytes, "parts": parts}) as reader:
        reader.go()
        result = reader.result()
    return Sample(amount=size * times / 1e6, wall_s=result["wall_s"], cpu_s=result["cpu_s"])


@contextmanager
def _sink(_job: Job) -> Prepared:
    """Take what one connection sends as fast as the kernel hands it over, and tell its bytes at the end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_TIMEOUT_S)

        def drain() -> Mapping[str, Any]:
            accepted, _ = listener.accept()
            with accepted:
                accepted.settimeout(None)
                buffer = bytearray(_BUFFER_BYTES)
                total_bytes = 0
                while received := accepted.recv_into(buffer):
                    total_bytes += received
                accepted.sendall(COUNT.pack(total_bytes))
            return {"bytes": total_bytes}

        yield {"port": listener.getsockname()[1]}, drain


@contextmanager
def _send(job: Job) -> Prepared:
    """Send a file to a sink `times` times, in pieces or whole: by `sendfile`, `read and send`, or from `memory`."""
    path = Path(job["path"])
    contents = memoryview(path.read_bytes())  # now it is in the page cache, too
    size = len(contents)
    piece_bytes = int(job["piece_bytes"]) or size
    buffer = memoryview(bytearray(min(piece_bytes, _BUFFER_BYTES)))
    with (
        path.open("rb", buffering=0) as file,
        socket.create_connection((job["host"], job["port"]), _TIMEOUT_S) as connection,
    ):
        connection.settimeout(None)

        def by_read_and_send(position: int, count: int) -> None:
            while count:
                got = os.preadv(file.fileno(), [buffer[:count]], position)
                connection.sendall(buffer[:got])
                position, count = position + got, count - got

        def by_sendfile(position: int, count: int) -> None:
            while count:
                sent = os.sendfile(connection.fileno(), file.fileno(), position, count)
                position, count = position + sent, count - sent

        def from_memory(position: int, count: int) -> None:
            connection.sendall(contents[position : position + count])

        ways: dict[str, Callable[[int, int], None]] = {
            SENDFILE: by_sendfile,
            COPY: by_read_and_send,
            MEMORY: from_memory,
        }
        send = ways[job["way"]]

        def run() -> Mapping[str, Any]:
            for _ in range(job["times"]):
                for position in range(0, size, piece_bytes):
                    send(position, min(piece_bytes, size - position))
            connection.shutdown(socket.SHUT_WR)
            [received] = COUNT.unpack(connection.recv(COUNT.size, socket.MSG_WAITALL))
            return {"received_bytes": received}

        yield {"size": size}, run


@contextmanager
def _ask(job: Job) -> Prepared:
    """Read a log of a broker `times` times, without a look at what comes."""
    size, piece_bytes, topic = int(job["size"]), int(job["piece_bytes"]), job["topic"]
    pieces = [FetchRequest(topic, 0, at, min(piece_bytes, size - at)) for at in range(0, size, piece_bytes)]
    asked: list[tuple[bytes, int]] = []  # requests, and how many bytes answer them
    for first in range(0, len(pieces), job["parts"]):
        some = pieces[first : first + job["parts"]]
        answer_bytes = _PART_HEADER_BYTES + sum(each.max_bytes for each in some)
        if job["parts"] == 1:
            asked.append((encode_request(some[0]), answer_bytes))
            continue
        answer_bytes += _PART_HEADER_BYTES * len(some)
        asked.append((encode_request(MultiFetchRequest(tuple(some))), answer_bytes))
    asked *= job["times"]
    with socket.create_connection((job["host"], job["port"]), _TIMEOUT_S) as connection:
        connection.settimeout(None)
        buffer = memoryview(bytearray(_BUFFER_BYTES))

        def run() -> Mapping[str, Any]:
            connection.sendall(asked[0][0])
            for number, (_, answer_bytes) in enumerate(asked):
                left = answer_bytes
                for request, _ in asked[number + 1 : number + 2]:
                    connection.sendall(request)
                while left:
                    received = connection.recv_into(buffer[:left])
                    if not received:
                        raise BenchmarkError(f"the broker ended the connection, {left} bytes before an answer's end")
                    left -= received
            return {}

        yield {}, run


def prepare(job: Job) -> Any:
    """Set up what a job asks for."""
    return {"sink": _sink, "send": _send, "ask": _ask}[job["do"]](job)


if __name__ == "__main__":
    work(prepare)
