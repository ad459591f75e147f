"""One client's connection to a broker: frames in, replies out, strictly in order; it knows nothing of logs.

Each request is handled in full, and its reply sent, before the next is looked at.
"""

from __future__ import annotations

import fcntl
import logging
import math
import select
import socket as stdlib_socket
import struct
import termios
import time
from array import array
from functools import partial
from typing import TYPE_CHECKING

import gevent
from gevent import socket
from gevent.event import Event
from gevent.hub import Waiter

from kafka2011.broker.connections.answer_writer import CONNECTION_ERRORS, AnswerWriter
from kafka2011.broker.connections.receiving import READ, Receiving
from kafka2011.broker.memory.memory_budget import MemoryRefusedError
from kafka2011.broker.requests import receive_buffer
from kafka2011.broker.requests.parking import WaitEnd
from kafka2011.broker.requests.receive_buffer import SIZE_BYTES
from kafka2011.broker.security.certificates import NOBODY
from kafka2011.errors import BrokerConnectionError
from kafka2011.wire.protocol import FrameReader

if TYPE_CHECKING:
    from collections import Counter

    from kafka2011.broker.connections.answer_threads import AnswerThreads
    from kafka2011.broker.memory.request_memory import RequestMemory
    from kafka2011.broker.requests.handlers import Reply
    from kafka2011.broker.requests.parking import Awaited, ParkedRequest, Parking
    from kafka2011.broker.requests.pipeline import RequestPipeline
    from kafka2011.broker.requests.receive_buffer import ReceiveBuffer, ReceiveBuffers, Received
    from kafka2011.broker.security.quota import ClientQuota, Toll
    from kafka2011.message.header import AnyBytes

logger = logging.getLogger(__name__)

RECEIVE_BYTES = 64 * 1024
LARGE_RECEIVE_BYTES = 256 * 1024
LARGE_TURN_WAIT_S = 0.5
"""How long a large request waits for a turn before it goes on without one: less than the budget's patience."""
DELAY_STEP_S = 0.5
"""How long a connection over its quota sleeps at once; then it looks whether its client is still there."""
LEAST_DELAY_S = 0.005
"""It does not sleep for less: what is owed adds up."""

_NO_LINGER = struct.pack("ii", 1, 0)


