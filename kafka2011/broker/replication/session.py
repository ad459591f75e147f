"""A replica's session in ZooKeeper: the life of all its nodes."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import gevent
from kazoo.handlers.gevent import SequentialGeventHandler

from zk.connecting import connect
from zk.errors import NoNode, ZkError
from zk.nodes import Nodes
from zk.replicas import ReplicaRegistry
from zk.sessions import SessionEvents, SessionLease
from zk.watchdog import SessionWatchdog

if TYPE_CHECKING:
    from collections.abc import Callable

    from gevent.threadpool import ThreadPool

    from kafka2011.config import BrokerConfig
    from kafka2011.replica.state import Replica
    from zk.client import ZkClient
    from zk.replicas import Member, ReplicaNodes

logger = logging.getLogger(__name__)

OLD_NODE_GRACE_MS = 5000
"""On top of the session timeout, for a former process of this name to go."""


class ReplicaSession:
    """One session, in which this replica is a member from the beginning; `end` ends it, and with it all its nodes.

    `wake` is called when the session or a node that was read has changed; `has_news` says whether one has, since it was
    made False. Raises NodeHeld when another process has this replica's name, and ZkError.
    """

    def __init__(
        self,
        config: BrokerConfig,
        me: Replica,
        member: Callable[[ZkClient, Replica], Member],
        wake: Callable[[], object],
        threads: ThreadPool,
    ) -> None:
        self._timeout_ms = config.zk_sessiontimeout_ms
        self._wake = wake
        self._threads = threads
        self.has_news = True
        self._is_member = True
        self.client = client = connect(
            config.zk_connect,
            config.zk_sessiontimeout_ms,
            config.zk_connectiontimeout_ms,
            SequentialGeventHandler(),
        )
        try:
            self.id = Nodes(client).session_id
            self.registry = ReplicaRegistry(client, config.brokerid, self.id)
            self._name, self._member = me.name, member(client, me)
            self.registry.join(me.name, self._member, self._timeout_ms + OLD_NODE_GRACE_MS)
        except BaseException:
            client.abandon()
            raise
        self._watchdog = _watchdog_of(client)
        self.lease = SessionLease(client, self.id)
        self._events = SessionEvents(client)
        self._events.wake(wake)
        self._renewing = gevent.spawn(self._renew)

    @property
    def is_connected(self) -> bool:
        """Whether it lives, and there is a connection for it."""
        return self.client.session_id is not None

    @property
    def has_ended(self) -> bool:
        """Whether ZooKeeper has ended it: the client has another one by now, or it outlived its znode.

        It does the latter if ZooKeeper has gone back to a copy that has the session and not the znode.
        """
        return not self._is_member or self.client.session_id not in {None, self.id}

    def read(self) -> ReplicaNodes:
        """Read what the replicas have in ZooKeeper, and watch it. Raises ZkError."""
        nodes = self.registry.read(self._note_news)
        self._is_member = self._name in nodes.members
        return nodes

    def tell(self, trouble: str, damage: str, seen: str) -> None:
        """Say in the member's znode what keeps this replica from leading and following, and what its disk has damaged.

        With it goes what its disk has seen by now: the znode's text may be of before ZooKeeper has gone back. Raises
        ZkError.
        """
        if (trouble, damage) != (self._member.trouble, self._member.damage):
            member = replace(self._member, trouble=trouble, damage=damage, seen=seen)
            try:
                self.registry.tell(self._name, member)
            except NoNode:  # the session has ended, as the next look finds out
                return
            self._member = member

    def end(self) -> None:
        """End it: its nodes are gone when this returns, or with the session's timeout."""
        self._renewing.kill()
        self.lease.end()
        self._events.close()
        leaving = gevent.spawn(self.client.shutdown)  # in a greenlet, because ZooKeeper may be out of reach
        leaving.join(self._timeout_ms / 1000)
        if not leaving.ready():
            leaving.kill(block=False)
        if self._watchdog is not None:
            self._threads.apply(self._watchdog.close)

    def beat(self, within_ms: int) -> None:
        """Have this process killed unless it beats again within this time, in ms. It is not killed if that is 0."""
        if self._watchdog is not None:
            self._watchdog.beat(within_ms)

    def _note_news(self, _event: object) -> None:
        self.has_news = True
        self._wake()

    def _renew(self) -> None:
        while True:
            try:
                self.lease.renew()
            except ZkError as error:
                logger.debug("the lease was not renewed: %s", error)
            gevent.sleep(self.lease.renew_interval_s)


def _watchdog_of(client: ZkClient) -> SessionWatchdog | None:
    """Have a client's session end with this process, not when its timeout is over: others lead that much sooner."""
    try:
        return SessionWatchdog(client)
    except OSError as error:
        logger.warning("no watchdog of the ZooKeeper session was started: %s", error)
        return None
