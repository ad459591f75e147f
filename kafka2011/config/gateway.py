"""Settings of a gateway for clients of Kafka 0.8 and later."""

from __future__ import annotations

from collections.abc import Collection  # noqa: TC003  # a field's type
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  # a field's type
from typing import ClassVar

from kafka2011.config.kinds import (
    ZK_CONNECT,
    Boolean,
    Directory,
    File,
    Host,
    Integer,
    Names,
    Topics,
)
from kafka2011.config.server import ServerConfig, check_name_for_clients, name_for_clients
from kafka2011.config.settings import same_as, setting
from kafka2011.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig(ServerConfig):
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

    port: int = setting(9092, Integer(0, 65535), "The port to listen on; 0 picks a free one.")
    advertised_host: str = setting(
        None,
        Host(),
        "The host that clients are told to connect to. Must be given when the gateway listens on all addresses.",
        fallback=name_for_clients("advertised.host"),
    )
    allow_file: str = setting(
        "",
        File(),
        "The file that says which principals may produce to and consume from which topics; without it, everybody may."
        " Use the brokers' file, and let the brokers allow the gateway's certificate.",
    )
    serve_guarded_brokers: bool = setting(
        False,
        Boolean(),
        "Serve brokers with `tls.only` or an `allow.file` though this gateway has none: whoever reaches it gets in.",
    )
    connections_max_idle_ms: int = setting(
        600_000, Integer(-1), "Close a connection that sends nothing for this time; -1 or 0 turns this off."
    )
    max_socket_request_bytes: int = setting(
        100 * 1024 * 1024,
        Integer(1),
        "Larger requests, and batches that decompress to more bytes, are refused.",
    )

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
    group_min_session_timeout_ms: int = setting(
        6000, Integer(1), "A member of a group that asks for a shorter session timeout is rejected."
    )
    group_max_session_timeout_ms: int = setting(
        1_800_000, Integer(1), "A member of a group that asks for a longer session timeout is rejected."
    )
    group_protocols: Collection[str] = setting(
        "",
        Names(),
        "Names of further assignment protocols, `name,...`, whose members may join groups. Their assignments must be"
        " plain lists of partitions, since the gateway writes no user data of the client's own assignor.",
    )
    request_timeout_ms: int = setting(
        30_000,
        Integer(1),
        "How long a broker may take to answer, and a record to become readable.",
    )

    def _check(self) -> None:
        ServerConfig._check(self)
        check_name_for_clients("advertised.host", self.advertised_host)
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ConfigError("group.min.session.timeout.ms is above group.max.session.timeout.ms")
