"""The vocabulary of a cluster, brokers and partitions as values, and their text in znodes, both ways. No I/O."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

from zk.errors import InvalidName, MalformedNode

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_INT32 = 2**31 - 1
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}")
_PARTITION = re.compile(r"(0|[1-9][0-9]{0,9})-(0|[1-9][0-9]{0,9})")
# 0.7 splits a broker's text at every ':', so neither part may hold one (an IPv6 address needs a name).
_BROKER = re.compile(r"(?P<creator>[^:\s]+):(?P<host>[^:\s]+):(?P<port>[0-9]{1,5})")


def decimal_from(path: str, data: bytes | None, most: int, what: str) -> int:
    """Read a znode's decimal number, 0 to `most`. Raises MalformedNode, naming `what` was expected."""
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


UNKNOWN_ID = -1
"""The id of a broker when only its address is known."""


@dataclass(frozen=True, slots=True, order=True)
class Broker:
    """Names a broker and where it listens; `creator` is the process that registered it, `{host}-{epoch ms}`.

    A broker that was named by hand has no creator, and UNKNOWN_ID where only its address was given. `security` is the
    file that says how it is met by TLS; none of it is in the znode.
    """

    id: int
    host: str
    port: int
    creator: str = ""
    security: str = ""

    def __post_init__(self) -> None:
        if not self.creator:
            return
        if not 0 <= self.id <= MAX_INT32:
            raise InvalidName(f"broker id {self.id}: must be 0 to {MAX_INT32}")
        if not _BROKER.fullmatch(self.text) or not 0 < self.port < 65536:
            raise InvalidName(f"broker {self.id}: {self.text!r} is not creator:host:port (neither may hold ':')")

    @classmethod
    def created(cls, broker_id: int, host: str, port: int, epoch_ms: int) -> Self:
        """Return the entry of a broker that starts at `epoch_ms`, in milliseconds since 1970."""
        return cls(broker_id, host, port, f"{host}-{epoch_ms}")

    @property
    def address(self) -> str:
        """Return where it listens as `host:port`, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def text(self) -> str:
        """Return the znode's value, `creator:host:port`."""
        return f"{self.creator}:{self.host}:{self.port}"

    @classmethod
    def from_node(cls, path: str, broker_id: int, data: bytes | None) -> Self:
        """Read a broker from `data`, the value of its znode at `path`. Raises MalformedNode."""
        text = text_from(path, data)
        match = _BROKER.fullmatch(text)
        if match is None or not 0 < int(match["port"]) < 65536:
            raise MalformedNode(path, text, "not creator:host:port")
        return cls(broker_id, match["host"], int(match["port"]), match["creator"])


class TlsListener(NamedTuple):
    """Where a broker listens by TLS."""

    host: str
    port: int

    @property
    def text(self) -> str:
        """The znode's text: JSON, so that more can be said later."""
        return json.dumps({"tls": f"{self.host}:{self.port}"})

    @classmethod
    def from_node(cls, path: str, data: bytes | None) -> Self:
        """Read a broker's znode of listeners at `path`. Raises MalformedNode."""
        text = text_from(path, data)
        try:
            address = json.loads(text)["tls"]
            host, _, port = address.rpartition(":")
            listener = cls(host, int(port))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise MalformedNode(path, text, 'not {"tls": "host:port"}') from None
        if not host or not 0 < listener.port < 65536:
            raise MalformedNode(path, text, "not host:port")
        return listener


class TopicPartition(NamedTuple):
    """Names one partition of a cluster: its topic, its broker, and its number there, counted from 0.

    Sorts by topic, then as numbers, which is how producers divide keys. Consumers divide partitions in the order of
    `znode_name`, where `0-10` comes before `0-2`.
    """

    topic: str
    broker_id: int
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker_id}-{self.partition}"

    @property
    def znode_name(self) -> str:
        """Return its name under a topic's znode, `{broker id}-{partition}`."""
        return f"{self.broker_id}-{self.partition}"

    @classmethod
    def from_znode_name(cls, topic: str, name: str, under: str = "") -> Self:
        """Return the partition that a znode's name stands for; `under` is the parent's path. Raises MalformedNode."""
        match = _PARTITION.fullmatch(name)
        if match is None or max(int(match[1]), int(match[2])) > MAX_INT32:
            raise MalformedNode(f"{under}/{name}" if under else name, name, "not {broker id}-{partition}")
        return cls(topic, int(match[1]), int(match[2]))

    @classmethod
    def of_node(cls, topic: str, path: str) -> Self:
        """Return the partition that a znode's path stands for. Raises MalformedNode."""
        under, _, name = path.rpartition("/")
        return cls.from_znode_name(topic, name, under)

    @classmethod
    def all_of(cls, topic: str, counts: Mapping[int, int]) -> list[Self]:
        """Return a topic's partitions, sorted; `counts` maps a broker's id to how many it has registered."""
        return [cls(topic, broker_id, number) for broker_id in sorted(counts) for number in range(counts[broker_id])]
