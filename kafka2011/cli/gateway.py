"""`kafka2011 gateway`."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click
import gevent

from kafka2011.broker.connections.file_limit import raise_file_limit
from kafka2011.broker.memory.freed_memory import keep_freed_memory
from kafka2011.broker.process import run_server
from kafka2011.cli.app import EXIT_INTERRUPTED
from kafka2011.cli.logs import log_progress_of_a_server
from kafka2011.cli.options import examples
from kafka2011.cli.service_manager import notify_ready
from kafka2011.config import GatewayConfig
from kafka2011.gateway.server import GatewayServer

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command(
    "gateway",
    epilog=examples(
        "kafka2011 gateway gateway.properties",
        "kafka2011 gateway --override zk.connect=localhost:2181 --override directory=gateway",
    ),
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False, metavar="[GATEWAY.PROPERTIES]")
@click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="One setting; may be given many times."
)
def command(file: Path | None, overrides: Sequence[str]) -> int:
    """Let clients of Kafka 0.8 and later read and write the topics of a cluster, until stopped.

    Brokers, stored messages and 0.7 clients stay as they are. Settings come from the file, then from KAFKA2011_
    environment variables, then from --override; later ones win. Ctrl-C or SIGTERM stops the gateway in order; a second
    signal stops it at once. A systemd unit may use Type=notify.
    """
    log_progress_of_a_server()
    config = GatewayConfig.from_sources(file, os.environ, overrides)

    def say_ready(server: GatewayServer) -> None:
        click.echo(f"the gateway is ready on {config.advertised_host}:{server.port}")
        notify_ready()

    interrupted: list[bool] = []
    gevent.signal_handler(signal.SIGINT, interrupted.append, True)
    raise_file_limit()
    keep_freed_memory()
    status = run_server(GatewayServer(config), say_ready)
    return EXIT_INTERRUPTED if interrupted and not status else status
