"""Settings of a gateway for clients of Kafka 0.8 and later."""

from __future__ import annotations

from collections.abc import Collection  # noqa: TC003  # a field's type
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  # a field's type
from typing import ClassVar

from kafka2011.config.broker import DEFAULT_QUEUED_MAX_BYTES
from kafka2011.config.kinds import (
    MAX_INT64,
    ZK_CONNECT,
    Boolean,
    Directory,
    File,
    Host,
    Integer,
    PatternKind,
    Topics,
)
from kafka2011.config.settings import Fallback, Settings, same_as, setting
from kafka2011.errors import ConfigError

_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104  # named in order to be refused as a name for clients


def _shown_name(config: GatewayConfig) -> str:
    if config.bind_address == _ALL_ADDRESSES:
        raise ConfigError(
            f"advertised.host must be given when bind.address is {config.bind_address}: clients connect to it"
        )
    return config.bind_address


def _queued_max_bytes(config: GatewayConfig) -> int:
    return max(DEFAULT_QUEUED_MAX_BYTES, config.max_socket_request_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig(Settings):
    """Holds the settings of a gateway. Those that a broker has too mean the same here; port 0 picks a free one."""

    COMPONENT: ClassVar[str] = "gateway"

    zk_connect: str = setting(None, ZK_CONNECT, "ZooKeeper's servers, `host:port,host:port`, and a `/chroot`.")
    zk_sessiontimeout_ms: int = setting(6000, Integer(1), "Silence after which ZooKeeper considers this gateway dead.")
    zk_connectiontimeout_ms: int = setting(
        None, Integer(1), "How long to wait for ZooKeeper at the start.", fallback=same_as("zk.sessiontimeout.ms")
    )
    directory: Path = setting(
        None,
        Directory(),
        "Where the gateway keeps the numbers of messages: an index of each partition. It must survive a restart.",
    )

    bind_address: str = setting("127.0.0.1", Host(), "The IPv4 address to listen on; 0.0.0.0 means all.")
    port: int = setting(9092, Integer(0, 65535), "The port to listen on; 0 picks a free one.")
    advertised_host: str = setting(
        None,
        Host(),
        "The host that clients are told to connect to. Must be given when the gateway listens on all addresses.",
        fallback=Fallback("`bind.address`", _shown_name),
    )
    tls_port: int = setting(
        -1, Integer(-1, 65535), "Another port that listens over TLS; 0 picks a free one, -1 turns it off."
    )
    tls_only: bool = setting(False, Boolean(), "Listen over TLS on `port`, and on no other port.")
    tls_certificate: str = setting("", File(), "The gateway's certificate, and those between it and its signer: PEM.")
    tls_key: str = setting("", File(), "The key of that certificate: PEM.")
    tls_ca: str = setting(
        "", File(), "The authority that signs clients' certificates: PEM. Without it, clients need no certificate."
    )
    tls_client_required: bool = setting(False, Boolean(), "Refuse clients that show no certificate.")
    tls_principal_rule: str = setting(
        "CN=([^,]+)",
        PatternKind(),
        "The regular expression whose first group finds a client's principal in its certificate's subject,"
        " `C=DE,O=shop,CN=reports`.",
    )
    allow_file: str = setting(
        "",
        File(),
        "The file that says which principals may produce to and consume from which topics; without it, everybody may."
        " Use the brokers' file, and let the brokers allow the gateway's certificate.",
    )
    quota_file: str = setting(
        "",
        File(),
        "The file that says how many bytes a second principals may produce and fetch; without it there is no limit.",
    )
    max_connections: int = setting(
        0,
        Integer(0),
        "The most connections; further ones are closed. 0 means half of the limit on open files, which is"
        " also the upper bound.",
    )
    max_connections_per_address: int = setting(
        0, Integer(0), "The most connections from one address; further ones are closed. 0: no limit."
    )
    connections_max_idle_ms: int = setting(
        600_000, Integer(-1), "Close a connection that sends nothing for this time; -1 or 0 turns this off."
    )
    max_socket_request_bytes: int = setting(
        100 * 1024 * 1024,
        Integer(1),
        "Larger requests, and batches that decompress to more bytes, are refused.",
    )
    queued_max_bytes: int = setting(
        None,
        Integer(1, MAX_INT64),
        "Memory for the requests of all connections together, in bytes. When it is full, connections wait.",
        fallback=Fallback(
            f"`{DEFAULT_QUEUED_MAX_BYTES}`, or `max.socket.request.bytes` if larger",
            _queued_max_bytes,
        ),
    )
    socket_send_buffer: int = setting(0, Integer(0), "SO_SNDBUF of a connection, in bytes; 0: left to the kernel.")
    socket_receive_buffer: int = setting(102400, Integer(1), "SO_RCVBUF of a connection, in bytes.")

    auto_create_topics: bool = setting(
        True, Boolean(), "Create a topic that a client asks for by name, with one partition on each broker."
    )
    max_message_size: int = setting(
        1_000_000,
        Integer(1),
        "A record that makes a larger message is refused. At most the brokers' own setting.",
    )
    max_set_bytes: int = setting(
        256 * 1024,
        Integer(1024),
        "A batch of a client is divided into compressed sets of at most this size, so that 0.7 consumers, who fetch"
        " 300 KiB or 1 MiB at once, can read each.",
    )
    plain_topics: Collection[str] = setting(
        "",
        Topics(),
        "Topics whose records are stored as plain messages, for 0.7 clients that know no compression: keys, headers"
        " and timestamps are dropped, and producers with idempotence are refused.",
    )
    request_timeout_ms: int = setting(
        30_000,
        Integer(1),
        "How long a broker may take to answer, and a record to become readable.",
    )

    metrics_port: int = setting(
        -1, Integer(-1, 65535), "The port where Prometheus reads metrics; 0 picks a free one, -1 turns it off."
    )
    metrics_bind_address: str = setting("127.0.0.1", Host(), "The IPv4 address of that port; 0.0.0.0 means all.")

    @property
    def has_tls(self) -> bool:
        """Return whether the gateway listens over TLS anywhere."""
        return self.tls_only or self.tls_port >= 0

    def _check(self) -> None:
        if self.queued_max_bytes < self.max_socket_request_bytes:
            raise ConfigError(
                f"queued.max.bytes ({self.queued_max_bytes}) is less than max.socket.request.bytes"
                f" ({self.max_socket_request_bytes}), so the largest request could never be read"
            )
        if self.has_tls and not (self.tls_certificate and self.tls_key):
            raise ConfigError("tls.port and tls.only need tls.certificate and tls.key")
        if self.tls_only and self.tls_port >= 0:
            raise ConfigError(
                "tls.port and tls.only exclude one another: with tls.only the gateway listens on `port` only"
            )
        if self.tls_client_required and not self.tls_ca:
            raise ConfigError("tls.client.required needs tls.ca, which says whose certificates are good")
        if self.advertised_host == _ALL_ADDRESSES:
            raise ConfigError(f"advertised.host: clients cannot connect to {self.advertised_host}")
