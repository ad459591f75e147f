"""The broker: opens its logs, listens, then registers (paper, sections 3.1 and 3.2).

It keeps no state but the logs: what has been consumed is the consumers' business. After an I/O error a broker stops
with the reason and leaves no clean mark, so that the next start checks the logs.
"""

from __future__ import annotations

import errno
import functools
import json
import logging
import re
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Self

from gevent.event import Event
from gevent.pool import Group

from kafka2011.broker.connections.client_connection import Handlers, let_others_run
from kafka2011.broker.connections.file_limit import MAX_CONNECTIONS, max_connections
from kafka2011.broker.connections.socket_server import Door, SocketServer
from kafka2011.broker.connections.tls import TlsConnection
from kafka2011.broker.flushing.awaited_flushes import AwaitedFlushes
from kafka2011.broker.flushing.disk_threads import DiskThreads
from kafka2011.broker.memory.memory_budget import MemoryBudget
from kafka2011.broker.memory.small_share import SHARE, SmallShare
from kafka2011.broker.registrar import BrokerRegistrar
from kafka2011.broker.replication.replica_log import ReplicaLogs
from kafka2011.broker.replication.replication import Replication
from kafka2011.broker.requests import receive_buffer
from kafka2011.broker.requests.handlers import Client, RefusedError, RequestHandlers
from kafka2011.broker.requests.message_check import MessageChecker
from kafka2011.broker.requests.parking import PART_BYTES, Parking
from kafka2011.broker.requests.receive_buffer import RUN_END, RUN_SETS, RUN_START
from kafka2011.broker.security.access import CONSUME, PRODUCE, Access
from kafka2011.broker.security.certificates import Certificates
from kafka2011.broker.security.quota import ClientQuota, Quotas
from kafka2011.errors import KafkaError, LogError
from kafka2011.log.label import Label
from kafka2011.log.log import LogFailedError
from kafka2011.log.log_manager import LogManager
from kafka2011.log.log_settings import LogSettings
from kafka2011.message import runs
from kafka2011.message.crc import self_check
from kafka2011.metrics.exposition import check_extra
from kafka2011.replica.codec import decode_fetch
from kafka2011.replica.known_file import KnownFile, is_known_file
from kafka2011.wire.protocol import PRODUCE as PRODUCE_TYPE
from kafka2011.wire.protocol import MultiProduceRequest, ProduceRequest, decode_request
from zk.clock import SYSTEM_CLOCK
from zk.cluster import Broker, TlsListener
from zk.errors import ZkError
from zk.replicas import Member

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from kafka2011.broker.connections.client_connection import Connection
    from kafka2011.broker.monitoring.exporter import Exporter
    from kafka2011.broker.monitoring.replica_metrics import ReplicaFacts
    from kafka2011.broker.registrar import LeaderSession
    from kafka2011.broker.replication.leading import Leading
    from kafka2011.broker.requests.handlers import Reply
    from kafka2011.broker.requests.receive_buffer import ReceiveBuffer, Received
    from kafka2011.broker.requests.request_times import RequestTimes
    from kafka2011.config import BrokerConfig
    from kafka2011.log.log import Log
    from kafka2011.message.header import AnyBytes
    from kafka2011.replica.state import Replica
    from zk.client import ZkClient
    from zk.requests import TopicRequest

logger = logging.getLogger(__name__)

STOP_TIMEOUT_S = 5.0
"""How long a stopping broker lets connections finish what has arrived."""
FLUSHERS = 2
"""How many greenlets flush the logs that ask for it: the second takes what would wait for a first one's slow disk."""
PARKED_SHARE = 1 / 8
"""What parked requests may take in memory, beside `queued.max.bytes` and as a part of it."""
IDLE_LOOKS = 4
IDLE_LOOK_MAX_S = 10.0
"""Idle connections are looked for so many times in the time that they may be idle, but at least this often."""
RECOVERY_REPORT_S = 2.0
"""How often a recovering broker reports its progress."""

_DISK_ERRORS = {errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS}


class BrokerFailedError(KafkaError):
    """The broker cannot go on; the text says why."""


