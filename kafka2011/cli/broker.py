"""`kafka2011 broker`."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click
import gevent

from kafka2011.broker.process import run_broker
from kafka2011.broker.ready import Ready
from kafka2011.cli.app import EXIT_INTERRUPTED
from kafka2011.cli.logs import log_progress_of_a_server
from kafka2011.cli.options import examples
from kafka2011.cli.service_manager import notify_ready
from kafka2011.config import BrokerConfig

if TYPE_CHECKING:
    from kafka2011.broker.server import KafkaServer


@click.command(
    "broker",
    epilog=examples(
        "kafka2011 broker server.properties",
        "kafka2011 broker --override brokerid=0 --override log.dir=data --override enable.zookeeper=false",
    ),
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False, metavar="[SERVER.PROPERTIES]")
@click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="One setting; may be given many times."
)
def command(file: Path | None, overrides: tuple[str, ...]) -> int:
    """Run a broker until it is stopped.

    Settings come from the file, then from KAFKA2011_ environment variables, then from --override; later ones win.
    Ctrl-C or SIGTERM stops the broker in order; a second signal stops it at once. A systemd unit may use Type=notify.
    """
    log_progress_of_a_server()
    config = BrokerConfig.from_sources(file, os.environ, overrides)

    def say_ready(server: KafkaServer) -> None:
        click.echo(str(Ready(config.brokerid, config.hostname, server.port)))
        notify_ready()

    interrupted: list[bool] = []
    gevent.signal_handler(signal.SIGINT, interrupted.append, True)
    status = run_broker(config, say_ready)
    return EXIT_INTERRUPTED if interrupted and not status else status
