"""From the text of zk.connect to a connected client that lives under its chroot."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

from zk.client import ZkClient
from zk.errors import NotConnected, ZkError, ZkUnavailable
from zk.four_letters import ask
from zk.nodes import Nodes
from zk.security import read_address

logger = logging.getLogger(__name__)

DEFAULT_SESSION_TIMEOUT_MS = 6000


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Which ZooKeeper a process connects to, and how long its session and its first connection may take."""

    zk_connect: str
    session_timeout_ms: int
    connection_timeout_ms: int


_LOOK_S = 0.05
_ASK_S = 0.5


def connect(
    zk_connect: str,
    session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
    connection_timeout_ms: int | None = None,
    handler: Any = None,
) -> ZkClient:
    """Connect to ZooKeeper and return the client; a missing chroot of `zk_connect` is created.

    `zk_connect` is `host:port,host:port/chroot`. `?security=FILE` at its end names a file with the settings for a
    secured ZooKeeper (`zk.security` describes it). The session ends when ZooKeeper does not hear of the client for
    `session_timeout_ms` milliseconds. `connection_timeout_ms` is how long this call waits, by default as long as the
    session's timeout. `handler` chooses kazoo's threads: plain threads by default,
    `kazoo.handlers.gevent.SequentialGeventHandler()` in a gevent program.

    Raises ZkError, naming `zk_connect`, when the text cannot be read or no server answers in time. In plain threads it
    is raised at once when none of the hosts exists, except in a server, whose names may be registered later.
    """
    hosts, chroot, security = read_address(zk_connect)
    timeout_ms = session_timeout_ms if connection_timeout_ms is None else connection_timeout_ms
    try:
        client = ZkClient(hosts, session_timeout_ms, handler or SequentialThreadingHandler(), security=security)
    except ValueError as error:
        raise ZkError(f"zk.connect {zk_connect!r} is not host:port,host:port/chroot: {error}") from error
    try:
        _await_connection(client, zk_connect, timeout_ms, is_patient=handler is not None)
        if chroot:
            _make_chroot(client, chroot, zk_connect)
    except BaseException:
        client.abandon()
        raise
    return client


def _await_connection(client: ZkClient, zk_connect: str, timeout_ms: int, *, is_patient: bool) -> None:
    deadline_s = client.clock.monotonic_s() + timeout_ms / 1000
    try:
        started = client.start_async()
    except OSError as refused:  # kazoo opens a pair of sockets first, for which there may be no file descriptor
        raise NotConnected(f"no connection to ZooKeeper at {zk_connect} can be opened: {refused}") from refused
    is_told = False
    while not client.connected:
        error = client.resolution_error
        if error is not None and not is_told and (is_patient or not client.has_no_such_host):
            is_told = True
            logger.warning("%s: trying again, for %d ms in all", _unresolved(client, error), timeout_ms)
        left_s = deadline_s - client.clock.monotonic_s()
        if left_s <= 0 or (client.has_no_such_host and not is_patient):
            raise NotConnected(_why_not(client, zk_connect, timeout_ms, may_ask=not is_patient))
        started.wait(min(left_s, _LOOK_S))


def _why_not(client: ZkClient, zk_connect: str, timeout_ms: int, *, may_ask: bool) -> str:
    text = f"no ZooKeeper answered at {zk_connect} within {timeout_ms} ms"
    error = client.resolution_error
    if error is not None:
        return f"no ZooKeeper at {zk_connect}: {_unresolved(client, error)}"
    if client.is_resolving:
        return f"{text}: no name server has said where {_hosts(client)} is"
    if client.tls_error is not None:
        return f"{text}: {client.tls_error}"
    may_ask = may_ask and client.tls is None
    strangers = [f"{host}:{port}" for host, port in client.hosts if may_ask and _is_stranger(host, port)]
    if strangers:
        text += f": what listens at {', '.join(strangers)} is no ZooKeeper (a broker perhaps?)"
    return text


def _unresolved(client: ZkClient, error: OSError) -> str:
    return f"{_hosts(client)} cannot be resolved: {error.strerror}"


def _hosts(client: ZkClient) -> str:
    return ", ".join(host for host, _ in client.hosts)


def _is_stranger(host: str, port: int) -> bool:
    """Whether something listens there that does not answer as a ZooKeeper does, if only that it does not serve yet."""
    try:
        answer = ask(host, port, b"srvr", _ASK_S).lower()
    except ConnectionResetError:
        return True
    except OSError:
        return False
    return "zookeeper" not in answer and "whitelist" not in answer


def _make_chroot(client: ZkClient, chroot: str, zk_connect: str) -> None:
    """Make the chroot as a plain path, then let the client live under it: nobody else has seen the client yet."""
    try:
        Nodes(client).ensure_persistent(chroot)
    except ZkUnavailable as error:
        raise NotConnected(f"ZooKeeper at {zk_connect} went away while its chroot was made: {error}") from error
    client.chroot = chroot
