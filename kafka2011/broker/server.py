"""The broker: opens its logs, listens, then registers (paper, sections 3.1 and 3.2).

It keeps no state but the logs: what has been consumed is the consumers' business. A broker that met an I/O error stops
with the reason and leaves no clean mark, so that the next start checks the logs.
"""

from __future__ import annotations

import errno
import functools
import json
import logging
import os
import resource
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Self

import gevent
from gevent.event import Event
from gevent.lock import Semaphore
from gevent.pool import Group

from kafka2011.broker.connection import let_others_run
from kafka2011.broker.handlers import RequestHandlers
from kafka2011.broker.log import LogFailedError, LogSettings
from kafka2011.broker.log_manager import LogManager
from kafka2011.broker.memory_budget import MemoryBudget
from kafka2011.broker.message_check import MessageChecker
from kafka2011.broker.registrar import BrokerRegistrar
from kafka2011.broker.socket_server import SocketServer
from kafka2011.crc import self_check
from kafka2011.errors import KafkaError, LogError
from kafka2011.protocol import MultiProduceRequest, ProduceRequest, decode_request
from zk.clock import SYSTEM_CLOCK
from zk.cluster import Broker
from zk.errors import ZkError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from kafka2011.broker.connection import Connection, FrameHandler
    from kafka2011.broker.handlers import Reply
    from kafka2011.broker.log import Log
    from kafka2011.config import BrokerConfig

logger = logging.getLogger(__name__)

STOP_TIMEOUT_S = 5.0
"""How long a stopping broker lets connections finish what has arrived."""
RECOVERY_REPORT_S = 2.0
"""How often a recovering broker says how far it is."""

MAX_CONNECTIONS = 65_536
"""The bound where the limit on open files is higher, or none."""

_DISK_ERRORS = {errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS}

EXIT_OK = 0
EXIT_FAILED = 1


class BrokerFailedError(KafkaError):
    """The broker cannot go on; the text says why."""


