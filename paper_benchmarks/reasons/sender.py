"""A sender of a file: its bytes into a socket, by sendfile, or by read and send as a server without it has to."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paper_benchmarks.sink import COUNT
from paper_benchmarks.worker import work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from paper_benchmarks.worker import Work

_TIMEOUT_S = 600.0


@contextmanager
def prepare(job: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Work]]:
    """Open the file and connect; the work is to send the file `times` times, in pieces as a consumer fetches them."""
    path, piece_bytes, times = Path(job["path"]), int(job["piece_bytes"]), int(job["times"])
    size = path.stat().st_size
    buffer = memoryview(bytearray(piece_bytes))
    with (
        path.open("rb", buffering=0) as file,
        socket.create_connection((job["host"], job["port"]), _TIMEOUT_S) as connection,
    ):
        connection.settimeout(None)
        file_fd, socket_fd = file.fileno(), connection.fileno()

        def by_sendfile(position: int, count: int) -> None:
            while count:
                sent = os.sendfile(socket_fd, file_fd, position, count)
                position, count = position + sent, count - sent

        def by_read_and_send(position: int, count: int) -> None:
            while count:
                got = os.preadv(file_fd, [buffer[:count]], position)
                connection.sendall(buffer[:got])
                position, count = position + got, count - got

        ways: dict[str, Callable[[int, int], None]] = {"sendfile": by_sendfile, "read and send": by_read_and_send}
        send = ways[job["way"]]

        def run() -> Mapping[str, Any]:
            for _ in range(times):
                for position in range(0, size, piece_bytes):
                    send(position, min(piece_bytes, size - position))
            connection.shutdown(socket.SHUT_WR)
            [received] = COUNT.unpack(connection.recv(COUNT.size, socket.MSG_WAITALL))
            return {"received_bytes": received}

        while file.read(1 << 20):
            pass  # now it is in the page cache
        yield {"size": size}, run


if __name__ == "__main__":
    work(prepare)
