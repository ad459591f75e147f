"""One client's connection: several of its requests may be under way, and their answers are sent in order."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import gevent
from gevent.queue import Queue

from kafka2011.broker.connections.client_connection import LARGE_RECEIVE_BYTES, RECEIVE_BYTES, Connection
from kafka2011.broker.connections.tls import TlsConnection
from kafka2011.broker.memory.memory_budget import MemoryRefusedError
from kafka2011.broker.memory.small_share import FREE_BYTES
from kafka2011.errors import BrokerConnectionError
from kafka2011.gateway.requests.context import Caller
from kafka2011.gateway.requests.dispatch import begin, is_produce
from kafka2011.wire.protocol import FrameReader

if TYPE_CHECKING:
    from kafka2011.broker.memory.memory_budget import MemoryClaim
    from kafka2011.broker.memory.small_share import SmallClaim
    from kafka2011.gateway.requests.context import Gateway
    from kafka2011.gateway.requests.dispatch import Answer, Parts

    Answers = Queue[tuple[Answer, "_Held | int"] | None]

WAITED_S = 0.0001
"""Receiving takes longer than this only where it has to wait, and then others have run."""
UNDER_WAY = 250
"""How many requests of a client may be under way. Idempotent producers send five at most, others as many as they like;
all that come while the disk is written share the next write."""
JOINED_BYTES = 1024
"""Answers up to this size are sent together, if several are there. They hold no records, and no quota counts them."""
MOST_JOINED_BYTES = 16 * JOINED_BYTES
SENT_BYTES = 256 * 1024
"""A client that has taken this many bytes of an answer counts as alive; that part of the answer is held no more."""
MOST_SHARE = 8
"""An answer with records takes at most this part of `queued.max.bytes`."""
SHORT_BYTES = 32 * 1024
"""The size of answers with records while the gateway's memory is short."""


class _Serving:
    """Serves today's clients; mixed into a connection of the broker's, which has the limits of memory and frames."""

    __slots__ = ()

    def serve(self: Any, served: tuple[Gateway, Caller], max_frame_bytes: int) -> None:
        """Handle requests until the client ends the connection. Raises KafkaError for what is refused."""
        reader = FrameReader(max_frame_bytes)
        answers: Answers = Queue(UNDER_WAY)
        account = _Account(self)
        served[1].reserve = account.answer.reserve
        writer = gevent.spawn(account.write, answers)
        try:
            while self._await_feed(reader, self._receive_bytes(reader), None):
                left_bytes = reader.buffered_bytes
                self.claim.resize(self._small.hold(left_bytes))
                while (frame := reader.next_frame()) is not None:
                    self._small.finish()
                    held = account.hold(len(frame))
                    if self.quota is not None and is_produce(frame):
                        self.quota.produce(len(frame))
                    answers.put((begin(*served, frame), held))
                    left_bytes = reader.buffered_bytes
                    if left_bytes:
                        self.claim.resize(self._small.hold(left_bytes))
                    self.pause()
                self._keep(left_bytes)
            if self._unread_bytes is not None and account.failure is None:  # the gateway stops
                answers.put(None)
                writer.join()
        finally:
            writer.kill()
            account.close()
        if account.failure is not None:
            raise account.failure
        if self.claim.refused:
            raise MemoryRefusedError("its memory was needed by others")
        if reader.buffered_bytes:
            raise BrokerConnectionError(f"ended within a request, after {reader.buffered_bytes} bytes of it")

    @staticmethod
    def _receive_bytes(reader: FrameReader) -> int:
        return RECEIVE_BYTES if reader.missing_bytes() <= RECEIVE_BYTES else LARGE_RECEIVE_BYTES

    def _receive(self: Any, most_bytes: int) -> bytes:
        began_s = time.monotonic()
        data: bytes = super()._receive(most_bytes)  # type: ignore[misc]
        if time.monotonic() - began_s > WAITED_S:
            self._turn.end()
        return data

    def new_small_claim(self: Any) -> SmallClaim:
        """Return another claim on what connections may hold beside `queued.max.bytes`."""
        claim: SmallClaim = self._small.share.claim(self.name, self._evict)
        return claim

    def await_quota(self: Any, size: int) -> bool:
        """Wait until an answer of this size may be sent; False if the client goes meanwhile."""
        if self.quota is None or size <= JOINED_BYTES:
            return True
        toll = self.quota.fetch((size,))
        return toll is None or bool(self._sit_out(self.quota, toll))


