"""NATS: a JetStream stream in files for each topic."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from paper_benchmarks.systems.local_server import HOST, LocalServer, own_directory, program, running, what_is_missing
from paper_benchmarks.systems.system import Kind, Line, System, Way
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TIMEOUT_S = 30.0
_SETTINGS = {
    "storage": "file",
    "replicas": "1",
    "durability": "written to a file before it is acknowledged; synced every two minutes, as shipped",
}


class NatsServer(LocalServer):
    """One server of its own, with JetStream."""

    def count(self, topic: str) -> int:
        """Ask for the stream's number of messages."""
        return asyncio.run(_messages(self.port, topic))


async def _messages(port: int, topic: str) -> int:
    import nats

    async with await nats.connect(f"nats://{HOST}:{port}", connect_timeout=_TIMEOUT_S) as client:
        stream = await client.jetstream(timeout=_TIMEOUT_S).stream_info(topic)
        return int(stream.state.messages)


def _version(port: int) -> str:
    with socket.create_connection((HOST, port), _TIMEOUT_S) as connection, connection.makefile("rb") as lines:
        line = lines.readline()
    if not line.startswith(b"INFO "):
        raise EOFError(f"NATS began with {line!r}")
    return str(json.loads(line[5:])["version"])


@contextmanager
def _start(directory: Path) -> Iterator[System]:
    executable, port = program("nats-server"), free_port()
    assert executable is not None
    with own_directory(directory) as data:
        store = data / "store"
        command = [executable, "--addr", HOST, "--port", str(port), "--jetstream", "--store_dir", str(store)]
        with running(command, data) as process:
            version = process.await_up(lambda: _version(port))
            yield NatsServer("nats", version, port, process, store, _SETTINGS)


KIND = Kind(
    name="nats",
    title="NATS JetStream",
    driver="paper_benchmarks.clients.nats",
    lines=(
        Line(Way.CONFIRMED_EACH, "async", 25_000, title="nats-py, publish_async, acknowledged"),
        Line(Way.SEND_BYTES, "raw", 150_000),
        Line(Way.READ_EACH, "ordered", 100_000, title="nats-py, ordered consumer", once=True),
        Line(Way.READ_BYTES, "raw", 150_000, once=True),
    ),
    start=_start,
    filler="raw",
    missing=lambda: what_is_missing(program("nats-server"), "nats-server", "nats"),
)
