"""A sink: takes what one connection sends as fast as the kernel hands it over, and tells its bytes at the end."""

from __future__ import annotations

import socket
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from paper_benchmarks.worker import work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from paper_benchmarks.worker import Work

COUNT = struct.Struct(">q")
"""What the sink answers to the end of the stream: how many bytes there were."""
_BUFFER_BYTES = 1024 * 1024
_TIMEOUT_S = 60


@contextmanager
def prepare(_job: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Work]]:
    """Listen; the work is to drain one connection."""
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


if __name__ == "__main__":
    work(prepare)
