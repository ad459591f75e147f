"""The broker: opens its logs, listens, then registers (paper, sections 3.1 and 3.2).

It keeps no state but the logs: what has been consumed is the consumers' business. After an I/O error a broker stops
with the reason and leaves no clean mark, so that the next start checks the logs.
"""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Self

from gevent.event import Event

from kafka2011.broker.clock_comparison import LOOK_S as COMPARISON_LOOK_S
from kafka2011.broker.connections.turn import let_others_run
from kafka2011.broker.parts import BrokerParts
from kafka2011.broker.requests import receive_buffer
from kafka2011.errors import KafkaError, LogError
from kafka2011.message import runs
from kafka2011.message.crc import self_check
from zk.errors import ZkError

if TYPE_CHECKING:
    from kafka2011.config import BrokerConfig

logger = logging.getLogger(__name__)

STOP_TIMEOUT_S = 5.0
"""How long a stopping broker lets connections finish what has arrived."""
IDLE_CHECKS = 4
IDLE_CHECK_MAX_S = 10.0
"""Idle connections are looked for so many times in the time that they may be idle, but at least this often."""
RECOVERY_REPORT_S = 2.0
"""How often a recovering broker reports its progress."""


class KafkaServer:
    """One broker of a cluster, inside a process whose main loop is gevent's.

    A context manager; `start` and `stop` may be called twice. `stop_requested` is set when the broker should be
    stopped, by its owner or by a failure; `failure` then says why.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self.failure: BaseException | None = None
        self.stop_requested = Event()
        self._started = False
        self.parts = BrokerParts(config, self.fail, lambda: self.failure)

    @property
    def port(self) -> int:
        """The port that is registered as 0.7's clients look for it, once started."""
        return self.parts.registration.port

    @property
    def tls_port(self) -> int | None:
        """The port where clients connect over TLS, once started; None without one."""
        return self.parts.registration.tls_port

    @property
    def metrics_port(self) -> int | None:
        """The port that shows metrics, once started; None without one."""
        return None if self.parts.exporter is None else self.parts.exporter.port

    def start(self) -> None:
        """Open the logs, listen, register. Raises KafkaError; what was begun is undone by `stop`."""
        if self._started:
            return
        config = self._config
        self_check(runs.checksums() | receive_buffer.checksums())
        self._started = True
        self.parts.status.phase = "starting"
        self.parts.tasks.start()
        if self.parts.exporter is not None:
            self.parts.exporter.start()  # first, so that a recovery can be watched
        self.parts.logs.open(_RecoveryReport())
        self.parts.sockets.listen()
        ports = " and ".join(map(str, self.parts.sockets.ports))
        logger.info("broker %d listens on %s:%s", config.brokerid, config.bind_address, ports)
        self.parts.flushes.start(config.log_default_flush_scheduler_interval_ms / 1000, self.parts.logs.flush_due)
        self.parts.tasks.every(config.log_cleanup_interval_mins * 60, self.clean_up)
        self.parts.tasks.every(COMPARISON_LOOK_S, self.parts.clock_comparison.compare_when_due)
        self.parts.tasks.spawn(self._end_late_waits)
        self.parts.scrubber.load()
        self.parts.tasks.spawn(self.parts.scrubber.run)
        if self.parts.repairer is not None:
            self.parts.tasks.spawn(self.parts.repairer.run)
        if config.connections_max_idle_ms > 0:
            interval_s = min(IDLE_CHECK_MAX_S, config.connections_max_idle_ms / 1000 / IDLE_CHECKS)
            self.parts.tasks.every(interval_s, self.parts.sockets.close_idle)
        self.parts.registration.start()
        self.parts.tasks.spawn(self.parts.clock_comparison.compare_when_due)
        self.parts.status.phase = ""

    def stop(self) -> None:
        """Deregister, finish what has arrived, close connections, flush and close the logs, write the clean mark.

        After a failure connections are cut off at once. A log that had an I/O error is closed as it is, and no mark is
        written. Raises LogError if the last flush fails, unless the broker has failed already: the first error counts.
        """
        if not self._started:
            return
        self._started = False
        self.parts.status.phase = "stopping"
        try:
            self._stop()
        finally:
            if self.parts.exporter is not None:
                self.parts.exporter.stop()

    def _stop(self) -> None:
        self.parts.registration.stop(has_failed=self.failure is not None)
        self.parts.sockets.stop(0 if self.failure else STOP_TIMEOUT_S)
        # Nothing here is cut off in the middle: the outcome of a flush must be known before there is a mark.
        self.parts.tasks.stop()
        self.parts.parked_until.set()
        self.parts.flushes.wake()
        self.parts.tasks.join()
        counts = json.dumps(self.counts())
        try:
            self.parts.logs.close()
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
            self.parts.sockets.stop_accepting()
        self.stop_requested.set()

    def clean_up(self) -> None:
        """Delete old segments, unless another replica leads: then they go when it has deleted them."""
        replication = self.parts.replication
        if replication is None or replication.leading_now() is not None:
            self.parts.clock_comparison.compare_before_pass()
            self.parts.logs.clean_up()
        else:
            self.parts.logs.retention_clock.note()

    def counts(self) -> dict[str, int]:
        """Return what has been counted since the start."""
        return self.parts.status.counts()

    def _end_late_waits(self) -> None:
        while not self.parts.tasks.stopping.is_set():
            self.parts.parked_until.clear()
            self.parts.parked_until.wait(self.parts.parking.end_late())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


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


def _unexpected(error: BaseException) -> BaseException | None:
    return None if isinstance(error, KafkaError | ZkError) else error