class KafkaServer:
    """One broker of a cluster, inside a process whose main loop is gevent's.

    A context manager; `start` and `stop` may be called twice. `stop_requested` is set when the broker should be
    stopped, by its owner or by a failure; `failure` then says why.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self.failure: BaseException | None = None
        self.stop_requested = Event()
        self._stopping = Event()
        self._loops = Group()
        self._flushes = Group()
        self._flushers = 0  # of these, those that look again whether there is more to flush
        self._to_flush: list[Log] = []
        self._started = False
        self._state = "starting"  # nothing to say while it serves
        self._registrar: BrokerRegistrar | None = None
        self._parked_until = Event()  # set when that has become earlier
        self.parking = Parking(
            int(config.queued_max_bytes * PARKED_SHARE / PART_BYTES), SYSTEM_CLOCK, self._parked_until.set
        )
        self._flush_awaited = Event()
        self._awaited_flushes = AwaitedFlushes(config.log_flush_awaited_ms / 1000)
        self.logs = LogManager(
            config.log_dir,
            num_partitions=config.num_partitions,
            partitions_by_topic=config.topic_partition_count_map,
            settings_for=functools.partial(LogSettings.of, config),
            max_topic_name_length=config.max_topic_name_length,
            clock=SYSTEM_CLOCK,
            disk=DiskThreads(),
            request_flush=self._request_flush,
            on_readable=self._note_readable,
            on_awaited=self._note_awaited,
            on_new_topic=self._topic_added,
            label=Label(config.brokerid, is_required=config.log_dir_label_required),
            on_flushed=self._note_flushed if config.replica_name else None,
            is_others=is_known_file,
        )
        self._access = Access(Path(config.allow_file), SYSTEM_CLOCK) if config.allow_file else None
        self._quotas = Quotas(Path(config.quota_file), SYSTEM_CLOCK) if config.quota_file else None
        self.handlers = RequestHandlers(self.logs)
        self.budget = MemoryBudget(config.queued_max_bytes)
        self.small_share = SmallShare(int(config.queued_max_bytes * SHARE))
        self.socket_server = SocketServer(
            config.bind_address,
            self._doors(config),
            self._new_handlers,
            budget=self.budget,
            small=self.small_share,
            buffer=receive_buffer.new_buffer(config.max_socket_request_bytes, config.max_message_size),
            max_frame_bytes=config.max_socket_request_bytes,
            send_buffer_bytes=config.socket_send_buffer,
            receive_buffer_bytes=config.socket_receive_buffer,
            max_connections=min(config.max_connections or MAX_CONNECTIONS, max_connections()),
            max_per_address=config.max_connections_per_address,
            max_idle_s=config.connections_max_idle_ms / 1000,
            clock=SYSTEM_CLOCK,
            on_failure=self.fail,
            is_fatal=lambda error: isinstance(error, LogFailedError),
        )
        self._replication = self._new_replication() if config.replica_name else None
        self._exporter = self._new_exporter() if config.metrics_port >= 0 else None

    @property
    def port(self) -> int:
        """The port that is registered as 0.7's clients look for it, once started."""
        return self.socket_server.ports[0]

    @property
    def tls_port(self) -> int | None:
        """The port where clients are met by TLS, once started; None without one."""
        return self.socket_server.ports[-1] if self._config.has_tls else None

    @property
    def metrics_port(self) -> int | None:
        """The port that shows metrics, once started; None without one."""
        return None if self._exporter is None else self._exporter.port

    @property
    def open_connections(self) -> int:
        """How many connections are open."""
        return self.socket_server.open_connections

    @property
    def request_times(self) -> RequestTimes:
        """How long requests take."""
        return self.handlers.times

    @property
    def is_connected(self) -> bool | None:
        """Whether it has a session in ZooKeeper now; None if it is to have none."""
        if not self._config.enable_zookeeper:
            return None
        if self._replication is not None:
            return self._replication.is_connected
        return self._registrar is not None and self._registrar.is_connected

    @property
    def replica(self) -> ReplicaFacts | None:
        """What it is among the replicas of its id; None if it has none."""
        return None if self._replication is None else self._replication.facts()

    @property
    def obstacle(self) -> str | None:
        """Why it does not serve all that it should, or is not registered; None if it is well."""
        if self.failure is not None:
            return f"stopping after a failure: {self.failure}"
        if self._state:
            return self._state
        if self._replication is not None:
            return self._replication.obstacle
        if self._registrar is not None and not self._registrar.is_registered:
            return "not registered in ZooKeeper"
        return None

    def start(self) -> None:
        """Open the logs, listen, register. Raises KafkaError; what was begun is undone by `stop`."""
        if self._started:
            return
        config = self._config
        self_check(runs.checksums() | receive_buffer.checksums())
        self._started = True
        self._state = "starting"
        self._stopping.clear()
        if self._exporter is not None:
            self._exporter.start()  # first, so that a recovery can be watched
        self.logs.open(_RecoveryReport())
        self.socket_server.listen()
        ports = " and ".join(map(str, self.socket_server.ports))
        logger.info("broker %d listens on %s:%s", config.brokerid, config.bind_address, ports)
        self._loops.spawn(self._every, config.log_default_flush_scheduler_interval_ms / 1000, self.logs.flush_due)
        self._loops.spawn(self._every, config.log_cleanup_interval_mins * 60, self._clean_up)
        self._loops.spawn(self._guard, self._end_late_waits)
        self._loops.spawn(self._guard, self._flush_what_is_awaited)
        if config.connections_max_idle_ms > 0:
            interval_s = min(IDLE_LOOK_MAX_S, config.connections_max_idle_ms / 1000 / IDLE_LOOKS)
            self._loops.spawn(self._every, interval_s, self.socket_server.close_idle)
        if self._replication is not None:
            self._replication.start(self._replica_member)
        elif config.enable_zookeeper:
            self._registrar = self._new_registrar(self.fail)
            self._registrar.start()
        self._state = ""

    def stop(self) -> None:
        """Deregister, finish what has arrived, close connections, flush and close the logs, write the clean mark.

        After a failure connections are cut off at once. A log that had an I/O error is closed as it is, and no mark is
        written. Raises LogError if the last flush fails, unless the broker has failed already: the first error counts.
        """
        if not self._started:
            return
        self._started = False
        self._state = "stopping"
        try:
            self._stop()
        finally:
            if self._exporter is not None:
                self._exporter.stop()

    def _stop(self) -> None:
        if self._replication is not None:
            self._replication.stop(has_failed=self.failure is not None)
        if self._registrar is not None:
            self._registrar.stop()
        self.socket_server.stop(0 if self.failure else STOP_TIMEOUT_S)
        # Nothing here is cut off in the middle: the outcome of a flush must be known before there is a mark.
        self._stopping.set()
        self._parked_until.set()
        self._flush_awaited.set()
        self._loops.join()
        self._flushes.join()
        counts = json.dumps(self.counts())
        try:
            self.logs.close()
        except LogError as error:
            if self.failure is None:
                raise
            logger.critical("broker %d: %s", self._config.brokerid, error)
        logger.info("broker %d stopped; %s", self._config.brokerid, counts)

    def fail(self, error: BaseException) -> None:
        """Have the broker stopped because of an error; the first one counts."""
        if self.failure is None:
            self.failure = error
            logger.critical("broker %d stops: %s", self._config.brokerid, error, exc_info=_unexpected(error))
            self.socket_server.stop_accepting()
        self.stop_requested.set()

    def counts(self) -> dict[str, int]:
        """Return what has been counted since the start: connections, requests, messages, bytes, flushes, refusals."""
        total = Counter(self.socket_server.counts)
        total.update(self.handlers.counts)
        total.update(self.parking.counts)
        total["flushes"] = self.logs.flushes
        total["deleted_segments"] = self.logs.deleted_segments
        total["clock_jumps"] = self.logs.clock_jumps
        total["waits_for_files"] = self.logs.waits_for_files
        total["memory_peak_bytes"] = self.budget.peak_bytes
        total["memory_refused"] = self.budget.refused + self.small_share.refused
        if self._registrar is not None:
            total["zookeeper_sessions"] = self._registrar.sessions
            total["zookeeper_reconnects"] = self._registrar.reconnects
        return dict(sorted(total.items()))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _new_registrar(
        self, on_failure: Callable[[BaseException], None], led: LeaderSession | None = None
    ) -> BrokerRegistrar:
        config = self._config
        return BrokerRegistrar(
            config.zk_connect,
            Broker.created(config.brokerid, config.hostname, self.port, int(time.time() * 1000)),
            self.logs.topics,
            session_timeout_ms=config.zk_sessiontimeout_ms,
            connection_timeout_ms=config.zk_connectiontimeout_ms,
            on_failure=on_failure,
            join_topic=self._join_topic if config.join_topics else None,
            carry_out=self._carry_out,
            tls=None if self.tls_port is None else TlsListener(config.hostname, self.tls_port),
            led=led,
        )

    def _new_replication(self) -> Replication:
        config = self._config

        def register(led: LeaderSession) -> BrokerRegistrar:
            return self._new_registrar(replication.registrar_failed, led)

        replication = Replication(
            config,
            ReplicaLogs(self.logs, config.brokerid),
            KnownFile(config.log_dir, DiskThreads()),
            parking=self.parking,
            request_flush=self._request_flush,
            register=register,
            end_clients=self.socket_server.end_connections,
            on_failure=self.fail,
        )
        return replication

    def _replica_member(self, client: ZkClient, me: Replica) -> Member:
        """Say where other replicas reach this one: by TLS where all know how, or where there is no other way."""
        config = self._config
        tls_port = self.tls_port
        if tls_port is not None and (config.tls_only or client.security.brokers is not None):
            return Member(config.hostname, tls_port, me.disk, by_tls=True)
        return Member(config.hostname, self.port, me.disk)

    def _new_exporter(self) -> Exporter:
        check_extra()
        from kafka2011.broker.monitoring.exporter import Exporter  # noqa: PLC0415  # needs an extra, and only who asks for it

        config = self._config
        return Exporter(
            self, config.brokerid, config.metrics_bind_address, config.metrics_port, config.metrics_max_partitions
        )

    def _new_handlers(self, connection: Connection) -> Handlers:
        config, access = self._config, self._access
        who = f"{connection.principal} at {connection.name}"
        led = None if self._replication is None else self._replication.new_client()
        client = Client(
            MessageChecker(
                config.max_message_size,
                config.max_socket_request_bytes,
                connection.pause,
                connection.opened_claim.resize,
            ),
            functools.partial(connection.park, self.parking),
            _everything if access is None else functools.partial(access.may, connection.principal),
            who,
            None if led is None else led.appended,
        )
        handle = self.handlers.handle
        if self._quotas is not None:
            connection.quota = ClientQuota(self._quotas, connection.principal, connection.name)
        quota = connection.quota

        def handle_frame(frame: AnyBytes, following: list[bytes]) -> Reply | None:
            self._refuse_after_failure()
            request = decode_request(frame)
            if quota is not None and isinstance(request, ProduceRequest | MultiProduceRequest):
                quota.produce(len(frame) + sum(map(len, following)))
            try:
                if following and isinstance(request, ProduceRequest):
                    self.handlers.produce_together(request, following, client)
                    return None
                return handle(request, client)
            except LogError as error:
                if _comes_of_the_disk(error) and isinstance(request, ProduceRequest | MultiProduceRequest):
                    raise LogFailedError(str(error)) from error
                raise

        handlers = Handlers(handle_frame, functools.partial(self._append_runs, client, quota), self.handlers.times)
        return handlers if led is None else led.handlers(handlers, functools.partial(self._answer_replica, connection))

    def _answer_replica(self, connection: Connection, frame: AnyBytes) -> Reply | None:
        if (leading := self._leading) is None:
            raise RefusedError("this replica does not lead")
        request = decode_fetch(frame, self._config.brokerid)
        if self._access is not None:
            for topic in self.logs.topics():
                if not all(self._access.may(connection.principal, what, topic) for what in (CONSUME, PRODUCE)):
                    raise RefusedError(
                        f"{connection.principal} at {connection.name} is no replica: it may not both produce to and"
                        f" consume topic {topic}"
                    )
        reply = leading.answer(request, connection)
        connection.quota = None  # quotas are for clients
        return reply

    def _append_runs(self, client: Client, quota: ClientQuota | None, buffer: ReceiveBuffer, received: Received) -> int:
        times = self.handlers.times
        began_s = time.monotonic() if times.is_next() else None
        rest_start = received.rest_start
        for run in received.runs:
            self._refuse_after_failure()
            if not self.handlers.append_run(buffer, run, client):
                rest_start = run[RUN_START]
                break
            if quota is not None:
                quota.produce(run[RUN_END] - run[RUN_START])
        if began_s is not None:
            appended = sum(run[RUN_SETS] for run in received.runs if run[RUN_START] < rest_start)
            times.note(PRODUCE_TYPE, time.monotonic() - began_s, appended)
        return rest_start

    @staticmethod
    def _doors(config: BrokerConfig) -> list[Door]:
        if not config.has_tls:
            return [Door(config.port)]
        certificates = Certificates(
            Path(config.tls_certificate),
            Path(config.tls_key),
            Path(config.tls_ca) if config.tls_ca else None,
            required=config.tls_client_required,
            clock=SYSTEM_CLOCK,
        )
        rule = re.compile(config.tls_principal_rule)
        new_tls = functools.partial(TlsConnection, certificates=certificates, rule=rule)
        return [Door(config.port, new_tls)] if config.tls_only else [Door(config.port), Door(config.tls_port, new_tls)]

    def _refuse_after_failure(self) -> None:
        if self.failure is not None:
            raise BrokerFailedError("the broker is stopping after a failure")

    def _join_topic(self, topic: str) -> None:
        try:
            self.logs.get_or_create(topic, 0)
        except LogFailedError as error:
            self.fail(error)

    def _carry_out(self, topic: str, request: TopicRequest) -> None:
        if self._replication is not None and request.partitions is None:
            raise KafkaError("a broker with replicas deletes no topics yet")
        try:
            if request.partitions is None:
                self.logs.delete_topic(topic)
            else:
                self.logs.grow_topic(topic, request.partitions)
                if self._replication is not None:
                    self._replication.spread(topic, request.partitions)
        except LogFailedError as error:
            self.fail(error)
            raise

    def _topic_added(self, topic: str, partitions: int) -> None:
        registrar = self._registrar if self._replication is None else self._replication.registrar
        if registrar is not None:
            registrar.topic_added(topic, partitions)

    def _note_readable(self, log: Log) -> None:
        self.parking.note_readable(log)

    @property
    def _leading(self) -> Leading | None:
        return None if self._replication is None else self._replication.leading

    def _note_flushed(self, log: Log) -> None:
        if (leading := self._leading) is not None:
            leading.flushed(log)

    def _clean_up(self) -> None:
        """Delete old segments, unless another replica leads: then they go when it has deleted them."""
        if self._replication is None or self._leading is not None:
            self.logs.clean_up()

    def _note_awaited(self, log: Log) -> None:
        """Have a log flushed soon, if a reader does wait for what was appended."""
        if (leading := self._leading) is not None:
            leading.appended(log)
            if (
                self._config.log_flush_awaited_ms >= 0
                and self.parking.is_awaited(log)
                and self._awaited_flushes.add(log)
            ):
                self._flush_awaited.set()
            return  # and be told of what comes next
        if self._config.log_flush_awaited_ms < 0 or not self.parking.is_awaited(log):
            log.is_awaited = False
        elif self._awaited_flushes.add(log):
            self._flush_awaited.set()

    def _flush_what_is_awaited(self) -> None:
        flushes = self._awaited_flushes
        while not self._stopping.is_set():
            next_s = flushes.next_s()
            now_s = SYSTEM_CLOCK.monotonic_s()
            if next_s is None or next_s > now_s:
                self._flush_awaited.clear()
                self._flush_awaited.wait(None if next_s is None else next_s - now_s)
                continue
            due = flushes.take_due(now_s)
            for log in due:  # or one that is being flushed, or rolled, would be passed over
                log.is_flush_requested = True
            self.logs.flush(due)
            flushes.flushed(now_s, SYSTEM_CLOCK.monotonic_s())

    def _end_late_waits(self) -> None:
        while not self._stopping.is_set():
            self._parked_until.clear()
            self._parked_until.wait(self.parking.end_late())

    def _request_flush(self, log: Log) -> None:
        if (leading := self._leading) is not None:
            leading.appended(log)
        self._to_flush.append(log)
        if self._flushers < FLUSHERS:
            self._flushers += 1
            self._flushes.spawn(self._guard, self._flush_requested)

    def _flush_requested(self) -> None:
        """Flush what was asked for, and then together what was asked for meanwhile."""
        try:
            while self._to_flush:
                logs, self._to_flush = self._to_flush, []
                self.logs.flush(logs)
        finally:
            self._flushers -= 1

    def _every(self, interval_s: float, do: Callable[[], object]) -> None:
        """Do something repeatedly, each time an interval after it was done; gevent waits on a monotonic clock."""
        while not self._stopping.wait(interval_s):
            self._guard(do)

    def _guard(self, do: Callable[[], object]) -> None:
        try:
            do()
        except Exception as error:  # noqa: BLE001 - a background task that dies silently would be worse
            self.fail(error)


class _RecoveryReport:
    """Reports the progress of recovery, and lets signals in."""

    def __init__(self) -> None:
        self._reported_s = time.monotonic()

    def __call__(self, done_bytes: int, total_bytes: int) -> None:
        now_s = time.monotonic()
        if now_s - self._reported_s >= RECOVERY_REPORT_S:
            self._reported_s = now_s
            logger.info("recovering: %d of %d bytes", done_bytes, total_bytes)
        let_others_run()


def _everything(_what: str, _topic: str) -> bool:
    return True


def _comes_of_the_disk(error: LogError) -> bool:
    """Say whether an error is the disk's, not that of a limit on open files or of a name that is taken."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in _DISK_ERRORS


def _unexpected(error: BaseException) -> BaseException | None:
    return None if isinstance(error, KafkaError | ZkError) else error