class Connection(Receiving):
    """An accepted connection, and the resources that it holds in the broker. Owns its socket until `close`."""

    __slots__ = (
        "_behind_bytes",
        "_buffers",
        "_delay_ends",
        "_has_large_turn",
        "_large_turns",
        "_parked",
        "_reader",
        "_waited_s",
        "is_reading",
        "name",
        "opened_claim",
        "principal",
        "quota",
        "writer",
    )

    def __init__(
        self,
        accepted: socket.socket,
        name: str,
        memory: RequestMemory,
        counts: Counter[str],
        buffers: ReceiveBuffers | None,
        threads: AnswerThreads,
    ) -> None:
        super().__init__(accepted, counts, memory.large_bytes)
        self.name = name
        self.principal = NOBODY
        self.claim = memory.budget.claim(name, self.stop_both)
        self.opened_claim = memory.budget.claim(name, self.stop_both)
        self._small = memory.small_share.claim(name, self._evict)
        self._large_turns = memory.large_turns
        self._buffers = buffers
        self._behind_bytes = 0  # in a buffer behind the request that is being handled
        self._has_large_turn = False
        self.writer = AnswerWriter(accepted, counts, self._turn, threads)
        self._reader: FrameReader | None = None
        self._parked: tuple[Parking, ParkedRequest] | None = None
        self._delay_ends: Event | None = None  # once it has been over its quota
        self._waited_s = 0.0  # by the request in hand, for what is not there yet or because of a quota
        self.quota: ClientQuota | None = None
        self.is_reading = False  # it waits for what comes from the client, or is about to take it

    def stop_reading(self) -> None:
        """Make the requests that have arrived the last: nothing more is read from now on."""
        if self._unread_bytes is None:
            self._unread_bytes = arrived_bytes(self.socket)
        self._end_wait(WaitEnd.STOPPED)
        shut(self.socket, stdlib_socket.SHUT_RD, self.name)  # wakes the reader; some kernels deliver more even so

    @property
    def has_arrived(self) -> bool:
        """Whether there are bytes that have not been read yet."""
        return arrived_bytes(self.socket) > 0

    def stop_both(self) -> None:
        """End the connection wherever it stands."""
        self._end_wait(WaitEnd.GONE)
        reset_on_close(self.socket)
        shut(self.socket, stdlib_socket.SHUT_RDWR, self.name)

    def park(self, parking: Parking, awaited: Awaited, max_wait_s: float) -> bool:
        """Wait in the middle of a request, but not while there is another behind it; False if the client has gone.

        Its socket is watched meanwhile: for its end, and for more requests, which end the wait, too.
        """
        if self._unread_bytes is not None or self._has_more():
            return True
        hub = gevent.get_hub()
        waiter: Waiter[None] = Waiter(hub)
        parked = parking.park(awaited, max_wait_s, partial(hub.loop.run_callback, waiter.switch, None))
        if parked is None:
            return True
        self._parked = parking, parked
        began_s = time.monotonic()
        if self._readable is None:
            self._readable = hub.loop.io(self.socket.fileno(), READ)
        try:
            self._readable.start(self._look_behind)
            waiter.get()
        finally:
            self._readable.stop()
            self._end_wait(WaitEnd.GONE)  # if this was ended from outside
            self._parked = None
            self._turn.end()
            self._waited_s += time.monotonic() - began_s
        return parked.end is not WaitEnd.GONE

    def _has_more(self) -> bool:
        """Say whether more has been read than the request that is being handled."""
        return self._behind_bytes > 0 or (self._reader is not None and self._reader.buffered_bytes > 0)

    def _look_behind(self) -> None:
        """End the wait of the parked request, as there is something to be read."""
        self._end_wait(WaitEnd.MORE if arrived_bytes(self.socket) else WaitEnd.GONE)

    def _end_wait(self, why: WaitEnd) -> None:
        if self._parked is not None:
            parking, parked = self._parked
            parking.end(parked, why)
        if self._delay_ends is not None:
            self._delay_ends.set()

    def _sit_out(self, quota: ClientQuota, toll: Toll) -> bool:
        """Wait as a quota wants it, unless the connection is to end; False if the client goes meanwhile."""
        if toll.wait_s() < LEAST_DELAY_S:
            return True
        began_s = time.monotonic()
        quota.note_wait(toll, toll.wait_s())
        if self._delay_ends is None:
            self._delay_ends = Event()
        try:
            while self._unread_bytes is None and not self.claim.refused:
                wait_s = toll.wait_s()
                if wait_s < LEAST_DELAY_S:
                    break
                self._delay_ends.clear()
                self._delay_ends.wait(min(wait_s, DELAY_STEP_S))
                if self._unread_bytes is None and self._has_gone():  # stopping looks like it
                    return False
        finally:
            took_s = time.monotonic() - began_s
            self._waited_s += took_s
            self.counts[f"throttled_ms_{toll.what}"] += math.ceil(took_s * 1000)
            self._turn.end()
        return not self.claim.refused

    def _has_gone(self) -> bool:
        """Say whether the client has ended the connection, and nothing of it is left to be read."""
        return has_gone(self.socket)

    def begin(self) -> None:
        """Do what comes before the first request: nothing, where the port is plain."""

    def serve(self, pipeline: RequestPipeline, max_frame_bytes: int) -> None:
        """Handle requests until the client ends the connection. Raises KafkaError for what is refused."""
        self._reader = reader = FrameReader(max_frame_bytes)
        claim, small = self.claim, self._small
        receive_bytes = RECEIVE_BYTES
        while received_bytes := self._await_feed(reader, receive_bytes, pipeline):
            buffered_bytes = reader.buffered_bytes
            claim.resize(small.hold(buffered_bytes))
            if buffered_bytes > self._large_bytes and not self._has_large_turn:
                self._has_large_turn = self._large_turns.acquire(timeout=LARGE_TURN_WAIT_S)
            while (frame := reader.next_frame()) is not None:
                self._handle(frame, reader.following_produces(frame), pipeline)
            buffered_bytes = reader.buffered_bytes
            self._keep(buffered_bytes)
            has_more = received_bytes == receive_bytes or (
                buffered_bytes > 0 and reader.missing_bytes() > RECEIVE_BYTES
            )
            receive_bytes = RECEIVE_BYTES
            if has_more:
                receive_bytes = LARGE_RECEIVE_BYTES
                self.pause()  # it may come as fast as it is read
        if claim.refused:
            raise MemoryRefusedError("its memory was needed by others")
        if reader.buffered_bytes:
            raise BrokerConnectionError(f"ended within a request, after {reader.buffered_bytes} bytes of it")

    def _handle(self, frame: AnyBytes, following: list[bytes], pipeline: RequestPipeline) -> None:
        """Have one request handled, with the sets of produces like it behind it, and answer it."""
        self._small.finish()
        times = pipeline.times
        began_s = 0.0
        if times.is_next():
            self._waited_s, began_s = 0.0, time.monotonic()
        reply = pipeline.handle(frame, following)
        if reply is not None:
            self._answer(reply)
        if began_s:
            times.note(frame[1], time.monotonic() - began_s - self._waited_s, 1 + len(following))
        self.pause()

    def _keep(self, buffered_bytes: int) -> None:
        """Hold what is left when all whole requests were handled: the beginning of one, or nothing."""
        if buffered_bytes and not self._small.is_unfinished:
            self._small.begin()
        self.claim.resize(self._small.hold(buffered_bytes))
        if buffered_bytes <= self._large_bytes:
            self._end_large_turn()

    def finish(self) -> None:
        """Do what comes after the last answer: nothing, where the port is plain."""

    def close(self) -> None:
        """Close the socket and give back all memory; may be called twice."""
        self._end_large_turn()
        self._small.finish()
        self._small.hold(0)
        self.claim.resize(0)
        self.opened_claim.resize(0)
        if self._readable is not None:
            self._readable.close()
            self._readable = None
        self.socket.close()

    def _evict(self) -> None:
        self.claim.refuse()
        self.stop_both()

    def _end_large_turn(self) -> None:
        if self._has_large_turn:
            self._has_large_turn = False
            self._large_turns.release()

    def _await_feed(self, reader: FrameReader, most_bytes: int, pipeline: RequestPipeline) -> int:
        """Do as `_feed` does, once what the client has sent before is within its quota."""
        quota = self.quota
        if quota is not None and quota.unpaid is not None:
            self._sit_out(quota, quota.unpaid)
            quota.unpaid = None
        self.is_reading = True
        try:
            return self._feed(reader, most_bytes, pipeline)
        finally:
            self.is_reading = False

    def _feed(self, reader: FrameReader, most_bytes: int, pipeline: RequestPipeline) -> int:
        """Give the reader what has arrived, and keep none of it here; return its size, 0 when no more is to come.

        The reader gets what is left once C has found plain produces at the beginning, and they were appended.
        """
        buffers, code = self._buffers, receive_buffer.compiled
        kept, whole_bytes = reader.unfinished()
        while buffers is not None and whole_bytes <= buffers.size_bytes:
            self.pause()
            wanted_bytes = self._wanted_bytes(buffers.size_bytes - len(kept))
            if wanted_bytes <= 0:
                return 0
            buffer = buffers.take()
            if buffer is None:
                break
            try:
                try:
                    received = buffer.receive(self.socket.fileno(), kept, wanted_bytes)
                except OSError as error:
                    return len(self._unreadable(error))
                if received is not None:
                    self._count(received.size)
                    self._take(buffer, received, reader, pipeline)
                    return received.size
            finally:
                buffers.give_back(buffer)
            self._await_bytes()
        if code is not None and self.is_plain and whole_bytes - len(kept) > RECEIVE_BYTES:
            return self._receive_behind(code, kept, whole_bytes, LARGE_RECEIVE_BYTES)
        data = self._receive(most_bytes)
        reader.receive_data(data)
        return len(data)

    def _take(self, buffer: ReceiveBuffer, received: Received, reader: FrameReader, pipeline: RequestPipeline) -> None:
        """Have the runs appended and the questions between them answered; the reader gets what is left."""
        if received.is_more:
            reader.continue_unfinished(buffer.rest(received.rest_start, received.rest_end))
            return
        end = received.rest_end
        while True:
            if received.runs:
                self._small.finish()
            start = pipeline.append_runs(buffer, received)
            if start == end or start != received.rest_start or (question := buffer.question(start, end)) is None:
                break
            start += SIZE_BYTES + len(question)
            self._behind_bytes = end - start
            try:
                self._handle(question, [], pipeline)
            finally:
                self._behind_bytes = 0
            received = buffer.look_again(start, end)
        reader.restart(buffer.rest(start, end))

    def _answer(self, reply: Reply) -> None:
        try:
            if self.quota is None or self._await_turn(self.quota, reply):
                self.writer.send(reply.parts)
        finally:
            reply.release()

    def _await_turn(self, quota: ClientQuota, reply: Reply) -> bool:
        """Wait until an answer may be sent, with no file open; False if the client goes meanwhile."""
        pieces = [part for part in reply.parts if not isinstance(part, bytes)]
        toll = quota.fetch(piece.size for piece in pieces)
        if toll is None or toll.wait_s() < LEAST_DELAY_S:
            return True
        may_go = False
        try:
            for piece in pieces:
                piece.park()
            may_go = self._sit_out(quota, toll)
        finally:
            if not may_go:
                toll.give_back()
        return may_go


