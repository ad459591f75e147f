"""Sends, asks behind what was sent whether it was handled, and sends again what a lost connection leaves in doubt.

Produce has no reply. But a broker serves one connection strictly in order, so the answer to a fetch of nothing proves
that every set before it was appended to the log: it survives the death of the broker's process, though not a power
cut. No answer means: nobody knows. So delivery is at least once.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from kafka2011.errors import BrokerConnectionError, ProtocolError
from kafka2011.producer.broker_queue import Batch
from kafka2011.producer.broker_sender import BrokerSender
from kafka2011.producer.errors import ConfirmTimeoutError, SetRefusedError
from kafka2011.producer.requests import BARRIER, divided, produce_frame
from kafka2011.producer.window import Window

if TYPE_CHECKING:
    from kafka2011.config import ProducerConfig
    from kafka2011.producer.broker_queue import BrokerQueue
    from kafka2011.producer.parcel import PartitionSet
    from kafka2011.producer.producer_connection import ProducerConnection
    from kafka2011.producer.turns import Turns

logger = logging.getLogger(__name__)

WINDOW_SETS = 256
WINDOW_BYTES = 8 * 1024 * 1024
MAX_REFUSALS = 3
"""So often must a broker end a proven connection that carries one set alone, before that set counts as refused."""

_POLL_S = 0.05
_NOTHING = Batch([], [])


class ConfirmedSender(BrokerSender):
    """Keeps several sets on their way with one barrier behind them, and the next barrier behind what came after it.

    A set fails when confirm.timeout.ms have passed since it was taken from the queue, or when the broker refuses it.
    Sets with a key wait for their own broker; those without are moved when it cannot be reached (see Turns).
    """

    def __init__(self, broker_id: int, queue: BrokerQueue, *, turns: Turns, **shared: Any) -> None:
        super().__init__(broker_id, queue, **shared)
        self._turns = turns
        self._window = Window(WINDOW_SETS, WINDOW_BYTES)
        self._answer_timeout_ms = answer_timeout_ms(self._config)

    def _serve(self) -> bool:
        batch = self._take()
        if batch:
            self._admit(batch.moved)
            self._admit(self._join(batch.parcels))
        elif self._window.empty and self.queue.closed:
            return False
        if self._down:
            self._while_down()
        elif not self._window.empty:
            self._advance()
        return True

    def _take(self) -> Batch:
        if self._window.empty:
            return self.queue.take(self._idle_wait_s())
        if self._down:
            return self.queue.take_all()  # to be moved, or to run out of time
        return _NOTHING if self._window.waiting else self.queue.take(0)

    def _admit(self, sets: list[PartitionSet]) -> None:
        deadline_ms = _now_ms() + self._config.confirm_timeout_ms
        for each in sets:
            each.deadline_ms = each.deadline_ms or deadline_ms  # a moved one keeps its own
        self._window.add(sets)

    def _advance(self) -> None:
        """Send what can be sent, and take the answer if it has come or there is nothing better to do."""
        try:
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
                self._ask(connection)
                self._collect(connection)
        except (BrokerConnectionError, ProtocolError) as error:
            self._lost(error)

    def _send(self, connection: ProducerConnection) -> None:
        window = self._window
        sent = window.send()
        if not sent:
            return
        *requests, last = divided(sent)
        for request in requests:
            connection.push(produce_frame(request))
        frame = produce_frame(last)
        if not window.asked:
            window.ask()
            frame += BARRIER
        connection.push(frame)
        resent = sum(each.tries > 1 for each in sent)
        self._counts.add(sets_sent=len(sent) - resent, sets_resent=resent)

    def _must_wait(self, connection: ProducerConnection) -> bool:
        window = self._window
        if not window.unconfirmed:
            return False
        if connection.reconnect_is_due:
            return True
        return not window.can_send and (window.waiting > 0 or not self.queue.has_batch)

    def _ask(self, connection: ProducerConnection) -> None:
        if not self._window.asked:
            self._window.ask()
            connection.send(BARRIER)

    def _collect(self, connection: ProducerConnection) -> None:
        """Read an answer; when none is due, this finds out that the connection has ended."""
        connection.answer()
        if not self._window.asked:
            self._drop_connection()
            raise ProtocolError(f"broker {self.broker_id} answers what was not asked")
        self._finisher.done(self._window.answered())

    def _connect(self) -> ProducerConnection:
        """Connect, and have the broker prove that it serves the connection: a set is only blamed on such a one."""
        connection = self._connected(self._answer_timeout_ms)
        connection.open()
        self._limit(connection)
        connection.prove()
        self._mark_up()
        return connection

    def _limit(self, connection: ProducerConnection) -> None:
        deadline_ms = self._window.first_deadline_ms
        rest_ms = self._answer_timeout_ms if deadline_ms is None else deadline_ms - _now_ms()
        connection.limit(min(rest_ms, self._answer_timeout_ms))

    def _lost(self, error: Exception) -> None:
        """Take back what is in doubt, blame a set if only one can be to blame, and connect again."""
        window = self._window
        self._drop_connection()
        self._counts.add(broken_connections=1)
        if window.unconfirmed:
            logger.warning(
                "the connection to broker %d ended with %d sets unconfirmed, which will be sent again: %s",
                self.broker_id,
                window.unconfirmed,
                error,
            )
        blamed = window.lost()
        if blamed is not None and not timed_out(error):
            blamed.refusals += 1
            if blamed.refusals >= MAX_REFUSALS:
                self._refuse(blamed, error)
        self._expire()
        try:
            self._connect()
        except (BrokerConnectionError, ProtocolError) as still:
            self._mark_down(still)

    def _refuse(self, blamed: PartitionSet, error: Exception) -> None:
        self._window.remove(lambda each: each is blamed)
        self._counts.add(sets_refused=1)
        refusal = SetRefusedError(
            f"broker {self.broker_id} ended the connection {blamed.refusals} times when it got a set of"
            f" {len(blamed.data)} bytes for {blamed} alone: it refuses the set, and its log says why"
        )
        refusal.__cause__ = error
        self._finisher.failed(blamed, refusal)

    def _while_down(self) -> None:
        self._expire()
        moved = self._turns.move(self.broker_id, self._window.remove)
        if moved:
            self._counts.add(sets_moved=moved)
            logger.warning("%d sets without a key go elsewhere instead of to broker %d", moved, self.broker_id)
        rest_s = self._idle_wait_s() or 0.0
        if rest_s > 0:
            if not self._window.empty:
                time.sleep(min(rest_s, _POLL_S))
            return
        try:
            self._connect()
        except (BrokerConnectionError, ProtocolError) as error:
            self._drop_connection()
            self._mark_down(error)

    def _expire(self) -> None:
        now_ms = _now_ms()
        for late in self._window.remove(lambda each: each.deadline_ms <= now_ms):
            self._finisher.failed(late, timeout_error(str(late), self._config.confirm_timeout_ms, late.tries))

    def _give_up(self, error: Exception) -> None:
        self._window.lost()
        for each in self._window.remove(lambda _: True):
            self._finisher.failed(each, error)


def answer_timeout_ms(config: ProducerConfig) -> int:
    """Return how long to wait for one answer: a broker that hangs must leave time to try again, or elsewhere."""
    return min(config.socket_timeout_ms, max(config.confirm_timeout_ms // 3, 1))


def timed_out(error: Exception) -> bool:
    """Tell a broker that did not answer in time from one that ended the connection."""
    return isinstance(error.__cause__, TimeoutError)


def timeout_error(where: str, timeout_ms: int, tries: int) -> ConfirmTimeoutError:
    """Return the error for a set that was not confirmed in time."""
    fate = "it may have been written, or not" if tries else "it was not sent"
    return ConfirmTimeoutError(f"a set for {where} was not confirmed within {timeout_ms} ms ({tries} tries): {fate}")


def _now_ms() -> float:
    return time.monotonic() * 1000
