"""A client's connection to one of several replicas: which of its requests are taken, and when it is answered."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kafka2011.broker.connections.client_connection import Handlers
from kafka2011.broker.requests.handlers import RefusedError
from kafka2011.replica.codec import REPLICA_FETCH
from kafka2011.replica.in_sync import LeadLostError
from kafka2011.replica.standing import REPLICA_STANDING
from kafka2011.wire.protocol import FETCH, MULTIFETCH, MULTIPRODUCE, PRODUCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.broker.replication.leading import Leading
    from kafka2011.broker.requests.handlers import Reply
    from kafka2011.broker.requests.receive_buffer import ReceiveBuffer, Received
    from kafka2011.log.log import Log
    from kafka2011.message.header import AnyBytes

_TYPE = struct.Struct(">h")
_NO_PARTS = b"\0\0"


class LedClient:
    """One client's connection to a replica, which leads or not when it begins: that holds for all its requests."""

    def __init__(self, leading: Leading | None) -> None:
        self._leading = leading
        self._account = None if leading is None else leading.term.new_client()
        self._is_reader = False

    def check(self, *, is_produce: bool = False) -> None:
        """Raise RefusedError unless a request of it is to be answered, or what it sends to be taken."""
        leading = self._led()
        if is_produce:
            leading.check_produce()
        else:
            leading.check()

    def note_fetch(self) -> None:
        """Note that it has fetched: what it asks without naming a partition confirms nothing."""
        self._is_reader = True

    def appended(self, log: Log, end: int) -> None:
        """Note what was appended for it, and the offset after that. Raises LeadLostError."""
        leading = self._led()
        assert self._account is not None
        leading.client_appended(self._account, log, end)

    def await_barrier(self) -> None:
        """Wait until all that was appended for it may be confirmed. Raises LeadLostError and RefusedError."""
        leading = self._led()
        assert self._account is not None
        if not self._is_reader:
            leading.check_produce()
        leading.await_barrier(self._account)

    def _led(self) -> Leading:
        leading = self._leading
        if leading is None:
            raise RefusedError("this replica does not lead")
        if leading.term.has_ended:
            raise LeadLostError("the lead was lost since the client connected")
        return leading

    def handlers(self, handlers: Handlers, answer_replica: Callable[[AnyBytes], Reply | None]) -> Handlers:
        """Return handlers that take and answer only what a leader may; followers' frames go to `answer_replica`."""

        def handle_frame(frame: AnyBytes, following: list[bytes]) -> Reply | None:
            kind = _TYPE.unpack_from(frame)[0] if len(frame) >= _TYPE.size else -1
            if kind == REPLICA_FETCH:
                return answer_replica(frame)
            if kind == REPLICA_STANDING:
                return self._led().standings()
            self.check(is_produce=kind in {PRODUCE, MULTIPRODUCE})
            if kind == MULTIFETCH and frame[_TYPE.size : 2 * _TYPE.size] == _NO_PARTS:
                self.await_barrier()
            elif kind in {FETCH, MULTIFETCH}:
                self.note_fetch()
            reply = handlers.frame(frame, following)
            if reply is not None:
                self._check_answer(reply)
            return reply

        def append_runs(buffer: ReceiveBuffer, received: Received) -> int:
            if received.runs:
                self.check(is_produce=True)
            return handlers.runs(buffer, received)

        return Handlers(handle_frame, append_runs, handlers.times)

    def _check_answer(self, reply: Reply) -> None:
        """Raise RefusedError if the lead may have been lost while a request was handled."""
        try:
            self.check()
        except BaseException:
            reply.release()
            raise
