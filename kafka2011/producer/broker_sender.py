"""What the two kinds of sending thread have in common: one thread, one queue and one connection to one broker."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from kafka2011.errors import BrokerConnectionError
from kafka2011.producer.joining import join_parcels
from kafka2011.producer.producer_connection import ProducerConnection

if TYPE_CHECKING:
    from kafka2011.config import ProducerConfig
    from kafka2011.producer.broker_queue import BrokerQueue
    from kafka2011.producer.counts import Counts
    from kafka2011.producer.finisher import Finisher
    from kafka2011.producer.parcel import Parcel, PartitionSet
    from kafka2011.producer.router import Router
    from kafka2011.producer.set_encoder import SetEncoder

logger = logging.getLogger(__name__)

FIRST_BACKOFF_MS = 50.0
MAX_BACKOFF_MS = 1000.0


class BrokerSender(ABC):
    """Sends what is in one broker's queue, in order, in a thread of its own, until the queue is closed and empty.

    While the broker cannot be reached it tries again, at first after 50 ms, then after twice as long each time, up to
    a second; also when there is nothing to send, so that it gets messages without a key again once it is back.
    """

    def __init__(
        self,
        broker_id: int,
        queue: BrokerQueue,
        *,
        config: ProducerConfig,
        router: Router,
        encoder: SetEncoder,
        finisher: Finisher,
        counts: Counts,
    ) -> None:
        self.broker_id = broker_id
        self.queue = queue
        self._config = config
        self._router = router
        self._encoder = encoder
        self._finisher = finisher
        self._counts = counts
        self._connection: ProducerConnection | None = None
        self._backoff_ms = 0.0  # 0 while the broker can be reached
        self._next_try_ms = 0.0
        self._thread = threading.Thread(target=self._run, name=f"kafka2011-producer-{broker_id}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the thread's end, which follows the queue's."""
        if self._thread is not threading.current_thread():
            self._thread.join()

    @abstractmethod
    def _serve(self) -> bool:
        """Do one step: take, send, or wait; False at the end."""

    @abstractmethod
    def _give_up(self, error: Exception) -> None:
        """Fail everything that was taken from the queue and is not done with."""

    def _run(self) -> None:
        serving = True
        while serving:
            try:
                serving = self._serve()
            except Exception as error:
                # A defect, or an encoder's: whoever waits for a future must not wait for ever.
                logger.exception("sending to broker %d failed unexpectedly", self.broker_id)
                self._drop_connection()
                self._give_up(error)
        if self._connection is not None:
            self._connection.drain_and_close()

    @property
    def _down(self) -> bool:
        return self._backoff_ms > 0

    def _idle_wait_s(self) -> float | None:
        """Return how long there is nothing to do but to wait for the queue; None for ever."""
        return max(self._next_try_ms - _now_ms(), 0.0) / 1000 if self._down else None

    def _join(self, parcels: list[Parcel]) -> list[PartitionSet]:
        sets: list[PartitionSet] = []
        for joined in join_parcels(parcels):
            try:
                sets.append(joined.encoded(self._encoder))
            except Exception as error:  # an application's compressor may raise anything
                logger.exception("messages of topic %s for broker %d cannot be encoded", joined.topic, self.broker_id)
                self._finisher.failed_parcels(joined.parcels, error)
        return sets

    def _connected(self, answer_timeout_ms: int | None = None) -> ProducerConnection:
        """Return a connection to where the broker is now. Raises BrokerConnectionError."""
        broker = self._router.info.broker(self.broker_id)
        if broker is None:
            raise BrokerConnectionError(f"broker {self.broker_id} is not registered")
        connection = self._connection
        if connection is None or connection.broker != broker:
            if connection is not None:
                connection.close()
            connection = self._connection = ProducerConnection(broker, self._config, answer_timeout_ms)
        return connection

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _mark_down(self, error: Exception) -> None:
        if not self._down:
            logger.warning("broker %d cannot be reached, trying again: %s", self.broker_id, error)
        self._backoff_ms = min(max(self._backoff_ms * 2, FIRST_BACKOFF_MS), MAX_BACKOFF_MS)
        self._next_try_ms = _now_ms() + self._backoff_ms
        self._router.mark_down(self.broker_id)

    def _mark_up(self) -> None:
        if self._down:
            logger.info("broker %d can be reached again", self.broker_id)
            self._backoff_ms = 0.0
        self._router.mark_up(self.broker_id)


def _now_ms() -> float:
    return time.monotonic() * 1000
