"""Sends one broker's batches, in order, over one connection: unconfirmed as the paper's producer does, or confirmed.

A sender is a machine that takes steps. In an asynchronous producer its own thread takes them; in a synchronous one the
callers do, each until its own batch is done, and for the other waiting callers too.
"""

from __future__ import annotations

import logging
import threading
import time
from itertools import accumulate
from typing import TYPE_CHECKING

from kafka2011.errors import BrokerConnectionError, ProtocolError
from kafka2011.producer.backoff import FIRST_BACKOFF_S, MAX_BACKOFF_S, Backoff
from kafka2011.producer.confirmation_window import ConfirmationWindow
from kafka2011.producer.encoder import checked_topic_field
from kafka2011.producer.errors import ConfirmTimeoutError, SetRefusedError
from kafka2011.producer.producer_connection import BARRIER, Frame, ProducerConnection
from kafka2011.producer.witness import Witness
from kafka2011.wire.protocol import produce_head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.config import ProducerConfig
    from kafka2011.producer.accumulator import Accumulator, BrokerQueue
    from kafka2011.producer.batch import Batch
    from kafka2011.producer.completion import Completion
    from kafka2011.producer.counts import Counts
    from kafka2011.producer.encoder import SetEncoder
    from kafka2011.producer.router import Router
    from zk.clock import Clock

logger = logging.getLogger(__name__)

WINDOW_BATCHES = 256
WINDOW_BYTES = 8 * 1024 * 1024
WRITE_BYTES = 1024 * 1024
"""About how much goes into one write, unconfirmed: then its batches are done."""
WRITE_BATCHES = 1000
"""And of how many batches."""
ASK_BYTES = 128 * 1024
"""About how much is between two barriers where much is sent at once."""
ASK_BATCHES = 32
"""And of how many batches."""
MAX_REFUSALS = 3
"""How often a broker must end a proven connection that carries only one set before that set counts as refused."""

_POLL_S = 0.05


