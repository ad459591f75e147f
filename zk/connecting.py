"""From the text of zk.connect to a connected client that lives under its chroot."""

from __future__ import annotations

from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

from zk.client import ZkClient
from zk.errors import NotConnected, ZkError, ZkUnavailable
from zk.nodes import Nodes

DEFAULT_SESSION_TIMEOUT_MS = 6000


def connect(
    zk_connect: str,
    session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
    connection_timeout_ms: int | None = None,
    handler: Any = None,
) -> ZkClient:
    """Connect to ZooKeeper and make the chroot of `zk_connect` (`host:port,host:port/chroot`) where it is missing.

    `connection_timeout_ms` defaults to the session timeout. `handler` is kazoo's seam for concurrency: plain
    threads by default, `kazoo.handlers.gevent.SequentialGeventHandler()` in a gevent program.
    Raises ZkError, naming `zk_connect`, when it makes no sense or nobody answers in time.
    """
    hosts, _, rest = zk_connect.partition("/")
    chroot = f"/{rest.strip('/')}" if rest.strip("/") else ""
    timeout_ms = session_timeout_ms if connection_timeout_ms is None else connection_timeout_ms
    try:
        client = ZkClient(hosts, session_timeout_ms, handler or SequentialThreadingHandler())
    except ValueError as error:
        raise ZkError(f"zk.connect {zk_connect!r} is not host:port,host:port/chroot: {error}") from error
    try:
        _await_connection(client, zk_connect, timeout_ms)
        if chroot:
            _make_chroot(client, chroot, zk_connect)
    except BaseException:
        client.abandon()
        raise
    return client


def _await_connection(client: ZkClient, zk_connect: str, timeout_ms: int) -> None:
    client.start_async().wait(timeout_ms / 1000)
    if not client.connected:
        raise NotConnected(f"no ZooKeeper answered at {zk_connect} within {timeout_ms} ms")


def _make_chroot(client: ZkClient, chroot: str, zk_connect: str) -> None:
    """Make the chroot as a plain path, then let the client live under it: nobody else has seen the client yet."""
    try:
        Nodes(client).ensure_persistent(chroot)
    except ZkUnavailable as error:
        raise NotConnected(f"ZooKeeper at {zk_connect} went away while its chroot was made: {error}") from error
    client.chroot = chroot