class _Held:
    """What one request under way, or one answer, holds in memory. No two greenlets may change it at once.

    Its first bytes are held beside `queued.max.bytes`, so that small requests are answered when that is exhausted.
    """

    __slots__ = ("_claim", "_small", "size")

    def __init__(self, connection: Any) -> None:
        self._claim: MemoryClaim = connection.claim.budget.claim(connection.name, connection.stop_both)
        self._small: SmallClaim = connection.new_small_claim()
        self.size = 0

    def resize(self, size: int) -> None:
        """Hold `size` bytes from now on; waits while the gateway's memory is exhausted. Raises MemoryRefusedError."""
        if size == self.size:
            return
        self.size = size
        self._claim.resize(self._small.hold(size))

    def reserve(self, size: int) -> int:
        """Hold `size` bytes for an answer, or fewer while memory is short; return how many it may have."""
        self.resize(0)
        budget = self._claim.budget
        size = min(size, budget.max_bytes // MOST_SHARE)
        if budget.waiting or budget.held_bytes + size > budget.max_bytes:
            size = min(size, SHORT_BYTES)
        self.resize(size)
        return size


class _Account:
    """The requests under way and the answer that is written, what they hold, and what has gone wrong with an answer."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._requests: set[_Held] = set()
        self._small: SmallClaim = connection.new_small_claim()
        self._small_bytes = 0
        self._joined: Parts = []
        self._joined_bytes = 0
        self.answer = _Held(connection)
        self.failure: Exception | None = None

    def hold(self, size: int) -> _Held | int:
        """Hold a request of this size; waits while the gateway's memory is exhausted. Raises MemoryRefusedError.

        Small ones are held together.
        """
        if self._small_bytes + size <= FREE_BYTES:
            self._small_bytes += size
            if not self._small.hold(self._small_bytes):
                return size
            self._end(size)
        held = _Held(self._connection)
        self._requests.add(held)
        held.resize(size)
        return held

    def write(self, answers: Answers) -> None:
        """Send answers in order until None comes. After a failure nothing more is sent."""
        while (item := self._next(answers)) is not None:
            answer, request = item
            try:
                if self.failure is None:
                    parts = answer(self.flush)
                    self._end(request)
                    if parts is not None:
                        self._add(parts)
                    self.answer.resize(0)
            except Exception as error:  # noqa: BLE001 - whoever reads raises it
                self._fail(error)
        self._flush_last()

    def _next(self, answers: Answers) -> tuple[Answer, _Held | int] | None:
        if answers.empty():
            self._flush_last()
        return answers.get()

    def _flush_last(self) -> None:
        try:
            if self.failure is None:
                self.flush()
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.failure = error
        self._connection.stop_both()

    def close(self) -> None:
        """Give everything back."""
        for request in [*self._requests]:
            self._end(request)
        self._end(self._small_bytes)
        self.answer.resize(0)

    def _end(self, request: _Held | int) -> None:
        if isinstance(request, int):
            self._small_bytes -= request
            self._small.hold(self._small_bytes)
        else:
            self._requests.discard(request)
            request.resize(0)

    def _add(self, parts: Parts) -> None:
        size = sum(map(len, parts))
        if size > JOINED_BYTES or self._joined_bytes > MOST_JOINED_BYTES:
            self.flush()
        if size > JOINED_BYTES:
            self._send(parts)
            return
        self._joined += parts
        self._joined_bytes += size

    def flush(self) -> None:
        """Send the small answers that are there, before something waits."""
        if self._joined:
            parts, self._joined, self._joined_bytes = self._joined, [], 0
            self._connection.writer.send_bytes(b"".join(parts))

    def _send(self, parts: Parts) -> None:
        size = sum(map(len, parts))
        self.answer.resize(size)
        if not self._connection.await_quota(size):
            return
        writer = self._connection.writer
        if size <= SENT_BYTES:
            writer.send(tuple(map(bytes, parts)))
            return
        for part in parts:
            view = memoryview(part)
            for at in range(0, len(part), SENT_BYTES):
                piece = bytes(view[at : at + SENT_BYTES])
                writer.send_bytes(piece)
                self.answer.resize(self.answer.size - len(piece))


class GatewayConnection(_Serving, Connection):  # type: ignore[misc]
    """A connection over plain TCP."""

    __slots__ = ()


class GatewayTlsConnection(_Serving, TlsConnection):  # type: ignore[misc]
    """A connection over TLS."""

    __slots__ = ()


def caller_of(connection: Any, gateway: Gateway, may_use: Any) -> tuple[Gateway, Caller]:
    """Return what the requests of a connection are handled with."""
    return gateway, Caller(connection.principal, connection.name, not connection.is_plain, may_use)