class Sender:
    """Sends what is in one broker's queue.

    While the broker cannot be reached it tries again, first after 50 ms, then after twice as long each time, up to a
    second. A thread does so even when there is nothing to send, so that the broker gets messages without a key again
    once it is back. Batches that may go elsewhere do so as soon as their broker is lost.

    Unconfirmed, a batch is done when it was handed to the operating system; one that was not is tried again up to
    `retries` times, and then fails with all that wait after it. Confirmed, a batch fails when confirm.timeout.ms have
    passed since it was closed, or when the broker refuses it.
    """

    def __init__(
        self,
        queue: BrokerQueue,
        *,
        config: ProducerConfig,
        router: Router,
        encoder: SetEncoder,
        accumulator: Accumulator,
        completion: Completion,
        counts: Counts,
        clock: Clock,
    ) -> None:
        self.broker_id = queue.broker_id
        self.turn = threading.Lock()  # its holder takes the steps
        self._queue = queue
        self._config = config
        self._confirms = config.confirm
        self._is_driven = config.producer_type == "sync"
        self._retries = config.zk_read_num_retries if self._is_driven else config.num_retries
        self._router = router
        self._encoder = encoder
        self._accumulator = accumulator
        self._completion = completion
        self._counts = counts
        self._clock = clock
        self._window = ConfirmationWindow(WINDOW_BATCHES, WINDOW_BYTES)
        self._answer_timeout_s = min(config.socket_timeout_ms, max(config.confirm_timeout_ms // 3, 1)) / 1000
        self._connection: ProducerConnection | None = None
        self.witness = Witness(config, self._answer_timeout_s)
        self.backoff = Backoff(FIRST_BACKOFF_S if self._is_driven else MAX_BACKOFF_S, clock)
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<Sender to broker {self.broker_id}{', which is away' if self.backoff.is_down else ''}>"

    # Who takes the steps -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a thread that takes the steps until the queue is closing and empty."""
        name = f"kafka2011-producer-{self.broker_id}"
        self._thread = threading.Thread(target=self._run, kwargs={"wait": True}, name=name, daemon=True)
        self._thread.start()

    def drive(self, batch: Batch) -> None:
        """Take steps in the caller's thread until a batch is done or has gone to another broker."""
        with self.turn:
            while not batch.done() and batch.where.broker_id == self.broker_id:
                if not self.step_safely(wait=False):
                    return  # closed: what is left of the queue is another sender's

    def broker_moved(self) -> None:
        """End connections to where the broker no longer is: it may hang there, and never answer. For another thread."""
        broker = self._router.info.broker(self.broker_id)
        for connection in (self._connection, self.witness.connection):
            if broker is not None and connection is not None and connection.broker.address != broker.address:
                connection.cut_off()

    def close(self) -> None:
        """Wait for the thread, or take its steps; then the broker has handled all that was sent."""
        if self._thread is None:
            with self.turn:
                self._run(wait=False)
        elif self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self, *, wait: bool) -> None:
        while self.step_safely(wait=wait) or not self._accumulator.retire(self._queue):
            pass
        self._finish()

    def _finish(self) -> None:
        for connection in (self._connection, self.witness.connection):
            if connection is not None:
                broken = connection.broken
                connection.finish()
                self._counts.add(broken_connections=connection.broken - broken)
        self._connection = self.witness.connection = None

    def step_safely(self, *, wait: bool) -> bool:
        """Take one step; after a defect, fail its batches, since nobody must wait for a future forever."""
        try:
            return self._step(wait=wait)
        except Exception as error:
            logger.exception("sending to broker %d failed unexpectedly", self.broker_id)
            self._drop_connection()
            self._window.lost()
            for batch in self._window.remove(lambda _: True):
                self._completion.failed(batch, error)
            return True

    # One step ----------------------------------------------------------------------------------------------------

    def _step(self, *, wait: bool) -> bool:
        """Take, send, or wait; False at the end."""
        window = self._window
        taken = self._take(wait=wait)
        if taken:
            window.add(self._encoded(taken))
        elif window.empty and self._queue.is_closing and not self._queue.has_batch:
            return False
        if self.backoff.is_down:
            self._while_down()
        elif not window.empty:
            try:
                self._advance()
            except (BrokerConnectionError, ProtocolError) as error:
                self._lost(error)
        return True

    def _take(self, *, wait: bool) -> list[Batch]:
        if self._window.empty and wait:
            return self._accumulator.take(self._queue, self.backoff.rest_s() if self.backoff.is_down else None)
        if self._window.waiting and not self.backoff.is_down:
            return []
        return self._accumulator.take(self._queue, 0)

    def _encoded(self, batches: list[Batch]) -> Iterator[Batch]:
        for batch in batches:
            if not batch.data:  # one that was moved has them already
                try:
                    batch.data = (
                        self._encoder.encode(batch.where.topic, batch.payloads)
                        if batch.ready_set is None
                        else bytes(batch.ready_set)
                    )
                except Exception as error:  # an application's compressor may raise anything
                    logger.exception("a batch for %s cannot be encoded", batch)
                    self._completion.failed(batch, error)
                    continue
            yield batch

    def _advance(self) -> None:
        """Send what can be sent; with confirm=true, take the answer if it has come or there is nothing better to do."""
        if self._confirms:
            self._advance_confirmed()
            return
        connection = self._connected()
        window = self._window
        broken = connection.broken
        try:
            while window.can_send:
                self._write(connection, window.send(WRITE_BATCHES, WRITE_BYTES))
        finally:
            self._counts.add(broken_connections=connection.broken - broken)
        self._mark_up()

    def _write(self, connection: ProducerConnection, batches: list[Batch]) -> None:
        """Write requests; what was handed over whole is done, even if the rest was not."""
        frames = [_frame(batch) for batch in batches]
        written: list[Batch] = []
        try:
            connection.write_all(frames)
            written = batches
        except BrokerConnectionError as error:
            ends = accumulate(sum(map(len, frame)) for frame in frames)
            written = [batch for batch, end in zip(batches, ends, strict=True) if end <= error.sent_bytes]
            raise
        finally:
            self._window.written(written)
            self._counts.add(sets_resent=sum(batch.tries - 1 for batch in written))
            self._completion.done(written)

    def _advance_confirmed(self) -> None:
        connection = self._connection
        if connection is None or not connection.is_open:
            connection = self._connect()
        self._limit(connection)
        if connection.answer_waits:
            self._collect(connection)
        if not connection.reconnect_is_due:
            self._send(connection)
        elif not self._window.unconfirmed:
            connection.drain_and_close()
            return
        if self._must_wait(connection):
            if not self._window.barriers:
                self._window.ask()
                connection.send(BARRIER)
            self._collect(connection)

    def _send(self, connection: ProducerConnection) -> None:
        window = self._window
        frames: list[Frame] = []
        resent = 0
        while window.can_send:
            sent = window.send(ASK_BATCHES, ASK_BYTES)
            if sent[0].suspect:
                self.witness.bring(connection.broker)
            frames += map(_frame, sent)
            resent += sum(batch.tries > 1 for batch in sent)
            if window.may_ask:
                window.ask()
                frames.append((BARRIER,))
        if frames:
            connection.push(frames)
            self._counts.add(sets_resent=resent)

    def _must_wait(self, connection: ProducerConnection) -> bool:
        window = self._window
        if not window.unconfirmed:
            return False
        if connection.reconnect_is_due:
            return True
        return not window.can_send and (window.waiting > 0 or not self._queue.has_batch)

    def _collect(self, connection: ProducerConnection) -> None:
        """Read answers; when none is due, this finds out that the connection has ended."""
        answers = connection.answers(self._window.barriers)
        if not self._window.barriers:
            raise ProtocolError(f"broker {self.broker_id} sent an answer to no request")
        self._completion.done(self._window.answered(answers))
        if self._window.empty:
            self.witness.let_go()

    # The connection ----------------------------------------------------------------------------------------------

    def idle_connection(self) -> ProducerConnection | None:
        """Return what sends at once, with nothing before it; None where there is none. For the holder of `turn`."""
        connection = self._connection
        if connection is None or self.backoff.is_down or self._queue.ready or not self._window.empty:
            return None
        broker, there = self._router.info.broker(self.broker_id), connection.broker
        return connection if (broker is there or broker == there) and connection.is_open else None

    def _connected(self) -> ProducerConnection:
        """Return a connection, open or not, to where the broker is now. Raises BrokerConnectionError."""
        broker = self._router.info.broker(self.broker_id)
        if broker is None:
            raise BrokerConnectionError(f"broker {self.broker_id} is not registered")
        connection = self._connection
        if connection is None or connection.broker != broker:
            if connection is not None:
                connection.close()
            timeout_ms = int(self._answer_timeout_s * 1000) if self._confirms else None
            connection = self._connection = ProducerConnection(broker, self._config, timeout_ms)
        return connection

    def _connect(self) -> ProducerConnection:
        """Connect; with confirm=true, have the broker prove that it serves: only then can a set be to blame."""
        connection = self._connected()
        connection.open()
        if self._confirms:
            self._limit(connection)
            connection.prove()
        self._mark_up()
        return connection

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _limit(self, connection: ProducerConnection) -> None:
        deadline_s = self._window.first_deadline_s
        rest_s = self._answer_timeout_s if deadline_s is None else deadline_s - self._clock.monotonic_s()
        connection.limit(min(rest_s, self._answer_timeout_s) * 1000)

    # When it is lost ---------------------------------------------------------------------------------------------

    def _lost(self, error: BrokerConnectionError | ProtocolError) -> None:
        """Take back what is in doubt, blame a batch if only one can be to blame, and connect again."""
        self._drop_connection()
        if not self._confirms:
            self._window.not_written()
            self._mark_down(error)
            self._after_failed_try(error)
            return
        window = self._window
        self._counts.add(broken_connections=1)
        if window.unconfirmed:
            logger.warning(
                "the connection to broker %d ended with %d sets unconfirmed, which will be sent again: %s",
                self.broker_id,
                window.unconfirmed,
                error,
            )
        blamed = window.lost()
        if blamed is not None and not isinstance(error.__cause__, TimeoutError) and self.witness.lives():
            blamed.refusals += 1
            if blamed.refusals >= MAX_REFUSALS:
                self._refuse(blamed, error)
        self._expire()
        try:
            self._connect()
        except (BrokerConnectionError, ProtocolError) as still:
            self._drop_connection()
            self._mark_down(still)

    def _refuse(self, blamed: Batch, error: Exception) -> None:
        self._window.remove(lambda batch: batch is blamed)
        self._counts.add(sets_refused=1)
        refusal = SetRefusedError(
            f"broker {self.broker_id} ended the connection {blamed.refusals} times when it got a set of"
            f" {len(blamed.data)} bytes for {blamed} alone: it refuses the set, and its log says why"
        )
        refusal.__cause__ = error
        self._completion.failed(blamed, refusal)

    def _while_down(self) -> None:
        self._expire()
        self._move()
        rest_s = self.backoff.rest_s()
        if rest_s > 0:
            if not self._window.empty:
                time.sleep(min(rest_s, _POLL_S))
            return
        try:
            self._connect()
        except (BrokerConnectionError, ProtocolError) as error:
            self._drop_connection()
            self._mark_down(error)
            if not self._confirms:
                self._after_failed_try(error)

    def _after_failed_try(self, error: Exception) -> None:
        """Unconfirmed: move what may go elsewhere, count an attempt against the rest, and fail what has none left."""
        self._window.add(self._encoded(self._accumulator.take(self._queue, 0)))
        self._move()
        tries = 1 if self._queue.is_closing else self._retries + 1
        for batch in self._window.remove(lambda batch: batch.count_failed_try() >= tries):
            self._completion.failed(batch, error)

    def _move(self) -> None:
        """Give what has no key to other brokers, if any can be reached."""
        self._accumulator.close_movable(self._queue)
        moved = 0
        for batch in self._window.remove(lambda batch: batch.movable):
            where = self._router.elsewhere(batch.where.topic, self.broker_id)
            if where is None:
                self._window.add([batch])
            else:
                batch.refusals = 0
                self._accumulator.move(batch, where)
                moved += 1
        if moved:
            self._counts.add(sets_moved=moved)
            logger.warning("%d sets without a key go to other brokers instead of broker %d", moved, self.broker_id)

    def _expire(self) -> None:
        now_s = self._clock.monotonic_s()
        for late in self._window.remove(lambda batch: batch.deadline_s <= now_s):
            fate = "it may have been written, or not" if late.tries else "it was not sent"
            closing = self._queue.is_closing
            limit = "before the producer closed" if closing else f"within {self._config.confirm_timeout_ms} ms"
            error = ConfirmTimeoutError(f"a set for {late} was not confirmed {limit} ({late.tries} tries): {fate}")
            self._completion.failed(late, error)

    def _mark_down(self, error: Exception) -> None:
        if not self.backoff.is_down:
            logger.warning("broker %d cannot be reached, trying again: %s", self.broker_id, error)
        self.backoff.failed()
        # Without a thread, only the next caller finds out that the broker is back.
        self._router.mark_down(self.broker_id, self.backoff.next_try_s if self._is_driven else float("inf"))
        if self._is_driven:
            self._router.info.refresh()

    def _mark_up(self) -> None:
        if self.backoff.is_down:
            logger.info("broker %d can be reached again", self.broker_id)
            self.backoff.succeeded()
        self._router.mark_up(self.broker_id)


def _frame(batch: Batch) -> Frame:
    """Return the request that a batch goes in."""
    where = batch.where
    return produce_head(checked_topic_field(where.topic), where.partition, len(batch.data)), batch.data
