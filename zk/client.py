"""The ZooKeeper client: kazoo's, with eight gaps closed that leases and commits cannot tolerate.

- kazoo keeps calls that are made while it is not connected and sends them after the reconnect, in whatever session
  that brings. Ours refuses them at once (NotConnected), and refuses every call made `within_session` of another
  session. Checking, queueing and the change of state happen under one lock, so a call can only ever be sent on
  the connection, and in the session, that it was checked against.
- kazoo does not say what session timeout the server granted, nor when it asked for a session; a lease needs both.
- kazoo may spend a whole session timeout on one address that swallows packets. Ours gives each its share of it, so a
  session survives when only one address of several answers.
- kazoo numbers its requests from 1 again on every connection. A server tells a session's requests apart by number, so
  one that was under way over the last connection can be taken for one of this connection, and be answered in its place.
  Ours counts on.
- An answer to another request than the one expected ends kazoo's connection loop, and with it the client, for good.
  Ours connects again.
- A ZooKeeper that was put back to an earlier copy refuses, without a word, whoever has seen a newer transaction, and
  kazoo tries for ever. Ours asks such a server what it has, once the session must have ended, and begins a new one.
- With TLS, kazoo waits for a socket while further answers lie decrypted beside it, and under gevent its handshake stops
  every other greenlet. Ours looks there first, and shakes hands by gevent's own ssl.
- kazoo's timeouts under gevent derive from BaseException; nothing here uses them.
"""

from __future__ import annotations

import logging
import socket
import ssl
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionDropped, ConnectionLoss, SessionExpiredError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Auth, Connect
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import ACL, make_acl, make_digest_acl

from zk.clock import SYSTEM_CLOCK
from zk.four_letters import ask_over, newest_zxid
from zk.security import Security

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zk.clock import Clock

logger = logging.getLogger(__name__)

_FIRST_PATIENCE_S = 1.0
_NO_SUCH_NAME = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
_wanted_session: ContextVar[int | None] = ContextVar("wanted_session", default=None)


_kazoo_logger = logging.getLogger("zk.kazoo")


def _may_be_said(record: logging.LogRecord) -> bool:
    """Make kazoo's warnings, of every single try to connect, less than that: that all failed is an error of ours.

    And keep the password out of what it says of its requests.
    """
    if isinstance(record.args, tuple) and any(isinstance(argument, Auth) for argument in record.args):
        return False
    if record.levelno != logging.WARNING:
        return True
    record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
    return _kazoo_logger.isEnabledFor(logging.INFO)


_kazoo_logger.addFilter(_may_be_said)


def _ssl_of(handler: Any) -> Any:
    """Return the ssl whose handshakes wait as the handler's other calls do."""
    if isinstance(handler, SequentialThreadingHandler):
        return ssl
    return import_module("gevent.ssl")  # clients have no gevent


def _acl_of(security: Security) -> list[ACL] | None:
    """Return who may do what with znodes that we make; None leaves them open, as 0.7's are."""
    if not security.user:
        return None
    ours = [make_digest_acl(security.user, security.password, all=True)]
    return [*ours, make_acl("world", "anyone", read=True)] if security.others_may_read else ours


class CallRefused(ConnectionLoss):  # type: ignore[misc]  # kazoo is untyped
    """The call was never queued. A ConnectionLoss, so that kazoo's own recipes try it again."""


