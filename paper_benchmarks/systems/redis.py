"""Redis: a stream for each topic."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from paper_benchmarks.systems.local_server import HOST, LocalServer, own_directory, program, running, what_is_missing
from paper_benchmarks.systems.system import Kind, Line, System, Way
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OPTIONS = ("--appendonly", "yes", "--appendfsync", "everysec", "--save", "")
_SETTINGS = {
    "appendonly": "yes",
    "appendfsync": "everysec",
    "save": "never",
    "durability": "every command is appended to a file, which is synced once a second",
}


class RedisServer(LocalServer):
    """A Redis without replicas."""

    def count(self, topic: str) -> int:
        """Ask for the stream's length."""
        import redis

        with redis.Redis(self.host, self.port) as client:
            return int(client.xlen(topic))


def _version(port: int) -> str:
    import redis

    try:
        with redis.Redis(HOST, port) as client:
            return str(client.info("server")["redis_version"])
    except redis.RedisError as error:  # no OSError: it says so of a refused connection, and while it reads its files
        raise ConnectionError(str(error)) from error


@contextmanager
def _start(directory: Path) -> Iterator[System]:
    executable, port = program("redis-server"), free_port()
    assert executable is not None
    with own_directory(directory) as data:
        options = ["--port", str(port), "--bind", HOST, "--dir", str(data), "--logfile", str(data / "redis.log")]
        with running([executable, *options, *_OPTIONS], data) as process:
            version = process.await_up(lambda: _version(port))
            yield RedisServer("redis", version, port, process, data, _SETTINGS)


KIND = Kind(
    name="redis",
    title="Redis Streams",
    driver="paper_benchmarks.clients.redis",
    lines=(
        Line(Way.CONFIRMED_LISTS, "redis", 60_000, 50, "redis-py, a pipeline"),
        Line(Way.CONFIRMED_EACH, "redis", 3_000, 1, "redis-py"),
        Line(Way.SEND_BYTES, "raw", 150_000, 50),
        Line(Way.READ_LISTS, "redis", 400_000, title="redis-py, XREAD"),
        Line(Way.READ_BYTES, "raw", 400_000),
    ),
    start=_start,
    filler="raw",
    missing=lambda: what_is_missing(program("redis-server"), "redis-server", "redis", "hiredis"),
)