def reset_on_close(connection: socket.socket) -> None:
    """Have the other end told at once when a connection is closed, even if it waits to send more.

    Else it finds out when it tries again, which may be a minute later.
    """
    try:
        connection.setsockopt(stdlib_socket.SOL_SOCKET, stdlib_socket.SO_LINGER, _NO_LINGER)
    except OSError as error:
        logger.debug("a connection cannot be reset: %s", error)


def shut(connection: socket.socket, how: int, name: str) -> None:
    """Shut one or both directions of a connection, which may have ended."""
    try:
        connection.shutdown(how)
    except OSError as error:
        if error.errno not in CONNECTION_ERRORS:
            logger.warning("shutting down the connection from %s: %s", name, error)


def arrived_bytes(connection: socket.socket) -> int:
    """Return how much has come and was not read."""
    arrived = array("i", [0])
    fcntl.ioctl(connection.fileno(), termios.FIONREAD, arrived)
    return arrived[0]


def has_gone(connection: socket.socket) -> bool:
    """Say whether the client has ended the connection, and nothing of it is left to be read."""
    events = select.poll()
    events.register(connection.fileno(), select.POLLIN)
    polled = events.poll(0)
    if not polled:
        return False
    return bool(polled[0][1] & (select.POLLHUP | select.POLLERR)) or not arrived_bytes(connection)
