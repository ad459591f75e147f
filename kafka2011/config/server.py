"""Settings that brokers and gateways share: where they listen, and what connections may use."""

from __future__ import annotations

from dataclasses import dataclass

from kafka2011.config.kinds import MAX_INT64, Boolean, File, Host, Integer, PatternKind
from kafka2011.config.settings import Fallback, Settings, setting
from kafka2011.errors import ConfigError

_DEFAULT_QUEUED_MAX_BYTES = 256 * 1024 * 1024
_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104  # named in order to be refused as a name for clients


def name_for_clients(key: str) -> Fallback:
    """Take `bind.address` for the setting `key`, which is the name that clients connect to."""

    def value(config: ServerConfig) -> str:
        if config.bind_address == _ALL_ADDRESSES:
            raise ConfigError(
                f"{key} must be given when bind.address is {config.bind_address}: it is the name that clients"
                " connect to"
            )
        return config.bind_address

    return Fallback("`bind.address`", value)


def check_name_for_clients(key: str, name: str) -> None:
    """Refuse a name that no client can connect to. Raises ConfigError with the setting's key."""
    if name == _ALL_ADDRESSES:
        raise ConfigError(f"{key}: clients cannot connect to {name}")


def _queued_max_bytes(config: ServerConfig) -> int:
    return max(_DEFAULT_QUEUED_MAX_BYTES, config.max_socket_request_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig(Settings):
    """Holds the settings of a server's ports, connections and metrics; port 0 picks a free one."""

    bind_address: str = setting("127.0.0.1", Host(), "The IPv4 address to listen on; 0.0.0.0 means all.")
    port: int = setting(0, Integer(0, 65535), "The port to listen on; 0 picks a free one.")
    tls_port: int = setting(
        -1, Integer(-1, 65535), "Another port that listens over TLS; 0 picks a free one, -1 turns it off."
    )
    tls_only: bool = setting(False, Boolean(), "Listen over TLS on `port`, and on no other port.")
    tls_certificate: str = setting("", File(), "The server's certificate, and those between it and its signer: PEM.")
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
        "The file that says which principals may produce to and consume from which topics; without it, everybody may.",
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
        -1, Integer(-1), "Close a connection that sends nothing for this time; -1 or 0 turns this off."
    )
    max_socket_request_bytes: int = setting(
        100 * 1024 * 1024,
        Integer(1),
        "Larger requests, and compressed sets that decompress to more bytes, are refused.",
    )
    queued_max_bytes: int = setting(
        None,
        Integer(1, MAX_INT64),
        "Memory for the requests of all connections together, in bytes. When it is full, connections wait."
        " At least `max.socket.request.bytes`.",
        fallback=Fallback(
            f"`{_DEFAULT_QUEUED_MAX_BYTES}`, or `max.socket.request.bytes` if larger",
            _queued_max_bytes,
        ),
    )
    socket_send_buffer: int = setting(
        0,
        Integer(0),
        "SO_SNDBUF of a connection, in bytes. 0: 256 KiB for clients on this machine, left to the kernel for others.",
    )
    socket_receive_buffer: int = setting(102400, Integer(1), "SO_RCVBUF of a connection, in bytes.")

    metrics_port: int = setting(
        -1, Integer(-1, 65535), "The port where Prometheus reads metrics; 0 picks a free one, -1 turns it off."
    )
    metrics_bind_address: str = setting("127.0.0.1", Host(), "The IPv4 address of that port; 0.0.0.0 means all.")

    @property
    def has_tls(self) -> bool:
        """Return whether the server listens over TLS anywhere."""
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
                f"tls.port and tls.only exclude one another: with tls.only the {self.COMPONENT} listens on `port` only"
            )
        if self.tls_client_required and not self.tls_ca:
            raise ConfigError("tls.client.required needs tls.ca, which says whose certificates are good")
