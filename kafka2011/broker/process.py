"""A broker, or another server, as a process: its signals, its limits, its exit status."""

from __future__ import annotations

import json
import logging
import os
import signal
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import gevent

from kafka2011.broker.connections.file_limit import raise_file_limit
from kafka2011.broker.memory.freed_memory import keep_freed_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from gevent.event import Event

logger = logging.getLogger(__name__)

EXIT_OK = 0
EXIT_FAILED = 1


class Server(Protocol):
    """What a process runs: a broker, or a gateway."""

    failure: BaseException | None
    stop_requested: Event

    def start(self) -> None:
        """Begin to serve. Raises KafkaError."""

    def stop(self) -> None:
        """Stop in order."""

    def counts(self) -> dict[str, int]:
        """Return what has been counted since the start."""


ServerT = TypeVar("ServerT", bound=Server)


def run_server(new_server: Callable[[], ServerT], on_ready: Callable[[ServerT], None] | None = None) -> int:
    """Run a server until SIGTERM or SIGINT and return the exit status: 0, or 1 after a failure.

    A second signal ends the process at once. SIGUSR1 logs the counts. Raises KafkaError when the server
    does not start.
    """
    raise_file_limit()
    keep_freed_memory()
    server = new_server()
    for number in (signal.SIGTERM, signal.SIGINT):
        gevent.signal_handler(number, _on_stop_signal, server, number)
    gevent.signal_handler(signal.SIGUSR1, lambda: logger.info("counts %s", json.dumps(server.counts())))
    starting = gevent.spawn(_error_of, server.start)
    either: list[Any] = [starting, server.stop_requested]
    try:
        gevent.wait(either, count=1)
        if not starting.ready():
            starting.kill()
        elif starting.value is not None:
            server.failure = server.failure or starting.value
            raise starting.value
        else:
            if on_ready is not None:
                on_ready(server)
            server.stop_requested.wait()
    finally:
        server.stop()
    return EXIT_OK if server.failure is None else EXIT_FAILED


def _error_of(call: Callable[[], None]) -> Exception | None:
    """Call and return what it raises: a greenlet that ends by an exception prints a traceback."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - the caller raises it again
        return error
    return None


def _on_stop_signal(server: Server, number: int) -> None:
    if server.stop_requested.is_set():
        os._exit(128 + number)
    logger.info("stopping on %s", signal.Signals(number).name)
    server.stop_requested.set()
