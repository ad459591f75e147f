"""`kafka2011 broker`."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import click

from kafka2011.broker.ready import Ready
from kafka2011.broker.server import KafkaServer
from kafka2011.cli.logs import log_progress_of_a_server
from kafka2011.cli.options import examples
from kafka2011.cli.server_process import serve, settings_options
from kafka2011.config import BrokerConfig

if TYPE_CHECKING:
    from pathlib import Path


@click.command(
    "broker",
    epilog=examples(
        "kafka2011 broker server.properties",
        "kafka2011 broker --override brokerid=0 --override log.dir=data --override enable.zookeeper=false",
    ),
)
@settings_options("SERVER.PROPERTIES")
def command(file: Path | None, overrides: tuple[str, ...]) -> int:
    """Run a broker until it is stopped.

    Settings come from the file, then from KAFKA2011_ environment variables, then from --override; later ones win.
    Ctrl-C or SIGTERM stops the broker in order; a second signal stops it at once. A systemd unit may use Type=notify.
    """
    log_progress_of_a_server()
    config = BrokerConfig.from_sources(file, os.environ, overrides)
    return serve(partial(KafkaServer, config), lambda server: Ready(config.brokerid, config.hostname, server.port))