class _Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo is untyped
    """Records the server's answer to a connect, counts requests on, and waits for no address longer than its share.

    A server that has just started may swallow a connect and never answer. So the first answer is waited for only a
    short time, and each further one twice as long as the one before.
    """

    def __init__(self, client: ZkClient, retry_sleeper: Any, logger: logging.Logger) -> None:
        self._last_xid = 0
        super().__init__(client, retry_sleeper, logger=logger)
        self.handler = _PatientForAShare(client.handler, self)
        self._addresses = 1
        self._patience_s = _FIRST_PATIENCE_S
        self._refused_s: float | None = None  # since when every server that was reached has refused us

    @property
    def _xid(self) -> int:
        """The number of the last request."""
        return self._last_xid

    @_xid.setter
    def _xid(self, number: int | None) -> None:
        self._last_xid = number or self._last_xid  # kazoo sets it to 0 before it connects

    @property
    def share_s(self) -> float:
        """How long one address may take: all of them together less than the session lives."""
        return float(self.client.session_timeout_ms / 1000 / (self._addresses + 1))

    def _expand_client_hosts(self) -> Any:
        self.client.is_resolving = True
        hosts = super()._expand_client_hosts()
        self._addresses = max(len(hosts), 1)
        self.client.resolution_error = None if hosts else self._resolution_error()
        self.client.is_resolving = False
        return hosts

    def _resolution_error(self) -> socket.gaierror | None:
        """Return why no name resolves; one that may resolve later goes before one that does not exist."""
        worst = None
        for host, port in self.client.hosts:
            try:
                socket.getaddrinfo(host.strip(), port, 0, 0, socket.IPPROTO_TCP)
            except socket.gaierror as error:
                if worst is None or worst.errno in _NO_SUCH_NAME:
                    worst = error
            else:
                return None
        return worst

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        try:
            timeouts = super()._connect(host, hostip, port)
        except ConnectionDropped:
            if not self._has_gone_back(hostip, port):
                raise
        else:
            self._refused_s = None
            return timeouts
        logger.error("ZooKeeper at %s:%s was restored to an earlier state: starting a new session", host, port)
        self._refused_s, self.client.last_zxid = None, 0
        raise SessionExpiredError

    def _has_gone_back(self, host: str, port: int) -> bool:
        """Say whether a server that refuses us has not what we have seen, and our session must have ended."""
        now_s = self.client.clock.monotonic_s()
        if self._refused_s is None:
            self._refused_s = now_s
        if (now_s - self._refused_s) * 1000 <= self.client.session_timeout_ms:
            return False
        try:
            with self.handler.create_connection((host, port), hostname=host) as connection:
                zxid = newest_zxid(ask_over(connection, b"srvr", self.share_s))
        except OSError:
            return False
        return zxid is not None and zxid < self.client.last_zxid

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        if not isinstance(request, Connect):
            return super()._invoke(timeout, request, xid)
        asked_s = self.client.clock.monotonic_s()
        patience_s = min(timeout, self.share_s, self._patience_s)
        try:
            answer = super()._invoke(patience_s, request, xid)
        except self.handler.timeout_exception:
            self._patience_s = 2 * patience_s
            raise
        self._patience_s = _FIRST_PATIENCE_S
        self.client.granted_timeout_ms = answer[0].time_out
        self.client.connect_asked = (answer[0].session_id, asked_s)
        return answer

    def _read_response(self, header: Any, buffer: bytes, offset: int) -> Any:
        pending = self.client._pending
        if not pending or pending[0][2] != header.xid:
            expected = pending[0][2] if pending else "none"
            raise ConnectionDropped(f"the answer to request {header.xid} came in place of {expected}")
        return super()._read_response(header, buffer, offset)


class _PatientForAShare:
    """A handler of kazoo's whose connects take an address's share of the time, whatever kazoo asks for."""

    def __init__(self, handler: Any, connection: _Connection) -> None:
        self._handler = handler
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handler, name)

    def create_connection(self, address: tuple[str, int], hostname: str, **_named: Any) -> Any:
        """Connect as the handler does, and with TLS by a handshake that other greenlets are not kept waiting by."""
        client = self._connection.client
        plain = self._handler.create_connection(address, timeout=self._connection.share_s)
        if client.tls is None:
            return plain
        try:
            secured = client.tls.wrap_socket(plain, server_hostname=hostname, do_handshake_on_connect=False)
        except BaseException:
            plain.close()
            raise
        try:
            secured.settimeout(self._connection.share_s)
            secured.do_handshake()
        except BaseException as error:
            secured.close()
            client.tls_error = error
            raise
        client.tls_error = None
        return secured

    def select(self, readable: Any, writable: Any, failed: Any, timeout: float | None = None) -> Any:
        """Wait as the handler does, unless a TLS socket has decrypted bytes already, of which the system knows none."""
        is_ready = any(readable_socket.pending() for readable_socket in readable if hasattr(readable_socket, "pending"))
        ready = self._handler.select(readable, writable, failed, 0 if is_ready else timeout)
        if is_ready:
            ready[0].extend(
                readable_socket
                for readable_socket in readable
                if hasattr(readable_socket, "pending") and readable_socket not in ready[0]
            )
        return ready


