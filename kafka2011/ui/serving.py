"""Serves the console at an address until it is told to stop."""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from kafka2011.errors import ConfigError, KafkaError
from kafka2011.ui.app import MESSAGES, make_app
from kafka2011.ui.changes import OffsetChanges
from kafka2011.ui.doors import Doors, KnowingProtocol, context_of, is_for_this_machine_only
from kafka2011.ui.pipeline import PipelineReads
from kafka2011.ui.reading import PartitionReads
from kafka2011.ui.sampler import Sampler
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from zk.client import ZkClient

logger = logging.getLogger(__name__)

OPEN = Doors()
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
    doors: Doors = OPEN,
) -> Iterator[str]:
    """Serve until the end of the block, and give the address of the page. Raises KafkaError when it is taken.

    Raises ConfigError for changes that whoever reaches the address could make.
    """
    with _listening(host, port) as listening, Sampler(client, is_always_on=is_always_on) as sampler:
        address = listening.getsockname()[:2]
        _check_doors(address[0], doors)
        reads = PartitionReads(sampler, client, retention_hours)
        pipeline = PipelineReads(sampler, client, warehouse)
        asked = {"log": reads.log, MESSAGES: reads.messages, "pipeline": pipeline.pipeline}
        offsets = OffsetChanges(client)
        changes = {"preview": offsets.preview, "move": offsets.move} if doors.allow_changes else {}
        app = make_app(
            sampler, asked, lambda: int(SYSTEM_CLOCK.wall_s() * 1000), [host, *names], changes, doors.may_see
        )
        config = uvicorn.Config(
            app,
            http=KnowingProtocol,
            log_level="warning",
            access_log=False,
            lifespan="off",
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=_SLOW_S,
            server_header=False,
            log_config=None,
        )
        config.load()
        if doors.certificates is not None:
            config.ssl = context_of(doors.certificates)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), name="ui-http", daemon=True)
        thread.start()
        try:
            shown = f"[{address[0]}]" if ":" in address[0] else address[0]
            yield f"http{'' if doors.certificates is None else 's'}://{shown}:{address[1]}/"
        finally:
            sampler.release_viewers()
            server.should_exit = True
            thread.join()


def _check_doors(address: str, doors: Doors) -> None:
    """Warn of a console that anybody can reach. Raises ConfigError if they could change something, too."""
    certificates = doors.certificates
    if is_for_this_machine_only(address) or (certificates is not None and certificates.are_required):
        return
    if doors.allow_changes:
        raise ConfigError(
            f"at {address} everyone who reaches the console could make changes: admit only browsers with a"
            f" certificate (--tls-ca), or listen on 127.0.0.1"
        )
    logger.warning(
        "everyone who reaches the console at %s sees topics, groups and messages; --tls-ca admits only browsers with"
        " a certificate",
        address,
    )


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise KafkaError(f"cannot listen on {host}:{port} for browsers: {error}") from error
    with listening:
        yield listening