class KafkaServer:
    """One broker of a cluster, inside a process whose main loop is gevent's.

    A context manager; `start` and `stop` may be called twice. `stop_requested` is set when the broker should
    be stopped, by whoever runs it or by a failure; `failure` then says why.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self.failure: BaseException | None = None
        self.stop_requested = Event()
        self._stopping = Event()
        self._loops = Group()
        self._flushes = Group()
        self._started = False
        self._registrar: BrokerRegistrar | None = None
        self.logs = LogManager(
            config.log_dir,
            num_partitions=config.num_partitions,
            partitions_by_topic=config.topic_partition_count_map,
            settings_for=functools.partial(log_settings, config),
            max_topic_name_length=config.max_topic_name_length,
            clock=SYSTEM_CLOCK,
            fsync=_fsync_in_thread,
            unlink=_unlink_in_thread,
            make_lock=Semaphore,  # of one holder; a third of the cost of gevent's RLock
            request_flush=self._request_flush,
            on_new_topic=self._topic_added,
        )
        self.handlers = RequestHandlers(self.logs)
        self.budget = MemoryBudget(config.queued_max_bytes)
        self.socket_server = SocketServer(
            config.bind_address,
            config.port,
            self._new_handler,
            budget=self.budget,
            max_frame_bytes=config.max_socket_request_bytes,
            send_buffer_bytes=config.socket_send_buffer,
            receive_buffer_bytes=config.socket_receive_buffer,
            max_connections=_max_connections(),
            on_failure=self.fail,
            is_fatal=lambda error: isinstance(error, LogFailedError),
        )

    @property
    def port(self) -> int:
        """The port that is listened on, once started."""
        return self.socket_server.port

    def start(self) -> None:
        """Open the logs, listen, register. Raises KafkaError or ZkError; what was begun is undone by `stop`."""
        if self._started:
            return
        config = self._config
        self_check()
        self._started = True
        self._stopping.clear()
        self.logs.open(_RecoveryReport())
        self.socket_server.listen()
        logger.info("broker %d listens on %s:%d", config.brokerid, config.bind_address, self.port)
        self._loops.spawn(self._every, config.log_default_flush_scheduler_interval_ms / 1000, self.logs.flush_due)
        self._loops.spawn(self._every, config.log_cleanup_interval_mins * 60, self.logs.clean_up)
        if config.enable_zookeeper:
            self._registrar = BrokerRegistrar(
                config.zk_connect,
                Broker.created(config.brokerid, config.hostname, self.port, int(time.time() * 1000)),
                self.logs.topics,
                session_timeout_ms=config.zk_sessiontimeout_ms,
                connection_timeout_ms=config.zk_connectiontimeout_ms,
                on_failure=self.fail,
                join_topic=self._join_topic if config.join_topics else None,
            )
            self._registrar.start()

    def stop(self) -> None:
        """Deregister, finish what has arrived, close connections, flush and close the logs, write the clean mark.

        After a failure connections are cut off at once. A log that met an I/O error is closed as it is, and then there
        is no mark. Raises LogFailedError if the last flush fails.
        """
        if not self._started:
            return
        self._started = False
        if self._registrar is not None:
            self._registrar.stop()
        self.socket_server.stop(0 if self.failure else STOP_TIMEOUT_S)
        # Nothing here is cut off in the middle: the outcome of a flush must be known before there is a mark.
        self._stopping.set()
        self._loops.join()
        self._flushes.join()
        counts = json.dumps(self.counts())
        self.logs.close()
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
        total["flushes"] = self.logs.flushes
        total["deleted_segments"] = self.logs.deleted_segments
        total["memory_peak_bytes"] = self.budget.peak_bytes
        total["memory_refused"] = self.budget.refused
        return dict(sorted(total.items()))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _new_handler(self, connection: Connection) -> FrameHandler:
        config = self._config
        checker = MessageChecker(
            config.max_message_size,
            config.max_socket_request_bytes,
            connection.pause,
            connection.opened_claim.resize,
        )
        handle = self.handlers.handle

        def handle_frame(frame: bytes) -> Reply | None:
            if self.failure is not None:
                raise BrokerFailedError("the broker is stopping after a failure")
            request = decode_request(frame)
            try:
                return handle(request, checker)
            except LogError as error:
                if _comes_of_the_disk(error) and isinstance(request, ProduceRequest | MultiProduceRequest):
                    raise LogFailedError(str(error)) from error
                raise

        return handle_frame

    def _join_topic(self, topic: str) -> None:
        try:
            self.logs.get_or_create(topic, 0)
        except LogFailedError as error:
            self.fail(error)

    def _topic_added(self, topic: str, partitions: int) -> None:
        if self._registrar is not None:
            self._registrar.topic_added(topic, partitions)

    def _request_flush(self, log: Log) -> None:
        self._flushes.spawn(self._guard, log.flush)

    def _every(self, interval_s: float, do: Callable[[], object]) -> None:
        """Do something again and again, an interval after it was done; gevent waits on a monotonic clock."""
        while not self._stopping.wait(interval_s):
            self._guard(do)

    def _guard(self, do: Callable[[], object]) -> None:
        try:
            do()
        except Exception as error:  # noqa: BLE001 - a background task that dies silently would be worse
            self.fail(error)


def log_settings(config: BrokerConfig, topic: str) -> LogSettings:
    """Return the settings of a topic's logs: its own where there are any, else the broker's."""
    hour_ms = 3_600_000
    return LogSettings(
        max_segment_bytes=config.topic_log_file_size.get(topic, config.log_file_size),
        roll_ms=config.topic_log_roll_hours.get(topic, config.log_roll_hours) * hour_ms,
        retention_ms=config.topic_log_retention_hours.get(topic, config.log_retention_hours) * hour_ms,
        retention_bytes=config.topic_log_retention_size.get(topic, config.log_retention_size),
        flush_interval=config.log_flush_interval,
        flush_interval_ms=config.topic_flush_intervals_ms.get(topic, config.log_default_flush_interval_ms),
    )


def run_broker(config: BrokerConfig, on_ready: Callable[[KafkaServer], None] | None = None) -> int:
    """Run a broker until SIGTERM or SIGINT and return the exit status: 0, or 1 after a failure.

    A second signal ends the process at once. SIGUSR1 logs the counts. Raises KafkaError or ZkError when the broker
    does not start.
    """
    _raise_file_limit()
    server = KafkaServer(config)
    for number in (signal.SIGTERM, signal.SIGINT):
        gevent.signal_handler(number, _on_stop_signal, server, number)
    gevent.signal_handler(signal.SIGUSR1, lambda: logger.info("counts %s", json.dumps(server.counts())))
    starting = gevent.spawn(_error_of, server.start)
    either: list[Any] = [starting, server.stop_requested]
    try:
        gevent.wait(either, count=1)
        if not starting.ready():
            starting.kill()
        elif starting.value is not None:
            server.failure = server.failure or starting.value
            raise starting.value
        else:
            if on_ready is not None:
                on_ready(server)
            server.stop_requested.wait()
    finally:
        server.stop()
    return EXIT_OK if server.failure is None else EXIT_FAILED


def _error_of(call: Callable[[], None]) -> Exception | None:
    """Call and return what it raises: a greenlet that ends by an exception prints a traceback."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - raised again by whoever asked
        return error
    return None


def _on_stop_signal(server: KafkaServer, number: int) -> None:
    if server.stop_requested.is_set():
        os._exit(128 + number)
    logger.info("stopping on %s", signal.Signals(number).name)
    server.stop_requested.set()


class _RecoveryReport:
    """Says how far recovery is, and lets signals in."""

    def __init__(self) -> None:
        self._reported_s = time.monotonic()

    def __call__(self, done_bytes: int, total_bytes: int) -> None:
        now_s = time.monotonic()
        if now_s - self._reported_s >= RECOVERY_REPORT_S:
            self._reported_s = now_s
            logger.info("recovering: %d of %d bytes", done_bytes, total_bytes)
        let_others_run()


def _in_thread(call: Callable[..., None], *arguments: object) -> None:
    """Let a slow call of the operating system run in a thread; in the hub's own it would stop all greenlets.

    Awaited even by a greenlet that is being killed: its file must stay open, and its error must not get lost.
    """
    running = gevent.get_hub().threadpool.spawn(call, *arguments)
    try:
        running.get()
    except gevent.GreenletExit:
        running.get()
        raise


def _fsync_in_thread(fd: int) -> None:
    _in_thread(os.fsync, fd)


def _unlink_in_thread(path: Path) -> None:
    _in_thread(os.unlink, path)


def _comes_of_the_disk(error: LogError) -> bool:
    """Say whether an error is the disk's, not that of a limit on open files or of a name that is taken."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in _DISK_ERRORS


def _max_connections() -> int:
    """Leave half of all file descriptors to the logs."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, max(16, soft // 2))


def _raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _unexpected(error: BaseException) -> BaseException | None:
    return None if isinstance(error, KafkaError | ZkError) else error
