"""The ports that a broker listens on, and what kind of connection each of them accepts."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.broker.connections.client_connection import Connection
from kafka2011.broker.connections.tls import TlsConnection
from kafka2011.broker.security.certificates import Certificates
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.config import ServerConfig


class Listener(NamedTuple):
    """One port, where 0 picks a free one, and what makes the connections that are accepted there."""

    port: int
    new_connection: Callable[..., Connection] = Connection


def listeners_of(
    config: ServerConfig,
    plain: type[Connection] = Connection,
    secured: type[TlsConnection] = TlsConnection,
) -> list[Listener]:
    """Return a server's listeners: the plain one, the one with TLS, or both in this order. Raises ConfigError.

    `plain` and `secured` are the classes of their connections.
    """
    if not config.has_tls:
        return [Listener(config.port, plain)]
    certificates = Certificates(
        Path(config.tls_certificate),
        Path(config.tls_key),
        Path(config.tls_ca) if config.tls_ca else None,
        required=config.tls_client_required,
        clock=SYSTEM_CLOCK,
    )
    new_tls = partial(secured, certificates=certificates, rule=re.compile(config.tls_principal_rule))
    if config.tls_only:
        return [Listener(config.port, new_tls)]
    return [Listener(config.port, plain), Listener(config.tls_port, new_tls)]
