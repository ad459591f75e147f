"""Processes that do nothing but move bytes: a job's `do` is `sink`, `send`, `answer` or `ask`.

What these take is what kernel and sockets allow, and what they cost a client or a server that does more.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.worker import work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from paper_benchmarks.measuring.worker import Work

    Prepared = Iterator[tuple[Mapping[str, Any], Work]]
    Job = Mapping[str, Any]

COUNT = struct.Struct(">q")
"""What a sink answers to the end of the stream: how many bytes there were."""
_SIZE_BYTES = 4
_BUFFER_BYTES = 4 * 1024 * 1024
_TIMEOUT_S = 60.0


@contextmanager
def _sink(_job: Job) -> Prepared:
    """Take what one connection sends as fast as the kernel hands it over, and tell its bytes at the end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_TIMEOUT_S)

        def drain() -> Mapping[str, Any]:
            accepted, _ = listener.accept()
            with accepted:
                accepted.settimeout(None)
                buffer = bytearray(1024 * 1024)
                total_bytes = 0
                while received := accepted.recv_into(buffer):
                    total_bytes += received
                accepted.sendall(COUNT.pack(total_bytes))
            return {"bytes": total_bytes}

        yield {"port": listener.getsockname()[1]}, drain


@contextmanager
def _send(job: Job) -> Prepared:
    """Send a file to a sink `times` times, in pieces as a consumer fetches them, by `sendfile` or `read and send`."""
    path, piece_bytes = Path(job["path"]), int(job["piece_bytes"])
    size = len(path.read_bytes())  # now it is in the page cache
    buffer = memoryview(bytearray(piece_bytes))
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
            _send_piece(connection.fileno(), file.fileno(), position, count)

        ways: dict[str, Callable[[int, int], None]] = {"sendfile": by_sendfile, "read and send": by_read_and_send}
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
def _answer(job: Job) -> Prepared:
    """Answer each request of one connection by a size and `parts` pieces of `part_bytes` of a file, by sendfile(2).

    A request is `request_bytes` long. `send_buffer_bytes` is the answer's SO_SNDBUF; 0 leaves that to the kernel.
    """
    path, parts, part_bytes = Path(job["path"]), job["parts"], job["part_bytes"]
    assert len(path.read_bytes()) >= parts * part_bytes
    with path.open("rb") as file, socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_TIMEOUT_S)
        size = (parts * part_bytes).to_bytes(_SIZE_BYTES)

        def serve() -> Mapping[str, Any]:
            accepted, _ = listener.accept()
            with accepted:
                accepted.settimeout(None)
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if job["send_buffer_bytes"]:
                    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, job["send_buffer_bytes"])
                served = 0
                while accepted.recv(job["request_bytes"], socket.MSG_WAITALL):
                    accepted.sendall(size, socket.MSG_MORE)
                    for number in range(parts):
                        _send_piece(accepted.fileno(), file.fileno(), number * part_bytes, part_bytes)
                    served += 1
            return {"served": served}

        yield {"port": listener.getsockname()[1]}, serve


def _send_piece(to_fd: int, from_fd: int, position: int, left: int) -> None:
    while left:
        sent = os.sendfile(to_fd, from_fd, position, left)
        if not sent:
            raise BenchmarkError(f"the file became shorter while it was sent, at position {position}")
        position += sent
        left -= sent


@contextmanager
def _ask(job: Job) -> Prepared:
    """Send `request`, in hexadecimal digits, `count` times, and have the kernel throw the answers away.

    So only the server counts. Every answer begins with its size as int32, as those of a broker do.
    """
    request = bytes.fromhex(job["request"])
    buffer = bytearray(_BUFFER_BYTES)
    with socket.create_connection((job["host"], job["port"]), _TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(None)  # a worker has its own deadline, and a blocking call costs less

        def discard_answer() -> int:
            if connection.recv_into(buffer, _SIZE_BYTES, socket.MSG_WAITALL) != _SIZE_BYTES:
                raise BenchmarkError(f"{job['host']}:{job['port']} ended the connection")
            size = left = int.from_bytes(buffer[:_SIZE_BYTES])
            while left:
                discarded = connection.recv_into(buffer, min(left, _BUFFER_BYTES), socket.MSG_TRUNC)
                if not discarded:
                    raise BenchmarkError(f"{job['host']}:{job['port']} ended the connection in an answer")
                left -= discarded
            return size

        def run() -> Mapping[str, Any]:
            total_bytes = 0
            for _ in range(job["count"]):
                connection.sendall(request)
                total_bytes += discard_answer()
            return {"bytes": total_bytes}

        yield {}, run


def prepare(job: Job) -> Any:
    """Set up what a job asks for."""
    return {"sink": _sink, "send": _send, "answer": _answer, "ask": _ask}[job["do"]](job)


if __name__ == "__main__":
    work(prepare)
