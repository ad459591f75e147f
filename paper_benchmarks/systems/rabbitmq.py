"""RabbitMQ: a durable classic queue for each topic."""

from __future__ import annotations

import socket
from contextlib import contextmanager
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
from paper_benchmarks.systems.system import Flush, Kind, System
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_TIMEOUT_S = 30.0
_SETTINGS = {
    "queue": "classic, durable",
    "delivery_mode": "2 (persistent)",
    "confirms": "none",
    "acknowledgements": "automatic, which ignores prefetch",
    "durability": "messages are written to files, and nobody waits for it",
}


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
def _start(directory: Path, flush: Flush) -> Iterator[System]:  # noqa: ARG001 (it has no such setting)
    ports = (free_port(), free_port(), free_port())
    mapper_program = program("epmd")
    assert mapper_program is not None
    with own_directory(directory) as data:
        env = environment(data, ports)
        (data / "plugins").write_text("[].\n", encoding="utf-8")
        (data / "rabbitmq.conf").touch()
        # Otherwise the node starts one as a daemon that outlives it.
        with (
            running([mapper_program, "-address", HOST, "-port", str(ports[2])], data, env) as mapper,
            running([str(_SCRIPT)], data, env) as process,
        ):
            version = process.await_up(lambda: _version(ports[0]))
            yield RabbitServer(version, ports[0], process, data, _SETTINGS, mapper)


KIND = Kind(
    name="rabbitmq",
    title="RabbitMQ",
    produce=("pika", "raw"),
    consume=("pika", "raw"),
    start=_start,
    many=50_000,
    few=50_000,
    missing=lambda: what_is_missing(_SCRIPT, "rabbitmq-server", "pika"),
    batches=False,
)
