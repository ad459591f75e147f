"""Brokers and partitions as values, and their text in znodes, both ways."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from zk import paths
from zk.errors import InvalidName, MalformedNode

MAX_INT32 = 2**31 - 1
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}")
_PARTITION = re.compile(r"(0|[1-9][0-9]{0,9})-(0|[1-9][0-9]{0,9})")
# 0.7 splits a broker's text at every ':', so neither part may hold one (an IPv6 address needs a name).
_BROKER = re.compile(r"(?P<creator>[^:\s]+):(?P<host>[^:\s]+):(?P<port>[0-9]{1,5})")


def decimal_from(path: str, data: bytes | None, most: int, what: str) -> int:
    """Read a znode's decimal number, 0 to `most`. Raises MalformedNode, naming `what` it should have been."""
    text = text_from(path, data)
    if not _DECIMAL.fullmatch(text) or int(text) > most:
        raise MalformedNode(path, text, f"not {what}")
    return int(text)


def text_from(path: str, data: bytes | None) -> str:
    """Read a znode's text. Raises MalformedNode for null data and for bytes that are not UTF-8."""
    if data is None:
        raise MalformedNode(path, None, "no data")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedNode(path, data, "not UTF-8") from None


def broker_id_from(path: str, name: str) -> int:
    """Read the broker id that names the znode at `path`. Raises MalformedNode."""
    if not _DECIMAL.fullmatch(name) or int(name) > MAX_INT32:
        raise MalformedNode(path, name, "not a broker id")
    return int(name)


@dataclass(frozen=True, slots=True, order=True)
class Broker:
    """One broker of the registry; `creator` is `{host}-{epoch ms}` of the process that registered it."""

    id: int
    creator: str
    host: str
    port: int

    def __post_init__(self) -> None:
        if not 0 <= self.id <= MAX_INT32:
            raise InvalidName(f"broker id {self.id}: must be 0 to {MAX_INT32}")
        if not _BROKER.fullmatch(self.text) or not 0 < self.port < 65536:
            raise InvalidName(f"broker {self.id}: {self.text!r} is not creator:host:port (neither may hold ':')")

    @classmethod
    def created(cls, broker_id: int, host: str, port: int, epoch_ms: int) -> Self:
        """Make the entry of a broker that starts at `epoch_ms`."""
        return cls(broker_id, f"{host}-{epoch_ms}", host, port)

    @property
    def text(self) -> str:
        """The znode's text, `creator:host:port`."""
        return f"{self.creator}:{self.host}:{self.port}"

    @classmethod
    def from_node(cls, broker_id: int, data: bytes | None) -> Self:
        """Read a broker's znode. Raises MalformedNode with its path."""
        path = paths.broker(broker_id)
        text = text_from(path, data)
        match = _BROKER.fullmatch(text)
        if match is None or not 0 < int(match["port"]) < 65536:
            raise MalformedNode(path, text, "not creator:host:port")
        return cls(broker_id, match["creator"], match["host"], int(match["port"]))


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """A partition of some topic: `partition` counts from 0 on each broker.

    Ordering is numeric, as producers need it. Consumers sort whole names instead: `key=lambda p: p.name`.
    """

    broker_id: int
    partition: int

    def __post_init__(self) -> None:
        if not (0 <= self.broker_id <= MAX_INT32 and 0 <= self.partition <= MAX_INT32):
            raise InvalidName(f"partition {self.name}: both numbers must be 0 to {MAX_INT32}")

    @property
    def name(self) -> str:
        """The znode's name, `{broker id}-{partition}`."""
        return f"{self.broker_id}-{self.partition}"

    def __str__(self) -> str:
        return self.name

    @classmethod
    def from_name(cls, name: str, under: str = "") -> Self:
        """Read a znode's name; `under` is its parent's path. Raises MalformedNode."""
        match = _PARTITION.fullmatch(name)
        if match is None or max(int(match[1]), int(match[2])) > MAX_INT32:
            raise MalformedNode(paths.child(under, name) if under else name, name, "not {broker id}-{partition}")
        return cls(int(match[1]), int(match[2]))
