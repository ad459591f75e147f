"""Options that several commands share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from kafka2011.cli.times import TIMES, parse_time_ms
from kafka2011.config.kinds import ZK_CONNECT
from kafka2011.config.sources import from_overrides
from zk.cluster import UNKNOWN_ID, Broker

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

_HOST_PORT = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:\s]+):(?P<port>[0-9]{1,5})")


def examples(*lines: str) -> str:
    """Return the epilog of a command's help that shows how to call it."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def parse_broker(text: str) -> Broker:
    """Read host:port as a broker of unknown id; an IPv6 address stands in brackets. Raises BadParameter."""
    match = _HOST_PORT.fullmatch(text)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise click.BadParameter(f"{text!r} is not host:port")
    return Broker(UNKNOWN_ID, match["host"].strip("[]"), int(match["port"]))


def one_address(broker: Broker) -> str:
    """Return the broker.list that is one address, whatever id is behind it."""
    return f"0:{broker.host}:{broker.port}"


def read_time_ms(text: str, otherwise: str = "is not a time") -> int:
    """Read a time as ms since 1970. Raises BadParameter, which says what the text is `otherwise`."""
    try:
        return parse_time_ms(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} {otherwise}: {TIMES}") from error


def read_target(text: str) -> int | str:
    """Read where to go: earliest, latest, an offset, or a time, which becomes @ and ms. Raises BadParameter."""
    if text in {"earliest", "latest"}:
        return text
    if text.isascii() and text.isdigit():
        return int(text)
    return f"@{read_time_ms(text, 'is not earliest, latest, an offset or a time')}"


def read_zk_connect(text: str) -> str:
    """Read what zk.connect may be. Raises BadParameter."""
    try:
        read = ZK_CONNECT.read(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if not read:
        raise click.BadParameter("it is empty")
    return read


def broker_or_zookeeper(context: click.Context) -> None:
    """Refuse both on the command line; a ZooKeeper from the environment gives way to a broker that is named."""
    if context.params["broker"] is not None and (
        context.get_parameter_source("zk_connect") is ParameterSource.COMMANDLINE
    ):
        raise click.UsageError("--broker and --zookeeper exclude one another")


def pairs_of(texts: Iterable[str], option: str = "--override") -> dict[str, str]:
    """Read the values of an option that are KEY=VALUE. Raises ConfigError."""
    return {given.key: str(given.value) for given in from_overrides(texts, option)}


def refuse_properties(properties: tuple[str, ...], options: Mapping[str, str], *, fixed: Collection[str] = ()) -> None:
    """Refuse a --property that has its own option, which `options` gives, or a value that the command has chosen."""
    for text in properties:
        key = text.partition("=")[0].strip()
        if key in options:
            raise click.UsageError(f"--property {text}: give {options[key]} instead")
        if key in fixed:
            raise click.UsageError(f"--property {text}: this command chooses {key} itself")


_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_ESCAPED = re.compile(r"\\(x[0-9A-Fa-f]{2}|.?)", re.DOTALL)


def unescaped(text: str) -> bytes:
    r"""Return the bytes that text with the escapes \n \r \t \0 \\ \xHH stands for. Raises BadParameter."""
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPED.finditer(text):
        name = match[1]
        if name not in _ESCAPES and len(name) != len("xHH"):
            raise click.BadParameter(f"{match[0]} is not an escape; allowed are \\n \\r \\t \\0 \\xHH and \\\\")
        parts += (text[end : match.start()].encode(), _ESCAPES.get(name) or bytes.fromhex(name[1:]))
        end = match.end()
    return b"".join([*parts, text[end:].encode()])


def _read_delimiter(text: str) -> bytes:
    delimiter = unescaped(text)
    if not delimiter:
        raise click.BadParameter("it is empty")
    return delimiter


broker_option = click.option(
    "--broker",
    type=parse_broker,
    metavar="HOST:PORT",
    help="The one broker to talk to, instead of all that ZooKeeper knows.",
)

zookeeper_option = click.option(
    "--zookeeper",
    "zk_connect",
    type=read_zk_connect,
    metavar="HOST:PORT",
    envvar="KAFKA2011_ZK_CONNECT",
    show_envvar=True,
    default="127.0.0.1:2181",
    show_default=True,
    help="ZooKeeper's servers, host:port,host:port/chroot.",
)

property_option = click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting of the client, by its name in docs/reference/settings.md; may be given many times.",
)

consumer_property_option = click.option(
    "--consumer-property",
    "consumer_properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting of the consumer; may be given many times.",
)

producer_property_option = click.option(
    "--producer-property",
    "producer_properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting of the producer; may be given many times.",
)

skip_refused_option = click.option(
    "--skip-refused",
    is_flag=True,
    help="Leave out, log and count messages that the target refuses, instead of stopping.",
)

delimiter_option = click.option(
    "-D",
    "--delimiter",
    type=_read_delimiter,
    default="\\n",
    show_default=True,
    metavar="TEXT",
    help="What to print after each message; \\n \\r \\t \\0 \\xHH are escapes.",
)
