"""`kafka2011 ping`."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from kafka2011.cli.options import examples, parse_broker, read_zk_connect
from kafka2011.cli.output import json_option, show_table
from kafka2011.cli.session import open_session
from kafka2011.config.service_links import without_service_links
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import KafkaError
from zk.brokers import BrokerRegistry
from zk.cluster import UNKNOWN_ID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zk.cluster import Broker

_PORT_VARIABLE = "KAFKA2011_PORT"


@click.command(
    "ping",
    epilog=examples(
        "kafka2011 ping",
        "kafka2011 ping localhost:6667 --timeout-ms 500",
        "kafka2011 ping --zookeeper localhost:2181",
        "kafka2011 ping localhost:6697 --security security.toml",
    ),
)
@click.argument("named", nargs=-1, type=parse_broker, metavar="[HOST:PORT]...")
@click.option(
    "--zookeeper",
    "zk_connect",
    type=read_zk_connect,
    metavar="HOST:PORT",
    help="Check all brokers that are registered here.",
)
@click.option(
    "--security",
    type=click.Path(exists=True, dir_okay=False),
    help="The security file for the connection to HOST:PORT.",
)
@click.option(
    "--timeout-ms", type=click.IntRange(1), default=5000, show_default=True, help="How long to wait for an answer."
)
@json_option
def command(
    named: tuple[Broker, ...], zk_connect: str | None, security: str | None, timeout_ms: int, as_json: bool
) -> None:
    """Check whether brokers answer requests.

    It sends an empty multifetch, which every 0.7 broker answers. Without an address it checks the broker on this
    machine, at the port in the environment variable KAFKA2011_PORT, or 6667. It fails if a broker does not answer, so
    it can serve as a health check.
    """
    if not named and zk_connect is None:
        named = (parse_broker(f"127.0.0.1:{_local_port(os.environ)}"),)
    brokers = [replace(broker, security=security or "") for broker in named]
    if zk_connect is not None:
        with open_session(zk_connect) as client:
            brokers += BrokerRegistry(client).brokers().values()
        if not brokers:
            raise KafkaError(f"no broker is registered at {zk_connect}")
    answers = [
        (None if broker.id == UNKNOWN_ID else broker.id, broker.address, *_ping(broker, timeout_ms))
        for broker in brokers
    ]
    show_table(("broker", "address", "ms", "error"), answers, as_json=as_json)
    silent = [address for _, address, _, error in answers if error is not None]
    if silent:
        raise KafkaError(f"no answer from {', '.join(silent)}")


def _local_port(environ: Mapping[str, str]) -> str:
    """Return the port of the broker on this machine, as the environment says or the default."""
    settings, _ = without_service_links(environ, _PORT_VARIABLE)
    return settings.get(_PORT_VARIABLE) or "6667"


def _ping(broker: Broker, timeout_ms: int) -> tuple[float | None, str | None]:
    with SimpleConsumer.of(broker, {"socket.timeout.ms": timeout_ms}) as consumer:
        start = time.monotonic()
        try:
            consumer.multifetch([])
        except KafkaError as error:
            return None, str(error)
        return round((time.monotonic() - start) * 1000, 1), None
