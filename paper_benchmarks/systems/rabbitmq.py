"""RabbitMQ: a durable classic queue for each topic, or a stream, which is a log."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from paper_benchmarks.measuring.usage import with_children
from paper_benchmarks.systems.local_server import (
    HOST,
    LocalServer,
    Process,
    own_directory,
    program,
    running,
    what_is_missing,
)
from paper_benchmarks.systems.stream_socket import end_of
from paper_benchmarks.systems.system import Kind, Line, System, Way
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_TIMEOUT_S = 30.0
_QUEUES = {
    "queue": "classic, durable",
    "delivery_mode": "2 (persistent)",
    "confirms": "none",
    "acknowledgements": "automatic, which ignores prefetch",
    "durability": "messages are written to files, and nobody waits for it",
}
_STREAMS = {
    "queue": "stream",
    "confirms": "every message",
    "durability": "messages are written to segments of a log, and confirmed then; flushed by the kernel",
}
_STREAM_PLUGIN = Path("/usr/lib/rabbitmq/lib")


class RabbitServer(LocalServer):
    """One node, and the port mapper that Erlang wants beside it."""

    def __init__(
        self, version: str, port: int, process: Process, base: Path, settings: Mapping[str, str], mapper: Process
    ) -> None:
        super().__init__("rabbitmq", version, port, process, base / "mnesia", settings)
        self._mapper = mapper

    def pids(self) -> list[int]:
        """Return the node's processes and the port mapper."""
        return [*with_children(self.process.pid), self._mapper.pid]

    def count(self, topic: str) -> int:
        """Ask for the queue's length: of messages that nobody has been given."""
        import pika

        with pika.BlockingConnection(pika.ConnectionParameters(self.host, self.port)) as connection:
            return int(connection.channel().queue_declare(topic, passive=True).method.message_count)


class StreamServer(RabbitServer):
    """A node that speaks its streams' protocol too, on a port of its own."""

    def count(self, topic: str) -> int:
        """Ask for the last chunk of the stream, whose offsets count messages."""
        return end_of(self.host, self.port, topic)


def _version(port: int) -> str:
    """Begin a connection: the server names itself in its first frame."""
    from pika.frame import decode_frame

    data = b""
    with socket.create_connection((HOST, port), _TIMEOUT_S) as connection:
        connection.sendall(b"AMQP\x00\x00\x09\x01")
        while True:
            if not (received := connection.recv(65536)):
                raise EOFError("RabbitMQ ended the connection")
            data += received
            consumed, frame = decode_frame(data)
            if consumed:
                return str(frame.method.server_properties["version"])


def environment(directory: Path, ports: tuple[int, int, int]) -> dict[str, str]:
    """Return the variables by which a node keeps to its directory and to its ports: its own, Erlang's, the mapper's."""
    port, distribution, mapper = map(str, ports)
    return {
        "HOME": str(directory),  # Erlang's cookie
        "ERL_EPMD_ADDRESS": HOST,
        "ERL_EPMD_PORT": mapper,
        "RABBITMQ_NODENAME": f"measured-{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": HOST,
        "RABBITMQ_NODE_PORT": port,
        "RABBITMQ_DIST_PORT": distribution,
        "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_CONF_ENV_FILE": str(directory / "none.conf"),
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
        "RABBITMQ_PID_FILE": str(directory / "pid"),
        "LANG": "C.UTF-8",
    }


@contextmanager
def _start(directory: Path, *, streams: bool = False) -> Iterator[System]:
    ports = (free_port(), free_port(), free_port())
    stream_port = free_port()
    mapper_program = program("epmd")
    assert mapper_program is not None
    with own_directory(directory) as data:
        env = environment(data, ports)
        (data / "plugins").write_text(f"[{'rabbitmq_stream' * streams}].\n", encoding="utf-8")
        listener = f"stream.listeners.tcp.1 = {HOST}:{stream_port}\n"
        advertised = f"stream.advertised_host = {HOST}\nstream.advertised_port = {stream_port}\n"
        (data / "rabbitmq.conf").write_text((listener + advertised) * streams, encoding="utf-8")
        # Otherwise the node starts one as a daemon that outlives it.
        with (
            running([mapper_program, "-address", HOST, "-port", str(ports[2])], data, env) as mapper,
            running([str(_SCRIPT)], data, env) as process,
        ):
            version = process.await_up(lambda: _version(ports[0]))
            if streams:
                process.await_up(lambda: socket.create_connection((HOST, stream_port), _TIMEOUT_S).close())
                yield StreamServer(version, stream_port, process, data, _STREAMS, mapper)
            else:
                yield RabbitServer(version, ports[0], process, data, _QUEUES, mapper)


def _no_streams() -> str | None:
    plugin = next(_STREAM_PLUGIN.glob("rabbitmq_server-*/plugins/rabbitmq_stream-*"), None)
    return what_is_missing(plugin, "rabbitmq-server", "pika", "rstream")


KIND = Kind(
    name="rabbitmq",
    title="RabbitMQ",
    driver="paper_benchmarks.clients.rabbitmq",
    lines=(
        Line(Way.SEND_EACH, "pika", 10_000, title="pika"),
        Line(Way.SEND_BYTES, "raw", 12_000),
        Line(Way.READ_EACH, "pika", 10_000, title="pika"),
        Line(Way.READ_BYTES, "raw", 12_000),
    ),
    start=_start,
    missing=lambda: what_is_missing(_SCRIPT, "rabbitmq-server", "pika"),
    emptied=True,
)
STREAMS = Kind(
    name="rabbitmq-streams",
    title="RabbitMQ Streams",
    driver="paper_benchmarks.clients.streams",
    lines=(
        Line(Way.CONFIRMED_LISTS, "rstream-lists", 100_000, 50, "rstream, send_batch, confirmed"),
        Line(Way.CONFIRMED_EACH, "rstream", 60_000, title="rstream, send, confirmed"),
        Line(Way.CONFIRMED_BYTES, "raw", 500_000, 50, "raw, confirmed"),
        Line(Way.READ_EACH, "rstream", 200_000, title="rstream", once=True),
        Line(Way.READ_BYTES, "raw", 1_000_000),
    ),
    filler="raw",
    start=partial(_start, streams=True),
    missing=_no_streams,
)
