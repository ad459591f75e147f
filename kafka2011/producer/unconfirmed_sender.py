"""Sends without asking whether it arrived, as the paper's producer does: the fastest, and losing what a crash takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafka2011.errors import BrokerConnectionError
from kafka2011.producer.broker_sender import BrokerSender
from kafka2011.producer.requests import divided, produce_frame

if TYPE_CHECKING:
    from kafka2011.producer.parcel import PartitionSet


class UnconfirmedSender(BrokerSender):
    """Writes batch after batch; a batch is done when it was handed to the operating system.

    A request that could not be handed over whole is tried again up to num.retries times, before any later one, and
    then fails. It cannot arrive twice, since a broker does nothing with half a request.
    """

    _sets: list[PartitionSet] = []  # noqa: RUF012 (replaced, never changed)

    def _serve(self) -> bool:
        batch = self.queue.take(self._idle_wait_s())
        if batch:
            self._sets = self._join(batch.parcels)
            for request in divided(self._sets):
                self._send(request)
            self._sets = []
            return True
        if self.queue.closed:
            return False
        if self._down:
            self._try_to_connect()
        return True

    def _send(self, request: list[PartitionSet]) -> None:
        frame = produce_frame(request)
        for retries_left in range(self._config.num_retries, -1, -1):
            if self._down:
                time.sleep(self._idle_wait_s() or 0.0)
            for each in request:
                each.tries += 1
            try:
                self._write(frame)
            except BrokerConnectionError as error:
                self._mark_down(error)
                if retries_left == 0:
                    self._end(request, error)
                continue
            self._mark_up()
            self._end(request, None)
            return

    def _write(self, frame: bytes) -> None:
        connection = self._connected()
        broken = connection.broken
        try:
            connection.write(frame)
        finally:
            self._counts.add(broken_connections=connection.broken - broken)

    def _end(self, request: list[PartitionSet], error: Exception | None) -> None:
        resent = sum(each.tries - 1 for each in request)
        self._sets = [each for each in self._sets if each not in request]
        if error is None:
            self._counts.add(sets_sent=len(request), sets_resent=resent)
            self._finisher.done(request)
            return
        self._counts.add(sets_resent=resent)
        for each in request:
            self._finisher.failed(each, error)

    def _try_to_connect(self) -> None:
        if (self._idle_wait_s() or 0.0) > 0:
            return
        try:
            self._connected().open()
        except BrokerConnectionError as error:
            self._mark_down(error)
        else:
            self._mark_up()

    def _give_up(self, error: Exception) -> None:
        sets, self._sets = self._sets, []
        for each in sets:
            self._finisher.failed(each, error)
