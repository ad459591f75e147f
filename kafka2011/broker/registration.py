"""How a broker is registered in ZooKeeper, and what it does with the topics that it reads there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafka2011.broker.registrar import BrokerRegistrar, Details
from kafka2011.errors import KafkaError
from kafka2011.log.log import LogFailedError
from kafka2011.log.segment import os_error_text
from kafka2011.replica.segments import SPOKEN
from zk.cluster import Broker, TlsListener
from zk.connecting import SessionSettings
from zk.replicas import Member
from zk.requests import RequestKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.broker.connections.socket_server import SocketServer
    from kafka2011.broker.registrar import LeaderSession
    from kafka2011.broker.replication.replication import Replication
    from kafka2011.config import BrokerConfig
    from kafka2011.log.log_manager import LogManager
    from kafka2011.replica.state import Replica
    from zk.client import ZkClient
    from zk.requests import PlacedRequest


class BrokerRegistration:
    """What a broker's registrar is told, and the registrar of a broker without replicas.

    With `replication` a registrar is made for each term in which this replica leads. `fail` stops the broker.
    """

    replication: Replication | None = None

    def __init__(
        self, config: BrokerConfig, logs: LogManager, sockets: SocketServer, fail: Callable[[BaseException], None]
    ) -> None:
        self._config = config
        self._logs = logs
        self._sockets = sockets
        self._fail = fail
        self._registrar: BrokerRegistrar | None = None

    @property
    def registrar(self) -> BrokerRegistrar | None:
        """What registers the broker now; None if nothing does."""
        return self._registrar if self.replication is None else self.replication.registrar

    @property
    def port(self) -> int:
        """The port that 0.7's clients find in ZooKeeper."""
        return self._sockets.ports[0]

    @property
    def tls_port(self) -> int | None:
        """The port where clients connect over TLS; None without one."""
        return self._sockets.ports[-1] if self._config.has_tls else None

    @property
    def is_connected(self) -> bool | None:
        """Whether there is a session in ZooKeeper now; None if there is to be none."""
        if not self._config.enable_zookeeper:
            return None
        if self.replication is not None:
            return self.replication.is_connected
        return self._registrar is not None and self._registrar.is_connected

    @property
    def obstacle(self) -> str | None:
        """Why the broker is not registered, and follows no replica that is; None if all is well."""
        if self.replication is not None:
            return self.replication.obstacle
        if self._registrar is not None and not self._registrar.is_registered:
            return "not registered in ZooKeeper"
        return None

    def counts(self) -> dict[str, int]:
        """Return what has been counted of sessions in ZooKeeper; nothing with replicas."""
        if self._registrar is None:
            return {}
        return {"zookeeper_sessions": self._registrar.sessions, "zookeeper_reconnects": self._registrar.reconnects}

    def start(self) -> None:
        """Register, or begin to follow or to lead, where ZooKeeper is to be used. Raises ZkError and KafkaError."""
        if self.replication is not None:
            self.replication.start(self.member)
        elif self._config.enable_zookeeper:
            self._registrar = self.new_registrar(self._fail)
            self._registrar.start()

    def stop(self, *, has_failed: bool) -> None:
        """End the session, and with it all that is registered; after a failure, at once."""
        if self.replication is not None:
            self.replication.stop(has_failed=has_failed)
        if self._registrar is not None:
            self._registrar.stop()

    def new_registrar(
        self, on_failure: Callable[[BaseException], None], led: LeaderSession | None = None
    ) -> BrokerRegistrar:
        """Return what registers this broker, in the session of a replica that leads if there is one."""
        config = self._config
        return BrokerRegistrar(
            SessionSettings(config.zk_connect, config.zk_sessiontimeout_ms, config.zk_connectiontimeout_ms),
            Broker.created(config.brokerid, config.hostname, self.port, int(time.time() * 1000)),
            self._logs.topics,
            on_failure=on_failure,
            join_topic=self._join_topic if config.join_topics else None,
            exact_counts=lambda: self._logs.counts.exact,
            carry_out=self.carry_out,
            details=Details(
                None if self.tls_port is None else TlsListener(config.hostname, self.tls_port),
                {item.key: item.kind.write(getattr(config, item.name)) for item in config.settings()},
            ),
            led=led,
        )

    def member(self, client: ZkClient, me: Replica) -> Member:
        """Return where other replicas reach this one: over TLS where all know how, or where there is no other way."""
        config = self._config
        if self.tls_port is not None and (config.tls_only or client.security.brokers is not None):
            return Member(config.hostname, self.tls_port, me.disk, by_tls=True, speaks=SPOKEN)
        return Member(config.hostname, self.port, me.disk, speaks=SPOKEN)

    def topic_added(self, topic: str, partitions: int) -> None:
        """Have a new topic registered soon; never waits."""
        if (registrar := self.registrar) is not None:
            registrar.topic_added(topic, partitions)

    def _join_topic(self, topic: str) -> None:
        try:
            self._logs.get_or_create(topic, 0)
        except LogFailedError as error:
            self._fail(error)

    def carry_out(self, topic: str, placed: PlacedRequest) -> None:
        """Create, grow or delete a topic, as an operator requests. Raises KafkaError, and ZkError to be asked again."""
        request = placed.request
        assert request is not None, "it was refused"
        try:
            if request.deletes:
                if request.kind is RequestKind.DELETE or self._may_undo_creation(topic):
                    self._delete(topic, placed)
                return
            if request.kind is not RequestKind.GROW and self.replication is not None:
                self.replication.check_exact()
            if request.kind is RequestKind.CREATE:
                self._logs.create_topic(topic, request.partitions)
            elif request.kind is RequestKind.GROW_EXACTLY and self._logs.num_partitions(topic) > request.partitions:
                raise KafkaError(f"topic {topic} has {self._logs.num_partitions(topic)} partitions")
            else:
                self._logs.room.check(topic, request.partitions, self._logs.topics())
                self._logs.grow_topic(topic, request.partitions)
                if request.kind is RequestKind.GROW_EXACTLY:
                    self._logs.counts.set_exact(topic, request.partitions)
            if self.replication is not None:
                self.replication.spread(topic, request.partitions)
        except LogFailedError as error:
            self._fail(error)
            raise
        except OSError as error:
            raise KafkaError(os_error_text("cannot list", self._logs.log_dir, error)) from error

    def _may_undo_creation(self, topic: str) -> bool:
        """Say whether the topic was created with an exact number. Raises KafkaError if it has, or had, messages."""
        is_exact = topic in self._logs.counts.exact
        if is_exact and any(log.appended_end_offset > 0 for log in self._logs.logs() if log.topic == topic):
            raise KafkaError(f"topic {topic} has messages by now")
        return is_exact

    def _delete(self, topic: str, placed: PlacedRequest) -> None:
        if self.replication is None:
            self._logs.delete_topic(topic)
        else:
            self.replication.delete(topic, placed.name)
