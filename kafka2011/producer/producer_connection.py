"""A connection that publishes: it notices when the broker ended it, and can ask whether all was handled."""

from __future__ import annotations

import logging
import select
import time
from typing import TYPE_CHECKING

from kafka2011.connection import BrokerConnection
from kafka2011.errors import ProtocolError
from kafka2011.producer.requests import BARRIER, BARRIER_ANSWER

if TYPE_CHECKING:
    from kafka2011.config import ProducerConfig
    from zk.cluster import Broker

logger = logging.getLogger(__name__)


class ProducerConnection(BrokerConnection):
    """One connection to one broker, for one user at a time.

    `answer_timeout_ms` bounds each wait for the broker, beside socket.timeout.ms.
    """

    def __init__(self, broker: Broker, config: ProducerConfig, answer_timeout_ms: int | None = None) -> None:
        timeout_ms = config.socket_timeout_ms
        super().__init__(
            broker.host,
            broker.port,
            connect_timeout_ms=min(config.connect_timeout_ms, answer_timeout_ms or config.connect_timeout_ms),
            socket_timeout_ms=min(timeout_ms, answer_timeout_ms or timeout_ms),
            buffer_bytes=config.buffer_size,
        )
        self.broker = broker
        self._reconnect_interval = config.reconnect_interval
        self._reconnect_time_interval_ms = config.reconnect_time_interval_ms
        self._sends = 0
        self._opened_s = 0.0
        self.broken = 0

    def open(self) -> None:
        """Connect, unless connected."""
        if not self.is_open:
            super().open()
            self._sends = 0
            self._opened_s = time.monotonic()

    def write(self, frame: bytes) -> None:
        """Send a request that nothing answers, on a new connection if the broker has ended the old one.

        When this raises BrokerConnectionError, the request was not handed over whole, so the broker does nothing of it.
        """
        if self.ended_by_broker():
            self.broken += 1
            logger.warning(
                "broker %d at %s:%d closed the connection: it refused a set or went away, and sets sent before may be"
                " lost",
                *(self.broker.id, self.broker.host, self.broker.port),
            )
            self.close()
        elif self.reconnect_is_due:
            self.drain_and_close()
        self.open()
        self.push(frame)

    def push(self, frame: bytes) -> None:
        """Send a request on the connection that is open."""
        self.send(frame)
        self._sends += 1

    def prove(self) -> None:
        """Ask, and wait for the answer: the broker serves this connection, and has handled what was sent before."""
        self.send(BARRIER)
        self.answer()

    def answer(self) -> None:
        """Read the answer to a barrier, waiting for it. Raises BrokerConnectionError or ProtocolError."""
        answer = self.receive()
        if answer != BARRIER_ANSWER:
            self.close()
            raise ProtocolError(f"{self.host}:{self.port} answers a fetch of nothing by {answer[:20]!r}")

    @property
    def answer_waits(self) -> bool:
        """Whether reading would not block: an answer is there, or the connection has ended."""
        if self._socket is None:
            return True
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        return bool(poller.poll(0))

    def limit(self, timeout_ms: float) -> None:
        """Wait no longer than this for the broker from now on, until told otherwise."""
        if self._socket is not None:
            self._socket.settimeout(max(timeout_ms, 1) / 1000)

    @property
    def reconnect_is_due(self) -> bool:
        """Whether to connect anew, so that a load balancer in front of the brokers can choose again."""
        return self.is_open and (
            0 < self._reconnect_interval <= self._sends
            or 0 <= self._reconnect_time_interval_ms <= (time.monotonic() - self._opened_s) * 1000
        )
