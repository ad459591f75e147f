"""The parts of a broker, put together: this is the list of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gevent.event import Event

from kafka2011.broker.background import BackgroundTasks
from kafka2011.broker.clock_comparison import ClockComparison
from kafka2011.broker.connections.file_limit import log_limit
from kafka2011.broker.connections.listener import listeners_of
from kafka2011.broker.connections.socket_server import ConnectionSettings, SocketServer
from kafka2011.broker.flushing.disk_threads import DiskThreads
from kafka2011.broker.flushing.flush_scheduler import FlushScheduler
from kafka2011.broker.log_events import LogEvents
from kafka2011.broker.memory.request_memory import RequestMemory
from kafka2011.broker.monitoring.metrics import BROKER_METRICS, broker_samples, disk_samples
from kafka2011.broker.pipelines import Pipelines
from kafka2011.broker.registration import BrokerRegistration
from kafka2011.broker.replication.repairer import Repairer
from kafka2011.broker.replication.replica_log import ReplicaLogs
from kafka2011.broker.replication.replication import Replication
from kafka2011.broker.replication.segment_comparer import SegmentComparer
from kafka2011.broker.replication.segment_server import SegmentServer
from kafka2011.broker.requests import receive_buffer
from kafka2011.broker.requests.handlers import RequestHandlers
from kafka2011.broker.requests.parking import PART_BYTES, Parking
from kafka2011.broker.requests.stages import FailureCheck
from kafka2011.broker.scrubber import Scrubber
from kafka2011.broker.security.access import Access
from kafka2011.broker.security.quota import Quotas
from kafka2011.broker.status import BrokerStatus
from kafka2011.log.label import Label
from kafka2011.log.log import LogFailedError, LogHooks
from kafka2011.log.log_manager import LogManager, TopicSettings
from kafka2011.log.log_settings import LogSettings
from kafka2011.log.scrub_record import ScrubFile
from kafka2011.metrics.exposition import check_extra
from kafka2011.replica.known_file import KnownFile, is_known_file
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.broker.monitoring.exporter import Exporter
    from kafka2011.config import BrokerConfig

PARKED_SHARE = 1 / 8
"""What parked requests may take in memory, beside `queued.max.bytes` and as a part of it."""


class BrokerParts:
    """What a broker consists of. `fail` stops it, and `failure` returns why; None while it is well.

    A part that needs one below it in this list is given a function that calls it.
    """

    def __init__(
        self,
        config: BrokerConfig,
        fail: Callable[[BaseException], None],
        failure: Callable[[], BaseException | None],
    ) -> None:
        self._config = config
        self._fail = fail
        self.tasks = BackgroundTasks(fail)
        self.parked_until = Event()  # set when that has become earlier
        self.parking = Parking(_max_parked_parts(config), SYSTEM_CLOCK, self.parked_until.set)
        self.flushes = self._new_flushes()
        self.events = LogEvents(self.flushes, self.parking)
        self.disk = DiskThreads()
        self.logs = self._new_logs()
        self.scrubber = Scrubber(
            self.logs,
            ScrubFile(config.log_dir, DiskThreads()),
            self.tasks.stopping,
            config.log_scrub_bytes_per_second,
            config.log_scrub_interval_hours,
        )
        self.handlers = RequestHandlers(self.logs)
        self.memory = RequestMemory.of(config)
        self.sockets = self._new_sockets()
        self.registration = self.events.registration = BrokerRegistration(config, self.logs, self.sockets, fail)
        self.replication = self._new_replication() if config.replica_name else None
        self.clock_comparison = ClockComparison(self.logs.retention_clock, self.registration, SYSTEM_CLOCK)
        self.registration.replication = self.events.replication = self.replication
        self.repairer = None if self.replication is None else self._new_repairer(self.replication)
        self.pipelines = Pipelines(
            config,
            self.logs,
            self.handlers,
            self.parking,
            FailureCheck(failure),
            access=Access(Path(config.allow_file), SYSTEM_CLOCK) if config.allow_file else None,
            quotas=Quotas(Path(config.quota_file), SYSTEM_CLOCK) if config.quota_file else None,
            replication=self.replication,
            segments=self._new_segment_server(),
        )
        self.status = BrokerStatus(
            self.logs, self.sockets, self.handlers, self.parking, self.memory, self.registration, failure
        )
        self.exporter = _new_exporter(config, self.status) if config.metrics_port >= 0 else None

    def _new_flushes(self) -> FlushScheduler:
        return FlushScheduler(
            lambda logs: self.logs.flush(logs),  # noqa: PLW0108 - there are no logs yet
            self.parking.is_awaited,
            self._config.log_flush_awaited_ms,
            self.tasks,
            SYSTEM_CLOCK,
        )

    def _new_logs(self) -> LogManager:
        config, events = self._config, self.events
        return LogManager(
            config.log_dir,
            TopicSettings(
                num_partitions=config.num_partitions,
                partitions_by_topic=config.topic_partition_count_map,
                max_topic_name_length=config.max_topic_name_length,
                of=partial(LogSettings.of, config),
                limit=log_limit(ConnectionSettings.of(config).max_connections),
            ),
            clock=SYSTEM_CLOCK,
            disk=self.disk,
            hooks=LogHooks(
                request_flush=events.request_flush,
                on_readable=events.note_readable,
                on_awaited=events.note_appended,
                on_flushed=events.note_flushed if config.replica_name else None,
            ),
            on_new_topic=events.note_new_topic,
            label=Label(config.brokerid, is_required=config.log_dir_label_required),
            is_others=is_known_file,
            is_clock_compared=config.enable_zookeeper,
        )

    def _new_sockets(self) -> SocketServer:
        config = self._config
        return SocketServer(
            config.bind_address,
            listeners_of(config),
            ConnectionSettings.of(config, config.num_threads),
            new_pipeline=lambda connection: self.pipelines.new(connection),  # noqa: PLW0108 - there are none yet
            memory=self.memory,
            buffers=receive_buffer.new_buffers(config.max_socket_request_bytes, config.max_message_size),
            clock=SYSTEM_CLOCK,
            on_failure=self._fail,
            is_fatal=lambda error: isinstance(error, LogFailedError),
        )

    def _new_replication(self) -> Replication:
        config = self._config
        return Replication(
            config,
            ReplicaLogs(self.logs, config.brokerid),
            KnownFile(config.log_dir, self.disk),
            parking=self.parking,
            request_flush=self.events.request_flush,
            new_registrar=self.registration.new_registrar,
            end_clients=self.sockets.end_connections,
            on_failure=self._fail,
            disk_waits_s=self.disk.waits_s,
        )

    def _new_repairer(self, replication: Replication) -> Repairer:
        repairer = Repairer(
            self.logs,
            self._config.brokerid,
            replication.view,
            self.tasks.stopping,
            DiskThreads(),
            self.scrubber.store,
        )
        self.scrubber.on_damage = repairer.wake
        comparer = SegmentComparer(self._config.brokerid, replication.view)
        self.scrubber.compare, self.scrubber.can_compare = comparer, comparer.is_ready
        return repairer

    def _new_segment_server(self) -> SegmentServer | None:
        replication, repairer = self.replication, self.repairer
        if replication is None or repairer is None:
            return None
        return SegmentServer(
            replication.logs, self._config.brokerid, repairer, replication.view, replication.leading_now
        )


def _max_parked_parts(config: BrokerConfig) -> int:
    return int(config.queued_max_bytes * PARKED_SHARE / PART_BYTES)


def _new_exporter(config: BrokerConfig, status: BrokerStatus) -> Exporter:
    check_extra()
    from kafka2011.broker.monitoring.exporter import Exporter  # noqa: PLC0415  # needs an extra, only with the setting

    return Exporter(
        f"broker {config.brokerid}",
        BROKER_METRICS,
        lambda: broker_samples(status, config.brokerid, config.metrics_max_partitions),
        lambda: status.obstacle,
        config.metrics_bind_address,
        config.metrics_port,
        add=lambda: disk_samples(config.log_dir),
    )
