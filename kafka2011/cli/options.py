"""Options that several commands share."""

from __future__ import annotations

import re
from datetime import datetime

import click

from kafka2011.config.kinds import ZK_CONNECT
from zk.cluster import UNKNOWN_ID, Broker

_HOST_PORT = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:\s]+):(?P<port>[0-9]{1,5})")


def parse_broker(text: str) -> Broker:
    """Read host:port as a broker of unknown id; an IPv6 address stands in brackets. Raises BadParameter."""
    match = _HOST_PORT.fullmatch(text)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise click.BadParameter(f"{text!r} is not host:port")
    return Broker(UNKNOWN_ID, match["host"].strip("[]"), int(match["port"]))


def parse_time_ms(text: str) -> int:
    """Read an ISO 8601 time as ms since the epoch; one without a zone is local. Raises ValueError."""
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def read_broker(_context: click.Context, _parameter: click.Parameter, text: str) -> Broker:
    """Read the value of an option that is host:port."""
    return parse_broker(text)


def read_zk_connect(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    """Read what zk.connect may be; None when it may be left out and is."""
    if text is None:
        return None
    try:
        read = ZK_CONNECT.read(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if not read:
        raise click.BadParameter("it is empty")
    return read


broker_option = click.option(
    "--broker",
    callback=read_broker,
    metavar="HOST:PORT",
    default="127.0.0.1:6667",
    show_default=True,
    help="The broker to talk to.",
)

zookeeper_option = click.option(
    "--zookeeper",
    "zk_connect",
    callback=read_zk_connect,
    metavar="HOST:PORT",
    envvar="KAFKA2011_ZK_CONNECT",
    show_envvar=True,
    default="127.0.0.1:2181",
    show_default=True,
    help="ZooKeeper's servers, host:port,host:port/chroot.",
)
