"""One client's connection: several of its requests may be under way, and their answers are sent in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gevent
from gevent.queue import Queue

from kafka2011.broker.connections.client_connection import RECEIVE_BYTES, Connection
from kafka2011.broker.connections.tls import TlsConnection
from kafka2011.broker.memory.memory_budget import MemoryRefusedError
from kafka2011.errors import BrokerConnectionError
from kafka2011.gateway.requests.context import Caller
from kafka2011.gateway.requests.dispatch import begin, is_produce
from kafka2011.wire.protocol import FrameReader

if TYPE_CHECKING:
    from kafka2011.gateway.requests.context import Gateway
    from kafka2011.gateway.requests.dispatch import Answer

LEAST_QUOTA_BYTES = 1024
"""Smaller answers hold no records to speak of, and are not counted."""
UNDER_WAY = 5
"""How many requests of a client may be under way; idempotent producers send no more at once."""


class _Serving:
    """Serves today's clients; mixed into a connection of the broker's, which has the limits of memory and frames."""

    __slots__ = ()

    def serve(self: Any, served: tuple[Gateway, Caller], max_frame_bytes: int) -> None:
        """Handle requests until the client ends the connection. Raises KafkaError for what is refused."""
        reader = FrameReader(max_frame_bytes)
        answers: Queue[tuple[Answer, int] | None] = Queue(UNDER_WAY)
        account = _Account(self)
        writer = gevent.spawn(account.write, answers)
        try:
            while self._await_feed(reader, RECEIVE_BYTES, None):
                self.claim.resize(reader.buffered_bytes)
                while (frame := reader.next_frame()) is not None:
                    account.hold(len(frame))
                    if self.quota is not None and is_produce(frame):
                        self.quota.produce(len(frame))
                    answers.put((begin(*served, frame), len(frame)))
                    self.claim.resize(reader.buffered_bytes)
                    self.pause()
            if self._unread_bytes is not None and account.failure is None:  # the gateway stops
                answers.put(None)
                writer.join()
        finally:
            writer.kill()
        if account.failure is not None:
            raise account.failure
        if self.claim.refused:
            raise MemoryRefusedError("its memory was needed by others")
        if reader.buffered_bytes:
            raise BrokerConnectionError(f"ended within a request, after {reader.buffered_bytes} bytes of it")

    def await_quota(self: Any, size: int) -> bool:
        """Wait until an answer of this size may be sent; False if the client goes meanwhile."""
        if self.quota is None or size < LEAST_QUOTA_BYTES:
            return True
        toll = self.quota.fetch((size,))
        return toll is None or bool(self._sit_out(self.quota, toll))


class _Account:
    """What the requests under way hold in memory, and what has gone wrong with an answer."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._held_bytes = 0
        self.failure: Exception | None = None

    def hold(self, size: int) -> None:
        """Hold so much more, less if negative; waits while the gateway's memory is exhausted."""
        self._held_bytes += size
        self._connection.opened_claim.resize(self._held_bytes)

    def write(self, answers: Queue[tuple[Answer, int] | None]) -> None:
        """Send answers in order until None comes. After a failure nothing more is sent."""
        while (item := answers.get()) is not None:
            answer, size = item
            try:
                if self.failure is None:
                    parts = answer()
                    self.hold(-size)
                    if parts is not None and self._connection.await_quota(sum(map(len, parts))):
                        self._connection.writer.send(tuple(map(bytes, parts)))
            except Exception as error:  # noqa: BLE001 - whoever reads raises it
                self.failure = error
                self._connection.stop_both()


class GatewayConnection(_Serving, Connection):  # type: ignore[misc]
    """A connection over plain TCP."""

    __slots__ = ()
    is_secured = False


class GatewayTlsConnection(_Serving, TlsConnection):  # type: ignore[misc]
    """A connection over TLS."""

    __slots__ = ()
    is_secured = True


def caller_of(connection: Any, gateway: Gateway, may_use: Any) -> tuple[Gateway, Caller]:
    """Return what the requests of a connection are handled with."""
    return gateway, Caller(connection.principal, connection.name, connection.is_secured, may_use)
