"""Raw sendfile(2): a process that answers each request with pieces of one file, and does nothing else."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paper_benchmarks.errors import BenchmarkError
from paper_benchmarks.worker import work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from paper_benchmarks.worker import Work

_TIMEOUT_S = 60


@contextmanager
def prepare(job: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Work]]:
    """Open `path`, read it once so that it is in the page cache, and listen; the work is to serve one connection.

    A request is `request_bytes` long; the answer is a size, and `parts` pieces of `part_bytes` of the file.
    `send_buffer_bytes` is its SO_SNDBUF; 0 leaves that to the kernel.
    """
    path, parts, part_bytes = Path(job["path"]), job["parts"], job["part_bytes"]
    assert len(path.read_bytes()) >= parts * part_bytes
    with path.open("rb") as file, socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_TIMEOUT_S)
        size = (parts * part_bytes).to_bytes(4)

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
                        _send(accepted.fileno(), file.fileno(), number * part_bytes, part_bytes)
                    served += 1
            return {"served": served}

        yield {"port": listener.getsockname()[1]}, serve


def _send(to_fd: int, from_fd: int, position: int, left: int) -> None:
    while left:
        sent = os.sendfile(to_fd, from_fd, position, left)
        if not sent:
            raise BenchmarkError(f"the file became shorter while it was sent, at position {position}")
        position += sent
        left -= sent


if __name__ == "__main__":
    work(prepare)
