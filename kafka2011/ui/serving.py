"""Serves the console at an address until it is told to stop."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from kafka2011.errors import KafkaError
from kafka2011.ui.app import make_app
from kafka2011.ui.pipeline import PipelineReads
from kafka2011.ui.reading import PartitionReads
from kafka2011.ui.sampler import Sampler
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from zk.client import ZkClient

MOST_CONNECTIONS = 128
_START_TIMEOUT_S = 10.0
_SLOW_S = 2
"""How long answers under way may take at the end."""


@contextmanager
def serve(
    client: ZkClient,
    host: str,
    port: int,
    *,
    is_always_on: bool = False,
    retention_hours: float = 168.0,
    warehouse: str = "",
    names: Collection[str] = (),
) -> Iterator[str]:
    """Serve until the end of the block, and give the address of the page. Raises KafkaError when it is taken."""
    with Sampler(client, is_always_on=is_always_on) as sampler, _listening(host, port) as listening:
        address = listening.getsockname()[:2]
        reads = PartitionReads(sampler, client, retention_hours)
        pipeline = PipelineReads(sampler, client, warehouse)
        asked = {"log": reads.log, "messages": reads.messages, "pipeline": pipeline.pipeline}
        app = make_app(sampler, asked, lambda: int(SYSTEM_CLOCK.wall_s() * 1000), [host, *names])
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            lifespan="off",
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=_SLOW_S,
            server_header=False,
            log_config=None,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), name="ui-http", daemon=True)
        thread.start()
        try:
            shown = f"[{address[0]}]" if ":" in address[0] else address[0]
            yield f"http://{shown}:{address[1]}/"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise KafkaError(f"cannot listen on {host}:{port} for browsers: {error}") from error
    with listening:
        yield listening
