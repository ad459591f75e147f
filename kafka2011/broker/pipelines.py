"""Makes the pipeline of each connection: which stages its requests pass, in order."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kafka2011.broker.connections.client_connection import reset_on_close
from kafka2011.broker.replication.led_stages import LeadCheck, LeadStillHeld, ReplicaFrames
from kafka2011.broker.requests.handlers import Client
from kafka2011.broker.requests.message_check import MessageChecker
from kafka2011.broker.requests.pipeline import PlainProduces, RequestPipeline
from kafka2011.broker.requests.stages import AccessCheck, FailureCheck, Handle, ProduceQuota, decode
from kafka2011.broker.security.quota import ClientQuota

if TYPE_CHECKING:
    from kafka2011.broker.connections.client_connection import Connection
    from kafka2011.broker.replication.led_client import LedClient
    from kafka2011.broker.replication.replication import Replication
    from kafka2011.broker.replication.segment_server import SegmentServer
    from kafka2011.broker.requests.handlers import RequestHandlers
    from kafka2011.broker.requests.parking import Parking
    from kafka2011.broker.requests.stages import MayUse, Stage
    from kafka2011.broker.security.access import Access
    from kafka2011.broker.security.quota import Quotas
    from kafka2011.config import BrokerConfig
    from kafka2011.log.log_manager import LogManager


class Pipelines:
    """Holds what the pipelines share; `access`, `quotas`, `replication`, `segments` are None where there are none."""

    def __init__(
        self,
        config: BrokerConfig,
        logs: LogManager,
        handlers: RequestHandlers,
        parking: Parking,
        failure: FailureCheck,
        *,
        access: Access | None,
        quotas: Quotas | None,
        replication: Replication | None,
        segments: SegmentServer | None,
    ) -> None:
        self._config = config
        self._logs = logs
        self._handlers = handlers
        self._parking = parking
        self._failure = failure
        self._access = access
        self.quotas = quotas
        self._replication = replication
        self._segments = segments

    def new(self, connection: Connection) -> RequestPipeline:
        """Return the pipeline of a connection, which gets its quota, if it has one."""
        may_use = None if self._access is None else partial(self._access.may, connection.principal)
        quota = None
        if self.quotas is not None:
            quota = connection.quota = ClientQuota(self.quotas, connection.principal, connection.name)
        led = (
            None
            if self._replication is None
            else self._replication.new_client(lambda: reset_on_close(connection.socket))
        )
        client = self._client(connection, led)
        stages: list[Stage | None] = [
            None if led is None else self._replica_frames(led, connection, may_use),
            None if led is None else LeadCheck(led),
            self._failure,
            decode,
            None if quota is None else ProduceQuota(quota),
            None if may_use is None else AccessCheck(may_use, client),
            Handle(self._handlers, client),
            None if led is None else LeadStillHeld(led),
        ]
        plain_produces = PlainProduces(
            self._handlers,
            client,
            self._failure,
            check_lead=None if led is None else partial(led.check, is_produce=True),
            may_use=may_use,
            quota=quota,
        )
        return RequestPipeline(filter(None, stages), plain_produces, self._handlers.times)

    def _client(self, connection: Connection, led: LedClient | None) -> Client:
        checker = MessageChecker(
            self._config.max_message_size,
            self._config.max_socket_request_bytes,
            connection.pause,
            connection.opened_claim.resize,
        )
        return Client(
            checker,
            partial(connection.park, self._parking),
            f"{connection.principal} at {connection.name}",
            None if led is None else led.appended,
            self._config.allow_file,
        )

    def _replica_frames(self, led: LedClient, connection: Connection, may_use: MayUse | None) -> ReplicaFrames:
        assert self._replication is not None
        return ReplicaFrames(
            led,
            connection,
            self._config.brokerid,
            leading=self._replication.leading_now,
            topics=self._logs.topics,
            may_use=may_use,
            segments=self._segments,
        )
