"""The gateway's server: its parts, put together, from start to stop."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

from gevent.event import Event
from kazoo.handlers.gevent import SequentialGeventHandler

from kafka2011.broker.background import BackgroundTasks
from kafka2011.broker.connections.listener import listeners_of
from kafka2011.broker.connections.socket_server import ConnectionSettings, SocketServer
from kafka2011.broker.memory.request_memory import RequestMemory
from kafka2011.broker.security.access import Access
from kafka2011.broker.security.quota import ClientQuota, Quotas
from kafka2011.disk import lock_directory
from kafka2011.errors import ConfigError, KafkaError
from kafka2011.gateway.anchors import ZkAnchors
from kafka2011.gateway.cache_files import CacheFaults, IndexCache, ListsCache
from kafka2011.gateway.catalogue import Catalogue
from kafka2011.gateway.claims import Claims
from kafka2011.gateway.connection import GatewayConnection, GatewayTlsConnection, caller_of
from kafka2011.gateway.groups.claims import GroupClaims
from kafka2011.gateway.groups.coordinator import Coordinator
from kafka2011.gateway.groups.directory import GroupDirectory
from kafka2011.gateway.groups.lookups import Lookups
from kafka2011.gateway.groups.offsets import GroupOffsets
from kafka2011.gateway.groups.peers import Peers
from kafka2011.gateway.guarded_brokers import fault_of
from kafka2011.gateway.metrics import GATEWAY_METRICS, gateway_samples, obstacle
from kafka2011.gateway.numbering.index_file import IndexDirectory
from kafka2011.gateway.numbering.partition_index import PartitionIndex
from kafka2011.gateway.partition_lists import ListsFile
from kafka2011.gateway.partitions import Partitions
from kafka2011.gateway.requests.context import Gateway
from kafka2011.gateway.topic_changes import TopicChanges
from kafka2011.metrics.exposition import check_extra
from zk.clock import SYSTEM_CLOCK
from zk.commit_notes import CommitNotes
from zk.connecting import connect
from zk.errors import ZkError
from zk.gateways import GatewayAddress, GatewayStatus

if TYPE_CHECKING:
    from kafka2011.broker.monitoring.exporter import Exporter
    from kafka2011.config import GatewayConfig
    from kafka2011.gateway.partition_log import PartitionLog
    from zk.client import ZkClient
    from zk.gateways import BrokerFault, GatewayRegistry

logger = logging.getLogger(__name__)

STOP_TIMEOUT_S = 5.0
START_INTERVAL_S = 10.0
"""How often it is looked whether retention has deleted the front of logs."""
IDLE_CHECK_S = 10.0


class GatewayServer:
    """One gateway, inside a process whose main loop is gevent's. `stop_requested` is set when it should be stopped.

    A context manager; `start` and `stop` may be called twice. Raises KafkaError when it does not start.
    """

    def __init__(self, config: GatewayConfig) -> None:
        self._config = config
        self.failure: BaseException | None = None
        self.stop_requested = Event()
        self._tasks = BackgroundTasks(self._fail)
        self._access = Access(Path(config.allow_file), SYSTEM_CLOCK) if config.allow_file else None
        self._quotas = Quotas(Path(config.quota_file), SYSTEM_CLOCK) if config.quota_file else None
        self.memory = RequestMemory.of(config)
        self.sockets = SocketServer(
            config.bind_address,
            listeners_of(config, GatewayConnection, GatewayTlsConnection),
            ConnectionSettings.of(config),
            new_pipeline=self._new_caller,
            memory=self.memory,
            buffers=None,
            clock=SYSTEM_CLOCK,
            on_failure=self._fail,
            is_fatal=lambda _: False,
        )
        self.gateway: Gateway | None = None
        self._exporter = self._new_exporter() if config.metrics_port >= 0 else None
        self._client: ZkClient | None = None
        self._faults = CacheFaults()
        self._not_served: dict[int, BrokerFault | None] = {}
        self._is_started = False
        self._lock_fd = -1

    @property
    def port(self) -> int:
        """The first port that clients connect to, once started."""
        return self.sockets.ports[0]

    def start(self) -> None:
        """Connect to ZooKeeper, listen, and claim brokers. Raises KafkaError."""
        if self._is_started:
            return
        self._is_started = True
        config = self._config
        if self._exporter is not None:
            self._exporter.start()
        with self._faults.attempt(config.directory):
            config.directory.mkdir(parents=True, exist_ok=True)
            self._lock(config.directory)
        self._client = client = connect(
            config.zk_connect, config.zk_sessiontimeout_ms, config.zk_connectiontimeout_ms, SequentialGeventHandler()
        )
        self._tasks.start()
        lists = ListsCache(ListsFile(config.directory / "topics.json"), self._faults)
        catalogue = Catalogue(client, lists, self._drop_changed)
        catalogue.start()
        for broker_id, fault in self._guarded(catalogue).items():
            raise ConfigError(f"this gateway cannot serve broker {broker_id}: {fault.text}; {fault.remedy}")
        self.sockets.bind()
        address = self._address(catalogue.registry)
        claims = Claims(client, catalogue, address, self._drop, status=self._status, may_serve=self._may_serve)
        partitions = Partitions(config, catalogue, claims, self._new_index)
        topic_changes = TopicChanges(config, catalogue)
        coordinator = Coordinator(client, config.zk_connect)
        peers = Peers(client.security.path, config.request_timeout_ms / 1000)
        lookups = Lookups(catalogue, claims, partitions, peers)
        group_claims = GroupClaims(catalogue.registry, claims, address, coordinator.drop)
        self.gateway = Gateway(
            config=config,
            catalogue=catalogue,
            claims=claims,
            partitions=partitions,
            topic_changes=topic_changes,
            group_claims=group_claims,
            coordinator=coordinator,
            group_directory=GroupDirectory(client),
            group_offsets=GroupOffsets(catalogue, lookups, CommitNotes(client)),
            lookups=lookups,
            address=address,
            counts=self.sockets.counts,
        )
        self.sockets.listen()
        claims.start()
        group_claims.start()
        coordinator.start()
        self._tasks.every(START_INTERVAL_S, self._refresh_starts)
        if config.connections_max_idle_ms > 0:
            self._tasks.every(IDLE_CHECK_S, self.sockets.close_idle)
        ports = " and ".join(map(str, self.sockets.ports))
        logger.info("the gateway listens on %s:%s", config.bind_address, ports)

    def stop(self) -> None:
        """Answer what has arrived, store what is known of numbers, and give claims back."""
        if not self._is_started:
            return
        self._is_started = False
        if self.gateway is not None:
            self.gateway.coordinator.end_joins()
        self.sockets.stop(STOP_TIMEOUT_S)
        self._tasks.stop()
        self._tasks.join()
        if self.gateway is not None:
            self.gateway.coordinator.stop()
            self.gateway.group_claims.stop()
            self.gateway.lookups.stop()
            self.gateway.partitions.stop()
            self.gateway.claims.stop()
            self.gateway.topic_changes.stop()
            self.gateway.catalogue.stop()
        if self._client is not None:
            self._client.shutdown()
        if self._exporter is not None:
            self._exporter.stop()
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _lock(self, directory: Path) -> None:
        try:
            self._lock_fd = lock_directory(directory)
        except BlockingIOError as error:
            raise ConfigError(f"directory {directory} is in use by another gateway: each needs its own") from error

    def counts(self) -> dict[str, int]:
        """Return what has been counted since the start."""
        return dict(self.sockets.counts)

    @property
    def metrics_port(self) -> int | None:
        """The port that shows metrics, once started; None without one."""
        return None if self._exporter is None else self._exporter.port

    def _new_exporter(self) -> Exporter:
        check_extra()
        from kafka2011.broker.monitoring.exporter import Exporter  # noqa: PLC0415  # needs an extra

        return Exporter(
            "the gateway",
            GATEWAY_METRICS,
            lambda: gateway_samples(self.gateway, self.sockets, self.memory.budget, self._faults),
            lambda: obstacle(self.gateway),
            self._config.metrics_bind_address,
            self._config.metrics_port,
        )

    def _guarded(self, catalogue: Catalogue) -> dict[int, BrokerFault]:
        """Return the brokers that this gateway does not serve, since it would let everybody in."""
        faults = {number: fault_of(self._config, settings) for number, settings in catalogue.settings.items()}
        return {number: fault for number, fault in faults.items() if fault is not None}

    def _may_serve(self, broker_id: int) -> bool:
        fault = None if self.gateway is None else self._guarded(self.gateway.catalogue).get(broker_id)
        if fault is not None and self._not_served.get(broker_id) != fault:
            logger.warning("this gateway does not serve broker %d: %s; %s", broker_id, *fault)
        self._not_served[broker_id] = fault
        return fault is None

    def _status(self) -> GatewayStatus:
        gateway = self.gateway
        faults = {} if gateway is None else gateway.partitions.slow_brokers() | self._guarded(gateway.catalogue)
        return GatewayStatus(self._faults.text, faults)

    def _address(self, registry: GatewayRegistry) -> GatewayAddress:
        config, ports = self._config, self.sockets.ports
        node_id = registry.node_id(config.advertised_host, ports[0])
        return GatewayAddress(node_id, config.advertised_host, ports[0], ports[-1] if config.has_tls else None)

    def _new_caller(self, connection: GatewayConnection | GatewayTlsConnection) -> object:
        assert self.gateway is not None
        if self._quotas is not None:
            connection.quota = ClientQuota(self._quotas, connection.principal, connection.name)
        return caller_of(connection, self.gateway, None if self._access is None else self._access.may)

    def _new_index(self, log: PartitionLog) -> PartitionIndex:
        assert self.gateway is not None
        path = self._config.directory / f"{log.topic_id.hex}-{log.where.znode_name}"
        file = IndexCache(IndexDirectory(path), path, self._faults)
        claims, where = self.gateway.claims, log.where
        anchors = ZkAnchors(self.gateway.catalogue.registry, log.topic_id, where, lambda: claims.holds(where.broker_id))
        return PartitionIndex(log, log.find_pieces, file, anchors, floor=log.floor)

    def _refresh_starts(self) -> None:
        for log in [] if self.gateway is None else self.gateway.partitions.logs:
            try:
                if log.is_current:
                    log.refresh_start()
            except (KafkaError, OSError) as error:
                logger.warning("the start of %s is not known: %s", log.where, error)

    def _drop_changed(self) -> None:
        if self.gateway is not None:
            self.gateway.partitions.drop_changed()

    def _drop(self, broker_id: int) -> None:
        if self.gateway is not None:
            self.gateway.partitions.drop(broker_id)

    def _fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
            is_expected = isinstance(error, KafkaError | ZkError)
            logger.critical("the gateway stops: %s", error, exc_info=None if is_expected else error)
        self.stop_requested.set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
