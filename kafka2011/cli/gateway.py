"""`kafka2011 gateway`."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import click

from kafka2011.cli.logs import log_progress_of_a_server
from kafka2011.cli.options import examples
from kafka2011.cli.server_process import serve, settings_options
from kafka2011.config import GatewayConfig
from kafka2011.gateway.server import GatewayServer

if TYPE_CHECKING:
    from pathlib import Path

MOST_REPEATS = 60
"""Log lines of one statement in a minute: clients and brokers can make a gateway repeat a warning without end."""


@click.command(
    "gateway",
    epilog=examples(
        "kafka2011 gateway gateway.properties",
        "kafka2011 gateway --override zk.connect=localhost:2181 --override directory=gateway",
    ),
)
@settings_options("GATEWAY.PROPERTIES")
def command(file: Path | None, overrides: tuple[str, ...]) -> int:
    """Let clients of Kafka 0.8 and later read and write the topics of a cluster, until stopped.

    Brokers, stored messages and 0.7 clients stay as they are. Settings come from the file, then from KAFKA2011_
    environment variables, then from --override; later ones win. Ctrl-C or SIGTERM stops the gateway in order; a second
    signal stops it at once. A systemd unit may use Type=notify.
    """
    log_progress_of_a_server(MOST_REPEATS)
    config = GatewayConfig.from_sources(file, os.environ, overrides)
    return serve(
        partial(GatewayServer, config), lambda server: f"the gateway is ready on {config.advertised_host}:{server.port}"
    )