class ZkClient(KazooClient):  # type: ignore[misc]  # kazoo is untyped
    """Speaks to ZooKeeper, and never queues a call over a reconnect; a context manager, returned by `connect`."""

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        handler: Any,
        clock: Clock = SYSTEM_CLOCK,
        security: Security = Security(),  # noqa: B008 (it never changes)
    ) -> None:
        self.security = security
        tls = security.zookeeper
        self.tls: ssl.SSLContext | None = None if tls is None else tls.context(_ssl_of(handler))
        self.tls_error: BaseException | None = None
        """Why the last handshake failed."""
        super().__init__(
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            handler=handler,
            logger=_kazoo_logger,
            auth_data=[("digest", f"{security.user}:{security.password}")] if security.user else [],
            default_acl=_acl_of(security),
            use_ssl=tls is not None,
            # Reconnecting is tried forever, and soon enough to save a session of two seconds.
            connection_retry=KazooRetry(
                max_tries=-1, delay=0.05, backoff=2, max_delay=1.0, sleep_func=handler.sleep_func
            ),
        )
        self.resolution_error: socket.gaierror | None = None
        """Why none of the hosts had an address at the last try."""
        self.is_resolving = False
        """Whether the hosts' addresses are being asked for right now, which takes long where no name server answers."""
        self._gate = handler.rlock_object()
        self._waking = handler.lock_object()
        self._connection = _Connection(self, self._conn_retry.copy(), logger=self.logger)
        self.requested_timeout_ms = session_timeout_ms
        self.granted_timeout_ms = 0
        self.clock = clock
        self.connect_asked = (0, 0.0)  # the last connect that was answered: its session, and when it was asked for

    @property
    def session_id(self) -> int | None:
        """The id of the session while connected, else None. When it differs from before, register again."""
        identity = self.client_id
        return identity[0] if identity else None

    @property
    def session_timeout_ms(self) -> int:
        """The session timeout that the server granted, which may differ from the one asked for."""
        return self.granted_timeout_ms or self.requested_timeout_ms

    @property
    def has_no_such_host(self) -> bool:
        """Whether no host exists, which trying again would not change."""
        return self.resolution_error is not None and self.resolution_error.errno in _NO_SUCH_NAME

    @contextmanager
    def within_session(self, session_id: int | None) -> Iterator[None]:
        """Refuse every call made in this block unless it goes out in that session; None allows any session."""
        token = _wanted_session.set(session_id)
        try:
            yield
        finally:
            _wanted_session.reset(token)

    def _call(self, request: Any, async_object: Any) -> bool | None:
        """Queue a request on the live connection, or fail its result; False then, as kazoo expects."""
        with self._gate:
            refusal = self._refusal()
            if refusal is None:
                self._queue.append((request, async_object))
                wake = self._connection._write_sock
        if refusal is not None:
            async_object.set_exception(refusal)
            return False
        # Outside the gate: this blocks while the socket pair is full, and the connection loop needs the gate. One at a
        # time: gevent lets no two greenlets wait for one socket.
        try:
            with self._waking:
                wake.send(b"\0")
        except (OSError, AttributeError):  # closed meanwhile
            async_object.set_exception(ConnectionClosedError("the client has been closed"))
        return None

    def _refusal(self) -> Exception | None:
        if self._live.is_set():
            wanted = _wanted_session.get()
            if wanted is None or wanted == self._session_id:
                return None
            return CallRefused("the session has changed")
        if self._state == KeeperState.EXPIRED_SESSION:
            return SessionExpiredError()  # type: ignore[no-any-return]
        if self._stopped.is_set():
            return CallRefused("the client has been closed")
        return CallRefused("not connected")

    def _session_callback(self, state: Any) -> None:
        with self._gate:
            super()._session_callback(state)

    def shutdown(self) -> None:
        """End the session and free all resources. May be called twice, and while ZooKeeper is away."""
        try:
            self.stop()
            self.close()
        except Exception as error:  # noqa: BLE001 - kazoo raises bare Exceptions when its loop is slow to end
            logger.warning("The ZooKeeper client did not close in order: %s", error)

    def abandon(self) -> None:
        """Shut down, without waiting for an address that may be silent just now."""
        self.handler.spawn(self.shutdown)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
