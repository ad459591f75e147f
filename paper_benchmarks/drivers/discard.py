"""A client that asks for the same bytes again and again and has the kernel throw them away: only the server counts.

Every answer begins with its size as int32, as those of a broker do, and so do those of `sendfile_server`.
"""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from paper_benchmarks.errors import BenchmarkError
from paper_benchmarks.worker import work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from paper_benchmarks.worker import Work

_SIZE_BYTES = 4
_TIMEOUT_S = 60.0
_PIECE_BYTES = 4 * 1024 * 1024


@contextmanager
def prepare(job: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Work]]:
    """Connect to `host` and `port`, and send `request`, in hexadecimal digits, `count` times."""
    request = bytes.fromhex(job["request"])
    buffer = bytearray(_PIECE_BYTES)
    with socket.create_connection((job["host"], job["port"]), _TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(None)  # a worker has its own deadline, and a blocking call costs less

        def discard_answer() -> int:
            if connection.recv_into(buffer, _SIZE_BYTES, socket.MSG_WAITALL) != _SIZE_BYTES:
                raise BenchmarkError(f"{job['host']}:{job['port']} ended the connection")
            size = left = int.from_bytes(buffer[:_SIZE_BYTES])
            while left:
                discarded = connection.recv_into(buffer, min(left, _PIECE_BYTES), socket.MSG_TRUNC)
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


if __name__ == "__main__":
    work(prepare)
